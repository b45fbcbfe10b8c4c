//! What httperf prints, read and summed up.

use crate::bench::tool::after;
use crate::load::counts::Counts;
use crate::load::report::LATENESS_MAX;

/// What became of a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Requests sent, and connections that never came to sending theirs. httperf does not tell 503 from
    /// other 4xx and 5xx: all are refused.
    pub(crate) counts: Counts,
    /// Time from the beginning of the connection to the end of the answer, in milliseconds, mean
    /// over all answers; of sessions, from the end of the call to the beginning of the answer.
    pub(crate) mean_ms: f64,
    /// Its median, at a resolution of one; `None`: sessions, of which httperf has none. Of several
    /// processes, the mean of their medians, which are draws of the same.
    pub(crate) p50_ms: Option<f64>,
    /// Sessions begun and sessions completed.
    pub(crate) sessions: Option<Sessions>,
    /// From the beginning to the last answer or timeout, in seconds; of several processes, the
    /// longest.
    pub(crate) seconds: f64,
    /// 99 % of the requests were sent no later than this after they were due, in milliseconds; of several
    /// processes, the latest.
    pub(crate) late_ms: f64,
    /// Connections that could not be made for want of descriptors or ports: never on their way.
    pub(crate) unsent: u64,
}

/// How many sessions there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sessions {
    /// Begun.
    pub(crate) begun: u64,
    /// Every call answered, none refused.
    pub(crate) completed: u64,
}

impl Figures {
    /// Why the figures say nothing; `None`: they do.
    pub(crate) fn void(&self) -> Option<String> {
        if self.unsent > 0 {
            return Some(format!(
                "void: httperf lacked descriptors or ports for {} connections; lower its rate or \
                 timeout",
                self.unsent
            ));
        }
        let most = LATENESS_MAX.as_millis();
        (self.late_ms > most as f64).then(|| {
            format!(
                "void: httperf was {:.0} ms behind its schedule (p99), more than {most} ms; the \
                 machine is too busy for this rate",
                self.late_ms
            )
        })
    }
}

/// Reads the output of one process, but for its lateness; `None`: something is missing.
pub(super) fn read(text: &str, session: bool) -> Option<Figures> {
    let total = line(text, "Total:")?;
    let statuses = line(text, "Reply status:")?;
    let status = |class| after(statuses, class).map(|count| count as u64);
    let ok = status("2xx=")?;
    let refused = status("4xx=")? + status("5xx=")?;
    let others = status("1xx=")? + status("3xx=")?;
    let errors = line(text, "Errors: total")?;
    let timed_out = after(errors, "client-timo ")? as u64;
    let sum = |line: &str, labels: &[&str]| -> Option<f64> {
        labels.iter().map(|label| after(line, label)).sum()
    };
    let failed = others + sum(errors, &["socket-timo ", "connrefused ", "connreset "])? as u64;
    let own = line(text, "Errors: fd-unavail")?;
    let unsent = sum(own, &["fd-unavail ", "addrunavail ", "ftab-full ", "other "])? as u64;
    let seconds = after(total, "test-duration ")?;
    let times = line(text, "Connection time [ms]: min")?;
    let reply = line(text, "Reply time [ms]:")?;
    let (mean_ms, p50_ms, sessions) = match session {
        true => (after(reply, "response ")?, None, Some(read_sessions(text)?)),
        false => (after(times, "avg ")?, Some(after(times, "median ")?), None),
    };
    let counts = Counts { sent: ok + refused + failed + timed_out, ok, refused, failed, timed_out };
    Some(Figures { counts, mean_ms, p50_ms, sessions, seconds, late_ms: 0.0, unsent })
}

/// By the end of "Session rate [sess/s]: min 0.00 avg 0.25 max 0.00 stddev 0.00 (1/20)".
fn read_sessions(text: &str) -> Option<Sessions> {
    let line = line(text, "Session rate")?;
    let (completed, begun) = line.split_once('(')?.1.split_once(')')?.0.split_once('/')?;
    Some(Sessions { begun: begun.parse().ok()?, completed: completed.parse().ok()? })
}

/// Sums up the processes of one workload.
pub(super) fn merge(parts: &[Figures]) -> Figures {
    let mut counts = Counts::default();
    parts.iter().for_each(|part| counts.add(&part.counts));
    let most = |of: fn(&Figures) -> f64| parts.iter().map(of).fold(0.0, f64::max);
    let answers = |part: &Figures| (part.counts.ok + part.counts.refused) as f64;
    let all: f64 = parts.iter().map(answers).sum::<f64>().max(1.0);
    let mean = |of: &dyn Fn(&Figures) -> f64| {
        parts.iter().map(|part| of(part) * answers(part)).sum::<f64>() / all
    };
    let has_median = parts.iter().any(|part| part.p50_ms.is_some());
    Figures {
        counts,
        mean_ms: mean(&|part| part.mean_ms),
        p50_ms: has_median.then(|| mean(&|part| part.p50_ms.unwrap_or(0.0))),
        sessions: parts.iter().filter_map(|p| p.sessions).reduce(|a, b| Sessions {
            begun: a.begun + b.begun,
            completed: a.completed + b.completed,
        }),
        seconds: most(|p| p.seconds),
        late_ms: most(|p| p.late_ms),
        unsent: parts.iter().map(|p| p.unsent).sum(),
    }
}

/// The line that begins with `label`.
fn line<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.lines().find(|line| line.starts_with(label))
}
