//! Servers with a limit each: the gate chooses the server with the slot, and none works on more than it has slots, whatever requests
//! are tried again elsewhere.

mod choice;
mod numbers;
mod random;
mod retries;
mod returns;

use std::time::Duration;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::{Access, ServerSlots, Slots};
use tiergate_core::gate::{Arrival, Claim, Gate, Slot, Ticket, Verdict};
use tiergate_core::names::{PoolId, ServerId};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::{Plan, Spec};
use tiergate_core::time::Moment;

const ALL: ClassId = ClassId(0);
const BASIC: ClassId = ClassId(1);
const A: ServerId = ServerId(0);
const B: ServerId = ServerId(1);
const C: ServerId = ServerId(2);

fn at(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

fn served() -> Outcome {
    Outcome::without_answer(End::Served)
}

/// Premium and basic, which wait for as long as it takes, in order of arrival.
fn spec(slots: Slots) -> Spec {
    let class = |name: &str| Class {
        deadline: Duration::from_secs(36_000),
        patience: false,
        fair: false,
        ..Class::named(name)
    };
    let classes = ["premium", "basic"].map(class).to_vec();
    Spec { classes, slots, slots_per_server: true, ..Spec::protective() }
}

fn plan(slots: Slots) -> Plan {
    spec(slots).build().expect("a valid plan")
}

fn gate(slots: u32, servers: &[ServerId]) -> Gate<()> {
    let mut gate = Gate::new(plan(Slots::Fixed(slots)));
    gate.set_servers(at(0), PoolId::DEFAULT, servers);
    gate
}

fn arrive(gate: &mut Gate<()>, ms: u64, class: ClassId) -> Verdict {
    gate.arrive(at(ms), Arrival::of(class), || ())
}

fn admitted(verdict: Verdict) -> Slot {
    match verdict {
        Verdict::Admit(slot) => slot,
        verdict => panic!("{verdict:?}"),
    }
}

fn queued(verdict: Verdict) -> Ticket {
    match verdict {
        Verdict::Queue(ticket) => ticket,
        verdict => panic!("{verdict:?}"),
    }
}

fn claimed(gate: &mut Gate<()>, ticket: Ticket) -> Slot {
    match gate.claim(ticket) {
        Claim::Admitted(slot) => slot,
        claim => panic!("{claim:?}"),
    }
}

fn states(gate: &Gate<()>) -> Vec<ServerSlots> {
    gate.pool(PoolId::DEFAULT).expect("there is one").servers().collect()
}

fn running(gate: &Gate<()>) -> Vec<u32> {
    states(gate).iter().map(|it| it.running).collect()
}

fn at_of(slot: &Slot) -> ServerId {
    slot.server().expect("servers have limits of their own")
}
