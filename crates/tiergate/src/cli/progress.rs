//! A bar on a terminal for runs that take a while.

use std::time::{Duration, Instant};
use tiergate_draw::{Block, bar};

/// Shorter runs show none.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// Characters of the bar.
const WIDTH: usize = 40;

/// How far several runs are; taken away when dropped.
pub(super) struct Progress {
    block: Block,
    /// When it is drawn next.
    next: Instant,
    runs: usize,
    done: usize,
}

impl Progress {
    /// Before the first of so many runs.
    pub(super) fn new(runs: usize) -> Self {
        Progress { block: Block::stderr(), next: Instant::now() + PATIENCE, runs, done: 0 }
    }

    /// So much of the present run is done, 0.0 to 1.0.
    pub(super) fn is(&mut self, share: f64) {
        let now = Instant::now();
        if self.block.is_terminal() && now >= self.next {
            self.next = now + PAUSE;
            let all = (self.done as f64 + share) / self.runs as f64;
            self.block.draw(&format!("  {} {:3.0}%", bar(all, WIDTH), all * 100.0));
        }
    }

    /// The present run has ended.
    pub(super) fn next(&mut self) {
        self.done += 1;
    }
}
