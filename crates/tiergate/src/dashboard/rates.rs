//! Rates, from two readings.

use crate::admin::incident::Incident;
use crate::admin::status::{ClassStatus, Status};
use crate::observe::refusals::Shown;
use crate::observe::server::ServerStatus;
use std::collections::BTreeMap;

/// The gateway's status at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    pub(super) status: Status,
    /// The latest refusals, newest first.
    pub(super) refusals: Vec<Shown>,
    /// What is going on, and the last hour; `None`: the gateway is of a version that does not say.
    pub(super) incident: Option<Incident>,
}

/// A reading, with rates if there is an earlier one of the same process.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View {
    pub(super) reading: Reading,
    pub(super) classes: Vec<ClassRow>,
    pub(super) servers: Vec<ServerRow>,
}

/// One class, per second. `None`: no earlier reading to compare with.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClassRow {
    pub(super) class: ClassStatus,
    pub(super) arrived: Option<f64>,
    pub(super) admitted: Option<f64>,
    pub(super) served: Option<f64>,
    pub(super) refused: Option<f64>,
    /// Those whose clients left the queue.
    pub(super) left: Option<f64>,
    /// Those that got a stored copy.
    pub(super) stored: Option<f64>,
    /// The commonest reason of the refusals in between.
    pub(super) reason: Option<String>,
}

/// One origin server, per second.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServerRow {
    pub(super) server: ServerStatus,
    pub(super) requests: Option<f64>,
    pub(super) failures: Option<f64>,
    /// Share of requests that found a kept connection, 0.0 to 1.0.
    pub(super) reused: Option<f64>,
}

impl View {
    /// The view of `now`, with rates since `before`.
    pub(super) fn new(before: Option<&Reading>, now: Reading) -> Self {
        let before = before.map(|reading| &reading.status);
        // A gateway that was started anew counts from zero: there is nothing to compare with.
        let before = before.filter(|it| it.uptime_seconds <= now.status.uptime_seconds);
        let elapsed = before.map_or(0.0, |it| now.status.at_seconds - it.at_seconds);
        let before = before.filter(|_| elapsed > 0.0);
        let earlier: Vec<_> = before.into_iter().flat_map(pools).collect();
        let classes = pools(&now.status).flat_map(|(pool, classes)| {
            let earlier = earlier.iter().find(|it| it.0 == pool).map(|it| it.1);
            classes.iter().map(move |class| {
                let earlier = earlier.and_then(|it| it.iter().find(|it| it.name == class.name));
                let row = class_row(earlier, class, elapsed);
                ClassRow {
                    class: ClassStatus { name: of_pool(pool, &class.name), ..row.class },
                    ..row
                }
            })
        });
        let servers = now.status.origin.iter().map(|server| {
            let same = |it: &&ServerStatus| it.address == server.address && it.pool == server.pool;
            let earlier = before.and_then(|it| it.origin.iter().find(same));
            let row = server_row(earlier, server, elapsed);
            let address = of_pool(&server.pool, &server.address);
            ServerRow { server: ServerStatus { address, ..row.server }, ..row }
        });
        View { classes: classes.collect(), servers: servers.collect(), reading: now }
    }
}

/// The classes of each pool; the default pool has no name.
fn pools(status: &Status) -> impl Iterator<Item = (&str, &[ClassStatus])> {
    let others = status.pools.iter().map(|pool| (pool.name.as_str(), &pool.classes[..]));
    std::iter::once(("", &status.classes[..])).chain(others)
}

/// What is shown of a class or a server of a pool.
fn of_pool(pool: &str, what: &str) -> String {
    if pool.is_empty() { what.to_owned() } else { format!("{pool}/{what}") }
}

fn class_row(before: Option<&ClassStatus>, class: &ClassStatus, elapsed: f64) -> ClassRow {
    let rate = |count: fn(&ClassStatus) -> u64| {
        before.map(|before| count(class).saturating_sub(count(before)) as f64 / elapsed)
    };
    ClassRow {
        class: class.clone(),
        arrived: rate(|it| it.arrived),
        admitted: rate(|it| it.admitted),
        served: rate(|it| it.finished.get("served").copied().unwrap_or(0)),
        refused: rate(|it| it.refused.values().sum()),
        left: rate(|it| it.cancelled_waiting),
        stored: rate(|it| it.stored.values().sum()),
        reason: before.and_then(|before| main_reason(&before.refused, &class.refused)),
    }
}

fn server_row(before: Option<&ServerStatus>, server: &ServerStatus, elapsed: f64) -> ServerRow {
    let more = |count: fn(&ServerStatus) -> u64| {
        before.map(|before| count(server).saturating_sub(count(before)) as f64)
    };
    let (requests, reuses) = (more(|it| it.connects + it.reuses), more(|it| it.reuses));
    let share = |(reuses, requests): (f64, f64)| (requests > 0.0).then(|| reuses / requests);
    ServerRow {
        server: server.clone(),
        requests: requests.map(|count| count / elapsed),
        failures: more(|it| it.failures).map(|count| count / elapsed),
        reused: reuses.zip(requests).and_then(share),
    }
}

fn main_reason(before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> Option<String> {
    let more = now.iter().map(|(reason, count)| {
        let before = before.get(reason).copied().unwrap_or(0);
        (count.saturating_sub(before), reason)
    });
    let (count, reason) = more.max()?;
    (count > 0).then(|| reason.clone())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::admin::Phase;
    use crate::admin::last_change::LastChange;
    use crate::admin::status::{Clients, ConfigStatus, LimitStatus, LogStatus};
    use crate::admin::status::{Quantiles, Spread};
    use crate::observe::history::Point;
    use crate::observe::server::Health;

    fn class(name: &str, served: u64, refused: [u64; 2]) -> ClassStatus {
        let quantiles = Quantiles { count: 100, p50_seconds: Some(0.012), p99_seconds: Some(0.4) };
        let spread = Spread { window: quantiles, total: quantiles };
        let [full, expired] = refused;
        let reasons = [("queue_full", full), ("deadline_expired", expired)];
        ClassStatus {
            name: name.to_owned(),
            guaranteed_share: 0.0,
            site: "default".to_owned(),
            order: "fifo".to_owned(),
            share: 0.0,
            queue_len_max: 10_000,
            deadline_seconds: 2.0,
            waiting: 12,
            held_up: 0,
            running: 4,
            in_service: 4,
            streams: 0,
            patience_seconds: None,
            service_target: None,
            arrived: served + full + expired + 16,
            admitted_at_once: served,
            queued: 12,
            cancelled_waiting: 0,
            admitted: served + 4,
            refused: reasons.map(|(name, count)| (name.to_owned(), count)).into(),
            stored: Default::default(),
            finished: [("served".to_owned(), served)].into(),
            wait: spread,
            first_byte: spread,
        }
    }

    pub(in crate::dashboard) fn reading(second: u64) -> Reading {
        let server = ServerStatus {
            address: "10.0.0.5:8080".to_owned(),
            pool: String::new(),
            health: Health::Up,
            slots: None,
            slots_from: None,
            slots_usable: None,
            id: None,
            outstanding: 8,
            detail: None,
            connects: second,
            reuses: second * 99,
            failures: 0,
            retries: 0,
        };
        let down = ServerStatus {
            address: "10.0.0.6:8080".to_owned(),
            health: Health::Down,
            detail: Some("connection refused".to_owned()),
            failures: 3,
            ..server.clone()
        };
        let change = LastChange {
            age_seconds: 12.0,
            slots: 40,
            cause: "grew".to_owned(),
            server: None,
            server_slots: None,
        };
        let refusal = Shown {
            at: "2026-11-20T18:23:51.042Z".to_owned(),
            class: "browse".to_owned(),
            rule: Some(2),
            rule_name: String::new(),
            reason: "deadline_expired".to_owned(),
            client: "192.0.2.7".parse().expect("an address"),
            method: "GET".to_owned(),
            path: "/list/\u{1b}[2Jx".to_owned(),
            path_cut: false,
        };
        let point = |slots| Point { slots, running: 38, waiting: 24 };
        Reading {
            status: Status {
                version: "0.1.0".to_owned(),
                at_seconds: second as f64,
                uptime_seconds: second as f64,
                phase: Phase::Serving,
                unready: None,
                config: ConfigStatus {
                    path: Some("/etc/tiergate/shop.toml".to_owned()),
                    generation: 3,
                    reloads_ok: 3,
                    reloads_failed: 0,
                    last_reload: None,
                    last_fault: None,
                },
                limit: LimitStatus {
                    adaptive: true,
                    shared: false,
                    slots: 40,
                    running: 38,
                    lent: 0,
                    waiting: 24,
                    last_change: Some(change),
                    course: (20..40).map(point).collect(),
                },
                shedding: None,
                classes: vec![
                    class("checkout", second * 50, [0, 0]),
                    class("browse", second * 120, [second, second * 30]),
                ],
                pools: Vec::new(),
                resources: Vec::new(),
                background: Vec::new(),
                link: Vec::new(),
                link_capacity: None,
                lanes: Vec::new(),
                kernel: None,
                policers: Vec::new(),
                adaptations: Vec::new(),
                observed: None,
                adjustments: Vec::new(),
                sources: Vec::new(),
                unmatched: 0,
                origin: vec![server, down],
                workers: Vec::new(),
                listeners: vec!["http 0.0.0.0:80".to_owned()],
                clients: Clients {
                    connections_active: 310,
                    connections_max: 8000,
                    connections_accepted: 900,
                    connections_evicted: 0,
                    connections_turned_away: 0,
                    tunnels_active: 0,
                    buffered_bytes: 0,
                    spooled_bytes: 0,
                    stored_bytes: 0,
                    tls_failed: 0,
                    requests: BTreeMap::new(),
                    responses: BTreeMap::new(),
                    bad_requests: 0,
                    received_bytes: 0,
                    sent_bytes: 0,
                },
                access_log: LogStatus { written: 0, dropped: 0, errors: 0 },
            },
            refusals: vec![refusal; 30],
            incident: None,
        }
    }

    #[test]
    fn two_readings_make_rates() {
        let view = View::new(Some(&reading(10)), reading(12));
        let browse = &view.classes[1];
        assert_eq!(browse.served, Some(120.0));
        assert_eq!(browse.arrived, Some(151.0));
        assert_eq!(browse.refused, Some(31.0));
        assert_eq!(browse.reason.as_deref(), Some("deadline_expired"));
        assert_eq!(view.classes[0].reason, None);
        assert_eq!(view.servers[0].requests, Some(100.0));
        assert_eq!(view.servers[0].reused, Some(0.99));
    }

    #[test]
    fn one_reading_or_another_process_makes_none() {
        assert_eq!(View::new(None, reading(5)).classes[0].served, None);
        let restarted = View::new(Some(&reading(100)), reading(2));
        assert_eq!(restarted.classes[0].served, None);
        let same = View::new(Some(&reading(5)), reading(5));
        assert_eq!(same.classes[0].served, None);
        let mut renamed = reading(5);
        renamed.status.classes[0].name = "old".to_owned();
        let view = View::new(Some(&renamed), reading(6));
        assert_eq!((view.classes[0].served, view.classes[1].served), (None, Some(120.0)));
    }
}
