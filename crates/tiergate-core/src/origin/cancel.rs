//! What to do with a request at a server after its client has left.
//!
//! Most servers work on: nothing tells them that nobody waits for the answer. If the slot were free at once,
//! more requests would be in progress there than there are slots, and those of clients who do wait would be
//! slowed down. So the answer is read on behalf of nobody, and the slot is free when it is there
//! ([`Way::Finish`]). Other servers stop when the connection is closed, and reading on would keep slots for
//! work that need not be done ([`Way::Close`]). Which of them a server is can be found out:
//!
//! 1. Our half of the connection is closed. A server that answers all the same did not notice: *finish*.
//! 2. One that closes the connection may have stopped, or work on all the same. So both ways are used in
//!    turns, for a few dozen answers each. If others are answered later while connections are closed, there
//!    was work that nobody saw: *finish*. If not: *close*. What nobody sees does harm, so the first turns
//!    close few connections, and each later one four times as many.
//!
//! Either holds for [`SETTLED`]; then it is looked at again.

use crate::time::Moment;
use std::time::Duration;

/// Servers that did not notice so often are taken to be deaf.
const DEAF: u32 = 3;
/// Answers and leaving clients that a turn has at least.
const TURN: (u32, u32) = (32, 8);
/// Connections that the first turn closes at most.
const CLOSED_FIRST: u32 = 8;
/// Turns before a verdict for closing: each way twice, so that load that grows or shrinks favours neither much.
const TURNS: u32 = 4;
/// Answers that are later by this much (as ln) are slowed down, if that is no chance.
const SLOWER: f64 = 0.1;
/// How sure that must be: in standard errors of the difference.
const ERRORS: f64 = 3.0;
/// How long an answer is waited for on behalf of nobody: at least so long, or so many times the mean time of
/// answers. What takes longer may never end, and its slot is missed.
const WITHIN_MIN: Duration = Duration::from_secs(5);
const WITHIN_TIMES: u32 = 4;
/// Weight of the latest answer in that mean.
const WEIGHT: f64 = 1.0 / 64.0;
/// How long a verdict holds.
const SETTLED: Duration = Duration::from_secs(60);

/// What the policy says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCancel {
    /// Find out.
    #[default]
    Learn,
    /// Read the answer on behalf of nobody.
    Finish,
    /// Close the connection; the slot is free at once.
    Abort,
}

/// What to do with the request of a client that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Read the answer; the slot is free at its end, or after that time.
    Finish(Duration),
    /// Close our half of the connection; the slot is free when the server closes its own, or at the end of the
    /// answer that comes all the same, or after that time. [`Servers::closed`](super::Servers::closed) wants to
    /// know which.
    Close(Duration),
    /// Close the connection; the slot is free at once.
    Abort,
}

/// Times to the first byte of answers, as ln.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Sample {
    fn add(&mut self, took: Duration) {
        // A microsecond less or more is none.
        let ln = (took.as_secs_f64() + 1e-6).ln();
        self.count += 1.0;
        self.sum += ln;
        self.squares += ln * ln;
    }

    fn mean(&self) -> f64 {
        self.sum / self.count.max(1.0)
    }

    /// Variance of the mean.
    fn variance(&self) -> f64 {
        let spread = self.squares / self.count.max(1.0) - self.mean() * self.mean();
        spread.max(0.0) / (self.count - 1.0).max(1.0)
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Whether it notices at all; so often it did not.
    Listening { deaf: u32 },
    /// Both ways in turns, closing first; so many are over.
    Comparing { turns: u32 },
    /// Known, until then.
    Settled { until: Moment },
}

/// Connections that a turn of closing closes at most, after so many turns of both ways.
fn closed_max(turns: u32) -> u32 {
    CLOSED_FIRST << turns.min(16)
}

/// What is known of a server's way with clients that leave.
#[derive(Clone, Debug)]
pub(super) struct Cancels {
    phase: Phase,
    /// The way in use, unless it listens: to close.
    closes: bool,
    /// The current turn: when it began, answers and leaving clients in it.
    since: Moment,
    answers: u32,
    left: u32,
    /// By whether connections were closed.
    samples: [Sample; 2],
    /// Mean time of an answer, seconds; 0: not known.
    mean_s: f64,
}

impl Default for Cancels {
    fn default() -> Self {
        Cancels {
            phase: Phase::Listening { deaf: 0 },
            closes: false,
            since: Moment::ZERO,
            answers: 0,
            left: 0,
            samples: [Sample::default(); 2],
            mean_s: 0.0,
        }
    }
}

impl Cancels {
    /// A client has left. O(1).
    pub(super) fn left(&mut self, now: Moment, on_cancel: OnCancel) -> Way {
        let within = WITHIN_MIN.max(WITHIN_TIMES * Duration::from_secs_f64(self.mean_s));
        match on_cancel {
            OnCancel::Finish => return Way::Finish(within),
            OnCancel::Abort => return Way::Abort,
            OnCancel::Learn => {}
        }
        if matches!(self.phase, Phase::Settled { until } if until <= now) {
            *self = Cancels { closes: self.closes, mean_s: self.mean_s, ..Cancels::default() };
        }
        self.left += 1;
        self.end_turn(now);
        match self.phase {
            Phase::Listening { .. } => Way::Close(within),
            Phase::Comparing { turns } if self.closes && self.left > closed_max(turns) => {
                Way::Finish(within)
            }
            _ if self.closes => Way::Close(within),
            _ => Way::Finish(within),
        }
    }

    /// What came of [`Way::Close`]: whether the server closed its half without an answer.
    pub(super) fn closed(&mut self, now: Moment, stopped: bool) {
        let Phase::Listening { deaf } = self.phase else { return };
        if stopped {
            self.phase = Phase::Comparing { turns: 0 };
            // To close is right for a server that notices, as far as is known yet.
            self.begin_turn(now, true);
        } else if deaf + 1 < DEAF {
            self.phase = Phase::Listening { deaf: deaf + 1 };
        } else {
            self.settle(now, false);
        }
    }

    /// A client that stayed got an answer from the server it was sent to at `sent`, with its first byte after
    /// `took`. O(1).
    pub(super) fn answered(&mut self, now: Moment, sent: Moment, took: Duration) {
        let took_s = took.as_secs_f64();
        let weight = if self.mean_s == 0.0 { 1.0 } else { WEIGHT };
        self.mean_s += (took_s - self.mean_s) * weight;
        // What was sent in an earlier turn tells of that.
        if !matches!(self.phase, Phase::Comparing { .. }) || sent < self.since {
            return;
        }
        self.answers += 1;
        // Nor do the first after a turn of closing, who met what that left behind.
        if self.closes || self.answers * 2 > TURN.0 {
            self.samples[usize::from(self.closes)].add(took);
        }
        self.end_turn(now);
    }

    fn end_turn(&mut self, now: Moment) {
        let Phase::Comparing { turns } = self.phase else { return };
        if self.answers < TURN.0 || self.left < TURN.1 {
            return;
        }
        if self.is_slowed() {
            return self.settle(now, false);
        }
        let turns = turns + 1;
        if self.closes && turns >= TURNS && self.left <= closed_max(turns - 1) {
            return self.settle(now, true);
        }
        self.phase = Phase::Comparing { turns };
        self.begin_turn(now, !self.closes);
    }

    /// Whether answers came later while connections were closed.
    fn is_slowed(&self) -> bool {
        let [finish, close] = &self.samples;
        if finish.count == 0.0 || close.count == 0.0 {
            return false;
        }
        let later = close.mean() - finish.mean();
        let error = (finish.variance() + close.variance()).sqrt();
        later > SLOWER.max(ERRORS * error)
    }

    fn begin_turn(&mut self, now: Moment, closes: bool) {
        self.closes = closes;
        if closes {
            self.samples[1] = Sample::default();
        }
        (self.since, self.answers, self.left) = (now, 0, 0);
    }

    fn settle(&mut self, now: Moment, closes: bool) {
        self.closes = closes;
        self.phase = Phase::Settled { until: now + SETTLED };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    /// Every ten milliseconds one client is answered, and one leaves. Answers take `took(closing)`
    /// milliseconds, by what became of the last clients that left. How many connections are closed in all, and of the last
    /// hundred.
    fn run(cancels: &mut Cancels, stops: bool, took: impl Fn(f64, u64) -> u64) -> (u32, u32) {
        let (mut closed, mut ways) = (0.0, (0, 0));
        for step in 0..1000 {
            let now = at(1000 + 10 * step);
            let way = cancels.left(now, OnCancel::Learn);
            if matches!(way, Way::Close(_)) {
                cancels.closed(now, stops);
            }
            closed += (f64::from(u8::from(matches!(way, Way::Close(_)))) - closed) * 0.2;
            let took = took(closed, step);
            cancels.answered(now, at(1000 + 10 * step - took.min(10)), Duration::from_millis(took));
            ways.0 += u32::from(matches!(way, Way::Close(_)));
            ways.1 += u32::from(step >= 900 && matches!(way, Way::Close(_)));
        }
        ways
    }

    #[test]
    fn a_server_that_answers_all_the_same_is_let_finish() {
        let mut cancels = Cancels::default();
        assert_eq!(run(&mut cancels, false, |_, _| 5), (DEAF, 0));
        // Only the first few were tried.
        let mut cancels = Cancels::default();
        let ways: Vec<Way> = (0..5)
            .map(|step| {
                let way = cancels.left(at(step), OnCancel::Learn);
                cancels.closed(at(step), false);
                way
            })
            .collect();
        let (close, finish) = (Way::Close(WITHIN_MIN), Way::Finish(WITHIN_MIN));
        let expected = [close, close, close, finish, finish];
        assert_eq!(ways, expected);
    }

    #[test]
    fn a_server_that_stops_is_closed() {
        // Times vary, however connections end.
        let varied = |_, step: u64| 3 + step * 7919 % 5;
        assert_eq!(run(&mut Cancels::default(), true, varied).1, 100);
    }

    #[test]
    fn a_server_that_only_closes_the_connection_and_works_on_is_let_finish() {
        let slowed = |closed: f64, step: u64| ((4.0 + 4.0 * closed) as u64) + step * 7919 % 3;
        let (all, last) = run(&mut Cancels::default(), true, slowed);
        assert_eq!(last, 0);
        assert!(all <= 1 + 8 + 32, "{all} before that was known");
    }

    #[test]
    fn a_verdict_is_looked_at_again() {
        let mut cancels = Cancels::default();
        (0..3).for_each(|_| cancels.closed(at(0), false));
        assert_eq!(cancels.left(at(59_999), OnCancel::Learn), Way::Finish(WITHIN_MIN));
        assert_eq!(cancels.left(at(60_000), OnCancel::Learn), Way::Close(WITHIN_MIN));
    }

    #[test]
    fn the_policys_word_is_final() {
        let mut cancels = Cancels::default();
        assert_eq!(cancels.left(at(0), OnCancel::Finish), Way::Finish(WITHIN_MIN));
        assert_eq!(cancels.left(at(0), OnCancel::Abort), Way::Abort);
    }

    #[test]
    fn slow_servers_are_waited_for_longer() {
        let mut cancels = Cancels::default();
        (0..200).for_each(|_| cancels.answered(at(0), at(0), Duration::from_secs(3)));
        assert_eq!(cancels.left(at(0), OnCancel::Finish), Way::Finish(Duration::from_secs(12)));
    }
}
