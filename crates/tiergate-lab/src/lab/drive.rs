//! An experiment driven by a tool that is not ours, one phase after another: httperf, the papers' own, or oha.

use super::experiment::Experiment;
use super::httperf::{self, Workload};
use super::{oha, surge};
use crate::load::Population;
use crate::load::figures::{Figures, PopulationFigures, RunFigures, SessionFigures, StepFigures};
use anyhow::Result;

/// Requests in httperf's list, which it goes through again and again.
const URIS: usize = 5000;
/// How much later than its last client leaves a generator may end, in seconds.
const LATE_S_MAX: f64 = 0.5;

/// The same by oha. There is no series of seconds, and whether it kept up is only known by when it ended.
pub(super) async fn oha(
    experiment: &Experiment,
    populations: &[Population],
    place: &oha::Place<'_>,
) -> Result<RunFigures> {
    let mut report = RunFigures {
        populations: populations.iter().map(nothing_yet).collect(),
        ..RunFigures::default()
    };
    for phase in 0..experiment.phases.len() {
        let asking = populations.iter().enumerate().filter(|(_, p)| p.steps[phase].rate > 0.0);
        let asking: Vec<(usize, &Population)> = asking.collect();
        let steps: Vec<_> = asking.iter().map(|(_, p)| (*p, p.steps[phase])).collect();
        let all = oha::run(&steps, place).await?;
        for ((number, population), driven) in asking.iter().zip(all) {
            let into = &mut report.populations[*number];
            let step = &mut into.steps[phase];
            // The last answers come when their clients are about to leave; what comes later was sent late.
            let late = driven.seconds - step.seconds - population.patience.as_secs_f64();
            report.lateness_p99_ms = report.lateness_p99_ms.max(late * 1e3);
            report.void = report.void.or_else(|| behind(late));
            let longer = driven.seconds.max(step.seconds) / step.seconds;
            step.answered_in_it = (driven.figures.counts.ok as f64 / longer).round() as u64;
            into.overall.counts.add(&driven.figures.counts);
            into.overall.attempts += driven.figures.attempts;
            step.figures = driven.figures;
        }
    }
    Ok(report)
}

/// Why the figures of a generator say nothing that ended so many seconds late; `None`: they do.
fn behind(late: f64) -> Option<String> {
    (late > LATE_S_MAX)
        .then(|| format!("void: oha ended {late:.1} s late; the machine is too busy for this rate"))
}

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
            mean_ms: Some(figures.mean_ms * f64::from(session.requests.unwrap_or(1))),
            ..SessionFigures::default()
        };
    }
}
