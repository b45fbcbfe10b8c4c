//! What the next request costs with a million waiting, of 10,000 flows: the end of another that frees a
//! slot, the choice, and the claim by its owner. Medians over rounds, in nanoseconds a request; and of
//! single ones the worst of a thousand. Between rounds as many arrive, which is told apart.
//!
//! Question answered: is it under 1 µs in every order, whether flows take turns or not?

#![allow(clippy::disallowed_methods, clippy::disallowed_macros, missing_docs)]

use std::hint::black_box;
use std::time::{Duration, Instant};
use tiergate_core::class::{Class, ClassId, Codel, Late, Order, WhenFull};
use tiergate_core::classify::score::{Points, Score};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Slot, Ticket, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::time::Moment;

const WAITING: u32 = 1_000_000;
const FLOWS: u64 = 10_000;
const ROUNDS: usize = 101;
const BATCH: u32 = 2000;

fn main() {
    println!("{:<44} {:>9} {:>9} {:>9} {:>9}", "", "next ns", "range", "99.9 %", "arrive ns");
    for order in [Order::Fifo, Order::AdaptiveLifo, Order::Deadline, Order::Score] {
        for fair in [false, true] {
            report(&format!("{order:?}, flows {fair}"), Class { order, fair, ..class() });
        }
    }
    let codel = Some(Codel { target: Duration::from_secs(1), interval: Duration::from_secs(3600) });
    report("Fifo, flows true, CoDel at rest", Class { codel, ..class() });
    let least = Class { when_full: WhenFull::DropLeast, late: Late::Last, ..class() };
    report("Fifo, flows true, the least leave", least);
}

fn class() -> Class {
    Class {
        deadline: Duration::from_secs(36_000),
        queue_len_max: u32::MAX,
        queue_bytes_max: u64::MAX,
        ..Class::named("c")
    }
}

struct Bench {
    gate: Gate<u32>,
    now: Moment,
    tickets: Vec<Option<Ticket>>,
    free: Vec<u32>,
    slot: Option<Slot>,
    dice: u64,
}

fn report(name: &str, class: Class) {
    let plan = Spec { classes: vec![class], slots: Slots::Fixed(1), ..Spec::protective() };
    let mut bench = Bench {
        gate: Gate::new(plan.build().expect("a valid plan")),
        now: Moment::ZERO,
        tickets: vec![None; WAITING as usize + 1],
        free: (0..=WAITING).collect(),
        slot: None,
        dice: 88_172_645_463_325_252,
    };
    bench.arrive(WAITING + 1);
    // As many again, so that who stands where in memory has nothing to do with when it came.
    for _ in 0..WAITING / BATCH {
        bench.next(BATCH);
        bench.arrive(BATCH);
    }
    let mut next = Vec::new();
    let mut arrive = Vec::new();
    let mut single = Vec::new();
    for _ in 0..ROUNDS {
        next.push(timed(|| bench.next(BATCH)) / f64::from(BATCH));
        arrive.push(timed(|| bench.arrive(BATCH)) / f64::from(BATCH));
        for _ in 0..20 {
            single.push(timed(|| bench.next(1)));
            bench.arrive(1);
        }
    }
    assert_eq!(bench.gate.waiting(), WAITING as usize);
    next.sort_by(f64::total_cmp);
    arrive.sort_by(f64::total_cmp);
    single.sort_by(f64::total_cmp);
    println!(
        "{name:<44} {:>9.0} {:>4.0}-{:<4.0} {:>9.0} {:>9.0}",
        next[ROUNDS / 2],
        next[0],
        next[ROUNDS - 1],
        single[single.len() * 999 / 1000],
        arrive[ROUNDS / 2]
    );
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64
}

impl Bench {
    fn roll(&mut self, below: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        (self.dice >> 11) % below
    }

    fn arrive(&mut self, count: u32) {
        for _ in 0..count {
            // So fast that it says nothing of how slow the backlog is served.
            self.now = self.now + Duration::from_nanos(20);
            let points = self.roll(1_000_000) as u32;
            let arrival = Arrival {
                flow: self.roll(FLOWS).wrapping_mul(0x9e37_79b9_7f4a_7c15),
                score: Score::of(Points::from_thousandths(points).expect("small")),
                deadline: Some(Duration::from_millis(36_000_000 + self.roll(36_000_000))),
                bytes: 500,
                ..Arrival::of(ClassId(0))
            };
            let place = self.free.pop().expect("as many places as requests");
            match self.gate.arrive(self.now, arrival, || place) {
                Verdict::Admit(slot) => {
                    self.slot = Some(slot);
                    self.free.push(place);
                }
                Verdict::Queue(ticket) => self.tickets[place as usize] = Some(ticket),
                Verdict::Reject(reason) => panic!("{reason:?}"),
            }
        }
    }

    fn next(&mut self, count: u32) {
        for _ in 0..count {
            self.now = self.now + Duration::from_micros(10);
            let slot = self.slot.take().expect("one is always held");
            let outcome = Outcome { end: End::Served, first_byte: None, bytes: 0, left: None };
            self.gate.finish(black_box(self.now), slot, outcome);
            while let Some(place) = self.gate.next_effect().and_then(Effect::into_wake) {
                let ticket = self.tickets[place as usize].take().expect("woken once");
                self.free.push(place);
                if let Claim::Admitted(slot) = self.gate.claim(ticket) {
                    self.slot = Some(slot);
                }
            }
        }
    }
}
