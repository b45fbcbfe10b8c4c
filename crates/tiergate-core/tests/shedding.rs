//! Shedding: nobody below the aim, the important last, as the naive order says; and at the gate, under
//! random operations, every request in one outcome.

use proptest::prelude::*;
use std::time::Duration;
use tiergate_core::admit::importance::{Candidate, Shedding};
use tiergate_core::class::{Class, ClassId, Order};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Slot, Ticket, Verdict};
use tiergate_core::names::Names;
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::{Plan, Spec};
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;

const AIM: Duration = Duration::from_millis(100);
const PERIOD: Duration = Duration::from_millis(100);
const CLASSES: u16 = 3;

fn plan(classes: &[&str], shedding: Option<Duration>) -> Spec {
    let classes = classes.iter().map(|name| Class {
        deadline: Duration::from_secs(5),
        queue_len_max: 20,
        ..Class::named(*name)
    });
    Spec { classes: classes.collect(), slots: Slots::Fixed(4), shedding, ..Spec::protective() }
}

fn candidates() -> impl Strategy<Value = Candidate> {
    let importance = prop::option::of(prop_oneof![Just(0_u8), Just(255), any::<u8>()]);
    let requests = prop_oneof![4 => 0_u32..10, 1 => any::<u32>()];
    (importance, 0..CLASSES, requests, any::<u64>()).prop_map(
        |(importance, class, requests, connection)| Candidate {
            importance,
            rank: class.into(),
            flow: 0,
            is_within_part: false,
            ahead: u32::MAX,
            running: false,
            requests,
            connection,
        },
    )
}

/// The order in which requests are to go, as the words have it: the least first.
fn order(request: &Candidate) -> (i32, i32, i32, u64) {
    let importance = request.importance.map_or(-1, i32::from);
    let age = match request.requests {
        0 => 0,
        1 => 1,
        2..4 => 2,
        4..8 => 3,
        _ => 4,
    };
    (importance, -(request.rank as i32), age, request.connection)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whoever_is_shed_comes_before_whoever_is_not(
        requests in prop::collection::vec(candidates(), 1..200),
        periods in 1_u32..40,
        waiting in 1_u32..5000,
    ) {
        let mut shedding = Shedding::new(Moment::ZERO, AIM, &[0, 1, 2].map(ClassId));
        let mut now = Moment::ZERO;
        for _ in 0..periods {
            for request in &requests {
                shedding.is_shed(request);
            }
            (0..10).for_each(|_| shedding.finished());
            now = now + PERIOD;
            shedding.tick(now, waiting);
        }
        let (mut shed, mut kept): (Vec<_>, Vec<_>) =
            requests.iter().partition(|request| shedding.clone().is_shed(request));
        shed.sort_by_key(order);
        kept.sort_by_key(order);
        if let (Some(last), Some(first)) = (shed.last(), kept.first()) {
            prop_assert!(order(last) < order(first), "{last:?} is shed before {first:?}");
        }
        let fraction = shedding.fraction();
        prop_assert!(fraction > 0.0 || shed.is_empty());
        prop_assert!((0.0..1.0).contains(&fraction), "something always passes: {fraction}");
    }

    /// A delay at the aim or below it, however it changes, any two periods of more, and pauses in which
    /// hardly anybody comes: nobody goes.
    #[test]
    fn below_the_aim_nobody_is_shed(
        rate in 1_u32..1000,
        periods in prop::collection::vec(
            (0.0..=1.0, 1.0..3.0, prop::option::of(1_u32..100_000), 0_usize..8), 3..60),
    ) {
        let mut shedding = Shedding::new(Moment::ZERO, AIM, &[ClassId(0)]);
        let request = Candidate { importance: None, rank: 0, flow: 0, is_within_part: false,
            ahead: u32::MAX, running: false, requests: 0, connection: 0 };
        let mut now = Moment::ZERO;
        let mut moves = |finished: u32, waiting: u32| {
            (0..finished).for_each(|_| shedding.finished());
            now = now + PERIOD;
            assert_eq!(shedding.tick(now, waiting), now + PERIOD);
            (shedding.fraction(), shedding.is_shed(&request))
        };
        for (number, (below, faster, spike, pause)) in periods.into_iter().enumerate() {
            let finished = (f64::from(rate) * faster) as u32;
            // What is served in 100 ms waits 100 ms.
            let mut waiting = (f64::from(rate) * below) as u32;
            if let Some(spike) = spike.filter(|_| number % 3 != 0) {
                waiting = spike;
            }
            prop_assert_eq!(moves(finished, waiting), (0.0, false), "period {}", number);
            for _ in 0..pause * usize::from(number % 3 == 0) {
                prop_assert_eq!(moves(0, 0), (0.0, false));
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Arrive(Candidate),
    /// A request whose body is still to come asks whether it may.
    TurnAway(Candidate),
    Finish(u8),
    Cancel(u8),
    /// Milliseconds pass, and the gate is told.
    Tick(u16),
    Reload(Vec<u8>, bool),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        30 => candidates().prop_map(Op::Arrive),
        3 => candidates().prop_map(Op::TurnAway),
        3 => any::<u8>().prop_map(Op::Finish),
        1 => any::<u8>().prop_map(Op::Cancel),
        4 => (0_u16..200).prop_map(Op::Tick),
        1 => (prop::collection::vec(0_u8..4, 1..4), prop::bool::weighted(0.9))
            .prop_map(|(classes, sheds)| Op::Reload(classes, sheds)),
    ];
    prop::collection::vec(op, 1..600)
}

fn arrival(request: &Candidate, gate: &Gate<u32>) -> Arrival {
    let Candidate { importance, rank, requests, connection, .. } = *request;
    // A class of the plan, or one that may be gone.
    let class = gate.plan().class_ids().get(rank).copied().unwrap_or(ClassId(rank as u16));
    Arrival { importance, requests, connection, ..Arrival::of(class) }
}

/// Who waits and who runs, and what is counted of those who are gone.
struct World {
    names: Names,
    gate: Gate<u32>,
    now: Moment,
    waiting: Vec<Ticket>,
    running: Vec<Slot>,
    shed: u64,
}

impl World {
    fn new(plan: Spec) -> Self {
        let mut names = Names::default();
        World {
            gate: Gate::new(Plan::build(plan, &mut names).expect("a valid plan")),
            names,
            now: Moment::ZERO,
            waiting: Vec::new(),
            running: Vec::new(),
            shed: 0,
        }
    }

    fn apply(&mut self, op: Op) {
        let World { names: known, gate, now, waiting, running, shed } = self;
        match op {
            Op::Arrive(request) => {
                let arrival = arrival(&request, gate);
                let sheds = gate.shedding().is_some_and(|shedding| shedding.fraction() > 0.0);
                match gate.arrive(*now, arrival, || 0) {
                    Verdict::Admit(slot) => running.push(slot),
                    Verdict::Queue(ticket) => waiting.push(ticket),
                    Verdict::Reject(Reason::Shed) => {
                        assert!(sheds, "nobody was to be shed");
                        *shed += 1;
                    }
                    Verdict::Reject(_) => {}
                }
            }
            Op::TurnAway(request) => {
                let arrival = arrival(&request, gate);
                let came: u64 = gate.account().classes.iter().map(|class| class.arrived).sum();
                let reason = gate.turn_away(*now, arrival);
                let after: u64 = gate.account().classes.iter().map(|class| class.arrived).sum();
                assert_eq!(after - came, u64::from(reason.is_some()), "counted if refused");
                *shed += u64::from(reason == Some(Reason::Shed));
            }
            Op::Finish(which) if !running.is_empty() => {
                let slot = running.swap_remove(usize::from(which) % running.len());
                let first_byte = Some(Duration::from_millis(1));
                gate.finish(
                    *now,
                    slot,
                    Outcome { end: End::Served, first_byte, bytes: 0, left: None },
                );
            }
            Op::Cancel(which) if !waiting.is_empty() => {
                let ticket = waiting.swap_remove(usize::from(which) % waiting.len());
                gate.cancel(*now, ticket);
            }
            Op::Finish(_) | Op::Cancel(_) => {}
            Op::Tick(millis) => {
                *now = *now + Duration::from_millis(u64::from(millis));
                let next = gate.tick(*now);
                assert!(next > *now);
                assert!(gate.shedding().is_none() || next <= *now + PERIOD, "it looks around");
            }
            Op::Reload(mut classes, sheds) => {
                let before = gate.shedding().map(Shedding::fraction);
                classes.sort_unstable();
                classes.dedup();
                let names = classes.iter().map(|&class| ["a", "b", "c", "d"][usize::from(class)]);
                let names: Vec<&str> = names.collect();
                let plan = plan(&names, sheds.then_some(AIM));
                gate.reconfigure(*now, Plan::build(plan, known).expect("a valid plan"));
                let after = gate.shedding().map(Shedding::fraction);
                let expected = sheds.then(|| before.unwrap_or(0.0));
                assert_eq!(after, expected, "a reload lets nobody in");
            }
        }
        self.settle();
    }

    fn settle(&mut self) {
        while self.gate.next_effect().is_some() {}
        let World { gate, waiting, running, .. } = self;
        waiting.retain(|&ticket| match gate.claim(ticket) {
            Claim::Waiting => true,
            Claim::Admitted(slot) => {
                running.push(slot);
                false
            }
            Claim::Rejected(reason) => {
                assert_ne!(reason, Reason::Shed, "a request that waits is not shed");
                false
            }
        });
    }

    fn check(&self) {
        let (mut held, mut gone, mut arrived) = (0, 0, 0);
        for (id, _) in self.gate.classes() {
            let (class, state) = (&self.gate.account().classes[id.index()], self.gate.state(id));
            held += u64::from(state.waiting) + u64::from(state.running);
            gone += class.finished_total() + class.refused_total() + class.cancelled_waiting;
            arrived += class.arrived;
        }
        assert_eq!(held, (self.waiting.len() + self.running.len()) as u64);
        assert!(arrived <= gone + held, "every request in one outcome: {arrived}, {gone} + {held}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_request_has_one_outcome(ops in ops()) {
        let mut world = World::new(plan(&["a", "b", "c"], Some(AIM)));
        let reloads = ops.iter().any(|op| matches!(op, Op::Reload(..)));
        for op in ops {
            world.apply(op);
            world.check();
        }
        if !reloads {
            let classes = &world.gate.account().classes;
            let refused = |class: &tiergate_core::account::ClassAccount| {
                class.refused[Reason::Shed.index()]
            };
            prop_assert_eq!(classes.iter().map(refused).sum::<u64>(), world.shed);
            let sum = |count: fn(&tiergate_core::account::ClassAccount) -> u64| {
                classes.iter().map(count).sum::<u64>()
            };
            let held = (world.waiting.len() + world.running.len()) as u64;
            let gone = sum(|it| it.finished_total() + it.refused_total() + it.cancelled_waiting);
            prop_assert_eq!(sum(|it| it.arrived), gone + held);
        }
    }
}

/// Ten requests a period are served and thirty come, three of them important: nineteen in twenty-seven
/// of the others go, and the important do not notice.
#[test]
fn a_lasting_overload_sheds_what_is_too_much_and_nobody_important() {
    let mut world = World::new(plan(&["all"], Some(AIM)));
    let mut important = 0;
    let mut counts = Vec::new();
    for number in 0_u64..9_000 {
        let request = Candidate {
            importance: (number % 10 == 0).then_some(1),
            rank: 0,
            flow: 0,
            is_within_part: false,
            ahead: u32::MAX,
            running: false,
            requests: (number % 7) as u32,
            connection: number.wrapping_mul(0x9E37_79B9_7F4A_7C15),
        };
        let before = world.shed;
        world.apply(Op::Arrive(request));
        if request.importance.is_some() {
            important += world.shed - before;
        }
        if number % 3 == 2 {
            world.now = world.now + Duration::from_millis(10);
            world.apply(Op::Finish(0));
        }
        if number % 30 == 29 {
            world.apply(Op::Tick(0));
            counts.push(world.shed);
        }
    }
    world.check();
    assert_eq!(important, 0, "of 900");
    // Five seconds at a time, after the first ten: nothing is switched on and off.
    let shed: Vec<u64> = counts.chunks(50).map(|chunk| chunk[49] - chunk[0]).skip(2).collect();
    assert!(shed.iter().all(|shed| (850..1100).contains(shed)), "980 are too much: {shed:?}");
    // The overload is over: it is soon as if it had never been.
    for _ in 0..60 {
        world.now = world.now + PERIOD;
        while !world.running.is_empty() {
            world.apply(Op::Finish(0));
        }
        world.apply(Op::Tick(0));
    }
    let shedding = world.gate.shedding().expect("the plan sheds");
    assert_eq!((shedding.fraction(), shedding.overload()), (0.0, 0.0));
}

/// As much too much, in every order: where it is by deadline or by score, an arrival may be the next, and the delay stands all
/// the same.
#[test]
fn in_every_order_a_lasting_overload_is_shed() {
    for order in [Order::Fifo, Order::AdaptiveLifo, Order::Deadline, Order::Score] {
        let mut spec = plan(&["all"], Some(AIM));
        (spec.classes[0].order, spec.classes[0].queue_len_max) = (order, 1000);
        let mut world = World::new(spec);
        for number in 0_u64..3_000 {
            let connection = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let request = Candidate {
                importance: None,
                rank: 0,
                flow: 0,
                is_within_part: false,
                ahead: u32::MAX,
                running: false,
                requests: 0,
                connection,
            };
            world.apply(Op::Arrive(request));
            if number % 3 == 2 {
                world.now = world.now + Duration::from_millis(10);
                world.apply(Op::Finish(0));
            }
            if number % 30 == 29 {
                world.apply(Op::Tick(0));
            }
        }
        world.check();
        assert!((1_600..2_100).contains(&world.shed), "{order:?}: {} of 3000", world.shed);
    }
}

/// So many flows, on so many old connections in all, that ask again as soon as they are answered.
struct Greedy {
    flows: u64,
    connections: u64,
    /// How long after a refusal they ask again, and how long they hold a slot, in milliseconds.
    again: u64,
    holds: u64,
    /// How much later than the others they begin.
    begin: u64,
}

/// How many are shed of a greedy client's requests, and of 500 others' in 20 s. Eight slots, which the others hold for 50
/// ms. Of `clients`, another comes on new connections, so many at once, and 25 come a second: they alone would hardly
/// wait.
fn shed_beside(greedy: &Greedy, clients: u64, page: u64) -> (u32, u32) {
    let Greedy { flows, connections, again, holds, begin } = *greedy;
    let mut spec = plan(&["all"], Some(AIM));
    spec.slots = Slots::Fixed(8);
    spec.classes[0].queue_len_max = 1000;
    let mut gate: Gate<u64> = Gate::new(Plan::build(spec, &mut Names::default()).expect("valid"));
    let hash = |number: u64| {
        number
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29)
            .wrapping_mul(0xD6E8_FEB8_6659_FD93)
    };
    let at = |ms: u64| Moment::ZERO + Duration::from_millis(ms);
    let lasts = |number| if number < connections { holds } else { 50 };
    // By when they come or end, and number; the lowest numbers are the greedy flows' connections.
    let mut comes: Vec<(u64, u64)> = (0..connections).map(|number| (begin, number)).collect();
    let mut runs: Vec<(u64, u64, Slot)> = Vec::new();
    let mut waits: Vec<(u64, Ticket)> = Vec::new();
    let (mut shed, mut shed_of_greedy, mut next) = (0, 0, connections);
    for now in 0..20_000 {
        if now % (40 * page) == 0 {
            comes.extend((next..next + page).map(|number| (now, number)));
            next += page;
        }
        for place in (0..runs.len()).rev() {
            if runs[place].0 == now {
                let (_, number, slot) = runs.swap_remove(place);
                let first_byte = Some(Duration::from_millis(lasts(number)));
                let outcome = Outcome { end: End::Served, first_byte, bytes: 0, left: None };
                gate.finish(at(now), slot, outcome);
                if number < connections {
                    comes.push((now, number));
                }
            }
        }
        while let Some(place) = comes.iter().position(|(due, _)| *due <= now) {
            let (_, number) = comes.swap_remove(place);
            let (flow, requests) = match number < connections {
                true => (number % flows, 1000),
                false => (1000 + number / page % clients, 0),
            };
            let (flow, connection) = (hash(flow), hash(number));
            let arrival = Arrival { flow, requests, connection, ..Arrival::of(ClassId(0)) };
            match gate.arrive(at(now), arrival, || number) {
                Verdict::Admit(slot) => runs.push((now + lasts(number), number, slot)),
                Verdict::Queue(ticket) => waits.push((number, ticket)),
                Verdict::Reject(_) if number < connections => {
                    shed_of_greedy += 1;
                    comes.push((now + again, number));
                }
                Verdict::Reject(_) => shed += 1,
            }
        }
        gate.tick(at(now));
        while let Some(number) = gate.next_effect().and_then(Effect::into_wake) {
            let place = waits.iter().position(|waiter| waiter.0 == number).expect("it waits");
            match gate.claim(waits.swap_remove(place).1) {
                Claim::Admitted(slot) => runs.push((now + lasts(number), number, slot)),
                Claim::Rejected(_) if number < connections => {
                    shed_of_greedy += 1;
                    comes.push((now + again, number));
                }
                Claim::Rejected(_) => shed += 1,
                Claim::Waiting => panic!("it was woken"),
            }
        }
    }
    (shed_of_greedy, shed)
}

#[test]
fn flows_that_are_the_overload_by_themselves_are_shed_and_no_others() {
    for (flows, connections) in
        [(1, 40), (1, 200), (2, 200), (4, 200), (6, 48), (6, 200), (12, 200), (20, 200), (40, 400)]
    {
        for (again, page) in [(2, 1), (20, 1), (7, 4), (100, 4)] {
            let greedy = Greedy { flows, connections, again, holds: 50, begin: 0 };
            let (of_greedy, of_others) = shed_beside(&greedy, 40, page);
            let case =
                format!("{flows} flows on {connections}, again {again} ms later, {page} at once");
            // In the first second, while it is not known who sends much.
            let most = if flows <= 12 && page == 1 { 2 } else { 70 };
            assert!(of_others <= most, "{case}: {of_others} of 500");
            assert!(connections <= 64 || of_greedy > 500, "{case}: {of_greedy}");
        }
    }
}

/// Requests that hold a slot twenty times as long as others' are few, and are what there is too much of.
#[test]
fn flows_whose_requests_cost_much_are_shed_before_others() {
    for (flows, connections, holds, most) in
        [(1, 24, 1000, 60), (3, 24, 1000, 180), (6, 24, 400, 30), (6, 60, 2000, 360)]
    {
        for (clients, again, begin) in
            [(40, 20, 0), (10, 1000, 0), (40, 1000, 1000), (10, 20, 3000)]
        {
            let greedy = Greedy { flows, connections, again, holds, begin };
            let (_, of_others) = shed_beside(&greedy, clients, 1);
            let case =
                format!("{flows} flows on {connections}, {holds} ms each, again after {again} ms");
            assert!(of_others <= most, "{case}: {of_others} of 500");
        }
    }
}
