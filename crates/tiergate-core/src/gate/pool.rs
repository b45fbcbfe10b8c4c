//! A pool at the gate: the requests for one set of servers, and the limit that they share.
//!
//! | of a pool | common to all |
//! |---|---|
//! | the limit, and slots in use; the same of each resource | the plan, and what controllers adjust |
//! | the backlog, the schedule and its balances | policers and their tokens |
//! | loads and patience by class, drain rates by lane, learned costs | which flows are blocked |
//! | triggers, shedding, slots that may be taken back | what the shell is to do |
//! | what was counted by class and by rule | the time |
//!
//! So no request waits, or is refused, because of the requests of another pool, but for policers and blocks, which
//! bound a client whatever it asks for.

use super::adapting::Adapting;
use super::background::Background;
use super::classes::{ClassRecord, Classes};
use super::effect::Effects;
use super::lanes::Lanes;
use super::lent::Lent;
use super::overtaken::Overtaken;
use super::resources::Resources;
use super::revocable::Revocable;
use super::steering::Kept;
use super::transfers::Transfers;
use crate::account::Account;
use crate::admit::block::Blocking;
use crate::admit::importance::Shedding;
use crate::admit::policer::Policers;
use crate::admit::stall::Stalls;
use crate::admit::triggers::Triggers;
use crate::backlog::Backlog;
use crate::class::Class;
use crate::control::{Law, Limits, Slots, Step, TargetState};
use crate::cost::Costs;
use crate::names::{ClassId, PoolId, ServerId};
use crate::plan::Plan;
use crate::schedule::Schedule;
use crate::time::Moment;
use std::time::Duration;

/// A class's state at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassState {
    /// Requests that wait.
    pub waiting: u32,
    /// Those of them that wait for a resource of which no slot is free.
    pub held_up: u32,
    /// Slots held.
    pub running: u32,
    /// Requests that hold them: as many, unless some take several.
    pub requests: u32,
    /// Long-lived streams that are open without a slot.
    pub streams: u32,
    /// After how long its clients leave, as far as that is known; `None` too where the policy does not want it
    /// learned.
    pub patience: Option<Duration>,
    /// How its service target fares; `None`: it has none, or the number of slots is given.
    pub target: Option<TargetState>,
}

/// What all pools share.
#[derive(Debug)]
pub(super) struct Common<T> {
    /// The plan in force: the one given, with the adjustments on top.
    pub(super) plan: Plan,
    pub(super) policers: Policers,
    pub(super) adapting: Adapting,
    pub(super) blocking: Option<Blocking>,
    pub(super) draining: bool,
    pub(super) effects: Effects<T>,
    /// The latest moment that was told.
    pub(super) now: Moment,
    /// By how much the wall clock is ahead of moments.
    pub(super) ahead: Duration,
}

impl<T> Common<T> {
    /// What the time is when a caller says that it is `now`: every method that is told begins with it.
    pub(super) fn latest(&mut self, now: Moment) -> Moment {
        self.now = self.now.max(now);
        self.now
    }
}

/// The requests for one set of servers: those that wait, those that have slots, and the limit.
#[derive(Debug)]
pub struct Pool<T> {
    pub(super) id: PoolId,
    /// As the latest plan that had it says.
    pub(super) name: Box<str>,
    /// The same, without adjustments.
    pub(super) given: Slots,
    pub(super) is_planned: bool,
    /// Whether each server has a limit of its own.
    pub(super) is_per_server: bool,
    /// The shell has said which servers have numbers of their own, and these are not in force yet.
    pub(super) has_new_numbers: bool,
    /// The number of slots that the shell was told last; 0: none yet.
    pub(super) slots_said: u32,
    pub(super) limit: Limits,
    /// The pool's servers, as far as the shell has said which they are.
    pub(super) servers: Box<[ServerId]>,
    /// Requests that have had a slot and wait for one of another server.
    pub(super) transfers: Transfers<T>,
    /// Counts the sets of servers that had none in common with the one before.
    pub(super) lineup: u32,
    /// Until when the server is away, as far as that is known.
    pub(super) away_until: Moment,
    pub(super) stalls: Stalls,
    pub(super) schedule: Schedule,
    pub(super) costs: Costs,
    pub(super) backlog: Backlog<T>,
    pub(super) classes: Classes,
    pub(super) lanes: Lanes,
    /// Requests that wait for something else than a slot of the pool.
    pub(super) held_up: u32,
    pub(super) resources: Resources,
    pub(super) background: Option<Box<Background>>,
    pub(super) preemptible: Revocable<T>,
    pub(super) slow: Revocable<T>,
    /// The same of those that hold slots that are none of the limit's, by lane.
    pub(super) slow_beside: Revocable<T>,
    pub(super) lent: Lent,
    pub(super) overtaken: Overtaken,
    pub(super) triggers: Triggers,
    pub(super) shedding: Option<Shedding>,
    /// The policer whose rate keeps its queue at a length, if one does.
    pub(super) kept: Option<Kept>,
    pub(super) account: Account,
}

impl<T> Pool<T> {
    /// Without classes yet ([`Pool::put_in_force`]).
    pub(super) fn new(id: PoolId, plan: &Plan, slots: &Slots, law: Box<dyn Law>) -> Self {
        Pool {
            id,
            name: Box::default(),
            given: slots.clone(),
            is_planned: false,
            is_per_server: false,
            has_new_numbers: false,
            slots_said: 0,
            limit: Limits::new(law, slots),
            servers: Box::default(),
            transfers: Transfers::new(),
            lineup: 0,
            away_until: Moment::ZERO,
            stalls: Stalls::default(),
            schedule: Schedule::new(plan),
            costs: Costs::new(plan.cost),
            backlog: Backlog::new(),
            classes: Classes::default(),
            lanes: Lanes::default(),
            held_up: 0,
            resources: Resources::default(),
            background: None,
            preemptible: Revocable::new(),
            slow: Revocable::new(),
            slow_beside: Revocable::new(),
            lent: Lent::default(),
            overtaken: Overtaken::new(),
            triggers: Triggers::default(),
            shedding: None,
            kept: None,
            account: Account::default(),
        }
    }

    /// What is due in the pool; when it is to be asked again.
    pub(super) fn tick(&mut self, common: &mut Common<T>, now: Moment) -> Moment {
        self.advance(now);
        self.expire(common, now);
        self.probe(now);
        self.dispatch(common, now);
        self.classes.let_go();
        let waiting = self.ready();
        let shed = self.shedding.as_mut().map_or(Moment::NEVER, |it| it.tick(now, waiting));
        shed.min(self.next_due(now))
    }

    /// When those who wait here want the next tick. O(1); O(classes) while slots are kept free.
    pub(super) fn next_due(&mut self, now: Moment) -> Moment {
        let deadline = self.backlog.next_deadline().min(self.probe_due());
        let deadline = deadline.min(self.background_due());
        if !self.schedule.keeps_free() || self.ready() == 0 || !self.limit.has_free() {
            return deadline;
        }
        self.advance(now);
        let change = self.schedule.next_change(self.classes.loads(), self.limit.slots());
        deadline.min(change.map_or(Moment::NEVER, |after| now + after))
    }

    /// The pool's id.
    pub fn id(&self) -> PoolId {
        self.id
    }

    /// Its name in the latest plan that had it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the plan in force has it. One that is gone keeps its requests until they have ended.
    pub fn is_planned(&self) -> bool {
        self.is_planned
    }

    /// Whether requests wait or run here, or streams are open.
    pub(super) fn is_held(&self) -> bool {
        let streams =
            |(_, record): (ClassId, &ClassRecord)| record.streams > 0 || record.requests > 0;
        self.waiting() > 0
            || self.running() > 0
            || self.lent() > 0
            || self.transfers.any()
            || self.classes.all().any(streams)
    }

    /// The number of slots in force.
    pub fn slots(&self) -> u32 {
        self.limit.slots()
    }

    /// Whether the number of slots is found while serving; with limits by server, that of those without a number of their own.
    pub fn is_adaptive(&self) -> bool {
        self.given.is_adaptive()
    }

    /// Whether it is found together with other gateways.
    pub fn is_shared(&self) -> bool {
        self.given.is_shared()
    }

    /// The last change of the limit, and when.
    pub fn last_step(&self) -> Option<(Moment, Step)> {
        self.limit.last_step()
    }

    /// The server whose limit that change was of, and how many slots it has since; `None`: the servers share a limit.
    pub fn last_server(&self) -> Option<(ServerId, u32)> {
        self.limit.last_server()
    }

    /// Slots held by all classes.
    pub fn running(&self) -> u32 {
        self.limit.running()
    }

    /// Requests waiting in all classes.
    pub fn waiting(&self) -> usize {
        self.backlog.len()
    }

    /// Which requests are shed, and how overloaded the pool is; `None`: none are, by the plan.
    pub fn shedding(&self) -> Option<&Shedding> {
        self.shedding.as_ref()
    }

    /// Every class that ever was in force, with what its latest plan says of it: in the order of the plan
    /// in force, then those that are gone. Their requests, if any are left, run to their ends; what was
    /// counted of them stays.
    pub fn classes(&self) -> impl Iterator<Item = (ClassId, &Class)> + '_ {
        self.classes.all().map(|(id, record)| (id, &record.settings))
    }

    /// What a class is doing in the pool.
    ///
    /// # Panics
    /// If it never was in force.
    pub fn state(&self, class: ClassId) -> ClassState {
        let (record, load) = (self.classes.at(class), self.classes.load(class));
        ClassState {
            waiting: load.all_waiting(),
            held_up: load.held_up,
            running: load.all_running(),
            requests: record.requests,
            streams: record.streams,
            patience: record
                .patience
                .known()
                .map(|known| known.min(record.settings.deadline))
                .filter(|_| record.settings.patience && self.classes.is_planned(class)),
            target: self.target(class),
        }
    }

    /// What has been counted in the pool since the start.
    pub fn account(&self) -> &Account {
        &self.account
    }
}
