//! Tests: sites with guarantees on one server, after Abdelzaher's figures 12, 15 and 16: pages of 32 KiB, and copies of 4 KiB.

use super::{AdaptationState, Arrival, Gate, Verdict};
use crate::adapt::{Adaptation, Costs, Guarantee, Level};
use crate::admit::inbound::Reference;
use crate::class::Class;
use crate::classify::flow::Flow;
use crate::control::Slots;
use crate::names::{ClassId, SiteId};
use crate::outcome::{End, Outcome};
use crate::plan::Spec;
use crate::reason::Reason;
use crate::schedule::Site;
use crate::sense::{Quantity, Reading};
use crate::time::Moment;
use proptest::prelude::*;
use std::time::Duration;

const REFERENCE: f64 = 0.58;
/// The paper's server.
const COSTS: Costs = Costs { request: 1.604e-3, mebibyte: 0.0645, refusal: 0.0 };
const FULL: u64 = 32 << 10;
const LOW: u64 = 4 << 10;

/// Two sites, of 50 and 100 pages a second, and others who have no guarantee. In the order of importance: others between them, so that
/// importance does not do it.
const FIRST: usize = 0;
const OTHERS: usize = 1;
const SECOND: usize = 2;

fn guarantee(pages: f64) -> Guarantee {
    Guarantee { requests: pages, bytes: pages * FULL as f64 }
}

fn spec(sites: &[Option<Guarantee>]) -> Spec {
    let class = |place: usize| Class {
        site: SiteId(place as u16),
        queue_len_max: 100_000,
        ..Class::named(format!("class {place}"))
    };
    let site = |(place, guarantee): (usize, &Option<Guarantee>)| Site {
        guarantee: *guarantee,
        ..Site::named(format!("site {place}"))
    };
    Spec {
        classes: (0..sites.len()).map(class).collect(),
        sites: sites.iter().enumerate().map(site).collect(),
        slots: Slots::Fixed(100_000),
        adaptations: vec![Adaptation {
            name: "pages".to_owned(),
            acts: true,
            source: "cpu".into(),
            reference: Reference::Utilization(5800),
            also: Vec::new(),
            levels: vec![Level::default(); 2],
            refuses: true,
            by: Flow::CLIENT,
            costs: Some(COSTS),
            sites: (0..sites.len() as u16).map(SiteId).collect(),
            gain_margin: Adaptation::GAIN_MARGIN,
        }],
        ..Spec::protective()
    }
}

fn two_sites_and_others() -> Spec {
    spec(&[Some(guarantee(50.0)), None, Some(guarantee(100.0))])
}

struct World {
    gate: Gate<()>,
    now: Moment,
    /// How much more than the policy says everything costs.
    slower: f64,
    /// What a request of each level really takes, but for that.
    prices: [f64; 3],
    /// What others use.
    others: f64,
    /// A class that only one client asks for, and its hash as a part of all.
    one_client: Option<(usize, f64)>,
    /// Whether readings are a period late, and the last one.
    late: Option<f64>,
    random: u64,
}

/// What became of a second's requests.
struct Second {
    /// By class: shares of the server; requests by level.
    used: Vec<f64>,
    levels: Vec<[u32; 3]>,
}

impl Second {
    fn all(&self) -> f64 {
        self.used.iter().sum()
    }

    /// Whether all of a class's requests got full quality.
    fn is_full(&self, class: usize) -> bool {
        self.levels[class][..2] == [0, 0]
    }
}

impl World {
    fn new(spec: Spec) -> Self {
        let gate = Gate::new(spec.build().expect("a sound plan"));
        World {
            gate,
            now: Moment::ZERO,
            slower: 1.0,
            prices: [0.0, cost_of(LOW), cost_of(FULL)],
            others: 0.0,
            one_client: None,
            late: None,
            random: 7,
        }
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.random ^ (self.random >> 29)
    }

    /// A second in which so many requests of each class come, of clients that are drawn from many.
    fn second(&mut self, rates: &[u32]) -> Second {
        let id = self.gate.plan().adaptation_ids()[0];
        let mut seen = Second { used: vec![0.0; rates.len()], levels: vec![[0; 3]; rates.len()] };
        let mut admitted = Vec::new();
        for (class, rate) in rates.iter().enumerate() {
            for _ in 0..*rate {
                let client = match self.one_client {
                    Some((its_class, part)) if its_class == class => (part * 2f64.powi(64)) as u64,
                    _ => self.random().wrapping_mul(0x9E37_79B9_7F4A_7C15),
                };
                let place = ClassId(class as u16);
                let adapted = self.gate.level(id, place, client, false).expect("it is there");
                seen.levels[class][usize::from(adapted.level)] += 1;
                let arrival = Arrival { adapted: Some(adapted), ..Arrival::of(place) };
                let Verdict::Admit(slot) = self.gate.arrive(self.now, arrival, || ()) else {
                    continue;
                };
                let bytes = if adapted.level == 2 { FULL } else { LOW };
                let cost = self.prices[usize::from(adapted.level)] * self.slower;
                admitted.push((class, slot, bytes, cost));
            }
        }
        // Beyond what it can do, only a part is answered; the others would have waited until they were refused.
        let wanted: f64 = admitted.iter().map(|(.., cost)| cost).sum();
        let mut due = 0.0;
        for (class, slot, bytes, cost) in admitted {
            due += ((1.0 - self.others) / wanted).min(1.0);
            let outcome = if due >= 1.0 - 1e-9 {
                due -= 1.0;
                seen.used[class] += cost;
                let first_byte = Some(Duration::from_millis(5));
                Outcome { first_byte, bytes, ..Outcome::without_answer(End::Served) }
            } else {
                self.gate.common.adapting.gave_up(slot.adapted, false, Reason::DeadlineExpired);
                Outcome::without_answer(End::Preempted)
            };
            self.gate.finish(self.now, slot, outcome);
        }
        self.now = self.now + Duration::from_millis(1001);
        let mut reading = (seen.all() + self.others).min(1.0);
        if let Some(late) = &mut self.late {
            std::mem::swap(&mut reading, late);
        }
        let quantity = Quantity::Utilization(reading);
        let reading = Reading { source: "cpu", quantity, lasting: Duration::from_secs(3) };
        self.gate.observe(self.now, reading).expect("it is possible");
        self.gate.tick(self.now);
        seen
    }

    /// So many seconds; what was used on average by each class in them.
    fn seconds(&mut self, count: u32, rates: &[u32]) -> Vec<f64> {
        let mut used = vec![0.0; rates.len()];
        for _ in 0..count {
            for (sum, used) in used.iter_mut().zip(self.second(rates).used) {
                *sum += used / f64::from(count);
            }
        }
        used
    }

    fn state(&self) -> AdaptationState {
        self.gate.adaptations().next().expect("it is there")
    }
}

fn cost_of(bytes: u64) -> f64 {
    COSTS.request + COSTS.of_bytes(bytes as f64)
}

fn is_near(value: f64, expected: f64, part: f64) -> bool {
    (value - expected).abs() <= expected * part
}

#[test]
fn sites_within_their_guarantees_do_not_feel_the_others_overload() {
    let mut world = World::new(two_sites_and_others());
    // The others alone are too much; the second site's load grows to what it is guaranteed.
    for pages in (0..=100).step_by(10) {
        let before = world.seconds(10, &[50, 300, pages]);
        assert!(before.iter().sum::<f64>() > 0.4, "{before:?}");
        for _ in 0..5 {
            let second = world.second(&[50, 300, pages]);
            assert!(
                second.is_full(FIRST) && second.is_full(SECOND),
                "{pages}: {:?}",
                second.levels
            );
        }
    }
    let used = world.seconds(30, &[50, 300, 100]);
    assert!(is_near(used.iter().sum(), REFERENCE, 0.05), "{used:?}");
    let guaranteed = [FIRST, SECOND].map(|site| world.state().guarantees[site / 2].guaranteed);
    assert!(is_near(used[FIRST], guaranteed[0], 0.01), "{used:?} {guaranteed:?}");
    assert!(is_near(used[SECOND], guaranteed[1], 0.01), "{used:?} {guaranteed:?}");
}

#[test]
fn a_site_beyond_its_guarantee_has_what_is_left_and_no_more_than_it_when_nothing_is() {
    let mut world = World::new(two_sites_and_others());
    let guaranteed = COSTS.share(&guarantee(50.0));
    // There is room: the first site's 90 pages are all full.
    world.seconds(30, &[90, 0, 60]);
    let second = world.second(&[90, 0, 60]);
    assert!(second.is_full(FIRST) && second.is_full(SECOND), "{:?}", second.levels);
    // For four times as many, too, as far as that goes.
    world.seconds(40, &[200, 0, 60]);
    let used = world.seconds(20, &[200, 0, 60]);
    assert!(used[FIRST] > 1.5 * guaranteed, "{used:?}");
    assert!(is_near(used.iter().sum(), REFERENCE, 0.05), "{used:?}");
    // The others come, and take what is not guaranteed.
    world.seconds(30, &[200, 300, 100]);
    let used = world.seconds(30, &[200, 300, 100]);
    assert!(is_near(used[FIRST], guaranteed, 0.03), "{used:?} {guaranteed}");
    assert!(is_near(used[SECOND], 2.0 * guaranteed, 0.01), "{used:?} {guaranteed}");
    assert!(is_near(used.iter().sum(), REFERENCE, 0.05), "{used:?}");
}

#[test]
fn a_guarantee_is_there_as_soon_as_it_is_needed() {
    let mut world = World::new(two_sites_and_others());
    let guaranteed = COSTS.share(&guarantee(50.0));
    // For ten minutes it uses more than it is guaranteed, and nobody minds.
    world.seconds(600, &[100, 0, 60]);
    for second in 0..40 {
        let levels = world.second(&[100, 400, 60]).levels[FIRST];
        // What they take unless the server is too busy, as it is at first.
        let taken = f64::from(levels[1]) * cost_of(LOW) + f64::from(levels[2]) * cost_of(FULL);
        assert!(taken > 0.9 * guaranteed, "after {second} seconds: {levels:?}");
    }
}

#[test]
fn a_server_that_is_slower_than_its_costs_say_keeps_the_same_part_of_all_guarantees() {
    let mut world = World::new(two_sites_and_others());
    world.slower = 1.8;
    world.seconds(120, &[50, 300, 100]);
    let used = world.seconds(60, &[50, 300, 100]);
    assert!(used.iter().sum::<f64>() < REFERENCE * 1.05, "it is protected: {used:?}");
    let state = world.state();
    assert!((0.4..0.8).contains(&state.kept), "{}", state.kept);
    let kept = [(FIRST, 50.0), (SECOND, 100.0)]
        .map(|(class, pages)| used[class] / world.slower / COSTS.share(&guarantee(pages)));
    assert!(is_near(kept[0], kept[1], 0.1), "{kept:?}");
    // The others are refused before that.
    let levels = world.second(&[50, 300, 100]).levels;
    assert!(levels[OTHERS][0] > 290, "{levels:?}");
    // It recovers.
    world.slower = 1.0;
    world.seconds(120, &[50, 300, 100]);
    let second = world.second(&[50, 300, 100]);
    assert!(second.is_full(FIRST) && second.is_full(SECOND), "{:?}", second.levels);
    assert_eq!(world.state().kept, 1.0);
}

#[test]
fn within_a_site_the_least_important_class_gives_way_first() {
    let mut spec = spec(&[Some(guarantee(60.0)), None]);
    // A second class of the first site.
    spec.classes.insert(1, Class { site: SiteId(0), ..Class::named("basic") });
    let mut world = World::new(spec);
    world.seconds(60, &[50, 100, 300]);
    let used = world.seconds(30, &[50, 100, 300]);
    let levels = world.second(&[50, 100, 300]).levels;
    assert_eq!(levels[0], [0, 0, 50], "{levels:?}");
    assert!(levels[1][2] < 30, "{levels:?}");
    assert!(is_near(used[0] + used[1], COSTS.share(&guarantee(60.0)), 0.03), "{used:?}");
}

#[test]
fn a_reload_changes_guarantees_and_keeps_what_is_known() {
    let mut world = World::new(two_sites_and_others());
    world.seconds(60, &[200, 300, 100]);
    let larger = spec(&[Some(guarantee(80.0)), None, Some(guarantee(60.0))]);
    world.gate.reconfigure(world.now, larger.build().expect("a sound plan"));
    world.seconds(30, &[200, 300, 100]);
    let used = world.seconds(30, &[200, 300, 100]);
    assert!(is_near(used[FIRST], COSTS.share(&guarantee(80.0)), 0.03), "{used:?}");
    assert!(is_near(used[SECOND], COSTS.share(&guarantee(60.0)), 0.03), "{used:?}");
    let without = spec(&[None, None, None]);
    world.gate.reconfigure(world.now, without.build().expect("a sound plan"));
    assert!(world.state().guarantees.is_empty());
    world.seconds(60, &[200, 300, 100]);
    let used = world.seconds(20, &[200, 300, 100]);
    assert!(is_near(used.iter().sum(), REFERENCE, 0.05), "{used:?}");
}

/// The same sites where requests cost and bytes do not.
fn of_requests(cost: f64) -> Spec {
    let pages = |pages| Some(Guarantee { requests: pages, bytes: 0.0 });
    let mut spec = spec(&[pages(50.0), None, pages(100.0)]);
    spec.adaptations[0].costs = Some(Costs { request: cost, mebibyte: 0.0, refusal: 0.0 });
    spec
}

#[test]
fn a_site_beyond_its_guarantee_is_refused_where_no_level_is_known_to_be_cheaper() {
    let mut world = World::new(of_requests(3.6e-3));
    world.prices = [0.0, 3.6e-3, 3.6e-3];
    world.seconds(60, &[1000, 10, 100]);
    let used = world.seconds(30, &[1000, 10, 100]);
    assert!(is_near(used[FIRST], 0.18, 0.05) && is_near(used[SECOND], 0.36, 0.05), "{used:?}");
}

#[test]
fn a_slower_server_does_not_make_low_quality_free() {
    let mut world = World::new(of_requests(3.6e-3));
    world.prices = [0.0, 0.9e-3, 3.6e-3];
    world.slower = 1.5;
    // What a level saves is learned.
    for second in 0..120 {
        let wave = (f64::from(second) / 9.0).sin();
        world.second(&[40, 150 + (90.0 * wave) as u32, 60]);
    }
    world.seconds(60, &[2000, 10, 60]);
    let used = world.seconds(60, &[2000, 10, 60]);
    assert!(used.iter().sum::<f64>() < 0.65, "{used:?}");
    assert!(used[SECOND] > 0.9 * 60.0 * 3.6e-3 * 1.5, "{used:?}");
}

#[test]
fn guarantees_that_nobody_uses_are_not_cut() {
    let mut world = World::new(two_sites_and_others());
    // A backup at night.
    world.others = 0.7;
    world.seconds(20, &[0, 0, 0]);
    assert_eq!(world.state().kept, 1.0);
    world.others = 0.3;
    world.seconds(3, &[40, 100, 60]);
    let second = world.second(&[40, 100, 60]);
    assert_eq!((second.levels[FIRST][0], second.levels[SECOND][0]), (0, 0), "{:?}", second.levels);
}

#[test]
fn wrong_costs_make_nothing_swing() {
    for (slower, late) in [(2.0, false), (3.0, false), (4.0, false), (2.0, true), (3.0, true)] {
        let mut world = World::new(two_sites_and_others());
        (world.slower, world.late) = (slower, late.then_some(0.0));
        world.seconds(200, &[100, 300, 200]);
        let used: Vec<f64> = (0..100).map(|_| world.second(&[100, 300, 200]).all()).collect();
        let mean = used.iter().sum::<f64>() / used.len() as f64;
        let most = used.iter().copied().fold(0.0, f64::max);
        assert!(is_near(mean, REFERENCE, 0.06), "{slower} {late}: {mean}");
        assert!(most < 0.78, "{slower} {late}: {most}");
    }
}

#[test]
fn a_site_of_one_client_takes_nothing_from_another_ones_guarantee() {
    // The one that is refused last of all can only be let in, or not, for a second at a time.
    for (place, part) in [(0.001, 0.6), (0.02, 0.6), (0.5, 0.8)] {
        let mut world = World::new(two_sites_and_others());
        world.one_client = Some((FIRST, place));
        world.seconds(60, &[1000, 100, 100]);
        let used = world.seconds(120, &[1000, 100, 100]);
        let guaranteed = COSTS.share(&guarantee(100.0));
        assert!(used[SECOND] > part * guaranteed, "{place}: {used:?} of {guaranteed}");
    }
}

#[test]
fn who_comes_back_within_its_guarantee_is_soon_served_in_full() {
    let mut world = World::new(two_sites_and_others());
    world.seconds(60, &[400, 300, 90]);
    world.seconds(3, &[45, 300, 90]);
    for _ in 0..5 {
        assert_eq!(world.second(&[45, 300, 90]).levels[FIRST][0], 0, "nobody is refused");
    }
    world.seconds(5, &[45, 300, 90]);
    for _ in 0..20 {
        let levels = world.second(&[45, 300, 90]).levels;
        assert_eq!(levels[FIRST], [0, 0, 45], "{levels:?}");
    }
}

#[test]
fn a_long_download_takes_no_quality_from_its_site_when_it_ends() {
    let mut world = World::new(two_sites_and_others());
    let id = world.gate.plan().adaptation_ids()[0];
    let adapted = world.gate.level(id, ClassId(0), 0, false);
    let arrival = Arrival { adapted, ..Arrival::of(ClassId(0)) };
    let Verdict::Admit(download) = world.gate.arrive(world.now, arrival, || ()) else {
        panic!("there is room")
    };
    world.seconds(600, &[45, 300, 95]);
    let outcome = Outcome { bytes: 200 << 20, ..Outcome::without_answer(End::Served) };
    world.gate.finish(world.now, download, outcome);
    for _ in 0..60 {
        let levels = world.second(&[40, 300, 95]).levels;
        assert!(levels[FIRST][0] == 0 && levels[FIRST][1] < 15, "{levels:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Sites of any size and load: who is within its guarantee gets full quality; who is beyond it gets it all the same; and the
    /// server is not used more than it should be.
    #[test]
    fn guarantees_hold_whatever_the_others_do(
        sizes in proptest::collection::vec(1u32..10, 1..5),
        part in 0.3..1.0f64,
        loads in proptest::collection::vec(0.2..4.0f64, 5),
        others in 0u32..600,
        seed: u64,
    ) {
        let all: u32 = sizes.iter().sum();
        let page = COSTS.share(&guarantee(1.0));
        // Together they have that part of the reference.
        let pages = |size: u32| REFERENCE * part * f64::from(size) / f64::from(all) / page;
        let mut sites: Vec<_> = sizes.iter().map(|size| Some(guarantee(pages(*size)))).collect();
        sites.push(None);
        let mut rates: Vec<u32> =
            sizes.iter().zip(&loads).map(|(size, load)| (pages(*size) * load) as u32).collect();
        rates.push(others);
        let mut world = World::new(spec(&sites));
        world.random = seed;
        world.seconds(60, &rates);
        let used = world.seconds(30, &rates);
        prop_assert!(used.iter().sum::<f64>() < REFERENCE * 1.06, "{used:?}");
        for (place, size) in sizes.iter().enumerate() {
            let wanted = page * f64::from(rates[place]);
            // A part of a client cannot be served.
            let sure = wanted.min(page * pages(*size)) - page;
            prop_assert!(used[place] >= 0.95 * sure, "site {place}: {} of {sure}", used[place]);
        }
    }
}
