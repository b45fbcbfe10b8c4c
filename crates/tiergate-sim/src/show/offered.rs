//! The load that a trial offers to its server.

use crate::client::Arrivals;
use crate::trial::Trial;

/// How much a trial asks of its server, as a share of what it can do at its beginning; `None` if there
/// is nothing that bounds it. What users of a closed population ask for depends on what they get, and
/// is not counted.
pub fn offered(trial: &Trial) -> Option<f64> {
    let server = &trial.server;
    let drawn = server.wait.mean() + server.cpu.mean();
    let (capacity, drawn) = match (server.workers, server.cores) {
        (Some(workers), None) => (f64::from(workers), drawn),
        (None, Some(cores)) => (cores, server.cpu.mean()),
        (Some(workers), Some(cores)) if f64::from(workers) < cores => (f64::from(workers), drawn),
        (Some(_), Some(cores)) => (cores, server.cpu.mean()),
        (None, None) => return None,
    };
    let of = |demand: u32| {
        let work = trial.demands[demand as usize].work;
        work.times * drawn + work.more_ns as f64 / 1e9
    };
    let mut work: f64 = trial.replay.iter().map(|&(_, demand)| of(demand)).sum();
    for (population, mix) in trial.populations.iter().zip(&trial.mixes) {
        let Some(rate) = population.arrivals.rate() else {
            continue;
        };
        let steps = 10_000;
        let step = trial.seconds / f64::from(steps);
        let at = |n: i32| (f64::from(n) + 0.5) * step;
        let here = |at: &f64| (population.from_s..population.to_s).contains(at);
        let requests: f64 = (0..steps).map(at).filter(here).map(|at| rate.at(at) * step).sum();
        let total = mix.weights.last().copied().unwrap_or(1.0);
        let (mut before, mut mean) = (0.0, 0.0);
        for (place, sum) in mix.weights.iter().enumerate() {
            mean += (sum - before) / total * of(mix.step(place as u32, 0));
            before = *sum;
        }
        let each = match &population.arrivals {
            Arrivals::Sessions { requests, .. } => f64::from(*requests),
            _ => 1.0,
        };
        work += requests * each * if mix.weights.is_empty() { of(mix.first) } else { mean };
    }
    Some(work / (capacity * trial.seconds))
}
