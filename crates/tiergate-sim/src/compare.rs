//! Laws of the limit side by side: each law in front of each server in each situation, against the
//! best fixed limit.
//!
//! The best fixed limit is the smallest that gives at least 98 % of the most throughput that any
//! fixed limit gives, found by search on the same seed. A law is judged by two comparisons with what
//! that fixed limit gives: of goodput, and of mean time in service (below the knee the first falls,
//! above it the second rises), where a few milliseconds more are nothing that a client would notice.

use crate::client::{Arrivals, Population, Profile};
use crate::distribution::Distribution;
use crate::run;
use crate::scenario::{ClassShape, LimitKind, Scenario};
use crate::server::{Shape, Step};
use tiergate_draw::{Paint, Range, Table};

/// A server and what it can take.
#[derive(Clone, Debug)]
pub struct Subject {
    /// What kind of server.
    pub name: &'static str,
    /// The server.
    pub shape: Shape,
    /// Requests/s that it can take.
    pub capacity: f64,
}

/// What happens to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Situation {
    /// Judged from 5 s to 10 s after the first request.
    Cold,
    /// Half the capacity at 20 s, judged from 25 s to 35 s.
    Down,
    /// Twice the capacity at 20 s, judged from 25 s to 35 s.
    Up,
    /// Saturated for 30 minutes, judged in the last one.
    Lasting,
}

impl Situation {
    /// Every situation.
    pub const ALL: [Situation; 4] =
        [Situation::Cold, Situation::Down, Situation::Up, Situation::Lasting];

    /// What the capacity is multiplied by.
    pub fn factor(self) -> f64 {
        match self {
            Situation::Cold | Situation::Lasting => 1.0,
            Situation::Down => 0.5,
            Situation::Up => 2.0,
        }
    }

    fn judged_s(self) -> (f64, f64) {
        match self {
            Situation::Cold => (5.0, 10.0),
            Situation::Down | Situation::Up => (25.0, 35.0),
            Situation::Lasting => (1740.0, 1800.0),
        }
    }
}

/// A law against the best fixed limit.
#[derive(Clone, Copy, Debug)]
pub struct Ratios {
    /// Goodput over the best fixed limit's.
    pub goodput: f64,
    /// Mean time in service over the best fixed limit's.
    pub service: f64,
    /// Mean time in service beyond the best fixed limit's, milliseconds.
    pub longer_ms: f64,
    /// Mean slots.
    pub slots: f64,
}

impl Ratios {
    /// At least 90 % of the goodput, in time.
    pub fn holds(&self) -> bool {
        self.goodput >= 0.9 && self.is_in_time()
    }

    /// At most 1.25 of the time in service, or so little more that nobody notices.
    pub fn is_in_time(&self) -> bool {
        self.service <= 1.25 || self.longer_ms <= UNNOTICED_MS
    }
}

/// So much more time in service is nothing that a client would notice.
const UNNOTICED_MS: f64 = 20.0;

/// The best fixed limit and what it gives.
#[derive(Clone, Copy, Debug)]
pub struct Best {
    /// The limit.
    pub slots: u32,
    /// Good answers a second.
    pub goodput: f64,
    /// Mean time in service.
    pub service_ms: f64,
}

/// The servers that the laws are compared on.
pub fn subjects() -> Vec<Subject> {
    let none = Distribution::NONE;
    let exponential = |mean_ms| Distribution::Exponential { mean_ms };
    let shape = |workers, cores, wait, cpu| {
        let accept_queue = 100_000;
        Shape { workers, cores, wait, cpu, accept_queue, ..Shape::default() }
    };
    let subject = |name, shape, capacity| Subject { name, shape, capacity };
    let uniform = Distribution::Uniform { low_ms: 2.0, high_ms: 6.0 };
    let lognormal = Distribution::Lognormal { mean_ms: 100.0, cv: 0.5 };
    let bimodal = Distribution::Bimodal { short_ms: 2.0, long_ms: 40.0, long_share: 0.1 };
    let mut thrashing = shape(None, Some(8.0), none, exponential(5.0));
    thrashing.knee = Some(30);
    thrashing.thrash = 0.05;
    vec![
        subject("cpu 8 cores", shape(None, Some(8.0), none, exponential(5.0)), 1600.0),
        subject("32 workers", shape(Some(32), None, exponential(20.0), none), 1600.0),
        subject("1 worker", shape(Some(1), None, uniform, none), 250.0),
        subject("4 workers", shape(Some(4), None, uniform, none), 1000.0),
        subject("i/o", shape(Some(1000), Some(4.0), lognormal, exponential(2.0)), 2000.0),
        subject("bimodal", shape(Some(16), None, bimodal, none), 16.0 / 0.0058),
        subject("thrashing", thrashing, 1600.0),
    ]
}

/// A saturated server with one class of clients.
pub fn saturated(subject: &Subject, overload: f64, limit: LimitKind, seconds: f64) -> Scenario {
    Scenario {
        about: subject.name.to_owned(),
        seconds,
        limit,
        class: vec![ClassShape {
            name: "all".to_owned(),
            deadline_ms: 1000.0,
            minimum: 0.0,
            queue_len_max: 10_000,
            refuse_at: Vec::new(),
            target_p99_ms: None,
            resource: None,
            background: false,
        }],
        server: subject.shape.clone(),
        population: vec![Population::of(
            "all",
            Arrivals::Poisson { rate: Profile::Flat(subject.capacity * overload) },
            30_000.0,
        )],
        ..Scenario::default()
    }
}

/// The subject with its capacity multiplied.
pub fn scaled(subject: &Subject, factor: f64) -> Subject {
    let mut scaled = subject.clone();
    let workers = |workers: u32| ((f64::from(workers) * factor).round() as u32).max(1);
    scaled.shape.workers = subject.shape.workers.map(workers);
    scaled.shape.cores = subject.shape.cores.map(|cores| cores * factor);
    // Half a worker is a worker at half the speed.
    scaled.capacity *= factor;
    scaled
}

/// Searches the best fixed limit.
pub fn best_fixed(subject: &Subject, seed: u64) -> Best {
    let give = |slots: u32| {
        let mut scenario = saturated(subject, 2.0, LimitKind::Fixed(slots), 15.0);
        scenario.cuts_s = vec![3.0];
        let phase = run(&scenario, seed).phases.swap_remove(1);
        Best { slots, goodput: phase.goodput(), service_ms: phase.all().service.mean_ms() }
    };
    let mut tried: Vec<Best> = Vec::new();
    let mut slots = 1_u32;
    let mut most = 0.0_f64;
    // Coarsely upward until far beyond the knee, then finely between the last that is too few and
    // the first that suffices.
    while slots <= 2000 {
        let found = give(slots);
        let enough = best_of(&tried, most).slots;
        let past = found.goodput < most * 1.001 && slots > 3 * enough;
        most = most.max(found.goodput);
        tried.push(found);
        if past {
            break;
        }
        slots = (slots + 1).max((f64::from(slots) * 1.3).round() as u32);
    }
    let enough = best_of(&tried, most).slots;
    let too_few = tried.iter().rev().find(|best| best.slots < enough);
    let mut slots = too_few.map_or(1, |best| best.slots) + 1;
    while slots < enough {
        tried.push(give(slots));
        slots = (slots + 1).max((f64::from(slots) * 1.04).round() as u32);
    }
    tried.sort_by_key(|best| best.slots);
    best_of(&tried, most)
}

fn best_of(tried: &[Best], most: f64) -> Best {
    let none = Best { slots: 2000, goodput: 0.0, service_ms: 0.0 };
    tried.iter().copied().find(|found| found.goodput >= 0.98 * most).unwrap_or(none)
}

/// Judges a law.
pub fn judge(
    subject: &Subject,
    situation: Situation,
    limit: LimitKind,
    seed: u64,
    best: &Best,
) -> Ratios {
    let phase = run(&scenario_of(subject, situation, limit), seed).phases.swap_remove(1);
    let service_ms = phase.all().service.mean_ms();
    Ratios {
        goodput: phase.goodput() / best.goodput,
        service: service_ms / best.service_ms,
        longer_ms: service_ms - best.service_ms,
        slots: phase.slots(),
    }
}

/// The scenario in which a law is judged, in the second phase.
pub fn scenario_of(subject: &Subject, situation: Situation, limit: LimitKind) -> Scenario {
    let (from, to) = situation.judged_s();
    let factor = situation.factor();
    let mut scenario = saturated(subject, 1.5 * factor.max(1.0), limit, to);
    scenario.cuts_s = vec![from];
    if factor != 1.0 {
        let after = scaled(subject, factor);
        scenario.server.step.push(Step {
            at_s: 20.0,
            workers: after.shape.workers,
            cores: after.shape.cores,
            speed: None,
        });
    }
    scenario
}

/// Law × server × situation as a table: the worst and the median over the seeds.
pub fn table(
    laws: &[(&str, LimitKind)],
    situations: &[Situation],
    seeds: std::ops::Range<u64>,
) -> String {
    let mut table = Table::new([
        "<server",
        "<situation",
        "best",
        "<law",
        "goodput min",
        "goodput med",
        "service max",
        "service med",
        "slots",
        "holds",
    ]);
    for subject in subjects() {
        for &situation in situations {
            let after = scaled(&subject, situation.factor());
            let bests: Vec<Best> = seeds.clone().map(|seed| best_fixed(&after, seed)).collect();
            for (name, limit) in laws {
                let all: Vec<Ratios> = bests
                    .iter()
                    .zip(seeds.clone())
                    .map(|(best, seed)| judge(&subject, situation, *limit, seed, best))
                    .collect();
                let range = |value: fn(&Ratios) -> f64| {
                    Range::of(all.iter().map(value)).expect("there is a seed at least")
                };
                let (goodput, service) = (range(|r| r.goodput), range(|r| r.service));
                let holds = all.iter().filter(|ratios| ratios.holds()).count();
                table.row([
                    subject.name.to_owned(),
                    format!("{situation:?}").to_lowercase(),
                    bests[all.len() / 2].slots.to_string(),
                    (*name).to_owned(),
                    format!("{:.3}", goodput.min),
                    format!("{:.3}", goodput.median),
                    format!("{:.3}", service.max),
                    format!("{:.3}", service.median),
                    format!("{:.1}", range(|r| r.slots).median),
                    format!("{holds}/{}", all.len()),
                ]);
            }
        }
    }
    table.render(Paint::stdout())
}
