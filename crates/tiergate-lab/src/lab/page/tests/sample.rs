//! Invented results for tests: nothing here was measured.

use crate::lab::result::{
    Along, Better, ContenderResult, ExperimentResult, Machine, Measure, Phase, Plot, Results,
    Round, Unit,
};

/// Two experiments, seven contenders, three rounds.
pub(crate) fn results() -> Results {
    let versions =
        [("haproxy", "2.6.12"), ("nginx", "1.22.1"), ("envoy", "1.36.2"), ("go", "1.24.4")];
    Results {
        machine: Machine {
            processor: "Invented Processor 3000".into(),
            processors: 4,
            memory_mib: 16_000,
            kernel: "6.1.0-test".into(),
            congestion: "cubic".into(),
            runs_at_a_time: 1,
            day: "2026-11-21".into(),
        },
        versions: versions.map(|(name, version)| (name.into(), version.into())).into(),
        experiments: vec![overload(), spike()],
    }
}

/// Name, share of premium answered under the ramp, their p99 in ms, goodput, recovery in s.
const OVERLOAD: [(&str, f64, f64, f64, Option<f64>); 7] = [
    ("none", 0.121, 988.0, 0.034, None),
    ("tiergate", 0.998, 182.0, 0.981, Some(1.0)),
    ("haproxy", 0.986, 240.0, 0.975, Some(1.0)),
    ("nginx", 0.117, 97.0, 0.93, Some(1.0)),
    ("mod_qos", 0.0, 0.0, 0.0, None),
    ("envoy", 0.63, 310.0, 0.90, Some(3.0)),
    ("failsafe-go", 0.93, 415.0, 0.94, Some(2.0)),
];

fn overload() -> ExperimentResult {
    let phases = ["0.5x", "0.8x", "1x", "1.5x", "2x", "3x", "5x", "7x", "10x", "0.5x again"];
    let load = [0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 0.5];
    let contender =
        |(name, answered, p99, goodput, recovery): (&str, f64, f64, f64, Option<f64>)| {
            let round = |seed: u64| {
                let wobble = (seed as f64 - 2.0) * 0.002;
                let reach = 1.0 + (seed as f64 - 2.0) * 0.06;
                let over = |x: f64| ((x - 1.0) / 9.0_f64).clamp(0.0, 1.0).powf(0.35);
                let line = |calm: f64, full: f64| -> Vec<Option<f64>> {
                    let at = |x: &f64| calm + (full - calm) * over(*x) * reach + wobble * calm;
                    load.iter().map(at).map(Some).collect()
                };
                let mut latency = line(95.0, p99);
                if name == "none" {
                    // From five times the capacity on, nobody is answered.
                    latency[6..9].fill(None);
                }
                Round {
                    values: vec![
                        Some((answered + wobble).min(1.0)),
                        Some(p99 + (seed as f64 - 2.0) * 2.0),
                        Some(goodput + wobble),
                        recovery,
                        Some(p99 * 1.7),
                    ],
                    lines: vec![line(1.0, answered), latency, line(0.5, goodput)],
                    ..round(seed, name)
                }
            };
            let mut contender = contender(name, [1, 2, 3].map(round).into());
            if name == "envoy" {
                contender.rounds[1].void =
                    Some("the generator lagged: 99 % were sent 61 ms late".into());
            }
            if name == "haproxy" {
                contender.setting = Some("maxconn 24: the best of 8, 12, 16, 24 and 32".into());
            }
            if name == "mod_qos" {
                contender.rounds.clear();
                contender.left_out = Some("httpd: cannot load mod_qos.so\n(no such file)".into());
            }
            contender
        };
    let measure =
        |name: &str, unit, better, judged| Measure { name: name.into(), unit, better, judged };
    ExperimentResult {
        name: "overload-ramp".into(),
        title: "Overload, up to ten times the capacity".into(),
        asks: "Two kinds of visitors: premium (`/checkout`, 80 requests/s throughout) and basic \
               (`/browse`), which grows until both together ask for ten times what the server can do. \
               Do premium visitors notice, and is the server's work still of use to anyone?"
            .into(),
        remarks: [("nginx".into(), "It cannot tell premium from basic once its limit is full".into())]
            .into(),
        capacity: 400.0,
        sitting: None,
        phases: phases.map(|name| Phase { name: name.into(), seconds: 15.0 }).into(),
        measures: vec![
            measure("premium answered", Unit::Share, Better::Higher, true),
            measure("premium p99", Unit::Ms, Better::Lower, true),
            measure("goodput", Unit::Share, Better::Higher, true),
            measure("recovery", Unit::S, Better::Lower, true),
            measure("basic p99", Unit::Ms, Better::Lower, false),
        ],
        plots: vec![
            plot("Premium requests answered", Unit::Share, Along::Phases),
            plot("Premium p99 latency", Unit::Ms, Along::Phases),
            plot("Goodput, part of the capacity", Unit::Share, Along::Phases),
        ],
        contenders: OVERLOAD.map(contender).into(),
        beside: None,
    }
}

/// Name, share of people's requests answered in the spike, their p99 in ms.
const SPIKE: [(&str, f64, f64); 7] = [
    ("none", 0.08, 990.0),
    ("tiergate", 0.999, 140.0),
    ("haproxy", 0.998, 81.0),
    ("nginx", 0.22, 88.0),
    ("mod_qos", 0.31, 460.0),
    ("envoy", 0.54, 330.0),
    ("failsafe-go", 0.88, 420.0),
];

fn spike() -> ExperimentResult {
    let contender = |(name, answered, p99): (&str, f64, f64)| {
        let round = |seed: u64| {
            let mut random = fastrand::Rng::with_seed(seed * 100 + name.len() as u64);
            let mut second = |from: f64, worst: f64| -> Vec<Option<f64>> {
                let at = |s: i32| match s {
                    15..25 => worst,
                    25..32 if answered < 0.9 => f64::midpoint(worst, from),
                    _ => from,
                };
                (0..50).map(|s| Some(at(s) * (0.93 + 0.07 * random.f64()))).collect()
            };
            let mut latency = second(92.0, p99);
            if name == "none" {
                latency[18..24].fill(None);
            }
            Round {
                values: vec![Some(answered), Some(p99 + seed as f64 - 2.0)],
                lines: vec![second(1.0, answered), latency],
                ..round(seed, name)
            }
        };
        contender(name, [1, 2, 3].map(round).into())
    };
    let measure =
        |name: &str, unit, better| Measure { name: name.into(), unit, better, judged: true };
    ExperimentResult {
        name: "prefetch-spike".into(),
        title: "A spike of prefetching, twelve times the capacity".into(),
        asks: "Browsers begin to prefetch (`Sec-Purpose: prefetch`) at twelve times the capacity, for ten \
               seconds. People's own requests stay as they were. Do people notice?"
            .into(),
        remarks: [("haproxy".into(), "It is told how many requests the server can take".into())].into(),
        capacity: 400.0,
        sitting: None,
        phases: [("calm", 15.0), ("spike", 10.0), ("calm again", 25.0)]
            .map(|(name, seconds)| Phase { name: name.into(), seconds })
            .into(),
        measures: vec![
            measure("people answered during the spike", Unit::Share, Better::Higher),
            measure("people's p99 during the spike", Unit::Ms, Better::Lower),
        ],
        plots: vec![
            plot("People's requests answered", Unit::Share, Along::Time),
            plot("People's p99 latency", Unit::Ms, Along::Time),
        ],
        contenders: SPIKE.map(contender).into(),
        beside: None,
    }
}

fn plot(title: &str, unit: Unit, along: Along) -> Plot {
    Plot { title: title.into(), unit, along }
}

fn contender(name: &str, rounds: Vec<Round>) -> ContenderResult {
    ContenderResult {
        name: name.into(),
        about: format!("{name} with an invented configuration"),
        left_out: None,
        setting: None,
        rounds,
    }
}

/// A round without figures.
fn round(seed: u64, name: &str) -> Round {
    Round {
        seed,
        at: Some(format!("2026-11-21 09:{:02}", 10 * seed)),
        void: None,
        values: Vec::new(),
        lines: Vec::new(),
        generator_cpu: 0.34,
        lateness_ms: 1.2,
        front_cpu_s: if name == "none" { 0.0 } else { 3.0 + seed as f64 / 10.0 },
    }
}
