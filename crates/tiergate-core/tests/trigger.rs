//! Triggers at the gate against an oracle that looks at every length a backlog ever had.

use proptest::prelude::*;
use tiergate_core::admit::trigger::{Backlogs, Trigger};
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Gate, Slot, Ticket, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;

const CLASSES: usize = 3;
/// Small, so that running sessions often displace others.
const QUEUE_LEN_MAX: usize = 4;

#[derive(Clone, Debug)]
enum Op {
    /// Class, and whether its session runs.
    Arrive(u8, bool),
    Finish,
    Cancel(u8),
}

fn triggers() -> impl Strategy<Value = Vec<Vec<Trigger>>> {
    let trigger = (0_u8..8, 1_u32..6, 1_u32..6).prop_map(|(bits, waiting, until)| {
        let classes = (0..CLASSES as u16).filter(|class| bits & 1 << class != 0).map(ClassId);
        let of = if bits == 7 { Backlogs::All } else { Backlogs::Of(classes.collect()) };
        Trigger { of, waiting, until: until.min(waiting) }
    });
    prop::collection::vec(prop::collection::vec(trigger, 0..3), CLASSES)
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        5 => (0_u8..CLASSES as u8, any::<bool>()).prop_map(|(c, r)| Op::Arrive(c, r)),
        2 => Just(Op::Finish),
        1 => any::<u8>().prop_map(Op::Cancel),
    ];
    prop::collection::vec(op, 1..200)
}

struct World {
    gate: Gate<()>,
    running: Vec<Slot>,
    /// Class, whether its session runs, ticket; in the order of arrival.
    waiting: Vec<(usize, bool, Ticket)>,
    triggers: Vec<Vec<Trigger>>,
    /// By class and trigger: whether it is pulled.
    pulled: Vec<Vec<bool>>,
}

impl World {
    fn look(&mut self) {
        for (class, triggers) in self.triggers.iter().enumerate() {
            for (place, trigger) in triggers.iter().enumerate() {
                let counts = |class: &usize| match &trigger.of {
                    Backlogs::All => true,
                    Backlogs::Of(classes) => classes.contains(&ClassId(*class as u16)),
                };
                let waiting =
                    self.waiting.iter().filter(|(class, ..)| counts(class)).count() as u32;
                let pulled = &mut self.pulled[class][place];
                *pulled = waiting >= if *pulled { trigger.until } else { trigger.waiting };
            }
        }
    }

    fn arrive(&mut self, class: usize, running: bool) {
        let free = self.gate.running() < self.gate.slots();
        let pulled = self.pulled[class].contains(&true);
        assert!(!(free && pulled), "whoever finds a free slot gets it");
        let full = self.waiting.iter().filter(|waiter| waiter.0 == class).count() == QUEUE_LEN_MAX;
        let newest = self.waiting.iter().rposition(|waiter| waiter.0 == class && !waiter.1);
        let arrival = Arrival { running, ..Arrival::of(ClassId(class as u16)) };
        match self.gate.arrive(Moment::ZERO, arrival, || ()) {
            Verdict::Admit(slot) => {
                assert!(free);
                self.running.push(slot);
            }
            Verdict::Queue(ticket) => {
                assert!(!free && (!pulled || running), "running sessions are spared");
                if full {
                    assert!(running, "only a running session's request displaces another");
                    let (.., displaced) = self.waiting.remove(newest.expect("one was displaced"));
                    assert_eq!(self.gate.claim(displaced), Claim::Rejected(Reason::QueueFull));
                }
                self.waiting.push((class, running, ticket));
            }
            Verdict::Reject(Reason::BacklogTrigger) => assert!(pulled && !running),
            Verdict::Reject(reason) => {
                assert_eq!(reason, Reason::QueueFull);
                assert!(full && if running { newest.is_none() } else { !pulled });
            }
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Arrive(class, running) => self.arrive(class.into(), running),
            Op::Finish => {
                if let Some(slot) = self.running.pop() {
                    self.gate.finish(Moment::ZERO, slot, Outcome::without_answer(End::Failed));
                }
            }
            Op::Cancel(which) if !self.waiting.is_empty() => {
                let (.., ticket) = self.waiting.remove(which as usize % self.waiting.len());
                self.gate.cancel(Moment::ZERO, ticket);
            }
            Op::Cancel(_) => {}
        }
        while self.gate.next_effect().is_some() {}
        let (gate, running) = (&mut self.gate, &mut self.running);
        self.waiting.retain(|(.., ticket)| match gate.claim(*ticket) {
            Claim::Waiting => true,
            Claim::Admitted(slot) => {
                running.push(slot);
                false
            }
            Claim::Rejected(reason) => panic!("{reason:?}"),
        });
        self.look();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_class_is_refused_while_a_trigger_is_pulled_and_only_then(
        triggers in triggers(),
        ops in ops(),
    ) {
        let class = |(index, refuse_at): (usize, &Vec<Trigger>)| Class {
            refuse_at: refuse_at.clone(),
            queue_len_max: QUEUE_LEN_MAX as u32,
            ..Class::named(format!("class {index}"))
        };
        let plan = Spec {
            classes: triggers.iter().enumerate().map(class).collect(),
            slots: Slots::Fixed(2),
            ..Spec::protective()
        };
        let mut world = World {
            gate: Gate::new(plan.build().expect("a valid plan")),
            running: Vec::new(),
            waiting: Vec::new(),
            pulled: triggers.iter().map(|triggers| vec![false; triggers.len()]).collect(),
            triggers,
        };
        for op in &ops {
            world.apply(op);
        }
    }
}

/// A session that holds a backlog long is not refused itself, but loses its own places to others.
#[test]
fn a_greedy_session_does_not_bar_the_others_of_its_class() {
    let mut class = Class::named("basic");
    class.refuse_at = vec![Trigger { of: Backlogs::All, waiting: 8, until: 8 }];
    let spec = Spec { classes: vec![class], slots: Slots::Fixed(1), ..Spec::protective() };
    let mut gate: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
    let arrive = |gate: &mut Gate<()>, flow, running| {
        let arrival = Arrival { flow, running, ..Arrival::of(ClassId(0)) };
        gate.arrive(Moment::ZERO, arrival, || ())
    };
    let greedy: Vec<_> = (0..20).map(|_| arrive(&mut gate, 1, true)).collect();
    let waits = |verdict: &Verdict| matches!(verdict, Verdict::Queue(_));
    assert_eq!(greedy.iter().filter(|it| waits(it)).count(), 19, "running sessions are spared");
    for flow in 2..8 {
        assert!(waits(&arrive(&mut gate, flow, false)), "flow {flow} gets a place");
    }
    let refused = greedy.iter().filter_map(|it| match it {
        Verdict::Queue(ticket) => Some(gate.claim(*ticket)),
        _ => None,
    });
    let refused = refused.filter(|it| *it == Claim::Rejected(Reason::BacklogTrigger)).count();
    assert_eq!(refused, 6, "each in the stead of one of the session's");
}
