use super::super::law::OriginLoad;
use super::super::targets::Targets;
use super::*;
use crate::names::{ClassId, LaneId};
use crate::outcome::Outcome;
use proptest::prelude::*;

const CLASS: ClassId = ClassId(0);
const OTHER: ClassId = ClassId(1);

fn p99(ms: u64) -> ServiceTarget {
    ServiceTarget { time: Duration::from_millis(ms), quantile: Quantile::P99 }
}

/// An endlessly loaded origin, as the controller sees it: answers end `rate` times a second, each after a time that
/// depends on how many are in progress.
struct Origin {
    targets: Targets,
    slots: u32,
    floor: u32,
    now_ms: f64,
    random: fastrand::Rng,
}

impl Origin {
    fn new(slots: u32, targets: &[(ClassId, ServiceTarget)]) -> Self {
        let mut all = Targets::default();
        all.reconfigure(Moment::ZERO, targets.iter().copied());
        let random = fastrand::Rng::with_seed(7);
        Origin { targets: all, slots, floor: 1, now_ms: 0.0, random }
    }

    fn limit(&self) -> u32 {
        self.targets.most().unwrap_or(u32::MAX).min(self.slots).max(self.floor)
    }

    fn end(&mut self, class: ClassId, took_ms: f64, found: u32, outcome: &Outcome) {
        let now = Moment::from_millis(self.now_ms as u64);
        let admitted = Moment::from_millis((self.now_ms - took_ms).max(0.0) as u64);
        let load = OriginLoad { running: found, waiting: 100 };
        let lane = LaneId(class.0.into());
        let waited = Duration::ZERO;
        let completion =
            Completion { now, class, lane, flow: 1, admitted, waited, found, outcome, load };
        let (slots, floor) = (self.limit(), self.floor);
        self.targets.finished(&completion, slots, floor);
    }

    /// Runs for so many seconds. `mean_ms`: by how many are in progress.
    fn run(&mut self, s: f64, rate: f64, class: ClassId, mean_ms: impl Fn(f64) -> f64) {
        for _ in 0..(s * rate) as u64 {
            self.now_ms += 1000.0 / rate;
            let found = self.limit();
            let took_ms = -self.random.f64().max(1e-12).ln() * mean_ms(f64::from(found));
            let first_byte = Some(Duration::from_secs_f64(took_ms / 1e3));
            let outcome = Outcome { first_byte, ..Outcome::without_answer(End::Served) };
            self.end(class, took_ms, found, &outcome);
        }
    }

    fn state(&self) -> TargetState {
        self.targets.state(CLASS).expect("it has a target")
    }
}

/// An origin that is full from 8 on: by Little's law times grow with the limit there.
fn full_from_8(found: f64) -> f64 {
    10.0 * (found / 8.0).max(1.0)
}

#[test]
fn the_limit_comes_down_until_the_quantile_is_at_its_target() {
    for (quantile, factor) in [
        (Quantile::P50, 2.0_f64.ln()),
        (Quantile::P90, 10.0_f64.ln()),
        (Quantile::P95, 20.0_f64.ln()),
        (Quantile::P99, 100.0_f64.ln()),
    ] {
        // At 16 in progress an answer takes 20 ms on average.
        let time = Duration::from_secs_f64(factor * 0.020);
        let mut origin = Origin::new(60, &[(CLASS, ServiceTarget { time, quantile })]);
        origin.run(120.0, 800.0, CLASS, full_from_8);
        let most = origin.targets.most().expect("a bound");
        assert!((14..=18).contains(&most), "{quantile:?}: {most}");
        assert!(!origin.state().is_missed);
    }
}

#[test]
fn slots_are_given_back_where_fewer_do_not_help() {
    let mut origin = Origin::new(60, &[(CLASS, p99(40))]);
    let mut fewest = u32::MAX;
    let mut sum = 0.0;
    for _ in 0..600 {
        // 46 ms however many are in progress.
        origin.run(1.0, 800.0, CLASS, |_| 10.0);
        fewest = fewest.min(origin.limit());
        sum += f64::from(origin.limit());
    }
    assert!(origin.state().is_missed);
    assert!(fewest < 60, "it was tried");
    assert!(sum / 600.0 > 0.97 * 60.0, "{}", sum / 600.0);
}

#[test]
fn what_one_slot_would_not_meet_is_not_tried() {
    let mut origin = Origin::new(10, &[(CLASS, p99(1))]);
    origin.run(60.0, 800.0, CLASS, |_| 100.0);
    assert_eq!(origin.limit(), 10);
    assert!(origin.state().is_missed);
}

#[test]
fn a_target_that_is_met_bounds_nothing() {
    let mut origin = Origin::new(60, &[(CLASS, p99(400))]);
    origin.run(300.0, 800.0, CLASS, full_from_8);
    assert_eq!((origin.targets.most(), origin.state().is_missed), (None, false));
    assert_eq!(origin.state().answers, 240_000);
}

#[test]
fn the_limit_comes_back_with_the_origin() {
    let mut origin = Origin::new(60, &[(CLASS, p99(200))]);
    origin.run(60.0, 800.0, CLASS, full_from_8);
    let before = origin.limit();
    assert!((30..=40).contains(&before), "{before}");
    origin.run(60.0, 400.0, CLASS, |found| 2.0 * full_from_8(found));
    assert!(origin.limit() < 22, "{}", origin.limit());
    origin.run(60.0, 800.0, CLASS, full_from_8);
    assert!(origin.limit() + 4 >= before, "{} of {before}", origin.limit());
}

#[test]
fn a_few_requests_suffice_in_minutes() {
    let mut origin = Origin::new(60, &[(CLASS, p99(100))]);
    // Two a second, at first nearly half of them late.
    origin.run(600.0, 2.0, CLASS, full_from_8);
    assert!((8..=30).contains(&origin.limit()), "{}", origin.limit());
}

#[test]
fn a_class_that_is_gone_bounds_nobody_and_is_bounded_again_when_it_is_back() {
    let mut origin = Origin::new(60, &[(CLASS, p99(100))]);
    origin.run(60.0, 800.0, CLASS, full_from_8);
    let before = origin.targets.most().expect("a bound");
    origin.run(59.0, 800.0, OTHER, full_from_8);
    assert_eq!(origin.targets.most(), Some(before));
    origin.run(2.0, 800.0, OTHER, full_from_8);
    assert_eq!(origin.targets.most(), None);
    origin.run(0.1, 800.0, CLASS, full_from_8);
    assert_eq!(origin.targets.most(), Some(before));
}

/// As are those whose requests all go by another limit.
#[test]
fn ends_of_requests_that_another_limit_is_told_of_let_a_bound_go_as_well() {
    let mut origin = Origin::new(60, &[(CLASS, p99(100))]);
    origin.run(60.0, 800.0, CLASS, full_from_8);
    let ends = origin.now_ms as u64;
    assert!(!origin.targets.passes(Moment::from_millis(ends + 59_000)));
    assert!(origin.targets.passes(Moment::from_millis(ends + 61_000)), "it has changed");
    assert_eq!(origin.targets.most(), None);
}

#[test]
fn the_strictest_target_counts_and_each_is_judged_by_its_own_requests() {
    let mut origin = Origin::new(60, &[(CLASS, p99(200)), (OTHER, p99(100))]);
    for _ in 0..6000 {
        origin.run(0.01, 400.0, CLASS, full_from_8);
        origin.run(0.01, 400.0, OTHER, full_from_8);
    }
    let most = origin.targets.most().expect("a bound");
    assert!((15..=20).contains(&most), "{most}");
    let [first, second] = [CLASS, OTHER].map(|class| origin.targets.state(class));
    assert_eq!(second.and_then(|it| it.slots), Some(most));
    assert!(first.is_some_and(|it| it.slots.is_none_or(|slots| slots > most)));
    assert!(first.is_some_and(|it| it.answers == 24_000));
}

#[test]
fn late_answers_of_an_origin_that_is_not_full_are_not_due_to_the_limit() {
    let mut origin = Origin::new(60, &[(CLASS, p99(100))]);
    for at in 0..60_000 {
        origin.now_ms = f64::from(at);
        let took = if at % 10 == 0 { 300.0 } else { 20.0 };
        let first_byte = Some(Duration::from_secs_f64(took / 1e3));
        let outcome = Outcome { first_byte, ..Outcome::without_answer(End::Served) };
        origin.end(CLASS, took, 20, &outcome);
    }
    assert_eq!(origin.targets.most(), None);
    assert!(origin.state().is_missed);
}

#[test]
fn what_clients_and_refusals_do_does_not_count() {
    let mut origin = Origin::new(60, &[(CLASS, p99(100))]);
    let quick = Some(Duration::from_millis(20));
    for at in 0..60_000 {
        origin.now_ms = f64::from(at);
        // A download of ten minutes that began at once.
        let outcome = Outcome { first_byte: quick, ..Outcome::without_answer(End::Served) };
        origin.end(CLASS, 600_000.0, 60, &outcome);
        origin.end(CLASS, 5000.0, 60, &Outcome::without_answer(End::Pushback));
        origin.end(CLASS, 5000.0, 60, &Outcome::without_answer(End::Failed));
        origin.end(CLASS, 50.0, 60, &Outcome::without_answer(End::Cancelled));
        origin.end(CLASS, 50.0, 60, &Outcome::without_answer(End::Error));
    }
    let state = origin.state();
    assert_eq!((state.slots, state.late, state.answers), (None, 0, 60_000));
}

#[test]
fn answers_that_never_come_are_late() {
    for end in [End::TimedOut, End::Cancelled, End::Error] {
        let mut origin = Origin::new(60, &[(CLASS, p99(100))]);
        for at in 5_000..15_000 {
            origin.now_ms = f64::from(at);
            origin.end(CLASS, 5000.0, 60, &Outcome::without_answer(end));
        }
        assert_eq!(origin.state().late, 10_000, "{end:?}");
    }
}

#[test]
fn another_target_begins_where_the_last_one_was() {
    let mut origin = Origin::new(60, &[(CLASS, p99(100))]);
    origin.run(60.0, 800.0, CLASS, full_from_8);
    let before = origin.targets.most();
    assert!(before.is_some());
    let now = Moment::from_millis(origin.now_ms as u64);
    origin.targets.reconfigure(now, [(CLASS, p99(100)), (OTHER, p99(50))].into_iter());
    assert_eq!(origin.targets.most(), before);
    origin.targets.reconfigure(now, [(CLASS, p99(200))].into_iter());
    assert_eq!(origin.targets.most(), before);
    origin.run(60.0, 800.0, CLASS, full_from_8);
    assert!((30..=40).contains(&origin.limit()), "{}", origin.limit());
    origin.targets.reconfigure(now, [].into_iter());
    assert_eq!(origin.targets.most(), None);
}

#[derive(Clone, Debug)]
struct Answer {
    after_ms: u32,
    took_ms: u32,
    end: End,
    class: bool,
    is_answered: bool,
}

fn answers() -> impl Strategy<Value = Vec<Answer>> {
    let end = proptest::sample::select(&End::ALL[..]);
    let took = prop_oneof![8 => 0_u32..200, 2 => 0_u32..20_000];
    let one = (
        prop_oneof![30 => 0_u32..20, 1 => 0_u32..100_000],
        took,
        end,
        any::<bool>(),
        any::<bool>(),
    );
    let one = one.prop_map(|(after_ms, took_ms, end, class, is_answered)| Answer {
        after_ms,
        took_ms,
        end,
        class,
        is_answered,
    });
    proptest::collection::vec(one, 0..3000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happens, there is at least one slot, and no bound without answers of the class.
    #[test]
    fn a_bound_is_at_least_one_slot_and_needs_answers(
        list in answers(),
        slots in 1_u32..200,
        floor in 1_u32..5,
    ) {
        let mut origin = Origin::new(slots.max(floor), &[(CLASS, p99(50))]);
        origin.floor = floor;
        for Answer { after_ms, took_ms, end, class, is_answered } in list {
            origin.now_ms += f64::from(after_ms);
            let took = Duration::from_millis(took_ms.into());
            let first_byte = is_answered.then_some(took);
            let outcome = Outcome { first_byte, ..Outcome::without_answer(end) };
            let found = origin.limit();
            origin.end(if class { CLASS } else { OTHER }, took_ms.into(), found, &outcome);
            let state = origin.state();
            prop_assert!(origin.targets.most().is_none_or(|most| most >= 1));
            prop_assert!(state.late <= state.answers);
            prop_assert!(state.late > 0 || state.slots.is_none() && !state.is_missed);
        }
    }
}
