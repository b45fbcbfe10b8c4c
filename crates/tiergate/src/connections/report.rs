//! What the log says while `limits.connections_max` is reached: at most every five seconds, and then in sums.

use crate::seldom::Seldom;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tiergate_core::admit::connections::Bounds;
use tiergate_core::time::Moment;

/// How often the log says so.
const EVERY: Duration = Duration::from_secs(5);

/// What was done for want of connections since the log said so last.
#[derive(Debug, Default)]
pub struct Report {
    closed: AtomicU64,
    turned_away: AtomicU64,
    refused: AtomicU64,
    seldom: Seldom,
}

impl Report {
    /// So many idle connections were closed, for one of this client or request.
    pub fn closed(&self, now: Moment, bounds: Bounds, count: usize) {
        if count > 0 {
            self.closed.fetch_add(count as u64, Ordering::Relaxed);
            self.say(now, bounds);
        }
    }

    /// A connection was closed as it came.
    pub fn turned_away(&self, now: Moment, bounds: Bounds) {
        self.turned_away.fetch_add(1, Ordering::Relaxed);
        self.say(now, bounds);
    }

    /// A request was refused.
    pub fn refused(&self, now: Moment, bounds: Bounds) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.say(now, bounds);
    }

    fn say(&self, now: Moment, bounds: Bounds) {
        if !self.seldom.is_due(now, EVERY) {
            return;
        }
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        tracing::warn!(
            connections_max = bounds.max,
            for_least_important = bounds.known_max(bounds.last()),
            idle_closed = take(&self.closed),
            closed_as_they_came = take(&self.turned_away),
            requests_refused = take(&self.refused),
            "client connections are at their bound: idle ones of the least important class make room, and requests \
             are refused that would take what is kept for more important classes"
        );
    }
}
