//! The result of a run.

use super::figures::{PopulationFigures, RunFigures, Second, StepFigures};
use super::live::Live;
use super::meter::Usage;
use super::plan::Plan;
use super::population::Population;
use super::tally::{SessionTally, Tally};
use std::time::Duration;
use tiergate_draw::number::{milliseconds, thousands};
use tiergate_draw::{Cell, Paint, Table, Tone};

/// Requests sent later than this do not follow the schedule; a run in which more than one in a
/// hundred is later measures the generator. A tenth of the shortest patience in use here.
pub(crate) const LATENESS_MAX: Duration = Duration::from_millis(50);

/// A generator that uses more of its processor than this in any five seconds may be what it
/// measures.
const USAGE_MAX: f64 = 0.95;

/// What became of a run's requests.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// In the order of the plan.
    pub(crate) populations: Vec<PopulationReport>,
    /// The lateness that 99 % of requests did not exceed.
    pub(crate) lateness_p99: Duration,
    /// What the generator used of its processor.
    pub(crate) usage: Usage,
}

/// What became of a population's requests.
#[derive(Clone, Debug)]
pub(crate) struct PopulationReport {
    /// Who asked.
    pub(crate) population: Population,
    /// By step in which the request was due.
    pub(crate) steps: Vec<Tally>,
    /// Good answers by the step in which they came: what the server did in that time.
    pub(crate) answered: Vec<u64>,
    /// Bytes of answers by the step in which they came; empty: not known.
    received: Vec<u64>,
    /// Sum of the steps.
    pub(crate) overall: Tally,
    /// Sessions by step in which they were due; empty without.
    sessions: Vec<SessionTally>,
    /// By second.
    series: Vec<Second>,
}

impl PopulationReport {
    /// A population's tallies, one for each of its steps, without sessions and seconds.
    pub(crate) fn new(population: &Population, steps: Vec<Tally>, answered: Vec<u64>) -> Self {
        let mut overall = Tally::default();
        steps.iter().for_each(|step| overall.add(step));
        let (received, sessions, series) = (Vec::new(), Vec::new(), Vec::new());
        let population = population.clone();
        Self { population, steps, answered, received, overall, sessions, series }
    }

    fn figures(&self) -> PopulationFigures {
        let steps = self.steps.iter().zip(&self.answered).zip(&self.population.steps).enumerate();
        let steps = steps.map(|(number, ((tally, answered), step))| StepFigures {
            rate: step.rate,
            seconds: step.lasting.as_secs_f64(),
            answered_in_it: *answered,
            received_in_it: self.received.get(number).copied().unwrap_or(0),
            figures: tally.figures(),
        });
        PopulationFigures {
            name: self.population.name.clone(),
            steps: steps.collect(),
            overall: self.overall.figures(),
            sessions_by_step: self.sessions.iter().map(SessionTally::figures).collect(),
            series: self.series.clone(),
        }
    }
}

impl Report {
    pub(super) fn new(plan: &Plan, live: &Live) -> Self {
        let of = |(number, population)| {
            let course = live.course(number);
            let series = course.series.seconds();
            let report = PopulationReport::new(population, course.steps, course.answered);
            let (received, sessions) = (course.received, course.sessions);
            PopulationReport { received, sessions, series, ..report }
        };
        Self {
            populations: plan.populations.iter().enumerate().map(of).collect(),
            lateness_p99: live.lateness_p99(),
            usage: live.usage(),
        }
    }

    /// Why the figures say nothing; `None`: they do.
    pub(crate) fn void(&self) -> Option<String> {
        if self.lateness_p99 > LATENESS_MAX {
            return Some(format!(
                "void: the load generator was {} ms behind its schedule (p99), more than {} ms; \
                 the machine is too busy for this rate",
                milliseconds(Some(self.lateness_p99)),
                LATENESS_MAX.as_millis()
            ));
        }
        (self.usage.peak > USAGE_MAX).then(|| {
            format!(
                "void: the load generator used {:.0} % of its processor, more than {:.0} %; \
                 it is too slow for this rate",
                self.usage.peak * 100.0,
                USAGE_MAX * 100.0
            )
        })
    }

    /// The figures for machines.
    pub(crate) fn figures(&self) -> RunFigures {
        RunFigures {
            populations: self.populations.iter().map(PopulationReport::figures).collect(),
            lateness_p99_ms: self.lateness_p99.as_secs_f64() * 1e3,
            cpu: self.usage.mean,
            cpu_peak: self.usage.peak,
            void: self.void(),
        }
    }

    /// The figures for people.
    pub(crate) fn table(&self, paint: Paint) -> String {
        let mut table = Table::new(
            "<population|offered/s|sent|ok|refused|failed|timed out|p50 ms|p99 ms".split('|'),
        );
        for report in &self.populations {
            for (tally, step) in report.steps.iter().zip(&report.population.steps) {
                table.row(cells(&report.population.name, format!("{:.0}", step.rate), tally));
            }
            if report.steps.len() > 1 {
                table.row(cells(&report.population.name, "overall".into(), &report.overall));
            }
        }
        let lateness = milliseconds(Some(self.lateness_p99));
        let used = self.usage.mean * 100.0;
        let note =
            format!("  sent {lateness} ms late at most (p99); used {used:.0} % of a processor\n");
        table.render(paint) + &paint.tone(Tone::Faint, &note)
    }
}

fn cells(name: &str, rate: String, tally: &Tally) -> Vec<Cell> {
    let counts = tally.counts;
    let count = |n: u64, tone| Cell(thousands(n), if n == 0 { Tone::Faint } else { tone });
    vec![
        name.into(),
        rate.into(),
        thousands(counts.sent).into(),
        count(counts.ok, Tone::Good),
        count(counts.refused, Tone::Plain),
        count(counts.failed, Tone::Bad),
        count(counts.timed_out, Tone::Bad),
        milliseconds(tally.quantile(0.5)).into(),
        milliseconds(tally.quantile(0.99)).into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Step;
    use crate::load::counts::{Counts, Outcome};

    #[test]
    fn figures_survive_their_file() {
        let step = Step { rate: 2.0, lasting: Duration::from_secs(10) };
        let population = Population { steps: vec![step; 2], ..Population::default() };
        let mut tally = Tally::default();
        tally.counts.sent = 2;
        tally.ended(Outcome::Ok, Duration::from_micros(1234));
        tally.ended(Outcome::Refused, Duration::ZERO);
        let mut sessions = SessionTally::default();
        sessions.counts.begun = 2;
        sessions.completed(Duration::from_millis(77));
        let report = PopulationReport {
            sessions: vec![sessions],
            series: vec![Second {
                counts: Counts { sent: 2, ok: 1, ..Counts::default() },
                p50_ms: Some(1.5),
                ..Second::default()
            }],
            ..PopulationReport::new(&population, vec![tally, Tally::default()], vec![1, 0])
        };
        let report = Report {
            populations: vec![report],
            lateness_p99: Duration::from_millis(60),
            usage: Usage { mean: 0.25, peak: 0.5 },
        };
        let figures = report.figures();
        let text = serde_json::to_string(&figures).unwrap();
        assert_eq!(serde_json::from_str::<RunFigures>(&text).unwrap(), figures);
        let population = &figures.populations[0];
        assert_eq!((population.overall.counts.sent, population.steps[0].answered_in_it), (2, 1));
        assert_eq!(population.overall.p50_ms, Some(1.234));
        assert_eq!(population.steps[1].figures.p50_ms, None);
        assert_eq!(population.sessions_by_step[0].completed, 1);
        assert!(figures.void.is_some_and(|why| why.contains("behind its schedule")));
    }
}
