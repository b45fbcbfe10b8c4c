//! The access log as it grows: every line is read once, wherever its file has been moved.

use serde_json::Value;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A moved file that has not grown for so long is removed.
const SETTLED: Duration = Duration::from_secs(4);
/// Files that are followed at once.
const FILES_MAX: usize = 100;

/// What was read so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    /// Whole lines.
    pub(super) whole: u64,
    /// Those of them about requests that never asked for a slot.
    pub(super) bad: u64,
    /// Lines that are no JSON, and the first of them.
    pub(super) torn: u64,
    pub(super) first_torn: Option<String>,
    /// How many lines each premium request has, and how many of them say that it was served.
    pub(super) premium: HashMap<String, (u32, u32)>,
}

/// Follows the log.
pub(super) struct AccessLog {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: Vec<Followed>,
    lines: Lines,
    moved: usize,
}

struct Followed {
    path: PathBuf,
    offset: u64,
    /// The beginning of a line whose end is still to come.
    rest: Vec<u8>,
    grown: Instant,
}

impl AccessLog {
    /// Follows the log at that path, as seen from here.
    pub(super) fn follow(path: PathBuf) -> Self {
        let state = State { files: vec![Followed::new(path.clone())], ..State::default() };
        Self { path, state: Mutex::new(state) }
    }

    /// Reads what has been written since the last time.
    pub(super) fn read(&self) {
        let mut state = self.state.lock().expect("no code panics with it");
        let State { files, lines, .. } = &mut *state;
        for file in files.iter_mut() {
            file.read(lines);
        }
        // The gateway writes to a moved file until it has opened the next.
        let path = &self.path;
        files.retain(|file| {
            let done = file.path != *path && file.grown.elapsed() > SETTLED && path.exists();
            if done {
                let _ = fs::remove_file(&file.path);
            }
            !done
        });
    }

    /// Moves the file away, as logrotate does; whether there was one. The gateway is still to be told.
    pub(super) fn rotate(&self) -> bool {
        self.read();
        let mut state = self.state.lock().expect("no code panics with it");
        if state.files.len() >= FILES_MAX || !self.path.exists() {
            return false;
        }
        state.moved += 1;
        let moved = self.path.with_extension(format!("{}.json", state.moved));
        if fs::rename(&self.path, &moved).is_err() {
            return false;
        }
        if let Some(file) = state.files.iter_mut().find(|file| file.path == self.path) {
            file.path = moved;
        }
        state.files.push(Followed::new(self.path.clone()));
        true
    }

    /// Length of the current file.
    pub(super) fn len(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// What was read so far.
    pub(super) fn lines(&self) -> Lines {
        self.state.lock().expect("no code panics with it").lines.clone()
    }

    /// How many lines were read so far.
    pub(super) fn count(&self) -> u64 {
        self.state.lock().expect("no code panics with it").lines.whole
    }
}

impl Followed {
    fn new(path: PathBuf) -> Self {
        Self { path, offset: 0, rest: Vec::new(), grown: Instant::now() }
    }

    fn read(&mut self, lines: &mut Lines) {
        let Ok(mut file) = File::open(&self.path) else { return };
        let before = self.rest.len();
        if file.seek(SeekFrom::Start(self.offset)).is_err()
            || file.read_to_end(&mut self.rest).is_err()
        {
            return;
        }
        let new = self.rest.len() - before;
        if new == 0 {
            return;
        }
        self.offset += new as u64;
        self.grown = Instant::now();
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in self.rest[..end].split_inclusive(|byte| *byte == b'\n') {
            lines.add(line);
        }
        self.rest.drain(..end);
    }
}

impl Lines {
    fn add(&mut self, line: &[u8]) {
        let Ok(line) = serde_json::from_slice::<Value>(line) else {
            self.torn += 1;
            self.first_torn.get_or_insert_with(|| String::from_utf8_lossy(line).into_owned());
            return;
        };
        self.whole += 1;
        self.bad += u64::from(line["verdict"] == "bad");
        let target = line["target"].as_str().unwrap_or_default();
        if target.starts_with("/premium/") {
            let served = line["status"] == 200 && line["end"] == "served";
            let counts = self.premium.entry(target.to_owned()).or_default();
            counts.0 += 1;
            counts.1 += u32::from(served);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const SERVED: &[u8] = b"{\"target\":\"/premium/p1\",\"status\":200,\"end\":\"served\"}\n";

    #[test]
    fn lines_are_read_once_over_moves() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.json");
        let mut file = File::create(&path).unwrap();
        let log = AccessLog::follow(path.clone());
        file.write_all(SERVED).unwrap();
        file.write_all(&SERVED[..20]).unwrap();
        log.read();
        assert!(log.rotate());
        assert!(!log.rotate(), "there is no file to move");
        // Written to the moved file, and then to the next.
        file.write_all(&SERVED[20..]).unwrap();
        File::create(&path).unwrap().write_all(b"{\"target\":\"/basic/b\"}\nnot a line\n").unwrap();
        log.read();
        log.read();
        let lines = log.lines();
        assert_eq!((lines.whole, lines.torn), (3, 1));
        assert_eq!(lines.premium["/premium/p1"], (2, 2));
    }
}
