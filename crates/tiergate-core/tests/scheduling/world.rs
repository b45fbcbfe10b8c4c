//! A gate on virtual time between clients and a server: what happens, in order of time, and after each
//! event what must hold for every policy.

use crate::script::{Script, Watch};
use crate::state::{Req, State};
use fastrand::Rng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;
use tiergate_core::class::ClassId;
use tiergate_core::classify::score::{Points, Score};
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Slot, Ticket, Verdict};
use tiergate_core::names::{Names, RuleId};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::{Plan, Spec};
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    Arrive(usize),
    Finish(u32),
    Leave(u32),
    Reload(usize),
}

pub(crate) struct World<'a, W> {
    pub(crate) script: &'a Script,
    pub(crate) rng: Rng,
    pub(crate) watch: &'a mut W,
    pub(crate) names: Names,
    pub(crate) gate: Gate<u32>,
    pub(crate) state: State,
    pub(crate) events: BinaryHeap<Reverse<(Moment, u32, Event)>>,
    pub(crate) sequence: u32,
    pub(crate) tick_at: Moment,
    pub(crate) tickets: BTreeMap<u32, Ticket>,
    pub(crate) slots: BTreeMap<u32, Slot>,
    /// The source of each request so far.
    pub(crate) sources: Vec<usize>,
    pub(crate) ended: u32,
}

/// Runs a script to the last request's end.
pub(crate) fn run(script: &Script, seed: u64, watch: &mut impl Watch) {
    let mut names = Names::default();
    let plan = Plan::build(script.plan.clone(), &mut names).expect("a valid plan");
    let mut world = World {
        rng: Rng::with_seed(seed),
        names,
        gate: Gate::new(plan),
        state: State::new(script.plan.clone()),
        script,
        watch,
        events: BinaryHeap::new(),
        sequence: 0,
        tick_at: Moment::NEVER,
        tickets: BTreeMap::new(),
        slots: BTreeMap::new(),
        sources: Vec::new(),
        ended: 0,
    };
    world.run();
}

impl<W: Watch> World<'_, W> {
    fn run(&mut self) {
        for (place, (at, _)) in self.script.reloads.iter().enumerate() {
            self.at(*at, Event::Reload(place));
        }
        for (place, source) in self.script.sources.iter().enumerate() {
            for _ in 0..source.users.max(1) {
                // No two come at the same moment: nothing says who of them was first.
                let pause = self.pause(source.pause.max(Duration::from_micros(10)));
                self.at(source.from + pause, Event::Arrive(place));
            }
        }
        // Bounded: a request has a handful of events.
        for _ in 0..100 + 20 * u64::from(self.script.arrivals) {
            let next = self.events.peek().map_or(Moment::NEVER, |Reverse((at, ..))| *at);
            let tick = self.tick_at.min(self.gate.next_due(self.state.now));
            if next.min(tick) == Moment::NEVER {
                break;
            }
            if tick <= next {
                self.state.now = self.state.now.max(tick);
                self.tick_at = self.gate.tick(self.state.now);
                assert!(self.tick_at > self.state.now, "what is due has been done");
            } else {
                let Some(Reverse((at, _, event))) = self.events.pop() else { unreachable!() };
                self.state.now = at;
                self.happen(event);
            }
            self.settle();
            self.check();
        }
        assert_eq!(self.state.waiting.len() + self.state.running.len(), 0, "somebody is left");
        assert_eq!(self.ended as usize, self.sources.len());
    }

    pub(crate) fn at(&mut self, at: Moment, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    pub(crate) fn pause(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(-(1.0 - self.rng.f64()).ln())
    }

    fn between(&mut self, (low, high): (Duration, Duration)) -> Duration {
        low + (high - low).mul_f64(self.rng.f64())
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(source) => self.arrive(source),
            Event::Finish(id) => self.finish(id, End::Served),
            Event::Leave(id) => match self.tickets.remove(&id) {
                Some(ticket) => {
                    let req = self.leaves_backlog(id);
                    self.end(&req, false);
                    self.gate.cancel(self.state.now, ticket);
                }
                None => self.finish(id, End::Cancelled),
            },
            Event::Reload(place) => self.reload(self.script.reloads[place].1.clone()),
        }
    }

    fn arrive(&mut self, place: usize) {
        if self.sources.len() as u32 >= self.script.arrivals || self.state.now >= self.script.until
        {
            return;
        }
        let source = &self.script.sources[place];
        if source.users == 0 {
            let pause = self.pause(source.pause);
            self.at(self.state.now + pause, Event::Arrive(place));
        }
        let id = self.sources.len() as u32;
        self.sources.push(place);
        let own = source.deadline.map(|range| self.between(range));
        let mut found = self.state.plan.classes[..self.state.planned].iter();
        let last = self.state.planned - 1;
        let class = found.position(|class| class.name == source.class).unwrap_or(last);
        let points = self.rng.u32(source.score.0..=source.score.1);
        let score = Score::of(Points::from_thousandths(points * 1000).expect("at most 1000"));
        let mut req = Req {
            id,
            class,
            flow: source.flow,
            score: score.millionths(),
            arrived: self.state.now,
            due: self.state.now + own.unwrap_or(self.state.plan.classes[class].deadline),
            session: self.rng.u8(0..100) < source.sessions,
            slots: u32::from(self.rng.u16(1..=source.slots)),
            bytes: if source.bytes == 0 { 0 } else { self.rng.u32(0..=source.bytes) },
            service: self.between(source.service),
            answer: self.rng.u64(0..=source.answer),
            leaves: Moment::NEVER,
            absent: self.rng.u8(0..100) < self.script.cancelled / 4,
        };
        let arrival = Arrival {
            rule: source.rule.map(RuleId::at),
            deadline: own,
            flow: req.flow,
            running: req.session,
            score,
            slots: req.slots as u16,
            bytes: req.bytes,
            ..Arrival::of(self.id(class))
        };
        if self.rng.u8(0..100) < self.script.cancelled {
            req.leaves = self.state.now + self.pause(Duration::from_millis(20));
            self.at(req.leaves, Event::Leave(id));
        }
        let verdict = self.gate.arrive(self.state.now, arrival, || id);
        self.decided(req, verdict);
    }

    fn decided(&mut self, req: Req, verdict: Verdict) {
        match verdict {
            Verdict::Admit(slot) => {
                let id = req.id;
                let req = Req { absent: false, ..req };
                self.state.waiting.push(req);
                self.explain(&mut vec![id]);
                self.slots.insert(id, slot);
            }
            Verdict::Queue(ticket) => {
                self.displaced(&req);
                self.tickets.insert(req.id, ticket);
                self.state.waiting.push(req);
            }
            Verdict::Reject(Reason::QueueFull) => {
                assert!(self.is_full(&req), "its class's backlog is not full");
                self.watch.displaced(&self.state, std::slice::from_ref(&req), &req);
                self.end(&req, false);
            }
            Verdict::Reject(Reason::DeadlineInfeasible) => {
                // One may always wait: see `admit::feasible`.
                let mut peers = self.state.waiting.iter().filter(|peer| peer.class == req.class);
                assert!(peers.any(|peer| peer.session == req.session), "refused, and nobody waits");
                self.end(&req, false);
            }
            Verdict::Reject(reason) => panic!("{reason:?}"),
        }
    }

    fn is_full(&self, new: &Req) -> bool {
        let class = &self.state.plan.classes[new.class];
        let waiting = self.state.waiting_of(std::slice::from_ref(&new.class)).count();
        waiting >= class.queue_len_max as usize || self.bytes_with(new) > class.queue_bytes_max
    }

    /// Bytes of the request and of those of its class that wait.
    fn bytes_with(&self, new: &Req) -> u64 {
        let of = self.state.waiting_of(std::slice::from_ref(&new.class));
        u64::from(new.bytes) + of.map(|req| u64::from(req.bytes)).sum::<u64>()
    }

    /// Takes the refusals of those whose place the new request has taken.
    fn displaced(&mut self, new: &Req) {
        let mut victims = Vec::new();
        while let Some(id) = self.gate.next_effect().and_then(Effect::into_wake) {
            let ticket = self.tickets.remove(&id).expect("only who waits is woken");
            assert_eq!(self.gate.claim(ticket), Claim::Rejected(Reason::QueueFull));
            assert!(self.is_full(new), "its class's backlog is not full");
            let victim = self.state.waiting.iter().find(|req| req.id == id).expect("it waits");
            assert_eq!(victim.class, new.class);
            victims.push(victim.clone());
        }
        if victims.is_empty() {
            assert!(!self.is_full(new), "more wait than may");
            return;
        }
        self.watch.displaced(&self.state, &victims, new);
        for victim in victims {
            self.leaves_backlog(victim.id);
            self.end(&victim, false);
        }
        // After a reload more may wait than the bound by number, and they stay.
        assert!(self.bytes_with(new) <= self.state.plan.classes[new.class].queue_bytes_max);
    }

    pub(crate) fn finish(&mut self, id: u32, end: End) {
        let Some(slot) = self.slots.remove(&id) else {
            return;
        };
        let req = self.stops_running(id);
        self.end(&req, true);
        let outcome = match end {
            End::Served => {
                Outcome { end, first_byte: Some(req.service), bytes: req.answer, left: None }
            }
            _ => Outcome::without_answer(end),
        };
        self.gate.finish(self.state.now, slot, outcome);
    }

    fn reload(&mut self, plan: Spec) {
        self.state.reload(plan.clone());
        self.watch.reloaded(&self.state);
        let plan = Plan::build(plan, &mut self.names).expect("a valid plan");
        self.gate.reconfigure(self.state.now, plan);
    }

    /// The id of the class at a place of the model's plan.
    pub(crate) fn id(&self, class: usize) -> ClassId {
        self.names.classes.find(&self.state.plan.classes[class].name).expect("it was in a plan")
    }
}
