//! Overload of random servers: what the important class gets with Tiergate, without it, and alone.

use crate::client::{Arrivals, Population, Profile};
use crate::compare::{Subject, saturated};
use crate::distribution::Distribution;
use crate::report::Phase;
use crate::run;
use crate::scenario::{LimitKind, Scenario};
use crate::server::Shape;
use fastrand::Rng;
use tiergate_draw::{Paint, Table};

/// A random server and its load.
#[derive(Clone, Debug)]
pub struct Case {
    /// The random server with workers, first come first served.
    pub subject: Subject,
    /// The important class's share of the capacity.
    pub important: f64,
}

/// What came out of one case.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Goodput of both classes over the capacity.
    pub goodput: f64,
    /// Goodput over that of a fixed limit of as many slots as there are workers.
    pub goodput_fixed: f64,
    /// Share of the important class's requests that were answered.
    pub important_good: f64,
    /// 99th percentile of the important class over that of the class alone at the same server.
    pub p99_ratio: f64,
    /// The same, in service times of the server's mean.
    pub p99_added: f64,
    /// Share of the important class's requests that were answered without Tiergate.
    pub without_good: f64,
    /// Goodput without Tiergate over the capacity.
    pub without_goodput: f64,
}

/// Seconds before the measurement.
const BEFORE_S: f64 = 5.0;
/// Shortest and longest measurement, seconds.
const MEASURED_S: (f64, f64) = (15.0, 300.0);
/// Requests of the important class in a measurement: 30 of them are slower than its p99. Sixty, as a
/// small server gets in 15 s, would say nothing: there the p99 is the slowest.
const MEASURED_REQUESTS: f64 = 3000.0;

/// Draws a case: 4 to 200 workers, service of 5 to 100 ms on average by one of four distributions, at
/// most 4,000 requests/s.
pub fn draw(seed: u64) -> Case {
    let mut rng = Rng::with_seed(seed ^ 0x0076_6572_6c6f_6164);
    let workers = (4.0 * (50_f64).powf(rng.f64())).round() as u32;
    let drawn_ms = 5.0 * (20_f64).powf(rng.f64());
    let mean_ms = drawn_ms.max(f64::from(workers) / 4.0);
    let capacity = 1e3 * f64::from(workers) / mean_ms;
    let service = match rng.u32(0..4) {
        0 => Distribution::Uniform { low_ms: 0.9 * mean_ms, high_ms: 1.1 * mean_ms },
        1 => Distribution::Exponential { mean_ms },
        2 => Distribution::Lognormal { mean_ms, cv: 0.5 + rng.f64() },
        _ => Distribution::Bimodal {
            // A tenth takes ten times as long.
            short_ms: mean_ms / 1.9,
            long_ms: mean_ms / 0.19,
            long_share: 0.1,
        },
    };
    Case {
        subject: Subject {
            name: "random workers",
            shape: Shape::workers(workers, service),
            capacity,
        },
        important: 0.1 + 0.4 * rng.f64(),
    }
}

/// Overloads the case's server `times` its capacity.
pub fn overload(case: &Case, times: f64, limit: LimitKind, seed: u64) -> Outcome {
    let with = measure(case, times, limit, seed);
    let fixed = case.subject.shape.workers.map_or(LimitKind::None, LimitKind::Fixed);
    let fixed = measure(case, times, fixed, seed);
    let without = measure(case, times, LimitKind::None, seed);
    let alone = measure(case, case.important, LimitKind::None, seed);
    let capacity = case.subject.capacity;
    let p99 = |phase: &Phase| phase.classes[0].total.quantile_ms(0.99);
    Outcome {
        goodput: with.goodput() / capacity,
        goodput_fixed: with.goodput() / fixed.goodput(),
        important_good: with.classes[0].good_share(),
        p99_ratio: p99(&with) / p99(&alone),
        p99_added: (p99(&with) - p99(&alone)) / (1e3 * case.subject.shape.wait.mean()),
        without_good: without.classes[0].good_share(),
        without_goodput: without.goodput() / capacity,
    }
}

fn measure(case: &Case, times: f64, limit: LimitKind, seed: u64) -> Phase {
    run(&scenario_of(case, times, limit), seed).phases.swap_remove(1)
}

/// The case's server with two classes of clients; the second phase counts.
pub fn scenario_of(case: &Case, times: f64, limit: LimitKind) -> Scenario {
    let measured_s = MEASURED_REQUESTS / (case.subject.capacity * case.important);
    let measured_s = measured_s.clamp(MEASURED_S.0, MEASURED_S.1);
    let mut scenario: Scenario = saturated(&case.subject, 1.0, limit, BEFORE_S + measured_s);
    scenario.cuts_s = vec![BEFORE_S];
    let mut less = scenario.class[0].clone();
    "important".clone_into(&mut scenario.class[0].name);
    "other".clone_into(&mut less.name);
    scenario.class.push(less);
    let clients = |class: &str, share: f64| {
        let rate = Profile::Flat(case.subject.capacity * share);
        Population::of(class, Arrivals::Poisson { rate }, 3000.0)
    };
    scenario.population = vec![clients("important", case.important)];
    if times > case.important {
        scenario.population.push(clients("other", times - case.important));
    }
    scenario
}

/// Quantiles over many seeds as a table.
pub fn table(times: f64, limit: LimitKind, seeds: std::ops::Range<u64>) -> (String, Vec<Outcome>) {
    let outcomes = on_two_threads(seeds, |seed| overload(&draw(seed), times, limit, seed));
    let mut table = Table::new(["<", "min", "1 %", "median", "99 %", "max"]);
    type Row = (&'static str, fn(&Outcome) -> f64);
    let rows: [Row; 7] = [
        ("goodput / capacity", |o| o.goodput),
        ("goodput / fixed limit", |o| o.goodput_fixed),
        ("important: good share", |o| o.important_good),
        ("important: p99 / alone", |o| o.p99_ratio),
        ("important: p99 - alone, S", |o| o.p99_added),
        ("without: good share", |o| o.without_good),
        ("without: goodput", |o| o.without_goodput),
    ];
    for (name, value) in rows {
        let mut list: Vec<f64> = outcomes.iter().map(value).collect();
        list.sort_by(f64::total_cmp);
        let at = |quantile: f64| list[((list.len() - 1) as f64 * quantile).round() as usize];
        let cells = [0.0, 0.01, 0.5, 0.99, 1.0].map(|quantile| format!("{:.3}", at(quantile)));
        table.row([name.to_owned()].into_iter().chain(cells));
    }
    let title = format!("{times} times the capacity, {} seeds\n", outcomes.len());
    (title + &table.render(Paint::stdout()), outcomes)
}

/// What `each` gives for every seed, in their order.
fn on_two_threads(
    seeds: std::ops::Range<u64>,
    each: impl Fn(u64) -> Outcome + Sync,
) -> Vec<Outcome> {
    let middle = seeds.start + (seeds.end - seeds.start) / 2;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| (middle..seeds.end).map(&each).collect::<Vec<_>>());
        let mut outcomes: Vec<Outcome> = (seeds.start..middle).map(&each).collect();
        outcomes.extend(other.join().expect("a run does not panic"));
        outcomes
    })
}
