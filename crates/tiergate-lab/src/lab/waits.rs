//! How long requests waited in Tiergate's queue, by its access log: what DiffServer's paper plots.

use crate::load::Population;
use crate::load::figures::RunFigures;
use serde::Deserialize;
use std::path::Path;

/// A population's waits.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Waits {
    /// Its name.
    pub(super) name: String,
    /// By phase: the mean in milliseconds, and of how many requests.
    pub(super) phases: Vec<(Option<f64>, u64)>,
}

/// What is read of a line.
#[derive(Deserialize)]
struct Line {
    time: String,
    target: String,
    #[serde(default)]
    queue_seconds: f64,
}

/// Reads the log of a run. Empty without a log, if two populations ask for the same, or one for several paths: then
/// lines cannot be told apart.
///
/// Lines do not say of which phase they are: as many of a population's, in the order of arrival, are of a phase as it sent in it.
pub(super) fn read(log: &Path, populations: &[Population], report: &RunFigures) -> Vec<Waits> {
    match std::fs::read_to_string(log) {
        Ok(text) => waits(&text, populations, report),
        Err(_) => Vec::new(),
    }
}

fn waits(text: &str, populations: &[Population], report: &RunFigures) -> Vec<Waits> {
    let target = |population: &Population| match &population.paths[..] {
        [one] => one.split('?').next().map(str::to_owned),
        _ => None,
    };
    let Some(targets) = populations.iter().map(target).collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    let is_own = |(place, target)| !targets[..place].contains(target);
    if !targets.iter().enumerate().all(is_own) {
        return Vec::new();
    }
    let mut lines: Vec<Line> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    // One format, one zone: the order of the texts is that of the times.
    lines.sort_by(|a, b| a.time.cmp(&b.time));
    let of = |(population, target): (&Population, &String)| {
        let figures = report.populations.iter().find(|p| p.name == population.name);
        let steps = figures.map_or(&[][..], |figures| &figures.steps);
        let mut own = lines.iter().filter(|line| line.target == *target);
        let phase = |sent: u64| {
            let some = own.by_ref().take(usize::try_from(sent).unwrap_or(usize::MAX));
            let (total, count) = some.fold((0.0, 0), |(t, n), l| (t + l.queue_seconds, n + 1));
            ((count > 0).then(|| total * 1e3 / count as f64), count)
        };
        let phases = steps.iter().map(|step| step.figures.attempts).map(phase).collect();
        Waits { name: population.name.clone(), phases }
    };
    populations.iter().zip(&targets).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::figures::{Figures, PopulationFigures, StepFigures};

    fn population(name: &str, path: &str) -> Population {
        Population { name: name.into(), paths: vec![path.into()], ..Population::default() }
    }

    /// High sends one request in each phase, low two in the first.
    fn report() -> RunFigures {
        let step = |attempts| StepFigures {
            figures: Figures { attempts, ..Figures::default() },
            ..StepFigures::default()
        };
        let figures = |name: &str, sent: [u64; 2]| PopulationFigures {
            name: name.into(),
            steps: sent.map(step).into(),
            ..PopulationFigures::default()
        };
        let populations = vec![figures("high", [1, 1]), figures("low", [2, 0])];
        RunFigures { populations, ..RunFigures::default() }
    }

    /// As the gateway writes it: in the order in which requests ended.
    const LOG: &str = r#"
{"time":"2026-11-26T10:00:09.000Z","target":"/high","queue_seconds":0.5}
{"time":"2026-11-26T10:00:01.000Z","target":"/low","queue_seconds":0.3}
{"time":"2026-11-26T10:00:00.000Z","target":"/high","verdict":"admitted"}
{"time":"2026-11-26T10:00:02.000Z","target":"/low","queue_seconds":0.1}
{"time":"2026-11-26T10:00:02.000Z","target":"/robots.txt","queue_seconds":9.0}
"#;

    #[test]
    fn waits_are_told_by_path_and_phase() {
        let both = [population("high", "/high?bytes=1"), population("low", "/low")];
        let [high, low] = &waits(LOG, &both, &report())[..] else { panic!("two populations") };
        assert_eq!(high.phases, [(Some(0.0), 1), (Some(500.0), 1)]);
        assert_eq!(low.phases, [(Some(200.0), 2), (None, 0)]);
    }

    #[test]
    fn lines_that_cannot_be_told_apart_tell_nothing() {
        let same = [population("high", "/a"), population("low", "/a?b")];
        assert!(waits(LOG, &same, &report()).is_empty());
        assert!(read(Path::new("/no/such/log"), &same, &report()).is_empty());
    }
}
