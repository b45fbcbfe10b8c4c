//! WebQoS's first experiment (§5, Figures 8 to 10) with the policy that comes along: premium at a fixed
//! rate, basic rising until together they ask for three times what the server can do.

use std::path::Path;
use tiergate_sim::report::Phase;
use tiergate_sim::run;
use tiergate_sim::scenario::{ClassShape, Scenario};

/// 32 workers of 91 ms: 350 requests/s. Premium 50/s; basic 75, 325, 650, 975.
const SCENARIO: &str = r#"
about = "WebQoS, first experiment"
seconds = 100.0
cuts_s = [5.0, 25.0, 50.0, 75.0]
limit = { fixed = 32 }

[server]
workers = 32
wait = { kind = "exponential", mean_ms = 91.4 }

[[population]]
class = "premium"
arrivals = { kind = "constant", rate = 50.0 }
patience_ms = 5000.0

[[population]]
class = "basic"
arrivals = { kind = "poisson", rate = { points = [[0.0, 75.0], [25.0, 325.0], [50.0, 650.0], [75.0, 975.0]] } }
patience_ms = 5000.0
"#;

/// The classes of the policy file.
fn classes() -> Vec<ClassShape> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies/webqos.toml");
    let text = std::fs::read_to_string(path).expect("it comes along");
    let policy: toml::Table = toml::from_str(&text).expect("TOML");
    let slots = policy["origin"]["slots"].as_integer();
    assert_eq!(slots, Some(32), "as in the scenario");
    let class = |class: &toml::Value| {
        let deadline = class["deadline"].as_str().and_then(|text| text.strip_suffix('s'));
        let mut shape = class.as_table().expect("a table").clone();
        shape.remove("deadline");
        let ms = 1e3 * deadline.expect("in seconds").parse::<f64>().expect("a number");
        shape.insert("deadline_ms".to_owned(), ms.into());
        shape.try_into().expect("a class of the simulator")
    };
    policy["class"].as_array().expect("classes").iter().map(class).collect()
}

fn phases(classes: Vec<ClassShape>) -> Vec<Phase> {
    let mut scenario: toml::Table = toml::from_str(SCENARIO).expect("TOML");
    scenario.insert("class".to_owned(), toml::Value::Array(Vec::new()));
    let mut scenario: Scenario = scenario.try_into().expect("a scenario");
    scenario.class = classes;
    run(&scenario, 1).phases
}

#[test]
fn premium_loses_nothing_and_keeps_its_throughput_whatever_basic_asks_for() {
    let phases = phases(classes());
    for (place, phase) in phases.iter().enumerate().skip(1) {
        let premium = &phase.classes[0];
        let rate = premium.good as f64 / phase.seconds();
        assert!((rate - 50.0).abs() < 0.5, "phase {place}: {rate}/s");
        assert_eq!(premium.refused + premium.left_waiting + premium.failed, 0, "phase {place}");
    }
    let basic = &phases[4].classes[1];
    let share = basic.good as f64 / basic.arrived as f64;
    assert!((0.28..0.33).contains(&share), "basic gets what is left of 350/s: {share}");
    assert!(phases[4].goodput() > 0.95 * 350.0, "no worker is idle: {}", phases[4].goodput());
}

#[test]
fn basic_is_refused_at_once_instead_of_waiting() {
    let with = phases(classes());
    let mut without = classes();
    without[1].refuse_at.clear();
    let without = phases(without);
    let wait = |phases: &[Phase]| phases[4].classes[1].total.quantile_ms(0.99);
    assert!(wait(&with) < 800.0, "64 wait at 300/s: {} ms", wait(&with));
    assert!(wait(&without) > 1000.0, "until it proves to last: {} ms", wait(&without));
}
