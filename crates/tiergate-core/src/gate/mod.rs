//! The gate: where a request's path and a signal's path meet.
//!
//! | state | who changes it |
//! |---|---|
//! | waiting → granted | [`Gate::finish`], [`Gate::tick`], [`Gate::reconfigure`] (a slot came free) |
//! | waiting → served from the store | as waiting → refused, where a copy is at hand |
//! | waiting → refused | [`Gate::tick`] (deadline), [`Gate::arrive`] (another has its place), whoever grants a slot (CoDel, deadline) |
//! | granted → running | [`Gate::claim`] by the waiter's owner |
//! | waiting, granted → gone | [`Gate::cancel`] by the waiter's owner |
//! | running → to be preempted | a waiting request of a class above ([`Gate::permit_preemption`]) |
//! | running → waiting for a slot of another server → running | [`Gate::transfer`] with the [`Slot`], [`Gate::is_transferred`] |
//! | running → lent | [`Gate::lend`] with the [`Slot`], while the request waits for its client |
//! | lent → waiting, or running with another slot | [`Gate::comes_back`] with the [`Slot`], which is given up then ([`Gate::give_up`]) |
//! | running → stream | [`Gate::stream`] with the [`Slot`]; then gone by [`Gate::stream_ended`] |
//! | running, lent → gone | [`Gate::finish`] with the [`Slot`] |
//!
//! Time is the latest moment that any method was told: threads read the clock before they have the lock, so
//! that one of two may come with an older moment than the other, and no meter shall see time run back.
//!
//! Every method that may settle waiters puts what wakes their owners into a list that the caller
//! takes with [`Gate::next_effect`] until it is empty. The gate never calls out.

mod adapt;
mod adapting;
mod adjust;
mod arrive;
mod away;
mod background;
mod classes;
mod effect;
mod grant;
#[cfg(test)]
mod guarantees;
mod in_background;
mod lane_turns;
mod lanes;
mod lend;
mod lent;
mod moved;
mod outlived;
mod overtaken;
mod pace;
mod pool;
mod preempt;
mod reload;
mod resource;
mod resources;
mod revocable;
mod servers;
mod signal;
mod slot;
mod slow;
mod steer;
mod steering;
mod stored;
mod stream;
mod transfer;
mod transfers;
mod verdict;
mod visits;
mod wait;

use crate::account::Account;
use crate::adjust::Adjustments;
use crate::admit::bucket::Rate;
use crate::admit::importance::Shedding;
use crate::admit::policer::{PolicerState, Policers};
pub use crate::arrival::Arrival;
use crate::backlog::{self, State};
use crate::class::Class;
use crate::control::{Cause, Completion, Law, OriginLoad, Step};
use crate::names::{ClassId, PolicerId, PoolId, RuleId};
use crate::outcome::{End, Outcome};
use crate::plan::Plan;
use crate::reason::Reason;
use crate::sense::Sources;
use crate::stored::Instead;
use crate::time::Moment;
use adapting::Adapting;
pub use adapting::{AdaptationState, Adapts, GuaranteeState, WatchState};
pub use background::{BackgroundBound, BackgroundState};
pub use effect::Effect;
use effect::Effects;
pub use lent::{ClientTime, Lends};
pub use pace::{Delivered, Pace, Progress};
use pool::Common;
pub use pool::{ClassState, Pool};
pub use resources::ResourceState;
use slot::Holds;
pub use slot::Slot;
use std::time::Duration;
use steering::Steering;
pub use steering::{Steer, SteerState};
pub use verdict::{Claim, Refused, Stream, Ticket, Verdict};

/// Admits, queues and refuses requests; grants slots in the policy's order; finds how many there
/// should be. `T` is what wakes a waiting request's owner; the gate only keeps it.
#[derive(Debug)]
pub struct Gate<T> {
    adjustments: Adjustments,
    sources: Sources,
    steering: Steering,
    /// By id; the first is the default pool.
    pools: Vec<Pool<T>>,
    common: Common<T>,
}

impl<T> Gate<T> {
    /// A gate with nothing in it.
    pub fn new(plan: Plan) -> Self {
        let law = plan.slots.law();
        Gate::with_law(plan, law)
    }

    /// The same, with a law of the default pool's limit in place of that of [`slots`], until a plan with other
    /// [`slots`] comes.
    ///
    /// [`slots`]: crate::plan::Spec::slots
    pub fn with_law(plan: Plan, law: Box<dyn Law>) -> Self {
        let mut gate = Gate {
            adjustments: Adjustments::of(plan.clone()),
            sources: Sources::default(),
            steering: Steering::default(),
            pools: vec![Pool::new(PoolId::DEFAULT, &plan, &plan.slots, law)],
            common: Common {
                plan: plan.clone(),
                policers: Policers::default(),
                adapting: Adapting::default(),
                blocking: None,
                draining: false,
                effects: Effects::new(),
                now: Moment::ZERO,
                ahead: Duration::ZERO,
            },
        };
        gate.make_pools(&plan);
        gate.steer_by(&plan);
        // The shell reads those of a new gate.
        gate.pools.iter_mut().for_each(|pool| pool.slots_said = pool.limit.slots());
        gate.put_in_force(Moment::ZERO, plan);
        gate
    }

    /// The time ([`Common::latest`]), a pool, and what it shares with the others. O(1).
    fn at(&mut self, now: Moment, pool: PoolId) -> (Moment, &mut Pool<T>, &mut Common<T>) {
        let now = self.common.latest(now);
        let place = self.place_of(pool);
        (now, &mut self.pools[place], &mut self.common)
    }

    /// A pool's place; that of the default pool if the gate never had such a pool.
    fn place_of(&self, pool: PoolId) -> usize {
        if pool.index() < self.pools.len() { pool.index() } else { PoolId::DEFAULT.index() }
    }

    fn pool_of(&self, pool: PoolId) -> &Pool<T> {
        &self.pools[self.place_of(pool)]
    }

    fn pool_of_mut(&mut self, pool: PoolId) -> &mut Pool<T> {
        let place = self.place_of(pool);
        &mut self.pools[place]
    }

    /// The pool that takes requests which neither rule nor class sends to another.
    fn default_pool(&self) -> &Pool<T> {
        &self.pools[PoolId::DEFAULT.index()]
    }

    /// The pools that the plan in force has, in its order, and those that are gone but have requests left.
    pub fn pools(&self) -> impl Iterator<Item = &Pool<T>> + '_ {
        let planned = self.common.plan.pool_ids().iter().map(|id| self.pool_of(*id));
        planned.chain(self.pools.iter().filter(|pool| !pool.is_planned && pool.is_held()))
    }

    /// Every pool that a plan in force has, or had: what was counted in it stays.
    pub fn all_pools(&self) -> impl Iterator<Item = &Pool<T>> + '_ {
        self.pools.iter()
    }

    /// A pool that a plan in force has, or had.
    pub fn pool(&self, id: PoolId) -> Option<&Pool<T>> {
        self.pools.get(id.index())
    }

    /// What has become of the ticket of a request without a copy. A stale ticket counts as reconfigured away.
    pub fn claim(&mut self, ticket: Ticket) -> Claim {
        self.claim_with_copy(ticket, || false).expect("it has no copy")
    }

    /// What has become of a ticket. `is_there` says whether the copy may still be served; it is asked once, and only if that matters.
    ///
    /// # Errors
    /// The wait is over, and the copy is to be served instead of a refusal.
    pub fn claim_with_copy(
        &mut self,
        ticket: Ticket,
        is_there: impl FnOnce() -> bool,
    ) -> Result<Claim, Instead> {
        let pool = self.pool_of_mut(ticket.pool);
        let ticket = ticket.waiter;
        let Some(waiter) = pool.backlog.waiter(ticket) else {
            return Ok(Claim::Rejected(Reason::Reconfigured));
        };
        Ok(match waiter.state {
            State::Waiting => Claim::Waiting,
            State::Granted(granted) => {
                let slot = pool.slot_of(waiter, granted);
                pool.backlog.remove(ticket);
                Claim::Admitted(slot)
            }
            State::Refused(reason) => {
                pool.backlog.remove(ticket);
                Claim::Rejected(reason)
            }
            State::Stored(reason) => {
                let class = pool.classes.entered(waiter.class);
                pool.backlog.remove(ticket);
                if is_there() {
                    pool.account.stored(class, Instead::Refusal);
                    return Err(Instead::Refusal);
                }
                pool.account.refused(class, reason);
                Claim::Rejected(reason)
            }
        })
    }

    /// The owner of the ticket is gone. A slot it was granted meanwhile goes to the next. O(log n).
    pub fn cancel(&mut self, now: Moment, ticket: Ticket) {
        let (now, pool, common) = self.at(now, ticket.pool);
        pool.cancel(common, now, ticket.waiter);
    }

    /// A request has ended; its slot goes to the next. O(classes + log waiting).
    pub fn finish(&mut self, now: Moment, slot: Slot, outcome: Outcome) {
        let (now, pool, common) = self.at(now, slot.pool);
        pool.finish(common, now, slot, &outcome);
    }

    /// Does what is due: refuses whoever waited past the deadline, grants slots that a policy kept until
    /// now, lets shedding look around. Returns when to call again; [`Moment::NEVER`] if
    /// nothing is pending. That is at once, a moment that has passed, where so many deadlines passed that one
    /// call would take long: it ends no more than 2,000 waits in each pool.
    pub fn tick(&mut self, now: Moment) -> Moment {
        let now = self.common.latest(now);
        let due = self.move_adjustments(now).min(self.steer(now)).min(self.adapt(now));
        let Gate { pools, common, .. } = self;
        pools.iter_mut().fold(due, |due, pool| due.min(pool.tick(common, now)))
    }

    /// When [`Gate::tick`] is to be called for those who wait: the first of them has waited long enough,
    /// or may have a slot that a policy keeps free until then. [`Moment::NEVER`] if nobody waits. Any other
    /// method may make it earlier. O(pools), and O(classes) of those where slots are kept free.
    pub fn next_due(&mut self, now: Moment) -> Moment {
        let now = self.common.latest(now);
        self.pools.iter_mut().fold(Moment::NEVER, |due, pool| due.min(pool.next_due(now)))
    }

    /// Takes one of the effects of what was called before. Call until `None` after every other method.
    ///
    /// Wakes come first. Changes of the slots are said once, however many there were.
    pub fn next_effect(&mut self) -> Option<Effect<T>> {
        if let Some(owner) = self.common.effects.next_wake() {
            return Some(Effect::Wake(owner));
        }
        let changed = self.pools.iter_mut().find(|pool| pool.slots_said != pool.limit.slots());
        if let Some(pool) = changed {
            pool.slots_said = pool.limit.slots();
            let cause = pool.last_step().map_or(Cause::Reload, |(_, step)| step.cause);
            let (slots, resource) = (pool.slots_said, None);
            return Some(Effect::SlotsChanged { pool: pool.id, resource, slots, cause });
        }
        let mut news = self.pools.iter_mut();
        let news = news.find_map(|pool| Some((pool.id, pool.resource_news()?)));
        if let Some((pool, (resource, slots, step))) = news {
            let cause = step.map_or(Cause::Reload, |step| step.cause);
            return Some(Effect::SlotsChanged { pool, resource: Some(resource), slots, cause });
        }
        let mut news = self.pools.iter_mut();
        let news = news.find_map(|pool| Some((pool.id, pool.take_target_news()?)));
        if let Some((pool, (class, is_missed))) = news {
            return Some(Effect::TargetMissed { pool, class, is_missed });
        }
        self.common.effects.next_block()
    }

    /// Takes no new work; whoever waits or runs goes on to the end.
    pub fn drain(&mut self) {
        self.common.draining = true;
    }

    /// The rate of a policer that is in force: what a controller has made of it.
    pub fn policer_rate(&self, id: PolicerId) -> Option<Rate> {
        self.common.policers.rate(id)
    }

    /// The kernel has refused so many requests that asked for a token of the policer: they never come here, and its controller has to know that they were asked for ([`crate::early::unseen`]).
    /// Of one that is not in force nothing is counted. O(1).
    pub fn refused_early(&mut self, id: PolicerId, count: u64) {
        self.common.policers.refused_early(id, count);
    }

    /// How each policer is doing, with its name: in the plan's order, then those that are gone.
    pub fn policers(&self) -> impl Iterator<Item = (&str, PolicerState)> + '_ {
        let Common { plan, policers, .. } = &self.common;
        let planned = plan.policer_ids().iter().zip(&plan.policers);
        let planned = planned.map(|(id, settings)| (*id, settings.name.as_str()));
        let all = planned.chain(policers.gone());
        all.map(|(id, name)| (name, policers.state(id).expect("it was in force")))
    }

    /// The plan in force, with what is adjusted.
    pub fn plan(&self) -> &Plan {
        &self.common.plan
    }

    /// How often a rule decided the class of a request, in all pools. O(pools).
    pub fn rule_hits(&self, rule: RuleId) -> u64 {
        let hits = self.pools.iter().filter_map(|pool| pool.account.rule_hits.get(rule));
        hits.sum()
    }

    /// Requests that no rule matched, in all pools. O(pools).
    pub fn unmatched(&self) -> u64 {
        self.pools.iter().map(|pool| pool.account.unmatched).sum()
    }

    /// [`Pool::shedding`] of the default pool.
    pub fn shedding(&self) -> Option<&Shedding> {
        self.default_pool().shedding()
    }

    /// [`Pool::slots`] of the default pool.
    pub fn slots(&self) -> u32 {
        self.default_pool().slots()
    }

    /// [`Pool::last_step`] of the default pool.
    pub fn last_step(&self) -> Option<(Moment, Step)> {
        self.default_pool().last_step()
    }

    /// [`Pool::running`] of the default pool.
    pub fn running(&self) -> u32 {
        self.default_pool().running()
    }

    /// [`Pool::waiting`] of the default pool.
    pub fn waiting(&self) -> usize {
        self.default_pool().waiting()
    }

    /// What each class of the plan is doing in the default pool, in the plan's order.
    pub fn states(&self) -> impl Iterator<Item = ClassState> + '_ {
        self.common.plan.class_ids().iter().map(|id| self.state(*id))
    }

    /// [`Pool::classes`] of the default pool, which are those of every pool.
    pub fn classes(&self) -> impl Iterator<Item = (ClassId, &Class)> + '_ {
        self.default_pool().classes()
    }

    /// [`Pool::state`] in the default pool.
    ///
    /// # Panics
    /// If the class never was in force.
    pub fn state(&self, class: ClassId) -> ClassState {
        self.default_pool().state(class)
    }

    /// [`Pool::account`] of the default pool.
    pub fn account(&self) -> &Account {
        self.default_pool().account()
    }
}

impl<T> Pool<T> {
    fn cancel(&mut self, common: &mut Common<T>, now: Moment, ticket: backlog::Ticket) {
        let Some(waiter) = self.backlog.waiter(ticket) else {
            return;
        };
        let (class, lane) = (waiter.class, waiter.lane);
        let (running, state) = (waiter.running, waiter.state);
        let (again, flow, waited) = (waiter.again, waiter.flow, now.since(waiter.arrived));
        match state {
            State::Waiting => {
                self.advance(now);
                self.has_waited(now, lane, flow, running, waited);
                self.count_drain(now, lane, running);
                self.leaves(lane);
                self.account.classes[class.index()].cancelled_waiting += u64::from(!again);
                self.backlog.remove(ticket);
                // It may have been the next, and wider than those behind it.
                self.dispatch(common, now);
            }
            State::Granted(granted) => {
                let mut slot = self.slot_of(waiter, granted);
                self.backlog.remove(ticket);
                if again {
                    // The one that is lent says how the request ends.
                    self.give_up(now, &mut slot);
                    return self.dispatch(common, now);
                }
                let left = Some(now.since(granted.at));
                let outcome = Outcome { left, ..Outcome::without_answer(End::Cancelled) };
                self.finish(common, now, slot, &outcome);
            }
            State::Stored(_) => {
                let class = self.classes.entered(class);
                self.account.stored(class, Instead::Refusal);
                self.backlog.remove(ticket);
            }
            // Already counted as refused.
            State::Refused(_) => self.backlog.remove(ticket),
        }
    }

    fn finish(&mut self, common: &mut Common<T>, now: Moment, mut slot: Slot, outcome: &Outcome) {
        let class = slot.class;
        common.adapting.served(slot.adapted, class, outcome, now.since(slot.admitted));
        self.advance(now);
        let running = self.limit.running_at(slot.seat());
        let load = OriginLoad { running, waiting: self.ready() };
        let Slot { lane, admitted, flow, found, found_there, .. } = slot;
        let (seat, transfer) = (slot.seat(), slot.transfer());
        let held = match transfer {
            Some(key) => self.transfers.held(now, admitted, key),
            None => now.since(admitted),
        };
        self.settle_cost(now, &slot, outcome);
        if transfer.is_some() || self.is_written_off(&slot) || self.lent_since(&slot).is_some() {
            self.take_back(now, &mut slot);
            self.account.finished(class, held, outcome);
            return self.dispatch(common, now);
        }
        self.progressed(now);
        if outcome.end == End::Served {
            self.stalls.answered(held);
        }
        let record = self.classes.at_mut(class);
        record.patience.finished(now, flow, slot.waited(), held, outcome);
        if let Some((first, took)) = record.queue_of.zip(outcome.first_byte) {
            self.classes.at_mut(first).answers.took(took);
        }
        self.take_back(now, &mut slot);
        self.account.finished(class, held, outcome);
        let waited = slot.waited();
        let completion =
            Completion { now, class, lane, flow, admitted, waited, found, outcome, load };
        self.completed(&completion, &slot, found_there);
        if !slot.is_beside() {
            self.overtakes(&completion, seat);
        }
        self.dispatch(common, now);
    }

    /// What a slot that comes free tells of the origin.
    fn completed(&mut self, completion: &Completion<'_>, slot: &Slot, found_there: u32) {
        // Slots that clients gave up say how impatient they are, not how fast the origin is; those that were
        // preempted say nothing.
        if let Some(shedding) = &mut self.shedding
            && !slot.is_beside()
            && !matches!(completion.outcome.end, End::Cancelled | End::Preempted | End::Pushback)
        {
            shedding.finished();
        }
        self.tell_background(completion, slot.slots());
        // Without the background the origin might not have refused it.
        let is_doubtful =
            completion.outcome.end == End::Pushback && self.is_doubtful(completion.now, slot.lane);
        match slot.is_beside() || is_doubtful {
            true => self.tell_resource(completion, found_there),
            false => self.tell_limits(completion, slot.seat(), found_there),
        }
    }
}
