//! What an event brought about: the gate's news, explained, and what must hold for every policy.

use crate::script::Watch;
use crate::state::{Req, State};
use crate::world::{Event, World};
use crate::{choice, inside};
use std::time::Duration;
use tiergate_core::class::Late;
use tiergate_core::gate::{Claim, Effect};
use tiergate_core::reason::Reason;

impl<W: Watch> World<'_, W> {
    /// Takes the gate's news.
    pub(crate) fn settle(&mut self) {
        loop {
            let mut granted = Vec::new();
            let mut left = Vec::new();
            let mut woken: Vec<u32> =
                std::iter::from_fn(|| self.gate.next_effect().and_then(Effect::into_wake))
                    .collect();
            // Whoever is settled last is woken first. Nobody relies on that but what is said of one moment
            // with several grants or drops.
            woken.reverse();
            if woken.is_empty() {
                break;
            }
            for id in woken {
                let ticket = self.tickets.remove(&id).expect("only who waits is woken");
                let req = self.state.waiting.iter().find(|req| req.id == id).expect("it waits");
                // Refusals are heard of by all.
                if req.absent && self.is_in_time(id) {
                    left.push((id, ticket));
                    granted.push(id);
                    continue;
                }
                match self.gate.claim(ticket) {
                    Claim::Admitted(slot) => {
                        assert_eq!(slot.admitted(), self.state.now);
                        self.slots.insert(id, slot);
                        granted.push(id);
                    }
                    Claim::Rejected(reason) => {
                        self.refused(id, reason);
                    }
                    Claim::Waiting => panic!("a woken request has an answer"),
                }
            }
            self.explain(&mut granted);
            for (id, ticket) in left {
                let req = self.stops_running(id);
                self.end(&req, true);
                self.gate.cancel(self.state.now, ticket);
            }
        }
    }

    /// A request that waited was refused.
    fn refused(&mut self, id: u32, reason: Reason) {
        if reason == Reason::QueueDelay {
            let req = self.state.waiting.iter().find(|req| req.id == id).expect("it waits");
            self.watch.delayed(&self.state, req);
        } else {
            assert_eq!(reason, Reason::DeadlineExpired, "request {id}");
            assert!(!self.is_in_time(id), "refused before its deadline");
        }
        let req = self.leaves_backlog(id);
        self.end(&req, false);
    }

    /// Whether the request cannot have been refused yet.
    fn is_in_time(&self, id: u32) -> bool {
        let req = self.state.waiting.iter().find(|req| req.id == id).expect("it waits");
        let class = &self.state.plan.classes[req.class];
        if class.codel.is_some() {
            return false;
        }
        let last = match class.late {
            Late::Refuse => req.due,
            Late::Last => req.due + req.due.since(req.arrived),
        };
        last > self.state.now
    }

    /// Takes those who were granted slots at this moment out of the backlog, in an order in which each
    /// was allowed to be next.
    pub(crate) fn explain(&mut self, granted: &mut Vec<u32>) {
        if granted.is_empty() {
            return;
        }
        let mut reasons = Vec::new();
        let mut order = Vec::new();
        let found = order_of(&mut self.state, granted, &mut order, &mut reasons);
        assert!(
            found,
            "no order explains that {granted:?} were next: {reasons:?}\n{:?}",
            self.state
        );
        for req in order {
            // Found, so the model moves again, and whoever looks on sees each step.
            self.state.waiting.retain(|other| other.id != req.id);
            self.state.running.push(req.clone());
            self.watch.started(&self.state, &req);
            self.at(self.state.now + req.service, Event::Finish(req.id));
        }
    }

    pub(crate) fn leaves_backlog(&mut self, id: u32) -> Req {
        let place = self.state.waiting.iter().position(|req| req.id == id).expect("it waits");
        self.state.waiting.remove(place)
    }

    pub(crate) fn stops_running(&mut self, id: u32) -> Req {
        let place = self.state.running.iter().position(|req| req.id == id).expect("it runs");
        self.state.running.remove(place)
    }

    pub(crate) fn end(&mut self, req: &Req, in_service: bool) {
        self.ended += 1;
        self.watch.ended(&self.state, req, in_service);
        let source = self.sources[req.id as usize];
        let pause = self.script.sources[source].pause;
        if self.script.sources[source].users > 0 {
            // No two come at the same moment, and who was refused at once does not for ever.
            let least = Duration::from_micros(if in_service { 1 } else { 100 });
            let pause = self.pause(pause.max(least));
            self.at(self.state.now + pause, Event::Arrive(source));
        }
    }

    /// Conservation, and no slot idle while somebody waits who may have it.
    pub(crate) fn check(&mut self) {
        self.watch.settled(&self.state);
        let (state, gate) = (&self.state, &self.gate);
        assert_eq!(gate.waiting(), state.waiting.len());
        for (class, it) in gate.states().enumerate() {
            let of = |reqs: &[Req]| reqs.iter().filter(|req| req.class == class).count() as u32;
            assert_eq!(it.waiting, of(&state.waiting), "class {class}");
            assert_eq!(it.running, state.held(&[class]), "class {class}");
            assert_eq!(it.requests, of(&state.running), "class {class}");
        }
        self.check_idle();
        if self.script.reloads.is_empty() {
            let mut arrived = 0;
            for (it, state) in gate.account().classes.iter().zip(gate.states()) {
                let gone = it.finished_total() + it.refused_total() + it.cancelled_waiting;
                assert_eq!(it.arrived, gone + u64::from(state.waiting + state.requests));
                arrived += it.arrived;
            }
            assert_eq!(arrived, self.sources.len() as u64);
        }
    }

    /// No slot is idle while somebody waits who may have it. It may be kept for one who needs several.
    fn check_idle(&self) {
        let state = &self.state;
        if state.free() == 0 || !state.waiting.iter().any(|req| choice::must_have_room(state, req))
        {
            return;
        }
        let keeps = |req: &&Req| {
            let is_next = choice::check(state, req).and_then(|()| inside::check(state, req));
            !choice::fits(state, req) && is_next.is_ok()
        };
        assert!(state.waiting.iter().any(|req| keeps(&req)), "a slot is idle\n{state:?}");
    }
}

/// Finds an order in which each of those granted was allowed to be next; leaves the state as it was.
fn order_of(
    state: &mut State,
    granted: &mut Vec<u32>,
    order: &mut Vec<Req>,
    reasons: &mut Vec<String>,
) -> bool {
    for place in 0..granted.len() {
        let id = granted[place];
        let found = state.waiting.iter().position(|req| req.id == id).expect("it waits");
        let req = &state.waiting[found];
        let fits = if choice::fits(state, req) { Ok(()) } else { Err("too wide".to_owned()) };
        let allowed =
            fits.and_then(|()| choice::check(state, req)).and_then(|()| inside::check(state, req));
        if let Err(why) = allowed {
            reasons.push(format!("{id}: {why}"));
            continue;
        }
        let req = state.waiting.remove(found);
        state.running.push(req.clone());
        granted.remove(place);
        order.push(req);
        let whole = granted.is_empty() || order_of(state, granted, order, reasons);
        let req = state.running.pop().expect("just pushed");
        state.waiting.insert(found, req);
        if whole {
            return true;
        }
        order.pop();
        granted.insert(place, id);
    }
    false
}
