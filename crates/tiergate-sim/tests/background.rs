//! What background classes must be: unfelt by the foreground, and served with what that leaves.
//!
//! The law's constants were chosen with seeds below 300.

#![allow(clippy::disallowed_macros, reason = "tests say what they measured")]

use std::ops::RangeInclusive;
use tiergate_sim::client::{Arrivals, Population, Profile};
use tiergate_sim::compare::{Subject, saturated, subjects};
use tiergate_sim::distribution::Distribution;
use tiergate_sim::report::Phase;
use tiergate_sim::run;
use tiergate_sim::scenario::{ClassShape, LimitKind, Scenario};
use tiergate_sim::server::OfClass;

/// Nothing was tuned on these.
const SEEDS: RangeInclusive<u64> = 301..=305;
/// After so many seconds it must have settled, and then it is judged for so many.
const SETTLED_S: f64 = 60.0;
const JUDGED_S: f64 = 120.0;

/// A foreground that asks for this part of what the server can do, and a background that asks for everything.
fn scenario(subject: &Subject, part: f64, limit: LimitKind, background: bool) -> Scenario {
    let mut scenario = saturated(subject, part, limit, SETTLED_S + JUDGED_S);
    scenario.cuts_s = vec![SETTLED_S];
    let class = scenario.class[0].clone();
    scenario.class.push(ClassShape {
        name: "background".to_owned(),
        deadline_ms: 600_000.0,
        background,
        ..class
    });
    scenario
}

/// The same with so many users of the background, who ask again as soon as they are answered.
fn with_users(mut scenario: Scenario, users: u32) -> Scenario {
    let think = Distribution::NONE;
    let users = Arrivals::Closed { users, think };
    scenario.population.push(Population::of("background", users, 600_000.0));
    scenario
}

struct Seen {
    median_ms: f64,
    p99_ms: f64,
    foreground: f64,
    background: f64,
}

fn seen(scenario: &Scenario, seed: u64) -> Seen {
    let phase: Phase = run(scenario, seed).phases.swap_remove(1);
    let [foreground, background] = [&phase.classes[0], &phase.classes[1]];
    Seen {
        median_ms: foreground.total.quantile_ms(0.5),
        p99_ms: foreground.total.quantile_ms(0.99),
        foreground: foreground.good as f64 / phase.seconds(),
        background: background.good as f64 / phase.seconds(),
    }
}

/// What is seen without a background, with one, and with a class that is only last, before a server, with a foreground that asks for a part of
/// what it can do; as medians over seeds that nothing was tuned on.
struct Compared {
    median: f64,
    p99: f64,
    /// Of what the foreground leaves, as much as the background got.
    share: f64,
    /// The foreground's median with a class that is only last.
    only_last: f64,
}

fn compared(subject: &Subject, part: f64) -> Compared {
    let all = SEEDS.map(|seed| {
        let plain = scenario(subject, part, LimitKind::Adaptive, true);
        let alone = seen(&plain, seed);
        let with = seen(&with_users(plain, 200), seed);
        let only_last = scenario(subject, part, LimitKind::Adaptive, false);
        let only_last = seen(&with_users(only_last, 200), seed);
        [
            with.median_ms / alone.median_ms,
            with.p99_ms / alone.p99_ms,
            with.background / (subject.capacity - alone.foreground),
            only_last.median_ms / alone.median_ms,
        ]
    });
    let all: Vec<[f64; 4]> = all.collect();
    let [median, p99, share, only_last] = [0, 1, 2, 3].map(|place| {
        let mut values: Vec<f64> = all.iter().map(|it| it[place]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    });
    println!(
        "{:14} {part:4}: median {median:.2} p99 {p99:.2} share {share:.2}; only last {only_last:.2}",
        subject.name
    );
    Compared { median, p99, share, only_last }
}

/// Servers that others are not felt on until they are many: of workers, of processors, of both.
#[test]
fn it_is_not_felt_and_uses_what_is_idle() {
    for subject in
        subjects().iter().filter(|it| matches!(it.name, "cpu 8 cores" | "32 workers" | "i/o"))
    {
        for part in [0.1, 0.65] {
            let found = compared(subject, part);
            let Compared { median, p99, share, only_last } = found;
            assert!(median <= 1.1 && p99 <= 1.2, "{} {part}: {median} {p99}", subject.name);
            assert!(share >= 0.2, "{} {part}: {share}", subject.name);
            assert!(only_last > 1.1, "{} {part}: {only_last}", subject.name);
        }
    }
}

/// Where whatever runs beside is felt, it gets little.
#[test]
fn it_stays_away_where_it_would_be_felt() {
    for subject in subjects().iter().filter(|it| matches!(it.name, "1 worker" | "4 workers")) {
        let Compared { median, p99, share, only_last } = compared(subject, 0.65);
        assert!(median <= 1.2 && p99 <= 1.35, "{}: {median} {p99}", subject.name);
        assert!(share >= 0.02 && only_last > 1.5, "{}: {share} {only_last}", subject.name);
    }
}

/// The foreground comes and goes: what is idle meanwhile is used.
#[test]
fn it_has_the_server_while_nobody_else_is_there() {
    let subject = &subjects()[1];
    let mut plain = scenario(subject, 0.3, LimitKind::Fixed(32), true);
    let asks = 0.3 * subject.capacity;
    let step = |n: u32| [10.0 * f64::from(n), if n.is_multiple_of(2) { asks } else { 0.0 }];
    let rate = Profile::Points { points: (0..19).map(step).collect(), ramp: false };
    plain.population[0].arrivals = Arrivals::Poisson { rate };
    let alone = seen(&plain, 101);
    let with = seen(&with_users(plain, 200), 101);
    let median = with.median_ms / alone.median_ms;
    // 28 of the 32 slots for half of the time.
    let share = with.background / (0.5 * subject.capacity * 28.0 / 32.0);
    println!("median {median:.2} share {share:.2}");
    assert!(median <= 1.1 && share >= 0.9, "{median} {share}");
}

/// Beside a foreground that is light, how much longer its median is, and how much of what the server could work on of the background, in the last minutes of so many seconds; medians over seeds. Requests of the background
/// take so long.
fn beside_few(rate: &Profile, background_ms: f64, seconds: f64) -> (f64, f64) {
    let subject = &subjects()[1];
    let workers = 32.0;
    let mut plain = scenario(subject, 1.0, LimitKind::Adaptive, true);
    let wait = Distribution::Exponential { mean_ms: background_ms };
    let class = "background".to_owned();
    plain.server.of.push(OfClass { class, wait, cpu: Distribution::NONE });
    plain.population[0].arrivals = Arrivals::Poisson { rate: rate.clone() };
    (plain.seconds, plain.cuts_s) = (seconds, vec![seconds - JUDGED_S]);
    let all = SEEDS.map(|seed| {
        let alone = seen(&plain, seed);
        let with = seen(&with_users(plain.clone(), 200), seed);
        (with.median_ms / alone.median_ms, with.background * background_ms / 1e3 / workers)
    });
    let (mut medians, mut shares): (Vec<f64>, Vec<f64>) = all.unzip();
    medians.sort_by(f64::total_cmp);
    shares.sort_by(f64::total_cmp);
    let place = medians.len() / 2;
    println!("{background_ms} ms: median {:.2} share {:.2}", medians[place], shares[place]);
    (medians[place], shares[place])
}

/// So few come that it takes long to tell what they feel: what is idle is used all the same.
#[test]
fn it_uses_what_is_idle_where_few_others_come() {
    for rate in [3.0, 10.0] {
        for background_ms in [20.0, 800.0] {
            let (median, share) = beside_few(&Profile::Flat(rate), background_ms, 600.0);
            assert!(median <= 1.25 && share >= 0.15, "{rate} {background_ms}: {median} {share}");
        }
    }
}

/// A page of some dozen requests at a time. With what is in progress while nobody is there, each page would wait until some of that is over.
#[test]
fn it_expects_those_who_come_a_page_at_a_time() {
    let pages = |apart: f64| {
        let page = |n: u32| [[apart * f64::from(n), 130.0], [apart * f64::from(n) + 0.1, 0.0]];
        Profile::Points { points: (0..120).flat_map(page).collect(), ramp: false }
    };
    let (median, share) = beside_few(&pages(5.0), 800.0, 600.0);
    assert!(median <= 1.25 && share >= 0.15, "{median} {share}");
    // Few pages: that it gets something is enough.
    let (median, share) = beside_few(&pages(15.0), 800.0, 600.0);
    assert!(median <= 1.5 && share >= 0.02, "{median} {share}");
}
