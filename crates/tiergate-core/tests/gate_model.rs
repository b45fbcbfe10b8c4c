//! Random operations on a gate against a model that knows only the rules: order within a class,
//! strictness, minimums, deadlines, bounds, conservation; and nothing of how the gate keeps them.

use proptest::prelude::*;
use std::collections::VecDeque;
use std::time::Duration;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Slot, Ticket, Verdict};
use tiergate_core::names::Names;
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::{Plan, Spec};
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;

#[derive(Clone, Debug)]
enum Op {
    /// A request of class `.0` (modulo), with its own deadline in ms or its class's; `.2`: of a
    /// session that runs.
    Arrive(u8, Option<u8>, bool),
    /// A request classified under a former plan: of any class that ever was.
    ArriveLate(u8),
    Finish(u8),
    Cancel(u8),
    /// Time passes, in ms, and the gate is told.
    Tick(u8),
    /// Time passes, and the gate is not told.
    Wait(u8),
    Reconfigure(PlanShape),
    ClaimStale(u8),
}

/// `(name, minimum %, bound)` for each class, and the slots.
#[derive(Clone, Debug)]
struct PlanShape {
    classes: Vec<(u8, u8, u8)>,
    slots: u32,
}

impl PlanShape {
    fn spec(&self) -> Spec {
        let mut classes: Vec<Class> = Vec::new();
        let share = 1.0 / self.classes.len() as f64;
        for &(name, minimum, bound) in &self.classes {
            let name = format!("class {name}");
            if classes.iter().all(|class| class.name != name) {
                classes.push(Class {
                    deadline: Duration::from_millis(50),
                    minimum: share * f64::from(minimum) / 100.0,
                    queue_len_max: u32::from(bound),
                    patience: false,
                    ..Class::named(name)
                });
            }
        }
        Spec { classes, slots: Slots::Fixed(self.slots), ..Spec::protective() }
    }
}

fn plans() -> impl Strategy<Value = PlanShape> {
    let minimum = prop_oneof![Just(0_u8), 1_u8..=100];
    let class = (0_u8..10, minimum, 0_u8..12);
    (prop::collection::vec(class, 1..=8), 1_u32..8)
        .prop_map(|(classes, slots)| PlanShape { classes, slots })
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        12 => (any::<u8>(), prop::option::weighted(0.3, 0_u8..80), any::<bool>())
            .prop_map(|(c, d, r)| Op::Arrive(c, d, r)),
        1 => any::<u8>().prop_map(Op::ArriveLate),
        8 => any::<u8>().prop_map(Op::Finish),
        2 => any::<u8>().prop_map(Op::Cancel),
        3 => (0_u8..20).prop_map(Op::Tick),
        3 => (0_u8..5).prop_map(Op::Wait),
        1 => plans().prop_map(Op::Reconfigure),
        1 => any::<u8>().prop_map(Op::ClaimStale),
    ];
    prop::collection::vec(op, 1..300)
}

#[derive(Debug)]
struct Waiter {
    id: u32,
    ticket: Ticket,
    deadline: Moment,
    running: bool,
}

/// The model: what waits by class in the order of service, what runs by class. Classes by id.
struct Model {
    names: Names,
    gate: Gate<u32>,
    now: Moment,
    waiting: Vec<VecDeque<Waiter>>,
    running: Vec<(usize, Slot)>,
    used: Vec<Ticket>,
    /// What the latest plan that had it says of a class.
    settings: Vec<Class>,
    ids: u32,
    arrived: u64,
    ended: u64,
}

impl Model {
    fn new(shape: &PlanShape) -> Self {
        let mut names = Names::default();
        let plan = Plan::build(shape.spec(), &mut names).expect("a valid plan");
        let mut model = Model {
            names,
            now: Moment::ZERO,
            waiting: Vec::new(),
            running: Vec::new(),
            used: Vec::new(),
            settings: Vec::new(),
            gate: Gate::new(plan),
            ids: 0,
            arrived: 0,
            ended: 0,
        };
        model.learn();
        model
    }

    /// Takes in what the plan in force says of its classes.
    fn learn(&mut self) {
        let ids = self.gate.plan().class_ids().iter();
        let count = ids.map(|id| id.index() + 1).max().unwrap_or(0).max(self.settings.len());
        self.waiting.resize_with(count, VecDeque::new);
        self.settings.resize_with(count, || Class { patience: false, ..Class::named("new") });
        for (id, class) in self.gate.plan().class_ids().iter().zip(&self.gate.plan().classes) {
            self.settings[id.index()] = class.clone();
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Arrive(class, deadline, running) => {
                let ids = self.gate.plan().class_ids();
                let class = ids[class as usize % ids.len()];
                self.arrive(class.index(), deadline, running);
            }
            Op::ArriveLate(class) => {
                self.arrive(class as usize % self.waiting.len(), None, false);
            }
            Op::Finish(which) => {
                if !self.running.is_empty() {
                    let (_, slot) = self.running.remove(which as usize % self.running.len());
                    self.ended += 1;
                    self.gate.finish(self.now, slot, Outcome::without_answer(End::Failed));
                    self.settle();
                }
            }
            Op::Cancel(which) => self.cancel(which as usize),
            Op::Tick(millis) => {
                self.now = self.now + Duration::from_millis(u64::from(millis));
                let next = self.gate.tick(self.now);
                self.settle();
                let due = self.waiting.iter().flatten().map(|waiter| waiter.deadline).min();
                assert_eq!(next, due.unwrap_or(Moment::NEVER));
                assert!(next > self.now, "whoever is due has been refused");
            }
            Op::Wait(millis) => self.now = self.now + Duration::from_millis(u64::from(millis)),
            Op::Reconfigure(ref shape) => self.reconfigure(shape.spec()),
            Op::ClaimStale(which) => {
                if !self.used.is_empty() {
                    let ticket = self.used[which as usize % self.used.len()];
                    assert_eq!(self.gate.claim(ticket), Claim::Rejected(Reason::Reconfigured));
                    self.gate.cancel(self.now, ticket);
                }
            }
        }
        self.check();
    }

    fn arrive(&mut self, now: usize, deadline: Option<u8>, running: bool) {
        let id = self.ids;
        self.ids += 1;
        self.arrived += 1;
        let own = deadline.map(|millis| Duration::from_millis(u64::from(millis)));
        let arrival = Arrival { deadline: own, running, ..Arrival::of(ClassId(now as u16)) };
        let settings = self.settings[now].clone();
        let free = self.gate.running() < self.gate.slots();
        let full = self.waiting[now].len() >= settings.queue_len_max as usize;
        match self.gate.arrive(self.now, arrival, || id) {
            Verdict::Admit(slot) => {
                assert!(free, "admitted beyond the slots");
                self.running.push((now, slot));
            }
            Verdict::Queue(ticket) => {
                assert!(!free);
                if full {
                    self.displace(now, running);
                }
                let deadline = self.now + own.unwrap_or(settings.deadline);
                let waiter = Waiter { id, ticket, deadline, running };
                let list = &mut self.waiting[now];
                let ahead = list.partition_point(|other| other.running);
                list.insert(if running { ahead } else { list.len() }, waiter);
            }
            Verdict::Reject(reason) => {
                // It would not be the next.
                let mut before = self.waiting[now].iter();
                let long = before.any(|other| other.running == running);
                let full = full && (!running || self.waiting[now].iter().all(|o| o.running));
                let infeasible = long && !full && reason == Reason::DeadlineInfeasible;
                assert!(!free && (full && reason == Reason::QueueFull || infeasible));
                self.ended += 1;
            }
        }
    }

    /// A running session's request has taken the place of the last that came without one.
    fn displace(&mut self, class: usize, running: bool) {
        assert!(running, "only a running session's request displaces another");
        let last = self.waiting[class].pop_back().expect("somebody was displaced");
        assert!(!last.running, "a running session was displaced");
        assert_eq!(self.gate.next_effect().and_then(Effect::into_wake), Some(last.id));
        assert_eq!(self.gate.claim(last.ticket), Claim::Rejected(Reason::QueueFull));
        self.used.push(last.ticket);
        self.ended += 1;
    }

    fn cancel(&mut self, which: usize) {
        let all: usize = self.waiting.iter().map(VecDeque::len).sum();
        if all == 0 {
            return;
        }
        let mut which = which % all;
        for list in &mut self.waiting {
            if which < list.len() {
                let gone = list.remove(which).expect("in range");
                self.gate.cancel(self.now, gone.ticket);
                self.used.push(gone.ticket);
                self.ended += 1;
                return;
            }
            which -= list.len();
        }
    }

    fn reconfigure(&mut self, spec: Spec) {
        let plan = Plan::build(spec, &mut self.names).expect("a valid plan");
        self.gate.reconfigure(self.now, plan);
        self.learn();
        self.settle();
    }

    /// Takes the news and checks each piece.
    fn settle(&mut self) {
        let mut woken: Vec<u32> =
            std::iter::from_fn(|| self.gate.next_effect().and_then(Effect::into_wake)).collect();
        // A class's requests are granted in their order, whatever order the wakes come in.
        let place = |id: &u32| {
            let mut ids = self.waiting.iter().flatten().map(|waiter| waiter.id);
            ids.position(|other| other == *id)
        };
        woken.sort_by_key(place);
        let mut granted = vec![0_usize; self.waiting.len()];
        for id in woken {
            let class = self
                .waiting
                .iter()
                .position(|list| list.iter().any(|waiter| waiter.id == id))
                .expect("only who waits is woken");
            let list = &mut self.waiting[class];
            let place = list.iter().position(|waiter| waiter.id == id).expect("found");
            let waiter = list.remove(place).expect("in range");
            self.used.push(waiter.ticket);
            match self.gate.claim(waiter.ticket) {
                Claim::Admitted(slot) => {
                    let earlier = list.iter().take(place);
                    assert_eq!(earlier.count(), 0, "somebody of its class had to go first");
                    assert_eq!(slot.admitted(), self.now);
                    assert!(waiter.deadline >= self.now, "admitted past its deadline");
                    granted[class] += 1;
                    self.running.push((class, slot));
                }
                Claim::Rejected(reason) => {
                    assert_eq!(reason, Reason::DeadlineExpired);
                    assert!(waiter.deadline <= self.now);
                    self.ended += 1;
                }
                Claim::Waiting => panic!("a woken request has an answer"),
            }
        }
        self.check_strictness(&granted);
    }

    /// Who was granted a slot while somebody more important waits must be below its minimum.
    fn check_strictness(&self, granted: &[usize]) {
        for (class, &count) in granted.iter().enumerate() {
            // A class that is gone is less important than any other.
            let rank =
                |class: usize| self.gate.plan().rank(ClassId(class as u16)).unwrap_or(usize::MAX);
            let mut others = self.waiting.iter().enumerate();
            let waits_above =
                others.any(|(other, list)| rank(other) < rank(class) && !list.is_empty());
            if count == 0 || !waits_above {
                continue;
            }
            let gone = rank(class) == usize::MAX;
            let minimum = if gone { 0.0 } else { self.settings[class].minimum };
            let sure = (minimum * f64::from(self.gate.slots())).ceil() as usize;
            let held = self.running.iter().filter(|(other, _)| *other == class).count();
            assert!(held <= sure, "class {class} holds {held}, is sure of {sure}");
        }
    }

    fn check(&self) {
        let waiting: usize = self.waiting.iter().map(VecDeque::len).sum();
        assert_eq!(self.gate.waiting(), waiting);
        assert_eq!(self.gate.running() as usize, self.running.len());
        assert!(waiting == 0 || self.gate.running() >= self.gate.slots());
        assert_eq!(self.arrived, self.ended + (waiting + self.running.len()) as u64);
        for class in 0..self.waiting.len() {
            let id = ClassId(class as u16);
            let (state, account) = (self.gate.state(id), &self.gate.account().classes[class]);
            let left = account.finished_total() + account.refused_total();
            let here = u64::from(state.waiting + state.requests);
            assert_eq!(account.arrived, left + account.cancelled_waiting + here);
            assert_eq!(state.waiting as usize, self.waiting[class].len());
            let running = self.running.iter().filter(|(other, _)| *other == class);
            assert_eq!(state.running as usize, running.count());
        }
        // While others wait, a class below the whole part of its minimum does not: the next slot is
        // its own. Nothing to check at a moment; `minimum` tests look at time.
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_gate_keeps_the_rules(shape in plans(), ops in ops()) {
        let mut model = Model::new(&shape);
        for op in &ops {
            model.apply(op);
        }
        // Everything ends when every slot comes back.
        while !model.running.is_empty() || model.gate.waiting() > 0 {
            model.apply(&Op::Finish(0));
            model.apply(&Op::Tick(19));
        }
        prop_assert_eq!(model.arrived, model.ended);
    }
}

/// What is turned away is what would be refused, and is counted the same.
#[test]
fn who_would_be_refused_is_turned_away_and_nobody_else() {
    let mut plan = Spec::protective();
    plan.slots = Slots::Fixed(1);
    plan.classes[0].queue_len_max = 1;
    let mut gate: Gate<()> = Gate::new(plan.build().expect("a valid plan"));
    let arrival = Arrival::of(ClassId(0));
    for arrived in 0..2 {
        assert_eq!(gate.turn_away(Moment::ZERO, arrival), None);
        assert_eq!(gate.account().classes[0].arrived, arrived, "nothing was counted");
        // The slot and the place in the backlog stay taken.
        let _verdict = gate.arrive(Moment::ZERO, arrival, || ());
    }
    assert_eq!(gate.turn_away(Moment::ZERO, arrival), Some(Reason::QueueFull));
    gate.drain();
    assert_eq!(gate.turn_away(Moment::ZERO, arrival), Some(Reason::Draining));
    let class = &gate.account().classes[0];
    assert_eq!((class.arrived, class.refused.iter().sum::<u64>()), (4, 2));
}
