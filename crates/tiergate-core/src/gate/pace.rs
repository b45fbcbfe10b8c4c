//! The pace of a client that a request waits for: whether what it moves is worth the time.
//!
//! Bytes beyond the minimum are credit for pauses: a burst every few seconds, a lost packet or a radio that changes
//! cells is not a slow client. It is earned from the first wait on. It is bounded, so that a client that stops is
//! found within seconds, however much it moved before; and it lasts as long as the request, so that a byte now and
//! then earns no new one.

use std::time::Duration;

/// Longest time for which a client may move nothing and not be slow, whatever it moved before.
const CREDIT: Duration = Duration::from_secs(5);

/// What has moved so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the request or of its answer.
    pub bytes: u64,
    /// What the client's connection has delivered, if that is known: buffers on the way take an answer in lumps,
    /// far apart where they are large and the client is slow.
    pub delivered: Option<Delivered>,
}

/// What a connection has delivered to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Bytes that the client's system has acknowledged.
    pub bytes: u64,
    /// Requests that share the connection, at least 1: each has an equal part of the bytes.
    pub requests: u32,
}

impl Delivered {
    /// What of so many bytes counts for one request.
    fn part_of(self, bytes: u64) -> f64 {
        bytes as f64 / f64::from(self.requests.max(1))
    }
}

impl Progress {
    /// Bytes moved since `earlier`: the request's own, or its part of the connection's.
    fn since(self, earlier: Progress) -> f64 {
        let own = self.bytes.saturating_sub(earlier.bytes) as f64;
        let part = match (self.delivered, earlier.delivered) {
            (Some(now), Some(then)) => now.part_of(now.bytes.saturating_sub(then.bytes)),
            _ => 0.0,
        };
        own.max(part)
    }
}

/// The pace of a client, over all the time that its request waits for it.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Bytes moved beyond the minimum.
    credit: f64,
    seen: Progress,
}

impl Pace {
    /// Of a client that has moved so much before it was waited for. That is no credit: the first of a body costs an
    /// attacker nothing, and buffers on the way take the first of an answer.
    pub fn new(progress: Progress) -> Self {
        Pace { credit: 0.0, seen: progress }
    }

    /// What moved since the last call did so while the request did not wait for the client. Bytes a second.
    pub fn moved(&mut self, progress: Progress, rate_min: u64) {
        self.credit = (self.credit + progress.since(self.seen)).min(credit_max(rate_min));
        self.seen = progress;
    }

    /// What moved from here on is another direction's: only the credit remains.
    pub fn turn(&mut self, progress: Progress) {
        self.seen = progress;
    }

    /// The request has waited for the client for so long since the last call. Whether the client is slower than
    /// `rate_min` bytes a second and has used up its credit; it then starts anew, without any.
    pub fn is_slow(&mut self, progress: Progress, waited: Duration, rate_min: u64) -> bool {
        let owed = rate_min as f64 * waited.as_secs_f64();
        let balance = self.credit + progress.since(self.seen) - owed;
        self.seen = progress;
        self.credit = balance.clamp(0.0, credit_max(rate_min));
        balance < 0.0
    }
}

fn credit_max(rate_min: u64) -> f64 {
    rate_min as f64 * CREDIT.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 2048;
    const WINDOW: Duration = Duration::from_secs(2);

    /// The window in which a client is found slow that moves so many bytes in each.
    fn found(pace: &mut Pace, moves: impl IntoIterator<Item = u64>) -> Option<usize> {
        let mut progress = pace.seen;
        moves.into_iter().position(|bytes| {
            progress.bytes += bytes;
            pace.is_slow(progress, WINDOW, RATE)
        })
    }

    fn of(bytes: u64) -> Pace {
        Pace::new(Progress { bytes, delivered: None })
    }

    #[test]
    fn who_moves_nothing_is_found_within_seconds_whatever_it_moved_before() {
        assert_eq!(found(&mut of(0), [0; 9]), Some(0));
        assert_eq!(found(&mut of(1 << 40), [0; 9]), Some(0), "before it was waited for");
        assert_eq!(found(&mut of(0), [1 << 40, 0, 0, 0, 0, 0]), Some(3));
    }

    #[test]
    fn bursts_that_are_fast_enough_on_the_whole_are_not_slow() {
        // 70 KB every third window: the pauses between them last four seconds and more.
        let bursts = (0..300).map(|at| if at % 3 == 0 { 70_000 } else { 0 });
        assert_eq!(found(&mut of(70_000), bursts), None);
        assert_eq!(found(&mut of(0), [4096; 300]), None, "exactly the minimum");
        // A third of the minimum, in bursts.
        let bursts = (0..300).map(|at| if at % 3 == 0 { 4096 } else { 0 });
        assert!(found(&mut of(70_000), bursts).is_some_and(|window| window <= 5));
    }

    #[test]
    fn slower_than_the_minimum_uses_the_credit_up_and_is_found_again_and_again() {
        let mut pace = of(0);
        assert_eq!(found(&mut pace, [1 << 20]), None);
        assert_eq!(found(&mut pace, [2048; 99]), Some(5), "half the minimum: twice as long");
        assert_eq!(found(&mut pace, [2048; 99]), Some(0));
        assert_eq!(found(&mut pace, [8192, 2048, 2048, 2048]), Some(3));
    }

    #[test]
    fn what_the_connection_delivers_counts_by_parts() {
        let at =
            |bytes, requests| Progress { bytes: 7, delivered: Some(Delivered { bytes, requests }) };
        let mut pace = Pace { credit: 0.0, seen: at(1_000, 1) };
        assert!(!pace.is_slow(at(5_096, 1), WINDOW, RATE));
        assert!(pace.is_slow(at(9_192, 2), WINDOW, RATE));
        assert!(!pace.is_slow(at(17_384, 2), WINDOW, RATE));
    }

    #[test]
    fn time_between_two_waits_is_not_owed_and_earns_no_more_than_was_moved() {
        let mut pace = of(0);
        let mut progress = Progress::default();
        for _ in 0..9 {
            progress.bytes += 1;
            pace.moved(progress, RATE);
        }
        assert!(pace.is_slow(progress, WINDOW, RATE));
        progress.bytes += 1 << 20;
        pace.turn(progress);
        assert!(pace.is_slow(progress, WINDOW, RATE), "it was counted the other way");
    }
}
