//! A bar on a terminal, for whoever waits.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shorter runs show none.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// Characters of the bar.
const WIDTH: usize = 40;

/// How far several runs are.
#[derive(Debug)]
pub(super) struct Progress {
    begun: Instant,
    shown: Option<Instant>,
    terminal: bool,
    runs: usize,
    done: usize,
}

impl Progress {
    /// Before the first of so many runs.
    pub(super) fn new(runs: usize) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Progress { begun: Instant::now(), shown: None, terminal, runs, done: 0 }
    }

    /// So much of the present run is done, 0.0 to 1.0.
    pub(super) fn is(&mut self, share: f64) {
        let now = Instant::now();
        let early = now.duration_since(self.begun) < PATIENCE;
        if !self.terminal || early || self.shown.is_some_and(|at| now - at < PAUSE) {
            return;
        }
        self.shown = Some(now);
        let all = (self.done as f64 + share) / self.runs as f64;
        let full = ((all * WIDTH as f64) as usize).min(WIDTH);
        let bar = "━".repeat(full) + &" ".repeat(WIDTH - full);
        // Whoever has closed standard error does not want to see it.
        let _ = write!(std::io::stderr(), "\r  {bar} {:3.0}%", all * 100.0);
    }

    /// The present run has ended.
    pub(super) fn next(&mut self) {
        self.done += 1;
    }

    /// Takes the bar away.
    pub(super) fn end(&mut self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r{:1$}\r", "", WIDTH + 8);
        }
    }
}
