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
resource = [{ classes = ["b"], size = 3, held = { kind = "exponential", mean_ms = 10.0 } }]
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

#[test]
fn cores_stop_when_their_quota_is_spent() {
    let cores = "cores = 4.0\ncpu = { kind = \"exponential\", mean_ms = 5.0 }";
    let quota = |cpu_s: f64| format!("{cores}\nquota = {{ every_s = 0.1, cpu_s = {cpu_s} }}");
    near(measure(8, [1600, 0], cores, "").goodput(), 800.0);
    let phase = measure(8, [1600, 0], &quota(0.1), "");
    near(phase.goodput(), 200.0);
    // What comes late in a period waits for the rest of it.
    let slowest =
        |server: &str| measure(8, [160, 0], server, "").classes[0].service.quantile_ms(0.99);
    assert!(slowest(&quota(0.1)) > 2.0 * slowest(cores), "{} ms", slowest(&quota(0.1)));
    near(measure(8, [1600, 0], &quota(0.5), "").goodput(), 800.0);
}

#[test]
fn a_quota_holds_up_cores_only_as_long_as_a_period_lasts() {
    let server = "cores = 2.0\ncpu = { kind = \"constant\", mean_ms = 30.0 }\n\
                  quota = { every_s = 0.1, cpu_s = 0.02 }";
    let phase = measure(1, [1, 0], server, "");
    let slowest = phase.classes[0].total.quantile_ms(0.99);
    assert!(phase.classes[0].good_share() == 1.0 && slowest < 250.0, "{slowest} ms");
}

#[test]
fn work_that_drifts_has_its_mean_and_neighbours_that_are_alike() {
    let server = "workers = 16\nwait = { kind = \"constant\", mean_ms = 40.0 }";
    let drift = |over_s: f64| format!("{server}\ndrift = {{ sd = 0.4, over_s = {over_s} }}");
    let fast = measure(16, [200, 0], &drift(0.001), "").classes[0].service.clone();
    near(fast.mean_ms(), 40.0);
    assert!(fast.quantile_ms(0.99) > 80.0, "{}", fast.quantile_ms(0.99));
    // In the same seconds of three runs the work is the same within each, and another in each.
    let slow = |seed| {
        let text = format!(
            "seconds = 20.0\nlimit = {{ fixed = 16 }}\n[[class]]\nname = \"a\"\n[server]\n{}\n[[population]]\n\
             class = \"a\"\narrivals = {{ kind = \"poisson\", rate = 100.0 }}\n",
            drift(1e6)
        );
        run(&Scenario::parse(&text).expect("a valid scenario"), seed).phases[0].classes[0]
            .service
            .clone()
    };
    let runs = [1, 2, 3].map(slow);
    for service in &runs {
        near(service.quantile_ms(0.99), service.quantile_ms(0.01));
    }
    assert!((runs[0].mean_ms() / runs[1].mean_ms()).ln().abs() > 0.05);
    assert!((runs[1].mean_ms() / runs[2].mean_ms()).ln().abs() > 0.05);
}

#[test]
fn a_part_of_the_workers_is_slower() {
    let server = format!("{SIXTEEN}\nslower = {{ share = 0.5, times = 4.0 }}");
    let phase = measure(16, [1000, 0], &server, "");
    near(phase.goodput(), 8.0 / 0.04 + 8.0 / 0.16);
    near(phase.classes[0].service.mean_ms(), 64.0);
}

#[test]
fn slow_clients_keep_workers_and_not_cores() {
    let send = "send = { kind = \"constant\", mean_ms = 160.0 }";
    near(measure(16, [1000, 0], &format!("{SIXTEEN}\n{send}"), "").goodput(), 16.0 / 0.2);
    let cores = format!("cores = 2.0\ncpu = {{ kind = \"exponential\", mean_ms = 5.0 }}\n{send}");
    near(measure(400, [1000, 0], &cores, "").goodput(), 400.0);
}

#[test]
fn errors_of_one_class_come_after_a_time_out() {
    let fault = "fault = [{ from_s = 0.0, to_s = 99.0, what = \"error\", class = \"b\", after_ms = 400.0 }]";
    let phase = measure(16, [20, 20], &format!("{SIXTEEN}\n{fault}"), "");
    let [a, b] = &phase.classes[..] else { panic!("two classes") };
    assert!(a.good_share() == 1.0 && b.good == 0 && b.failed > 200, "{a:?} {b:?}");
    near(b.work_s / b.failed as f64, 0.4);
}

#[test]
fn what_comes_past_the_gateway_takes_workers_and_no_slots() {
    let phase = measure(8, [600, 300], SIXTEEN, "");
    near(phase.goodput(), 200.0);
    let text = format!(
        "seconds = 20.0\nlimit = {{ fixed = 8 }}\n[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\n[server]\n\
         {SIXTEEN}\n[[population]]\nclass = \"a\"\narrivals = {{ kind = \"poisson\", rate = 600.0 }}\n\
         [[population]]\nclass = \"b\"\ndirect = true\narrivals = {{ kind = \"poisson\", rate = 100.0 }}\n"
    );
    let phase = run(&Scenario::parse(&text).expect("a valid scenario"), 1).phases.swap_remove(0);
    near(phase.classes[0].good as f64 / 20.0, 200.0);
    near(phase.classes[1].good as f64 / 20.0, 100.0);
}

#[test]
fn a_server_that_refuses_connections_at_once_may_have_the_limit_rise_and_fall_within_a_moment() {
    // Each of the events is checked by the simulation itself: no more run than there are slots, or were.
    for law in ["vegas", "climb"] {
        let text = format!(
            "seconds = 60.0\nlimit = {{ law = \"{law}\" }}\n[[class]]\nname = \"a\"\n[server]\nworkers = 8\n\
             wait = {{ kind = \"exponential\", mean_ms = 40.0 }}\naccept_queue = 60\n[[population]]\nclass = \"a\"\n\
             arrivals = {{ kind = \"poisson\", rate = 600.0 }}\npatience_ms = 5000.0\n"
        );
        let scenario = Scenario::parse(&text).expect("a valid scenario");
        let failed: u64 = (1..4).map(|seed| run(&scenario, seed).class(0).failed).sum();
        assert!(failed > 0, "{law}: the accept queue was never full");
    }
}
