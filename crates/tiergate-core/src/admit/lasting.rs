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
//! Source: the controlled delay of Maurer, "Fail at Scale", ACM Queue 13 (2015), which tells a lasting overload
//! by a queue that was not empty for 100 ms; here by refusals, so that a fixed number of clients that all have
//! their turn in time are served as before.

use super::feasible::NEWCOMERS_LACK;
use crate::time::Moment;
use std::time::Duration;

/// Part of the deadline that requests wait for at most while the overload lasts.
const PART: u32 = 16;

/// The refusals of one class, or flow, that were due to deadlines. Newcomers apart from those that go on:
/// sessions come to their end if only newcomers are refused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lasting {
    newcomers: Refusals,
    going_on: Refusals,
}

#[derive(Clone, Copy, Debug, Default)]
struct Refusals {
    /// First and latest of those between which no pause was as long as a deadline.
    since: Option<Moment>,
    latest: Moment,
}

impl Lasting {
    /// A request was refused since it could not be served within `deadline`, the policy's.
    pub(crate) fn refused(&mut self, now: Moment, deadline: Duration, is_newcomer: bool) {
        let refusals = if is_newcomer { &mut self.newcomers } else { &mut self.going_on };
        if refusals.since.is_none() || now.since(refusals.latest) > deadline {
            refusals.since = Some(now);
        }
        refusals.latest = now;
    }

    /// How long a request may have to wait to be let in now: `deadline`, or while the overload lasts a sixteenth
    /// of it or, if that is longer, as long as an `answer` usually takes; less would leave slots idle. One that
    /// goes on has as much more as newcomers lack otherwise ([`super::feasible::patience`]).
    pub(crate) fn deadline(
        &self,
        now: Moment,
        deadline: Duration,
        answer: Duration,
        is_newcomer: bool,
    ) -> Duration {
        let (refusals, more) = match is_newcomer {
            true => (&self.newcomers, Duration::ZERO),
            false => (&self.going_on, deadline / NEWCOMERS_LACK),
        };
        let Some(since) = refusals.since else { return deadline };
        let latest = refusals.latest;
        if now.since(latest) > deadline || latest.since(since) < deadline {
            return deadline;
        }
        ((deadline / PART).max(answer) + more).min(deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(2);
    const ANSWER: Duration = Duration::from_millis(80);

    fn refused(lasting: &mut Lasting, from_ms: u64, to_ms: u64) {
        (from_ms..=to_ms)
            .step_by(10)
            .for_each(|ms| lasting.refused(Moment::from_millis(ms), DEADLINE, true));
    }

    fn at(lasting: &Lasting, ms: u64) -> Duration {
        lasting.deadline(Moment::from_millis(ms), DEADLINE, ANSWER, true)
    }

    #[test]
    fn a_burst_is_waited_for() {
        let mut lasting = Lasting::default();
        assert_eq!(at(&lasting, 0), DEADLINE);
        refused(&mut lasting, 0, 1_990);
        assert_eq!(at(&lasting, 1_990), DEADLINE);
        // Another one, after a pause.
        refused(&mut lasting, 4_000, 5_900);
        assert_eq!(at(&lasting, 5_900), DEADLINE);
    }

    #[test]
    fn an_overload_that_lasts_is_not_until_it_is_over() {
        let mut lasting = Lasting::default();
        refused(&mut lasting, 0, 2_000);
        assert_eq!(at(&lasting, 2_000), DEADLINE / 16);
        assert_eq!(at(&lasting, 4_000), DEADLINE / 16);
        assert_eq!(at(&lasting, 4_001), DEADLINE);
        let slow = Duration::from_millis(500);
        assert_eq!(lasting.deadline(Moment::from_millis(2_000), DEADLINE, slow, true), slow);
        assert_eq!(
            lasting.deadline(Moment::from_millis(2_000), DEADLINE, DEADLINE * 2, true),
            DEADLINE
        );
    }

    #[test]
    fn who_goes_on_waits_for_the_whole_deadline_until_such_are_refused_too() {
        let mut lasting = Lasting::default();
        refused(&mut lasting, 0, 2_000);
        let going_on = |lasting: &Lasting, ms| {
            lasting.deadline(Moment::from_millis(ms), DEADLINE, ANSWER, false)
        };
        assert_eq!(going_on(&lasting, 2_000), DEADLINE);
        for ms in (3_000..=5_000).step_by(10) {
            lasting.refused(Moment::from_millis(ms), DEADLINE, false);
        }
        assert_eq!(going_on(&lasting, 5_000), DEADLINE / 16 + DEADLINE / 8);
        assert_eq!(at(&lasting, 5_000), DEADLINE, "no newcomer came");
    }
}
