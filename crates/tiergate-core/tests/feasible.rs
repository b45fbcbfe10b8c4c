//! Deadline feasibility at the gate: who cannot be served in time is told so at once.

use std::time::Duration;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Gate, Slot, Ticket, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Plan;
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;

const MS: Duration = Duration::from_millis(1);

/// One class over four slots that each come free every 40 ms: 100 requests a second.
struct World {
    gate: Gate<()>,
    now: Moment,
    running: Vec<Slot>,
    waiting: Vec<Ticket>,
    refused_at_once: u32,
    expired: u32,
    served: u32,
}

impl World {
    fn new() -> Self {
        let mut class = Class::named("all");
        class.deadline = 500 * MS;
        let plan = Plan { generation: 0, classes: vec![class], rules: 0, slots: Slots::Fixed(4) };
        World {
            gate: Gate::new(plan),
            now: Moment::ZERO,
            running: Vec::new(),
            waiting: Vec::new(),
            refused_at_once: 0,
            expired: 0,
            served: 0,
        }
    }

    /// `per_10_ms` arrivals and one end every 10 ms, for so long.
    fn run(&mut self, lasting: Duration, per_10_ms: u32) {
        for _ in 0..lasting.as_millis() / 10 {
            self.now = self.now + 10 * MS;
            self.gate.tick(self.now);
            if self.running.len() == 4 {
                self.served += 1;
                let slot = self.running.remove(0);
                self.gate.finish(self.now, slot, Outcome::without_answer(End::Served));
            }
            while self.gate.next_wake().is_some() {}
            for ticket in std::mem::take(&mut self.waiting) {
                match self.gate.claim(ticket) {
                    Claim::Waiting => self.waiting.push(ticket),
                    Claim::Admitted(slot) => self.running.push(slot),
                    Claim::Rejected(reason) => {
                        assert_eq!(reason, Reason::DeadlineExpired);
                        self.expired += 1;
                    }
                }
            }
            for _ in 0..per_10_ms {
                let arrival = Arrival {
                    class: ClassId(0),
                    rule: None,
                    deadline: None,
                    generation: 0,
                    running: false,
                };
                match self.gate.arrive(self.now, arrival, || ()) {
                    Verdict::Admit(slot) => self.running.push(slot),
                    Verdict::Queue(ticket) => self.waiting.push(ticket),
                    Verdict::Reject(reason) => {
                        assert_eq!(reason, Reason::DeadlineInfeasible);
                        self.refused_at_once += 1;
                    }
                }
            }
        }
    }
}

#[test]
fn under_overload_nearly_nobody_waits_in_vain() {
    let mut world = World::new();
    world.run(Duration::from_secs(2), 10);
    let (expired, served) = (world.expired, world.served);
    world.run(Duration::from_secs(10), 10);
    // 10,000 arrivals for 1,000 slots' worth: without the check 9,000 wait half a second in vain.
    assert!(world.expired - expired < 100, "{} waited in vain", world.expired - expired);
    assert_eq!(world.served - served, 1000, "no slot was idle");
    let waiting = world.waiting.len();
    assert!(
        (40..=50).contains(&waiting),
        "{waiting} wait: nine tenths of what half a second serves"
    );
}

#[test]
fn a_reload_begins_with_nothing_known_of_new_classes() {
    let mut world = World::new();
    world.run(Duration::from_secs(3), 10);
    let mut class = Class::named("another");
    class.deadline = 500 * MS;
    let plan = Plan { generation: 1, classes: vec![class], rules: 0, slots: Slots::Fixed(4) };
    world.gate.reconfigure(world.now, plan);
    world.refused_at_once = 0;
    world.run(50 * MS, 10);
    assert_eq!(world.refused_at_once, 0, "of an old rate, or of none at all");
}

#[test]
fn whoever_has_a_body_to_send_is_told_before() {
    let mut world = World::new();
    let arrival =
        Arrival { class: ClassId(0), rule: None, deadline: None, generation: 0, running: false };
    assert_eq!(world.gate.turn_away(arrival), None);
    world.run(Duration::from_secs(3), 10);
    assert_eq!(world.gate.turn_away(arrival), Some(Reason::DeadlineInfeasible));
}

#[test]
fn below_capacity_nobody_is_refused() {
    let mut world = World::new();
    world.run(Duration::from_secs(5), 10);
    world.refused_at_once = 0;
    // What waits is served first, then everybody is.
    world.run(Duration::from_secs(5), 0);
    world.run(Duration::from_secs(5), 1);
    assert_eq!((world.refused_at_once, world.waiting.len()), (0, 0));
}
