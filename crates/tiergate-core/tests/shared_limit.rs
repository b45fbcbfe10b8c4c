//! The limit that gateways find together, as the gate uses it: it depends on the wall clock and not on when the process
//! started, it keeps its bounds whatever happens, and it survives reloads.

use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::shared::SharedLimit;
use tiergate_core::control::{Bounds, Completion, Law, OriginLoad, Slots};
use tiergate_core::gate::{Arrival, Claim, Gate, Slot, Ticket, Verdict};
use tiergate_core::names::{LaneId, Names, PoolId};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::{Plan, PoolSettings, Spec};
use tiergate_core::time::Moment;

const WORKERS: usize = 16;
const SERVICE_MS: u64 = 50;

fn shared() -> Slots {
    Slots::Shared(Bounds::default())
}

/// One class; a second pool, perhaps.
fn plan(names: &mut Names, first: Slots, second: Option<Slots>) -> Plan {
    let class = Class { deadline: Duration::from_secs(3600), ..Class::named("a") };
    let pool = |slots| PoolSettings::named("second", slots);
    let pools = second.map(pool).into_iter().collect();
    let spec = Spec { classes: vec![class], slots: first, pools, ..Spec::protective() };
    Plan::build(spec, names).expect("a valid plan")
}

/// An origin of 16 workers, and clients that always have ten requests waiting.
struct Origin {
    pool: PoolId,
    free_at: BinaryHeap<Reverse<u64>>,
    /// When requests end, and their slots.
    running: Vec<(u64, Slot)>,
    waiting: Vec<Ticket>,
    now_ms: u64,
}

impl Origin {
    fn new(pool: u16, now_ms: u64) -> Self {
        let free_at = (0..WORKERS).map(|_| Reverse(now_ms)).collect();
        Origin { pool: PoolId(pool), free_at, running: Vec::new(), waiting: Vec::new(), now_ms }
    }

    /// So many requests end. Returns the slots after each. The gate's moments are `since_ms` less than the origin's.
    fn serve(&mut self, gate: &mut Gate<()>, since_ms: u64, ends: u32) -> Vec<u32> {
        let slots = |_| {
            let now = Moment::from_millis(self.now_ms - since_ms);
            let missing = 10_usize.saturating_sub(self.waiting.len());
            for _ in 0..missing + usize::from(self.running.is_empty()) {
                let arrival = Arrival { pool: self.pool, ..Arrival::of(ClassId(0)) };
                match gate.arrive(now, arrival, || ()) {
                    Verdict::Admit(slot) => self.begin(slot),
                    Verdict::Queue(ticket) => self.waiting.push(ticket),
                    Verdict::Reject(reason) => panic!("{reason:?}"),
                }
            }
            let first = (0..self.running.len()).min_by_key(|place| self.running[*place].0);
            let (end_ms, slot) = self.running.swap_remove(first.expect("one runs"));
            self.now_ms = self.now_ms.max(end_ms);
            let now = Moment::from_millis(self.now_ms - since_ms);
            let first_byte = Some(Duration::ZERO);
            gate.finish(now, slot, Outcome { end: End::Served, first_byte, bytes: 1, left: None });
            while gate.next_effect().is_some() {}
            for ticket in std::mem::take(&mut self.waiting) {
                match gate.claim(ticket) {
                    Claim::Waiting => self.waiting.push(ticket),
                    Claim::Admitted(slot) => self.begin(slot),
                    Claim::Rejected(reason) => panic!("{reason:?}"),
                }
            }
            gate.pool(self.pool).map_or(0, |pool| pool.slots())
        };
        (0..ends).map(slots).collect()
    }

    fn begin(&mut self, slot: Slot) {
        let Reverse(free) = self.free_at.pop().expect("there are workers");
        let end = free.max(self.now_ms) + SERVICE_MS;
        self.free_at.push(Reverse(end));
        self.running.push((end, slot));
    }
}

#[test]
fn it_finds_the_slots_that_the_origin_needs() {
    let mut gate = Gate::new(plan(&mut Names::default(), shared(), None));
    let slots = Origin::new(0, 0).serve(&mut gate, 0, 20_000);
    let last = &slots[10_000..];
    let mean = last.iter().sum::<u32>() as f64 / last.len() as f64;
    assert!((14.0..20.0).contains(&mean), "{mean:.1} slots");
}

/// The slots at each end in a gateway that started so many seconds before its first request. Its second pool comes by a reload,
/// and so does the first one's limit.
fn found(started_before_s: u64) -> [Vec<u32>; 2] {
    const BEGIN_MS: u64 = 1_795_199_031_042;
    let since = BEGIN_MS - 1000 * started_before_s;
    let mut names = Names::default();
    let mut gate = Gate::new(plan(&mut names, Slots::Fixed(3), None));
    gate.set_clock(Duration::from_millis(since));
    let now = Moment::from_millis(BEGIN_MS - since);
    gate.reconfigure(now, plan(&mut names, shared(), Some(shared())));
    let mut serve = |pool, begin| Origin::new(pool, begin).serve(&mut gate, since, 4_000);
    [serve(0, BEGIN_MS), serve(1, BEGIN_MS + 3_600_000)]
}

#[test]
fn it_does_the_same_at_the_same_time_whenever_the_process_started() {
    let expected = found(1);
    assert!(expected[0].iter().chain(&expected[1]).any(|slots| *slots != 10), "it never moved");
    // Not only whole cycles of blocks.
    for started_before_s in [2, 3, 1003, 86_477] {
        assert_eq!(found(started_before_s), expected, "started {started_before_s} s before");
    }
}

#[test]
fn a_reload_keeps_what_was_found_unless_the_limit_is_set_in_another_way() {
    let mut names = Names::default();
    let mut gate = Gate::new(plan(&mut names, shared(), None));
    let mut origin = Origin::new(0, 0);
    origin.serve(&mut gate, 0, 10_000);
    let found = gate.slots();
    assert!(found > 12, "{found}");
    let now = Moment::from_millis(origin.now_ms);
    gate.reconfigure(now, plan(&mut names, shared(), Some(Slots::Fixed(5))));
    assert_eq!(gate.slots(), found);
    gate.reconfigure(now, plan(&mut names, Slots::Adaptive(Bounds::default()), None));
    assert_eq!(gate.slots(), Bounds::default().slots_start, "another law knows nothing");
}

#[test]
fn a_clock_that_is_set_loses_nothing_that_was_found() {
    let mut gate = Gate::new(plan(&mut Names::default(), shared(), None));
    let mut origin = Origin::new(0, 0);
    origin.serve(&mut gate, 0, 10_000);
    for hour in [1, 48, 2] {
        gate.set_clock(Duration::from_secs(3600 * hour));
        let slots = origin.serve(&mut gate, 0, 2_000);
        let mean = slots.iter().sum::<u32>() as f64 / slots.len() as f64;
        assert!((14.0..20.0).contains(&mean), "{mean:.1} slots");
    }
}

/// The end of a request: how, class, how long it was in service, how long after the one before, and what was in progress
/// and waited.
type Ended = (End, u16, u64, u64, u32, u32);

fn ends() -> impl Strategy<Value = Vec<Ended>> {
    let end = prop_oneof![
        12 => Just(End::Served),
        1 => Just(End::Error),
        1 => Just(End::TimedOut),
        1 => Just(End::Cancelled),
        1 => Just(End::Failed),
        1 => Just(End::Pushback),
    ];
    let service = prop_oneof![Just(0_u64), 1_000_u64..200_000_000, Just(3_600_000_000_000)];
    let pause = prop_oneof![20 => 0_u64..20_000_000, 1 => Just(0), 1 => Just(600_000_000_000)];
    let one = (end, 0_u16..70, service, pause, 1_u32..40, 0_u32..3);
    prop::collection::vec(one, 1..600)
}

/// Tells a law of them, at moments that are `since` less than on the wall clock. Returns the slots after each.
fn tell(ends: &[Ended], bounds: &Bounds, since: u64) -> Vec<u32> {
    // A day, so that the longest request began after the clock did.
    let mut now = 86_400_000_000_000_u64 + since;
    let mut law = SharedLimit::new(bounds.clone());
    law.set_clock(Duration::from_nanos(since));
    let mut slots = |&(end, class, service, pause, running, waiting): &Ended| {
        now += pause;
        let moment = Moment::from_nanos(now - since);
        let admitted = moment - Duration::from_nanos(service);
        let first_byte = (end == End::Served).then_some(Duration::ZERO);
        let outcome = Outcome { end, first_byte, bytes: 0, left: None };
        let load = OriginLoad { running, waiting };
        let (class, flow, found) = (ClassId(class), 0, running);
        let before = law.slots();
        let completion = Completion {
            now: moment,
            class,
            lane: LaneId(class.0.into()),
            flow,
            admitted,
            waited: Duration::ZERO,
            found,
            outcome: &outcome,
            load,
        };
        let step = law.finished(&completion);
        assert!(step.is_some() || law.slots() == before, "a change that was not told");
        law.slots()
    };
    ends.iter().map(&mut slots).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn it_keeps_its_bounds_and_tells_every_change(
        ends in ends(),
        (slots_min, more, start) in (1_u32..20, 0_u32..50, 0_u32..100),
    ) {
        let bounds = Bounds { slots_min, slots_max: slots_min + more, slots_start: start };
        for slots in tell(&ends, &bounds, 0) {
            prop_assert!((slots_min..=slots_min + more).contains(&slots), "{slots}");
        }
    }

    #[test]
    fn what_it_does_depends_on_no_clock_but_the_common_one(ends in ends(), shift in 0_u64..1 << 60) {
        // The blocks are those of the wall clock: shifted by four cycles of the longest they are the same.
        let cycle = (25_000_000_u64 * 32) << 20;
        let bounds = Bounds::default();
        let since = shift / cycle * cycle;
        prop_assert_eq!(tell(&ends, &bounds, 0), tell(&ends, &bounds, since));
    }
}
