//! Figures taken from what was observed in a run. Pure.

use super::result::{Along, Better, Measure, Phase, Plot, Unit};
use super::transient::Target;
use super::waits::Waits;
use crate::load::figures::{Figures, PopulationFigures, RunFigures, Second, SessionFigures};
use serde::Deserialize;

/// What an experiment's file says is measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Taken {
    /// What tables call it.
    pub(super) name: String,
    /// Which figure.
    what: What,
    /// Of these clients; none named: of all.
    #[serde(default)]
    pub(super) clients: Vec<String>,
    /// In these phases; none named: in all.
    #[serde(default)]
    pub(super) phases: Vec<String>,
    /// The capacity in those phases, as a part of the usual one; `None`: all of it.
    capacity: Option<f64>,
    /// What the figure is to be brought to, for how it gets there.
    target: Option<Target>,
    /// As a multiple of the same in these phases.
    #[serde(default)]
    pub(super) over: Vec<String>,
    /// As a multiple of the same of these clients.
    #[serde(default)]
    pub(super) over_clients: Vec<String>,
    /// As a part of what the other clients leave of so many Mb/s, which is what the link carries of payload in full packets.
    left_of: Option<f64>,
    /// Shown, but nobody is ahead by it.
    #[serde(default)]
    only_shown: bool,
}

/// What an experiment's file says is drawn.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    /// The caption.
    title: String,
    /// Which figure.
    what: What,
    /// Of these clients; none named: of all.
    #[serde(default)]
    pub(super) clients: Vec<String>,
    /// What runs along.
    along: Along,
}

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    /// Requests answered well, of those asked for.
    Answered,
    /// Requests refused, of those asked for.
    Refused,
    /// Requests asked for that were not answered well, for whatever reason.
    Failed,
    /// Good answers a second, of the origin's capacity.
    Goodput,
    /// Good answers a second.
    Rate,
    /// Bytes of good answers a second, in Mb/s.
    Megabits,
    /// Bytes of answers that came in that time, heads included, whatever became of the answers, in Mb/s.
    Received,
    /// Requests sent to get one answered or given up.
    Attempts,
    /// Latency of good answers.
    Mean,
    /// Latency of good answers.
    P50,
    /// Latency of good answers.
    P99,
    /// Median latency in the second of the phases that has the longest.
    WorstP50,
    /// Sessions brought to their end, of those begun.
    Completed,
    /// Sessions brought to their end, of those whose first request was answered well.
    Kept,
    /// Sessions brought to their end a second, by when they ended: what a backlog leaves for after the
    /// experiment is not counted.
    SessionRate,
    /// Time that a completed session took without thinking.
    SessionMean,
    /// Time that a completed session took without thinking.
    SessionP99,
    /// Seconds from the beginning of the phase until the clients' requests were answered again:
    /// nine in ten of those due, for two seconds on end.
    Recovery,
    /// Requests that the origin served for nobody, of those it served.
    Wasted,
    /// SYNs and first requests that Tiergate had the kernel refuse for want of a token, by its metrics, of all requests asked for.
    KernelRefused,
    /// Processor time of the gateway for each request asked for.
    FrontCpu,
    /// Processor time of the gateway in a second.
    FrontBusy,
    /// Processor time of the origin in a second.
    OriginBusy,
    /// Packets a second that the clients' machine put on its link, where there is a flood.
    FloodSent,
    /// Of them, those that found a place in the gateway's queue for what it receives.
    FloodArrived,
    /// How far that went beyond its target, of the target ([`super::transient`]).
    Overshoot,
    /// Seconds from the beginning of the phases until it stayed at its target.
    Settling,
    /// Mean time that requests waited in Tiergate's queue, if it writes a log.
    QueueWait,
}

impl What {
    /// Whether it says how something gets to a target.
    fn needs_target(self) -> bool {
        matches!(self, Self::Overshoot | Self::Settling)
    }

    /// What it is in, and which values are better.
    fn kind(self) -> (Unit, Better) {
        use Better::{Higher, Lower};
        match self {
            Self::Answered | Self::Goodput | Self::Completed | Self::Kept => (Unit::Share, Higher),
            Self::KernelRefused => (Unit::Share, Higher),
            Self::Refused | Self::Failed | Self::Wasted => (Unit::Share, Lower),
            Self::FrontBusy | Self::OriginBusy | Self::Overshoot => (Unit::Share, Lower),
            Self::Rate | Self::SessionRate | Self::FloodSent | Self::FloodArrived => {
                (Unit::Rate, Higher)
            }
            Self::Megabits | Self::Received => (Unit::Megabits, Higher),
            Self::Attempts => (Unit::Ratio, Lower),
            Self::Mean | Self::P50 | Self::P99 | Self::WorstP50 | Self::QueueWait => {
                (Unit::Ms, Lower)
            }
            Self::SessionMean | Self::SessionP99 => (Unit::Ms, Lower),
            Self::Recovery | Self::Settling => (Unit::S, Lower),
            Self::FrontCpu => (Unit::Us, Lower),
        }
    }
}

/// What was observed in a run.
pub(super) struct Observed<'a> {
    /// What the clients saw.
    pub(super) report: &'a RunFigures,
    /// The experiment's phases.
    pub(super) phases: &'a [Phase],
    /// Requests a second that the origin can serve.
    pub(super) capacity: f64,
    /// Requests that the origin served, and those of them that nobody waited for any more.
    pub(super) served: Option<(u64, u64)>,
    /// SYNs and first requests that the kernel refused; `None`: the contender does not say.
    pub(super) kernel_refused: Option<u64>,
    /// Processor time of the gateway in seconds.
    pub(super) front_cpu_s: f64,
    /// How long requests waited in its queue; empty if it does not tell.
    pub(super) waits: &'a [Waits],
    /// Processor time of the origin in each second.
    pub(super) busy: &'a [f64],
    /// The same of the gateway.
    pub(super) front_busy: &'a [f64],
    /// Packets on the clients' link in each second, where there is a flood; and those of them that arrived.
    pub(super) flood_sent: &'a [f64],
    /// See `flood_sent`.
    pub(super) flood_arrived: &'a [f64],
}

impl Taken {
    /// Whether it is of what the kernel refuses.
    pub(super) fn is_of_the_kernel(&self) -> bool {
        self.what == What::KernelRefused
    }

    /// What is told of clients in every comparison: how many were answered, and how long 99 % of these waited at most.
    pub(super) fn of_clients(name: &str) -> [Self; 2] {
        [("answered", What::Answered), ("p99", What::P99)].map(|(words, what)| Self {
            name: format!("{name} {words}"),
            what,
            clients: vec![name.to_owned()],
            phases: Vec::new(),
            capacity: None,
            target: None,
            over: Vec::new(),
            over_clients: Vec::new(),
            left_of: None,
            only_shown: false,
        })
    }

    /// The measure as results keep it.
    pub(super) fn measure(&self) -> Measure {
        let (unit, better) = self.what.kind();
        let unit = match self.left_of {
            Some(_) => Unit::Share,
            None if self.is_multiple() => Unit::Ratio,
            None => unit,
        };
        Measure { name: self.name.clone(), unit, better, judged: !self.only_shown }
    }

    /// Its value in a run; `None`: there was nothing to take it from.
    pub(super) fn value(&self, run: &Observed<'_>) -> Option<f64> {
        let value = self.value_of(run, &self.phases, &self.clients)?;
        if let Some(whole) = self.left_of {
            let all = self.value_of(run, &self.phases, &[])?;
            let left = whole - (all - value);
            return (left > 0.0).then(|| value / left);
        }
        if !self.is_multiple() {
            return Some(value);
        }
        let phases = if self.over.is_empty() { &self.phases } else { &self.over };
        let clients = if self.over_clients.is_empty() { &self.clients } else { &self.over_clients };
        let base = self.value_of(run, phases, clients)?;
        (base > 0.0).then(|| value / base)
    }

    /// Whether it is of bytes by when they came.
    pub(super) fn is_received(&self) -> bool {
        self.what == What::Received
    }

    /// Whether it is a part of what others leave only if it is of bytes by when they came, of some clients.
    pub(super) fn may_be_of_what_is_left(&self) -> bool {
        let may_be = self.is_received() && !self.clients.is_empty() && !self.is_multiple();
        self.left_of.is_none() || may_be
    }

    /// Whether it has a target if, and only if, it needs one.
    pub(super) fn has_its_target(&self) -> bool {
        self.target.is_some() == self.what.needs_target()
    }

    fn is_multiple(&self) -> bool {
        !(self.over.is_empty() && self.over_clients.is_empty())
    }

    /// Its value in these phases, of these clients; none named: in all, of all.
    fn value_of(&self, run: &Observed<'_>, names: &[String], clients: &[String]) -> Option<f64> {
        let chosen = |phase: &Phase| names.is_empty() || names.contains(&phase.name);
        let phases: Vec<usize> =
            (0..run.phases.len()).filter(|n| chosen(&run.phases[*n])).collect();
        let populations = of(run.report, clients);
        let value = match self.what {
            What::Recovery => recovery(run, &populations, *phases.first()?),
            What::Overshoot => self.target?.overshoot(&busy_in(run, &phases, run.busy)),
            What::Settling => self.target?.settling(&busy_in(run, &phases, run.busy)),
            What::KernelRefused => kernel_refused(run),
            what => figure(run, &populations, &phases, what),
        };
        let capacity = self.capacity.filter(|_| self.what == What::Goodput).unwrap_or(1.0);
        value.map(|value| value / capacity)
    }
}

impl Line {
    /// Whether it is of bytes by when they came.
    pub(super) fn is_received(&self) -> bool {
        self.what == What::Received
    }

    /// Whether it can be drawn.
    pub(super) fn can_be_drawn(&self) -> bool {
        !self.what.needs_target() && self.what != What::KernelRefused
    }

    /// The plot as results keep it.
    pub(super) fn plot(&self) -> Plot {
        Plot { title: self.title.clone(), unit: self.what.kind().0, along: self.along }
    }

    /// Its values in a run, by phase or second.
    pub(super) fn values(&self, run: &Observed<'_>) -> Vec<Option<f64>> {
        let populations = of(run.report, &self.clients);
        match self.along {
            Along::Phases => (0..run.phases.len())
                .map(|phase| figure(run, &populations, &[phase], self.what))
                .collect(),
            Along::Time => {
                let seconds: f64 = run.phases.iter().map(|phase| phase.seconds).sum();
                (0..seconds.ceil() as usize)
                    .map(|second| in_second(run, &populations, second, self.what))
                    .collect()
            }
        }
    }
}

/// See [`What::KernelRefused`].
fn kernel_refused(run: &Observed<'_>) -> Option<f64> {
    let sent: u64 = run.report.populations.iter().map(|p| p.overall.counts.sent).sum();
    run.kernel_refused.filter(|_| sent > 0).map(|count| count as f64 / sent as f64)
}

/// The populations of those names, or all.
fn of<'a>(report: &'a RunFigures, names: &[String]) -> Vec<&'a PopulationFigures> {
    let wanted = |p: &&PopulationFigures| names.is_empty() || names.contains(&p.name);
    report.populations.iter().filter(wanted).collect()
}

fn figure(
    run: &Observed<'_>,
    populations: &[&PopulationFigures],
    phases: &[usize],
    what: What,
) -> Option<f64> {
    let seconds: f64 = phases.iter().map(|phase| run.phases[*phase].seconds).sum();
    let steps = || populations.iter().flat_map(|p| phases.iter().map(|phase| &p.steps[*phase]));
    let sum = |count: &dyn Fn(&Figures) -> u64| -> f64 {
        steps().map(|step| count(&step.figures) as f64).sum()
    };
    let answers: f64 = steps().map(|step| step.answered_in_it as f64).sum();
    let (sent, ok, refused) =
        (sum(&|f| f.counts.sent), sum(&|f| f.counts.ok), sum(&|f| f.counts.refused));
    let by_step = populations.iter().map(|p| &p.sessions_by_step);
    let sessions = || by_step.clone().flat_map(|by| phases.iter().filter_map(|n| by.get(*n)));
    let of_sessions =
        |count: fn(&SessionFigures) -> u64| -> f64 { sessions().map(|s| count(s) as f64).sum() };
    let completed = of_sessions(|s| s.completed);
    let ratio = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
    // Of several phases or populations: the mean, weighted by what there was of each.
    let mean = |pairs: &mut dyn Iterator<Item = (Option<f64>, u64)>| {
        let pairs = pairs.filter_map(|(value, count)| Some((value?, count as f64)));
        let (total, weight) = pairs.fold((0.0, 0.0), |(t, w), (v, n)| (t + v * n, w + n));
        ratio(total, weight)
    };
    let weighted = |take: fn(&Figures) -> Option<f64>| {
        mean(&mut steps().map(|s| (take(&s.figures), s.figures.counts.ok)))
    };
    let session = |take: fn(&SessionFigures) -> Option<f64>| {
        mean(&mut sessions().map(|s| (take(s), s.completed)))
    };
    match what {
        What::Answered => ratio(ok, sent),
        What::Refused => ratio(refused, sent),
        What::Failed => ratio(sent - ok, sent),
        What::Goodput => ratio(answers, seconds * run.capacity),
        What::Rate => ratio(answers, seconds),
        What::Megabits => ratio(sum(&|f| f.bytes) * 8.0 / 1e6, seconds),
        What::Received => {
            ratio(steps().map(|step| step.received_in_it as f64 * 8.0 / 1e6).sum(), seconds)
        }
        What::Attempts => ratio(sum(&|f| f.attempts), sent),
        What::Mean => weighted(|f| f.mean_ms),
        What::P50 => weighted(|f| f.p50_ms),
        What::P99 => weighted(|f| f.p99_ms),
        What::WorstP50 => {
            let seconds = phases.iter().flat_map(|phase| seconds_of(run, *phase));
            let medians = seconds.map(|second| in_second(run, populations, second, What::P50));
            medians.flatten().reduce(f64::max)
        }
        What::Completed => ratio(completed, of_sessions(|s| s.begun)),
        What::Kept => ratio(completed, of_sessions(|s| s.started)),
        What::SessionRate => ratio(of_sessions(|s| s.completed_in_it), seconds),
        What::SessionMean => session(|s| s.mean_ms),
        What::SessionP99 => session(|s| s.p99_ms),
        What::Recovery => recovery(run, populations, *phases.first()?),
        What::Wasted => run.served.and_then(|(all, wasted)| ratio(wasted as f64, all as f64)),
        What::OriginBusy | What::FrontBusy | What::FloodSent | What::FloodArrived => {
            let of_all = match what {
                What::OriginBusy => run.busy,
                What::FrontBusy => run.front_busy,
                What::FloodSent => run.flood_sent,
                _ => run.flood_arrived,
            };
            let seconds = busy_in(run, phases, of_all);
            ratio(seconds.iter().sum(), seconds.len() as f64)
        }
        // They need a target, and so a measure; or are of the whole run.
        What::Overshoot | What::Settling | What::KernelRefused => None,
        What::QueueWait => {
            let own = |w: &&Waits| populations.iter().any(|p| p.name == w.name);
            let own = run.waits.iter().filter(own);
            mean(&mut own.flat_map(|w| phases.iter().filter_map(|n| w.phases.get(*n).copied())))
        }
        What::FrontCpu => {
            let all = populations.iter().map(|p| p.overall.attempts.max(p.overall.counts.sent));
            ratio(run.front_cpu_s * 1e6, all.sum::<u64>() as f64)
        }
    }
}

/// A figure of one second; for those that a second has none of, `None`.
fn in_second(
    run: &Observed<'_>,
    populations: &[&PopulationFigures],
    second: usize,
    what: What,
) -> Option<f64> {
    let seconds = || populations.iter().filter_map(|p| p.series.get(second));
    let sum = |count: &dyn Fn(&Second) -> u64| -> f64 { seconds().map(|s| count(s) as f64).sum() };
    let (sent, ok) = (sum(&|s| s.counts.sent), sum(&|s| s.counts.ok));
    let largest =
        |take: &dyn Fn(&Second) -> Option<f64>| seconds().filter_map(take).reduce(f64::max);
    match what {
        What::Rate => Some(ok),
        What::Received => Some(sum(&|s| s.received) * 8.0 / 1e6),
        What::OriginBusy => run.busy.get(second).copied(),
        What::FrontBusy => run.front_busy.get(second).copied(),
        What::FloodSent => run.flood_sent.get(second).copied(),
        What::FloodArrived => run.flood_arrived.get(second).copied(),
        What::Goodput => Some(ok / run.capacity),
        // Answers may come a second after their requests; more than all is all.
        What::Answered => (sent > 0.0).then(|| (ok / sent).min(1.0)),
        What::Refused => (sent > 0.0).then(|| (sum(&|s| s.counts.refused) / sent).min(1.0)),
        What::P50 => largest(&|s| s.p50_ms),
        What::P99 => largest(&|s| s.p99_ms),
        _ => None,
    }
}

/// Those of a run's seconds that are of these phases.
fn busy_in(run: &Observed<'_>, phases: &[usize], busy: &[f64]) -> Vec<f64> {
    phases.iter().flat_map(|n| busy_of(run, *n, busy)).copied().collect()
}

/// Those of a phase.
fn busy_of<'a>(run: &Observed<'_>, phase: usize, busy: &'a [f64]) -> &'a [f64] {
    let std::ops::Range { start, end } = seconds_of(run, phase);
    let start = start.min(busy.len());
    &busy[start..end.clamp(start, busy.len())]
}

/// The seconds of a phase, from the beginning of the run.
fn seconds_of(run: &Observed<'_>, phase: usize) -> std::ops::Range<usize> {
    let begin: f64 = run.phases[..phase].iter().map(|phase| phase.seconds).sum();
    begin.round() as usize..(begin + run.phases[phase].seconds).round() as usize
}

/// See [`What::Recovery`]. What never recovers is given the time until the end.
fn recovery(run: &Observed<'_>, populations: &[&PopulationFigures], phase: usize) -> Option<f64> {
    let begin: f64 = run.phases[..phase].iter().map(|phase| phase.seconds).sum();
    let end: f64 = run.phases.iter().map(|phase| phase.seconds).sum();
    let (begin, end) = (begin.round() as usize, end.round() as usize);
    let well = |second: usize| {
        in_second(run, populations, second, What::Answered).is_some_and(|share| share >= 0.9)
    };
    let found = (begin..end.saturating_sub(1)).find(|second| well(*second) && well(second + 1));
    Some(found.map_or(end - begin, |second| second - begin) as f64)
}

#[cfg(test)]
mod tests;
