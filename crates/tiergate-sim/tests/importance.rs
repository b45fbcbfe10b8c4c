//! Voigt's Paper C in the simulator: sessions on persistent connections, of which some carry a cookie
//! that says that they are important, and bursts of others that overload the server.
//!
//! One core, shared by what runs. Work as in section 5.2, a static file 0.3 ms and 0.05 ms for each KiB, a
//! dynamic one 0.7 ms for each: 50 sessions a second of the six requests are 85 % of the core, as
//! there. The bursts of 50 a second last nine seconds of seventeen.

use tiergate_sim::report::{ClassReport, Report};
use tiergate_sim::run;
use tiergate_sim::scenario::Scenario;

const SIX: &str = "work = [0.9, 0.8, 1.1, 1.5, 1.75, 11.2]";
const TWO: &str = "work = [0.9, 22.4]";
/// Seconds of the experiment, ten bursts; what begins in the last quarter may not end.
const CYCLE_S: f64 = 17.0;

/// A population of sessions; `bursts`: only in the first nine seconds of each cycle.
fn population(
    class: &str,
    rate: f64,
    requests: u32,
    work: &str,
    from: &str,
    bursts: bool,
) -> String {
    let points: Vec<String> = (0..10)
        .map(f64::from)
        .map(|cycle| format!("[{}, {rate}], [{}, 0.0]", cycle * CYCLE_S, cycle * CYCLE_S + 9.0))
        .collect();
    let rate = match bursts {
        true => format!("{{ points = [{}] }}", points.join(", ")),
        false => rate.to_string(),
    };
    format!(
        r#"
        [[population]]
        class = "{class}"
        arrivals = {{ kind = "sessions", rate = {rate}, requests = {requests}, think = {{ kind = "constant", mean_ms = 0.0 }}, {work}{from} }}
        patience_ms = 10000.0
        "#
    )
}

fn scenario(limit: &str, shed: &str, classes: &[&str], populations: &[String]) -> Scenario {
    let cuts: Vec<String> = (0..10)
        .map(f64::from)
        .flat_map(|cycle| [cycle * CYCLE_S, cycle * CYCLE_S + 9.0])
        .skip(1)
        .map(|cut| cut.to_string())
        .collect();
    let classes: Vec<String> =
        classes.iter().map(|name| format!("[[class]]\nname = \"{name}\"\n")).collect();
    Scenario::parse(&format!(
        "about = \"Paper C\"\nseconds = 170.0\ncuts_s = [{}]\nlimit = {limit}\n{shed}\n{}\n\
         [server]\ncores = 1.0\nworkers = 150\ncpu = {{ kind = \"constant\", mean_ms = 1.0 }}\n\
         accept_queue = 511\nnotices_cancel = false\n{}",
        cuts.join(", "),
        classes.join(""),
        populations.join("")
    ))
    .expect("a valid scenario")
}

const SHED: &str = "shed_aim_ms = 100.0";

/// What a class came to over some of the phases: those of bursts have even numbers.
fn sum(report: &Report, class: usize, phases: impl Fn(usize) -> bool) -> (ClassReport, f64) {
    let mut sum = ClassReport::default();
    let mut seconds = 0.0;
    for (_, phase) in report.phases.iter().enumerate().filter(|(place, _)| phases(*place)) {
        let class = &phase.populations[class];
        sum.sessions += class.sessions;
        sum.started += class.started;
        sum.completed += class.completed;
        sum.session.merge(&class.session);
        seconds += phase.seconds();
    }
    (sum, seconds)
}

/// Completed sessions a second and their mean time in ms.
fn figures(report: &Report, class: usize, phases: impl Fn(usize) -> bool) -> (f64, f64) {
    let (sum, seconds) = sum(report, class, phases);
    (sum.completed as f64 / seconds, sum.session.mean_ms())
}

fn first(limit: &str, shed: &str) -> Scenario {
    let populations = [
        population("all", 50.0, 6, SIX, ", important_from = 2", false),
        population("all", 50.0, 2, TWO, "", true),
    ];
    scenario(limit, shed, &["all"], &populations)
}

fn second(limit: &str, shed: &str) -> Scenario {
    let populations = [
        population("all", 26.0, 6, SIX, ", important_from = 0", false),
        population("all", 26.0, 6, SIX, ", important_from = 2", false),
        population("all", 50.0, 2, TWO, "", true),
    ];
    scenario(limit, shed, &["all"], &populations)
}

const ALL: fn(usize) -> bool = |_| true;
const BURSTS: fn(usize) -> bool = |phase| phase % 2 == 0;

/// Table 1: 9.9 s without control, 1.85 s with it, for 9.7 % of the throughput.
#[test]
fn sessions_take_a_fifth_of_the_time_for_a_tenth_of_the_throughput_at_most() {
    for seed in 1..4 {
        let (without, without_ms) = figures(&run(&first("\"none\"", ""), seed), 0, ALL);
        for limit in ["\"adaptive\"", "{ fixed = 8 }"] {
            let report = run(&first(limit, SHED), seed);
            let (with, with_ms) = figures(&report, 0, ALL);
            let context = format!(
                "{limit}, seed {seed}: {without:.1}/s in {without_ms:.0} ms, {with:.1}/s in {with_ms:.0} ms"
            );
            println!("{context}");
            assert!(with_ms * 5.0 <= without_ms, "{context}");
            assert!(with >= 0.9 * without, "{context}");
            let (shop, _) = sum(&report, 0, ALL);
            assert!(shop.completed_share() >= 0.99, "{context}: a begun session is protected");
        }
    }
}

/// Table 2: in bursts 21.1 preferred sessions a second to 9.4 ordinary ones.
#[test]
fn preferred_sessions_get_more_in_bursts() {
    for seed in 1..4 {
        let report = run(&second("\"adaptive\"", SHED), seed);
        let [preferred, ordinary] = [0, 1].map(|population| figures(&report, population, BURSTS).0);
        let context = format!("seed {seed}: {preferred:.1} to {ordinary:.1} a second in bursts");
        println!("{context}");
        assert!(preferred >= 2.2 * ordinary, "{context}");
        assert!(preferred >= 0.95 * 26.0, "{context}");
        assert!(ordinary >= 5.0, "{context}: as many as the overload asks for and no more");
        let report = run(&second("\"adaptive\"", ""), seed);
        let [preferred, ordinary] = [0, 1].map(|population| figures(&report, population, BURSTS).0);
        assert!(preferred < 1.3 * ordinary, "seed {seed}: the same without importance");
    }
}

/// Lasting overload: as many connections are closed each second as the last.
#[test]
fn the_count_of_closings_settles() {
    let populations = [
        population("all", 50.0, 6, SIX, ", important_from = 2", false),
        population("all", 50.0, 2, TWO, "", false),
    ];
    let scenario = scenario("\"adaptive\"", SHED, &["all"], &populations);
    for seed in 1..4 {
        let report = run(&scenario, seed);
        // Five seconds at a time: what comes is random too.
        let closed: Vec<f64> = report.closed[10..170]
            .chunks(5)
            .map(|seconds| f64::from(seconds.iter().sum::<u32>()) / 5.0)
            .collect();
        let mean = closed.iter().sum::<f64>() / closed.len() as f64;
        let square = |closed: &f64| (closed - mean) * (closed - mean);
        let deviation = (closed.iter().map(square).sum::<f64>() / closed.len() as f64).sqrt();
        println!("seed {seed}: {mean:.1} a second, deviation {deviation:.1}");
        assert!((40.0..75.0).contains(&mean), "seed {seed}: {mean}");
        assert!(deviation <= 0.2 * mean, "seed {seed}: {deviation} of {mean}");
        let idle = closed.iter().filter(|&&closed| closed < 0.4 * mean).count();
        assert_eq!(idle, 0, "seed {seed}: switched off now and then: {closed:?}");
    }
}

/// What Paper C leaves open: everything is important, and the server recovers all the same, the
/// lesser class and the shorter sessions going first.
#[test]
fn when_everything_is_important_it_still_recovers() {
    let populations = [
        population("gold", 20.0, 6, SIX, ", important_from = 0", false),
        population("silver", 60.0, 6, SIX, ", important_from = 0", false),
    ];
    let of = |limit, shed| scenario(limit, shed, &["gold", "silver"], &populations);
    let without = figures(&run(&of("\"none\"", ""), 1), 0, ALL).1;
    let report = run(&of("\"adaptive\"", SHED), 1);
    let (gold, gold_ms) = figures(&report, 0, ALL);
    let (silver, silver_ms) = figures(&report, 1, ALL);
    println!("gold {gold:.1}/s in {gold_ms:.0} ms, silver {silver:.1}/s in {silver_ms:.0} ms");
    assert!(gold_ms * 5.0 <= without && silver_ms * 3.0 <= without, "{without}");
    assert!(gold >= 0.97 * 20.0, "{gold}");
    // What gold leaves of the core: 38 sessions a second.
    assert!(silver >= 30.0, "{silver}");
    assert!(sum(&report, 1, ALL).0.completed_share() >= 0.95, "the shorter sessions go first");
}

#[test]
fn without_overload_no_connection_is_closed() {
    let populations = [population("all", 40.0, 6, SIX, "", false)];
    let report = run(&scenario("\"adaptive\"", SHED, &["all"], &populations), 1);
    let closed: u32 = report.closed.iter().sum();
    assert!(closed <= 10, "{closed} in 170 s");
}
