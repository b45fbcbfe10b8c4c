//! Resources: a request that needs one gets a slot of it and one of the pool at the same moment, in its class's order, and who waits
//! for one stands in nobody else's way.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;
use tiergate_core::admit::trigger::{Backlogs, Trigger};
use tiergate_core::class::{Class, ClassId};
use tiergate_core::classify::Match;
use tiergate_core::control::{Bounds, Quantile, ServiceTarget, Slots};
use tiergate_core::gate::{
    Arrival, Claim, Effect, Gate, Lends, ResourceState, Slot, Ticket, Verdict,
};
use tiergate_core::names::{Names, PoolId, ResourceId};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::{Plan, PoolSettings, ResourceSettings, Spec};
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;

const DB: ResourceId = ResourceId(0);
const SEARCH: ResourceId = ResourceId(1);
const PREMIUM: ClassId = ClassId(0);
const BASIC: ClassId = ClassId(1);

fn at(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

fn served() -> Outcome {
    Outcome::without_answer(End::Served)
}

fn resource(name: &str, slots: u32) -> ResourceSettings {
    ResourceSettings { name: name.into(), pool: PoolId::DEFAULT, slots: Slots::Fixed(slots) }
}

/// Premium and basic, which wait for as long as it takes, in order of arrival.
fn spec(slots: u32, resources: Vec<ResourceSettings>) -> Spec {
    let class = |name: &str| Class {
        deadline: Duration::from_secs(36_000),
        patience: false,
        fair: false,
        ..Class::named(name)
    };
    let classes = ["premium", "basic"].map(class).to_vec();
    Spec { classes, slots: Slots::Fixed(slots), resources, ..Spec::protective() }
}

fn gate(slots: u32, db: u32) -> Gate<()> {
    Gate::new(spec(slots, vec![resource("db", db)]).build().expect("a valid plan"))
}

fn needing(class: ClassId, resource: Option<ResourceId>) -> Arrival {
    Arrival { resource, ..Arrival::of(class) }
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

fn state(gate: &Gate<()>, id: ResourceId) -> ResourceState<'_> {
    let pool = gate.pool(PoolId::DEFAULT).expect("there is one");
    pool.resources().find(|it| it.id == id).expect("there is such a resource")
}

#[test]
fn a_thousand_that_wait_for_a_resource_delay_nobody_else() {
    let mut gate = gate(10, 4);
    let mut arrive = |class, resource| gate.arrive(at(0), needing(class, resource), || ());
    let running: Vec<Slot> = (0..4).map(|_| admitted(arrive(PREMIUM, Some(DB)))).collect();
    let waiting: Vec<Ticket> = (0..1000).map(|_| queued(arrive(PREMIUM, Some(DB)))).collect();
    // The less important get every slot that the more important cannot use, at once.
    let mut others: Vec<Slot> = (0..6).map(|_| admitted(arrive(BASIC, None))).collect();
    let next = queued(arrive(BASIC, None));
    assert_eq!((gate.running(), gate.waiting()), (10, 1001));
    assert_eq!((state(&gate, DB).running, state(&gate, DB).waiting), (4, 1000));
    assert_eq!(gate.state(PREMIUM).held_up, 1000);
    gate.finish(at(1), others.pop().expect("six"), served());
    assert!(matches!(gate.claim(next), Claim::Admitted(_)), "one that needs nothing else");
    // A slot of the resource, with which one of the pool comes free: the first that waits has both.
    for (slot, ticket) in running.into_iter().zip(&waiting) {
        gate.finish(at(2), slot, served());
        assert!(matches!(gate.claim(*ticket), Claim::Admitted(_)));
    }
    assert_eq!((gate.running(), state(&gate, DB).running), (10, 4));
}

#[test]
fn what_waits_for_a_resource_is_served_by_importance_and_none_of_its_slots_is_idle() {
    let mut gate = gate(3, 2);
    let mut arrive = |class, resource| gate.arrive(at(0), needing(class, resource), || ());
    let [one, other] = [(); 2].map(|()| admitted(arrive(BASIC, Some(DB))));
    let plain = admitted(arrive(BASIC, None));
    let basic = queued(arrive(BASIC, Some(DB)));
    let premium = queued(arrive(PREMIUM, Some(DB)));
    let late = queued(arrive(BASIC, None));
    // The pool's slot goes to who can use it.
    gate.finish(at(1), plain, served());
    assert!(matches!(gate.claim(premium), Claim::Waiting));
    let Claim::Admitted(plain) = gate.claim(late) else { panic!("it can") };
    gate.finish(at(2), one, served());
    assert!(matches!(gate.claim(premium), Claim::Admitted(_)));
    assert!(matches!(gate.claim(basic), Claim::Waiting));
    // A client leaves that was granted both, and does not know: both go on.
    gate.finish(at(3), other, served());
    gate.cancel(at(3), basic);
    assert_eq!((gate.running(), state(&gate, DB).running), (2, 1));
    gate.finish(at(3), plain, served());
}

#[test]
fn how_slowly_a_resource_is_served_has_no_other_request_refused() {
    let class = Class { deadline: Duration::from_secs(1), ..Class::named("all") };
    let resources = vec![resource("db", 1)];
    let spec =
        Spec { classes: vec![class], slots: Slots::Fixed(50), resources, ..Spec::protective() };
    let mut gate: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
    let (mut running, mut waiting, mut refused) = (Vec::new(), Vec::new(), [0, 0]);
    for ms in (0..30_000).step_by(10) {
        // The database takes half a second, all else no time to speak of.
        waiting.retain(|(place, ticket)| match gate.claim(*ticket) {
            Claim::Admitted(slot) => {
                running.push((ms + [500, 20][*place], Some(slot)));
                false
            }
            Claim::Waiting => true,
            Claim::Rejected(_) => false,
        });
        running.retain_mut(|it: &mut (u64, Option<Slot>)| {
            let ends = it.0 <= ms;
            if ends {
                gate.finish(at(ms), it.1.take().expect("once"), served());
            }
            !ends
        });
        gate.tick(at(ms));
        while gate.next_effect().is_some() {}
        for (place, needs) in [Some(DB), None].into_iter().enumerate() {
            match gate.arrive(at(ms), needing(PREMIUM, needs), || ()) {
                Verdict::Admit(slot) => running.push((ms + [500, 20][place], Some(slot))),
                Verdict::Queue(ticket) => waiting.push((place, ticket)),
                Verdict::Reject(reason) => {
                    assert!(place == 0, "{reason:?}");
                    refused[place] += 1;
                }
            }
        }
    }
    assert!(refused[0] > 2_000 && refused[1] == 0, "{refused:?}");
}

#[test]
fn refusals_for_want_of_a_resource_are_its_own() {
    // By the class's bound, and by that of all.
    for (of_class, of_all) in [(2, u32::MAX), (u32::MAX, 2)] {
        let class = Class { queue_len_max: of_class, ..Class::named("all") };
        let (classes, resources) = (vec![class], vec![resource("db", 1)]);
        let slots = Slots::Fixed(2);
        let spec = Spec { classes, slots, resources, queue_len_max: of_all, ..Spec::protective() };
        full_by_itself(&mut Gate::new(spec.build().expect("a valid plan")));
    }
}

fn full_by_itself(gate: &mut Gate<()>) {
    let mut kinds = |needs| {
        [(); 5].map(|()| match gate.arrive(at(0), needing(PREMIUM, needs), || ()) {
            Verdict::Admit(_) => "admitted",
            Verdict::Queue(_) => "queued",
            Verdict::Reject(Reason::QueueFull) => "full",
            Verdict::Reject(reason) => panic!("{reason:?}"),
        })
    };
    let expected = ["admitted", "queued", "queued", "full", "full"];
    assert_eq!(kinds(Some(DB)), expected);
    assert_eq!(kinds(None), expected, "it has places of its own");
}

#[test]
fn flows_take_turns_whatever_they_need() {
    let class = Class { fair: true, ..spec(1, Vec::new()).classes[0].clone() };
    let spec = Spec { classes: vec![class], ..spec(1, vec![resource("db", 9)]) };
    let mut gate: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
    let mut arrive =
        |flow, needs| gate.arrive(at(0), Arrival { flow, ..needing(PREMIUM, needs) }, || ());
    let mut slot = admitted(arrive(1, None));
    // One flow has a hundred that need the database; three have ten each that do not.
    let mut tickets: Vec<(u64, Ticket)> =
        (0..100).map(|_| (1, queued(arrive(1, Some(DB))))).collect();
    for flow in 2..5 {
        tickets.extend((0..10).map(|_| (flow, queued(arrive(flow, None)))));
    }
    let mut served_of: BTreeMap<u64, u32> = BTreeMap::new();
    for turn in 0..40 {
        gate.finish(at(turn), slot, served());
        while gate.next_effect().is_some() {}
        let mut granted = None;
        tickets.retain(|(flow, ticket)| match gate.claim(*ticket) {
            Claim::Admitted(slot) => {
                granted = Some(slot);
                *served_of.entry(*flow).or_default() += 1;
                false
            }
            _ => true,
        });
        slot = granted.expect("somebody waits");
    }
    let counts: Vec<u32> = served_of.into_values().collect();
    assert!(counts.iter().all(|count| (9..=11).contains(count)), "{counts:?}");
    gate.finish(at(99), slot, served());
}

#[test]
fn a_resource_that_is_gone_bounds_nothing_and_one_that_comes_back_knows_who_has_its_slots() {
    let mut names = Names::default();
    let mut plan = |resources| Plan::build(spec(10, resources), &mut names).expect("a valid plan");
    let mut gate: Gate<()> = Gate::new(plan(vec![resource("db", 1)]));
    let arrive = |gate: &mut Gate<()>| gate.arrive(at(0), needing(BASIC, Some(DB)), || ());
    let slot = admitted(arrive(&mut gate));
    let tickets = [(); 3].map(|()| queued(arrive(&mut gate)));
    gate.reconfigure(at(1), plan(vec![resource("db", 2)]));
    assert_eq!((state(&gate, DB).running, state(&gate, DB).waiting), (2, 2));
    gate.reconfigure(at(2), plan(vec![]));
    assert_eq!((gate.running(), gate.waiting()), (4, 0));
    let more = admitted(arrive(&mut gate));
    gate.reconfigure(at(3), plan(vec![resource("search", 1), resource("db", 3)]));
    assert_eq!((state(&gate, DB).running, state(&gate, SEARCH).running), (5, 0));
    let next = queued(arrive(&mut gate));
    for ticket in tickets {
        let Claim::Admitted(slot) = gate.claim(ticket) else { panic!("it was granted one") };
        gate.finish(at(4), slot, served());
    }
    let Claim::Admitted(next) = gate.claim(next) else { panic!("two of three are in use") };
    [slot, more, next].into_iter().for_each(|slot| gate.finish(at(5), slot, served()));
    assert_eq!((gate.running(), state(&gate, DB).running), (0, 0));
}

#[test]
fn only_requests_of_its_pool_need_it() {
    let mut names = Names::default();
    let pools = vec![PoolSettings::named("other", Slots::Fixed(9))];
    let classes = vec![Class { resource: Some(DB), ..spec(9, Vec::new()).classes[0].clone() }];
    let resources = vec![resource("db", 1), resource("search", 2)];
    let spec = Spec { pools, classes, ..spec(9, resources) };
    let plan = Plan::build(spec, &mut names).expect("a valid plan");
    let found = Match { class: PREMIUM, ..Match::default() };
    assert_eq!(plan.resource_of(&found), Some(DB), "as its class says");
    let by_rule = Match { resource: Some(SEARCH), ..found };
    assert_eq!(plan.resource_of(&by_rule), Some(SEARCH));
    let nothing = Match { resource: Some(ResourceId::NONE), ..by_rule };
    assert_eq!(plan.resource_of(&nothing), None);
    let mut gate: Gate<()> = Gate::new(plan);
    for _ in 0..9 {
        let arrival = Arrival { pool: PoolId(1), ..needing(PREMIUM, Some(DB)) };
        let _slot = admitted(gate.arrive(at(0), arrival, || ()));
    }
}

#[test]
fn resources_that_do_not_fit_are_refused() {
    let fault = |spec: Spec| spec.build().expect_err("it was made wrong").to_string();
    assert_eq!(
        fault(spec(1, vec![resource("db", 1), resource("db", 2)])),
        "two resources are called `db`"
    );
    let nowhere = ResourceSettings { pool: PoolId(3), ..resource("db", 1) };
    assert_eq!(fault(spec(1, vec![nowhere])), "resource `db`: there is no such pool");
    let mut without = spec(1, vec![]);
    without.classes[1].resource = Some(DB);
    assert_eq!(fault(without), "class `basic`: there is no such resource");
    let many = (0..17).map(|number| resource(&number.to_string(), 1)).collect();
    assert_eq!(fault(spec(1, many)), "a plan has 0 to 16 resources, got 17");
}

#[test]
fn an_adaptive_resource_is_found_and_said_and_lends_what_a_given_one_does_not() {
    let bounds = || Bounds { slots_min: 1, slots_max: 40, slots_start: 2 };
    let adaptive = ResourceSettings { slots: Slots::Adaptive(bounds()), ..resource("db", 1) };
    let resources = vec![adaptive, resource("search", 1)];
    let spec = Spec { slots: Slots::Adaptive(bounds()), ..spec(1, resources) };
    let mut gate: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
    let said = gate.next_effect();
    assert!(
        matches!(said, Some(Effect::SlotsChanged { resource: Some(DB), slots: 2, .. })),
        "{said:?}"
    );
    while gate.next_effect().is_some() {}
    let mut fixed = admitted(gate.arrive(at(0), needing(BASIC, Some(SEARCH)), || ()));
    assert!(!gate.lend(at(0), &mut fixed, Lends::Waits, &served()));
    gate.finish(at(0), fixed, served());
    // Uploads lend both slots; each waits for both before its end is sent, which cannot be a circle.
    let mut lent = Vec::new();
    for _ in 0..4 {
        let mut slot = admitted(gate.arrive(at(0), needing(BASIC, Some(DB)), || ()));
        assert!(gate.lend(at(0), &mut slot, Lends::Waits, &served()));
        lent.push(slot);
    }
    assert_eq!((gate.running(), state(&gate, DB).running), (0, 0));
    let mut back = Vec::new();
    for slot in &mut lent {
        let verdict = gate.comes_back(at(1), slot, &needing(BASIC, Some(DB)), || ());
        back.push(verdict.expect("it is lent"));
    }
    assert_eq!(state(&gate, DB).running, 2);
    for (former, verdict) in lent.into_iter().zip(back) {
        let slot = match verdict {
            Verdict::Admit(slot) => slot,
            Verdict::Queue(ticket) => match gate.claim(ticket) {
                Claim::Admitted(slot) => slot,
                claim => panic!("{claim:?}"),
            },
            Verdict::Reject(reason) => panic!("{reason:?}"),
        };
        gate.give_up(at(1), former);
        gate.finish(at(2), slot, served());
    }
    assert_eq!((gate.running(), state(&gate, DB).running), (0, 0));
}

#[test]
fn servers_that_are_replaced_hold_no_slot_of_a_resource() {
    let mut gate = gate(4, 2);
    let mut arrive = || gate.arrive(at(0), needing(BASIC, Some(DB)), || ());
    let [mut one, other] = [(); 2].map(|()| admitted(arrive()));
    let waits = queued(arrive());
    gate.moved(at(1), PoolId::DEFAULT);
    let Claim::Admitted(slot) = gate.claim(waits) else { panic!("both slots are free") };
    assert_eq!((gate.running(), state(&gate, DB).running), (1, 1));
    gate.goes_to(at(2), &mut one);
    assert_eq!((gate.running(), state(&gate, DB).running), (2, 2));
    [slot, one, other].into_iter().for_each(|slot| gate.finish(at(3), slot, served()));
    assert_eq!((gate.running(), state(&gate, DB).running), (0, 0));
}

/// A request in the naive gate.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Request {
    class: usize,
    running: bool,
    needs: Option<usize>,
    slots: u16,
}

#[derive(Clone, Debug)]
enum Op {
    Arrive(Request),
    Finish(u8),
    Cancel(u8),
    /// Slots of the pool and of the two resources; `None`: it is gone.
    Reload(u32, [Option<u32>; 2]),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let needs = prop::option::weighted(0.7, 0_usize..2);
    let request = (0_usize..2, any::<bool>(), needs, 1_u16..3)
        .prop_map(|(class, running, needs, slots)| Request { class, running, needs, slots });
    let resource = || prop::option::weighted(0.8, 1_u32..4);
    let op = prop_oneof![
        12 => request.prop_map(Op::Arrive),
        9 => any::<u8>().prop_map(Op::Finish),
        2 => any::<u8>().prop_map(Op::Cancel),
        1 => (1_u32..7, [resource(), resource()]).prop_map(|(slots, of)| Op::Reload(slots, of)),
    ];
    prop::collection::vec(op, 1..200)
}

/// What the gate is to do, by looking at everything each time.
#[derive(Default)]
struct Naive {
    slots: u32,
    resources: [Option<u32>; 2],
    waiting: Vec<(u64, Request)>,
    running: Vec<(u64, Request)>,
}

impl Naive {
    fn is_free(&self, needs: Option<usize>) -> bool {
        let Some(needs) = needs else { return true };
        let used = self.running.iter().filter(|(_, it)| it.needs == Some(needs)).count() as u32;
        self.resources[needs].is_none_or(|slots| used < slots)
    }

    fn used(&self) -> u32 {
        self.running.iter().map(|(_, it)| u32::from(it.slots)).sum()
    }

    fn dispatch(&mut self) {
        while self.used() < self.slots {
            let able =
                self.waiting.iter().enumerate().filter(|(_, (_, it))| self.is_free(it.needs));
            let next = able.min_by_key(|(_, (id, it))| (it.class, !it.running, *id));
            let Some((place, (_, next))) = next else { return };
            let used = self.used();
            if used > 0 && used + u32::from(next.slots) > self.slots {
                return;
            }
            let granted = self.waiting.remove(place);
            self.running.push(granted);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn it_grants_what_a_naive_gate_would(ops in ops()) {
        let mut names = Names::default();
        let mut plan = |slots: u32, of: [Option<u32>; 2]| {
            let resources = ["db", "search"].iter().zip(of);
            let resources = resources.filter_map(|(name, slots)| Some(resource(name, slots?)));
            Plan::build(spec(slots, resources.collect()), &mut names).expect("a valid plan")
        };
        let mut gate: Gate<()> = Gate::new(plan(3, [Some(2), Some(1)]));
        let mut naive = Naive { slots: 3, resources: [Some(2), Some(1)], ..Naive::default() };
        let (mut tickets, mut slots) = (BTreeMap::new(), BTreeMap::new());
        for (id, op) in (0_u64..).zip(&ops) {
            match op {
                Op::Arrive(request) => {
                    let arrival = Arrival {
                        running: request.running,
                        slots: request.slots,
                        ..needing(
                            ClassId(request.class as u16),
                            request.needs.map(|place| ResourceId(place as u16)),
                        )
                    };
                    naive.waiting.push((id, *request));
                    match gate.arrive(at(0), arrival, || ()) {
                        Verdict::Admit(slot) => drop(slots.insert(id, slot)),
                        Verdict::Queue(ticket) => drop(tickets.insert(id, ticket)),
                        Verdict::Reject(reason) => panic!("{reason:?}"),
                    }
                }
                Op::Finish(place) if !slots.is_empty() => {
                    let place = usize::from(*place) % slots.len();
                    let id = *slots.keys().nth(place).expect("it is one of them");
                    gate.finish(at(0), slots.remove(&id).expect("it runs"), served());
                    naive.running.retain(|(of, _)| *of != id);
                }
                Op::Cancel(place) if !tickets.is_empty() => {
                    let place = usize::from(*place) % tickets.len();
                    let id = *tickets.keys().nth(place).expect("it is one of them");
                    gate.cancel(at(0), tickets.remove(&id).expect("it waits"));
                    naive.waiting.retain(|(of, _)| *of != id);
                }
                Op::Reload(slots, of) => {
                    gate.reconfigure(at(0), plan(*slots, *of));
                    (naive.slots, naive.resources) = (*slots, *of);
                }
                Op::Finish(_) | Op::Cancel(_) => {}
            }
            naive.dispatch();
            while gate.next_effect().is_some() {}
            tickets.retain(|id, ticket| match gate.claim(*ticket) {
                Claim::Admitted(slot) => {
                    slots.insert(*id, slot);
                    false
                }
                Claim::Waiting => true,
                Claim::Rejected(reason) => panic!("{reason:?}"),
            });
            let mut running: Vec<u64> = naive.running.iter().map(|(id, _)| *id).collect();
            running.sort_unstable();
            prop_assert_eq!(slots.keys().copied().collect::<Vec<_>>(), running);
            let pool = gate.pool(PoolId::DEFAULT).expect("there is one");
            for state in pool.resources() {
                let needs = |(_, it): &&(u64, Request)| it.needs == Some(state.id.index());
                prop_assert_eq!(state.running as usize, naive.running.iter().filter(needs).count());
                prop_assert_eq!(state.waiting as usize, naive.waiting.iter().filter(needs).count());
            }
        }
        slots.into_values().for_each(|slot| gate.finish(at(0), slot, served()));
    }
}

/// Two of three slots of the resource are held by clients that are slow, and the share is a quarter.
#[test]
fn slow_clients_keep_no_more_of_a_resource_than_their_share_while_others_wait() {
    let spec = spec(20, vec![resource("db", 4)]);
    let mut gate: Gate<u32> = Gate::new(spec.build().expect("a valid plan"));
    let mut slots: Vec<Slot> =
        (0..4).map(|_| admitted(gate.arrive(at(0), needing(BASIC, Some(DB)), || 0))).collect();
    for (number, slot) in (1..).zip(&mut slots[..3]) {
        gate.slows(at(1), slot, number);
    }
    while let Some(effect) = gate.next_effect() {
        assert!(matches!(effect, Effect::SlotsChanged { .. }), "nobody waits");
    }
    let _other = admitted(gate.arrive(at(2), needing(PREMIUM, None), || 0));
    assert_eq!(gate.next_effect(), None);
    let _first = queued(gate.arrive(at(3), needing(PREMIUM, Some(DB)), || 10));
    assert_eq!(gate.next_effect(), Some(Effect::Wake(1)), "the one that is slow for longest");
    assert_eq!(gate.next_effect(), None, "one waits");
    let _second = queued(gate.arrive(at(4), needing(PREMIUM, Some(DB)), || 11));
    let _third = queued(gate.arrive(at(4), needing(PREMIUM, Some(DB)), || 12));
    assert_eq!(gate.next_effect(), Some(Effect::Wake(2)));
    assert_eq!(gate.next_effect(), None, "one of four may stay");
    assert!(gate.is_to_end(&slots[0]) && gate.is_to_end(&slots[1]) && !gate.is_to_end(&slots[2]));
}

#[test]
fn importance_counts_where_all_places_beside_a_resource_are_taken() {
    let spec = Spec { queue_len_max: 3, ..spec(9, vec![resource("db", 1)]) };
    let mut gate: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
    let mut arrive = |class| gate.arrive(at(0), needing(class, Some(DB)), || ());
    let _slot = admitted(arrive(BASIC));
    let basic = [(); 3].map(|()| queued(arrive(BASIC)));
    assert_eq!(arrive(BASIC), Verdict::Reject(Reason::QueueFull));
    let _premium = queued(arrive(PREMIUM));
    assert_eq!(gate.claim(basic[2]), Claim::Rejected(Reason::QueueFull), "the newest");
}

#[test]
fn triggers_do_not_count_what_waits_for_a_resource() {
    let mut spec = spec(2, vec![resource("db", 1)]);
    spec.classes[1].refuse_at = vec![Trigger { of: Backlogs::All, waiting: 2, until: 1 }];
    let mut gate: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
    let mut arrive = |class, needs| gate.arrive(at(0), needing(class, needs), || ());
    let held = admitted(arrive(PREMIUM, Some(DB)));
    let _waiting = [(); 9].map(|()| queued(arrive(PREMIUM, Some(DB))));
    let _slot = admitted(arrive(BASIC, None));
    let _queued = [(); 2].map(|()| queued(arrive(BASIC, None)));
    assert_eq!(arrive(BASIC, None), Verdict::Reject(Reason::BacklogTrigger), "two wait");
    // Also not when it may have a slot for a moment.
    gate.finish(at(1), held, served());
    assert_eq!((gate.waiting(), state(&gate, DB).waiting), (10, 8));
}

#[test]
fn a_service_target_of_requests_that_need_a_resource_is_told() {
    let target = ServiceTarget { time: Duration::from_millis(50), quantile: Quantile::P90 };
    let bounds = Bounds { slots_min: 1, slots_max: 40, slots_start: 8 };
    let slots = Slots::Adaptive(bounds);
    let settings = ResourceSettings { slots: slots.clone(), ..resource("db", 1) };
    let mut spec = Spec { slots, ..spec(1, vec![settings]) };
    spec.classes[0].service_target = Some(target);
    let mut gate: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
    // However few there are, each takes 120 ms.
    let (mut running, mut said) = (Vec::new(), false);
    for ms in (0..20_000).step_by(10) {
        let arrival = needing(PREMIUM, Some(DB));
        match gate.arrive(at(ms), arrival, || ()) {
            Verdict::Admit(slot) => running.push((ms, slot)),
            Verdict::Queue(ticket) => gate.cancel(at(ms), ticket),
            Verdict::Reject(_) => {}
        }
        while running.first().is_some_and(|(since, _)| since + 120 <= ms) {
            let first_byte = Some(Duration::from_millis(120));
            gate.finish(at(ms), running.remove(0).1, Outcome { first_byte, ..served() });
        }
        while let Some(effect) = gate.next_effect() {
            said |= matches!(effect, Effect::TargetMissed { class: PREMIUM, is_missed: true, .. });
        }
    }
    let found = gate.state(PREMIUM).target.expect("it has one");
    assert!(
        found.is_missed && said && found.answers > 100 && found.late == found.answers,
        "{found:?}"
    );
}
