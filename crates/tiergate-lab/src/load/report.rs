//! The result of a run.

use super::{Live, Plan, Population, Tally, lock};
use crate::text::{Cell, Palette, Table, Tone};
use crate::units::{milliseconds, thousands};
use serde_json::{Value, json};
use std::time::Duration;

/// Requests sent later than this do not follow the schedule; a run in which more than one in a
/// hundred is later measures the generator. A tenth of the shortest patience in use here.
const LATENESS_MAX: Duration = Duration::from_millis(50);

/// What became of a run's requests.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// In the order of the plan.
    pub(crate) populations: Vec<PopulationReport>,
    /// The lateness that 99 % of requests did not exceed.
    pub(crate) lateness_p99: Duration,
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
    /// Sum of the steps.
    pub(crate) overall: Tally,
}

impl PopulationReport {
    /// A population's tallies, one for each of its steps.
    pub(crate) fn new(population: &Population, steps: Vec<Tally>, answered: Vec<u64>) -> Self {
        let mut overall = Tally::new();
        steps.iter().for_each(|step| overall.add(step));
        Self { population: population.clone(), steps, answered, overall }
    }
}

impl Report {
    pub(super) fn new(plan: &Plan, live: &Live) -> Self {
        let populations = plan
            .populations
            .iter()
            .zip(live.tallies.iter().zip(&live.answered))
            .map(|(population, (steps, answered))| {
                PopulationReport::new(population, lock(steps).clone(), lock(answered).clone())
            })
            .collect();
        let lateness_p99 = lock(&live.lateness).quantile(0.99).unwrap_or_default();
        Self { populations, lateness_p99 }
    }

    /// Why the figures say nothing; `None`: they do.
    pub(crate) fn void(&self) -> Option<String> {
        (self.lateness_p99 > LATENESS_MAX).then(|| {
            format!(
                "void: the load generator was {} ms behind its schedule (p99), more than {} ms; \
                 the machine is too busy for this rate",
                milliseconds(Some(self.lateness_p99)),
                LATENESS_MAX.as_millis()
            )
        })
    }

    /// The figures for machines.
    pub(crate) fn to_json(&self) -> Value {
        let populations = self.populations.iter().map(|p| {
            let steps = p.steps.iter().zip(&p.answered).zip(&p.population.steps);
            let steps = steps.map(|((tally, answered), step)| {
                json!({
                    "answered_in_it": answered,
                    "rate": step.rate, "seconds": step.lasting.as_secs_f64(),
                    "requests": tally.to_json(),
                })
            });
            json!({
                "name": p.population.name,
                "steps": steps.collect::<Vec<_>>(),
                "overall": p.overall.to_json(),
            })
        });
        json!({
            "populations": populations.collect::<Vec<_>>(),
            "lateness_p99_ms": self.lateness_p99.as_secs_f64() * 1e3,
            "void": self.void(),
        })
    }

    /// The figures for people.
    pub(crate) fn table(&self, palette: Palette) -> String {
        let mut table = Table::new(&[
            "<population",
            "offered/s",
            "sent",
            "ok",
            "refused",
            "failed",
            "timed out",
            "p50 ms",
            "p99 ms",
        ]);
        for report in &self.populations {
            for (tally, step) in report.steps.iter().zip(&report.population.steps) {
                table.row(cells(&report.population.name, format!("{:.0}", step.rate), tally));
            }
            if report.steps.len() > 1 {
                table.row(cells(&report.population.name, "overall".into(), &report.overall));
            }
        }
        let lateness = milliseconds(Some(self.lateness_p99));
        let note = format!("  sent {lateness} ms late at most (p99)\n");
        table.render(palette) + &palette.paint(Tone::Faint, &note)
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
