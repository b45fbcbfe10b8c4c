//! An experiment driven by the papers' own tool: httperf, one phase after another.

use super::experiment::Experiment;
use super::httperf::{self, Workload};
use super::surge;
use crate::load::Population;
use crate::load::figures::{Figures, PopulationFigures, RunFigures, SessionFigures, StepFigures};
use anyhow::Result;

/// Requests in httperf's list, which it goes through again and again.
const URIS: usize = 5000;

/// Runs every phase to its end, late answers included, and returns what our own generator would.
/// There is no series of seconds and no p99: httperf tells neither.
pub(super) async fn httperf(
    experiment: &Experiment,
    populations: &[Population],
    place: &httperf::Place<'_>,
) -> Result<RunFigures> {
    let mut report = RunFigures {
        populations: populations.iter().map(nothing_yet).collect(),
        // It never sleeps; what tells whether it kept up is its lateness.
        cpu: 1.0,
        cpu_peak: 1.0,
        ..RunFigures::default()
    };
    for phase in 0..experiment.phases.len() {
        let asking = populations.iter().enumerate().filter(|(_, p)| p.steps[phase].rate > 0.0);
        let asking: Vec<(usize, &Population)> = asking.collect();
        let workloads: Vec<Workload<'_>> = asking.iter().map(|(_, p)| workload(p, phase)).collect();
        let all = httperf::run(&workloads, place).await?;
        for ((number, population), figures) in asking.iter().zip(&all) {
            report.lateness_p99_ms = report.lateness_p99_ms.max(figures.late_ms);
            report.void = report.void.or_else(|| figures.void());
            take(&mut report.populations[*number], population, phase, figures);
        }
    }
    Ok(report)
}

fn nothing_yet(population: &Population) -> PopulationFigures {
    let step = |step: &crate::load::Step| StepFigures {
        rate: step.rate,
        seconds: step.lasting.as_secs_f64(),
        ..StepFigures::default()
    };
    PopulationFigures {
        name: population.name.clone(),
        steps: population.steps.iter().map(step).collect(),
        sessions_by_step: vec![SessionFigures::default(); population.steps.len()],
        ..PopulationFigures::default()
    }
}

fn workload(population: &Population, phase: usize) -> Workload<'_> {
    let uris = match &population.paths[..] {
        [one] => vec![one.clone()],
        several => surge::requests(several, URIS, 1),
    };
    Workload { population, step: population.steps[phase], uris }
}

fn take(into: &mut PopulationFigures, of: &Population, phase: usize, figures: &httperf::Figures) {
    let step = &mut into.steps[phase];
    // All of a phase ends before the next begins, but its last answers come after its time.
    let longer = figures.seconds.max(step.seconds) / step.seconds;
    step.answered_in_it = (figures.counts.ok as f64 / longer).round() as u64;
    step.figures = Figures {
        counts: figures.counts,
        attempts: figures.counts.sent,
        mean_ms: Some(figures.mean_ms).filter(|_| figures.counts.ok > 0),
        p50_ms: figures.p50_ms.filter(|_| figures.counts.ok > 0),
        ..Figures::default()
    };
    into.overall.counts.add(&figures.counts);
    into.overall.attempts += figures.counts.sent;
    if let (Some(sessions), Some(session)) = (figures.sessions, &of.session) {
        into.sessions_by_step[phase] = SessionFigures {
            begun: sessions.begun,
            completed: sessions.completed,
            completed_in_it: (sessions.completed as f64 / longer).round() as u64,
            mean_ms: Some(figures.mean_ms * f64::from(session.requests)),
            ..SessionFigures::default()
        };
    }
}
