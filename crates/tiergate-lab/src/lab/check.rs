//! What must never be lost: an experiment's promises, held against its results.

use super::experiment::Experiment;
use super::page::spread::{valid, values};
use super::promise::Promise;
use super::result::{ContenderResult, ExperimentResult};
use crate::contender::{Contender, Off};
use tiergate_draw::Range;

/// The promises that were broken, in words.
pub(super) fn broken(experiment: &Experiment, result: &ExperimentResult) -> Vec<String> {
    let of = |promise| match judge(promise, result, Contender::Tiergate) {
        Held::Broken(words) => Some(words),
        Held::Kept | Held::NotCompared => None,
    };
    experiment.promise.iter().filter_map(of).collect()
}

/// The promises that prove nothing, in words: with their feature switched off they hold, or it is not known that they do not.
pub(super) fn hollow(experiment: &Experiment, result: &ExperimentResult) -> Vec<String> {
    let off = experiment.off.clone().unwrap_or_default().words();
    let ran =
        result.contender(Contender::Off.name()).is_some_and(|off| valid(off).next().is_some());
    let of = |promise: &Promise| {
        let what = format!("{}: {}", result.name, promise.measure);
        match judge(promise, result, Contender::Off) {
            _ if !ran => Some(format!("{what}: no valid run ({off})")),
            Held::Kept => Some(format!("{what} holds all the same ({off})")),
            Held::NotCompared => Some(format!("{what}: there is nothing to compare with")),
            Held::Broken(_) => None,
        }
    };
    experiment.promise.iter().filter_map(of).collect()
}

/// One experiment for each feature that is switched off, with the promises that are about it; none for
/// promises of what a feature costs.
pub(super) fn by_feature(experiment: &Experiment) -> Vec<Experiment> {
    let feature = |promise: &Promise| promise.off.clone().or_else(|| experiment.off.clone());
    let mut features: Vec<Option<Off>> = Vec::new();
    for promise in experiment.promise.iter().filter(|promise| !promise.cost) {
        if !features.contains(&feature(promise)) {
            features.push(feature(promise));
        }
    }
    let with = |off: Option<Off>| {
        let mut part = experiment.clone();
        part.promise.retain(|promise| !promise.cost && feature(promise) == off);
        part.off = off;
        part
    };
    features.into_iter().map(with).collect()
}

/// How a promise came out.
#[derive(Debug, PartialEq)]
enum Held {
    Kept,
    /// In words.
    Broken(String),
    /// A contender that is not there, or had nothing to measure, cannot be compared with.
    NotCompared,
}

/// Holds a promise against the figures of one of ours.
fn judge(promise: &Promise, result: &ExperimentResult, ours: Contender) -> Held {
    let Some(measure) = result.measures.iter().position(|m| m.name == promise.measure) else {
        return Held::NotCompared;
    };
    let of = |name: &str| median(result.contender(name)?, measure);
    let what = format!("{}: {}", result.name, promise.measure);
    let Some(ours) = of(ours.name()) else {
        return Held::Broken(format!("{what}: no valid run"));
    };
    if let Some(least) = promise.at_least.filter(|least| ours < *least) {
        return Held::Broken(format!("{what}: {ours:.3}, promised at least {least}"));
    }
    if let Some(most) = promise.at_most.filter(|most| ours > *most) {
        return Held::Broken(format!("{what}: {ours:.3}, promised at most {most}"));
    }
    let Some(other) = promise.of else {
        return Held::Kept;
    };
    let Some(theirs) = of(other.name()) else {
        return Held::NotCompared;
    };
    let told = |bound: &str, times: f64| {
        let name = other.name();
        format!("{what}: {ours:.3}, promised at {bound} {times} times that of {name}, {theirs:.3}")
    };
    let most = promise.at_most_times.filter(|times| ours > theirs * times);
    let least = promise.times.filter(|times| ours < theirs * times);
    let broken = most.map(|times| told("most", times)).or(least.map(|times| told("least", times)));
    broken.map_or(Held::Kept, Held::Broken)
}

/// The middle of the values of valid rounds; `None` without any.
pub(super) fn median(contender: &ContenderResult, measure: usize) -> Option<f64> {
    Range::of(values(contender, measure).into_iter().flatten()).map(|range| range.median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Tiergate takes 20 ms, without its feature 70, and the peer 100.
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
            "plots": [], "contenders": [contender("tiergate", 20.0), contender("off", 70.0), contender("haproxy", 100.0)]
        }))
        .expect("it is as the lab writes it")
    }

    fn held(promise: &str, ours: Contender) -> Held {
        let promise = toml::from_str(&format!("measure = \"mean\"\n{promise}"));
        judge(&promise.expect("it is a promise"), &result(), ours)
    }

    fn said(promise: &str) -> Option<String> {
        match held(promise, Contender::Tiergate) {
            Held::Broken(words) => Some(words),
            Held::Kept | Held::NotCompared => None,
        }
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

    #[test]
    fn a_promise_that_holds_without_its_feature_proves_nothing() {
        let off = |promise| held(promise, Contender::Off);
        assert_eq!(off("at_most = 80"), Held::Kept);
        assert!(matches!(off("at_most = 60"), Held::Broken(_)));
        assert_eq!(off("of = \"nginx\"\ntimes = 9"), Held::NotCompared);
        let text = include_str!("../../experiments/overload-ramp.toml");
        let mut experiment = Experiment::read("small", text).unwrap();
        let promise = |text: &str| toml::from_str(text).unwrap();
        experiment.promise = vec![
            promise("measure = \"mean\"\nat_most = 80"),
            promise("measure = \"mean\"\nat_most = 60"),
        ];
        let words = "small: mean holds all the same (origin.slots = 100000)";
        assert_eq!(hollow(&experiment, &result()), [words]);
        let mut without = result();
        without.contenders.retain(|contender| contender.name != "off");
        assert_eq!(hollow(&experiment, &without).len(), 2, "nothing was shown");
    }

    #[test]
    fn each_feature_is_switched_off_by_itself() {
        let text = include_str!("../../experiments/overload-ramp.toml");
        let mut experiment = Experiment::read("small", text).unwrap();
        let all = experiment.promise.len();
        experiment.promise[0].off = Some(toml::from_str("remove = [\"class\"]").unwrap());
        let parts = by_feature(&experiment);
        let promises: Vec<usize> = parts.iter().map(|part| part.promise.len()).collect();
        assert_eq!(promises, [1, all - 1]);
        assert!(parts[0].off.is_some() && parts[1].off.is_none());
        experiment.promise = vec![toml::from_str("measure = \"goodput\"\ncost = true").unwrap()];
        assert!(by_feature(&experiment).is_empty());
    }
}
