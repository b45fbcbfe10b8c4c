//! The adaptive limit at the edges: what is no evidence, bounds, zero and huge durations.

use std::time::Duration;
use tiergate_core::control::adaptive::{AdaptiveLimit, Cause, Load, Settings};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::time::Moment;

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
    fn new(settings: Settings) -> Self {
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
                self.limit.admitted(self.now, self.load(waiting));
            }
            self.now = self.now + service / workers.min(self.running).max(1);
            let begun = self.begun.remove(0);
            let outcome = Outcome {
                end,
                first_byte: (end == End::Served).then(|| self.now.since(begun)),
                bytes: 0,
            };
            self.limit.finished(self.now, begun, &outcome, self.load(waiting));
            self.running -= 1;
            self.slots += u64::from(self.limit.slots());
        }
    }

    fn load(&self, waiting: u32) -> Load {
        Load { running: self.running, waiting }
    }
}

#[test]
fn settles_near_the_knee_from_far_below_and_far_above() {
    for (start, workers) in [(1, 100), (1000, 10), (10, 1), (10, 400)] {
        let mut origin = Origin::new(Settings { slots_start: start, ..Settings::default() });
        origin.serve(200_000, workers, Duration::from_millis(10), End::Served, 1000);
        let (least, most) = (workers * 85 / 100, (workers * 13).div_ceil(10) + 1);
        let found = origin.limit.slots();
        assert!((least..=most).contains(&found), "{workers} workers: {found}");
    }
}

#[test]
fn lasting_saturation_does_not_move_it() {
    let mut origin = Origin::new(Settings::default());
    for round in 0..50 {
        origin.slots = 0;
        origin.serve(50_000, 50, Duration::from_millis(10), End::Served, 1000);
        let mean = origin.slots / 50_000;
        assert!((47..=60).contains(&mean), "round {round}: {mean}");
    }
}

#[test]
fn follows_the_capacity_both_ways() {
    let mut origin = Origin::new(Settings::default());
    for (workers, within) in [(50, 42..=66), (10, 8..=15), (100, 85..=132), (1, 1..=2)] {
        origin.serve(20_000, workers, Duration::from_millis(20), End::Served, 1000);
        let found = origin.limit.slots();
        assert!(within.contains(&found), "{workers} workers: {found}");
    }
}

#[test]
fn errors_and_fast_failures_are_no_evidence() {
    for end in [End::Error, End::Failed] {
        let mut origin = Origin::new(Settings::default());
        origin.serve(20_000, 20, Duration::from_millis(20), End::Served, 1000);
        let before = origin.limit.slots();
        origin.serve(100_000, 1000, Duration::from_micros(100), end, 1000);
        assert_eq!(origin.limit.slots(), before, "{end:?}");
    }
}

#[test]
fn clients_that_all_leave_lower_it_and_answers_bring_it_back() {
    let mut origin = Origin::new(Settings::default());
    origin.serve(20_000, 20, Duration::from_millis(20), End::Served, 1000);
    origin.serve(2_000, 20, Duration::from_millis(20), End::Cancelled, 1000);
    assert!(origin.limit.slots() < 10, "{}", origin.limit.slots());
    origin.serve(20_000, 20, Duration::from_millis(20), End::Served, 1000);
    assert!(origin.limit.slots() >= 17, "{}", origin.limit.slots());
}

/// A limit far too high: clients leave before it binds, so that there is always a free slot.
#[test]
fn clients_that_all_leave_lower_a_limit_that_does_not_bind() {
    let settings = Settings { slots_start: 1000, ..Settings::default() };
    let mut limit = AdaptiveLimit::new(settings);
    let load = Load { running: 100, waiting: 0 };
    for milli in 0..100 {
        let begun = Moment::from_millis(milli);
        limit.admitted(begun, load);
        let end = begun + Duration::from_secs(1);
        limit.finished(end, begun, &Outcome::without_answer(End::Cancelled), load);
    }
    assert!(limit.slots() <= 50, "{}", limit.slots());
}

#[test]
fn a_limit_that_never_binds_never_moves() {
    let mut limit = AdaptiveLimit::new(Settings::default());
    let before = limit.slots();
    let load = Load { running: before - 1, waiting: 0 };
    for milli in 0..100_000 {
        let begun = Moment::from_millis(milli);
        limit.admitted(begun, load);
        let end = begun + Duration::from_micros(900);
        let outcome =
            Outcome { end: End::Served, first_byte: Some(Duration::from_micros(900)), bytes: 0 };
        assert_eq!(limit.finished(end, begun, &outcome, load), None);
    }
    assert_eq!(limit.slots(), before);
}

#[test]
fn bounds_hold_whatever_happens() {
    let settings = Settings { slots_min: 5, slots_max: 20, slots_start: 1 };
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
    let mut limit = AdaptiveLimit::new(Settings::default());
    let mut now = Moment::ZERO;
    let mut causes = Vec::new();
    for _ in 0..100_000 {
        let load = Load { running: limit.slots(), waiting: 100 };
        limit.admitted(now, load);
        let begun = now;
        now = now + Duration::from_millis(10) / limit.slots().min(30);
        let outcome = Outcome { end: End::Served, first_byte: None, bytes: 0 };
        let before = limit.slots();
        if let Some(step) = limit.finished(now, begun, &outcome, load) {
            assert_eq!(step.slots, limit.slots());
            assert_ne!(step.slots, before);
            assert!(
                step.cause != Cause::Grew || step.slots > before || causes.contains(&Cause::Probed)
            );
            causes.push(step.cause);
        }
    }
    assert!(causes.contains(&Cause::Grew) && causes.contains(&Cause::Probed));
    assert!(!causes.contains(&Cause::Lost));
}
