//! When the kernel polices before a server that has no gateway: while the server accepts connections too slowly.
//!
//! Without a gateway nothing refuses in a friendlier way, but a dropped SYN still costs its client a second or more. So the kernel polices while it helps somebody: when the listen queue has been long
//! for some windows one after the other, connections wait, and beyond its end they are lost, whosever they are. What policing drops keeps it on: the queue is short because of it. It stops when for a longer time
//! the queue is short and hardly anything is dropped.
//!
//! Source: Voigt D §3.2 (the listen queue's length is what SYN policing is controlled by), Voigt B §4.1. Shares and hysteresis: ours.

use super::overload::{BEGIN, END, WINDOW};
use crate::time::Moment;

/// It may end below this part of the length that it begins at.
const END_PART: f64 = 0.5;
/// So few drops in a window are none.
const DROPPED_MIN: u64 = 5;
/// Nor are they, if they are less than this part of what comes.
const DROPPED_PART: f64 = 0.02;

/// What is seen of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// The fullest of its listen queues now, as a part of what it holds; 0 if there is none.
    pub queue: f64,
    /// SYNs and first requests that the kernel has judged until now.
    pub came: u64,
    /// Of them, those that it has refused.
    pub dropped: u64,
}

/// Whether the kernel polices.
#[derive(Clone, Debug)]
pub struct QueueOverload {
    share: f64,
    is_on: bool,
    /// How many windows one after the other said the other thing.
    windows: u32,
    since: Option<(Moment, Seen)>,
}

impl QueueOverload {
    /// None yet. `share`: how full a listen queue is that begins it, above 0 and at most 1.
    pub fn new(share: f64) -> Self {
        QueueOverload { share, is_on: false, windows: 0, since: None }
    }

    /// Whether the kernel polices now.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// What is seen, once a [`WINDOW`]; sooner is ignored. Returns whether it began or ended.
    pub fn observe(&mut self, now: Moment, seen: Seen) -> Option<bool> {
        // A timer may be a little early.
        if self.since.is_some_and(|(since, _)| now.since(since) < WINDOW * 9 / 10) {
            return None;
        }
        let before = self.since.replace((now, seen)).map_or(seen, |(_, before)| before);
        let [came, dropped] = [(seen.came, before.came), (seen.dropped, before.dropped)]
            .map(|(all, before)| all.saturating_sub(before));
        let is_quiet = dropped < DROPPED_MIN || (dropped as f64) < came as f64 * DROPPED_PART;
        let turns = match self.is_on {
            false => seen.queue >= self.share,
            true => seen.queue < self.share * END_PART && is_quiet,
        };
        self.windows = if turns { self.windows + 1 } else { 0 };
        if self.windows < if self.is_on { END } else { BEGIN } {
            return None;
        }
        (self.is_on, self.windows) = (!self.is_on, 0);
        Some(self.is_on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many windows with this queue, and so much that came and was dropped in each; whether it is on afterwards.
    fn windows(
        it: &mut QueueOverload,
        state: &mut (u64, Seen),
        count: u64,
        queue: f64,
        [came, dropped]: [u64; 2],
    ) -> bool {
        for _ in 0..count {
            state.0 += 1;
            state.1.queue = queue;
            state.1.came += came;
            state.1.dropped += dropped;
            it.observe(Moment::from_millis(state.0 * 1000), state.1);
        }
        it.is_on()
    }

    #[test]
    fn a_long_queue_begins_it_and_its_own_drops_keep_it() {
        let (mut it, mut state) = (QueueOverload::new(0.5), (0, Seen::default()));
        assert!(!windows(&mut it, &mut state, 20, 0.49, [0, 0]));
        assert!(!windows(&mut it, &mut state, 2, 1.1, [0, 0]));
        assert!(!windows(&mut it, &mut state, 1, 0.1, [0, 0]), "counted anew");
        assert!(!windows(&mut it, &mut state, 2, 0.5, [0, 0]));
        assert!(windows(&mut it, &mut state, 1, 0.5, [0, 0]));
        assert!(windows(&mut it, &mut state, 100, 0.0, [1000, 20]), "they come still");
        assert!(windows(&mut it, &mut state, 100, 0.3, [0, 0]), "not short");
        assert!(windows(&mut it, &mut state, 9, 0.2, [1000, 19]));
        assert!(!windows(&mut it, &mut state, 1, 0.2, [4, 4]));
        assert!(!windows(&mut it, &mut state, 50, 0.2, [1000, 900]), "only the queue begins it");
    }

    #[test]
    fn early_timers_and_counters_that_begin_anew_do_no_harm() {
        let mut it = QueueOverload::new(0.5);
        let seen = Seen { queue: 1.0, came: 9, dropped: 9 };
        for millis in 0..1800 {
            it.observe(Moment::from_millis(millis), seen);
        }
        assert!(!it.is_on(), "two windows");
        assert_eq!(it.observe(Moment::from_millis(1800), Seen { came: 0, ..seen }), Some(true));
    }
}
