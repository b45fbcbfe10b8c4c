//! The gate: where a request's path and a signal's path meet.
//!
//! | state | who changes it |
//! |---|---|
//! | waiting → granted | [`Gate::finish`], [`Gate::tick`], [`Gate::reconfigure`] (a slot came free) |
//! | waiting → refused | [`Gate::tick`] (deadline), [`Gate::arrive`] (another has its place), whoever grants a slot (CoDel) |
//! | granted → running | [`Gate::claim`] by the waiter's owner |
//! | waiting, granted → gone | [`Gate::cancel`] by the waiter's owner |
//! | running → gone | [`Gate::finish`] with the [`Slot`] |
//!
//! Every method that may settle waiters puts what wakes their owners into a list that the caller
//! takes with [`Gate::next_wake`] until it is empty. The gate never calls out.

mod arrive;
mod generations;
mod signal;
mod wait;

use crate::account::Account;
use crate::admit::bucket::Rate;
use crate::admit::feasible::DrainRate;
use crate::admit::ignore::Ignoring;
use crate::admit::importance::Shedding;
use crate::admit::policer::{self, PolicerId, PolicerState, Policers};
use crate::admit::trigger::Triggers;
pub use crate::backlog::Ticket;
use crate::backlog::{Backlog, Discipline, LISTS, State, list_of};
use crate::class::ClassId;
use crate::classify::score::Score;
use crate::control::Limit;
use crate::control::adaptive::{self, Step};
use crate::outcome::{End, Outcome};
use crate::plan::Plan;
use crate::reason::Reason;
use crate::schedule::Load;
use crate::schedule::strict::StrictPriority;
use crate::time::Moment;
use generations::{Generations, Moved};
pub use signal::Refused;
use std::time::Duration;

/// A classified request, at the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Its class, by the plan `generation`.
    pub class: ClassId,
    /// The rule that decided the class; `None` if none matched.
    pub rule: Option<u32>,
    /// How long it may wait, where its rule says; else its class's deadline.
    pub deadline: Option<Duration>,
    /// The [`Plan::generation`] that it was classified under.
    pub generation: u32,
    /// The policer that its rule names, by the plan `generation`.
    pub policer: Option<PolicerId>,
    /// Whose request it is: a keyed hash of what fairness is counted by.
    pub flow: u64,
    /// Whether it belongs to a session that was admitted before: it waits before those of its class
    /// that do not. Never set by what a client merely claims.
    pub running: bool,
    /// How important its connection is now, by what the policy says; `None`: nothing said so. Looked
    /// at, with what follows, only by a plan with [`Plan::shedding`].
    pub importance: Option<u8>,
    /// Requests of its connection that were answered before.
    pub requests: u32,
    /// A hash of its connection: even over all values, and the same for all of its requests.
    pub connection: u64,
    /// How urgent it is among others, where requests are served by score.
    pub score: Score,
    /// How many slots it takes, 1 or more (0 counts as 1).
    pub slots: u16,
    /// Bytes that are held while it waits.
    pub bytes: u32,
}

impl Arrival {
    /// Of that class by the first plan, and nothing else known of it.
    pub const fn of(class: ClassId) -> Self {
        Arrival {
            class,
            rule: None,
            deadline: None,
            generation: 0,
            policer: None,
            flow: 0,
            running: false,
            importance: None,
            requests: 0,
            connection: 0,
            score: Score::ZERO,
            slots: 1,
            bytes: 0,
        }
    }
}

/// What the gate says to an arrival.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on to the origin.
    Admit(Slot),
    /// Wait; the waker given is handed back by [`Gate::next_wake`] when the wait ends.
    Queue(Ticket),
    /// Answer the client with a refusal.
    Reject(Reason),
}

/// What has become of a ticket.
#[derive(Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nothing yet.
    Waiting,
    /// The wait is over; the ticket is used up.
    Admitted(Slot),
    /// The wait is over; the ticket is used up.
    Rejected(Reason),
}

/// The right to be in progress at the origin. Must come back by [`Gate::finish`]: the shell keeps it
/// in a guard whose drop does so.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a slot that is not finished is lost to every other request"]
pub struct Slot {
    class: ClassId,
    generation: u32,
    admitted: Moment,
    waited: Duration,
}

impl Slot {
    /// When the slot was granted.
    pub fn admitted(&self) -> Moment {
        self.admitted
    }

    /// How long the request waited for it.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

/// A class's state at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassState {
    /// Requests that wait.
    pub waiting: u32,
    /// Slots held.
    pub running: u32,
}

/// Admits, queues and refuses requests; grants slots in the policy's order; finds how many there
/// should be. `T` is what wakes a waiting request's owner; the gate only keeps it.
#[derive(Debug)]
pub struct Gate<T> {
    plan: Plan,
    limit: Limit,
    last_step: Option<(Moment, Step)>,
    strict: StrictPriority,
    backlog: Backlog<T>,
    loads: Vec<Load>,
    /// How fast each list of the backlog is served.
    drains: Vec<DrainRate>,
    running: u32,
    generations: Generations,
    policers: Policers,
    triggers: Triggers,
    shedding: Option<Shedding>,
    ignoring: Option<Ignoring>,
    draining: bool,
    wakes: Vec<T>,
    account: Account,
}

impl<T> Gate<T> {
    /// A gate with nothing in it.
    ///
    /// # Panics
    /// If the plan fails [`Plan::check`].
    pub fn new(plan: Plan) -> Self {
        if let Err(fault) = plan.check() {
            panic!("an unchecked plan reached the gate: {fault}");
        }
        let classes = plan.classes.len();
        Gate {
            limit: Limit::new(&plan.slots),
            last_step: None,
            strict: StrictPriority::new(classes),
            backlog: Backlog::new(Discipline::of_plan(&plan)),
            loads: loads_of(&plan),
            drains: vec![DrainRate::default(); classes * LISTS],
            running: 0,
            generations: Generations::new(plan.generation, classes),
            policers: Policers::new(Moment::ZERO, &plan.policers),
            triggers: Triggers::new(&plan.classes, &loads_of(&plan)),
            shedding: plan.shedding.map(|aim| Shedding::new(Moment::ZERO, aim, classes)),
            ignoring: plan.ignore.map(Ignoring::new),
            draining: false,
            wakes: Vec::new(),
            account: Account::sized(classes, plan.rules),
            plan,
        }
    }

    /// What has become of a ticket. A stale ticket counts as reconfigured away.
    pub fn claim(&mut self, ticket: Ticket) -> Claim {
        let Some(waiter) = self.backlog.waiter(ticket) else {
            return Claim::Rejected(Reason::Reconfigured);
        };
        match waiter.state {
            State::Waiting => Claim::Waiting,
            State::Granted(at) => {
                let slot = Slot {
                    class: waiter.class,
                    generation: self.plan.generation,
                    admitted: at,
                    waited: at.since(waiter.arrived),
                };
                self.backlog.remove(ticket);
                Claim::Admitted(slot)
            }
            State::Refused(reason) => {
                self.backlog.remove(ticket);
                Claim::Rejected(reason)
            }
            State::Free => unreachable!("`waiter` gives no free entries"),
        }
    }

    /// The owner of the ticket is gone. A slot it was granted meanwhile goes to the next. O(log n).
    pub fn cancel(&mut self, now: Moment, ticket: Ticket) {
        let Some(waiter) = self.backlog.waiter(ticket) else {
            return;
        };
        let (class, running, state) = (waiter.class, waiter.running, waiter.state);
        match state {
            State::Waiting => {
                self.strict.advance(now, &self.loads, self.limit.slots());
                self.count_drain(now, class, running);
                self.leaves(class);
                self.account.classes[class.index()].cancelled_waiting += 1;
                self.backlog.remove(ticket);
            }
            State::Granted(at) => {
                self.backlog.remove(ticket);
                let slot = Slot {
                    class,
                    generation: self.plan.generation,
                    admitted: at,
                    waited: Duration::ZERO,
                };
                self.finish(now, slot, Outcome::without_answer(End::Cancelled));
            }
            // Already counted as refused.
            State::Refused(_) => self.backlog.remove(ticket),
            State::Free => unreachable!("`waiter` gives no free entries"),
        }
    }

    /// A request has ended; its slot goes to the next. O(classes + log waiting).
    pub fn finish(&mut self, now: Moment, slot: Slot, outcome: Outcome) {
        let class = self.generations.translate(slot.generation, slot.class);
        self.strict.advance(now, &self.loads, self.limit.slots());
        let load = self.control_load();
        self.release(slot.generation, class);
        self.account.finished(class, now.since(slot.admitted), &outcome);
        // Slots that clients gave up say how impatient they are, not how fast the origin is.
        if let Some(shedding) = &mut self.shedding
            && outcome.end != End::Cancelled
        {
            shedding.finished();
        }
        if let Limit::Adaptive(limit) = &mut self.limit {
            let step = limit.finished(now, slot.admitted, &outcome, load);
            self.note(now, step);
        }
        self.dispatch(now);
    }

    /// Does what is due: refuses whoever waited past the deadline, lets limit and shedding look around.
    /// Returns when to call again; [`Moment::NEVER`] if nothing is pending.
    pub fn tick(&mut self, now: Moment) -> Moment {
        self.strict.advance(now, &self.loads, self.limit.slots());
        let load = self.control_load();
        if let Limit::Adaptive(limit) = &mut self.limit {
            let step = limit.tick(now, load);
            self.note(now, step);
        }
        self.expire(now);
        self.dispatch(now);
        let control = match &self.limit {
            Limit::Fixed(_) => Moment::NEVER,
            Limit::Adaptive(limit) => limit.next_tick(),
        };
        let waiting = self.backlog.len() as u32;
        let shed = self.shedding.as_mut().map_or(Moment::NEVER, |it| it.tick(now, waiting));
        control.min(shed).min(self.backlog.next_deadline())
    }

    /// When the first of those who wait has waited long enough; [`Moment::NEVER`] if nobody waits.
    pub fn next_deadline(&self) -> Moment {
        self.backlog.next_deadline()
    }

    /// Takes one of the wakers whose owners have news. Call until `None` after every other method.
    pub fn next_wake(&mut self) -> Option<T> {
        self.wakes.pop()
    }

    /// Puts a new plan in force; nobody waiting or running is lost. Classes are known again by their
    /// names; requests of a class that is gone go on in the least important one.
    ///
    /// The limit found so far is kept as long as `slots` does not change. O(n log n).
    ///
    /// # Panics
    /// If the plan fails [`Plan::check`].
    pub fn reconfigure(&mut self, now: Moment, plan: Plan) {
        if let Err(fault) = plan.check() {
            panic!("an unchecked plan reached the gate: {fault}");
        }
        let last = ClassId(plan.classes.len() as u16 - 1);
        let place = |name: &str| {
            let found = plan.classes.iter().position(|class| class.name == name);
            found.map_or(last, |place| ClassId(place as u16))
        };
        let moved: Vec<ClassId> =
            self.plan.classes.iter().map(|class| place(&class.name)).collect();

        // A slot that its waiter has not claimed yet will be claimed under the new plan.
        let disciplines = Discipline::of_plan(&plan);
        let unclaimed = self.backlog.reclass(disciplines, |class| moved[class.index()]);
        let policer = |old: &policer::Settings| {
            let same = plan.policers.iter().position(|new| new.name == old.name);
            same.map(|place| PolicerId(place as u16))
        };
        let policers = self.plan.policers.iter().map(policer).collect();
        let numbers = Moved { classes: moved.clone(), policers };
        self.generations.replace(plan.generation, plan.classes.len(), numbers, unclaimed);
        let former = std::mem::replace(&mut self.policers, Policers::new(now, &plan.policers));
        let names = (&plan.policers[..], &self.plan.policers[..]);
        self.policers.inherit(now, names, former, &moved);
        let former = std::mem::replace(&mut self.ignoring, plan.ignore.map(Ignoring::new));
        if let (Some(ignoring), Some(former)) = (&mut self.ignoring, former) {
            ignoring.inherit(former);
        }

        let mut drains = vec![DrainRate::since(now); plan.classes.len() * LISTS];
        let mut loads = loads_of(&plan);
        let mut account = Account::sized(plan.classes.len(), plan.rules);
        for (old, &new) in moved.iter().enumerate() {
            loads[new.index()].waiting += self.loads[old].waiting;
            loads[new.index()].running += self.loads[old].running;
            if plan.classes[new.index()].name == self.plan.classes[old].name {
                account.classes[new.index()] = std::mem::take(&mut self.account.classes[old]);
                for running in [true, false] {
                    drains[list_of(new, running)] =
                        self.drains[list_of(ClassId(old as u16), running)];
                }
            }
        }
        account.unmatched = self.account.unmatched;
        self.loads = loads;
        self.drains = drains;
        self.triggers = Triggers::new(&plan.classes, &self.loads);
        self.account = account;
        self.strict = StrictPriority::new(plan.classes.len());
        self.strict.advance(now, &self.loads, self.limit.slots());
        self.shedding = plan.shedding.map(|aim| match self.shedding.take() {
            Some(shedding) => shedding.under(aim, plan.classes.len(), &moved),
            None => Shedding::new(now, aim, plan.classes.len()),
        });
        if plan.slots != self.plan.slots {
            self.limit = Limit::new(&plan.slots);
            self.last_step = None;
        }
        self.plan = plan;
        self.dispatch(now);
    }

    /// Takes no new work; whoever waits or runs goes on to the end.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Gives a policer another rate from now on; the tokens that are there stay. A reload goes back
    /// to the plan's.
    ///
    /// # Panics
    /// If the plan in force has no such policer.
    pub fn set_policer_rate(&mut self, now: Moment, policer: PolicerId, rate: Rate) {
        self.policers.set_rate(now, policer, rate);
    }

    /// How each policer is doing, in the plan's order.
    pub fn policers(&self) -> impl Iterator<Item = PolicerState> + '_ {
        self.policers.states()
    }

    /// Which requests are shed, and how overloaded the origin is; `None`: nobody is, by the plan.
    pub fn shedding(&self) -> Option<&Shedding> {
        self.shedding.as_ref()
    }

    /// The plan in force.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The number of slots in force.
    pub fn slots(&self) -> u32 {
        self.limit.slots()
    }

    /// The last change of the limit, and when.
    pub fn last_step(&self) -> Option<(Moment, Step)> {
        self.last_step
    }

    /// Slots held by all classes.
    pub fn running(&self) -> u32 {
        self.running
    }

    /// Requests waiting in all classes.
    pub fn waiting(&self) -> usize {
        self.backlog.len()
    }

    /// What each class is doing, in the plan's order.
    pub fn states(&self) -> impl Iterator<Item = ClassState> + '_ {
        self.loads.iter().map(|load| ClassState { waiting: load.waiting, running: load.running })
    }

    /// What has been counted since the start.
    pub fn account(&self) -> &Account {
        &self.account
    }

    fn grant(&mut self, now: Moment, class: ClassId, arrived: Moment) -> Slot {
        let waited = now.since(arrived);
        self.running += 1;
        self.generations.granted();
        self.loads[class.index()].running += 1;
        self.account.granted(class, waited);
        let load = self.control_load();
        if let Limit::Adaptive(limit) = &mut self.limit {
            limit.admitted(now, load);
        }
        Slot { class, generation: self.plan.generation, admitted: now, waited }
    }

    fn release(&mut self, generation: u32, class: ClassId) {
        self.running -= 1;
        self.loads[class.index()].running -= 1;
        self.generations.released(generation);
    }

    fn note(&mut self, now: Moment, step: Option<Step>) {
        if let Some(step) = step {
            self.last_step = Some((now, step));
        }
    }

    fn control_load(&self) -> adaptive::Load {
        adaptive::Load { running: self.running, waiting: self.backlog.len() as u32 }
    }
}

fn loads_of(plan: &Plan) -> Vec<Load> {
    plan.classes
        .iter()
        .map(|class| Load { waiting: 0, running: 0, minimum: class.minimum })
        .collect()
}
