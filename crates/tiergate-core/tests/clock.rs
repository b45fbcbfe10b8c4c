//! Time at the gate: threads read the clock before they have the gate's lock, so that some come with a
//! moment that is older than one which the gate has been told. To the gate no time has passed then.

use proptest::prelude::*;
use std::time::Duration;
use tiergate_core::admit::block;
use tiergate_core::admit::bucket::Rate;
use tiergate_core::admit::policer::{Per, PolicerId, Settings};
use tiergate_core::class::{Class, ClassId, Codel, Late, Order};
use tiergate_core::control::{Bounds, Slots};
use tiergate_core::gate::{Arrival, Claim, Gate, Slot, Ticket, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::schedule::{Policy, Site};
use tiergate_core::sense::{Quantity, Reading};
use tiergate_core::time::Moment;

#[derive(Clone, Debug)]
enum Op {
    /// Class, flow, deadline in ms.
    Arrive(u8, u8, Option<u8>),
    TurnAway(u8),
    Finish(u8),
    Cancel(u8),
    Stream(u8),
    Permit(u8),
    Forbid(u8),
    Tick,
    Observe,
    Refused(u8),
}

/// Each operation, how many milliseconds after the one before, and how long before that its caller read
/// the clock.
fn ops() -> impl Strategy<Value = Vec<(Op, u16, u16)>> {
    let op = prop_oneof![
        12 => (any::<u8>(), 0_u8..6, prop::option::weighted(0.3, 0_u8..80))
            .prop_map(|(class, flow, deadline)| Op::Arrive(class, flow, deadline)),
        1 => any::<u8>().prop_map(Op::TurnAway),
        10 => any::<u8>().prop_map(Op::Finish),
        2 => any::<u8>().prop_map(Op::Cancel),
        1 => any::<u8>().prop_map(Op::Stream),
        2 => any::<u8>().prop_map(Op::Permit),
        1 => any::<u8>().prop_map(Op::Forbid),
        3 => Just(Op::Tick),
        1 => Just(Op::Observe),
        1 => any::<u8>().prop_map(Op::Refused),
    ];
    let back = prop_oneof![Just(0_u16), 0_u16..8, 0_u16..2000];
    prop::collection::vec((op, 0_u16..12, back), 1..250)
}

fn plans() -> impl Strategy<Value = Spec> {
    let policy = prop_oneof![
        Just(Policy::Strict),
        Just(Policy::Weighted),
        Just(Policy::Shared),
        Just(Policy::Fixed),
        Just(Policy::Deadline)
    ];
    (policy, 1_u32..6, any::<bool>(), any::<bool>()).prop_map(|(policy, slots, adapts, sheds)| {
        let ms = Duration::from_millis;
        let class = |number: u8| Class {
            deadline: ms(60),
            minimum: 0.2,
            share: 0.3,
            reserve: 0.1,
            queue_len_max: 12,
            order: if number == 1 { Order::AdaptiveLifo } else { Order::Fifo },
            codel: Some(Codel { target: ms(3), interval: ms(10) }),
            late: if number == 2 { Late::Last } else { Late::Refuse },
            preemptible: number == 2,
            streams_max: 3,
            ..Class::named(format!("class {number}"))
        };
        let policer = Settings {
            name: "p".to_owned(),
            key: None,
            rate: Rate::per_second(200),
            burst: 10,
            per: Per::Flow { flows_max: 100 },
            shares: Vec::new(),
            inbound: None,
            announce: false,
        };
        let bounds = Bounds { slots_min: 1, slots_max: 50, slots_start: slots };
        let block = block::Settings { after: 5, within: ms(100), lasting: ms(50), flows_max: 100 };
        Spec {
            classes: (0..3).map(class).collect(),
            slots: if adapts { Slots::Adaptive(bounds) } else { Slots::Fixed(slots) },
            sites: vec![Site { policy, ..Site::named("s") }],
            policers: vec![policer],
            site_policer: Some(PolicerId(0)),
            shedding: sheds.then_some(ms(20)),
            block: Some(block),
            ..Spec::protective()
        }
    })
}

/// A gate, and what its callers hold.
struct World {
    gate: Gate<u32>,
    waiting: Vec<Ticket>,
    running: Vec<Slot>,
    streams: u32,
    log: Vec<String>,
}

impl World {
    fn new(plan: &Spec) -> Self {
        let gate = Gate::new(plan.clone().build().expect("a valid plan"));
        World { gate, waiting: Vec::new(), running: Vec::new(), streams: 0, log: Vec::new() }
    }

    fn slot(&mut self, which: u8) -> Option<Slot> {
        let len = self.running.len();
        (len > 0).then(|| self.running.remove(usize::from(which) % len))
    }

    fn apply(&mut self, now: Moment, op: &Op) {
        let arrival = |class: u8, flow: u8| Arrival {
            flow: u64::from(flow).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            ..Arrival::of(ClassId(u16::from(class % 3)))
        };
        match *op {
            Op::Arrive(class, flow, deadline) => {
                let deadline = deadline.map(|ms| Duration::from_millis(ms.into()));
                let arrival = Arrival { deadline, ..arrival(class, flow) };
                match self.gate.arrive(now, arrival, || 0) {
                    Verdict::Admit(slot) => self.running.push(slot),
                    Verdict::Queue(ticket) => self.waiting.push(ticket),
                    Verdict::Reject(reason) => self.log.push(format!("{reason:?}")),
                }
            }
            Op::TurnAway(class) => {
                let reason = self.gate.turn_away(now, arrival(class, class));
                self.log.push(format!("{reason:?}"));
            }
            Op::Finish(which) => {
                if let Some(slot) = self.slot(which) {
                    let first_byte = Some(Duration::from_millis(1));
                    let outcome = Outcome { end: End::Served, first_byte, bytes: 100, left: None };
                    self.gate.finish(now, slot, outcome);
                }
            }
            Op::Cancel(which) => {
                if !self.waiting.is_empty() {
                    let place = usize::from(which) % self.waiting.len();
                    self.gate.cancel(now, self.waiting.remove(place));
                }
            }
            Op::Stream(which) => {
                if let Some(slot) = self.slot(which) {
                    let outcome = Outcome::without_answer(End::Upgraded);
                    match self.gate.stream(now, slot, outcome) {
                        Ok(stream) => {
                            self.streams += 1;
                            self.gate.stream_ended(stream);
                        }
                        Err(slot) => self.running.push(slot),
                    }
                }
            }
            Op::Permit(which) => {
                if let Some(mut slot) = self.slot(which) {
                    self.gate.permit_preemption(now, &mut slot, 1);
                    self.running.push(slot);
                }
            }
            Op::Forbid(which) => {
                if let Some(mut slot) = self.slot(which) {
                    self.gate.forbid_preemption(now, &mut slot);
                    self.running.push(slot);
                }
            }
            Op::Tick => {
                let next = self.gate.tick(now);
                self.log.push(format!("{next:?}"));
            }
            Op::Observe => {
                let quantity = Quantity::Utilization(0.9);
                let lasting = Duration::from_millis(50);
                let reading = Reading { source: "cpu", quantity, lasting };
                self.gate.observe(now, reading).expect("a possible reading");
            }
            Op::Refused(class) => {
                let arrival = arrival(class, class);
                for reason in tiergate_core::reason::Reason::ALL {
                    let refused = self.gate.refused(now, &arrival, reason);
                    self.log.push(format!("{refused:?}"));
                }
                let announced = self.gate.announced(now, &arrival);
                self.log.push(format!("{announced:?} {:?}", self.gate.quota(now, &arrival)));
            }
        }
        self.log.push(format!("{:?}", self.gate.next_due(now)));
        while let Some(effect) = self.gate.next_effect() {
            self.log.push(format!("{effect:?}"));
        }
        for ticket in std::mem::take(&mut self.waiting) {
            match self.gate.claim(ticket) {
                Claim::Waiting => self.waiting.push(ticket),
                Claim::Admitted(slot) => {
                    self.log.push(format!("waited {:?}", slot.waited()));
                    self.running.push(slot);
                }
                Claim::Rejected(reason) => self.log.push(format!("{reason:?}")),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// A gate that is told late moments against one that is told the latest so far: the same in
    /// everything, to the last meter.
    #[test]
    fn a_moment_that_comes_late_is_the_latest(plan in plans(), ops in ops()) {
        let (mut late, mut latest) = (World::new(&plan), World::new(&plan));
        // Far enough from the beginning for every moment to be told late.
        let mut now = Moment::from_millis(10_000);
        let mut seen = Moment::ZERO;
        for (op, after, back) in &ops {
            now = now + Duration::from_millis((*after).into());
            let told = now - Duration::from_millis((*back).into());
            seen = seen.max(told);
            late.apply(told, op);
            latest.apply(seen, op);
            prop_assert_eq!(&late.log, &latest.log);
        }
        let running = late.running.len() as u32;
        prop_assert_eq!(late.gate.running() + late.gate.lent(), running);
        prop_assert_eq!(late.gate.waiting(), late.waiting.len());
        let states: Vec<_> = late.gate.states().collect();
        for (state, account) in states.into_iter().zip(&late.gate.account().classes) {
            let left = account.finished_total() + account.refused_total();
            let here = u64::from(state.waiting + state.requests);
            prop_assert_eq!(account.arrived, left + account.cancelled_waiting + here);
        }
        prop_assert_eq!(format!("{:?}", late.gate), format!("{:?}", latest.gate));
    }
}
