//! Reads the files of a policy: the one that is named, and those that its `include` names.
//!
//! A file's own tables come before those of the files that it includes, which come in the order of the list, and under
//! a pattern in that of their names.

use super::environment;
use super::place::{File, Place};
use super::source::Sources;
use super::text::{FILE_LEN_MAX, read_text};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The key that names further files.
pub(super) const INCLUDE: &str = "include";
/// Most names and patterns of a list.
pub(super) const LIST_LEN_MAX: usize = 64;
/// Most files of a policy.
const COUNT_MAX: usize = 256;
/// How deep a file that is included may include others: more is hardly to be followed.
const DEPTH_MAX: usize = 8;

/// A policy's file and those that it includes, from the disk.
pub(super) fn read(
    name: &str,
    text: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Sources {
    let mut gathering = Gathering {
        sources: Sources::of(name, text),
        open: fs::canonicalize(name).into_iter().collect(),
        closed: Vec::new(),
        environment,
    };
    gathering.sources.folders.push(folder_of(Path::new(name)));
    gathering.include(0);
    let mut sources = gathering.sources;
    sources.folders.sort_unstable();
    sources.folders.dedup();
    sources
}

/// The folder that a file is in.
fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// While the files are read.
struct Gathering<'e> {
    sources: Sources,
    /// The files that are just being followed, each included by the one before.
    open: Vec<PathBuf>,
    /// The others that were read.
    closed: Vec<PathBuf>,
    environment: &'e dyn Fn(&str) -> Option<String>,
}

impl Gathering<'_> {
    /// Reads what a file includes.
    fn include(&mut self, from: usize) {
        let text = self.sources.files[from].text.clone();
        // Most files include none.
        if !text.contains(INCLUDE) {
            return;
        }
        for (index, (at, pattern)) in patterns(&text).into_iter().enumerate() {
            let fault = match self.matching(from, &pattern) {
                Ok(paths) => {
                    paths.iter().filter_map(|path| self.take(path).err()).collect::<Vec<_>>()
                }
                Err(fault) => vec![fault],
            };
            let begin = self.sources.files[from].begin;
            let key = format!("{INCLUDE}[{}]", index + 1);
            let faults = fault.into_iter().map(|message| (begin + at.start, key.clone(), message));
            self.sources.faults.extend(faults);
        }
    }

    /// The files that a pattern of a file means, by name.
    fn matching(&mut self, from: usize, pattern: &str) -> Result<Vec<PathBuf>, String> {
        let pattern = environment::expanded(pattern, &|name| match name.contains(':') {
            true => Err("must not be made of files' contents".to_owned()),
            false => environment::of_environment(name, self.environment),
        })?;
        let pattern = pattern.as_str();
        let path = folder_of(Path::new(&*self.sources.files[from].name)).join(pattern);
        let path = path.strip_prefix("./").map(Path::to_owned).unwrap_or(path);
        let (folder, name) = (folder_of(&path), path.file_name().unwrap_or_default());
        let wild = |text: &str| text.contains(['*', '?', '[']);
        if pattern.is_empty() || name.is_empty() {
            return Err(
                "must be the name of a file, or a pattern such as \"conf.d/*.toml\"".to_owned()
            );
        }
        if wild(&folder.to_string_lossy()) {
            return Err(format!("must have * and ? in the name of the file only, got {pattern:?}"));
        }
        self.sources.folders.push(folder.clone());
        let name = name.to_string_lossy();
        if !wild(&name) {
            return Ok(vec![path]);
        }
        let matcher = glob::Pattern::new(&name)
            .map_err(|fault| format!("is no pattern of file names: {}", fault.msg))?;
        let entries = fs::read_dir(&folder)
            .map_err(|fault| format!("{} cannot be read: {fault}", folder.display()))?;
        // What an editor leaves, and what begins with a dot, is none of the policy.
        let options = glob::MatchOptions {
            case_sensitive: true,
            require_literal_separator: false,
            require_literal_leading_dot: true,
        };
        let mut names = Vec::new();
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name();
            if !matcher.matches_with(&name.to_string_lossy(), options) {
                continue;
            }
            let Some(name) = name.to_str() else {
                return Err(format!(
                    "{} has {name:?}, whose name is no UTF-8: rename it",
                    folder.display()
                ));
            };
            names.push(name.to_owned());
            if names.len() > COUNT_MAX {
                break;
            }
        }
        names.sort_unstable();
        let at = |name: String| match pattern.contains('/') || path.parent() != Some(Path::new(""))
        {
            true => folder.join(name),
            false => PathBuf::from(name),
        };
        Ok(names.into_iter().map(at).collect())
    }

    /// Reads a file, and what it includes.
    fn take(&mut self, path: &Path) -> Result<(), String> {
        let shown = path.display();
        let real =
            fs::canonicalize(path).map_err(|fault| format!("{shown} cannot be read: {fault}"))?;
        if self.open.contains(&real) {
            return Err(format!("{shown} would include itself: leave it out here"));
        }
        if self.closed.contains(&real) {
            return Err(format!("{shown} is included already: leave it out here"));
        }
        // Of a pipe the end may never come.
        if !real.is_file() {
            return Err(format!("{shown} is no file: leave it out here"));
        }
        if self.open.len() > DEPTH_MAX {
            return Err(format!(
                "{shown} would be {} files deep; {DEPTH_MAX} are the most: name it in a file further up",
                self.open.len()
            ));
        }
        if self.sources.files.len() >= COUNT_MAX {
            return Err(format!("{shown} is one too many: a policy has at most {COUNT_MAX} files"));
        }
        let text = read_text(path, FILE_LEN_MAX)
            .map_err(|fault| fault.to_string().replacen(": cannot", " cannot", 1))?;
        let whole: usize = self.sources.files.iter().map(|it| it.text.len()).sum();
        if whole + text.len() > FILE_LEN_MAX as usize {
            return Err(format!(
                "{shown} is too long: the files of a policy have at most {FILE_LEN_MAX} bytes together"
            ));
        }
        let index = self.sources.push(&path.to_string_lossy(), &text);
        self.open.push(real);
        self.include(index);
        self.closed.extend(self.open.pop());
        Ok(())
    }
}

/// What `include` of a text names, each with its place in it. What is wrong with the text itself is reported where it is
/// read as a policy.
fn patterns(text: &str) -> Vec<(Range<usize>, String)> {
    let document = DeTable::parse_recoverable(text).0.into_inner();
    let Some(DeValue::Array(list)) = document.get(INCLUDE).map(Spanned::get_ref) else {
        return Vec::new();
    };
    let text = |it: &Spanned<DeValue<'_>>| Some((it.span(), it.get_ref().as_str()?.to_owned()));
    list.iter().filter_map(text).collect()
}

/// The faults of what is included, at their places.
pub(super) fn report(sources: &Sources, file: &std::rc::Rc<File>) {
    for (at, key, message) in &sources.faults {
        Place::of(file, key.clone(), *at).fault(message.clone());
    }
}
