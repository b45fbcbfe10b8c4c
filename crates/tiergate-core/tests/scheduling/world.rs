//! A gate on virtual time between clients and a server: what happens, in order of time, and after each
//! event what must hold for every policy.

use crate::state::{Req, State};
use crate::{choice, inside};
use fastrand::Rng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;
use tiergate_core::class::{ClassId, Late};
use tiergate_core::classify::score::{Points, Score};
use tiergate_core::gate::{Arrival, Claim, Gate, Slot, Ticket, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Plan;
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;

/// Clients that send requests of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The class, by name: it may be gone after a reload.
    pub(crate) class: String,
    pub(crate) flow: u64,
    /// Requests kept under way (closed loop), or 0: open loop.
    pub(crate) users: u32,
    /// Mean time between two (open loop), or between an end and the next (closed loop).
    pub(crate) pause: Duration,
    /// Shortest and longest time of service.
    pub(crate) service: (Duration, Duration),
    /// Lowest and highest score, in whole points.
    pub(crate) score: (u32, u32),
    /// How long its requests may wait, where not its class says.
    pub(crate) deadline: Option<(Duration, Duration)>,
    /// How many of 100 belong to running sessions.
    pub(crate) sessions: u8,
    /// Most slots of a request.
    pub(crate) slots: u16,
    /// Most bytes of a request.
    pub(crate) bytes: u32,
    pub(crate) rule: Option<u32>,
    /// When the first of them comes.
    pub(crate) from: Moment,
}

impl Source {
    /// Requests of 1 to 10 ms, one after the other.
    pub(crate) fn of(class: &str, flow: u64) -> Self {
        Source {
            class: class.to_owned(),
            flow,
            users: 1,
            pause: Duration::ZERO,
            service: (Duration::from_millis(1), Duration::from_millis(10)),
            score: (0, 0),
            deadline: None,
            sessions: 0,
            slots: 1,
            bytes: 0,
            rule: None,
            from: Moment::ZERO,
        }
    }
}

/// What a run is made of.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) plan: Plan,
    /// Plans that come into force, and when.
    pub(crate) reloads: Vec<(Moment, Plan)>,
    pub(crate) sources: Vec<Source>,
    /// How many requests come in all, at most.
    pub(crate) arrivals: u32,
    /// When clients stop.
    pub(crate) until: Moment,
    /// How many of 100 are cancelled at some moment, if they are still there.
    pub(crate) cancelled: u8,
}

/// Who looks on.
pub(crate) trait Watch {
    /// The request, now among those in service, was started; `state.waiting` is without it.
    fn started(&mut self, _state: &State, _req: &Req) {}
    /// The request ended or left, or was refused; it was in service or it was not.
    fn ended(&mut self, _state: &State, _req: &Req, _in_service: bool) {}
    /// The victims, still in `state.waiting`, were refused so that `new` could wait, or `new` itself was.
    fn displaced(&mut self, _state: &State, _victims: &[Req], _new: &Req) {}
    /// Another plan is in force.
    fn reloaded(&mut self, _state: &State) {}
    /// Everything that an event brought about has been taken in.
    fn settled(&mut self, _state: &State) {}
}

/// Nobody does.
impl Watch for () {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive(usize),
    Finish(u32),
    Leave(u32),
    Reload(usize),
}

pub(crate) struct World<'a, W> {
    script: &'a Script,
    rng: Rng,
    watch: &'a mut W,
    gate: Gate<u32>,
    state: State,
    events: BinaryHeap<Reverse<(Moment, u32, Event)>>,
    sequence: u32,
    tick_at: Moment,
    tickets: BTreeMap<u32, Ticket>,
    slots: BTreeMap<u32, Slot>,
    /// The source of each request so far.
    sources: Vec<usize>,
    ended: u32,
}

/// Runs a script to the last request's end.
pub(crate) fn run(script: &Script, seed: u64, watch: &mut impl Watch) {
    let mut world = World {
        rng: Rng::with_seed(seed),
        gate: Gate::new(script.plan.clone()),
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

    fn at(&mut self, at: Moment, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    fn pause(&mut self, mean: Duration) -> Duration {
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
        if self.sources.len() as u32 >= self.script.arrivals || self.state.now >= self.script.until {
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
        let mut found = self.state.plan.classes.iter();
        let last = self.state.plan.classes.len() - 1;
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
            leaves: Moment::NEVER,
            absent: self.rng.u8(0..100) < self.script.cancelled / 4,
        };
        let arrival = Arrival {
            rule: source.rule,
            deadline: own,
            generation: self.state.plan.generation,
            flow: req.flow,
            running: req.session,
            score,
            slots: req.slots as u16,
            bytes: req.bytes,
            ..Arrival::of(ClassId(class as u16))
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
                // As many may always wait as there are slots: see `admit::feasible`.
                let peers = self.state.waiting_of(std::slice::from_ref(&req.class)).count();
                assert!(peers >= self.state.slots() as usize, "refused although few wait");
                self.end(&req, false);
            }
            Verdict::Reject(reason) => panic!("{reason:?}"),
        }
    }

    fn is_full(&self, new: &Req) -> bool {
        let class = &self.state.plan.classes[new.class];
        let of = || self.state.waiting_of(std::slice::from_ref(&new.class));
        let bytes: u64 = of().map(|req| u64::from(req.bytes)).sum();
        of().count() >= class.queue_len_max as usize
            || bytes + u64::from(new.bytes) > class.queue_bytes_max
    }

    /// Takes the refusals of those whose place the new request has taken.
    fn displaced(&mut self, new: &Req) {
        let mut victims = Vec::new();
        while let Some(id) = self.gate.next_wake() {
            let ticket = self.tickets.remove(&id).expect("only who waits is woken");
            assert_eq!(self.gate.claim(ticket), Claim::Rejected(Reason::QueueFull));
            assert!(self.is_full(new), "its class's backlog is not full");
            let victim = self.state.waiting.iter().find(|req| req.id == id).expect("it waits");
            assert_eq!(victim.class, new.class);
            victims.push(victim.clone());
        }
        if !victims.is_empty() {
            self.watch.displaced(&self.state, &victims, new);
        }
        for victim in victims {
            self.leaves_backlog(victim.id);
            self.end(&victim, false);
        }
        assert!(!self.is_full(new), "more wait than may");
    }

    fn finish(&mut self, id: u32, end: End) {
        let Some(slot) = self.slots.remove(&id) else {
            return;
        };
        let req = self.stops_running(id);
        self.end(&req, true);
        let first_byte = (end == End::Served).then_some(req.service);
        self.gate.finish(self.state.now, slot, Outcome { first_byte, ..Outcome::without_answer(end) });
    }

    fn reload(&mut self, plan: Plan) {
        let names: Vec<&String> = self.state.plan.classes.iter().map(|class| &class.name).collect();
        let last = plan.classes.len() - 1;
        let place = |name: &&String| plan.classes.iter().position(|class| class.name == **name);
        let moved: Vec<usize> = names.iter().map(|name| place(name).unwrap_or(last)).collect();
        for req in self.state.waiting.iter_mut().chain(&mut self.state.running) {
            req.class = moved[req.class];
        }
        self.state.plan = plan.clone();
        self.watch.reloaded(&self.state);
        self.gate.reconfigure(self.state.now, plan);
    }

    /// Takes the gate's news.
    fn settle(&mut self) {
        loop {
            let mut granted = Vec::new();
            let mut left = Vec::new();
            let woken: Vec<u32> = std::iter::from_fn(|| self.gate.next_wake()).collect();
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
                        assert_eq!(reason, Reason::DeadlineExpired, "request {id}");
                        assert!(!self.is_in_time(id), "refused before its deadline");
                        let req = self.leaves_backlog(id);
                        self.end(&req, false);
                    }
                    Claim::Waiting => panic!("a woken request has an answer"),
                }
            }
            // The last to be granted is woken first. Nobody relies on that but the theorems on turns, when
            // one moment has several grants.
            granted.reverse();
            self.explain(&mut granted);
            for (id, ticket) in left {
                let req = self.stops_running(id);
                self.end(&req, true);
                self.gate.cancel(self.state.now, ticket);
            }
        }
    }

    /// Whether the request cannot have been refused yet.
    fn is_in_time(&self, id: u32) -> bool {
        let req = self.state.waiting.iter().find(|req| req.id == id).expect("it waits");
        let last = match self.state.plan.classes[req.class].late {
            Late::Refuse => req.due,
            Late::Last => req.due + req.due.since(req.arrived),
        };
        last > self.state.now
    }

    /// Takes those who were granted slots at this moment out of the backlog, in an order in which each
    /// was allowed to be next.
    fn explain(&mut self, granted: &mut Vec<u32>) {
        if granted.is_empty() {
            return;
        }
        let mut reasons = Vec::new();
        let mut order = Vec::new();
        let found = order_of(&mut self.state, granted, &mut order, &mut reasons);
        assert!(found, "no order explains that {granted:?} were next: {reasons:?}\n{:?}", self.state);
        for req in order {
            // Found, so the model moves again, and whoever looks on sees each step.
            self.state.waiting.retain(|other| other.id != req.id);
            self.state.running.push(req.clone());
            self.watch.started(&self.state, &req);
            self.at(self.state.now + req.service, Event::Finish(req.id));
        }
    }

    fn leaves_backlog(&mut self, id: u32) -> Req {
        let place = self.state.waiting.iter().position(|req| req.id == id).expect("it waits");
        self.state.waiting.remove(place)
    }

    fn stops_running(&mut self, id: u32) -> Req {
        let place = self.state.running.iter().position(|req| req.id == id).expect("it runs");
        self.state.running.remove(place)
    }

    fn end(&mut self, req: &Req, in_service: bool) {
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
    fn check(&mut self) {
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
        if state.free() == 0 || !state.waiting.iter().any(|req| choice::must_have_room(state, req)) {
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
