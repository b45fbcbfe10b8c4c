//! The policers whose rate follows a reading, and what each is doing.

use crate::admit::inbound::{Inbound, InboundLaw, Reference};
use crate::names::PolicerId;
use crate::plan::Plan;
use crate::time::Moment;
use std::time::Duration;

/// All policers whose rate follows a reading.
#[derive(Debug, Default)]
pub(super) struct Steering {
    pub(super) list: Vec<Steered>,
    /// When the laws were asked last.
    pub(super) asked: Moment,
    /// Until when a queue's law lets those of shares go first.
    pub(super) patient_until: Moment,
    /// When a queue was last no longer than it should be, and no more than twice as long.
    pub(super) short_at: Moment,
    pub(super) within_twice_at: Moment,
    /// When a queue's law was last at its least and could not keep it at its reference.
    pub(super) lowest_at: Option<Moment>,
    /// Those of shares could not shorten a queue in time: its law goes first until its rate is at its highest again.
    pub(super) queue_leads: bool,
}

/// So long after a share was above its reference a queue is what is left of that, and its law does not act.
pub(super) const AFTERWARDS: Duration = Duration::from_secs(10);
/// A queue becomes shorter if no more than this part of it is there a period later.
const SHRINKS: f64 = 0.95;
/// So long after a queue became too long its law lets them go first though no share is above its reference yet: readings are late.
pub(super) const GRACE: Duration = Duration::from_secs(4);
/// A queue's law does not let others go first any more where it has been too long for this time: what they can do does not suffice.
pub(super) const PATIENCE_MAX: Duration = Duration::from_secs(15);
/// A law holds its share within this; beyond, it has yet to act.
pub(super) const HELD_WITHIN: f64 = 1.05;

/// One of them.
#[derive(Debug)]
pub(super) struct Steered {
    pub(super) policer: PolicerId,
    pub(super) inbound: Inbound,
    pub(super) law: InboundLaw,
    /// When the law was asked last, and what had been counted by then.
    asked: Option<(Moment, Counted)>,
    pub(super) reading: Option<f64>,
    /// Of a queue: whether it was shorter than the time before.
    pub(super) shrinks: bool,
    /// By how much it grew.
    growth: f64,
    /// When that came.
    pub(super) read: Option<Moment>,
    /// Whether it is another one than in the last period.
    pub(super) is_new: bool,
    /// Whether somebody else has set the rate.
    pub(super) is_taken: bool,
    /// When the reading was last no higher than it should be.
    pub(super) within_at: Moment,
    pub(super) state: Steer,
}

/// What a policer's control is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steer {
    /// The rate follows the reading.
    Follows,
    /// The rate is the lowest, and the reading is beyond its reference all the same.
    Lowest,
    /// There is no reading, or one of another kind: the rate stays.
    Blind,
    /// Somebody else has changed the rate: it is theirs.
    Taken,
}

impl Steer {
    /// Its name in status and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Steer::Follows => "follows",
            Steer::Lowest => "lowest",
            Steer::Blind => "blind",
            Steer::Taken => "taken",
        }
    }
}

/// A policer whose rate follows a reading.
#[derive(Clone, Debug, PartialEq)]
pub struct SteerState {
    /// The policer's name.
    pub policer: String,
    /// The source of the readings.
    pub source: String,
    /// The latest one; `None`: there is none that holds.
    pub reading: Option<f64>,
    /// Where it is to stay.
    pub reference: Reference,
    /// What the control is doing.
    pub state: Steer,
}

impl Steering {
    /// Follows a plan. Returns the policers that are no longer steered.
    pub(super) fn reconfigure(&mut self, plan: &Plan) -> Vec<PolicerId> {
        let former = std::mem::take(&mut self.list);
        let planned = plan.policer_ids().iter().zip(&plan.policers);
        for (policer, settings) in planned {
            let Some(inbound) = &settings.inbound else { continue };
            let known = former.iter().find(|it| it.policer == *policer);
            let same = known.filter(|it| it.inbound == *inbound);
            self.list.push(Steered {
                policer: *policer,
                inbound: inbound.clone(),
                law: same.map_or_else(|| InboundLaw::new(inbound.reference), |it| it.law),
                asked: known.and_then(|it| it.asked),
                shrinks: false,
                growth: 0.0,
                reading: same.and_then(|it| it.reading),
                read: same.and_then(|it| it.read),
                is_new: false,
                is_taken: false,
                within_at: same.map_or(Moment::ZERO, |it| it.within_at),
                state: same.map_or(Steer::Blind, |it| it.state),
            });
        }
        let is_gone = |it: &Steered| self.list.iter().all(|other| other.policer != it.policer);
        former.iter().filter(|it| is_gone(it)).map(|it| it.policer).collect()
    }
}

/// A policer whose rate keeps a pool's queue at a length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) by: PolicerId,
    /// How long requests wait in a queue of that length.
    pub(super) wait: Duration,
}

/// Requests that had a token, were refused one, here or before they came, and left the queue unserved, since they are counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) passed: u64,
    pub(super) refused: u64,
    pub(super) early: u64,
    pub(super) given_up: u64,
}

/// What was asked for in a period.
pub(super) struct Demand {
    /// How long it was.
    pub(super) seconds: f64,
    /// Requests a second that had a token, and those that asked for one.
    pub(super) used: f64,
    pub(super) asked: f64,
    /// Those that left the queue unserved.
    pub(super) given_up: f64,
}

impl Steered {
    /// Takes the latest reading and when it came.
    pub(super) fn take(&mut self, read: Option<(f64, Moment)>) {
        let before = self.reading;
        self.reading = read.map(|(reading, _)| reading);
        self.is_new = read.is_some_and(|(_, at)| self.read.replace(at) != Some(at));
        if self.is_new {
            let shrinks = |(now, before): (f64, f64)| now < SHRINKS * before;
            self.shrinks = self.reading.zip(before).is_some_and(shrinks);
            self.growth = self.reading.zip(before).map_or(0.0, |(now, before)| now - before);
        }
    }

    /// Whether the reading is higher than it should be.
    pub(super) fn is_beyond(&self) -> bool {
        self.reading.is_some_and(|reading| reading > self.inbound.reference.value())
    }

    /// Whether it is so much higher that the law has yet to bring it down. Of a reference of nearly all: whether it is higher.
    pub(super) fn is_far_beyond(&self) -> bool {
        let reference = self.inbound.reference.value();
        let bound = (reference * HELD_WITHIN).min((reference + 1.0) / 2.0);
        self.reading.is_some_and(|reading| reading > bound)
    }

    /// Whether it is of a queue that was measured just now, is longer than it should be and does not become shorter.
    pub(super) fn is_backed_up(&self) -> bool {
        !self.is_of_share() && self.is_new && self.is_beyond() && !self.shrinks
    }

    /// Whether it is of a queue that is longer than it should be and becomes shorter: it is much longer, or will be shorter than that soon.
    pub(super) fn is_draining(&self) -> bool {
        let reference = self.inbound.reference.value();
        let is_over_soon = |len: f64| len > reference && len + self.growth < reference;
        let drains = |len| self.is_beyond_twice() || is_over_soon(len);
        !self.is_of_share() && self.shrinks && self.reading.is_some_and(drains)
    }

    /// Whether it is of a queue that is more than twice as long as it should be.
    pub(super) fn is_beyond_twice(&self) -> bool {
        let twice = 2.0 * self.inbound.reference.value();
        !self.is_of_share() && self.reading.is_some_and(|len| len > twice)
    }

    /// Whether it is of a queue that is not even half as long as it may be.
    pub(super) fn is_short(&self) -> bool {
        let half = self.inbound.reference.value() / 2.0;
        !self.is_of_share() && self.reading.is_some_and(|reading| reading < half)
    }

    /// Whether requests have been refused since the law was asked last, if so many have been by now.
    pub(super) fn has_refused(&self, refused: u64) -> bool {
        self.asked.is_some_and(|(_, then)| refused > then.refused)
    }

    /// Whether it goes by what waits in the default pool.
    pub(super) fn is_of_backlog(&self) -> bool {
        *self.inbound.source == *Inbound::BACKLOG
    }

    pub(super) fn is_of_share(&self) -> bool {
        matches!(self.inbound.reference, Reference::Utilization(_))
    }

    /// The law is not asked, for that reason. What is asked for is counted from now on.
    pub(super) fn is_blind(&mut self, why: Steer, now: Moment, counted: Counted) {
        self.law.is_blind();
        (self.asked, self.state) = (Some((now, counted)), why);
    }

    /// What was asked for since the law was asked last; `None`: it was not.
    pub(super) fn demand(&mut self, now: Moment, counted: Counted) -> Option<Demand> {
        let (at, then) = self.asked.replace((now, counted))?;
        let seconds = now.since(at).as_secs_f64().max(1e-3);
        let a_second = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        let used = a_second(counted.passed, then.passed);
        let refused = a_second(counted.refused, then.refused) + a_second(counted.early, then.early);
        let asked = used + refused;
        let given_up = a_second(counted.given_up, then.given_up);
        Some(Demand { seconds, used, asked, given_up })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::bucket::Rate;
    use crate::admit::policer::{Per, Settings};
    use crate::plan::Spec;

    #[test]
    fn what_was_counted_before_a_reload_counts_no_more_after_it() {
        let source = Inbound::BACKLOG.into();
        let (reference, min) = (Reference::QueueLen(100), Rate::per_second(10));
        let policer = Settings {
            name: "all".to_owned(),
            key: None,
            rate: Rate::per_second(1000),
            burst: 20,
            per: Per::Rule,
            shares: Vec::new(),
            inbound: Some(Inbound { source, reference, min }),
            announce: false,
        };
        let spec = Spec { policers: vec![policer], ..Spec::protective() };
        let plan = spec.build().expect("a sound plan");
        let mut steering = Steering::default();
        steering.reconfigure(&plan);
        let counted = |given_up| {
            let (passed, early) = (10 * given_up, 2 * given_up);
            Counted { passed, refused: given_up, early, given_up }
        };
        let at = Moment::from_millis;
        assert!(steering.list[0].demand(at(1000), counted(5000)).is_none(), "it was not asked");
        let demand = steering.list[0].demand(at(2000), counted(5100)).expect("it was");
        assert_eq!((demand.used, demand.asked, demand.given_up), (1000.0, 1300.0, 100.0));
        steering.reconfigure(&plan);
        let demand = steering.list[0].demand(at(3000), counted(5150)).expect("it was");
        assert_eq!((demand.used, demand.given_up), (500.0, 50.0));
        // Nor does what came while it was not asked.
        steering.list[0].is_blind(Steer::Taken, at(9000), counted(9000));
        let demand = steering.list[0].demand(at(10_000), counted(9010)).expect("it was");
        assert_eq!(demand.given_up, 10.0);
    }
}
