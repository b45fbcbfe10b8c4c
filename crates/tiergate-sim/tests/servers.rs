//! Servers that do worse than queue, and gateways that share one.

use std::path::Path;
use tiergate_sim::report::Phase;
use tiergate_sim::run;
use tiergate_sim::scenario::Scenario;

/// Twenty seconds of classes a and b, of which the last fifteen count: so many slots, this server, and what else.
fn measure(slots: u32, rates: [u32; 2], server: &str, more: &str) -> Phase {
    let mut text = format!("seconds = 20.0\ncuts_s = [5.0]\nlimit = {{ fixed = {slots} }}\n");
    for (class, rate) in ["a", "b"].iter().zip(rates) {
        text += &format!("[[class]]\nname = \"{class}\"\n");
        text += &format!(
            "[[population]]\nclass = \"{class}\"\narrivals = {{ kind = \"poisson\", rate = {rate}.0 }}\n"
        );
    }
    let scenario = Scenario::parse(&format!("{text}{more}\n[server]\n{server}\n"));
    run(&scenario.expect("a valid scenario"), 1).phases.swap_remove(1)
}

fn near(is: f64, expected: f64) {
    assert!((is / expected - 1.0).abs() < 0.04, "{is} instead of {expected}");
}

const SIXTEEN: &str = r#"
workers = 16
wait = { kind = "exponential", mean_ms = 40.0 }
"#;

#[test]
fn gateways_get_their_parts_while_they_are_there() {
    let gateways =
        "[[gateway]]\nweight = 3.0\nclock_s = 7.0\n[[gateway]]\n[[gateway]]\nto_s = 5.0\n";
    // Each has four slots: those of the first are never free.
    let phase = measure(4, [200, 200], SIXTEEN, gateways);
    near(phase.slots(), 12.0);
    let good = |gateway: usize| phase.gateways[gateway].good as f64 / phase.seconds();
    near(good(0), 100.0);
    assert!((80.0..100.0).contains(&good(1)), "{} of 100 that come", good(1));
    assert!(good(2) < 2.0, "only what was waiting when it went");
    near(phase.goodput(), good(0) + good(1) + good(2));
}

#[test]
fn a_server_pushes_back_beyond_its_bound() {
    let server = format!("{SIXTEEN}\npushback = 20");
    assert_eq!(measure(20, [600, 0], &server, "").classes[0].failed, 0);
    let phase = measure(30, [600, 0], &server, "");
    assert!(phase.classes[0].failed > 1000, "{}", phase.classes[0].failed);
    near(phase.goodput(), 400.0);
}

#[test]
fn answers_that_come_late_are_errors() {
    let server = format!("{SIXTEEN}\nlate_ms = 200.0");
    // Five times as many as workers are in service for 200 ms.
    let share = |slots| measure(slots, [800, 0], &server, "").classes[0].good_share();
    let (few, many) = (share(16), share(96));
    assert!(few > 0.45 && many < 0.2, "{few} and {many} of the requests");
}

#[test]
fn pauses_take_their_part_of_the_capacity() {
    let server = format!("{SIXTEEN}\npause = {{ every_s = 1.0, for_s = 0.25 }}");
    near(measure(16, [600, 0], &server, "").goodput(), 300.0);
}

#[test]
fn contention_follows_gunthers_law() {
    let server =
        "cpu = { kind = \"exponential\", mean_ms = 20.0 }\ncontention = 0.1\ncoherence = 0.001";
    for slots in [4_u32, 16, 64] {
        let n = f64::from(slots);
        let law = n / (1.0 + 0.1 * (n - 1.0) + 0.001 * n * (n - 1.0)) / 0.020;
        near(measure(slots, [1000, 0], server, "").goodput(), law);
    }
}

#[test]
fn classes_have_times_and_resources_of_their_own() {
    let server = r#"
workers = 100
of = [{ class = "a", wait = { kind = "exponential", mean_ms = 5.0 } }]
wait = { kind = "exponential", mean_ms = 10.0 }
resource = [{ class = "b", size = 3, held = { kind = "exponential", mean_ms = 10.0 } }]
"#;
    let phase = measure(100, [100, 500], server, "");
    near(phase.classes[0].service.mean_ms(), 5.0);
    // Three at once, 10 ms each.
    near(phase.classes[1].good as f64 / phase.seconds(), 300.0);
}

#[test]
fn every_hard_scenario_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("hard");
    let files: Vec<_> = std::fs::read_dir(folder).expect("the folder exists").collect();
    assert!(files.len() > 15);
    for entry in files {
        let path = entry.expect("readable").path();
        let text = std::fs::read_to_string(&path).expect("readable");
        Scenario::parse(&text).unwrap_or_else(|fault| panic!("{}: {fault:#}", path.display()));
    }
}
