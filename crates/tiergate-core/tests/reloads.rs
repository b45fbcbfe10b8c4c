//! Reloads under load that reorder, rename, add and remove classes and rules: those that stay get what they
//! would have got without, and nothing that was counted is lost.

#![allow(clippy::disallowed_macros, reason = "tests say what they measured")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Slot, Ticket, Verdict};
use tiergate_core::names::{Names, RuleId, RuleIdentities, RuleKey};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::{Plan, Spec};
use tiergate_core::reason::Reason;
use tiergate_core::schedule::{Policy, Site};
use tiergate_core::time::Moment;

const SLOTS: u32 = 4;
const SECONDS: u64 = 100;
/// The classes that stay, their weights, and how long their requests take by either of two rules.
const STAYING: [(&str, f64, [u64; 2]); 3] =
    [("a", 4.0, [2, 30]), ("b", 2.0, [10, 60]), ("c", 1.0, [1, 5])];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive(usize),
    Finish(u32),
    Reload(u32),
}

/// A closed loop of clients at a gate; those of classes that come and go are `STAYING.len()` and on.
struct World {
    names: Names,
    gate: Gate<u32>,
    now: Moment,
    events: BinaryHeap<Reverse<(Moment, u32, Event)>>,
    sequence: u32,
    ids: u32,
    /// Of each request: its client and how long it takes.
    requests: BTreeMap<u32, (usize, Duration)>,
    tickets: BTreeMap<u32, Ticket>,
    slots: BTreeMap<u32, Slot>,
    /// The rules of the plan in force, by class and kind.
    rules: BTreeMap<(String, usize), u32>,
    /// Slot time of each class that stays.
    held: [Duration; 3],
    arrived: BTreeMap<ClassId, u64>,
}

/// The plan after so many reloads, and where its rules stand.
fn spec(reloads: u32) -> (Spec, BTreeMap<(String, usize), u32>) {
    let mut classes: Vec<Class> = STAYING
        .iter()
        .map(|(name, weight, _)| Class { weight: *weight, ..Class::named(*name) })
        .collect();
    let changed =
        Class { deadline: Duration::from_secs(5 + u64::from(reloads % 2)), ..classes[0].clone() };
    classes[0] = changed;
    // A class is renamed by each reload, and another comes and goes.
    classes.insert(reloads as usize % 4, Class::named(format!("renamed-{}", reloads % 7)));
    if reloads % 3 == 1 {
        classes.push(Class::named("now-and-then"));
    }
    classes.rotate_left(reloads as usize % 3);
    let mut kinds: Vec<(String, usize)> =
        classes.iter().flat_map(|class| [0, 1].map(|kind| (class.name.clone(), kind))).collect();
    kinds.rotate_right(reloads as usize % 5);
    let mut identities = RuleIdentities::default();
    // With names: one without counts anew under another number.
    let rules = kinds
        .iter()
        .map(|(class, kind)| identities.next(Some(&format!("{class}-{kind}")), &(class, kind)));
    let rules = rules.collect();
    let places = kinds.into_iter().zip(0..).collect();
    let spec = Spec {
        classes,
        rules,
        slots: Slots::Fixed(SLOTS),
        sites: vec![Site { policy: Policy::Weighted, ..Site::named("site") }],
        ..Spec::protective()
    };
    (spec, places)
}

impl World {
    fn new() -> Self {
        let mut names = Names::default();
        let (spec, rules) = spec(0);
        let plan = Plan::build(spec, &mut names).expect("a valid plan");
        World {
            names,
            gate: Gate::new(plan),
            now: Moment::ZERO,
            events: BinaryHeap::new(),
            sequence: 0,
            ids: 0,
            requests: BTreeMap::new(),
            tickets: BTreeMap::new(),
            slots: BTreeMap::new(),
            rules,
            held: [Duration::ZERO; 3],
            arrived: BTreeMap::new(),
        }
    }

    /// Runs with a reload every so often; slot time of each class that stays, as parts of all theirs.
    fn run(mut self, reload_every: Option<Duration>) -> ([f64; 3], Self) {
        for client in 0..24 {
            self.at(Moment::from_millis(client as u64), Event::Arrive(client));
        }
        let mut reloads = 0;
        if let Some(every) = reload_every {
            self.at(Moment::ZERO + every, Event::Reload(1));
        }
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at >= Moment::from_millis(SECONDS * 1000) {
                break;
            }
            self.now = at;
            match event {
                Event::Arrive(client) => self.arrive(client),
                Event::Finish(id) => self.finish(id),
                Event::Reload(number) => {
                    reloads = number;
                    self.reload(number);
                    let every = reload_every.expect("it reloads");
                    self.at(at + every, Event::Reload(number + 1));
                }
            }
            self.settle();
        }
        self.check();
        let all: Duration = self.held.iter().sum();
        println!("{reloads} reloads: {:?}", self.held);
        (self.held.map(|held| held.as_secs_f64() / all.as_secs_f64()), self)
    }

    fn at(&mut self, at: Moment, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    /// Eight clients of each class that stays; their requests take turns by both rules.
    fn arrive(&mut self, client: usize) {
        let (name, _, service) = STAYING[client % 3];
        let id = self.ids;
        self.ids += 1;
        let kind = id as usize % 2;
        let class = self.names.classes.find(name).expect("it stays");
        let place = self.rules[&(name.to_owned(), kind)];
        let rule = self.gate.plan().rule_ids()[place as usize];
        let flow = client as u64 + 1;
        let arrival = Arrival { rule: Some(rule), flow, ..Arrival::of(class) };
        self.requests.insert(id, (client, Duration::from_millis(service[kind])));
        *self.arrived.entry(class).or_default() += 1;
        match self.gate.arrive(self.now, arrival, || id) {
            Verdict::Admit(slot) => self.start(id, slot),
            Verdict::Queue(ticket) => drop(self.tickets.insert(id, ticket)),
            Verdict::Reject(reason) => panic!("{reason:?}"),
        }
    }

    fn start(&mut self, id: u32, slot: Slot) {
        let (client, service) = self.requests[&id];
        self.held[client % 3] += service;
        self.slots.insert(id, slot);
        self.at(self.now + service, Event::Finish(id));
    }

    fn finish(&mut self, id: u32) {
        let slot = self.slots.remove(&id).expect("it runs");
        let (client, service) = self.requests[&id];
        let outcome = Outcome { end: End::Served, first_byte: Some(service), bytes: 0, left: None };
        self.gate.finish(self.now, slot, outcome);
        self.at(self.now + Duration::from_micros(1), Event::Arrive(client));
    }

    fn settle(&mut self) {
        while let Some(id) = self.gate.next_effect().and_then(Effect::into_wake) {
            let ticket = self.tickets.remove(&id).expect("it waits");
            match self.gate.claim(ticket) {
                Claim::Admitted(slot) => self.start(id, slot),
                other => panic!("{other:?}"),
            }
        }
    }

    fn reload(&mut self, number: u32) {
        let before: Vec<u64> = self.counted();
        let (spec, rules) = spec(number);
        let plan = Plan::build(spec, &mut self.names).expect("a valid plan");
        self.gate.reconfigure(self.now, plan);
        self.rules = rules;
        let after = self.counted();
        assert!(after.len() >= before.len(), "a counter has vanished");
        assert_eq!(&after[..before.len()], before, "a counter has jumped");
        self.check();
    }

    /// Arrivals by class id, hits by rule id; in an order that only ever grows at its end.
    fn counted(&self) -> Vec<u64> {
        let account = self.gate.account();
        let hits: u64 = account.rule_hits.values().sum();
        let arrived = account.classes.iter().map(|class| class.arrived);
        [hits, account.unmatched].into_iter().chain(arrived).collect()
    }

    /// Every request is counted once, in its own class.
    fn check(&self) {
        for (id, _) in self.gate.classes() {
            let (account, state) = (&self.gate.account().classes[id.index()], self.gate.state(id));
            assert_eq!(account.arrived, self.arrived.get(&id).copied().unwrap_or_default());
            let ended = account.finished_total() + account.refused_total();
            assert_eq!(account.arrived, ended + u64::from(state.waiting + state.requests));
        }
    }
}

#[test]
fn shares_are_the_same_with_and_without_reloads() {
    let (without, _) = World::new().run(None);
    for (part, right) in without.iter().zip([4.0 / 7.0, 2.0 / 7.0, 1.0 / 7.0]) {
        assert!((part / right - 1.0).abs() < 0.02, "{without:?} without reloads");
    }
    for millis in [7, 40, 1000] {
        let (with, world) = World::new().run(Some(Duration::from_millis(millis)));
        for (with, without) in with.iter().zip(without) {
            let off = with / without - 1.0;
            println!("every {millis} ms: {:+.2} %", off * 100.0);
            assert!(off.abs() < 0.02, "{with} with a reload every {millis} ms, {without} without");
        }
        let hits = &world.gate.account().rule_hits;
        assert_eq!(world.gate.account().unmatched, 0);
        assert_eq!(hits.values().sum::<u64>(), u64::from(world.ids));
    }
}

/// What waits in a class that is gone is served in its own queue after all others, and what is counted of
/// it stays; a name that comes back finds it again.
#[test]
fn a_class_that_is_gone_is_served_last_and_comes_back_with_what_was_counted() {
    let mut names = Names::default();
    let mut plan = |classes: &[&str]| {
        let classes = classes.iter().map(|name| Class::named(*name)).collect();
        let spec = Spec { classes, slots: Slots::Fixed(1), ..Spec::protective() };
        Plan::build(spec, &mut names).expect("a valid plan")
    };
    let (gone, stays, new) = (ClassId(0), ClassId(1), ClassId(2));
    let now = Moment::from_millis(1);
    let mut gate: Gate<&str> = Gate::new(plan(&["gone", "stays"]));
    let Verdict::Admit(slot) = gate.arrive(now, Arrival::of(gone), || "") else { panic!("free") };
    let wait = |gate: &mut Gate<&'static str>, class, wake| {
        let Verdict::Queue(ticket) = gate.arrive(now, Arrival::of(class), || wake) else {
            panic!("the slot is taken")
        };
        ticket
    };
    let first = wait(&mut gate, gone, "gone");
    gate.reconfigure(now, plan(&["new", "stays"]));
    // One that was classified before the reload.
    let late = wait(&mut gate, gone, "late");
    let second = wait(&mut gate, stays, "stays");
    let third = wait(&mut gate, new, "new");
    let state = gate.state(gone);
    assert_eq!((state.waiting, state.requests), (2, 1));
    let mut slot = Some(slot);
    for (wake, ticket) in [("new", third), ("stays", second), ("gone", first), ("late", late)] {
        gate.finish(now, slot.take().expect("held"), Outcome::without_answer(End::Served));
        assert_eq!(gate.next_effect().and_then(Effect::into_wake), Some(wake));
        let Claim::Admitted(next) = gate.claim(ticket) else { panic!("it was granted") };
        slot = Some(next);
    }
    gate.finish(now, slot.take().expect("held"), Outcome::without_answer(End::Served));
    assert_eq!(gate.account().classes[gone.index()].arrived, 3);
    assert_eq!(gate.account().classes[gone.index()].finished_total(), 3);
    let known: Vec<&str> = gate.classes().map(|(_, class)| class.name.as_str()).collect();
    assert_eq!(known, ["new", "stays", "gone"]);
    gate.reconfigure(now, plan(&["stays", "gone"]));
    assert_eq!(gate.plan().rank(gone), Some(1));
    assert_eq!(gate.account().classes[gone.index()].arrived, 3);
    let known: Vec<&str> = gate.classes().map(|(_, class)| class.name.as_str()).collect();
    assert_eq!(known, ["stays", "gone", "new"]);
}

/// A policy that is generated, and whose rules are others each time: two million rules pass.
#[test]
fn reloads_with_nothing_but_new_rules_go_on_for_ever_and_no_rule_has_anothers_hits() {
    const RULES: u64 = 1_000;
    let mut names = Names::default();
    let mut plan = |reload: u64| {
        let unnamed = (reload * RULES..(reload + 1) * RULES).map(|it| RuleKey::Conditions(it, 0));
        let rules = unnamed.chain(["named".into()]).collect();
        let spec = Spec { rules, slots: Slots::Fixed(1), ..Spec::protective() };
        Plan::build(spec, &mut names).expect("there is room")
    };
    let now = Moment::ZERO;
    let by = |rule: RuleId| Arrival { rule: Some(rule), ..Arrival::of(ClassId(0)) };
    let mut gate: Gate<()> = Gate::new(plan(0));
    let (first, named) = (gate.plan().rule_ids()[0], gate.plan().rule_ids()[RULES as usize]);
    let Verdict::Admit(slot) = gate.arrive(now, by(first), || ()) else { panic!("free") };
    let Verdict::Queue(ticket) = gate.arrive(now, by(first), || ()) else { panic!("full") };
    for reload in 1..=2_000 {
        gate.reconfigure(now, plan(reload));
        let (plan, hits) = (gate.plan(), &gate.account().rule_hits);
        assert_eq!(plan.rule_ids()[RULES as usize], named);
        assert_eq!(hits.get(named), Some(&(reload - 1)));
        for &rule in &plan.rule_ids()[..RULES as usize] {
            assert_eq!((hits.get(rule), plan.rule(rule).map(|it| it.name)), (Some(&0), Some(None)));
        }
        let places = hits.values().len() as u64;
        assert!(places <= 3 * RULES + 1, "{places} places");
        let some = gate.plan().rule_ids()[7];
        for rule in [some, named, first] {
            gate.refuse(by(rule), Reason::Rule);
        }
    }
    assert_eq!((gate.account().unmatched, gate.plan().rule(first)), (0, None));
    gate.finish(now, slot, Outcome::without_answer(End::Served));
    let Claim::Admitted(slot) = gate.claim(ticket) else { panic!("its turn") };
    gate.finish(now, slot, Outcome::without_answer(End::Served));
    assert_eq!(gate.account().classes[0].finished_total(), 2);
    // Those of the name, and one of each plan whose rules still have their places.
    assert_eq!(gate.account().rule_hits.values().sum::<u64>(), 2_000 + 3);
}
