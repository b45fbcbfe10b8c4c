//! Classes that wait in one queue, first come, first served: an overload that lasts is told by all of them together, and a
//! control that holds the queue at a length comes before what would make it short.

#![allow(clippy::disallowed_macros, reason = "tests say what they measured")]

use tiergate_core::admit::bucket::Rate;
use tiergate_core::admit::inbound::{Inbound, Reference};
use tiergate_core::admit::policer::{Per, PolicerId, Settings, Share};
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Gate, Slot, Ticket, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::reason::Reason;
use tiergate_core::schedule::{Policy, Site};
use tiergate_core::time::Moment;

const SECONDS: u64 = 60;

/// What became of one class's requests in the second half.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    served: u32,
    /// Because the overload lasts.
    lasting: u32,
}

/// Two classes before a server, come first, served first.
struct World {
    policers: Vec<Settings>,
    slots: u32,
    /// Mean times of their answers, in milliseconds.
    service_ms: [f64; 2],
    /// Whether all requests of a class are of one flow.
    one_flow: bool,
    fair: bool,
    /// Whether only the one's requests are subject to the policer.
    polices_one: bool,
}

impl World {
    /// A server that serves 200 a second.
    fn plain() -> Self {
        let (policers, service_ms) = (Vec::new(), [80.0, 80.0]);
        World { policers, slots: 16, service_ms, one_flow: false, fair: true, polices_one: false }
    }

    /// The classes' requests come at random times, in each second so many a second.
    fn run(&self, rates: impl Fn(u64) -> [f64; 2], seed: u64) -> [Tally; 2] {
        let class = |name: &str| Class { fair: self.fair, ..Class::named(name) };
        let policer = (!self.policers.is_empty()).then_some(PolicerId(0));
        let of_one = policer.filter(|_| self.polices_one);
        let spec = Spec {
            classes: vec![Class { policer: of_one, ..class("one") }, class("other")],
            sites: vec![Site { policy: Policy::Fifo, ..Site::named("all") }],
            slots: Slots::Fixed(self.slots),
            policers: self.policers.clone(),
            site_policer: policer.filter(|_| !self.polices_one),
            ..Spec::protective()
        };
        let mut gate: Gate<u8> = Gate::new(spec.build().expect("a valid plan"));
        let mut random = fastrand::Rng::with_seed(seed);
        let mut waiting: Vec<(usize, Ticket)> = Vec::new();
        let mut running: Vec<(usize, u64, Slot)> = Vec::new();
        let mut tallies = [Tally::default(); 2];
        for ms in 0..SECONDS * 1000 {
            let (now, is_judged) = (Moment::from_millis(ms), ms > SECONDS * 500);
            gate.tick(now);
            for index in (0..running.len()).rev() {
                if running[index].1 <= ms {
                    let (class, _, slot) = running.swap_remove(index);
                    tallies[class].served += u32::from(is_judged);
                    let first_byte = Some(now.since(slot.admitted()));
                    let end = End::Served;
                    gate.finish(now, slot, Outcome { end, first_byte, bytes: 0, left: None });
                }
            }
            let until = |class: usize, random: &mut fastrand::Rng| {
                let took = -self.service_ms[class] * (1.0 - random.f64()).ln();
                ms + took.ceil().max(1.0) as u64
            };
            for (class, rate) in rates(ms / 1000).into_iter().enumerate() {
                let mut passed = -random.f64().max(1e-12).ln();
                while passed < rate / 1000.0 {
                    let flow = if self.one_flow { class as u64 + 1 } else { random.u64(..) };
                    let arrival = Arrival { flow, ..Arrival::of(ClassId(class as u16)) };
                    match gate.arrive(now, arrival, || 0) {
                        Verdict::Admit(slot) => {
                            running.push((class, until(class, &mut random), slot));
                        }
                        Verdict::Queue(ticket) => waiting.push((class, ticket)),
                        Verdict::Reject(reason) => {
                            let is_lasting = is_judged && reason == Reason::LastingOverload;
                            tallies[class].lasting += u32::from(is_lasting);
                        }
                    }
                    passed -= random.f64().max(1e-12).ln();
                }
            }
            while gate.next_effect().is_some() {}
            waiting.retain(|&(class, ticket)| match gate.claim(ticket) {
                Claim::Waiting => true,
                Claim::Admitted(slot) => {
                    running.push((class, until(class, &mut random), slot));
                    false
                }
                Claim::Rejected(_) => false,
            });
        }
        tallies
    }
}

/// Three fifths of what is let in are for the one; how much that is follows what waits.
fn by_backlog() -> Settings {
    let share =
        |class, percent: u16, burst| Share { class: ClassId(class), parts: percent * 100, burst };
    let inbound = Inbound {
        source: Inbound::BACKLOG.into(),
        reference: Reference::QueueLen(100),
        min: Rate::per_second(10),
    };
    Settings {
        name: "all".into(),
        key: None,
        rate: Rate::per_second(10_000),
        burst: 5,
        per: Per::Rule,
        shares: vec![share(0, 60, 20), share(1, 40, 5)],
        inbound: Some(inbound),
        announce: false,
    }
}

#[test]
fn neither_of_two_classes_that_wait_alike_is_starved() {
    // The one has an overload of its own at first; then both ask for as much.
    let rates = |second| if second < 10 { [320.0, 0.0] } else { [160.0, 160.0] };
    let worlds = [
        World::plain(),
        World { one_flow: true, ..World::plain() },
        World { fair: false, ..World::plain() },
        World { service_ms: [130.0, 30.0], ..World::plain() },
        World { service_ms: [30.0, 130.0], ..World::plain() },
    ];
    for (number, world) in worlds.iter().enumerate() {
        for seed in 0..10 {
            let [one, other] = world.run(rates, seed);
            let ratio = f64::from(one.served) / f64::from(other.served.max(1));
            let words = format!("world {number}, seed {seed}: {ratio:.2} {one:?} {other:?}");
            println!("{words}");
            assert!((0.7..1.43).contains(&ratio), "{words}");
            assert!(one.lasting > 0 && other.lasting > 0, "{words}");
        }
    }
}

#[test]
fn shares_hold_where_the_control_keeps_a_queue() {
    let world = World { policers: vec![by_backlog()], ..World::plain() };
    for seed in 0..20 {
        let [one, other] = world.run(|_| [320.0, 320.0], seed);
        let ratio = f64::from(one.served) / f64::from(other.served.max(1));
        println!("seed {seed}: {ratio:.2} {one:?} {other:?}");
        assert!((1.3..1.7).contains(&ratio), "seed {seed}: {ratio:.2} {one:?} {other:?}");
        assert_eq!((one.lasting, other.lasting), (0, 0), "seed {seed}");
    }
}

#[test]
fn a_queue_that_would_be_long_by_the_control_is_kept_short_all_the_same() {
    // It serves 25 a second: a hundred would wait for four seconds, twice the deadline.
    let world = World { policers: vec![by_backlog()], slots: 2, ..World::plain() };
    for seed in 0..5 {
        let [one, other] = world.run(|_| [40.0, 40.0], seed);
        println!("seed {seed}: {one:?} {other:?}");
        assert!(one.lasting > 0 && other.lasting > 0, "seed {seed}: {one:?} {other:?}");
    }
}

#[test]
fn a_control_of_others_requests_keeps_no_queue_for_these() {
    let world = World { policers: vec![by_backlog()], polices_one: true, ..World::plain() };
    for seed in 0..5 {
        let [one, other] = world.run(|_| [40.0, 320.0], seed);
        println!("seed {seed}: {one:?} {other:?}");
        assert!(other.lasting > 0, "seed {seed}: {one:?} {other:?}");
    }
}
