//! Policers whose rate follows a reading: once a period, with each new reading, their laws are asked, and what
//! they say is adjusted.
//!
//! Several laws must not pull at one server. Those that hold a share of a resource go first: they turn away only the requests that use
//! it. A queue's law does not let in less
//!
//! * for four seconds after the queue became too long, because readings of shares are late;
//! * while a share is above its reference, and for ten seconds afterwards, if its law can still let in less.
//!
//! Unless the queue has been more than twice too long for fifteen seconds all the same: then its law leads until its rate is at its highest again. It does not let in
//! more than is served while a share is above its reference, if its law can still let in less. Where an adaptation goes by the same reading, and can still lower quality,
//! a law of a share does not let in less for fifteen seconds. That a queue is too long is told to the laws of shares, which act the faster
//! for it.
//!
//! Source: Voigt D, 2.1 (resource-based control before that of all requests), 2.3 (no higher rate for all while the processor is
//! above its reference).

use super::Gate;
use super::steering::{
    AFTERWARDS, Counted, Demand, GRACE, Kept, PATIENCE_MAX, Steer, SteerState, Steered,
};
use crate::account::ClassAccount;
use crate::adjust::{Adjusted, Adjustment, Adjustments, Change, Setting};
use crate::admit::inbound::{Inbound, PERIOD, Reference, Seen};
use crate::admit::policer::Counts;
use crate::names::PoolId;
use crate::plan::Plan;
use crate::reason::Reason;
use crate::sense::Quantity;
use crate::time::Moment;

/// Who adjusts the rates.
const OWNER: &str = Adjustments::INBOUND;

/// What others leave to a law.
#[derive(Clone, Copy)]
struct May {
    rise: bool,
    fall: bool,
}

/// What a queue tells the law of a share.
#[derive(Clone, Copy)]
struct Queue {
    is_backed_up: bool,
    is_draining: bool,
    wants_more: bool,
}

impl<T> Gate<T> {
    /// Asks the laws if that is due; returns when it will be. [`Moment::NEVER`] without any.
    pub(super) fn steer(&mut self, now: Moment) -> Moment {
        if self.steering.list.is_empty() {
            self.pool_of_mut(PoolId::DEFAULT).kept = None;
            return Moment::NEVER;
        }
        let due = self.steering.asked + PERIOD;
        if now < due {
            return due;
        }
        self.steering.asked = now;
        let mut steering = std::mem::take(&mut self.steering);
        for it in &mut steering.list {
            let read = self.reading(now, &it.inbound.source, it.inbound.reference);
            it.take(read);
            it.is_taken = self.is_taken(it);
            if !it.is_beyond() {
                it.within_at = now;
            }
        }
        let can = |it: &Steered| {
            let rate = self.common.policers.state(it.policer).map(|it| it.rate);
            let is_above_min = rate.is_some_and(|rate| rate > it.inbound.min);
            it.is_of_share() && is_above_min && !it.is_taken && it.reading.is_some()
        };
        let is_full = steering.list.iter().any(|it| can(it) && it.is_beyond());
        if steering.list.iter().any(|it| can(it) && it.is_far_beyond()) {
            steering.patient_until = now + AFTERWARDS;
        }
        if !steering.list.iter().any(|it| !it.is_of_share() && it.is_beyond()) {
            steering.short_at = now;
        }
        let is_held = |it: &Steered| {
            let highest = Setting::PolicerRate(it.policer).read(self.adjustments.base());
            let rate = self.common.policers.state(it.policer).map(|it| it.rate.tokens_per_second());
            let is_lower = rate.zip(highest).is_some_and(|(rate, highest)| rate < highest);
            // What somebody else has set is not the law's.
            !it.is_of_share() && !it.is_taken && is_lower
        };
        if !steering.list.iter().any(Steered::is_beyond_twice) {
            steering.within_twice_at = now;
        }
        steering.queue_leads = now >= steering.within_twice_at + PATIENCE_MAX
            || steering.queue_leads && steering.list.iter().any(is_held);
        let patient_until = steering.patient_until.max(steering.short_at + GRACE);
        let others_can =
            now < patient_until && !steering.queue_leads && steering.list.iter().any(can);
        let is_backed_up = !steering.queue_leads && steering.list.iter().any(Steered::is_backed_up);
        let is_draining = steering.list.iter().any(Steered::is_draining);
        let wants_more = steering.list.iter().any(|it| is_held(it) && self.wants_more(it));
        let mut changes = Vec::new();
        for it in &mut steering.list {
            let may = match it.is_of_share() {
                true => May { rise: true, fall: !self.is_degraded_first(now, it) },
                false => May { rise: !is_full, fall: !others_can },
            };
            let is_backed_up = is_backed_up && it.is_far_beyond();
            let queue = Queue { is_backed_up, is_draining, wants_more };
            changes.extend(self.step(now, it, may, queue));
        }
        if steering.list.iter().any(|it| it.is_of_backlog() && it.state == Steer::Lowest) {
            steering.lowest_at = Some(now);
        }
        let can_keep = steering.lowest_at.is_none_or(|at| now >= at + AFTERWARDS);
        let keeps = |it: &Steered| {
            let does = can_keep && it.is_of_backlog() && it.state == Steer::Follows;
            it.law.wait().filter(|_| does).map(|wait| Kept { by: it.policer, wait })
        };
        self.pool_of_mut(PoolId::DEFAULT).kept = steering.list.iter().find_map(keeps);
        self.steering = steering;
        if !changes.is_empty() {
            // What somebody else has set was left out, and every value is within the policy's bounds.
            let changed = self.change(now, OWNER, &changes);
            debug_assert!(changed.is_ok(), "{changed:?}");
        }
        now + PERIOD
    }

    /// Whether quality is still being lowered for the share that a law holds: nobody is refused meanwhile, for fifteen seconds at most.
    fn is_degraded_first(&self, now: Moment, it: &Steered) -> bool {
        now < it.within_at + PATIENCE_MAX && self.common.adapting.can_degrade(&it.inbound.source)
    }

    /// Whether a queue's law turns requests away though few wait, as measured just now.
    fn wants_more(&self, it: &Steered) -> bool {
        let refused = self.common.policers.state(it.policer).map(|it| it.counts.refused);
        it.is_new && it.is_short() && refused.is_some_and(|refused| it.has_refused(refused))
    }

    /// Requests that have left the queue of the default pool without a slot: their clients did, or they waited for too long.
    fn left_unserved(&self) -> u64 {
        let late = [Reason::DeadlineExpired, Reason::QueueDelay].map(Reason::index);
        let of = |class: &ClassAccount| {
            class.cancelled_waiting + late.iter().map(|it| class.refused[*it]).sum::<u64>()
        };
        self.default_pool().account().classes.iter().map(of).sum()
    }

    /// What is to become of a policer's rate.
    fn step(&self, now: Moment, it: &mut Steered, may: May, queue: Queue) -> Option<Change> {
        let setting = Setting::PolicerRate(it.policer);
        let max = setting.read(self.adjustments.base())?;
        let state = self.common.policers.state(it.policer)?;
        let (rate, min) = (state.rate.tokens_per_second(), it.inbound.min.tokens_per_second());
        // What waits here is counted at this moment, and who leaves it.
        let given_up = if it.is_of_backlog() { self.left_unserved() } else { 0 };
        let Counts { passed, refused, early, .. } = state.counts;
        let counted = Counted { passed, refused, early, given_up };
        if it.is_taken {
            it.is_blind(Steer::Taken, now, counted);
            return None;
        }
        let wanted = match it.reading {
            // What a reload allows no more is not held either.
            None => {
                it.is_blind(Steer::Blind, now, counted);
                rate.clamp(min, max)
            }
            Some(_) if !it.is_new => rate.clamp(min, max),
            Some(reading) => {
                it.state = Steer::Follows;
                let Demand { seconds, used, asked, given_up } = it.demand(now, counted)?;
                let (may_rise, may_fall) = (may.rise, may.fall);
                let is_prompt = it.is_of_backlog() || seconds >= 1.5 * PERIOD.as_secs_f64();
                let seen = Seen {
                    reading,
                    seconds,
                    rate,
                    min,
                    max,
                    used,
                    asked,
                    given_up,
                    may_be_late: !is_prompt,
                    may_rise,
                    may_fall,
                    is_backed_up: queue.is_backed_up,
                    is_draining: queue.is_draining,
                    is_in_the_way: queue.wants_more,
                };
                let wanted = it.law.next(seen);
                if wanted <= min && it.is_beyond() {
                    it.state = Steer::Lowest;
                }
                wanted
            }
        };
        let adjustment = Adjustment { setting, value: wanted, min, max, slew_per_s: f64::INFINITY };
        let change = if wanted >= max { Change::Undo(setting) } else { Change::Set(adjustment) };
        (wanted != rate).then_some(change)
    }

    /// Whether somebody else has set the rate.
    fn is_taken(&self, it: &Steered) -> bool {
        let setting = Setting::PolicerRate(it.policer);
        let is_other =
            |it: &Adjusted| !it.lapsed && it.wanted.setting == setting && *it.owner != *OWNER;
        self.adjustments.iter().any(is_other)
    }

    /// The reading that holds, if it is of the kind that the reference is of; and when it came.
    pub(super) fn reading(
        &self,
        now: Moment,
        source: &str,
        reference: Reference,
    ) -> Option<(f64, Moment)> {
        if source == Inbound::BACKLOG {
            return Some((self.default_pool().waiting() as f64, now));
        }
        let source = self.sources.iter().find(|it| &*it.name == source)?;
        let reading = match (source.quantity, reference) {
            (Quantity::Utilization(share), Reference::Utilization(_)) => share,
            (Quantity::QueueLen(len), Reference::QueueLen(_)) => f64::from(len),
            _ => return None,
        };
        (!source.is_stale(now)).then_some((reading, source.at))
    }

    /// Follows a plan: ends the adjustments of policers that are no longer steered.
    pub(super) fn steer_by(&mut self, plan: &Plan) {
        for policer in self.steering.reconfigure(plan) {
            self.adjustments.forget(OWNER, Setting::PolicerRate(policer));
        }
    }

    /// The policers whose rate follows a reading.
    pub fn steered(&self) -> impl Iterator<Item = SteerState> + '_ {
        let name = |id| self.common.plan.policer(id).map_or_else(String::new, |it| it.name.clone());
        self.steering.list.iter().map(move |it| SteerState {
            policer: name(it.policer),
            source: it.inbound.source.to_string(),
            reading: it.reading,
            reference: it.inbound.reference,
            state: it.state,
        })
    }
}
