//! Whether the overload of a class lasts, and how long its requests wait then if nothing is known of its
//! clients' patience.
//!
//! Served in order of arrival, a queue that is as long as the deadline allows has each request wait for the
//! whole deadline, for as long as the overload lasts. That is of no use to anybody: as many are answered as
//! with a short queue, each of them later, and not one in time where clients give up before and cannot be seen
//! to ([`super::patience`]), as behind a proxy that keeps its connections. A burst is worth waiting for, an
//! overload that lasts is not. So requests that would wait for more than a short time are refused once some have
//! been because of their deadlines for as long as a deadline. Those that were let in may wait for the whole
//! deadline all the same: the origin may stop for a moment.
//!
//! A short queue serves as many only while it does not run empty. So when a request finds a free slot after others
//! were refused that could have waited for it (the load comes in bursts, or requests are few and unlike each
//! other), requests may wait for twice as long as before; and for half as long again when that has not happened
//! for a while. Without this the refusals would keep the queue short and the short queue would cause the next
//! refusals, long after the overload was over.
//!
//! Source: the controlled delay of Maurer, "Fail at Scale", ACM Queue 13 (2015), which tells a lasting overload
//! by a queue that was not empty for 100 ms; here by refusals, so that a fixed number of clients that all have
//! their turn in time is served as before.

use super::feasible::NEWCOMERS_LACK;
use crate::time::Moment;
use std::time::Duration;

/// How often the deadline is halved at most: to a sixteenth.
const HALVINGS: u8 = 4;
/// Deadlines without an idle slot after which it is halved once more. If that was too often, slots were idle for half
/// a deadline at most in so many deadlines.
const STEADY: u32 = 8;

/// The refusals of one flow, class, or queue of several classes, that were due to deadlines. Newcomers apart from those that go on:
/// sessions come to their end if only newcomers are refused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lasting {
    newcomers: Refusals,
    going_on: Refusals,
}

#[derive(Clone, Copy, Debug)]
struct Refusals {
    /// How often the deadline is halved. 0: the overload does not last.
    halvings: u8,
    /// How often it is at first when an overload lasts: as often as was not too often.
    begin: u8,
    /// Since when there have been refusals without a pause as long as a deadline, no slot was idle, and the
    /// deadline was halved as often.
    since: Moment,
    /// The latest refusal; and the latest of one that would have met the deadline itself.
    latest: Option<Moment>,
    short: Option<Moment>,
}

impl Default for Refusals {
    fn default() -> Self {
        let since = Moment::ZERO;
        Refusals { halvings: 0, begin: HALVINGS, since, latest: None, short: None }
    }
}

impl Refusals {
    /// Whether one was refused that could have had a slot that was idle at `idle`.
    fn was_needless(&self, idle: Moment) -> bool {
        self.short.is_some_and(|short| short < idle)
    }

    fn refused(&mut self, now: Moment, deadline: Duration, is_short: bool, idle: Moment) {
        if self.was_needless(idle) {
            self.halvings = self.halvings.saturating_sub(1);
            self.begin = self.halvings;
            self.short = None;
        }
        if self.latest.is_none_or(|latest| now.since(latest) > deadline) {
            self.halvings = 0;
            self.since = now;
        }
        self.since = self.since.max(idle);
        self.latest = Some(now);
        if is_short {
            self.short = Some(now);
        }
        let steady = now.since(self.since);
        if self.halvings < self.begin && steady >= deadline {
            self.halvings = self.begin;
            self.since = now;
        } else if self.halvings < HALVINGS && steady >= deadline * STEADY {
            self.halvings += 1;
            self.begin = self.halvings;
            self.since = now;
        }
    }

    /// How often the deadline is halved now.
    fn halvings(&self, now: Moment, deadline: Duration, idle: Moment) -> u8 {
        if self.latest.is_none_or(|latest| now.since(latest) > deadline) {
            return 0;
        }
        self.halvings.saturating_sub(u8::from(self.was_needless(idle)))
    }
}

impl Lasting {
    /// A request was refused since it could not be served within `deadline`, the policy's, or (`is_short`) since
    /// it could be, but not within what [`Lasting::deadline`] allows. `idle`: when a request last found a free slot.
    pub(crate) fn refused(
        &mut self,
        now: Moment,
        deadline: Duration,
        is_newcomer: bool,
        is_short: bool,
        idle: Moment,
    ) {
        let refusals = if is_newcomer { &mut self.newcomers } else { &mut self.going_on };
        refusals.refused(now, deadline, is_short, idle);
    }

    /// How long a request may have to wait to be let in now: `deadline`, or while the overload lasts a part of it,
    /// at least a sixteenth, or, if that is longer, as long as an `answer` usually takes. One that goes on has as
    /// much more as newcomers lack otherwise ([`super::feasible::patience`]).
    pub(crate) fn deadline(
        &self,
        now: Moment,
        deadline: Duration,
        answer: Duration,
        is_newcomer: bool,
        idle: Moment,
    ) -> Duration {
        let (refusals, more) = match is_newcomer {
            true => (&self.newcomers, Duration::ZERO),
            false => (&self.going_on, deadline / NEWCOMERS_LACK),
        };
        match refusals.halvings(now, deadline, idle) {
            0 => deadline,
            halvings => ((deadline / (1 << halvings)).max(answer) + more).min(deadline),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(2);
    const ANSWER: Duration = Duration::from_millis(80);

    /// Refusals, and when a request last found a free slot.
    #[derive(Default)]
    struct World {
        lasting: Lasting,
        idle: Moment,
    }

    impl World {
        /// Newcomers are refused in this time, one every ten milliseconds.
        fn refused(&mut self, from_ms: u64, to_ms: u64) {
            for ms in (from_ms..=to_ms).step_by(10) {
                let is_short = self.at(ms) < DEADLINE;
                let now = Moment::from_millis(ms);
                self.lasting.refused(now, DEADLINE, true, is_short, self.idle);
            }
        }

        fn idle(&mut self, ms: u64) {
            self.idle = Moment::from_millis(ms);
        }

        fn at(&self, ms: u64) -> Duration {
            self.lasting.deadline(Moment::from_millis(ms), DEADLINE, ANSWER, true, self.idle)
        }
    }

    #[test]
    fn a_burst_is_waited_for() {
        let mut world = World::default();
        assert_eq!(world.at(0), DEADLINE);
        world.refused(0, 1_990);
        assert_eq!(world.at(1_990), DEADLINE);
        // Another one, after a pause.
        world.refused(4_000, 5_900);
        assert_eq!(world.at(5_900), DEADLINE);
        // Nor is one that slots were idle amid.
        world.idle(5_905);
        world.refused(5_910, 7_900);
        assert_eq!(world.at(7_900), DEADLINE);
    }

    #[test]
    fn an_overload_that_lasts_is_not_until_it_is_over() {
        let mut world = World::default();
        world.refused(0, 2_000);
        assert_eq!(world.at(2_000), DEADLINE / 16);
        assert_eq!(world.at(4_000), DEADLINE / 16);
        assert_eq!(world.at(4_001), DEADLINE);
        let answer = |ms| {
            let (now, answer) = (Moment::from_millis(2_000), Duration::from_millis(ms));
            world.lasting.deadline(now, DEADLINE, answer, true, world.idle)
        };
        assert_eq!(answer(500), Duration::from_millis(500));
        assert_eq!(answer(4_000), DEADLINE);
    }

    #[test]
    fn a_queue_that_ran_empty_was_too_short() {
        let mut world = World::default();
        world.refused(0, 3_000);
        for (turn, part) in [(1, 8), (2, 4), (3, 2), (4, 1)] {
            world.idle(3_000 + turn * 100 - 5);
            assert_eq!(world.at(3_000 + turn * 100), DEADLINE / part, "seen at once");
            // Slots that are idle while nobody is refused prove no more.
            world.idle(3_000 + turn * 100 - 1);
            assert_eq!(world.at(3_000 + turn * 100), DEADLINE / part);
            world.refused(3_000 + turn * 100, 3_000 + turn * 100 + 50);
        }
        // From then on it is halved once more after every eight deadlines without an idle slot.
        world.refused(20_000, 35_990);
        assert_eq!(world.at(35_990), DEADLINE);
        world.refused(36_000, 36_000);
        assert_eq!(world.at(36_000), DEADLINE / 2);
        world.refused(36_010, 84_010);
        assert_eq!(world.at(84_010), DEADLINE / 16);
        world.refused(84_020, 120_000);
        assert_eq!(world.at(120_000), DEADLINE / 16, "and no more often");
        world.idle(120_005);
        world.refused(120_010, 120_010);
        assert_eq!(world.at(120_010), DEADLINE / 8);
        // After a pause the next overload that lasts is met with the part that was long enough.
        world.refused(140_000, 142_000);
        assert_eq!(world.at(142_000), DEADLINE / 8);
    }

    #[test]
    fn who_goes_on_waits_for_the_whole_deadline_until_such_are_refused_too() {
        let mut world = World::default();
        world.refused(0, 2_000);
        let going_on = |world: &World, ms| {
            world.lasting.deadline(Moment::from_millis(ms), DEADLINE, ANSWER, false, world.idle)
        };
        assert_eq!(going_on(&world, 2_000), DEADLINE);
        for ms in (3_000..=5_000).step_by(10) {
            let now = Moment::from_millis(ms);
            world.lasting.refused(now, DEADLINE, false, false, world.idle);
        }
        assert_eq!(going_on(&world, 5_000), DEADLINE / 16 + DEADLINE / 8);
        assert_eq!(world.at(5_000), DEADLINE, "no newcomer came");
    }
}
