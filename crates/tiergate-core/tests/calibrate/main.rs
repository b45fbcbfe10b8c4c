//! Calibration against simulated servers whose capacity and bottleneck are known: right for every one that is drawn.
//!
//! `TIERGATE_SEEDS=2000` draws as many.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "tests say what they measured, and are told how long to run"
)]

mod plant;

use fastrand::Rng;
use plant::{Plant, Running, Spread, truth};
use std::time::Duration;
use tiergate_core::calibrate::{
    Bottleneck, Capacity, End, Order, Ramp, Settings, Slice, Usage, bottleneck, capacity,
};

/// Slices as the program takes them.
const SLICE: Duration = Duration::from_millis(250);

/// Carries a ramp out; returns it, why it ended, and the most requests that were in progress.
fn carry_out(plant: Plant, settings: Settings) -> (Ramp, End, u32) {
    let (mut running, mut ramp) = (Running::new(plant), Ramp::new(settings));
    running.concurrency(ramp.concurrency());
    let mut most = ramp.concurrency();
    loop {
        match ramp.take(&running.slice(SLICE)) {
            Order::GoOn => {}
            Order::Concurrency(concurrency) => {
                running.concurrency(concurrency);
                most = most.max(concurrency);
            }
            Order::End(end) => return (ramp, end, most),
        }
        assert!(ramp.elapsed() <= settings.time_max + SLICE, "it is longer than it may be");
    }
}

fn result(ramp: &Ramp) -> Capacity {
    capacity(ramp.steps(), ramp.went_back()).expect("something was answered")
}

fn found(capacity: &Capacity) -> Bottleneck {
    bottleneck(&capacity.usage, &Usage::default(), true, 2).what
}

/// A plant and what bounds it. What comes second is at least a fifth away; a knee of 2 to 100; 40 to 2,000 requests a second.
fn drawn(seed: u64) -> (Plant, Bottleneck) {
    let mut random = Rng::with_seed(seed);
    let mut between = |low: f64, high: f64| low * (high / low).powf(random.f64());
    let rate = between(40.0, 2000.0);
    let spread = [Spread::Constant, Spread::Exponential, Spread::Bimodal][seed as usize % 3];
    // What the others could do, in requests a second.
    let [second, third] = [between(1.25, 20.0), between(1.25, 20.0)].map(|more| rate * more);
    let processors = [1, 2, 4, 8][(seed / 3) as usize % 4];
    let away = between(0.05, 8.0) / rate;
    let base = Plant { processors, spread, seed, away_s: away.min(0.05), ..Plant::default() };
    match seed / 12 % 3 {
        0 => {
            let cpu_s = processors as f64 / rate;
            let link_s = 1.0 / second;
            (Plant { cpu_s, link_s, wait_s: away, ..base }, Bottleneck::Processors)
        }
        1 => {
            let (link_s, cpu_s) = (1.0 / rate, processors as f64 / second);
            (Plant { link_s, cpu_s, ..base }, Bottleneck::Link)
        }
        _ => {
            let workers = between(1.0, 60.0) as usize;
            let (link_s, cpu_s) =
                (1.0 / second, (processors as f64 / third).min(0.5 * workers as f64 / rate));
            let wait_s = (workers as f64 / rate - cpu_s).max(0.0);
            (Plant { workers, link_s, cpu_s, wait_s, ..base }, Bottleneck::Concurrency)
        }
    }
}

#[test]
fn capacity_and_bottleneck_of_every_plant() {
    let seeds: u64 =
        std::env::var("TIERGATE_SEEDS").ok().and_then(|it| it.parse().ok()).unwrap_or(144);
    let (mut wrong, mut worst) = (Vec::new(), 0.0f64);
    for seed in 0..seeds {
        let (plant, right) = drawn(seed);
        let (ramp, end, most) = carry_out(plant, Settings::default());
        let (found_capacity, truth) = (result(&ramp), truth(plant));
        let off = found_capacity.rate.value / truth - 1.0;
        worst = worst.max(off.abs());
        let what = found(&found_capacity);
        let knee = found_capacity.knee.concurrency;
        let fine = off.abs() <= 0.1 && what == right && end == End::Saturated;
        // It stops at the first step that brings nothing: past the knee by a factor of two, or four where it is rounded.
        if !fine || most > 8 * knee || !found_capacity.is_steady {
            let rates: Vec<_> =
                ramp.steps().iter().map(|it| (it.concurrency, it.rate().round())).collect();
            wrong.push(format!(
                "seed {seed}: {off:+.3} of {truth:.0}/s, {what:?} for {right:?}, {end:?}, knee {knee}, most {most}, \
                 after {:?}\n  {plant:?}\n  {rates:?} {:?}",
                found_capacity.after, found_capacity.usage
            ));
        }
    }
    println!("{seeds} plants, the worst off by {worst:.3}");
    assert!(wrong.is_empty(), "{} of {seeds}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn workers_tell_the_knee() {
    for workers in [1, 2, 5, 8, 13, 40, 100] {
        let plant = Plant { workers, wait_s: 0.04, spread: Spread::Constant, ..Plant::default() };
        let (ramp, end, most) = carry_out(plant, Settings::default());
        let capacity = result(&ramp);
        let knee = f64::from(capacity.knee.concurrency);
        let truth = workers as f64 / 0.04;
        assert_eq!(end, End::Saturated);
        assert!((capacity.rate.value / truth - 1.0).abs() < 0.05, "{workers}: {capacity:?}");
        assert!((0.9..=1.3).contains(&(knee / workers as f64)), "{workers}: {knee}");
        assert!(most <= 4 * workers as u32, "{workers}: {most}");
    }
}

#[test]
fn an_origin_that_refuses_is_not_pushed_further() {
    let plant = Plant { workers: 50, wait_s: 0.05, refuses_beyond: 9, ..Plant::default() };
    let (ramp, end, most) = carry_out(plant, Settings::default());
    let capacity = result(&ramp);
    assert_eq!((end, most), (End::Refused, 16));
    let knee = capacity.knee.concurrency;
    assert!((8..=9).contains(&knee), "{knee}");
    assert!((capacity.rate.value / (f64::from(knee) / 0.0502) - 1.0).abs() < 0.1, "{capacity:?}");
    let always = Plant { wait_s: 0.05, refuses_beyond: 0, ..Plant::default() };
    assert_eq!(carry_out(always, Settings::default()).1, End::Refused);
}

#[test]
fn an_origin_that_becomes_slower_is_told() {
    for seed in 0..20 {
        let plant = Plant { workers: 16, wait_s: 0.02, slower: 0.1, seed, ..Plant::default() };
        let (ramp, _, most) = carry_out(plant, Settings::default());
        assert!(!result(&ramp).is_steady, "{seed}: {:?}", result(&ramp));
        assert!(most <= 32, "{most}");
    }
}

#[test]
fn bounds_end_it() {
    let plant = Plant { wait_s: 0.05, ..Plant::default() };
    let end = |settings| {
        let (ramp, end, most) = carry_out(plant, settings);
        (end, most, ramp.elapsed(), ramp.requests())
    };
    let usual = Settings::default();
    let (why, most, ..) = end(Settings { concurrency_max: 12, ..usual });
    assert_eq!((why, most), (End::Concurrency, 12));
    let (why, _, elapsed, _) = end(Settings { time_max: Duration::from_secs(9), ..usual });
    assert_eq!(why, End::Time);
    assert!(elapsed <= Duration::from_secs(9) + SLICE);
    let (why, _, _, requests) = end(Settings { requests_max: 500, ..usual });
    assert_eq!(why, End::Requests);
    assert!(requests < 600, "{requests}");
    let (why, ..) = end(Settings { rate_max: 200.0, ..usual });
    assert_eq!(why, End::Rate);
}

#[test]
fn nothing_that_is_measured_makes_it_panic_or_go_on_for_ever() {
    let mut random = Rng::with_seed(7);
    for _ in 0..2000 {
        let mut ramp = Ramp::new(Settings::default());
        let (most, bad) = (random.u64(0..2000), random.u8(0..8));
        let mut slices = 0;
        while !matches!(ramp.take(&any(&mut random, most, bad)), Order::End(_)) {
            slices += 1;
            assert!(ramp.concurrency() >= 1 && ramp.concurrency() <= 256, "{ramp:?}");
            assert!(slices <= 480, "longer than two minutes");
        }
        if let Some(capacity) = capacity(ramp.steps(), ramp.went_back()) {
            assert!(capacity.rate.value.is_finite() && capacity.rate.error.is_finite());
            assert!(capacity.rate.value > 0.0, "{capacity:?}");
        }
    }
}

/// A slice of anything.
fn any(random: &mut Rng, most: u64, bad: u8) -> Slice {
    let answered = random.u64(0..=most);
    let some = |random: &mut Rng, bit: u8| if bad & bit != 0 { random.u64(0..3) } else { 0 };
    Slice {
        length: SLICE,
        answered,
        refused: some(random, 1),
        failed: some(random, 2) / 2,
        bytes: answered * random.u64(0..10_000),
        cycles: Duration::from_micros(random.u64(0..1_000_000)),
        latencies: vec![Duration::from_micros(random.u64(0..1_000_000)); answered.min(3) as usize],
        ..Slice::default()
    }
}
