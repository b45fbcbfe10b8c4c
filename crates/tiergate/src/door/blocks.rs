//! Flows that the gate blocks, for what can turn them away earlier.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tiergate_core::time::Moment;

/// Most that wait to be taken; those beyond are refused by the gate alone.
const WAITING_MAX: usize = 4096;

/// What has become of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockNews {
    /// The flow is blocked until then.
    Block {
        /// Whose requests.
        flow: u64,
        /// The end of it.
        until: Moment,
    },
    /// None is blocked any more.
    UnblockAll,
}

/// News that nobody has taken yet; none is kept while nobody wants them.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    are_wanted: AtomicBool,
    news: Mutex<Vec<BlockNews>>,
}

impl Blocks {
    pub(super) fn want(&self, wanted: bool) {
        self.are_wanted.store(wanted, Ordering::Relaxed);
    }

    pub(super) fn tell(&self, news: BlockNews) {
        if !self.are_wanted.load(Ordering::Relaxed) {
            return;
        }
        let mut all = self.news.lock().expect("no code panics while it holds them");
        if news == BlockNews::UnblockAll {
            all.clear();
        }
        if all.len() < WAITING_MAX {
            all.push(news);
        }
    }

    pub(super) fn take(&self) -> Vec<BlockNews> {
        std::mem::take(&mut *self.news.lock().expect("no code panics while it holds them"))
    }
}
