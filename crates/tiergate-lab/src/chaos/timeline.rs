//! What happened when: a file with everything, and in memory what the judge needs.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

/// Lines written at most; a run in which everything fails must not fill the disk.
const LINES_MAX: u64 = 500_000;

/// The timeline of a run. Times are seconds since its beginning.
pub(super) struct Timeline {
    begun: Instant,
    path: PathBuf,
    file: Mutex<(BufWriter<File>, u64)>,
}

impl Timeline {
    pub(super) fn create(path: &Path) -> Result<Self> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let file = Mutex::new((BufWriter::new(file), 0));
        Ok(Self { begun: Instant::now(), path: path.to_path_buf(), file })
    }

    /// Seconds since the beginning.
    pub(super) fn now(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Adds a line.
    pub(super) fn note(&self, text: &str) {
        let now = self.now();
        let mut file = self.file.lock().expect("no code panics with it");
        file.1 += 1;
        if file.1 <= LINES_MAX {
            // Without its timeline, the run has its verdicts all the same.
            let _ = writeln!(file.0, "{now:>8.2}  {text}");
            let _ = file.0.flush();
        }
    }

    /// The lines between two moments, at most so many.
    pub(super) fn between(&self, from: f64, to: f64, lines_max: usize) -> Vec<String> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let at = |line: &str| line.split_whitespace().next()?.parse::<f64>().ok();
        let within = |line: &&str| at(line).is_some_and(|at| (from..=to).contains(&at));
        text.lines().filter(within).take(lines_max).map(str::to_owned).collect()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_time() {
        let dir = tempfile::tempdir().unwrap();
        let timeline = Timeline::create(&dir.path().join("timeline")).unwrap();
        timeline.note("first");
        timeline.note("second");
        let lines = timeline.between(0.0, 5.0, 10);
        assert!(lines[0].ends_with("first") && lines[1].ends_with("second"), "{lines:?}");
        assert!(timeline.between(10.0, 20.0, 10).is_empty());
        assert_eq!(timeline.between(0.0, 5.0, 1).len(), 1);
    }
}
