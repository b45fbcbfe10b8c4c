//! A policy that is observed: it decides about the requests that come, beside the policy that is in force, and nothing is
//! done about it.
//!
//! It has a gate of its own, to which the same requests come at the same moments. What it cannot have is the server: that serves
//! what the policy in force lets through, when that lets it. So
//!
//! * a request that gets a slot here holds it for as long as it holds that of the policy in force; where it has none there yet, or never gets
//!   one, for as long as requests of its class do on average;
//! * an adaptive limit is that of the policy in force: how many requests the server can work on is a matter of the server, and it
//!   is found out there ([`Shadow::limits_are`]). One of a resource bounds nothing;
//! * nothing is shed: that goes by what connections were told before;
//! * how the server would be under the other policy's load is not known. Waits and refusals are right as far as the time that a request takes does
//!   not depend on them. Sensors read what is in force: controls and adaptations here act on a reading that does not answer to them.
//!
//! | file | its idea |
//! |---|---|
//! | `request` | what is known of a request on both sides |
//! | `tally` | what both sides did, counted |
//!
//! Bounds: [`Shadow::REQUESTS_MAX`] requests that have not ended; beyond, they are not observed, and counted.

mod request;
mod tally;
#[cfg(test)]
mod tests;

use crate::collections::{Key, Slab, grown};
use crate::control::Slots;
use crate::fault::Fault;
use crate::gate::{Arrival, Claim, Effect, Gate, Slot, Verdict};
use crate::names::{ClassId, PoolId};
use crate::outcome::{End, Outcome};
use crate::plan::{Plan, Spec};
use crate::reason::Reason;
use crate::sense::Reading;
use crate::time::Moment;
pub use request::{Enforced, Seen};
use request::{Request, State};
use std::collections::BTreeMap;
use std::time::Duration;
pub use tally::ClassTally;

/// So often the limits of the policy in force are taken over.
const LIMITS_EVERY: Duration = Duration::from_secs(1);
/// So long at least between two calls of the gate.
const TICK_MIN: Duration = Duration::from_millis(1);
/// Most calls of the gate, each at its moment, that one request waits for.
const TICKS_MAX: u32 = 1000;
/// As many slots as nothing has.
const UNBOUNDED: u32 = 1_000_000;
/// How long a request takes of a class that none was seen of.
const USUAL: Duration = Duration::from_millis(50);
/// What is kept of the mean time that a class's requests take after another one.
const USUAL_KEPT: f64 = 0.95;

/// Names a request that is observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed(Key);

/// A policy that is observed.
#[derive(Debug)]
pub struct Shadow {
    gate: Gate<Observed>,
    /// The pools whose limit is that in force, with the limit that was taken over last.
    limits: Vec<(PoolId, u32)>,
    limited: Moment,
    requests: Slab<Request>,
    count: usize,
    /// When slots come back that requests hold whose time is known; in order.
    ends: BTreeMap<(Moment, u64), Key>,
    number: u64,
    /// When the gate is to be called.
    due: Moment,
    /// By class id: how long its requests take on average.
    usual: Vec<Option<Duration>>,
    /// By class id.
    tallies: Vec<ClassTally>,
    untracked: u64,
}

impl Shadow {
    /// Most requests at a time that are observed.
    pub const REQUESTS_MAX: usize = 65_536;

    /// A policy that nothing was seen of; `limit_of`: how many slots its pools would have in force.
    ///
    /// # Errors
    /// As of any plan.
    pub fn new(plan: &Plan, limit_of: impl Fn(PoolId) -> u32) -> Result<Self, Fault> {
        let (plan, limits) = with_limits(plan, limit_of)?;
        Ok(Shadow {
            gate: Gate::new(plan),
            limits,
            limited: Moment::ZERO,
            requests: Slab::default(),
            count: 0,
            ends: BTreeMap::new(),
            number: 0,
            due: Moment::ZERO,
            usual: Vec::new(),
            tallies: Vec::new(),
            untracked: 0,
        })
    }

    /// Puts another plan in the place of the one that is observed. What was counted stays.
    ///
    /// # Errors
    /// As of any plan; nothing has changed then.
    pub fn reconfigure(
        &mut self,
        now: Moment,
        plan: &Plan,
        limit_of: impl Fn(PoolId) -> u32,
    ) -> Result<(), Fault> {
        let (plan, limits) = with_limits(plan, limit_of)?;
        self.pass(now);
        self.gate.reconfigure(now, plan);
        self.limits = limits;
        self.settle(now);
        Ok(())
    }

    /// The pools would have so many slots in force now. Looked at once a second.
    pub fn limits_are(&mut self, now: Moment, limit_of: impl Fn(PoolId) -> u32) {
        if now < self.limited + LIMITS_EVERY {
            return;
        }
        self.limited = now;
        self.pass(now);
        for (pool, limit) in &mut self.limits {
            let new = limit_of(*pool).max(1);
            if new != *limit {
                *limit = new;
                self.gate.set_slots(now, *pool, new);
            }
        }
        self.settle(now);
    }

    /// Its gate, to be read: what is counted by class, levels, states.
    pub fn gate(&self) -> &Gate<Observed> {
        &self.gate
    }

    /// A request comes. `refused`: why it is refused whatever the load; `granted`: it has its slot in force. Must be told how it ended there
    /// by [`Shadow::ended`]. `None`: there are too many.
    pub fn arrive(
        &mut self,
        now: Moment,
        arrival: Arrival,
        refused: Option<Reason>,
        granted: bool,
    ) -> Option<Observed> {
        self.pass(now);
        if self.count == Self::REQUESTS_MAX {
            self.untracked += 1;
            return None;
        }
        self.count += 1;
        let class = arrival.class;
        let request = Request { class, state: State::Done, granted, enforced: None };
        let key = self.requests.insert(request);
        match refused {
            Some(reason) => {
                self.gate.refuse(arrival, reason);
                self.requests[key.index()].state = State::Refused(reason);
            }
            None => match self.gate.arrive(now, arrival, || Observed(key)) {
                Verdict::Admit(slot) => self.got(now, key, slot),
                Verdict::Queue(ticket) => self.requests[key.index()].state = State::Waiting(ticket),
                Verdict::Reject(reason) => {
                    self.requests[key.index()].state = State::Refused(reason);
                }
            },
        }
        self.settle(now);
        Some(Observed(key))
    }

    /// A request has got its slot in force.
    pub fn granted(&mut self, observed: Observed) {
        // Of one that has its slot here already, the end is known.
        if let Some(request) = self.requests.find_mut(observed.0)
            && matches!(request.state, State::Waiting(_))
        {
            request.granted = true;
        }
    }

    /// What was decided about a request so far.
    pub fn seen(&self, observed: Observed) -> Seen {
        let request = self.requests.find(observed.0);
        request.map_or(Seen::Unknown, |request| match request.state {
            State::Waiting(_) => Seen::Waits,
            State::Running(..) | State::Done => Seen::Admitted,
            State::Refused(reason) => Seen::Refused(reason),
        })
    }

    /// What has become of a request by the policy in force, when its slot is free again or it was refused; the first word counts. Returns
    /// what was decided about it until then.
    pub fn ended(&mut self, now: Moment, observed: Observed, enforced: Enforced) -> Seen {
        self.pass(now);
        let seen = self.seen(observed);
        let key = observed.0;
        let Some(request) = self.requests.find_mut(key) else { return seen };
        if request.enforced.is_some() {
            return seen;
        }
        let was_granted = request.granted;
        request.enforced = Some(enforced);
        let class = request.class;
        if let Enforced::Served { held, outcome } = enforced
            && outcome.end == End::Served
        {
            let usual = grown(&mut self.usual, class.index());
            let known = usual.unwrap_or(held).as_secs_f64();
            let mean = known * USUAL_KEPT + held.as_secs_f64() * (1.0 - USUAL_KEPT);
            *usual = Some(Duration::from_secs_f64(mean));
        }
        match &self.requests[key.index()].state {
            State::Running(_, since) => {
                let since = *since;
                // Else its end is known already.
                if was_granted {
                    self.ends_at(since + self.time_of(class, enforced), key);
                    self.pass(now);
                }
            }
            State::Waiting(ticket) => {
                // Who has left does not wait here, either.
                if enforced == Enforced::Gone {
                    let ticket = *ticket;
                    self.gate.cancel(now, ticket);
                    self.conclude(key, Side::Left);
                }
            }
            State::Refused(reason) => {
                let reason = *reason;
                self.conclude(key, Side::Refused(reason));
            }
            State::Done => self.conclude(key, Side::Admitted),
        }
        self.settle(now);
        seen
    }

    /// Takes a reading of a sensor, as the gate in force does.
    pub fn observe(&mut self, now: Moment, reading: Reading<'_>) {
        self.pass(now);
        // What cannot be was refused there, and is counted there.
        let _ = self.gate.observe(now, reading);
        self.settle(now);
    }

    /// Lets time pass: slots come back, waits end.
    pub fn tick(&mut self, now: Moment) {
        self.pass(now);
        self.due = self.gate.tick(now);
        self.settle(now);
    }

    /// What both sides did with the requests of a class.
    pub fn tally(&self, class: ClassId) -> ClassTally {
        self.tallies.get(class.index()).cloned().unwrap_or_default()
    }

    /// Requests that were not observed because there were too many.
    pub fn untracked(&self) -> u64 {
        self.untracked
    }

    /// How long a request holds its slot here.
    fn time_of(&self, class: ClassId, enforced: Enforced) -> Duration {
        match enforced {
            Enforced::Served { held, .. } => held,
            Enforced::Refused(_) | Enforced::Gone => {
                self.usual.get(class.index()).copied().flatten().unwrap_or(USUAL)
            }
        }
    }

    fn ends_at(&mut self, at: Moment, key: Key) {
        self.number += 1;
        self.ends.insert((at, self.number), key);
    }

    /// It has a slot here from now on.
    fn got(&mut self, now: Moment, key: Key, slot: Slot) {
        let request = &mut self.requests[key.index()];
        request.state = State::Running(slot, now);
        let (class, granted) = (request.class, request.granted);
        match request.enforced {
            Some(enforced) => self.ends_at(now + self.time_of(class, enforced), key),
            // It is at the server; how long it takes will be told.
            None if granted => {}
            None => self.ends_at(now + self.time_of(class, Enforced::Gone), key),
        }
    }

    /// Lets time pass: gives back the slots of those whose time is over, and ends waits, each at its moment.
    fn pass(&mut self, now: Moment) {
        let mut ticks = 0;
        loop {
            let end = self.ends.first_key_value().map_or(Moment::NEVER, |((at, _), _)| *at);
            if self.due.min(end) > now {
                return;
            }
            if self.due <= end {
                // After a long time in which nobody looked, what is left of it passes at once.
                let at = if ticks < TICKS_MAX { self.due } else { now.min(end) };
                ticks += 1;
                // Once in a while is enough: a gate that has something to do at once does it in steps.
                self.due = self.gate.tick(at).max(at + TICK_MIN);
                self.settle(at);
            } else if let Some(((at, _), key)) = self.ends.pop_first() {
                self.end(at, key);
                self.settle(at);
            }
        }
    }

    /// The time of a request is over.
    fn end(&mut self, at: Moment, key: Key) {
        let Some(request) = self.requests.find_mut(key) else { return };
        let enforced = request.enforced;
        let State::Running(slot, since) = std::mem::replace(&mut request.state, State::Done) else {
            return;
        };
        let outcome = match enforced {
            Some(Enforced::Served { outcome, .. }) => outcome,
            _ => {
                let first_byte = Some(at.since(since));
                Outcome { first_byte, ..Outcome::without_answer(End::Served) }
            }
        };
        self.gate.finish(at, slot, outcome);
        if enforced.is_some() {
            self.conclude(key, Side::Admitted);
        }
    }

    /// Takes the news of the gate.
    fn settle(&mut self, now: Moment) {
        while let Some(effect) = self.gate.next_effect() {
            let Effect::Wake(Observed(key)) = effect else { continue };
            let Some(request) = self.requests.find_mut(key) else { continue };
            let State::Waiting(ticket) = request.state else { continue };
            let is_over = request.enforced.is_some();
            match self.gate.claim(ticket) {
                Claim::Waiting => {}
                Claim::Admitted(slot) => self.got(now, key, slot),
                Claim::Rejected(reason) => {
                    request.state = State::Refused(reason);
                    if is_over {
                        self.conclude(key, Side::Refused(reason));
                    }
                }
            }
        }
        self.due = self.due.min(self.gate.next_due(now));
    }

    /// Both sides are done with a request.
    fn conclude(&mut self, key: Key, side: Side) {
        let request = self.requests.remove(key.index());
        self.count -= 1;
        let tally = grown(&mut self.tallies, request.class.index());
        let enforced = request.enforced.unwrap_or(Enforced::Gone);
        match (side, enforced) {
            (Side::Left, _) => tally.left += 1,
            (Side::Admitted, Enforced::Served { .. }) => tally.both_admit += 1,
            (Side::Admitted, Enforced::Refused(_)) => tally.would_admit += 1,
            (Side::Admitted, Enforced::Gone) => tally.left += 1,
            (Side::Refused(reason), Enforced::Served { .. }) => {
                tally.would_refuse[reason.index()] += 1;
            }
            (Side::Refused(_), Enforced::Refused(_)) => tally.both_refuse += 1,
            (Side::Refused(_), Enforced::Gone) => tally.left += 1,
        }
    }
}

/// How a request ended here.
#[derive(Clone, Copy, Debug)]
enum Side {
    Admitted,
    Refused(Reason),
    /// Its client left first.
    Left,
}

/// The plan with the limits in force in place of adaptive ones, and without shedding; and which pools have such a limit.
fn with_limits(
    plan: &Plan,
    limit_of: impl Fn(PoolId) -> u32,
) -> Result<(Plan, Vec<(PoolId, u32)>), Fault> {
    let mut spec = Spec::clone(plan);
    let mut limits = Vec::new();
    let mut fix = |pool: PoolId, slots: &mut Slots, per_server: &mut bool| {
        if !matches!(slots, Slots::Fixed(_)) || *per_server {
            let limit = limit_of(pool).max(1);
            *slots = Slots::Fixed(limit);
            limits.push((pool, limit));
        }
        *per_server = false;
    };
    fix(PoolId::DEFAULT, &mut spec.slots, &mut spec.slots_per_server);
    for (pool, id) in spec.pools.iter_mut().zip(&plan.pool_ids()[1..]) {
        fix(*id, &mut pool.slots, &mut pool.slots_per_server);
    }
    for resource in &mut spec.resources {
        if !matches!(resource.slots, Slots::Fixed(_)) {
            resource.slots = Slots::Fixed(UNBOUNDED);
        }
    }
    spec.shedding = None;
    Ok((plan.with(spec)?, limits))
}
