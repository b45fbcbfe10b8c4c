//! An access log as the requests of a trial.

use super::sort::Sorter;
use anyhow::{Context, bail};
use arrayvec::ArrayVec;
use std::path::Path;
use tiergate_core::request::Field;
use tiergate_sim::asked::{Described, Known, Mix, Sorted, split_query};
use tiergate_sim::client::{Arrivals, Population};
use tiergate_sim::demand::{DEMANDS_MAX, Demand, Work};
use tiergate_sim::files;
use tiergate_sim::log::replay::{Within, times};
use tiergate_sim::log::{Counts, Line, Stamp, Took, read};
use tiergate_sim::trial::Trial;

/// How long after the last request of a log the run ends, in seconds: enough for its answer.
const AFTERWARDS_S: f64 = 1.0;

/// What a log is read with.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// What the number behind a line is.
    pub took: Took,
    /// What each byte of an answer adds, in nanoseconds, where the log does not say how long it took.
    pub byte_ns: f64,
    /// How requests are spread within a second.
    pub within: Within,
    /// How long clients wait for an answer.
    pub patience_ms: f64,
}

/// A log, its requests classified.
#[derive(Clone, Debug)]
pub struct Log {
    /// What was read.
    pub counts: Counts,
    stamps: Vec<Stamp>,
    demands: Vec<Demand>,
}

impl Log {
    /// Reads a log, plain or compressed, and classifies its requests.
    ///
    /// # Errors
    /// When it cannot be read, has nothing in it, or too much.
    pub fn read(path: &Path, pace: &Pace, sorter: &mut Sorter<'_>) -> anyhow::Result<Log> {
        let shown = path.display();
        let unreadable = || format!("{shown}: cannot be read");
        let reader = files::open(path).with_context(unreadable)?;
        let (mut stamps, mut demands) = (Vec::new(), Vec::new());
        let mut each = |line: &Line<'_>| {
            stamps.push(line.stamp);
            demands.push(demand(line, pace, sorter));
            demands.len() <= DEMANDS_MAX
        };
        let counts = read(reader, pace.took, &mut each).with_context(unreadable)?;
        match (counts.used, &counts.malformed) {
            (0, Some((line, why))) => bail!(
                "{shown}:{line}: none of its {} lines is a request in a format that is known: {why}; \
                 expected Apache's or nginx's common or combined format, or Tiergate's own",
                counts.lines
            ),
            (0, None) => bail!("{shown}: it has no line"),
            (used, _) if used > DEMANDS_MAX as u64 => bail!(
                "{shown}: must have at most {DEMANDS_MAX} requests; cut out the hours that matter"
            ),
            _ => Ok(Log { counts, stamps, demands }),
        }
    }
}

fn demand(line: &Line<'_>, pace: &Pace, sorter: &mut Sorter<'_>) -> Demand {
    let known =
        Known { client_name: line.name().unwrap_or_default().to_owned(), ..Known::default() };
    let field = |name: &'static [u8], value| Field { name, value };
    let fields = [
        field(b"Host", line.host.as_bytes()),
        field(b"User-Agent", line.user_agent.as_bytes()),
        field(b"Referer", line.referer.as_bytes()),
    ];
    // What is not logged was perhaps not sent: the rules see no empty field.
    let sent = fields.into_iter().filter(|field| !field.value.is_empty());
    let sent: ArrayVec<Field<'_>, 3> = sent.collect();
    let (path, query) = split_query(&line.target);
    let told = Described {
        method: line.method.as_bytes(),
        path: path.as_bytes(),
        query: query.as_bytes(),
        host: line.host.as_bytes(),
        fields: &sent,
        client: line.address(),
        known: &known,
    };
    let sorted = sorter.sort(&told).expect("the first listener is always there");
    let work = match line.took_ns {
        Some(took) => Work { times: 0.0, more_ns: took },
        None => Work { times: 1.0, more_ns: (line.bytes as f64 * pace.byte_ns) as u64 },
    };
    let Sorted { arrival, refused, repeatable } = sorted;
    Demand { arrival, refused, repeatable, work, bytes: line.bytes }
}

/// Adds a log to a trial, so many times as fast as it was written. A trial without a length of its own
/// ends with the log.
pub fn replay(trial: &mut Trial, log: &Log, pace: &Pace, speed: f64, seed: u64) {
    let first = trial.demands.len() as u32;
    trial.demands.extend_from_slice(&log.demands);
    let times = times(&log.stamps, speed, pace.within, seed);
    trial.replay = times.into_iter().map(|(at, place)| (at, first + place)).collect();
    let mut population = Population::of("", Arrivals::Replay, pace.patience_ms);
    "log".clone_into(&mut population.name);
    trial.populations.push(population);
    trial.mixes.push(Mix::single(first));
    if trial.seconds == 0.0 {
        let last = trial.replay.last().map_or(0, |&(at, _)| at);
        trial.seconds = last as f64 / 1e9 + AFTERWARDS_S;
    }
}
