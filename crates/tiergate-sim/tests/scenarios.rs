//! Every scenario in `scenarios/` gives what it expects.

use std::path::Path;
use tiergate_sim::{run, scenario::Scenario};

#[test]
fn every_scenario_gives_what_it_expects() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut found = 0;
    for entry in std::fs::read_dir(folder).expect("the folder exists") {
        let path = entry.expect("readable").path();
        let text = std::fs::read_to_string(&path).expect("readable");
        let scenario =
            Scenario::parse(&text).unwrap_or_else(|e| panic!("{}: {e:#}", path.display()));
        let report = run(&scenario, scenario.seed);
        let unmet = report.unmet(&scenario.class_names(), &scenario.expect);
        assert!(
            unmet.is_empty(),
            "{} with seed {}:\n{}\n{}",
            path.display(),
            scenario.seed,
            unmet.join("\n"),
            report.table(&scenario.class_names())
        );
        found += 1;
    }
    assert!(found > 0);
}

#[test]
fn a_scenario_is_a_function_of_its_seed() {
    let text = include_str!("../scenarios/overload-3x.toml");
    let scenario = Scenario::parse(text).expect("a valid scenario");
    let table = |seed| run(&scenario, seed).table(&scenario.class_names());
    assert_eq!(table(7), table(7));
    assert_ne!(table(7), table(8));
}

#[test]
fn an_unknown_key_or_class_is_refused() {
    let text = include_str!("../scenarios/overload-3x.toml");
    let unknown = text.replace("patience_ms", "patience");
    assert!(Scenario::parse(&unknown).is_err());
    let nobody = text.replace("class = \"browse\"", "class = \"nobody\"");
    assert!(Scenario::parse(&nobody).is_err());
}
