//! What can be promised at which moment: faults that make service worse, or impossible, whatever the
//! gateway does.

use super::fault::{Fault, SERVERS};
use super::premium::Done;

/// How long the gateway may take to find out that a server is out of order: two health checks of 0.8 s
/// that fail, 0.4 s apart, and requests sent meanwhile that are answered late or not at all.
pub(super) const FIND_OUT_S: f64 = 4.0;
/// How long after its end a fault may still be felt: requests that began before.
const SETTLED_S: f64 = 1.0;
/// How long after the last fault that made service impossible it must be back.
pub(super) const BACK_S: f64 = 5.0;

/// What is promised to a request, from the best to the worst.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Level {
    /// Nothing stands in the way.
    Normal,
    /// A server is out of order, and the gateway has had the time to find out.
    Reduced,
    /// The gateway may open no files, neither for new clients nor for new connections to the origin.
    Starved,
    /// A server has just failed, and requests may be lost there.
    Failing,
    /// No server works.
    Impossible,
}

impl Level {
    pub(super) const ALL: [Level; 5] =
        [Level::Normal, Level::Reduced, Level::Starved, Level::Failing, Level::Impossible];

    /// Its name, and the share of requests that must be answered.
    pub(super) fn promise(self) -> (&'static str, Option<f64>) {
        match self {
            Level::Normal => ("all servers in order", Some(0.999)),
            Level::Reduced => ("a server known to be out", Some(0.98)),
            Level::Starved => ("no descriptors left", Some(0.75)),
            Level::Failing => ("a server has just failed", Some(0.8)),
            Level::Impossible => ("no server works", None),
        }
    }
}

/// A fault as it happened. Times are those of the timeline.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Happened {
    pub(super) fault: Fault,
    pub(super) from: f64,
    /// When it had ended; infinite: not yet.
    pub(super) to: f64,
}

/// A time with less than the full promise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    pub(super) level: Level,
    pub(super) from: f64,
    pub(super) to: f64,
}

/// The windows that follow from what happened.
pub(super) fn of(faults: &[Happened]) -> Vec<Window> {
    let mut windows = Vec::new();
    for Happened { fault, from, to } in faults {
        let (from, to) = (*from, *to);
        let servers = fault.servers().len();
        if servers == SERVERS {
            windows.push(Window { level: Level::Impossible, from, to: to + BACK_S });
        } else if servers > 0 {
            windows.push(Window { level: Level::Failing, from, to: from + FIND_OUT_S });
            windows.push(Window { level: Level::Reduced, from, to: to + SETTLED_S });
        } else if let Fault::FewDescriptors { .. } = fault {
            windows.push(Window { level: Level::Starved, from, to: to + SETTLED_S });
        }
    }
    windows
}

/// The worst level that a request met.
pub(super) fn level(windows: &[Window], begun: f64, ended: f64) -> Level {
    let met = windows.iter().filter(|window| window.from <= ended && begun <= window.to);
    met.map(|window| window.level).max().unwrap_or(Level::Normal)
}

/// For each time without service, its end and how long after it the first request that began then was
/// answered; infinite: never.
pub(super) fn recoveries(faults: &[Happened], done: &[Done]) -> Vec<(f64, f64)> {
    let all = faults.iter().filter(|it| it.fault.servers().len() == SERVERS);
    let back = |end: f64| {
        let after = done.iter().filter(|it| it.begun >= end && it.is_answered());
        after.map(|it| it.ended - end).fold(f64::INFINITY, f64::min)
    };
    all.map(|it| (it.to, back(it.to))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::ask::Outcome;
    use super::*;

    fn happened(fault: Fault, from: f64, to: f64) -> Happened {
        Happened { fault, from, to }
    }

    #[test]
    fn a_request_gets_the_worst_of_what_it_met() {
        let windows = of(&[
            happened(Fault::ServerKilled { server: 0 }, 10.0, 20.0),
            happened(Fault::AllServersOut { killed: true }, 40.0, 42.0),
            happened(Fault::Burst { clients: 9 }, 0.0, 99.0),
        ]);
        for (begun, ended, expected) in [
            (5.0, 9.9, Level::Normal),
            (5.0, 10.1, Level::Failing),
            (14.5, 14.6, Level::Reduced),
            (20.9, 21.1, Level::Reduced),
            (21.5, 39.0, Level::Normal),
            (39.0, 41.0, Level::Impossible),
            (46.9, 47.0, Level::Impossible),
            (47.1, 47.2, Level::Normal),
        ] {
            assert_eq!(level(&windows, begun, ended), expected, "{begun} to {ended}");
        }
    }

    #[test]
    fn a_short_outage_is_failing_until_it_can_be_known() {
        let windows = of(&[happened(Fault::ServerStopped { server: 0 }, 10.0, 11.0)]);
        assert_eq!(level(&windows, 13.9, 13.95), Level::Failing);
        assert_eq!(level(&windows, 14.5, 14.6), Level::Normal);
    }

    #[test]
    fn recovery_is_counted_from_the_end() {
        let out = [happened(Fault::AllServersOut { killed: false }, 1.0, 4.0)];
        let done = |begun, ended, outcome| Done { begun, ended, path: String::new(), outcome };
        let mut requests = vec![
            done(3.9, 4.1, Outcome::Answered),
            done(4.2, 4.3, Outcome::Status(502)),
            done(4.5, 4.75, Outcome::Answered),
        ];
        assert_eq!(recoveries(&out, &requests), [(4.0, 0.75)]);
        requests.pop();
        assert_eq!(recoveries(&out, &requests), [(4.0, f64::INFINITY)]);
    }
}
