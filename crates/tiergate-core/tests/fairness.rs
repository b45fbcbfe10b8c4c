//! Fairness in work: what flows take of the slots' time, whatever each of their requests costs.

use std::collections::BTreeMap;
use std::time::Duration;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Slot, Ticket, Verdict};
use tiergate_core::names::RuleId;
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::time::Moment;

const SLOTS: u32 = 10;
const FLOWS: u64 = 21;
const FAST: Duration = Duration::from_millis(10);
const SLOW: Duration = Duration::from_secs(1);

/// Flows that keep `depth` requests waiting at all times: the first one's take a second, the others' 10 ms.
struct World {
    gate: Gate<u64>,
    now: Moment,
    depth: usize,
    /// By number of the request: its flow, and its ticket.
    waiting: BTreeMap<u64, (u64, Ticket)>,
    /// How many wait, by flow.
    depths: Vec<usize>,
    /// By when they end, and number.
    running: BTreeMap<(Moment, u64), (u64, Slot)>,
    numbers: u64,
    /// Slot time taken, by flow.
    taken: Vec<Duration>,
}

impl World {
    fn new(depth: usize) -> Self {
        let class = Class { deadline: Duration::from_secs(36_000), ..Class::named("c") };
        let slots = Slots::Fixed(SLOTS);
        let rules = vec!["all".into()];
        let spec = Spec { classes: vec![class], slots, rules, ..Spec::protective() };
        World {
            gate: Gate::new(spec.build().expect("a valid plan")),
            now: Moment::ZERO,
            depth,
            waiting: BTreeMap::new(),
            depths: vec![0; FLOWS as usize],
            running: BTreeMap::new(),
            numbers: 0,
            taken: vec![Duration::ZERO; FLOWS as usize],
        }
    }

    fn start(&mut self, number: u64, flow: u64, slot: Slot) {
        let takes = if flow == 0 { SLOW } else { FAST };
        self.running.insert((self.now + takes, number), (flow, slot));
    }

    /// Every flow has as many waiting as it keeps.
    fn fill(&mut self) {
        for flow in 0..FLOWS {
            while self.depths[flow as usize] < self.depth {
                let number = self.numbers;
                self.numbers += 1;
                let rule = Some(RuleId::at(0));
                let arrival = Arrival { flow: flow + 1, rule, ..Arrival::of(ClassId(0)) };
                match self.gate.arrive(self.now, arrival, || number) {
                    Verdict::Admit(slot) => self.start(number, flow, slot),
                    Verdict::Queue(ticket) => {
                        self.waiting.insert(number, (flow, ticket));
                        self.depths[flow as usize] += 1;
                    }
                    Verdict::Reject(reason) => panic!("{reason:?}"),
                }
                self.news();
            }
        }
    }

    fn news(&mut self) {
        while let Some(number) = self.gate.next_effect().and_then(Effect::into_wake) {
            let (flow, ticket) = self.waiting.remove(&number).expect("it waits");
            self.depths[flow as usize] -= 1;
            match self.gate.claim(ticket) {
                Claim::Admitted(slot) => self.start(number, flow, slot),
                other => panic!("{other:?}"),
            }
        }
    }

    fn run(&mut self, lasting: Duration) {
        let until = self.now + lasting;
        self.fill();
        while self.now < until {
            let ((end, _), (flow, slot)) = self.running.pop_first().expect("all keep asking");
            self.now = end;
            self.taken[flow as usize] += end.since(slot.admitted());
            self.gate.finish(end, slot, Outcome::without_answer(End::Served));
            self.news();
            self.fill();
        }
    }

    /// The first flow's part of all slot time.
    fn share(&self) -> f64 {
        let all: Duration = self.taken.iter().sum();
        self.taken[0].as_secs_f64() / all.as_secs_f64()
    }
}

#[test]
fn a_flow_of_long_requests_takes_no_more_than_the_others() {
    for depth in [1, 2, 5] {
        let mut world = World::new(depth);
        world.run(Duration::from_secs(100));
        world.taken.fill(Duration::ZERO);
        world.run(Duration::from_secs(300));
        let times_equal = world.share() * FLOWS as f64;
        assert!((0.77..1.3).contains(&times_equal), "{depth} waiting: {times_equal} times equal");
    }
}

/// Sessions of eight requests, one after another, at three times the capacity: each is a flow, and ends at
/// the first refusal. Service times vary by a lot.
struct Sessions {
    gate: Gate<u32>,
    now: Moment,
    rng: fastrand::Rng,
    events: BTreeMap<(Moment, u64), Event>,
    sequence: u64,
    /// Of each session: answers so far, and what it holds.
    sessions: Vec<(u32, Option<Ticket>)>,
    begun: u32,
    completed: u32,
    answers: u32,
}

enum Event {
    Session,
    Request(u32),
    Done(u32, Slot),
    Tick,
}

const REQUESTS: u32 = 8;

impl Sessions {
    fn at(&mut self, after_s: f64, event: Event) {
        self.sequence += 1;
        let at = self.now + Duration::from_secs_f64(after_s);
        self.events.insert((at, self.sequence), event);
    }

    fn exponential(&mut self, mean_s: f64) -> f64 {
        -(1.0 - self.rng.f64()).ln() * mean_s
    }

    fn run(think_s: f64, seconds: f64) -> Self {
        let class = Class { deadline: Duration::from_secs(2), ..Class::named("shop") };
        let slots = Slots::Fixed(20);
        let rules = vec!["all".into()];
        let spec = Spec { classes: vec![class], slots, rules, ..Spec::protective() };
        let mut world = Sessions {
            gate: Gate::new(spec.build().expect("a valid plan")),
            now: Moment::ZERO,
            rng: fastrand::Rng::with_seed(7),
            events: BTreeMap::new(),
            sequence: 0,
            sessions: Vec::new(),
            begun: 0,
            completed: 0,
            answers: 0,
        };
        world.at(0.0, Event::Session);
        world.at(0.0, Event::Tick);
        let until = Moment::ZERO + Duration::from_secs_f64(seconds);
        while let Some(((at, _), event)) = world.events.pop_first() {
            if at > until {
                break;
            }
            world.now = at;
            world.happen(event, think_s);
            world.news();
        }
        world
    }

    fn happen(&mut self, event: Event, think_s: f64) {
        match event {
            Event::Session => {
                let pause = self.exponential(f64::from(REQUESTS) / 3000.0);
                self.at(pause, Event::Session);
                self.sessions.push((0, None));
                self.request(self.sessions.len() as u32 - 1);
            }
            Event::Request(session) => self.request(session),
            Event::Done(session, slot) => {
                self.gate.finish(self.now, slot, Outcome::without_answer(End::Served));
                let answers = &mut self.sessions[session as usize].0;
                *answers += 1;
                self.answers += 1;
                self.begun += u32::from(*answers == 1);
                if *answers == REQUESTS {
                    self.completed += 1;
                } else {
                    let think = self.exponential(think_s);
                    self.at(think, Event::Request(session));
                }
            }
            Event::Tick => {
                self.gate.tick(self.now);
                self.at(0.001, Event::Tick);
            }
        }
    }

    fn request(&mut self, session: u32) {
        let goes_on = self.sessions[session as usize].0 > 0;
        let (flow, rule) = (u64::from(session) + 1, Some(RuleId::at(0)));
        let arrival = Arrival { flow, rule, goes_on, ..Arrival::of(ClassId(0)) };
        match self.gate.arrive(self.now, arrival, || session) {
            Verdict::Admit(slot) => self.serve(session, slot),
            Verdict::Queue(ticket) => self.sessions[session as usize].1 = Some(ticket),
            Verdict::Reject(_) => {}
        }
    }

    fn serve(&mut self, session: u32, slot: Slot) {
        let takes = self.exponential(0.020);
        self.at(takes, Event::Done(session, slot));
    }

    fn news(&mut self) {
        while let Some(effect) = self.gate.next_effect() {
            let Some(session) = effect.into_wake() else { continue };
            let ticket = self.sessions[session as usize].1.take().expect("it waits");
            if let Claim::Admitted(slot) = self.gate.claim(ticket) {
                self.serve(session, slot);
            }
        }
    }
}

#[test]
fn sessions_of_one_request_after_another_come_to_their_end() {
    for think_s in [0.0, 0.2, 1.0] {
        let world = Sessions::run(think_s, 60.0);
        let share = f64::from(world.completed) / f64::from(world.begun);
        // Where each request is charged, and has to be made up for, it is a fifth to a third.
        assert!(share > 0.7, "think {think_s} s: {share} of {} begun completed", world.begun);
        assert!(world.answers > 59_000, "{} of 60,000: slots were idle", world.answers);
    }
}
