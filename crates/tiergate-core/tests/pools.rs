//! Several pools in one gate: each behaves as if it were alone, whatever the others do, over reloads too; policers
//! and blocks are common to all.

use proptest::prelude::*;
use std::time::Duration;
use tiergate_core::admit::bucket::Rate;
use tiergate_core::admit::policer::{self, Per, PolicerId};
use tiergate_core::admit::trigger::{Backlogs, Trigger};
use tiergate_core::class::{Class, ClassId};
use tiergate_core::classify::Match;
use tiergate_core::control::{Bounds, Slots};
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Slot, Ticket, Verdict};
use tiergate_core::names::{Names, PoolId, Route};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::{Plan, PoolSettings, Spec, Split};
use tiergate_core::reason::Reason;
use tiergate_core::schedule::{Policy, Site};
use tiergate_core::time::Moment;

const REPORTS: PoolId = PoolId(1);
const MEDIA: PoolId = PoolId(2);
/// By id.
const NAMES: [&str; 3] = ["default", "reports", "media"];

fn pool(name: &str, slots: Slots) -> PoolSettings {
    PoolSettings::named(name, slots)
}

fn served() -> Outcome {
    let first_byte = Some(Duration::from_millis(2));
    Outcome { end: End::Served, first_byte, bytes: 0, left: None }
}

/// What a reload says: the slots of each pool, `None` where a named one is gone (0: adaptive), the order of the
/// classes, and the policy of their site.
#[derive(Clone, Debug)]
struct Shape {
    slots: [Option<u32>; 3],
    rotate: usize,
    policy: u8,
    shedding: bool,
    queue_len_max: u32,
}

fn slots(number: u32) -> Slots {
    let bounds = || Bounds { slots_min: 1, slots_max: 50, slots_start: 4 };
    if number == 0 { Slots::Adaptive(bounds()) } else { Slots::Fixed(number) }
}

impl Shape {
    /// The classes, and what else is common to all pools.
    fn common(&self) -> Spec {
        let mut classes = ["a", "b", "c"].map(|name| Class {
            deadline: Duration::from_millis(60),
            minimum: if name == "c" { 0.2 } else { 0.0 },
            weight: if name == "a" { 3.0 } else { 1.0 },
            queue_len_max: 6,
            streams_max: 2,
            ..Class::named(name)
        });
        classes.rotate_left(self.rotate);
        classes[2].refuse_at = vec![Trigger { of: Backlogs::All, waiting: 9, until: 5 }];
        let policy = [Policy::Strict, Policy::Weighted, Policy::Fifo][usize::from(self.policy)];
        Spec {
            classes: classes.to_vec(),
            sites: vec![Site { policy, ..Site::named("site") }],
            shedding: self.shedding.then_some(Duration::from_millis(100)),
            queue_len_max: self.queue_len_max,
            ..Spec::protective()
        }
    }

    fn together(&self) -> Spec {
        let named = NAMES.iter().zip(&self.slots).skip(1);
        let named = named.filter_map(|(name, number)| Some(pool(name, slots((*number)?))));
        let default = self.slots[0].expect("the default pool stays");
        Spec { slots: slots(default), pools: named.collect(), ..self.common() }
    }

    /// For a gate that has one of the pools alone; `former`: its slots where it is gone.
    fn alone(&self, pool: usize, former: &Slots) -> Spec {
        let slots = self.slots[pool].map_or(former.clone(), slots);
        Spec { slots, ..self.common() }
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// Pool, class, whether of a running session, slots.
    Arrive(usize, u16, bool, u16),
    TurnAway(usize, u16),
    Finish(usize, u8),
    Stream(usize, u8),
    Cancel(usize, u8),
    /// Milliseconds pass, and the gates are told.
    Tick(u8),
    Wait(u8),
    Reload(Shape),
}

fn shapes() -> impl Strategy<Value = Shape> {
    let slots = (0_u32..6, prop::option::weighted(0.8, 0_u32..6), prop::option::of(0_u32..6));
    let slots = slots.prop_map(|(default, reports, media)| [Some(default), reports, media]);
    (slots, 0_usize..3, 0_u8..3, any::<bool>(), 3_u32..12).prop_map(
        |(slots, rotate, policy, shedding, queue_len_max)| Shape {
            slots,
            rotate,
            policy,
            shedding,
            queue_len_max,
        },
    )
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        14 => (0_usize..3, 0_u16..3, any::<bool>(), 1_u16..3)
            .prop_map(|(p, c, r, s)| Op::Arrive(p, c, r, s)),
        1 => (0_usize..3, 0_u16..3).prop_map(|(p, c)| Op::TurnAway(p, c)),
        9 => (0_usize..3, any::<u8>()).prop_map(|(p, i)| Op::Finish(p, i)),
        1 => (0_usize..3, any::<u8>()).prop_map(|(p, i)| Op::Stream(p, i)),
        2 => (0_usize..3, any::<u8>()).prop_map(|(p, i)| Op::Cancel(p, i)),
        3 => (0_u8..30).prop_map(Op::Tick),
        3 => (0_u8..5).prop_map(Op::Wait),
        1 => shapes().prop_map(Op::Reload),
    ];
    prop::collection::vec(op, 1..300)
}

/// A request's twins: in the gate with all pools, and in the gate that has its pool alone.
type Twins<T> = (T, T);

/// One pool of the gate that has all, and a gate that has this pool alone.
struct Pair {
    gate: Gate<u32>,
    slots: Slots,
    names: Names,
    waiting: Vec<Twins<Ticket>>,
    running: Vec<Twins<Slot>>,
}

struct World {
    gate: Gate<u32>,
    names: Names,
    pairs: [Pair; 3],
    now: Moment,
}

impl World {
    /// All three pools are there at first.
    fn new(shape: &Shape) -> Self {
        let shape = Shape { slots: shape.slots.map(|it| Some(it.unwrap_or(1))), ..shape.clone() };
        let plan = |spec: Spec, names: &mut Names| Plan::build(spec, names).expect("a valid plan");
        let mut names = Names::default();
        let gate = Gate::new(plan(shape.together(), &mut names));
        let pairs = [0, 1, 2].map(|pool| {
            let (mut names, slots) = (Names::default(), slots(shape.slots[pool].unwrap_or(1)));
            let gate = Gate::new(plan(shape.alone(pool, &slots), &mut names));
            Pair { gate, slots, names, waiting: Vec::new(), running: Vec::new() }
        });
        World { gate, names, pairs, now: Moment::ZERO }
    }

    fn act(&mut self, op: &Op) {
        match *op {
            Op::Arrive(pool, class, running, slots) => self.arrive(pool, class, running, slots),
            Op::TurnAway(place, class) => {
                let arrival = arrival(place, class);
                let together = self.gate.turn_away(self.now, arrival);
                let alone = Arrival { pool: PoolId::DEFAULT, ..arrival };
                assert_eq!(together, self.pairs[place].gate.turn_away(self.now, alone));
            }
            Op::Finish(place, which) => {
                if let Some((one, other)) = chosen(&mut self.pairs[place].running, which) {
                    self.gate.finish(self.now, one, served());
                    self.pairs[place].gate.finish(self.now, other, served());
                }
            }
            Op::Stream(place, which) => {
                let pair = &mut self.pairs[place];
                if let Some((one, other)) = chosen(&mut pair.running, which) {
                    let together = self.gate.stream(self.now, one, served());
                    let alone = pair.gate.stream(self.now, other, served());
                    assert_eq!(together.is_ok(), alone.is_ok());
                    // Those beyond the bound keep their slots.
                    if let (Err(one), Err(other)) = (together, alone) {
                        pair.running.push((one, other));
                    }
                }
            }
            Op::Cancel(place, which) => {
                if let Some((one, other)) = chosen(&mut self.pairs[place].waiting, which) {
                    self.gate.cancel(self.now, one);
                    self.pairs[place].gate.cancel(self.now, other);
                }
            }
            Op::Tick(millis) => {
                self.now = self.now + Duration::from_millis(millis.into());
                let due = self.pairs.iter_mut().map(|pair| pair.gate.tick(self.now)).min();
                let together = self.gate.tick(self.now);
                assert_eq!(due, Some(together));
            }
            Op::Wait(millis) => self.now = self.now + Duration::from_millis(millis.into()),
            Op::Reload(ref shape) => self.reload(shape),
        }
        self.settle();
        self.check();
    }

    fn arrive(&mut self, place: usize, class: u16, running: bool, slots: u16) {
        let pair = &mut self.pairs[place];
        let together = Arrival { running, slots, ..arrival(place, class) };
        let alone = Arrival { pool: PoolId::DEFAULT, ..together };
        let verdicts =
            (self.gate.arrive(self.now, together, || 0), pair.gate.arrive(self.now, alone, || 0));
        match verdicts {
            (Verdict::Admit(one), Verdict::Admit(other)) => pair.running.push((one, other)),
            (Verdict::Queue(one), Verdict::Queue(other)) => pair.waiting.push((one, other)),
            (Verdict::Reject(one), Verdict::Reject(other)) => {
                assert_eq!(one, other);
                let told = self.gate.refused(self.now, &together, one);
                assert_eq!(told, pair.gate.refused(self.now, &alone, other));
            }
            unlike => panic!("{unlike:?}"),
        }
    }

    fn reload(&mut self, shape: &Shape) {
        let plan = Plan::build(shape.together(), &mut self.names).expect("a valid plan");
        self.gate.reconfigure(self.now, plan);
        for (place, pair) in self.pairs.iter_mut().enumerate() {
            let plan = Plan::build(shape.alone(place, &pair.slots), &mut pair.names);
            pair.slots = shape.slots[place].map_or(pair.slots.clone(), slots);
            pair.gate.reconfigure(self.now, plan.expect("a valid plan"));
        }
    }

    /// Takes every slot that was granted, and every refusal, of both.
    fn settle(&mut self) {
        while self.gate.next_effect().is_some() {}
        for pair in &mut self.pairs {
            while pair.gate.next_effect().is_some() {}
            for (one, other) in std::mem::take(&mut pair.waiting) {
                match (self.gate.claim(one), pair.gate.claim(other)) {
                    (Claim::Waiting, Claim::Waiting) => pair.waiting.push((one, other)),
                    (Claim::Admitted(one), Claim::Admitted(other)) => {
                        assert_eq!((one.waited(), one.slots()), (other.waited(), other.slots()));
                        pair.running.push((one, other));
                    }
                    (Claim::Rejected(one), Claim::Rejected(other)) => assert_eq!(one, other),
                    unlike => panic!("{unlike:?}"),
                }
            }
        }
    }

    fn check(&self) {
        for (id, pair) in (0..).map(PoolId).zip(&self.pairs) {
            let pool = self.gate.pool(id).expect("a plan has had it");
            assert_eq!((pool.name(), pool.slots()), (NAMES[id.index()], pair.gate.slots()));
            assert_eq!((pool.running(), pool.waiting()), {
                (pair.gate.running(), pair.gate.waiting())
            });
            assert_eq!(pool.account(), pair.gate.account());
            for class in 0..3 {
                assert_eq!(pool.state(ClassId(class)), pair.gate.state(ClassId(class)));
            }
        }
    }
}

fn arrival(place: usize, class: u16) -> Arrival {
    Arrival { pool: PoolId(place as u16), flow: u64::from(class), ..Arrival::of(ClassId(class)) }
}

fn chosen<T>(of: &mut Vec<T>, which: u8) -> Option<T> {
    (!of.is_empty()).then(|| of.remove(usize::from(which) % of.len()))
}

proptest! {
    #[test]
    fn each_pool_does_what_a_gate_of_its_own_would_do(shape in shapes(), ops in ops()) {
        let mut world = World::new(&shape);
        ops.iter().for_each(|op| world.act(op));
    }
}

/// Two classes, a default pool of 50 slots and one for reports.
fn two(names: &mut Names, reports: Slots) -> Plan {
    let classes = vec![Class::named("a"), Class::named("b")];
    let pools = vec![pool("reports", reports)];
    let spec = Spec { classes, slots: Slots::Fixed(50), pools, ..Spec::protective() };
    Plan::build(spec, names).expect("a valid plan")
}

fn of(pool: PoolId, class: u16) -> Arrival {
    Arrival { pool, ..Arrival::of(ClassId(class)) }
}

#[test]
fn a_pool_that_is_full_holds_its_slots_and_delays_no_other() {
    let mut gate: Gate<u32> = Gate::new(two(&mut Names::default(), Slots::Fixed(5)));
    let mut now = Moment::ZERO;
    let (mut slots, mut tickets) = (Vec::new(), Vec::new());
    for number in 0..100 {
        match gate.arrive(now, of(REPORTS, 0), || number) {
            Verdict::Admit(slot) => slots.push(slot),
            Verdict::Queue(ticket) => tickets.push(ticket),
            Verdict::Reject(reason) => panic!("{reason:?}"),
        }
    }
    assert_eq!((slots.len(), tickets.len()), (5, 95));
    // Of a class below, too.
    let Verdict::Admit(other) = gate.arrive(now, of(PoolId::DEFAULT, 1), || 100) else {
        panic!("the default pool is idle");
    };
    // Five at a time to the end, each as soon as another has gone.
    for ticket in tickets {
        now = now + Duration::from_millis(1);
        gate.finish(now, slots.remove(0), served());
        let Claim::Admitted(slot) = gate.claim(ticket) else { panic!("its turn") };
        slots.push(slot);
        let running = gate.pool(REPORTS).map(|pool| pool.running());
        assert_eq!((running, gate.running()), (Some(5), 1));
    }
    gate.finish(now, other, served());
    assert_eq!(gate.running(), 0);
}

#[test]
fn a_policer_counts_the_requests_of_all_pools() {
    let police = policer::Settings {
        name: "p".to_owned(),
        key: None,
        rate: Rate::of_per_second(1.0),
        burst: 3,
        per: Per::Rule,
        shares: Vec::new(),
        inbound: None,
        announce: false,
    };
    let pools = vec![pool("reports", Slots::Fixed(5))];
    let spec = Spec { policers: vec![police], pools, ..Spec::protective() };
    let mut gate: Gate<u32> = Gate::new(spec.build().expect("a valid plan"));
    let policer = Some(PolicerId(0));
    let arrivals = [PoolId::DEFAULT, REPORTS, REPORTS, PoolId::DEFAULT, REPORTS];
    let verdicts = arrivals.map(|pool| {
        let arrival = Arrival { policer, ..of(pool, 0) };
        matches!(gate.arrive(Moment::ZERO, arrival, || 0), Verdict::Admit(_))
    });
    assert_eq!(verdicts, [true, true, true, false, false]);
    assert_eq!(gate.policers().next().map(|(_, state)| state.counts.passed), Some(3));
}

#[test]
fn a_pool_that_goes_serves_those_that_wait_and_is_found_again_by_its_name() {
    let mut names = Names::default();
    let adaptive = Slots::Adaptive(Bounds { slots_min: 1, slots_max: 9, slots_start: 2 });
    let mut gate: Gate<u32> = Gate::new(two(&mut names, adaptive.clone()));
    let now = Moment::ZERO;
    let admit = |gate: &mut Gate<u32>| match gate.arrive(now, of(REPORTS, 0), || 7) {
        Verdict::Admit(slot) => Ok(slot),
        Verdict::Queue(ticket) => Err(ticket),
        Verdict::Reject(reason) => panic!("{reason:?}"),
    };
    let first = admit(&mut gate).expect("a slot is free");
    let _second = admit(&mut gate).expect("a slot is free");
    let waits = admit(&mut gate).expect_err("both are taken");
    let classes = vec![Class::named("a"), Class::named("b")];
    let without = Spec { classes, slots: Slots::Fixed(50), ..Spec::protective() };
    gate.reconfigure(now, Plan::build(without, &mut names).expect("a valid plan"));
    let shown = |gate: &Gate<u32>| {
        gate.pools().map(|it| (it.name().to_owned(), it.is_planned())).collect::<Vec<_>>()
    };
    let gone = [("default".to_owned(), true), ("reports".to_owned(), false)];
    assert_eq!((shown(&gate), gate.claim(waits)), (gone.to_vec(), Claim::Waiting));
    gate.finish(now, first, served());
    assert_eq!(gate.next_effect(), Some(Effect::Wake(7)));
    let Claim::Admitted(third) = gate.claim(waits) else { panic!("its turn") };
    // One more, classified before the reload.
    let late = admit(&mut gate).expect_err("both are taken");
    // Another pool comes, and then the first again: it has its id, its slots in use and its counts.
    let media = Spec { pools: vec![pool("media", Slots::Fixed(1))], ..Spec::protective() };
    gate.reconfigure(now, Plan::build(media, &mut names).expect("a valid plan"));
    let mut said = Vec::new();
    while let Some(effect) = gate.next_effect() {
        if let Effect::SlotsChanged { pool, slots, .. } = effect {
            said.push((pool, slots));
        }
    }
    assert!(said.contains(&(MEDIA, 1)), "{said:?}");
    assert_eq!(gate.pool(MEDIA).map(|pool| (pool.name(), pool.running())), Some(("media", 0)));
    gate.reconfigure(now, two(&mut names, adaptive));
    let pool = gate.pool(REPORTS).expect("it is back");
    assert_eq!((pool.is_planned(), pool.running(), pool.waiting()), (true, 2, 1));
    assert_eq!((pool.account().classes[0].arrived, gate.account().classes[0].arrived), (4, 0));
    gate.finish(now, third, served());
    assert!(matches!(gate.claim(late), Claim::Admitted(_)));
}

#[test]
fn the_slots_of_a_pool_begin_anew_only_where_the_plan_says_otherwise() {
    let mut names = Names::default();
    let mut gate: Gate<u32> = Gate::new(two(&mut names, Slots::Fixed(5)));
    gate.reconfigure(Moment::ZERO, two(&mut names, Slots::Fixed(2)));
    let said = |gate: &mut Gate<u32>| match gate.next_effect() {
        Some(Effect::SlotsChanged { pool, slots, .. }) => Some((pool, slots)),
        _ => None,
    };
    assert_eq!((said(&mut gate), said(&mut gate)), (Some((REPORTS, 2)), None));
    assert_eq!(gate.pool(REPORTS).map(|pool| pool.slots()), Some(2));
    gate.reconfigure(Moment::ZERO, two(&mut names, Slots::Fixed(2)));
    assert_eq!(said(&mut gate), None);
}

#[test]
fn a_rules_pool_wins_over_its_classs_and_a_fallback_is_taken_if_none_is_usable() {
    let class = Class { pool: Route::Pool(REPORTS), ..Class::named("a") };
    let pools = vec![
        PoolSettings { fallback: Some(MEDIA), ..pool("reports", Slots::Fixed(1)) },
        PoolSettings { fallback: Some(PoolId::DEFAULT), ..pool("media", Slots::Fixed(1)) },
    ];
    let spec = Spec { classes: vec![class, Class::named("b")], pools, ..Spec::protective() };
    let plan = spec.build().expect("a valid plan");
    let pool_of = |class, pool: Option<PoolId>| {
        plan.pool_of(&Match { class, pool: pool.map(Route::Pool), ..Match::default() })
    };
    assert_eq!(pool_of(ClassId(0), None), REPORTS);
    assert_eq!(pool_of(ClassId(0), Some(PoolId::DEFAULT)), PoolId::DEFAULT);
    assert_eq!(pool_of(ClassId(1), None), PoolId::DEFAULT);
    assert_eq!(pool_of(ClassId(1), Some(MEDIA)), MEDIA);
    let usable = |up: &[PoolId]| plan.usable(REPORTS, |id| up.contains(&id));
    assert_eq!(usable(&[PoolId::DEFAULT, REPORTS, MEDIA]), Some(REPORTS));
    assert_eq!(usable(&[PoolId::DEFAULT, MEDIA]), Some(MEDIA));
    assert_eq!(usable(&[PoolId::DEFAULT]), Some(PoolId::DEFAULT));
    assert_eq!(usable(&[]), None);
    assert_eq!(plan.usable(PoolId::DEFAULT, |_| false), None);
}

#[test]
fn pools_that_do_not_fit_are_refused() {
    let fault = |pools: Vec<PoolSettings>, class: PoolId| {
        let classes = vec![Class { pool: Route::Pool(class), ..Class::named("a") }];
        let spec = Spec { classes, pools, ..Spec::protective() };
        spec.build().expect_err("it was made wrong").to_string()
    };
    let one = |name: &str, fallback| PoolSettings { fallback, ..pool(name, Slots::Fixed(1)) };
    let twice = vec![one("r", None), one("r", None)];
    assert_eq!(fault(twice, PoolId::DEFAULT), "two pools are called `r`");
    let default = vec![one("default", None)];
    assert_eq!(fault(default, PoolId::DEFAULT), "two pools are called `default`");
    assert_eq!(fault(Vec::new(), REPORTS), "class `a`: there is no such pool");
    let nowhere = vec![one("r", Some(MEDIA))];
    assert_eq!(fault(nowhere, PoolId::DEFAULT), "pool `r`: there is no such fallback");
    let circle = vec![one("q", Some(MEDIA)), one("r", Some(REPORTS))];
    assert_eq!(fault(circle, PoolId::DEFAULT), "pool `q`: its fallbacks lead back to it");
    let own = vec![one("q", Some(REPORTS))];
    assert_eq!(fault(own, PoolId::DEFAULT), "pool `q`: its fallbacks lead back to it");
}

#[test]
fn a_split_sends_each_flow_to_one_pool_and_a_fallback_takes_what_that_cannot_serve() {
    let mut names = Names::default();
    let mut plan = |canary: u32| {
        let pools = vec![
            PoolSettings { fallback: Some(PoolId::DEFAULT), ..pool("reports", Slots::Fixed(1)) },
            pool("media", Slots::Fixed(1)),
        ];
        let class = Class { pool: Route::Split(0), ..Class::named("a") };
        let parts = vec![(PoolId::DEFAULT, 100 - canary), (REPORTS, canary), (MEDIA, 0)];
        let splits = vec![Split { parts }];
        let spec = Spec { classes: vec![class], pools, splits, ..Spec::protective() };
        Plan::build(spec, &mut names).expect("a valid plan")
    };
    let chosen = |plan: &Plan| {
        let found = |flow| Match { class: ClassId(0), flow, ..Match::default() };
        let pools = (0..10_000_u64).map(|flow| plan.pool_of(&found(flow)));
        pools.collect::<Vec<_>>()
    };
    let [first, again, more] = [5, 5, 10].map(|canary| chosen(&plan(canary)));
    let count = |pools: &[PoolId], pool| pools.iter().filter(|it| **it == pool).count();
    assert!((400..600).contains(&count(&first, REPORTS)));
    assert_eq!(count(&first, MEDIA), 0);
    assert_eq!(first, again, "a reload moves no flow");
    let moved = first.iter().zip(&more).filter(|(before, after)| before != after).count();
    assert!((400..600).contains(&moved), "{moved}");
    assert_eq!(count(&more, REPORTS), count(&first, REPORTS) + moved);
    let is_usable = |pool| pool != REPORTS;
    assert_eq!(plan(5).usable(REPORTS, is_usable), Some(PoolId::DEFAULT));
    // A rule's pool wins over its class's split.
    let rule = Match { class: ClassId(0), pool: Some(Route::Pool(MEDIA)), ..Match::default() };
    assert_eq!(plan(5).pool_of(&rule), MEDIA);
}

#[test]
fn splits_that_do_not_fit_are_refused() {
    let fault = |parts: Vec<(PoolId, u32)>, split: u16| {
        let classes = vec![Class { pool: Route::Split(split), ..Class::named("a") }];
        let spec = Spec { classes, splits: vec![Split { parts }], ..Spec::protective() };
        spec.build().expect_err("it was made wrong").to_string()
    };
    let default = (PoolId::DEFAULT, 1);
    assert_eq!(fault(vec![], 0), "a split must have 1 to 16 pools");
    assert_eq!(fault(vec![(PoolId::DEFAULT, 0)], 0), "one weight of a split must be more than 0");
    assert_eq!(fault(vec![default, default], 0), "a split must name each pool once");
    assert_eq!(fault(vec![default, (MEDIA, 1)], 0), "a split names a pool that does not exist");
    assert_eq!(fault(vec![default], 1), "class `a`: there is no such pool");
}

#[test]
fn what_is_refused_for_a_pool_that_is_full_is_refused_for_that_pool_alone() {
    let pools = vec![pool("reports", Slots::Fixed(1))];
    let spec = Spec { queue_len_max: 2, pools, slots: Slots::Fixed(1), ..Spec::protective() };
    let mut gate: Gate<u32> = Gate::new(spec.build().expect("a valid plan"));
    let mut kinds = |pool| {
        [(); 4].map(|()| match gate.arrive(Moment::ZERO, of(pool, 0), || 0) {
            Verdict::Admit(_) => "admitted",
            Verdict::Queue(_) => "queued",
            Verdict::Reject(Reason::QueueFull) => "full",
            Verdict::Reject(reason) => panic!("{reason:?}"),
        })
    };
    let expected = ["admitted", "queued", "queued", "full"];
    assert_eq!((kinds(REPORTS), kinds(PoolId::DEFAULT)), (expected, expected));
}

#[test]
fn the_limit_that_a_pool_has_found_survives_reloads() {
    let mut names = Names::default();
    let adaptive = || Slots::Adaptive(Bounds { slots_min: 1, slots_max: 40, slots_start: 2 });
    let mut gate: Gate<u32> = Gate::new(two(&mut names, adaptive()));
    let mut now = Moment::ZERO;
    let (mut running, mut waiting) = (Vec::new(), Vec::new());
    // Requests take as long however many there are: the limit grows.
    for _ in 0..2_000 {
        while waiting.len() < 50 {
            match gate.arrive(now, of(REPORTS, 0), || 0) {
                Verdict::Admit(slot) => running.push(slot),
                Verdict::Queue(ticket) => waiting.push(ticket),
                Verdict::Reject(_) => break,
            }
        }
        now = now + Duration::from_millis(10);
        running.drain(..).for_each(|slot| gate.finish(now, slot, served()));
        gate.tick(now);
        while gate.next_effect().is_some() {}
        waiting.retain(|ticket| match gate.claim(*ticket) {
            Claim::Waiting => true,
            Claim::Admitted(slot) => {
                running.push(slot);
                false
            }
            Claim::Rejected(_) => false,
        });
    }
    let found = gate.pool(REPORTS).map(|pool| pool.slots());
    assert!(found > Some(10), "{found:?}");
    // Also where it was away for a while.
    for plan in [two(&mut names, adaptive()), Spec::protective().build().expect("a valid plan")] {
        gate.reconfigure(now, plan);
    }
    gate.reconfigure(now, two(&mut names, adaptive()));
    assert_eq!(gate.pool(REPORTS).map(|pool| pool.slots()), found);
}
