//! What must hold after all faults. Pure: evidence in, verdicts out.

use super::act::Reloads;
use super::log::Lines;
use super::metrics::Metrics;
use super::policy::{BUFFERS_MAX, CONNECTIONS_MAX};
use super::premium::Done;
use super::quiet::Reading;
use super::samples::Sample;
use super::windows::{self, BACK_S, Happened, Level, Window};
use std::collections::HashMap;
use tiergate_draw::number::{percent, thousands};

/// What faults may leave behind at rest: pooled buffers, and what the allocator has not given back yet.
const MEMORY_REST_BYTES: u64 = 20 << 20;
/// With so many phases, what is in use must not grow in the second half of them.
const MEMORY_PHASES: usize = 8;
/// Except by this part and so many bytes: the same build had 21.8 MiB after the first half and 24.2 after the second, and 24.2 and
/// 21.9 (30 minutes each). 32 bytes kept for each request would be twice as much.
const MEMORY_GROWTH: f64 = 0.05;
const MEMORY_GROWTH_BYTES: u64 = 3 << 20;
/// Memory at any time: 400 connections of about 0.1 MiB with their buffers, and as much again.
const MEMORY_MAX: u64 = 96 << 20;
/// Descriptors at rest may be more than before the faults by so many.
const DESCRIPTORS_MORE: u64 = 3;
/// Throughput at the end, relative to that at the beginning.
const CAPACITY_KEPT: f64 = 0.8;
/// Fewer requests than this are too few for a share.
const REQUESTS_MIN: u64 = 20;

/// Everything that was seen.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    pub(super) done: Vec<Done>,
    pub(super) happened: Vec<Happened>,
    /// Before the faults, after each phase, at the end.
    pub(super) readings: Vec<Reading>,
    /// All the time.
    pub(super) samples: Vec<Sample>,
    /// Answers a second at full load, before and after.
    pub(super) capacity: [Option<f64>; 2],
    /// Answers to other clients, all of which are checked.
    pub(super) crowd_answers: u64,
    /// Answers to other clients that belong to another request.
    pub(super) crowd_mixed: u64,
    pub(super) reloads: Reloads,
    pub(super) lines: Lines,
    pub(super) program_log: String,
    /// Why the gateway ended before it was told to.
    pub(super) died: Option<String>,
    /// How it ended when it was told to.
    pub(super) end: Option<String>,
}

/// One verdict.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) name: &'static str,
    pub(super) passed: bool,
    /// What was seen.
    pub(super) text: String,
    /// When it was first seen to fail, if that is known.
    pub(super) at: Option<f64>,
}

/// How many requests of a level there were, and how many of them were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tally {
    pub(super) asked: u64,
    pub(super) answered: u64,
    /// When the first one was lost.
    pub(super) first_lost: Option<f64>,
}

impl Evidence {
    /// All verdicts.
    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        let windows = windows::of(&self.happened);
        let mut verdicts = vec![self.ran(), self.mix_ups()];
        verdicts.extend(Level::ALL.iter().filter_map(|level| self.answered(&windows, *level)));
        verdicts.extend(self.back());
        verdicts.extend([self.reloads(), self.bounds(), self.memory(), self.descriptors()]);
        verdicts.extend([self.accounts(), self.log(), self.premium_log(), self.rest()]);
        verdicts.push(self.capacity());
        verdicts
    }

    /// Premium requests by level.
    pub(super) fn tally(&self, windows: &[Window], level: Level) -> Tally {
        let mut tally = Tally::default();
        for done in &self.done {
            if windows::level(windows, done.begun, done.ended) == level {
                tally.asked += 1;
                tally.answered += u64::from(done.is_answered());
                if !done.is_answered() && tally.first_lost.is_none() {
                    tally.first_lost = Some(done.begun);
                }
            }
        }
        tally
    }

    fn ran(&self) -> Verdict {
        let errors: Vec<&str> = self.program_log.lines().filter(|it| is_error(it)).collect();
        let rejected = self.program_log.lines().filter(|it| it.contains(REJECTED)).count() as u64;
        let text = match (&self.died, errors.first(), self.end.as_deref()) {
            (Some(why), ..) => format!("it ended: {why}"),
            (_, Some(error), _) => format!("{} errors in its log: {error}", errors.len()),
            (_, _, Some(end)) if !end.contains("exit status: 0") => format!("at SIGTERM: {end}"),
            (_, _, None) => "it was not ended".into(),
            _ => {
                let text = format!("no panic, {rejected} reloads rejected, exit status 0");
                return Verdict { name: "the gateway ran", passed: true, text, at: None };
            }
        };
        Verdict { name: "the gateway ran", passed: false, text, at: None }
    }

    fn mix_ups(&self) -> Verdict {
        let is_mixed = |done: &&Done| matches!(done.outcome, super::ask::Outcome::Mixed(_));
        let mixed: Vec<&Done> = self.done.iter().filter(is_mixed).collect();
        let count = mixed.len() as u64 + self.crowd_mixed;
        Verdict {
            name: "answers belong to their requests",
            passed: count == 0,
            text: format!(
                "{count} mixed up of {} premium and {} other answers",
                thousands(self.done.len() as u64),
                thousands(self.crowd_answers)
            ),
            at: mixed.first().map(|done| done.begun),
        }
    }

    fn answered(&self, windows: &[Window], level: Level) -> Option<Verdict> {
        let (name, Some(promise)) = level.promise() else { return None };
        let tally = self.tally(windows, level);
        if tally.asked < REQUESTS_MIN && level != Level::Normal {
            return None;
        }
        let lost = tally.asked - tally.answered;
        let allowed = ((1.0 - promise) * tally.asked as f64).ceil() as u64;
        Some(Verdict {
            name: match level {
                Level::Normal => "premium answered",
                Level::Reduced => "premium answered, a server out",
                Level::Starved => "premium answered, no descriptors",
                _ => "premium answered, a server failing",
            },
            passed: lost <= allowed && tally.asked > 0,
            text: format!(
                "{} of {}: {} ({name}; at most {allowed} may be lost)",
                thousands(tally.answered),
                thousands(tally.asked),
                percent(tally.answered as f64 / tally.asked.max(1) as f64),
            ),
            at: tally.first_lost,
        })
    }

    fn back(&self) -> Option<Verdict> {
        let recoveries = windows::recoveries(&self.happened, &self.done);
        let longest = recoveries.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Verdict {
            name: "service comes back",
            passed: longest.1 <= BACK_S,
            text: format!(
                "{} times without any server, {:.2} s after the end at most (limit {BACK_S} s)",
                recoveries.len(),
                longest.1
            ),
            at: Some(longest.0),
        })
    }

    fn reloads(&self) -> Verdict {
        let Reloads { accepted, rejected, wrong } = &self.reloads;
        let wrongly = wrong.first().map_or(String::new(), |what| format!("; WRONG: {what}"));
        Verdict {
            name: "reloads",
            passed: wrong.is_empty(),
            text: format!("{accepted} good accepted, {rejected} bad rejected{wrongly}"),
            at: None,
        }
    }

    /// All the time, what the policy and this file bound.
    fn bounds(&self) -> Verdict {
        let most = |of: fn(&Sample) -> u64| self.samples.iter().map(of).max().unwrap_or(0);
        let [memory, connections, buffered] =
            [most(|it| it.memory), most(|it| it.connections), most(|it| it.buffered)];
        let beyond = |it: &&Sample| {
            it.memory > MEMORY_MAX
                || it.connections > CONNECTIONS_MAX as u64
                || it.buffered > BUFFERS_MAX as u64
        };
        let beyond = self.samples.iter().find(beyond);
        Verdict {
            name: "bounds hold",
            passed: beyond.is_none() && memory > 0,
            text: format!(
                "at most {} of memory (limit {}), {connections} connections ({CONNECTIONS_MAX}), \
                 {} buffered ({})",
                mib(memory),
                mib(MEMORY_MAX),
                mib(buffered),
                mib(BUFFERS_MAX as u64)
            ),
            at: beyond.map(|it| it.at),
        }
    }

    /// At rest: against before, and in a long run what is in use after its second half against the first.
    fn memory(&self) -> Verdict {
        let name = "memory is flat";
        let phases = self.phases();
        let Some(last) = phases.last() else { return nothing_seen(name) };
        let before = self.readings[0].memory;
        let bound = before + MEMORY_REST_BYTES;
        // Half a second after the last phase much is free that has not been given back yet: where that was waited
        // for, only what is left counts.
        let waited = phases.iter().any(|it| it.memory_used.is_some());
        let memory = |it: &Reading| if waited { it.memory_used.unwrap_or(0) } else { it.memory };
        let beyond = phases.iter().find(|it| memory(it) > bound).map(|it| it.at);
        let mut grown = None;
        let mut text = format!(
            "at rest {} before, {} at the end (limit {})",
            mib(before),
            mib(last.memory),
            mib(bound)
        );
        let used: Vec<(f64, u64)> =
            phases.iter().filter_map(|it| Some((it.at, it.memory_used?))).collect();
        if let [(_, first), .., (at, last)] = used[..] {
            let bound = (first as f64 * (1.0 + MEMORY_GROWTH)) as u64 + MEMORY_GROWTH_BYTES;
            grown = (last > bound).then_some(at);
            text += &format!(
                "; once unused memory was given back, {} after the first half, {} after the second (limit {})",
                mib(first),
                mib(last),
                mib(bound)
            );
        }
        let at = beyond.or(grown);
        let passed = at.is_none() && phases.iter().all(|it| it.memory > 0);
        Verdict { name, passed, text, at }
    }

    fn descriptors(&self) -> Verdict {
        let name = "descriptors are flat";
        let (Some(first), Some(last)) = (self.readings.first(), self.readings.last()) else {
            return nothing_seen(name);
        };
        let bound = first.descriptors + DESCRIPTORS_MORE;
        let beyond = self.readings.iter().find(|reading| reading.descriptors > bound);
        Verdict {
            name,
            passed: beyond.is_none() && last.descriptors > 0,
            text: format!(
                "at rest {} before, {} at the end (limit {bound})",
                first.descriptors, last.descriptors
            ),
            at: beyond.map(|it| it.at),
        }
    }

    /// Every request has one outcome.
    fn accounts(&self) -> Verdict {
        let wrong = self.readings.iter().find_map(|it| Some((it.at, account(it)?)));
        let requests = self.readings.last().map_or(0.0, |it| it.metrics.sum("http_requests_total"));
        Verdict {
            name: "requests counted once",
            passed: wrong.is_none() && requests > 0.0,
            text: match &wrong {
                Some((_, why)) => why.clone(),
                None => format!("{} requests, each with one outcome", thousands(requests as u64)),
            },
            at: wrong.map(|(at, _)| at),
        }
    }

    fn log(&self) -> Verdict {
        let name = "access log complete";
        let Some(last) = self.readings.last() else { return nothing_seen(name) };
        let lost = last.metrics.sum("access_log_lines_dropped_total");
        let requests = last.metrics.sum("http_requests_total");
        let torn = self.lines.torn;
        let first_torn = self.lines.first_torn.as_ref();
        let first_torn = first_torn.map_or(String::new(), |line| format!(": {line:?}"));
        Verdict {
            name,
            passed: torn == 0 && last.lines as f64 + lost == requests,
            text: format!(
                "{} lines and {lost} reported lost of {} requests, {torn} torn{first_torn}",
                thousands(last.lines),
                thousands(requests as u64)
            ),
            at: None,
        }
    }

    /// What premium clients got is what the log says.
    fn premium_log(&self) -> Verdict {
        let last = self.readings.last();
        let lost = last.map_or(0.0, |it| it.metrics.sum("access_log_lines_dropped_total"));
        let answered: Vec<&Done> = self.done.iter().filter(|it| it.is_answered()).collect();
        let served = |done: &&&Done| match self.lines.premium.get(&done.path) {
            Some((_, served)) => *served != 1,
            None => true,
        };
        let wrong: Vec<&&Done> = answered.iter().filter(served).collect();
        let unknown = unknown(&self.done, &self.lines.premium);
        Verdict {
            name: "premium requests in the log",
            passed: (wrong.len() as f64) <= lost && unknown == 0,
            text: format!(
                "{} answered, {} of them not logged once as served; {unknown} logged that were not sent",
                thousands(answered.len() as u64),
                wrong.len()
            ),
            at: wrong.first().map(|done| done.begun),
        }
    }

    fn rest(&self) -> Verdict {
        let stuck = self.readings.iter().find(|reading| !reading.stuck.is_empty());
        let longest = self.readings.iter().map(|it| it.took).max().unwrap_or_default();
        Verdict {
            name: "nothing is stuck",
            passed: stuck.is_none() && !self.readings.is_empty(),
            text: match stuck {
                Some(it) => format!("{}: {}", it.name, it.stuck.join(", ")),
                None => format!(
                    "all gauges zero within {:.1} s of each quiet pause",
                    longest.as_secs_f64()
                ),
            },
            at: stuck.map(|it| it.at),
        }
    }

    fn capacity(&self) -> Verdict {
        let name = "capacity is kept";
        let [Some(before), Some(after)] = self.capacity else { return nothing_seen(name) };
        let kept = after / before.max(1.0);
        Verdict {
            name,
            passed: kept >= CAPACITY_KEPT,
            text: format!(
                "at full load {before:.0}/s before, {after:.0}/s after: {} (at least {})",
                percent(kept),
                percent(CAPACITY_KEPT)
            ),
            at: None,
        }
    }

    /// The readings after phases.
    fn phases(&self) -> &[Reading] {
        self.readings.get(1..).unwrap_or_default()
    }
}

/// Whether it is seen after so many of the phases what memory is in use: after the first half of many, and at their end.
pub(super) fn compares_memory(phase: usize, phases: usize) -> bool {
    phases >= MEMORY_PHASES && (phase == phases / 2 || phase == phases)
}

fn nothing_seen(name: &'static str) -> Verdict {
    Verdict { name, passed: false, text: "the run did not get so far".into(), at: None }
}

/// What the log calls an error: all but rejected reloads, which are judged apart.
const REJECTED: &str = "reload rejected";

fn is_error(line: &str) -> bool {
    let error = line.contains(" ERROR ") && !line.contains(REJECTED);
    error || line.contains("panicked at") || line.contains("assertion")
}

/// How many premium requests the log has that were never sent.
fn unknown(done: &[Done], logged: &HashMap<String, (u32, u32)>) -> usize {
    let sent: std::collections::HashSet<&str> = done.iter().map(|it| it.path.as_str()).collect();
    logged.keys().filter(|path| !sent.contains(path.as_str())).count()
}

/// What is wrong with the counters of a gateway at rest.
fn account(reading: &Reading) -> Option<String> {
    let sum = |name| reading.metrics.sum(name);
    let arrived = sum("requests_arrived_total");
    let [finished, refused, cancelled] = [
        sum("requests_finished_total"),
        sum("requests_refused_total"),
        sum("requests_cancelled_waiting_total"),
    ];
    if arrived != finished + refused + cancelled {
        return Some(format!(
            "{}: {arrived} arrived, but {finished} finished, {refused} refused, {cancelled} left",
            reading.name
        ));
    }
    let (requests, bad) = (sum("http_requests_total"), reading.bad_lines as f64);
    let lost = sum("access_log_lines_dropped_total");
    let unexplained = requests - arrived - bad;
    if unexplained < 0.0 || unexplained > lost {
        return Some(format!(
            "{}: {requests} requests, but {arrived} arrived and {bad} were bad",
            reading.name
        ));
    }
    let opened = sum("connections_accepted_total");
    let closed = sum("connections_closed_total");
    (opened != closed)
        .then(|| format!("{}: {opened} connections accepted, {closed} closed", reading.name))
}

/// A size in mebibytes.
pub(super) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// The metrics of the last reading.
pub(super) fn last(readings: &[Reading]) -> Metrics {
    readings.last().map(|reading| reading.metrics.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
