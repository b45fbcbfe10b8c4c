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
    let (other, times) = (promise.of?, promise.times.unwrap_or(1.0));
    // A contender that is not there, or had nothing to measure, cannot be compared with.
    let theirs = of(other.name())?;
    (ours < theirs * times).then(|| {
        format!("{what}: {ours:.3}, promised {times} times that of {}, {theirs:.3}", other.name())
    })
}

/// The middle of the values of valid rounds; `None` without any.
pub(super) fn median(contender: &ContenderResult, measure: usize) -> Option<f64> {
    Range::of(values(contender, measure).into_iter().flatten()).map(|range| range.median)
}
