//! The adaptive limit at the edges: what is no evidence, bounds, zero and huge durations.

use std::collections::VecDeque;
use std::time::Duration;
use tiergate_core::class::ClassId;
use tiergate_core::control::adaptive::AdaptiveLimit;
use tiergate_core::control::{Bounds, Cause, Completion, Law, OriginLoad};
use tiergate_core::names::LaneId;
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::time::Moment;

/// The end of a request of the first class.
fn completion(
    now: Moment,
    admitted: Moment,
    outcome: &Outcome,
    load: OriginLoad,
) -> Completion<'_> {
    Completion {
        now,
        class: ClassId(0),
        lane: LaneId(0),
        flow: 0,
        admitted,
        waited: Duration::ZERO,
        found: load.running,
        outcome,
        load,
    }
}

/// An origin with `workers` that each take `service`; every slot is used all the time.
struct Origin {
    limit: AdaptiveLimit,
    now: Moment,
    running: u32,
    begun: Vec<Moment>,
    /// Sum of the slots at each end.
    slots: u64,
}

impl Origin {
    fn new(settings: Bounds) -> Self {
        Origin {
            limit: AdaptiveLimit::new(settings),
            now: Moment::ZERO,
            running: 0,
            begun: Vec::new(),
            slots: 0,
        }
    }

    /// Ends so many requests, each `1 / rate` after the one before; the rate is what `workers` give.
    fn serve(&mut self, ends: u32, workers: u32, service: Duration, end: End, waiting: u32) {
        for _ in 0..ends {
            while self.running < self.limit.slots() {
                self.running += 1;
                self.begun.push(self.now);
                self.limit.pass(self.now, self.running - 1);
            }
            self.now = self.now + service / workers.min(self.running).max(1);
            let begun = self.begun.remove(0);
            let outcome = Outcome {
                end,
                first_byte: (end == End::Served).then(|| self.now.since(begun)),
                bytes: 0,
                left: None,
            };
            self.limit.finished(&completion(self.now, begun, &outcome, self.load(waiting)));
            self.running -= 1;
            self.slots += u64::from(self.limit.slots());
        }
    }

    fn load(&self, waiting: u32) -> OriginLoad {
        OriginLoad { running: self.running, waiting }
    }

    /// So many requests of 20 ms one after the other, with `others` in progress all the while.
    fn idle(&mut self, requests: u32, others: u32) {
        self.begun.clear();
        self.running = others;
        for _ in 0..requests {
            let begun = self.now;
            self.running = others + 1;
            self.limit.pass(begun, others);
            self.now = begun + Duration::from_millis(20);
            let outcome = Outcome { end: End::Served, first_byte: None, bytes: 0, left: None };
            self.limit.finished(&completion(self.now, begun, &outcome, self.load(0)));
            self.running = others;
        }
    }
}

#[test]
fn settles_near_the_knee_from_far_below_and_far_above() {
    for (start, workers) in [(1, 100), (1000, 10), (10, 1), (10, 400)] {
        let mut origin = Origin::new(Bounds { slots_start: start, ..Bounds::default() });
        origin.serve(200_000, workers, Duration::from_millis(10), End::Served, 1000);
        let (least, most) = (workers * 85 / 100, (workers * 13).div_ceil(10) + 1);
        let found = origin.limit.slots();
        assert!((least..=most).contains(&found), "{workers} workers: {found}");
    }
}

#[test]
fn a_few_at_once_are_not_too_many_while_they_are_quick() {
    for (workers, service_ms, least, most) in
        [(1, 2, 8, 11), (1, 5, 5, 8), (1, 40, 1, 2), (2, 4, 8, 11)]
    {
        let mut origin = Origin::new(Bounds::default());
        let service = Duration::from_millis(service_ms);
        origin.serve(20_000, workers, service, End::Served, 1000);
        for _ in 0..5_000 {
            origin.serve(1, workers, service, End::Served, 1000);
            let found = origin.limit.slots();
            assert!((least..=most).contains(&found), "{workers} workers, {service_ms} ms: {found}");
        }
    }
}

#[test]
fn lasting_saturation_does_not_move_it() {
    let mut origin = Origin::new(Bounds::default());
    for round in 0..50 {
        origin.slots = 0;
        origin.serve(50_000, 50, Duration::from_millis(10), End::Served, 1000);
        let mean = origin.slots / 50_000;
        assert!((47..=60).contains(&mean), "round {round}: {mean}");
    }
}

#[test]
fn follows_the_capacity_both_ways() {
    let mut origin = Origin::new(Bounds::default());
    for (workers, within) in [(50, 42..=66), (10, 8..=15), (100, 85..=132), (1, 1..=2)] {
        origin.serve(20_000, workers, Duration::from_millis(20), End::Served, 1000);
        let found = origin.limit.slots();
        assert!(within.contains(&found), "{workers} workers: {found}");
    }
}

#[test]
fn errors_and_fast_failures_are_no_evidence() {
    for end in [End::Error, End::Failed] {
        let mut origin = Origin::new(Bounds::default());
        origin.serve(20_000, 20, Duration::from_millis(20), End::Served, 1000);
        let before = origin.limit.slots();
        origin.serve(100_000, 1000, Duration::from_micros(100), end, 1000);
        assert_eq!(origin.limit.slots(), before, "{end:?}");
    }
}

/// A path crashes its worker after some work; its requests are most of all. So it was that the limit came down to one or two.
#[test]
fn connections_closed_after_work_do_not_lower_it() {
    let mut origin = Origin::new(Bounds::default());
    origin.serve(20_000, 20, Duration::from_millis(20), End::Served, 1000);
    let before = origin.limit.slots();
    for _ in 0..50 {
        origin.serve(90, 20, Duration::from_millis(40), End::Failed, 1000);
        origin.serve(10, 20, Duration::from_millis(20), End::Served, 1000);
    }
    assert!(origin.limit.slots() >= before / 2, "{before} before, {}", origin.limit.slots());
}

#[test]
fn answers_that_come_too_late_lower_it() {
    let mut origin = Origin::new(Bounds::default());
    origin.serve(20_000, 20, Duration::from_millis(20), End::Served, 1000);
    origin.serve(2_000, 20, Duration::from_secs(1), End::TimedOut, 1000);
    assert!(origin.limit.slots() < 10, "{}", origin.limit.slots());
}

#[test]
fn clients_that_all_leave_lower_it_and_answers_bring_it_back() {
    let mut origin = Origin::new(Bounds::default());
    origin.serve(20_000, 20, Duration::from_millis(20), End::Served, 1000);
    origin.serve(2_000, 20, Duration::from_millis(20), End::Cancelled, 1000);
    assert!(origin.limit.slots() < 10, "{}", origin.limit.slots());
    origin.serve(20_000, 20, Duration::from_millis(20), End::Served, 1000);
    assert!(origin.limit.slots() >= 17, "{}", origin.limit.slots());
}

/// A limit far too high: clients leave before it binds, so that there is always a free slot.
#[test]
fn clients_that_all_leave_lower_a_limit_that_does_not_bind() {
    let settings = Bounds { slots_start: 1000, ..Bounds::default() };
    let mut limit = AdaptiveLimit::new(settings);
    let load = OriginLoad { running: 100, waiting: 0 };
    for milli in 0..100 {
        let begun = Moment::from_millis(milli);
        limit.pass(begun, load.running - 1);
        let end = begun + Duration::from_secs(1);
        limit.finished(&completion(end, begun, &Outcome::without_answer(End::Cancelled), load));
    }
    assert!(limit.slots() <= 50, "{}", limit.slots());
}

#[test]
fn a_limit_that_never_binds_never_moves() {
    let mut limit = AdaptiveLimit::new(Bounds::default());
    let before = limit.slots();
    let load = OriginLoad { running: before - 1, waiting: 0 };
    for milli in 0..100_000 {
        let begun = Moment::from_millis(milli);
        limit.pass(begun, load.running - 1);
        let end = begun + Duration::from_micros(900);
        let outcome = Outcome {
            end: End::Served,
            first_byte: Some(Duration::from_micros(900)),
            bytes: 0,
            left: None,
        };
        assert_eq!(limit.finished(&completion(end, begun, &outcome, load)), None);
    }
    assert_eq!(limit.slots(), before);
}

#[test]
fn a_limit_that_is_hardly_known_comes_down_to_what_is_used() {
    let mut origin = Origin::new(Bounds::default());
    origin.serve(120, 1000, Duration::from_millis(20), End::Served, 1000);
    assert!(origin.limit.slots() > 40, "{}", origin.limit.slots());
    origin.idle(200, 29);
    assert_eq!(origin.limit.slots(), 30);
    origin.idle(200, 3);
    assert_eq!(origin.limit.slots(), Bounds::default().slots_start);
}

#[test]
fn a_limit_that_is_known_stays_while_it_is_not_used() {
    let mut origin = Origin::new(Bounds::default());
    origin.serve(50_000, 50, Duration::from_millis(20), End::Served, 1000);
    let before = origin.limit.slots();
    origin.idle(1_000, 3);
    assert_eq!(origin.limit.slots(), before);
}

/// Of so many clients that each ask again at once, the mean number at the origin in the last of so many
/// answers, while it has so few workers.
fn clients(origin: &mut Origin, clients: u32, workers: u32, answers: u32) -> f64 {
    let service = Duration::from_millis(20);
    let mut sum = 0;
    for _ in 0..answers {
        let running = origin.limit.slots().min(clients);
        while origin.running < running {
            origin.running += 1;
            origin.begun.push(origin.now);
            origin.limit.pass(origin.now, origin.running - 1);
        }
        origin.now = origin.now + service / workers.min(origin.running).max(1);
        let begun = origin.begun.remove(0);
        let outcome = Outcome { end: End::Served, first_byte: None, bytes: 0, left: None };
        let waiting = clients - origin.running.min(clients);
        origin.limit.finished(&completion(origin.now, begun, &outcome, origin.load(waiting)));
        origin.running -= 1;
        sum += origin.running;
    }
    f64::from(sum) / f64::from(answers)
}

#[test]
fn a_limit_that_too_few_clients_fill_comes_down_when_capacity_is_lost() {
    let mut origin = Origin::new(Bounds::default());
    origin.serve(100_000, 100, Duration::from_millis(20), End::Served, 1000);
    let before = f64::from(origin.limit.slots());
    assert!((85.0..150.0).contains(&before), "{before}");
    // Fifty clients that 100 workers serve at once never fill it, and need not.
    let many = clients(&mut origin, 50, 100, 50_000);
    assert!(many > 45.0 && f64::from(origin.limit.slots()) > 85.0, "{many} at once");
    // With ten workers they still do not, and 40 of them wait at the origin.
    clients(&mut origin, 50, 10, 10_000);
    let few = clients(&mut origin, 50, 10, 10_000);
    assert!((9.0..14.0).contains(&few), "{few} at the origin, which can work on ten");
}

/// Twenty workers; one class's requests take nine times as long as the other's, and its share of the
/// requests swings. Mean limit; `told`: which class a request is of.
fn swinging(seed: u64, told: bool) -> f64 {
    let mut limit = AdaptiveLimit::new(Bounds::default());
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut now, mut busy, mut queue) = (Moment::ZERO, Vec::new(), VecDeque::new());
    let (mut ends, mut slots) = (0_u32, 0_u64);
    let load = |running: usize| OriginLoad { running: running as u32, waiting: 1000 };
    while ends < 60_000 {
        while busy.len() + queue.len() < limit.slots() as usize {
            let share = 0.5 + 0.45 * (f64::from(ends) / 2_000.0).sin();
            queue.push_back((now, rng.f64() < share));
            limit.pass(now, (busy.len() + queue.len()) as u32 - 1);
        }
        while busy.len() < 20
            && let Some((begun, slow)) = queue.pop_front()
        {
            let millis = -rng.f64().max(1e-9).ln() * if slow { 90.0 } else { 10.0 };
            busy.push((now + Duration::from_secs_f64(millis / 1e3), begun, slow));
        }
        let next = (0..busy.len()).min_by_key(|&place| busy[place].0).expect("somebody is served");
        let running = load(busy.len() + queue.len());
        let (end, begun, slow) = busy.swap_remove(next);
        now = end;
        let class = ClassId(u16::from(slow && told));
        let outcome = Outcome { end: End::Served, first_byte: None, bytes: 0, left: None };
        limit.finished(&Completion {
            class,
            lane: LaneId(class.0.into()),
            ..completion(now, begun, &outcome, running)
        });
        ends += 1;
        slots += u64::from(limit.slots()) * u64::from(ends > 20_000);
    }
    slots as f64 / 40_000.0
}

#[test]
fn a_mixture_that_swings_is_no_change_of_the_origin() {
    let over = |told| (1..=6).map(|seed| swinging(seed, told) - 20.0).sum::<f64>() / 6.0;
    let (told, untold) = (over(true), over(false));
    assert!(told < 4.0 && told < 0.7 * untold, "{told} slots too many, {untold} without classes");
}

/// An origin of sixteen workers that has become one of eight, served until the limit is known again.
fn halved() -> Origin {
    halved_after(20_000)
}

/// The same after so many requests.
fn halved_after(requests: u32) -> Origin {
    let mut origin = Origin::new(Bounds::default());
    origin.serve(requests, 16, Duration::from_millis(40), End::Served, 1000);
    let before = origin.limit.slots();
    assert!((13..=25).contains(&before), "{before} before");
    origin.serve(4_000, 8, Duration::from_millis(40), End::Served, 1000);
    origin
}

/// Serves requests one by one until the limit begins to look far above what eight workers need.
fn until_it_looks(origin: &mut Origin) -> Moment {
    let mut looked = true;
    for _ in 0..20_000 {
        origin.serve(1, 8, Duration::from_millis(40), End::Served, 1000);
        let looks = origin.limit.slots() > 12;
        if looks && !looked {
            return origin.now;
        }
        looked = looks;
    }
    panic!("the limit stays at {}", origin.limit.slots());
}

/// Whether the limit, which comes from there, stays in the neighbourhood of what is right for sixteen workers.
fn is_known_again_at_once(mut origin: Origin) -> bool {
    until_it_looks(&mut origin);
    origin.serve(400, 16, Duration::from_millis(40), End::Served, 1000);
    (0..4_000).all(|_| {
        origin.serve(1, 16, Duration::from_millis(40), End::Served, 1000);
        (13..=22).contains(&origin.limit.slots())
    })
}

/// Without a search, that is; the search after a change goes to half and to one and a half times as many.
#[test]
fn capacity_that_is_back_is_known_again_at_once() {
    let known = (0..40).filter(|n| is_known_again_at_once(halved_after(20_000 + 37 * n))).count();
    assert!(known >= 26, "{known} of 40 times");
}

#[test]
fn a_look_that_clients_do_not_bear_does_no_harm() {
    let mut origin = halved();
    let (begun, mut looks, mut before) = (origin.now, 0, 8);
    while origin.now.since(begun) < Duration::from_secs(600) {
        let end = if before > 12 { End::Cancelled } else { End::Served };
        origin.serve(1, 8, Duration::from_millis(40), end, 1000);
        let slots = origin.limit.slots();
        assert!(slots >= 6, "{slots} slots after {looks} looks");
        looks += u32::from(slots > 12 && before <= 12);
        before = slots;
    }
    assert!((5..60).contains(&looks), "{looks} looks in ten minutes");
}

#[test]
fn a_look_that_nobody_needs_ends_by_itself() {
    let mut origin = halved();
    until_it_looks(&mut origin);
    origin.idle(100, 3);
    let found = origin.limit.slots();
    assert!((7..=11).contains(&found), "{found} two seconds later");
}

#[test]
fn bounds_hold_whatever_happens() {
    let settings = Bounds { slots_min: 5, slots_max: 20, slots_start: 1 };
    for (workers, service) in [
        (1, Duration::from_millis(10)),
        (10_000, Duration::from_millis(10)),
        (3, Duration::ZERO),
        (3, Duration::from_secs(86_400)),
    ] {
        let mut origin = Origin::new(settings.clone());
        for end in End::ALL {
            origin.serve(2_000, workers, service, end, 10);
            assert!((5..=20).contains(&origin.limit.slots()));
        }
    }
}

#[test]
fn each_step_says_why() {
    let mut limit = AdaptiveLimit::new(Bounds::default());
    let mut now = Moment::ZERO;
    let mut causes = Vec::new();
    for _ in 0..100_000 {
        let load = OriginLoad { running: limit.slots(), waiting: 100 };
        limit.pass(now, load.running - 1);
        let begun = now;
        now = now + Duration::from_millis(10) / limit.slots().min(30);
        let outcome = Outcome { end: End::Served, first_byte: None, bytes: 0, left: None };
        let before = limit.slots();
        if let Some(step) = limit.finished(&completion(now, begun, &outcome, load)) {
            assert_eq!(step.slots, limit.slots());
            assert_ne!(step.slots, before);
            assert!(
                step.cause != Cause::Grew || step.slots > before || causes.contains(&Cause::Probed)
            );
            causes.push(step.cause);
        }
    }
    assert!(causes.contains(&Cause::Grew) && causes.contains(&Cause::Probed));
    assert!(!causes.contains(&Cause::Failures));
}
