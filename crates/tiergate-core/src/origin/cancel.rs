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
//!    was work that nobody saw: *finish*. So it is if more clients leave then: those that would have been answered later
//!    are not seen to be. If neither: *close*.
//!
//!    What nobody sees does harm. So while the ways are compared, no more is closed than may work on unseen beside
//!    what is seen: half as much in the first turn, four times that in each later one ([`Unseen`]).
//!
//! Either holds for [`SETTLED`]; then it is looked at again, for closing with as much as before.
//!
//! A server that neither answers nor closes within the time for it did not notice, as far as it matters here: one
//! that notices closes at once. Whether it still works is not known, so that it counts as deaf. It has also shown
//! that some of its answers never end (a handler that hangs, a long poll, an endless download), and those would
//! hold slots that no client waits for. So for a while after it ([`REMEMBERED`]) the gate is told of each request whose
//! client has left and that takes longer than usual ([`Bounds::overstays`]), and may end it for others.
//!
//! Before that few are ended early: most servers do work for as long as an answer takes, and slots that are free
//! too early would let more requests be in progress there than there are slots. A request that is overdue
//! ([`OVERDUE`]) may end if one that was sent after it was answered as quickly as usual: it is not delayed by a queue at
//! the server. Where there is no such answer, that may be because requests that never end hold all slots. So overdue ones
//! may end without it, half of those in progress at once and the others no faster than if each took [`OVERDUE`]: the
//! requests that get their slots show whether the server is well.

use crate::time::Moment;
use std::time::Duration;

/// Servers that did not notice so often are taken to be deaf.
const DEAF: u32 = 3;
/// Answers and leaving clients that a turn has at least.
const TURN: (u32, u32) = (32, 8);
/// What may work on unseen in the first turn of closing, as a share of the requests that are in progress.
const UNSEEN_FIRST: f64 = 0.5;
/// By so much that grows from turn to turn.
const UNSEEN_GROWS: f64 = 4.0;
/// Turns before a verdict for closing: each way twice, so that load that grows or shrinks favours neither much.
const TURNS: u32 = 4;
/// Answers that are later by this much (as ln) are slowed down, if that is no chance.
const SLOWER: f64 = 0.1;
/// A part of the clients by which more leave.
const MORE_LEAVE: f64 = 0.1;
/// How sure that must be: in standard errors of the difference.
const ERRORS: f64 = 3.0;
/// How long an answer is waited for on behalf of nobody: at least so long, or so many times the mean time of
/// answers. What takes longer may never end, and its slot is missed.
const WITHIN_MIN: Duration = Duration::from_secs(5);
const WITHIN_TIMES: u32 = 4;
/// Weight of the latest answer in that mean, and of the latest that was read on behalf of nobody, of which there
/// are fewer.
const WEIGHT: f64 = 1.0 / 64.0;
const WEIGHT_READ: f64 = 1.0 / 16.0;
/// What takes longer than usual: so many mean deviations above the mean, and so many times the mean.
/// Source: the time-out of TCP's retransmissions (Jacobson 1988; RFC 6298), which is without the second.
const DEVIATIONS: f64 = 4.0;
const TIMES: f64 = 2.0;
/// With the server for so long, or for longer than usual if that is more, a request whose client has left is overdue.
const OVERDUE: Duration = Duration::from_secs(2);
/// How long a server at least gets to notice that a connection is closed.
const NOTICE: Duration = Duration::from_millis(100);
/// How long it is remembered that an answer did not end in time.
const REMEMBERED: Duration = Duration::from_secs(600);
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

impl OnCancel {
    /// The same for requests that are streams of a connection: a stream is cancelled by a frame of its own, which servers act on, and which leaves
    /// nothing to learn from, since nothing of the stream comes after it.
    #[must_use]
    pub const fn of_streams(self) -> Self {
        match self {
            OnCancel::Learn | OnCancel::Abort => OnCancel::Abort,
            OnCancel::Finish => OnCancel::Finish,
        }
    }
}

/// How long an answer is read on behalf of nobody, from when its client left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// After so long it may never end: [`Gate::overstays`](crate::gate::Gate::overstays) is to be told, if
    /// [`Servers::never_ends`](super::Servers::never_ends) says so then or later.
    pub overstays: Duration,
    /// After so long the connection is closed, and the slot is free.
    pub within: Duration,
}

/// What to do with the request of a client that left. [`Servers::left_over`](super::Servers::left_over) wants to
/// know what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Read the answer; the slot is free at its end, or at the bounds.
    Finish(Bounds),
    /// Close our half of the connection; the slot is free when the server closes its own, or at the end of the
    /// answer that comes all the same, or at the bounds.
    Close(Bounds),
    /// Close the connection; the slot is free at once.
    Abort,
}

/// What came of a request whose client had left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// Its answer came to an end, so long after the client had left.
    Answered(Duration),
    /// The server closed the connection before.
    Stopped,
    /// Neither, in the time for it ([`Bounds::within`]).
    Endless,
}

/// How long something takes: mean and mean deviation, seconds; 0: not known.
#[derive(Clone, Copy, Debug, Default)]
struct Usual {
    mean_s: f64,
    deviation_s: f64,
}

impl Usual {
    fn add(&mut self, took: Duration, weight: f64) {
        let took_s = took.as_secs_f64();
        if self.mean_s == 0.0 {
            *self = Usual { mean_s: took_s, deviation_s: took_s / 2.0 };
        }
        let off = took_s - self.mean_s;
        self.mean_s += off * weight;
        self.deviation_s += (off.abs() - self.deviation_s) * weight;
    }

    /// What takes longer is not usual; zero if nothing is known.
    fn longest(&self) -> Duration {
        let by_deviation = self.mean_s + DEVIATIONS * self.deviation_s;
        Duration::from_secs_f64(by_deviation.max(TIMES * self.mean_s))
    }
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

/// How many requests may be in progress at the server whose connections were closed: an estimate without a clock.
///
/// A server works for them as for the others. So when one of the requests that are seen ends, of which there are so
/// many, that part of these has ended too.
#[derive(Clone, Copy, Debug, Default)]
struct Unseen(f64);

impl Unseen {
    fn one_more(&mut self) {
        self.0 += 1.0;
    }

    /// One of so many requests in progress that are seen has ended.
    fn one_seen_ended(&mut self, in_progress: u32) {
        self.0 -= self.0 / f64::from(in_progress.max(1));
    }

    /// As good as none.
    fn is_over(&self) -> bool {
        self.0 < 1.0
    }
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
    /// What may work on unseen, as a share of the requests in progress; whether the current turn would have closed more.
    unseen_max: f64,
    held_back: bool,
    unseen: Unseen,
    /// By whether connections were closed: answers, and how many clients left meanwhile.
    samples: [Sample; 2],
    leavers: [f64; 2],
    times: Times,
}

/// What is known of how long answers take.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// To the first byte, for clients that stay.
    answers: Usual,
    /// To the end, from when the client left.
    leftovers: Usual,
    /// Until then it is remembered that one did not end in time.
    endless_until: Moment,
    /// When the latest request was sent that was answered as quickly as usual.
    quick_sent: Moment,
    /// Until then overdue requests were given up without such an answer, if each takes [`OVERDUE`].
    given_up_until: Moment,
}

impl Times {
    /// What takes longer is not usual; zero if nothing is known.
    fn longest(&self) -> Duration {
        self.answers.longest().max(self.leftovers.longest())
    }

    /// For a request that was sent then, and whose client leaves now.
    fn bounds(&self, now: Moment, sent: Moment) -> Bounds {
        let mean = Duration::from_secs_f64(self.answers.mean_s);
        let within = WITHIN_MIN.max(WITHIN_TIMES * mean);
        let overstays = match self.longest() {
            Duration::ZERO => within,
            longest if now < self.endless_until => longest,
            longest => OVERDUE.max(longest).saturating_sub(now.since(sent)).max(NOTICE),
        };
        Bounds { overstays: overstays.min(within), within }
    }

    fn answered(&mut self, sent: Moment, took: Duration) {
        if took <= self.longest() {
            self.quick_sent = self.quick_sent.max(sent);
        }
        self.answers.add(took, WEIGHT);
    }

    /// Of a request that was sent then and overstays, while so many are in progress.
    fn never_ends(&mut self, now: Moment, in_progress: u32, sent: Moment) -> bool {
        if now < self.endless_until || sent < self.quick_sent {
            return true;
        }
        if self.given_up_until > now + OVERDUE / 2 {
            return false;
        }
        self.given_up_until = self.given_up_until.max(now) + OVERDUE / in_progress.max(1);
        true
    }
}

impl Default for Cancels {
    fn default() -> Self {
        Cancels {
            phase: Phase::Listening { deaf: 0 },
            closes: false,
            since: Moment::ZERO,
            answers: 0,
            left: 0,
            unseen_max: UNSEEN_FIRST,
            held_back: false,
            unseen: Unseen::default(),
            samples: [Sample::default(); 2],
            leavers: [0.0; 2],
            times: Times::default(),
        }
    }
}

impl Cancels {
    /// A client has left whose request was sent at `sent`; so many are `in_progress` at the server, with its own. O(1).
    pub(super) fn left(
        &mut self,
        now: Moment,
        in_progress: u32,
        sent: Moment,
        on_cancel: OnCancel,
    ) -> Way {
        let bounds = self.times.bounds(now, sent);
        match on_cancel {
            OnCancel::Finish => return Way::Finish(bounds),
            OnCancel::Abort => return Way::Abort,
            OnCancel::Learn => {}
        }
        if matches!(self.phase, Phase::Settled { until } if until <= now) {
            self.look_again(now);
        }
        if self.is_sampled() {
            self.left += 1;
            self.leavers[usize::from(self.closes)] += 1.0;
        }
        self.end_turn(now);
        match self.phase {
            Phase::Listening { .. } => Way::Close(bounds),
            Phase::Comparing { .. } if self.closes => {
                let most = (self.unseen_max * f64::from(in_progress)).max(1.0);
                if self.unseen.0 + 1.0 > most {
                    self.held_back = true;
                    return Way::Finish(bounds);
                }
                self.unseen.one_more();
                Way::Close(bounds)
            }
            Phase::Settled { .. } if self.closes => {
                self.unseen.one_more();
                Way::Close(bounds)
            }
            _ => Way::Finish(bounds),
        }
    }

    /// Whether a request that was sent then and overstays ([`Bounds::overstays`]) is taken never to end; so many are
    /// `in_progress` at the server. O(1).
    pub(super) fn never_ends(&mut self, now: Moment, in_progress: u32, sent: Moment) -> bool {
        self.times.never_ends(now, in_progress, sent)
    }

    /// What came of a request whose client had left, one of so many `in_progress`, and for which our half of the
    /// connection was `closed` or not. O(1).
    pub(super) fn left_over(
        &mut self,
        now: Moment,
        in_progress: u32,
        closed: bool,
        leftover: Leftover,
    ) {
        match leftover {
            Leftover::Answered(took) => {
                self.times.leftovers.add(took, WEIGHT_READ);
                self.unseen.one_seen_ended(in_progress);
            }
            Leftover::Endless => self.times.endless_until = now + REMEMBERED,
            Leftover::Stopped => {}
        }
        let Phase::Listening { deaf } = self.phase else { return };
        if !closed {
            return;
        }
        if leftover == Leftover::Stopped {
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
    /// `took`; so many requests were `in_progress` there, with its own. O(1).
    pub(super) fn answered(&mut self, now: Moment, in_progress: u32, sent: Moment, took: Duration) {
        self.times.answered(sent, took);
        self.unseen.one_seen_ended(in_progress);
        if !self.is_sampled() {
            // A turn of finishing begins when what was closed before it is over.
            self.since = now;
            return;
        }
        // What was sent in an earlier turn tells of that.
        if !matches!(self.phase, Phase::Comparing { .. }) || sent < self.since {
            return;
        }
        self.answers += 1;
        self.samples[usize::from(self.closes)].add(took);
        self.end_turn(now);
    }

    /// Whether what is seen now tells of the way in use.
    fn is_sampled(&self) -> bool {
        self.closes || self.unseen.is_over()
    }

    fn end_turn(&mut self, now: Moment) {
        let Phase::Comparing { turns } = self.phase else { return };
        if self.answers < TURN.0 || self.left < TURN.1 {
            return;
        }
        if self.is_slowed() || self.is_left_by_more() {
            return self.settle(now, false);
        }
        let turns = turns + 1;
        if self.closes && turns >= TURNS && !self.held_back {
            return self.settle(now, true);
        }
        if self.closes {
            self.unseen_max *= UNSEEN_GROWS;
        }
        self.phase = Phase::Comparing { turns };
        self.begin_turn(now, !self.closes);
    }

    /// A verdict has held for long enough.
    fn look_again(&mut self, now: Moment) {
        let (closes, unseen_max) = (self.closes, self.unseen_max);
        *self = Cancels { times: self.times, unseen: self.unseen, ..Cancels::default() };
        if closes {
            // How much may be closed at once is known: one turn of each way is enough.
            self.unseen_max = unseen_max;
            self.phase = Phase::Comparing { turns: TURNS - 2 };
            self.begin_turn(now, false);
        }
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

    /// Whether a larger part of the clients left while connections were closed.
    fn is_left_by_more(&self) -> bool {
        let of = |way: usize| {
            let all = self.leavers[way] + self.samples[way].count;
            let part = self.leavers[way] / all;
            (part, part * (1.0 - part) / all)
        };
        if self.samples.iter().any(|sample| sample.count == 0.0) {
            return false;
        }
        let [finish, close] = [0, 1].map(of);
        let more = close.0 - finish.0;
        more > MORE_LEAVE.max(ERRORS * (finish.1 + close.1).sqrt())
    }

    fn begin_turn(&mut self, now: Moment, closes: bool) {
        self.closes = closes;
        if closes {
            (self.samples[1], self.leavers[1]) = (Sample::default(), 0.0);
        }
        (self.since, self.answers, self.left, self.held_back) = (now, 0, 0, false);
    }

    fn settle(&mut self, now: Moment, closes: bool) {
        self.closes = closes;
        self.phase = Phase::Settled { until: now + SETTLED };
    }
}

#[cfg(test)]
mod tests;
