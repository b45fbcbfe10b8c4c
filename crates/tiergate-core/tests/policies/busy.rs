//! A gate under clients that each send their next request when the last is answered.

use std::collections::BTreeMap;
use std::time::Duration;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Slot, Ticket, Verdict};
use tiergate_core::names::RuleId;
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::schedule::{Policy, Site};
use tiergate_core::time::Moment;

pub(crate) const MILLI: Duration = Duration::from_millis(1);

/// Classes of these names with much patience.
pub(crate) fn classes(names: &[&str]) -> Vec<Class> {
    let deadline = Duration::from_secs(1_000_000);
    names.iter().map(|name| Class { deadline, patience: false, ..Class::named(*name) }).collect()
}

/// One site under a policy.
pub(crate) fn plan(policy: Policy, slots: u32, classes: Vec<Class>) -> Spec {
    Spec {
        classes,
        slots: Slots::Fixed(slots),
        sites: vec![Site { policy, ..Site::named("all") }],
        ..Spec::protective()
    }
}

/// What the requests of a class are like.
#[derive(Clone)]
pub(crate) struct Work {
    pub slots: u16,
    pub bytes: u64,
    pub end: End,
    /// Times of service, in turn.
    pub services: Vec<Duration>,
}

impl Work {
    pub(crate) fn taking(service: Duration) -> Self {
        Work { slots: 1, bytes: 1, end: End::Served, services: vec![service] }
    }
}

pub(crate) struct Busy {
    pub gate: Gate<usize>,
    pub now: Moment,
    pub work: Vec<Work>,
    /// Whether the class's clients go on.
    pub active: Vec<bool>,
    /// Slot time that each class has held.
    pub held: Vec<Duration>,
    pub served: Vec<u64>,
    /// Most slots that each class held at once.
    pub most: Vec<u32>,
    /// Slot time for which nothing ran.
    pub idle: Duration,
    running: BTreeMap<(Moment, usize), (usize, Slot)>,
    waiting: BTreeMap<usize, (usize, Ticket)>,
    number: usize,
    turns: Vec<usize>,
    /// How many requests the origin works on at once, where it is not as many as it is given.
    pub workers: Option<usize>,
    /// When each worker is done with what it has been given.
    busy_until: BTreeMap<(Moment, usize), ()>,
    seen: Moment,
}

impl Busy {
    pub(crate) fn new(plan: Spec, work: Vec<Work>) -> Self {
        let count = plan.classes.len();
        Busy {
            gate: Gate::new(plan.build().expect("a valid plan")),
            now: Moment::ZERO,
            work,
            active: vec![true; count],
            held: vec![Duration::ZERO; count],
            served: vec![0; count],
            most: vec![0; count],
            idle: Duration::ZERO,
            running: BTreeMap::new(),
            waiting: BTreeMap::new(),
            number: 0,
            turns: vec![0; count],
            workers: None,
            busy_until: BTreeMap::new(),
            seen: Moment::ZERO,
        }
    }

    /// So many more clients of a class send their first request now.
    pub(crate) fn add(&mut self, class: usize, clients: usize) {
        for _ in 0..clients {
            self.send(class);
        }
    }

    fn send(&mut self, class: usize) {
        self.number += 1;
        let number = self.number;
        let slots = self.work[class].slots;
        let arrival =
            Arrival { slots, rule: Some(RuleId::at(0)), ..Arrival::of(ClassId(class as u16)) };
        match self.gate.arrive(self.now, arrival, || number) {
            Verdict::Admit(slot) => self.start(class, slot),
            Verdict::Queue(ticket) => drop(self.waiting.insert(number, (class, ticket))),
            Verdict::Reject(reason) => panic!("{reason:?}"),
        }
        self.wake();
    }

    fn start(&mut self, class: usize, slot: Slot) {
        let services = &self.work[class].services;
        let turn = &mut self.turns[class];
        *turn = (*turn + 1) % services.len();
        self.number += 1;
        let mut begin = self.now;
        if self.workers.is_some_and(|workers| self.busy_until.len() >= workers) {
            let ((free, _), ()) = self.busy_until.pop_first().expect("there is a worker");
            begin = begin.max(free);
        }
        let end = begin + services[*turn];
        if self.workers.is_some() {
            self.busy_until.insert((end, self.number), ());
        }
        self.running.insert((end, self.number), (class, slot));
        for (most, state) in self.most.iter_mut().zip(self.gate.states()) {
            *most = (*most).max(state.running);
        }
    }

    fn wake(&mut self) {
        while let Some(number) = self.gate.next_effect().and_then(Effect::into_wake) {
            let (class, ticket) = self.waiting.remove(&number).expect("woken once");
            match self.gate.claim(ticket) {
                Claim::Admitted(slot) => self.start(class, slot),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Runs until `end`.
    pub(crate) fn run(&mut self, end: Moment) {
        loop {
            let ends = self.running.keys().next().map_or(Moment::NEVER, |(at, _)| *at);
            let at = ends.min(self.gate.next_due(self.now));
            self.pass(at.min(end));
            if at > end {
                break;
            }
            if at < ends {
                self.gate.tick(at);
                self.wake();
                continue;
            }
            let (_, (class, slot)) = self.running.pop_first().expect("one ends");
            self.held[class] += at.since(slot.admitted()) * u32::from(slot.slots());
            self.served[class] += 1;
            let Work { bytes, end, .. } = self.work[class];
            self.gate.finish(at, slot, Outcome { end, first_byte: None, bytes, left: None });
            self.wake();
            if self.active[class] {
                self.send(class);
            }
        }
    }

    fn pass(&mut self, now: Moment) {
        let free = self.gate.slots().saturating_sub(self.gate.running());
        self.idle += now.since(self.seen) * free;
        (self.seen, self.now) = (now, now);
    }

    /// The class's part of all slot time held since `before`.
    pub(crate) fn part_since(&self, before: &[Duration], class: usize) -> f64 {
        let since = |class: usize| (self.held[class] - before[class]).as_secs_f64();
        since(class) / (0..before.len()).map(since).sum::<f64>()
    }

    /// Slots that the class held on average until now.
    pub(crate) fn slots_of(&self, class: usize) -> f64 {
        self.held[class].as_secs_f64() / self.now.seconds()
    }
}
