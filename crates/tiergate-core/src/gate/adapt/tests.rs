use super::*;
use crate::adapt::{Adaptation, Level, Watched};
use crate::admit::inbound::Reference;
use crate::class::Class;
use crate::classify::flow::Flow;
use crate::control::Slots;
use crate::gate::{Arrival, Claim, Effect, Verdict};
use crate::names::{PoolId, ResourceId};
use crate::outcome::{End, Outcome};
use crate::plan::{Plan, ResourceSettings, Spec};
use crate::reason::Reason;
use crate::sense::{Quantity, Reading};
use proptest::prelude::*;
use std::time::Duration;

const REFERENCE: f64 = 0.58;

fn adaptation(levels: usize, refuses: bool) -> Adaptation {
    Adaptation {
        name: "pages".to_owned(),
        acts: true,
        source: "cpu".into(),
        reference: Reference::Utilization(5800),
        also: Vec::new(),
        levels: vec![Level::default(); levels],
        refuses,
        by: Flow::CLIENT,
        costs: None,
        sites: Vec::new(),
        gain_margin: Adaptation::GAIN_MARGIN,
    }
}

fn plan(adaptation: Adaptation, classes: &[&str]) -> Plan {
    let classes = classes.iter().map(|name| Class::named(*name)).collect();
    let slots = Slots::Fixed(1000);
    let spec = Spec { classes, slots, adaptations: vec![adaptation], ..Spec::protective() };
    spec.build().expect("a sound plan")
}

/// A server, and clients that come to it through a gate.
struct World {
    gate: Gate<()>,
    now: Moment,
    /// Shares of the server that a request of each class takes, by level from 0; and what others use.
    costs: Vec<Vec<f64>>,
    others: f64,
    /// The same of a link, if there is one; what others use of it, and what was used last.
    link: Option<Vec<Vec<f64>>>,
    others_of_link: f64,
    used_of_link: f64,
    /// Whether the link's sensor is silent.
    is_silent: bool,
    /// The readings, the latest last, and by how many periods they are late.
    used: Vec<f64>,
    late: usize,
}

impl World {
    fn new(plan: Plan, costs: Vec<Vec<f64>>) -> Self {
        World {
            gate: Gate::new(plan),
            now: Moment::ZERO,
            costs,
            others: 0.0,
            link: None,
            others_of_link: 0.0,
            used_of_link: 0.0,
            is_silent: false,
            used: Vec::new(),
            late: 0,
        }
    }

    fn lack(&mut self, slot: &crate::gate::Slot) {
        let adapting = &mut self.gate.common.adapting;
        adapting.gave_up(slot.adapted, false, Reason::DeadlineExpired);
    }

    /// A second, in which so many requests of each class come. Returns the share of each class's that had each level.
    fn second(&mut self, rates: &[f64], noise: f64) -> Vec<Vec<f64>> {
        let id = self.gate.plan().adaptation_ids()[0];
        const COUNT: usize = 400;
        let levels = usize::from(self.gate.plan().adaptations[0].highest()) + 1;
        let mut shares = vec![vec![0.0; levels]; rates.len()];
        let mut used = self.others;
        self.used_of_link = self.others_of_link;
        let mut slots = Vec::new();
        for (class, rate) in rates.iter().enumerate() {
            if *rate == 0.0 {
                continue;
            }
            for number in 0..COUNT {
                let client = u64::MAX / COUNT as u64 * number as u64;
                let place = ClassId(class as u16);
                let adapted = self.gate.level(id, place, client, false).expect("it is there");
                let level = usize::from(adapted.level);
                shares[class][level] += 1.0 / COUNT as f64;
                used += self.costs[class][level] * rate / COUNT as f64;
                let of_link = self.link.as_ref().map_or(0.0, |it| it[class][level]);
                self.used_of_link += of_link * rate / COUNT as f64;
                let arrival = Arrival { adapted: Some(adapted), ..Arrival::of(place) };
                match self.gate.arrive(self.now, arrival, || ()) {
                    Verdict::Admit(slot) => slots.push(slot),
                    Verdict::Reject(Reason::Level) => assert_eq!(level, 0),
                    other => panic!("{other:?}"),
                }
            }
        }
        // Beyond what it can do, only a part is answered in this second.
        let part = (1.0 / used).min(1.0 / self.used_of_link.max(0.1)).min(1.0);
        let answered = (slots.len() as f64 * part) as usize;
        for (number, slot) in slots.into_iter().enumerate() {
            let first_byte = Some(Duration::from_millis(5));
            let outcome =
                Outcome { first_byte, bytes: 1000, ..Outcome::without_answer(End::Served) };
            // The others would have waited until they were refused.
            if number >= answered {
                self.lack(&slot);
                let preempted = Outcome::without_answer(End::Preempted);
                self.gate.finish(self.now, slot, preempted);
            } else {
                self.gate.finish(self.now, slot, outcome);
            }
        }
        self.used.push(used);
        self.now = self.now + Duration::from_millis(1001);
        let seen = self.used[self.used.len().saturating_sub(1 + self.late)];
        let share = (seen.min(1.0) + noise).clamp(0.0, 1.0);
        let lasting = Duration::from_secs(3);
        let quantity = Quantity::Utilization(share);
        let reading = Reading { source: "cpu", quantity, lasting };
        self.gate.observe(self.now, reading).expect("it is possible");
        if self.link.is_some() && !self.is_silent {
            let quantity = Quantity::Utilization(self.used_of_link.min(1.0));
            let reading = Reading { source: "link", quantity, lasting };
            self.gate.observe(self.now, reading).expect("it is possible");
        }
        self.gate.tick(self.now);
        shares
    }
}

#[test]
fn a_step_to_three_times_the_load_is_brought_to_the_reference_by_refusing_a_part() {
    let mut world = World::new(plan(adaptation(1, true), &["all"]), vec![vec![0.0, 0.01]]);
    for _ in 0..10 {
        world.second(&[5.0], 0.0);
    }
    assert_eq!(world.gate.adaptations().next().map(|it| it.state), Some(Adapts::Full));
    // 300 % of the server.
    let used: Vec<f64> = (0..60)
        .map(|_| {
            world.second(&[300.0], 0.0);
            world.used[world.used.len() - 1]
        })
        .collect();
    let settled = used.iter().rposition(|used| (used - REFERENCE).abs() > 0.03);
    assert!(settled.is_none_or(|second| second < 20), "{used:?}");
    assert!(used[5..].iter().all(|used| *used > 0.3), "it does not swing below: {used:?}");
    // And back: nobody is refused any more.
    for _ in 0..30 {
        world.second(&[5.0], 0.0);
    }
    assert_eq!(world.second(&[5.0], 0.0)[0][0], 0.0);
}

#[test]
fn worse_answers_save_all_clients_from_refusals_where_they_suffice() {
    let costs = vec![0.0005, 0.002, 0.01];
    let mut world = World::new(plan(adaptation(2, true), &["all"]), vec![costs]);
    for _ in 0..60 {
        world.second(&[150.0], 0.0);
    }
    let shares = world.second(&[150.0], 0.0);
    assert_eq!(shares[0][0], 0.0, "nobody is refused: {shares:?}");
    let used = world.used[world.used.len() - 1];
    assert!((used - REFERENCE).abs() < 0.03, "{used}");
    // The model knows by now what the better answer costs more: 0.008 of the server, of which 150 a second stand for all.
    let adapter = &world.gate.common.adapting.list[0];
    let more = adapter.watches[0].model.change(&adapter.traffic.raised(1.0, 1));
    let truth = 0.008 * 150.0 / 400.0;
    assert!(more.is_known() && (more.value / truth - 1.0).abs() < 0.15, "{more:?} {truth}");
}

#[test]
fn the_important_class_keeps_its_quality_as_long_as_the_other_can_give_way() {
    let costs = vec![vec![0.0005, 0.002, 0.01]; 2];
    let mut world = World::new(plan(adaptation(2, true), &["premium", "basic"]), costs);
    for _ in 0..60 {
        world.second(&[20.0, 100.0], 0.0);
    }
    let shares = world.second(&[20.0, 100.0], 0.0);
    assert_eq!(shares[0][..2], [0.0; 2], "{shares:?}");
    assert!(shares[1][1] > 0.5 && shares[1][0] == 0.0, "{shares:?}");
}

/// A processor and a link: smaller pictures save the link, and next to nothing of the processor, for which some clients must go.
fn with_link() -> World {
    let link = Watched { source: "link".into(), reference: Reference::Utilization(8500) };
    let settings = Adaptation { also: vec![link], ..adaptation(2, true) };
    let mut world = World::new(plan(settings, &["all"]), vec![vec![0.0, 0.9e-3, 1e-3]]);
    world.link = Some(vec![vec![0.0, 0.5e-3, 4e-3]]);
    world
}

#[test]
fn of_two_resources_the_one_that_is_short_decides() {
    let mut world = with_link();
    // 400 large pictures are 160 % of the link, and 40 % of the processor.
    for _ in 0..60 {
        world.second(&[400.0], 0.0);
    }
    let shares = world.second(&[400.0], 0.0);
    assert_eq!(shares[0][0], 0.0, "nobody is refused: {shares:?}");
    assert!((world.used_of_link - 0.85).abs() < 0.04, "{}", world.used_of_link);
    let state = world.gate.adaptations().next().expect("it is there");
    assert_eq!(&*state.readings[state.short].watched.source, "link");
    // A neighbour takes half of the processor: now that is short, though the pictures stay small enough for the link.
    world.others = 0.4;
    for _ in 0..90 {
        world.second(&[400.0], 0.0);
    }
    let shares = world.second(&[400.0], 0.0);
    let used = world.used[world.used.len() - 1];
    assert!((used - REFERENCE).abs() < 0.03 && world.used_of_link < 0.85, "{used}");
    assert!(shares[0][0] > 0.3, "{shares:?}");
    let state = world.gate.adaptations().next().expect("it is there");
    assert_eq!(&*state.readings[state.short].watched.source, "cpu");
    // And back.
    world.others = 0.0;
    for _ in 0..90 {
        world.second(&[400.0], 0.0);
    }
    assert_eq!(world.second(&[400.0], 0.0)[0][0], 0.0);
    assert!((world.used_of_link - 0.85).abs() < 0.04, "{}", world.used_of_link);
}

#[test]
fn while_one_of_two_sensors_is_silent_answers_get_worse_but_not_better() {
    let mut world = with_link();
    for _ in 0..60 {
        world.second(&[400.0], 0.0);
    }
    let point = |world: &World| {
        let state = world.gate.adaptations().next().expect("it is there");
        (state.set_points[0].1, state.state)
    };
    let (before, _) = point(&world);
    world.is_silent = true;
    for _ in 0..20 {
        world.second(&[100.0], 0.0);
    }
    assert_eq!(point(&world), (before, Adapts::Blind), "there would be room");
    world.others = 0.5;
    for _ in 0..60 {
        world.second(&[400.0], 0.0);
    }
    let used = world.used[world.used.len() - 1];
    assert!((used - REFERENCE).abs() < 0.03, "the processor is protected: {used}");
    (world.is_silent, world.others) = (false, 0.0);
    for _ in 0..60 {
        world.second(&[100.0], 0.0);
    }
    assert_eq!(point(&world), (2.0, Adapts::Full));
}

#[test]
fn a_sensor_that_is_silent_leaves_the_levels_where_they_are() {
    let costs = vec![vec![0.0, 0.01]];
    let mut world = World::new(plan(adaptation(1, true), &["all"]), costs);
    for _ in 0..30 {
        world.second(&[300.0], 0.0);
    }
    let before = world.gate.adaptations().next().expect("it is there").set_points;
    world.now = world.now + Duration::from_secs(20);
    world.gate.tick(world.now);
    let state = world.gate.adaptations().next().expect("it is there");
    assert_eq!((state.state, &state.set_points), (Adapts::Blind, &before));
    world.now = world.now + Duration::from_secs(60);
    world.gate.tick(world.now);
    assert_eq!(world.gate.adaptations().next().map(|it| it.set_points), Some(before));
    for _ in 0..20 {
        world.second(&[300.0], 0.0);
    }
    let used = world.used[world.used.len() - 1];
    assert!((used - REFERENCE).abs() < 0.03, "it goes on: {used}");
}

#[test]
fn after_ten_periods_without_a_reading_refusals_become_fewer_and_quality_stays() {
    let silent = |world: &mut World, periods: u32| {
        for _ in 0..periods {
            world.now = world.now + Duration::from_millis(1001);
            world.gate.tick(world.now);
        }
        let adapter = &world.gate.common.adapting.list[0];
        (adapter.points.parts()[0].set_point, adapter.state)
    };
    let costs = vec![vec![0.0, 0.01]];
    let mut world = World::new(plan(adaptation(1, true), &["all"]), costs);
    for _ in 0..30 {
        world.second(&[300.0], 0.0);
    }
    // The last reading holds for three seconds.
    let (held, state) = silent(&mut world, 12);
    assert!(held < 0.5 && state == Adapts::Blind, "{held} {state:?}");
    let (after, _) = silent(&mut world, 1);
    assert!((after - held - 0.05).abs() < 1e-9, "{held} {after}");
    assert_eq!(silent(&mut world, 30), (1.0, Adapts::Blind), "nobody is refused any more");
    for _ in 0..20 {
        world.second(&[300.0], 0.0);
    }
    let used = world.used[world.used.len() - 1];
    assert!((used - REFERENCE).abs() < 0.03, "readings count again: {used}");

    let costs = vec![vec![0.0005, 0.002, 0.01]];
    let mut world = World::new(plan(adaptation(2, true), &["all"]), costs);
    for _ in 0..30 {
        world.second(&[150.0], 0.0);
    }
    let (held, _) = silent(&mut world, 0);
    assert!(held > 1.0 && held < 2.0, "{held}");
    assert_eq!(silent(&mut world, 60), (held, Adapts::Blind));
}

#[test]
fn of_two_sensors_one_that_is_silent_refuses_nobody_for_ever() {
    let mut world = with_link();
    for _ in 0..60 {
        world.second(&[2000.0], 0.0);
    }
    let point =
        |world: &World| world.gate.adaptations().next().expect("it is there").set_points[0].1;
    let before = point(&world);
    assert!(before < 0.9, "{before}");
    world.is_silent = true;
    for _ in 0..60 {
        world.second(&[2000.0], 0.0);
    }
    let used = world.used[world.used.len() - 1];
    assert!(used < REFERENCE + 0.1, "the processor is protected: {used}");
    for _ in 0..40 {
        world.second(&[50.0], 0.0);
    }
    assert_eq!(point(&world), 1.0);
}

#[test]
fn requests_that_wait_for_a_resource_say_nothing_of_what_is_read() {
    let class = Class { queue_len_max: 1, ..Class::named("all") };
    let (pool, slots) = (PoolId::DEFAULT, Slots::Fixed(1));
    let spec = Spec {
        classes: vec![class],
        slots: Slots::Fixed(100),
        resources: vec![ResourceSettings { name: "db".to_owned(), pool, slots }],
        adaptations: vec![adaptation(2, false)],
        ..Spec::protective()
    };
    let mut gate: Gate<()> = Gate::new(spec.build().expect("a sound plan"));
    let id = gate.plan().adaptation_ids()[0];
    let arrival = Arrival {
        adapted: gate.level(id, ClassId(0), 0, false),
        resource: Some(ResourceId(0)),
        deadline: Some(Duration::from_millis(100)),
        ..Arrival::of(ClassId(0))
    };
    let Verdict::Admit(_slot) = gate.arrive(Moment::ZERO, arrival, || ()) else { panic!("free") };
    let waits = gate.arrive(Moment::ZERO, arrival, || ());
    assert!(matches!(waits, Verdict::Queue(_)), "{waits:?}");
    for _ in 0..10 {
        let refused = gate.arrive(Moment::ZERO, arrival, || ());
        assert!(matches!(refused, Verdict::Reject(_)), "{refused:?}");
    }
    gate.tick(Moment::from_millis(500));
    assert_eq!(gate.waiting(), 0, "its deadline is over");
    assert_eq!(gate.common.adapting.list[0].traffic.demand(), 1.0);
    assert_eq!(gate.common.adapting.list[0].traffic.of_class(ClassId(0)), 12, "they came");
}

#[test]
fn without_readings_a_plan_gives_full_quality_and_a_running_session_is_not_refused() {
    let mut gate: Gate<()> = Gate::new(plan(adaptation(2, true), &["all"]));
    gate.tick(Moment::from_millis(5000));
    let id = gate.plan().adaptation_ids()[0];
    let level =
        |gate: &Gate<()>, running| gate.level(id, ClassId(0), 0, running).map(|it| it.level);
    assert_eq!(level(&gate, false), Some(2));
    let mut world = World::new(plan(adaptation(1, true), &["all"]), vec![vec![0.0, 1.0]]);
    for _ in 0..60 {
        world.second(&[300.0], 0.0);
    }
    assert_eq!(level(&world.gate, true), Some(1));
    let refused = (0..u64::MAX).step_by(1 << 58).filter(|client| {
        world.gate.level(id, ClassId(0), *client, false).is_some_and(|it| it.level == 0)
    });
    assert!(refused.count() > 55, "of 64");
}

#[test]
fn a_queue_is_kept_short_by_worse_answers() {
    let settings = Adaptation {
        source: "backlog".into(),
        reference: Reference::QueueLen(20),
        ..adaptation(2, false)
    };
    let spec = Spec { slots: Slots::Fixed(1), adaptations: vec![settings], ..Spec::protective() };
    let mut gate: Gate<usize> = Gate::new(spec.build().expect("a sound plan"));
    let id = gate.plan().adaptation_ids()[0];
    let Verdict::Admit(mut slot) = gate.arrive(Moment::ZERO, Arrival::of(ClassId(0)), || 0) else {
        panic!("free")
    };
    let mut tickets = Vec::new();
    for number in 0..100 {
        let adapted = gate.level(id, ClassId(0), (number as u64) << 57, false);
        let arrival =
            Arrival { adapted, deadline: Some(Duration::from_secs(60)), ..Arrival::of(ClassId(0)) };
        match gate.arrive(Moment::ZERO, arrival, || number) {
            Verdict::Queue(ticket) => tickets.push(ticket),
            other => panic!("{other:?}"),
        }
    }
    for second in 1..10u64 {
        // One is served in each.
        let served = Outcome::without_answer(End::Served);
        gate.finish(Moment::from_millis(1001 * second), slot, served);
        gate.tick(Moment::from_millis(1001 * second));
        let next = std::iter::from_fn(|| gate.next_effect()).find_map(Effect::into_wake);
        let Claim::Admitted(next) = gate.claim(tickets[next.expect("one is next")]) else {
            panic!("its turn")
        };
        slot = next;
    }
    let state = gate.adaptations().next().expect("it is there");
    assert!(state.set_points[0].1 < 1.5, "{:?}", state.set_points);
    let _ends = slot;
}

#[test]
fn a_queue_that_refusals_keep_short_is_no_reason_to_be_content() {
    let settings = Adaptation {
        source: "backlog".into(),
        reference: Reference::QueueLen(20),
        ..adaptation(2, false)
    };
    let class = Class { queue_len_max: 5, ..Class::named("all") };
    let slots = Slots::Fixed(2);
    let spec =
        Spec { classes: vec![class], slots, adaptations: vec![settings], ..Spec::protective() };
    let mut gate: Gate<()> = Gate::new(spec.build().expect("a sound plan"));
    let id = gate.plan().adaptation_ids()[0];
    for second in 0..12u64 {
        let now = Moment::from_millis(1001 * second);
        let mut slots = Vec::new();
        for number in 0..20u64 {
            let adapted = gate.level(id, ClassId(0), number << 59, false);
            let arrival = Arrival { adapted, ..Arrival::of(ClassId(0)) };
            if let Verdict::Admit(slot) = gate.arrive(now, arrival, || ()) {
                slots.push(slot);
            }
        }
        for slot in slots {
            gate.finish(now, slot, Outcome::without_answer(End::Served));
        }
        gate.tick(now);
    }
    let state = gate.adaptations().next().expect("it is there");
    assert!(state.readings[0].reading.is_some_and(|len| len < 20.0), "{state:?}");
    assert!(state.set_points[0].1 < 1.1, "{:?}", state.set_points);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Servers and loads of any kind: the reference is held without oscillation, though readings are noisy and up to a period
    /// late, and costs double or halve after two minutes.
    #[test]
    fn any_plant_settles(
        full in 0.002..0.05f64,
        cheaper in 1.5..20.0f64,
        refusal in 0.0..0.02f64,
        load in 1.3..6.0f64,
        others in 0.0..0.2f64,
        levels in 1usize..3,
        late in 0usize..2,
        change in prop_oneof![Just(0.5), Just(1.0), Just(2.0)],
        noise in proptest::collection::vec(-0.02..0.02f64, 240),
    ) {
        let costs = |factor: f64| {
            let all = [full * refusal, full / cheaper, full].map(|it| it * factor);
            vec![if levels == 1 { vec![all[0], all[2]] } else { all.to_vec() }]
        };
        let mut world = World::new(plan(adaptation(levels, true), &["all"]), costs(1.0));
        (world.others, world.late) = (others, late);
        let rate = load / full;
        let mut seen = Vec::new();
        for (second, noise) in noise.into_iter().enumerate() {
            if second == 120 {
                world.costs = costs(change);
            }
            world.second(&[rate], noise);
            if (90..120).contains(&second) || second >= 210 {
                seen.push(world.used[world.used.len() - 1]);
            }
        }
        // Where all at full quality is less than the reference, that is what is used.
        let bound = |factor: f64| (others + rate * full * factor).min(REFERENCE);
        for (part, factor) in [(&seen[..30], 1.0), (&seen[30..], change)] {
            let mean = part.iter().sum::<f64>() / part.len() as f64;
            prop_assert!((mean - bound(factor)).abs() < 0.04, "mean {mean}");
            let worst = part.iter().map(|it| (it - mean).abs()).fold(0.0, f64::max);
            prop_assert!(worst < 0.12, "it swings by {worst} around {mean}");
        }
    }
}
