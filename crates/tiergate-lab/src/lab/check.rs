//! What must never be lost: an experiment's promises, held against its results.

use super::experiment::{Experiment, Promise};
use super::page::spread::values;
use super::result::{ContenderResult, ExperimentResult};
use tiergate_draw::Range;

/// The promises that were broken, in words.
pub(super) fn broken(experiment: &Experiment, result: &ExperimentResult) -> Vec<String> {
    experiment.promise.iter().filter_map(|promise| judge(promise, result)).collect()
}

fn judge(promise: &Promise, result: &ExperimentResult) -> Option<String> {
    let measure = result.measures.iter().position(|m| m.name == promise.measure)?;
    let of = |name: &str| median(result.contender(name)?, measure);
    let what = format!("{}: {}", result.name, promise.measure);
    let Some(ours) = of("tiergate") else {
        return Some(format!("{what}: no valid run"));
    };
    if let Some(least) = promise.at_least.filter(|least| ours < *least) {
        return Some(format!("{what}: {ours:.3}, promised at least {least}"));
    }
    if let Some(most) = promise.at_most.filter(|most| ours > *most) {
        return Some(format!("{what}: {ours:.3}, promised at most {most}"));
    }
    let other = promise.of?;
    // A contender that is not there, or had nothing to measure, cannot be compared with.
    let theirs = of(other.name())?;
    let told = |bound: &str, times: f64| {
        let name = other.name();
        format!("{what}: {ours:.3}, promised at {bound} {times} times that of {name}, {theirs:.3}")
    };
    let most = promise.at_most_times.filter(|times| ours > theirs * times);
    let least = promise.times.filter(|times| ours < theirs * times);
    most.map(|times| told("most", times)).or_else(|| least.map(|times| told("least", times)))
}

/// The middle of the values of valid rounds; `None` without any.
pub(super) fn median(contender: &ContenderResult, measure: usize) -> Option<f64> {
    Range::of(values(contender, measure).into_iter().flatten()).map(|range| range.median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Tiergate takes 20 ms, and the peer 100.
    fn result() -> ExperimentResult {
        let contender = |name: &str, ms: f64| {
            json!({
                "name": name, "about": "", "left_out": null, "setting": null,
                "rounds": [{
                    "seed": 1, "void": null, "values": [ms], "lines": [],
                    "generator_cpu": 0.1, "lateness_ms": 1.0, "front_cpu_s": 1.0
                }]
            })
        };
        serde_json::from_value(json!({
            "name": "small", "title": "", "asks": "", "remarks": {}, "capacity": 100.0, "phases": [],
            "measures": [{ "name": "mean", "unit": "ms", "better": "lower", "judged": true }],
            "plots": [], "contenders": [contender("tiergate", 20.0), contender("haproxy", 100.0)]
        }))
        .expect("it is as the lab writes it")
    }

    fn said(promise: &str) -> Option<String> {
        let promise = toml::from_str(&format!("measure = \"mean\"\n{promise}"));
        judge(&promise.expect("it is a promise"), &result())
    }

    #[test]
    fn promises_are_held_against_bounds_and_peers() {
        assert_eq!(said("at_least = 20\nat_most = 20"), None);
        assert!(said("at_least = 21").is_some() && said("at_most = 19").is_some());
        assert_eq!(said("of = \"haproxy\"\ntimes = 0.2\nat_most_times = 0.2"), None);
        let most = said("of = \"haproxy\"\nat_most_times = 0.1").unwrap();
        assert_eq!(
            most,
            "small: mean: 20.000, promised at most 0.1 times that of haproxy, 100.000"
        );
        let least = said("of = \"haproxy\"\ntimes = 1").unwrap();
        assert_eq!(
            least,
            "small: mean: 20.000, promised at least 1 times that of haproxy, 100.000"
        );
        assert_eq!(said("of = \"nginx\"\ntimes = 9"), None, "it took no part");
    }
}
