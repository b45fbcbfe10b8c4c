//! The gate: where a request's path and a signal's path meet.
//!
//! | state | who changes it |
//! |---|---|
//! | waiting → granted | [`Gate::finish`], [`Gate::tick`], [`Gate::reconfigure`] (a slot came free) |
//! | waiting → refused | [`Gate::tick`] (deadline), [`Gate::arrive`] (another has its place), whoever grants a slot (CoDel, deadline) |
//! | granted → running | [`Gate::claim`] by the waiter's owner |
//! | waiting, granted → gone | [`Gate::cancel`] by the waiter's owner |
//! | running → to be preempted | a waiting request of a class above ([`Gate::permit_preemption`]) |
//! | running → stream | [`Gate::stream`] with the [`Slot`]; then gone by [`Gate::stream_ended`] |
//! | running → gone | [`Gate::finish`] with the [`Slot`] |
//!
//! Time is the latest moment that any method was told: threads read the clock before they have the lock, so
//! that one of two may come with an older moment than the other, and no meter shall see time run back.
//!
//! Every method that may settle waiters puts what wakes their owners into a list that the caller
//! takes with [`Gate::next_effect`] until it is empty. The gate never calls out.

mod adjust;
mod arrive;
mod classes;
mod effect;
mod grant;
mod pace;
mod preempt;
mod reload;
mod revocable;
mod signal;
mod slow;
mod stream;
mod wait;

use crate::account::Account;
use crate::adjust::Adjustments;
use crate::admit::block::Blocking;
use crate::admit::importance::Shedding;
use crate::admit::policer::{PolicerState, Policers, Quota};
use crate::admit::triggers::Triggers;
pub use crate::arrival::Arrival;
pub use crate::backlog::Ticket;
use crate::backlog::{Backlog, FlowTurn, State};
use crate::class::Class;
use crate::collections::Key;
use crate::control::{Cause, Completion, Law, Limit, OriginLoad, Step};
use crate::cost::Costs;
use crate::names::{ClassId, PolicerId, RuleId};
use crate::outcome::{End, Outcome};
use crate::plan::Plan;
use crate::reason::Reason;
use crate::schedule::{Grant, Schedule};
use crate::sense::Sources;
use crate::time::Moment;
use classes::Classes;
pub use effect::Effect;
use effect::Effects;
pub use pace::{Delivered, Pace, Progress};
use revocable::Revocable;
use std::time::Duration;

/// What the gate says to an arrival.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// Go on to the origin.
    Admit(Slot),
    /// Wait; the waker given is handed back by [`Effect::Wake`] when the wait ends.
    Queue(Ticket),
    /// Answer the client with a refusal.
    Reject(Reason),
}

/// What has become of a ticket.
#[derive(Debug, PartialEq)]
pub enum Claim {
    /// Nothing yet.
    Waiting,
    /// The wait is over; the ticket is used up.
    Admitted(Slot),
    /// The wait is over; the ticket is used up.
    Rejected(Reason),
}

/// The right to be in progress at the origin. Must come back by [`Gate::finish`] or
/// [`Gate::stream`]: the shell keeps it in a guard whose drop does so.
#[derive(Debug, PartialEq)]
#[must_use = "a slot that is not finished is lost to every other request"]
pub struct Slot {
    class: ClassId,
    rule: Option<RuleId>,
    arrived: Moment,
    admitted: Moment,
    grant: Grant,
    /// The flow that it was charged to, if it waited.
    turn: Option<FlowTurn>,
    /// What it is named by among the preemptible ones.
    preemptible: Option<Key>,
    /// What it is named by among those of clients that are slow or have left.
    slow: Option<Key>,
}

impl Slot {
    /// When the slot was granted.
    pub fn admitted(&self) -> Moment {
        self.admitted
    }

    /// How long the request waited for it.
    pub fn waited(&self) -> Duration {
        self.admitted.since(self.arrived)
    }

    /// How many slots it is: what its request takes.
    pub fn slots(&self) -> u16 {
        self.grant.slots
    }
}

/// A stream that is open. Must come back by [`Gate::stream_ended`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a stream that is not ended counts for ever"]
pub struct Stream {
    class: ClassId,
}

/// A refusal, with what the client can be told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub reason: Reason,
    /// How long it takes until such a request has a chance: zero if that is not known,
    /// [`Duration::MAX`] if it is not expected ever to have one.
    pub wait: Duration,
    /// The policer that had no token for it, and what it has.
    pub policer: Option<(PolicerId, Quota)>,
}

impl Refused {
    /// For a reason of which nothing more is known.
    pub const fn of(reason: Reason) -> Self {
        Refused { reason, wait: Duration::ZERO, policer: None }
    }
}

/// A class's state at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassState {
    /// Requests that wait.
    pub waiting: u32,
    /// Slots held.
    pub running: u32,
    /// Requests that hold them: as many, unless some take several.
    pub requests: u32,
    /// Long-lived streams that are open without a slot.
    pub streams: u32,
    /// After how long its clients leave, as far as that is known; `None` too where the policy does not want it
    /// learned.
    pub patience: Option<Duration>,
}

/// Admits, queues and refuses requests; grants slots in the policy's order; finds how many there
/// should be. `T` is what wakes a waiting request's owner; the gate only keeps it.
#[derive(Debug)]
pub struct Gate<T> {
    /// The plan in force: the one given, with the adjustments on top.
    plan: Plan,
    adjustments: Adjustments,
    sources: Sources,
    limit: Limit,
    schedule: Schedule,
    costs: Costs,
    backlog: Backlog<T>,
    classes: Classes,
    preemptible: Revocable<T>,
    slow: Revocable<T>,
    policers: Policers,
    triggers: Triggers,
    shedding: Option<Shedding>,
    blocking: Option<Blocking>,
    draining: bool,
    effects: Effects<T>,
    account: Account,
    /// The latest moment that was told.
    now: Moment,
}

impl<T> Gate<T> {
    /// A gate with nothing in it.
    pub fn new(plan: Plan) -> Self {
        let law = plan.slots.law();
        Gate::with_law(plan, law)
    }

    /// The same, with a law of the limit in place of that of [`slots`], until a plan with other [`slots`]
    /// comes.
    ///
    /// [`slots`]: crate::plan::Spec::slots
    pub fn with_law(plan: Plan, law: Box<dyn Law>) -> Self {
        let mut gate = Gate {
            effects: Effects::new(law.slots()),
            limit: Limit::new(law, &plan.slots),
            adjustments: Adjustments::of(plan.clone()),
            sources: Sources::default(),
            schedule: Schedule::new(&plan),
            costs: Costs::new(plan.cost),
            backlog: Backlog::new(),
            classes: Classes::default(),
            preemptible: Revocable::new(),
            slow: Revocable::new(),
            policers: Policers::default(),
            triggers: Triggers::default(),
            shedding: None,
            blocking: None,
            draining: false,
            account: Account::default(),
            now: Moment::ZERO,
            plan: plan.clone(),
        };
        gate.put_in_force(Moment::ZERO, &plan);
        gate
    }

    /// What the time is when a caller says that it is `now`: every method that is told begins with it.
    fn latest(&mut self, now: Moment) -> Moment {
        self.now = self.now.max(now);
        self.now
    }

    /// What has become of a ticket. A stale ticket counts as reconfigured away.
    pub fn claim(&mut self, ticket: Ticket) -> Claim {
        let Some(waiter) = self.backlog.waiter(ticket) else {
            return Claim::Rejected(Reason::Reconfigured);
        };
        match waiter.state {
            State::Waiting => Claim::Waiting,
            State::Granted(at) => {
                let slot = self.slot_of(waiter, at);
                self.backlog.remove(ticket);
                Claim::Admitted(slot)
            }
            State::Refused(reason) => {
                self.backlog.remove(ticket);
                Claim::Rejected(reason)
            }
        }
    }

    /// The owner of the ticket is gone. A slot it was granted meanwhile goes to the next. O(log n).
    pub fn cancel(&mut self, now: Moment, ticket: Ticket) {
        let now = self.latest(now);
        let Some(waiter) = self.backlog.waiter(ticket) else {
            return;
        };
        let (class, running, state) = (waiter.class, waiter.running, waiter.state);
        let waited = now.since(waiter.arrived);
        match state {
            State::Waiting => {
                self.advance(now);
                self.count_drain(now, class, running);
                self.leaves(class);
                self.classes.at_mut(class).patience.left(now, waited);
                self.account.classes[class.index()].cancelled_waiting += 1;
                self.backlog.remove(ticket);
                // It may have been the next, and wider than those behind it.
                self.dispatch(now);
            }
            State::Granted(at) => {
                let slot = self.slot_of(waiter, at);
                self.backlog.remove(ticket);
                let left = Some(now.since(at));
                let outcome = Outcome { left, ..Outcome::without_answer(End::Cancelled) };
                self.finish(now, slot, outcome);
            }
            // Already counted as refused.
            State::Refused(_) => self.backlog.remove(ticket),
        }
    }

    /// A request has ended; its slot goes to the next. O(classes + log waiting).
    pub fn finish(&mut self, now: Moment, slot: Slot, outcome: Outcome) {
        let now = self.latest(now);
        let class = slot.class;
        self.advance(now);
        let waiting = self.backlog.len() as u32;
        let load = OriginLoad { running: self.limit.running(), waiting };
        let admitted = slot.admitted;
        let held = now.since(admitted);
        self.settle_cost(now, &slot, &outcome);
        self.classes.at_mut(class).patience.finished(now, slot.waited(), held, &outcome);
        self.take_back(slot);
        self.account.finished(class, held, &outcome);
        // Slots that clients gave up say how impatient they are, not how fast the origin is; those that were
        // preempted say nothing.
        if let Some(shedding) = &mut self.shedding
            && !matches!(outcome.end, End::Cancelled | End::Preempted | End::Pushback)
        {
            shedding.finished();
        }
        self.limit.finished(&Completion { now, class, admitted, outcome: &outcome, load });
        self.dispatch(now);
    }

    /// Does what is due: refuses whoever waited past the deadline, grants slots that a policy kept until
    /// now, lets shedding look around. Returns when to call again; [`Moment::NEVER`] if
    /// nothing is pending. That is at once, a moment that has passed, where so many deadlines passed that one
    /// call would take long: it ends no more than 2,000 waits.
    pub fn tick(&mut self, now: Moment) -> Moment {
        let now = self.latest(now);
        let moving = self.move_adjustments(now);
        self.advance(now);
        self.expire(now);
        self.dispatch(now);
        self.classes.let_go();
        let waiting = self.backlog.len() as u32;
        let shed = self.shedding.as_mut().map_or(Moment::NEVER, |it| it.tick(now, waiting));
        shed.min(moving).min(self.next_due(now))
    }

    /// When [`Gate::tick`] is to be called for those who wait: the first of them has waited long enough,
    /// or may have a slot that a policy keeps free until then. [`Moment::NEVER`] if nobody waits. Any other
    /// method may make it earlier. O(1); O(classes) while slots are kept free.
    pub fn next_due(&mut self, now: Moment) -> Moment {
        let now = self.latest(now);
        let deadline = self.backlog.next_deadline();
        if !self.schedule.keeps_free() || self.backlog.len() == 0 || !self.limit.has_free() {
            return deadline;
        }
        self.advance(now);
        let change = self.schedule.next_change(self.classes.loads(), self.limit.slots());
        deadline.min(change.map_or(Moment::NEVER, |after| now + after))
    }

    /// Takes one of the effects of what was called before. Call until `None` after every other method.
    ///
    /// Wakes come first. Changes of the slots are said once, however many there were.
    pub fn next_effect(&mut self) -> Option<Effect<T>> {
        let limit = &self.limit;
        let cause = || limit.last_step().map_or(Cause::Reload, |(_, step)| step.cause);
        self.effects.next(limit.slots(), cause)
    }

    /// Takes no new work; whoever waits or runs goes on to the end.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// How each policer is doing, with its name: in the plan's order, then those that are gone.
    pub fn policers(&self) -> impl Iterator<Item = (&str, PolicerState)> + '_ {
        let planned = self.plan.policer_ids().iter().zip(&self.plan.policers);
        let planned = planned.map(|(id, settings)| (*id, settings.name.as_str()));
        let all = planned.chain(self.policers.gone());
        all.map(|(id, name)| (name, self.policers.state(id).expect("it was in force")))
    }

    /// Which requests are shed, and how overloaded the origin is; `None`: nobody is, by the plan.
    pub fn shedding(&self) -> Option<&Shedding> {
        self.shedding.as_ref()
    }

    /// The plan in force, with what is adjusted.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The number of slots in force.
    pub fn slots(&self) -> u32 {
        self.limit.slots()
    }

    /// The last change of the limit, and when.
    pub fn last_step(&self) -> Option<(Moment, Step)> {
        self.limit.last_step()
    }

    /// Slots held by all classes.
    pub fn running(&self) -> u32 {
        self.limit.running()
    }

    /// Requests waiting in all classes.
    pub fn waiting(&self) -> usize {
        self.backlog.len()
    }

    /// What each class of the plan is doing, in its order.
    pub fn states(&self) -> impl Iterator<Item = ClassState> + '_ {
        self.plan.class_ids().iter().map(|id| self.state(*id))
    }

    /// Every class that ever was in force, with what its latest plan says of it: in the order of the plan
    /// in force, then those that are gone. Their requests, if any are left, run to their ends; what was
    /// counted of them stays.
    pub fn classes(&self) -> impl Iterator<Item = (ClassId, &Class)> + '_ {
        self.classes.all().map(|(id, record)| (id, &record.settings))
    }

    /// What a class is doing.
    ///
    /// # Panics
    /// If it never was in force.
    pub fn state(&self, class: ClassId) -> ClassState {
        let (record, load) = (self.classes.at(class), self.classes.load(class));
        ClassState {
            waiting: load.waiting,
            running: load.running,
            requests: record.requests,
            streams: record.streams,
            patience: record
                .patience
                .known()
                .filter(|_| record.settings.patience && self.classes.is_planned(class)),
        }
    }

    /// What has been counted since the start.
    pub fn account(&self) -> &Account {
        &self.account
    }
}
