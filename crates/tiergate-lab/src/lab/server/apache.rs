//! Apache with a process for each request: static files, and a page by CGI.

use super::place::Place;
use crate::lab::surge;
use crate::process::{Program, Running, find, output};
use crate::units;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// Where Debian keeps its modules.
const MODULES: &str = "/usr/lib/apache2/modules";
/// Processes at most: each is some megabytes and a place in the scoreboard.
const WORKERS_MAX: u32 = 2000;
/// Longest time that the C compiler may take for one page.
const COMPILE_PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of the static page: the average of DiffServer's (Rao and Ramamurthy 2001, 4.1).
const PAGE_BYTES: usize = 6401;

/// A file that takes a link: as large as Voigt's (Voigt and Gunningberg 2002, the thesis's Paper D, 3.4).
const LARGE_BYTES: usize = 142 << 10;
/// A file that takes 100 Mb/s eleven seconds: its client always has more to get.
const LONG_BYTES: u64 = 128 << 20;

/// Two trees with pictures, and the same pictures with less in them.
const TREES: [&str; 2] = ["full_content", "degraded_content"];

/// Pictures with their KiB: those of Abdelzaher's figure 10, and the one of most of their experiments (7.1).
const PICTURES: [(&str, usize); 4] =
    [("image-8k.jpg", 8), ("image-32k.jpg", 32), ("image.jpg", 64), ("image-128k.jpg", 128)];
/// The copy of a picture is so many times smaller.
const SMALLER: usize = 8;

/// How Apache is set.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Apache {
    /// `MaxRequestWorkers`: processes, and so connections served at once.
    pub(crate) workers: u32,
    /// How long an idle connection is kept, and its process with it; 0: closed after a request.
    #[serde(with = "units::text")]
    pub(crate) keep_alive: Duration,
    /// Static files.
    pub(crate) files: u32,
    /// Their seed.
    pub(crate) seed: u64,
}

impl Default for Apache {
    /// The papers' number of processes, Apache's own time, about 65 MB of files.
    fn default() -> Self {
        Self { workers: 32, keep_alive: Duration::from_secs(5), files: 1000, seed: 1 }
    }
}

impl Apache {
    /// Starts it, and returns it with its static files, the most popular first.
    pub(super) async fn start(&self, place: &Place<'_>) -> Result<(Vec<Running>, Vec<String>)> {
        let files = place.dir().join("files");
        let paths = surge::write(&files, self.files, self.seed)?;
        std::fs::write(files.join("page.html"), "x".repeat(PAGE_BYTES))?;
        std::fs::write(files.join("large.bin"), "x".repeat(LARGE_BYTES))?;
        write_long(&files.join("long.bin"))?;
        for (tree, smaller) in TREES.into_iter().zip([1, SMALLER]) {
            let folder = files.join(tree);
            std::fs::create_dir_all(&folder)?;
            for (name, kib) in PICTURES {
                std::fs::write(folder.join(name), "x".repeat((kib << 10) / smaller))?;
            }
        }
        compile_page(&place.dir().join("cgi-bin")).await?;
        let file = place.dir().join("apache.conf");
        std::fs::write(&file, self.configuration(place, &files)?)?;
        let path = find("apache2").context("apache2 is not installed")?;
        let program = place.program("Apache", path).args([Path::new("-f"), &file]);
        let running = place.start(program.args(["-D", "FOREGROUND"]), place.listen).await?;
        Ok((vec![running], paths))
    }

    pub(super) fn configuration(&self, place: &Place<'_>, files: &Path) -> Result<String> {
        let workers = self.workers;
        let fine = (1..=WORKERS_MAX).contains(&workers);
        ensure!(fine, "origin.workers: Apache has 1 to {WORKERS_MAX}, not {workers}");
        let kept = if self.keep_alive.is_zero() { "Off" } else { "On" };
        let values = [
            ("FILES", files.display().to_string()),
            ("MODULES", MODULES.into()),
            ("WORKERS", workers.to_string()),
            ("KEEP_ALIVE", kept.into()),
            ("KEEP_ALIVE_MS", self.keep_alive.as_millis().to_string()),
        ];
        Ok(place.filled(include_str!("../../../origins/apache.conf"), &values))
    }
}

/// It takes no space on the disk, and is in memory before anybody asks for it, as a file that is asked for often: Apache would have its pages made
/// while it answers others, milliseconds at a time.
fn write_long(path: &Path) -> Result<()> {
    std::fs::File::create(path)?.set_len(LONG_BYTES)?;
    std::io::copy(&mut std::fs::File::open(path)?, &mut std::io::sink())?;
    Ok(())
}

/// Makes the CGI program `page` in that directory.
async fn compile_page(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    let source = dir.with_file_name("page.c");
    std::fs::write(&source, include_str!("../../../origins/page.c"))?;
    let cc = find("cc").context("cc is not installed; run scripts/setup.sh")?;
    let program = Program::new("the C compiler", cc)
        .args(["-O2", "-Wall", "-Werror", "-o"])
        .args([&dir.join("page"), &source]);
    output(program, COMPILE_PATIENCE).await?;
    Ok(())
}
