//! Minimum shares over time: slot time that a less important class gets while the important one
//! would take everything.

use std::collections::VecDeque;
use std::time::Duration;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Slot, Ticket, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Plan;
use tiergate_core::time::Moment;

const MILLI: Duration = Duration::from_millis(1);

/// A gate whose classes keep so many requests in it (waiting or running) all the time.
struct Busy {
    gate: Gate<usize>,
    now: Moment,
    service: Vec<Duration>,
    /// Tickets by number; a number is what wakes.
    tickets: Vec<Option<(usize, Ticket)>>,
    running: VecDeque<(Moment, usize, Slot)>,
    /// Slot time held by each class.
    held: Vec<Duration>,
}

impl Busy {
    fn new(slots: u32, minimums: &[f64], service_ms: &[u32]) -> Self {
        let class = |(place, &minimum): (usize, &f64)| Class {
            minimum,
            deadline: Duration::from_secs(100_000),
            ..Class::named(format!("class {place}"))
        };
        Busy {
            gate: Gate::new(Plan {
                classes: minimums.iter().enumerate().map(class).collect(),
                slots: Slots::Fixed(slots),
                ..Plan::protective()
            }),
            now: Moment::ZERO,
            service: service_ms.iter().map(|&ms| MILLI * ms).collect(),
            tickets: Vec::new(),
            running: VecDeque::new(),
            held: vec![Duration::ZERO; minimums.len()],
        }
    }

    fn send(&mut self, class: usize) {
        let number = self.tickets.len();
        let arrival = Arrival::of(ClassId(class as u16));
        self.tickets.push(None);
        match self.gate.arrive(self.now, arrival, || number) {
            Verdict::Admit(slot) => self.start(class, slot),
            Verdict::Queue(ticket) => self.tickets[number] = Some((class, ticket)),
            Verdict::Reject(reason) => panic!("{reason:?}"),
        }
    }

    fn start(&mut self, class: usize, slot: Slot) {
        let end = self.now + self.service[class];
        let place = self.running.partition_point(|(other, ..)| *other <= end);
        self.running.insert(place, (end, class, slot));
    }

    /// Runs until `end`; each request that ends is followed by another of its class.
    fn run(&mut self, end: Moment) {
        while let Some((at, ..)) = self.running.front()
            && *at <= end
        {
            let (at, class, slot) = self.running.pop_front().expect("just seen");
            self.now = at;
            self.held[class] += at.since(slot.admitted());
            self.gate.finish(at, slot, Outcome::without_answer(End::Served));
            while let Some(number) = self.gate.next_effect().and_then(Effect::into_wake) {
                let (class, ticket) = self.tickets[number].take().expect("woken once");
                match self.gate.claim(ticket) {
                    Claim::Admitted(slot) => self.start(class, slot),
                    other => panic!("{other:?}"),
                }
            }
            self.send(class);
        }
    }

    fn share(&self, class: usize) -> f64 {
        let all: Duration = self.held.iter().sum();
        self.held[class].as_secs_f64() / all.as_secs_f64()
    }
}

fn busy(slots: u32, minimums: &[f64], service_ms: &[u32], clients: &[usize]) -> Busy {
    let mut busy = Busy::new(slots, minimums, service_ms);
    for (class, &count) in clients.iter().enumerate() {
        for _ in 0..count {
            busy.send(class);
        }
    }
    busy
}

#[test]
fn a_tenth_of_a_single_slot_is_every_tenth_service_time() {
    for service in [[10, 10], [10, 30], [30, 10], [7, 200]] {
        let mut busy = busy(1, &[0.0, 0.1], &service, &[20, 20]);
        busy.run(Moment::from_millis(200_000));
        let share = busy.share(1);
        assert!((share - 0.1).abs() < 0.01, "{service:?}: {share}");
    }
}

#[test]
fn shares_hold_for_whole_and_broken_numbers_of_slots() {
    for slots in [1, 2, 3, 7, 10, 25] {
        for minimum in [0.05, 0.1, 0.25, 0.4, 0.9] {
            let mut busy = busy(slots, &[0.0, minimum], &[10, 13], &[100, 100]);
            busy.run(Moment::from_millis(100_000));
            let share = busy.share(1);
            assert!((share - minimum).abs() < 0.02, "{slots} slots, minimum {minimum}: {share}");
        }
    }
}

#[test]
fn every_class_has_its_share_and_the_rest_goes_to_the_most_important() {
    let mut busy = busy(5, &[0.0, 0.1, 0.0, 0.3], &[10; 4], &[50; 4]);
    busy.run(Moment::from_millis(100_000));
    let shares: Vec<f64> = (0..4).map(|class| busy.share(class)).collect();
    for (share, expected) in shares.iter().zip([0.6, 0.1, 0.0, 0.3]) {
        assert!((share - expected).abs() < 0.02, "{shares:?}");
    }
}

#[test]
fn without_a_minimum_the_less_important_class_gets_nothing() {
    let mut busy = busy(3, &[0.0, 0.0], &[10, 10], &[50, 50]);
    busy.run(Moment::from_millis(10_000));
    assert_eq!(busy.held[1], Duration::ZERO);
}

#[test]
fn what_the_important_class_does_not_use_is_lent() {
    let mut busy = busy(4, &[0.5, 0.0], &[10, 10], &[1, 50]);
    busy.run(Moment::from_millis(10_000));
    // The important class's one client waits for a slot between two requests, and holds one.
    assert!(busy.share(1) > 0.74, "{}", busy.share(1));
}

#[test]
fn a_class_with_one_client_gets_no_more_than_its_share() {
    // Its client never waits and runs at once, so what it owes must outlive the wait.
    let mut busy = busy(1, &[0.0, 0.1], &[10, 10], &[20, 1]);
    busy.run(Moment::from_millis(100_000));
    let share = busy.share(1);
    assert!((share - 0.1).abs() < 0.01, "{share}");
}

#[test]
fn a_stalled_origin_does_not_earn_a_class_the_slots_of_minutes() {
    let mut busy = busy(1, &[0.0, 0.1], &[10, 10], &[20, 20]);
    busy.run(Moment::from_millis(1_000));
    // One request of the important class hangs for ten minutes.
    let (at, class, slot) = busy.running.pop_front().expect("one runs");
    let resumed = at + Duration::from_secs(600);
    busy.running.push_front((resumed, class, slot));
    busy.run(resumed);
    let before = busy.held.clone();
    busy.run(resumed + Duration::from_secs(20));
    let important = (busy.held[0] - before[0]).as_secs_f64();
    assert!(important > 15.0, "{important} s of 20 s");
}
