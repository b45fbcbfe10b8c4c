//! `tiergate import`: policies from the configuration files of other systems.

use crate::config::{FILE_LEN_MAX, read_text, read_text_lossily};
use crate::import::{Imported, haproxy, nginx, options_conf};
use std::path::{Path, PathBuf};

/// Where the paper's Apache listens.
pub const ORIGIN: &str = "127.0.0.1:8080";
/// Most files that a pattern of `include` may mean.
const FILES_MAX: usize = 256;
/// How many folders around that of a file are searched for what it includes.
const PARENTS_MAX: usize = 3;

/// What is imported.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum System {
    /// nginx.conf, with the files that it includes
    Nginx {
        /// The nginx.conf, or a file of conf.d
        file: PathBuf,
    },
    /// haproxy.cfg
    Haproxy {
        /// The haproxy.cfg
        file: PathBuf,
    },
    /// The options.conf of DiffServer
    Diffserver {
        /// The options.conf
        file: PathBuf,
        /// The origin server
        #[arg(long, value_name = "HOST:PORT", default_value = ORIGIN)]
        origin: String,
    },
}

/// Reads the file and returns the policy that means the same. What is not taken over is listed at its end, and counted on standard error.
///
/// # Errors
/// When the file cannot be read, is too large, or has lines that mean nothing.
pub fn import(system: &System) -> anyhow::Result<String> {
    let Imported { policy, notes, less_safe } = match system {
        System::Diffserver { file, origin } => return options_conf(file, origin),
        System::Nginx { file } => {
            let text = read_text_lossily(file, FILE_LEN_MAX)?;
            let is_whole = is_whole(&text);
            let open = |pattern: &str| included(file, is_whole, pattern);
            nginx::policy(&text, &file.to_string_lossy(), &open)?
        }
        System::Haproxy { file } => {
            let text = read_text(file, FILE_LEN_MAX)?;
            haproxy::policy(&text, &file.to_string_lossy(), &|name| std::env::var(name).ok())?
        }
    };
    if !notes.is_empty() {
        eprintln!(
            "tiergate: {} lines were not taken over as they are: see the end of the policy",
            notes.len()
        );
    }
    if less_safe > 0 {
        eprintln!(
            "tiergate: in {less_safe} places the policy is LESS SAFE than the original: see the heading of that name"
        );
    }
    Ok(policy)
}

/// Whether a text is an nginx.conf, and not one of the files that it includes: only that has these blocks.
fn is_whole(text: &str) -> bool {
    let mut pieces = text.split([';', '{', '}', '\n']).map(str::trim);
    pieces.any(|it| matches!(it, "events" | "http"))
}

/// The files that a pattern of `include` means; none if they are not here.
///
/// nginx takes names from the folder of nginx.conf. If the first file is one that nginx.conf includes, they are looked for in its own folder and then in those
/// around it, up to the one with nginx.conf.
fn included(first: &Path, is_whole: bool, pattern: &str) -> Result<Vec<(String, String)>, String> {
    let own = first.parent().unwrap_or(Path::new(""));
    let mut folders = vec![own.to_owned()];
    if !is_whole && let Ok(file) = std::path::absolute(first) {
        folders.extend(file.ancestors().skip(2).take(PARENTS_MAX).map(Path::to_owned));
    }
    for folder in &folders {
        let files = matching(&folder.join(pattern))?;
        if !files.is_empty() {
            return Ok(files);
        }
        if folder.join("nginx.conf").exists() {
            break;
        }
    }
    let path = own.join(pattern);
    let is_pattern = pattern.contains(['*', '?', '[']);
    let is_there = path.parent().is_some_and(|it| it.as_os_str().is_empty() || it.exists());
    match (is_pattern, is_whole) {
        (false, true) => Err(format!("{} cannot be read", path.display())),
        (false, false) => Err(format!(
            "{} cannot be read: names are from the folder of nginx.conf; import that",
            path.display()
        )),
        // The folder has no such file, so nginx finds none there either.
        (true, true) if is_there => Ok(vec![(path.to_string_lossy().into_owned(), String::new())]),
        (true, _) => Ok(Vec::new()),
    }
}

/// The files that a pattern means, with their texts.
fn matching(pattern: &Path) -> Result<Vec<(String, String)>, String> {
    let pattern = pattern.to_string_lossy();
    // As the shell and nginx do, hidden files are left out.
    let options = glob::MatchOptions { require_literal_leading_dot: true, ..Default::default() };
    let paths =
        glob::glob_with(&pattern, options).map_err(|fault| format!("{pattern}: {}", fault.msg))?;
    let mut files = Vec::new();
    for path in paths.take(FILES_MAX) {
        let path = path.map_err(|fault| fault.to_string())?;
        let text = read_text_lossily(&path, FILE_LEN_MAX).map_err(|fault| fault.to_string())?;
        files.push((path.to_string_lossy().into_owned(), text));
    }
    Ok(files)
}

/// Reads DiffServer's options.conf and returns the policy that means the same.
///
/// # Errors
/// When the file cannot be read, is too large, or has lines that mean nothing: all of them.
pub fn options_conf(path: &Path, origin: &str) -> anyhow::Result<String> {
    let (name, text) = (path.to_string_lossy(), read_text(path, FILE_LEN_MAX)?);
    let policy = options_conf::policy(&text, &name, origin)?;
    // What is written is what would be read: an origin that is no server is told now.
    crate::config::parse(&policy, &format!("the policy of {name}"))?;
    Ok(policy)
}
