//! The demonstration's end: a table of both passes, and one line computed from it.

use super::scenario::{CLASSES, STAGES};
use crate::load::{Report, Tally};
use std::time::Duration;
use tiergate_draw::number::{milliseconds, thousands};
use tiergate_draw::{Cell, Paint, Table, Tone};

/// What is promised under overload (issue "The gateway in front of a real server", must show 3).
const GOODPUT_MIN: f64 = 0.95;
const P99_RATIO_MAX: f64 = 1.5;

/// Both passes and what they are measured by.
pub(super) struct Passes {
    /// Clients straight at the origin.
    pub(super) without: Report,
    /// The same clients, through Tiergate.
    pub(super) with: Report,
    /// Requests a second that the origin can serve.
    pub(super) capacity: f64,
    /// How long each stage lasted.
    pub(super) stage_lasting: Duration,
}

/// What the overloaded stages of a pass came to.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Overload {
    /// Part of the premium requests answered in time.
    premium_kept: f64,
    /// Their p99; `None` if none was answered.
    premium_p99: Option<Duration>,
    /// Good answers as a part of what the origin could have given.
    goodput: f64,
}

impl Passes {
    /// The table.
    pub(super) fn table(&self, paint: Paint) -> String {
        let mut table = Table::new(
            "<class|<load|<Tiergate|offered|goodput||refused|timed out|failed|p50 ms|p99 ms"
                .split('|'),
        );
        for (class, name) in CLASSES.iter().enumerate() {
            let (without, with) = (&self.without.populations[class], &self.with.populations[class]);
            for (number, stage) in STAGES.iter().enumerate() {
                let name = if number == 0 { name } else { "" };
                table.row(cells(name, stage.name, "without", &without.steps[number]));
                table.row(cells("", "", "with", &with.steps[number]));
            }
            table.row(cells("", "overall", "without", &without.overall));
            table.row(cells("", "", "with", &with.overall));
            table.row::<Cell>([]);
        }
        table.render(paint)
    }

    /// One line: what overload did without and with, and whether that is what is promised.
    pub(super) fn verdict(&self) -> (bool, String) {
        if let Some(why) = self.without.void().or_else(|| self.with.void()) {
            return (false, why);
        }
        let (without, with) = (self.overload(&self.without), self.overload(&self.with));
        let unloaded = self.without.populations[0].steps[0].quantile(0.99);
        let ratio = match (with.premium_p99, unloaded) {
            (Some(p99), Some(unloaded)) => p99.as_secs_f64() / unloaded.as_secs_f64(),
            _ => f64::INFINITY,
        };
        let promises = [
            (with.premium_kept >= 1.0, "premium lost requests"),
            (ratio <= P99_RATIO_MAX, "premium became slow"),
            (with.goodput >= GOODPUT_MIN, "capacity was left unused"),
        ];
        let missed = promises.iter().filter(|(kept, _)| !kept).map(|(_, missed)| *missed);
        let missed: Vec<&str> = missed.collect();
        let mut line = format!(
            "Under overload Tiergate kept {} of premium (without it: {}) at a p99 of {} ms, {ratio:.2}x \
             of unloaded, and {} of the origin's capacity in use for answers in time (without: {}).",
            percent(with.premium_kept),
            percent(without.premium_kept),
            milliseconds(with.premium_p99),
            percent(with.goodput),
            percent(without.goodput),
        );
        if !missed.is_empty() {
            line += &format!(" NOT as promised: {}.", missed.join(", "));
        }
        (missed.is_empty(), line)
    }

    fn overload(&self, report: &Report) -> Overload {
        let stages: Vec<usize> = (0..STAGES.len()).filter(|n| STAGES[*n].overload()).collect();
        let mut premium = Tally::default();
        let mut ok = 0;
        for stage in &stages {
            premium.add(&report.populations[0].steps[*stage]);
            // By the moment of the answer: a queue filled in one stage is served in the next.
            ok += report.populations.iter().map(|p| p.answered[*stage]).sum::<u64>();
        }
        let could = self.capacity * self.stage_lasting.as_secs_f64() * stages.len() as f64;
        Overload {
            premium_kept: premium.counts.ok as f64 / premium.counts.sent.max(1) as f64,
            premium_p99: premium.quantile(0.99),
            goodput: ok as f64 / could,
        }
    }
}

/// Never rounds up to 100 %, which would claim that nothing was lost.
pub(super) fn percent(part: f64) -> String {
    let tenths = (part * 1000.0).floor() / 10.0;
    if tenths.fract() == 0.0 { format!("{tenths:.0} %") } else { format!("{tenths:.1} %") }
}

fn cells(class: &str, load: &str, pass: &str, tally: &Tally) -> Vec<Cell> {
    let counts = tally.counts;
    let count = |n: u64, tone| Cell(thousands(n), if n == 0 { Tone::Faint } else { tone });
    let kept = counts.ok as f64 / counts.sent.max(1) as f64;
    let tone = match kept {
        kept if kept >= 1.0 => Tone::Good,
        kept if kept < 0.5 => Tone::Bad,
        _ => Tone::Plain,
    };
    vec![
        Cell(class.into(), Tone::Strong),
        load.into(),
        Cell(pass.into(), if pass == "with" { Tone::Strong } else { Tone::Plain }),
        thousands(counts.sent).into(),
        thousands(counts.ok).into(),
        Cell(percent(kept), tone),
        count(counts.refused, Tone::Plain),
        count(counts.timed_out, Tone::Bad),
        count(counts.failed, Tone::Bad),
        milliseconds(tally.quantile(0.5)).into(),
        milliseconds(tally.quantile(0.99)).into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::scenario;
    use super::*;
    use crate::load::counts::Outcome;
    use crate::load::meter::Usage;
    use crate::load::report::PopulationReport;

    const CAPACITY: f64 = 400.0;
    const LASTING: Duration = Duration::from_secs(8);

    /// A pass in which each stage brings so many good answers, at that latency, and as many others.
    fn pass(premium: (u64, u64), p99_ms: u64, basic: u64) -> Report {
        let target = "127.0.0.1:1".parse().unwrap();
        let plan = scenario::clients(target, CAPACITY, LASTING);
        let tally = |ok: u64, lost: u64, ms: u64| {
            let mut tally = Tally::default();
            tally.counts.sent = ok + lost;
            (0..ok).for_each(|_| tally.ended(Outcome::Ok, Duration::from_millis(ms)));
            (0..lost).for_each(|_| tally.ended(Outcome::TimedOut, Duration::from_secs(1)));
            tally
        };
        let report = |number: usize, (ok, lost): (u64, u64), ms: u64| {
            let steps = STAGES.map(|_| tally(ok, lost, ms)).into();
            PopulationReport::new(&plan.populations[number], steps, STAGES.map(|_| ok).into())
        };
        let populations = vec![report(0, premium, p99_ms), report(1, (basic, 100), 500)];
        let usage = Usage::default();
        Report { populations, lateness_p99: Duration::from_millis(1), usage }
    }

    fn verdict(with: Report) -> (bool, String) {
        let without = pass((60, 580), 40, 500);
        Passes { without, with, capacity: CAPACITY, stage_lasting: LASTING }.verdict()
    }

    #[test]
    fn what_is_promised_is_recognised() {
        let (kept, line) = verdict(pass((640, 0), 50, 2500));
        assert!(kept, "{line}");
        assert!(line.contains("kept 100 % of premium (without it: 9.3 %)"), "{line}");
        assert!(line.contains("1.25x of unloaded, and 98.1 %"), "{line}");
    }

    #[test]
    fn each_promise_can_be_missed() {
        for (with, missed) in [
            (pass((639, 1), 50, 2500), "premium lost requests"),
            (pass((640, 0), 70, 2500), "premium became slow"),
            (pass((640, 0), 50, 2300), "capacity was left unused"),
        ] {
            let (kept, line) = verdict(with);
            assert!(!kept && line.contains(missed), "{line}");
        }
        let (_, line) = verdict(pass((63_999, 1), 50, 2500));
        assert!(!line.contains("kept 100 %"), "a lost request is not rounded away: {line}");
    }

    #[test]
    fn a_late_or_busy_generator_voids_the_verdict() {
        let mut with = pass((640, 0), 50, 2500);
        with.lateness_p99 = Duration::from_millis(80);
        let (kept, line) = verdict(with);
        assert!(!kept && line.starts_with("void"), "{line}");
        let mut with = pass((640, 0), 50, 2500);
        with.usage.peak = 0.97;
        let (kept, line) = verdict(with);
        assert!(!kept && line.starts_with("void"), "{line}");
    }
}
