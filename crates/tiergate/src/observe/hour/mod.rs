//! The last hour, a point every ten seconds; what happened in it; and what is refused most. For the page of the admin listener.
//!
//! Fed once a second by the admin's thread from the snapshot that it takes anyway: the request path does nothing for it.
//! Bounded: 360 points of at most 128 classes, 100 events, 4 tables of 64 entries; with three classes about 100 KiB.

mod events;
mod point;
mod top;

pub use events::{Event, Events};
pub use point::{ClassPoint, HourPoint};
pub use top::{Top, TopEntry};

use super::refusals::{Refusals, Shown};
use super::server::ServerStatus;
use super::snapshot::Snapshot;
use std::collections::VecDeque;
use std::time::{Duration, SystemTime};
use tiergate_core::account::ClassAccount;
use tiergate_core::time::Moment;

/// Time between two points.
pub const POINT_INTERVAL: Duration = Duration::from_secs(10);
/// Points that are kept: an hour.
pub const POINTS_MAX: usize = 360;
/// Classes of a point, the most important first.
pub const CLASSES_MAX: usize = 128;

/// The last hour.
#[derive(Debug, Default)]
pub struct Hour {
    points: VecDeque<HourPoint>,
    /// When the last point was taken, and the accounts by then, of each class over all pools.
    last: Option<(Moment, Vec<(String, ClassAccount)>)>,
    /// What happened.
    pub events: Events,
    /// Which clients, paths and rules are refused most.
    pub refused: RefusedMost,
}

/// What is refused most, lately.
#[derive(Debug)]
pub struct RefusedMost {
    /// Clients, by address.
    pub clients: Top,
    /// The same of the last seconds: who has stopped meanwhile is gone.
    pub clients_now: Top,
    /// Paths without their queries.
    pub paths: Top,
    /// Rules that decided the class, and classes of requests that none matched.
    pub rules: Top,
    seen: u64,
    total: u64,
}

impl Default for RefusedMost {
    fn default() -> Self {
        RefusedMost {
            clients: Top::default(),
            clients_now: Top::of_seconds(),
            paths: Top::default(),
            rules: Top::default(),
            seen: 0,
            total: 0,
        }
    }
}

impl Hour {
    /// Takes in a second's snapshot.
    pub fn sample(
        &mut self,
        at: SystemTime,
        snapshot: &Snapshot,
        servers: &[ServerStatus],
        refusals: &Refusals,
    ) {
        self.events.sample(at, snapshot, servers);
        let refused = snapshot.pools().flat_map(|it| &it.classes);
        let refused = refused.map(|it| it.account.refused_total()).sum();
        self.refused.sample(refused, refusals);
        let due = |last: &(Moment, _)| snapshot.at.since(last.0) + POINT_SLACK >= POINT_INTERVAL;
        if !self.last.as_ref().is_none_or(due) {
            return;
        }
        let accounts = by_class(snapshot);
        if let Some((_, before)) = &self.last {
            self.points.push_back(HourPoint::between(at, snapshot, before, &accounts));
            if self.points.len() > POINTS_MAX {
                self.points.pop_front();
            }
        }
        self.last = Some((snapshot.at, accounts));
    }

    /// The points, the oldest first.
    pub fn points(&self) -> impl ExactSizeIterator<Item = &HourPoint> + Clone {
        self.points.iter()
    }
}

/// A point is not put off by a tick that comes a moment early.
const POINT_SLACK: Duration = Duration::from_millis(500);

/// The account of each class over all pools, in the order of the snapshot.
fn by_class(snapshot: &Snapshot) -> Vec<(String, ClassAccount)> {
    let mut all: Vec<(String, ClassAccount)> = Vec::new();
    for class in snapshot.pools().flat_map(|it| &it.classes) {
        match all.iter().position(|it| it.0 == class.class.name) {
            Some(place) => point::add(&mut all[place].1, &class.account),
            None if all.len() < CLASSES_MAX => {
                all.push((class.class.name.clone(), class.account.clone()));
            }
            None => {}
        }
    }
    all
}

impl RefusedMost {
    /// Takes in what was refused since the last second: `total` counts all refusals since the start, of which the ring has kept
    /// the latest. Each of these stands for as many as were refused for each that was kept.
    fn sample(&mut self, total: u64, refusals: &Refusals) {
        let (fresh, seen) = refusals.since(self.seen);
        let more = total.saturating_sub(self.total);
        (self.seen, self.total) = (seen, total);
        let all = [&mut self.clients, &mut self.clients_now, &mut self.paths, &mut self.rules];
        all.into_iter().for_each(Top::fade);
        if fresh.is_empty() {
            return;
        }
        let weight = (more as f64 / fresh.len() as f64).max(1.0);
        for refusal in &fresh {
            let client = refusal.client.to_string();
            self.clients.count(&client, weight);
            self.clients_now.count(&client, weight);
            let cut = if refusal.path_cut { "…" } else { "" };
            self.paths.count(&format!("{}{cut}", refusal.path), weight);
            self.rules.count(&rule(refusal), weight);
        }
    }
}

/// The rule that decided a refusal's class, and its reason.
fn rule(refusal: &Shown) -> String {
    let rule = match (refusal.rule_name.as_str(), refusal.rule) {
        ("", None) => format!("no rule (class {})", refusal.class),
        ("", Some(number)) => format!("rule {number}"),
        (name, _) => name.to_owned(),
    };
    format!("{rule}: {}", refusal.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::refusals::Refusal;
    use tiergate_core::gate::Gate;
    use tiergate_core::plan::Spec;
    use tiergate_core::reason::Reason;

    fn at(second: u64) -> (SystemTime, Snapshot) {
        let gate: Gate<()> = Gate::new(Spec::protective().build().expect("a valid plan"));
        let snapshot = Snapshot::take(&gate, Moment::from_millis(second * 1_000));
        (SystemTime::UNIX_EPOCH + Duration::from_secs(second), snapshot)
    }

    #[test]
    fn a_point_every_ten_seconds_for_an_hour() {
        let (mut hour, refusals) = (Hour::default(), Refusals::default());
        for second in 0..2 * 3_600 + 1 {
            let (time, mut snapshot) = at(second);
            let account = &mut snapshot.default.classes[0].account;
            (account.arrived, account.refused[Reason::Shed.index()]) = (second * 7, second * 2);
            hour.sample(time, &snapshot, &[], &refusals);
        }
        assert_eq!(hour.points().len(), POINTS_MAX);
        let last = hour.points().last().expect("360");
        assert_eq!(last.at_seconds, 7_200);
        let class = &last.classes[0];
        assert_eq!((class.0.as_str(), class.1.arrived, class.1.refused), ("default", 70, 20));
        assert_eq!(hour.points().next().expect("360").at_seconds, 3_610);
    }

    #[test]
    fn what_is_refused_most_counts_all_though_few_are_kept() {
        let (mut hour, refusals) = (Hour::default(), Refusals::with_capacity(10));
        for client in [[192, 0, 2, 1], [192, 0, 2, 1], [192, 0, 2, 2]] {
            refusals.record(&Refusal {
                at: SystemTime::UNIX_EPOCH,
                class: "browse",
                rule: None,
                reason: Reason::QueueFull,
                client: client.into(),
                method: b"GET",
                path: b"/list",
            });
        }
        let (time, mut snapshot) = at(1);
        snapshot.default.classes[0].account.refused[Reason::QueueFull.index()] = 300;
        hour.sample(time, &snapshot, &[], &refusals);
        let most = hour.refused.clients.most(5);
        assert_eq!((most[0].what.as_str(), most[0].count.round()), ("192.0.2.1", 200.0));
        assert_eq!(hour.refused.paths.most(5)[0].count.round(), 300.0);
        assert_eq!(hour.refused.rules.most(1)[0].what, "no rule (class browse): queue_full");
        // It has stopped, and another one comes.
        for second in 2..32 {
            let (time, mut snapshot) = at(second);
            snapshot.default.classes[0].account.refused[Reason::QueueFull.index()] = 300;
            hour.sample(time, &snapshot, &[], &refusals);
        }
        let later = Refusal {
            at: SystemTime::UNIX_EPOCH,
            class: "browse",
            rule: None,
            reason: Reason::QueueFull,
            client: [192, 0, 2, 9].into(),
            method: b"GET",
            path: b"/list",
        };
        refusals.record(&later);
        let (time, mut snapshot) = at(32);
        snapshot.default.classes[0].account.refused[Reason::QueueFull.index()] = 320;
        hour.sample(time, &snapshot, &[], &refusals);
        assert_eq!(hour.refused.clients.most(1)[0].what, "192.0.2.1");
        assert_eq!(hour.refused.clients_now.most(1)[0].what, "192.0.2.9");
    }
}
