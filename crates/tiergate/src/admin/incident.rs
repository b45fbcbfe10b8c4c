//! `/incident`: what an operator needs during one, as one JSON object. The page at `/` shows the same.

pub use super::context::CertificateStatus;
use super::context::{Context, InForce, Phase};
pub use super::trail::ConfigChange;
use super::trail::ConfigTrail;
use crate::observe::history::{Base, History};
use crate::observe::hour::{Event, Hour, HourPoint, TopEntry};
use crate::observe::metrics::process;
use crate::observe::server::ServerStatus;
use crate::observe::snapshot::{ClassSnapshot, PoolSnapshot, Snapshot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use tiergate_core::account::ClassAccount;
use tiergate_core::headroom::{Demand, FailureBound, bounded_buffer, failure_buffer};
use tiergate_core::incident::{ClassSituation, Flood, Life, PoolSituation, Situation};

/// Entries of each list of what is refused most.
const REFUSED_SHOWN: usize = 8;

/// What is going on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Incident {
    /// It in one sentence, over the last ten seconds.
    pub sentence: String,
    /// `calm`, `watch`, `act`.
    pub urgency: String,
    /// The parts of the sentence, the most important first.
    pub findings: Vec<String>,
    /// The classes, most important first, over all pools.
    pub classes: Vec<ClassNow>,
    /// How much more load there may be, by what ends first; `null`: not known.
    pub failure_buffers: BTreeMap<String, Option<f64>>,
    /// What is in use, and of how much.
    pub limits: Vec<Use>,
    /// When certificates expire, the first one first.
    pub certificates: Vec<CertificateStatus>,
    /// A point every ten seconds of the last hour, the oldest first.
    pub hour: Vec<HourPoint>,
    /// What happened, the oldest first.
    pub events: Vec<Event>,
    /// What is refused most; counts of five minutes ago count half.
    pub refused_most: RefusedMost,
    /// How the configuration differs from the former one.
    pub config: ConfigChange,
}

/// A class over the last ten seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassNow {
    /// Its name.
    pub name: String,
    /// Requests that came, a second.
    pub arrived_per_second: f64,
    /// Those refused, a second.
    pub refused_per_second: f64,
    /// The part that was served, 0.0 to 1.0, without those that a rule refuses; `null`: none ended.
    pub served_share: Option<f64>,
    /// The commonest reason of the refusals.
    pub reason: Option<String>,
    /// Requests in the queues.
    pub waiting: u32,
    /// Requests that hold slots.
    pub in_service: u32,
    /// 99 % of those that got a slot waited no longer. Seconds.
    pub wait_p99_seconds: Option<f64>,
    /// Longest time in its queue.
    pub deadline_seconds: f64,
    /// How much the load may grow until the class is shed, in the default pool: see `docs/observability.md`.
    pub success_buffer: Option<f64>,
}

/// Something that is bounded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// What.
    pub what: String,
    /// How much is in use.
    pub used: f64,
    /// The bound; `null`: there is none, or it is not known.
    pub max: Option<f64>,
    /// Whether these are bytes.
    pub is_bytes: bool,
}

/// What is refused most.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RefusedMost {
    /// Clients, by address.
    pub clients: Vec<TopEntry>,
    /// Paths without their queries.
    pub paths: Vec<TopEntry>,
    /// The rules that decided, each with the reason.
    pub rules: Vec<TopEntry>,
}

/// What all of it is read from.
pub(super) struct Sources<'a> {
    pub(super) context: &'a Context,
    pub(super) history: &'a History,
    pub(super) hour: &'a Hour,
    pub(super) trail: &'a ConfigTrail,
}

/// How much more load there may be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buffers {
    /// By pool and class.
    pub success: Vec<(String, String, f64)>,
    /// By pool (empty also for what all pools share) and bound.
    pub failure: Vec<(String, FailureBound, f64)>,
}

impl Sources<'_> {
    /// Reads everything.
    pub(super) fn incident(&self) -> Incident {
        let snapshot = (self.context.snapshot)();
        let base = self.history.base(snapshot.at);
        let servers = (self.context.origin)();
        let in_force = (self.context.in_force)();
        let situation = self.situation(&snapshot, base.as_ref(), &servers, &in_force);
        let diagnosis = situation.diagnose();
        let buffers = self.buffers(&snapshot);
        let bound = |bound: FailureBound| {
            let found = buffers.failure.iter().find(|it| it.0.is_empty() && it.1 == bound);
            (bound.name().to_owned(), found.map(|it| it.2))
        };
        let refused = &self.hour.refused;
        Incident {
            sentence: diagnosis.to_string(),
            urgency: diagnosis.urgency.name().to_owned(),
            findings: diagnosis.findings.iter().map(ToString::to_string).collect(),
            classes: self.classes(&snapshot, base.as_ref(), &buffers),
            failure_buffers: FailureBound::ALL.map(bound).into(),
            limits: self.limits(&in_force),
            certificates: in_force.certificates,
            hour: self.hour.points().cloned().collect(),
            events: self.hour.events.all().cloned().collect(),
            refused_most: RefusedMost {
                clients: refused.clients.most(REFUSED_SHOWN),
                paths: refused.paths.most(REFUSED_SHOWN),
                rules: refused.rules.most(REFUSED_SHOWN),
            },
            config: self.trail.change(),
        }
    }

    fn situation(
        &self,
        snapshot: &Snapshot,
        base: Option<&Base<'_>>,
        servers: &[ServerStatus],
        in_force: &InForce,
    ) -> Situation {
        let counters = &self.context.counters;
        let usage = process::usage();
        let ratio = |used: Option<u64>, max: Option<u64>| {
            used.zip(max.filter(|max| *max > 0)).map(|(used, max)| used as f64 / max as f64)
        };
        let connections_max = counters.connections_max.load(Ordering::Relaxed) as u64;
        let connections = Some(counters.connections.used() as u64);
        let sensors = super::control::sources(snapshot, &(self.context.sensors)());
        let first = in_force.certificates.iter().map(|it| it.expires_at_seconds).min();
        let link = snapshot.link_capacity.as_ref().zip(base).map(|(link, base)| {
            let sent = counters.sum(|it| &it.sent_bytes).saturating_sub(base.sent_bytes);
            per_second(sent * 8, base.elapsed) / (link.bits_per_second.max(1) as f64)
        });
        Situation {
            life: match (self.context.phase)() {
                Phase::Starting => Life::Starting,
                Phase::Serving => Life::Serving,
                Phase::Leaving => Life::Leaving,
                Phase::Draining => Life::Draining,
            },
            is_enforced: in_force.is_enforced,
            pools: snapshot.pools().map(|pool| pool_situation(pool, base, servers)).collect(),
            classes: class_situations(snapshot, base),
            in_progress: snapshot
                .pools()
                .flat_map(|it| &it.classes)
                .map(|it| u64::from(it.state.requests + it.state.waiting))
                .sum(),
            flood: self.flood(snapshot, base),
            link,
            connections: ratio(connections, Some(connections_max)).unwrap_or_default(),
            descriptors: ratio(usage.open_fds, usage.fds_max),
            silent_sensors: sensors
                .into_iter()
                .filter(|it| it.stale && it.measures.is_some())
                .map(|it| it.source)
                .collect(),
            is_reload_rejected: counters.last_reload().fault.is_some(),
            certificate_expires_in_seconds: first.map(|at| at - unix_seconds()),
        }
    }

    /// The client with the most refusals, if there are any now.
    fn flood(&self, snapshot: &Snapshot, base: Option<&Base<'_>>) -> Option<Flood> {
        let classes =
            snapshot.pools().flat_map(|pool| pool.classes.iter().map(move |it| (pool, it)));
        let more = |(pool, it): (&PoolSnapshot, &ClassSnapshot)| {
            let before = base?.account(&pool.name, &it.class.name);
            let before = before.map_or(0, ClassAccount::refused_total);
            Some(it.account.refused_total().saturating_sub(before))
        };
        let refusals = classes.filter_map(more).sum();
        let client = self.hour.refused.clients_now.most(1).pop()?;
        Some(Flood { client: client.what, share: client.share, refusals })
    }

    fn classes(
        &self,
        snapshot: &Snapshot,
        base: Option<&Base<'_>>,
        buffers: &Buffers,
    ) -> Vec<ClassNow> {
        let situations = class_situations(snapshot, base);
        let now = |it: ClassSituation| {
            let of = |pool: &PoolSnapshot| pool.class(&it.name).cloned();
            let all: Vec<(&str, ClassSnapshot)> =
                snapshot.pools().filter_map(|pool| Some((pool.name.as_str(), of(pool)?))).collect();
            let elapsed = base.map_or(Duration::ZERO, |it| it.elapsed);
            let before = |pool: &str| base.and_then(|base| base.account(pool, &it.name)).cloned();
            let mut totals = [ClassAccount::default(), ClassAccount::default()];
            for (pool, class) in all.iter().filter(|_| base.is_some()) {
                for (total, account) in
                    totals.iter_mut().zip([before(pool).unwrap_or_default(), class.account.clone()])
                {
                    total.arrived += account.arrived;
                    total.refused.iter_mut().zip(account.refused).for_each(|(it, n)| *it += n);
                    total.wait.add(&account.wait);
                }
            }
            let [before, now] = totals;
            let reasons = tiergate_core::reason::Reason::ALL.into_iter();
            let more = |at: usize| now.refused[at].saturating_sub(before.refused[at]);
            let reason =
                reasons.max_by_key(|it| more(it.index())).filter(|it| more(it.index()) > 0);
            let refused = now.refused_total().saturating_sub(before.refused_total());
            let settings = &all[0].1.class;
            ClassNow {
                arrived_per_second: per_second(now.arrived.saturating_sub(before.arrived), elapsed),
                refused_per_second: per_second(refused, elapsed),
                served_share: it.served_share(),
                reason: reason.map(|it| it.name().to_owned()),
                waiting: all.iter().map(|it| it.1.state.waiting).sum(),
                in_service: all.iter().map(|it| it.1.state.requests).sum(),
                wait_p99_seconds: now
                    .wait
                    .since(&before.wait)
                    .quantile(0.99)
                    .map(|it| it.as_secs_f64()),
                deadline_seconds: settings.deadline.as_secs_f64(),
                success_buffer: buffers
                    .success
                    .iter()
                    .find(|(pool, class, _)| pool.is_empty() && *class == it.name)
                    .map(|it| it.2),
                name: it.name,
            }
        };
        situations.into_iter().map(now).collect()
    }

    fn limits(&self, in_force: &InForce) -> Vec<Use> {
        let counters = &self.context.counters;
        let usage = process::usage();
        let bytes = |what: &str, used: u64, max: u64| Use {
            what: what.to_owned(),
            used: used as f64,
            max: Some(max as f64),
            is_bytes: true,
        };
        let number = |what: &str, used: Option<u64>, max: Option<u64>| {
            let max = max.map(|it| it as f64);
            used.map(|used| Use { what: what.to_owned(), used: used as f64, max, is_bytes: false })
        };
        let connections = Some(counters.connections.used() as u64);
        let connections_max = counters.connections_max.load(Ordering::Relaxed) as u64;
        let bounds = in_force.bounds;
        let memory = usage.resident_bytes.map(|used| Use {
            what: "memory of the process".to_owned(),
            used: used as f64,
            max: usage.memory_max.map(|it| it as f64),
            is_bytes: true,
        });
        [
            number("client connections", connections, Some(connections_max)),
            number("file descriptors", usage.open_fds, usage.fds_max),
            memory,
            Some(bytes(
                "buffers for slow clients",
                counters.buffered.used() as u64,
                bounds.buffers_max,
            )),
            Some(bytes("bodies in files", counters.spool.bytes.used() as u64, bounds.spool_max)),
            Some(bytes("stored copies", counters.store.size().1, bounds.stored_max)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The buffers by the load of the last ten seconds.
    pub(super) fn buffers(&self, snapshot: &Snapshot) -> Buffers {
        let mut buffers = Buffers::default();
        let Some(base) = self.history.base(snapshot.at).filter(|it| !it.elapsed.is_zero()) else {
            return buffers;
        };
        for pool in snapshot.pools() {
            let demand = |class: &str| {
                pool.class(class).map_or_else(Demand::default, |it| demand(pool, it, &base))
            };
            let success = (self.context.success_buffers)(f64::from(pool.slots), &demand);
            let values: Vec<Option<f64>> = success.iter().map(|it| it.1).collect();
            let failure = failure_buffer(&values).map(|it| (FailureBound::Slots, it));
            buffers.failure.extend(failure.map(|(bound, it)| (pool.name.clone(), bound, it)));
            let known = success.into_iter().filter_map(|(class, it)| Some((class, it?)));
            buffers.success.extend(known.map(|(class, it)| (pool.name.clone(), class, it)));
        }
        let counters = &self.context.counters;
        let usage = process::usage();
        let connections_max = counters.connections_max.load(Ordering::Relaxed) as f64;
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let cpu = usage.cpu_seconds.zip(base.cpu_seconds);
        let cpu = cpu.map(|(now, before)| (now - before) / base.elapsed.as_secs_f64());
        let fds = usage.open_fds.zip(usage.fds_max);
        let bounded = [
            (
                FailureBound::Connections,
                Some((counters.connections.used() as f64, connections_max)),
            ),
            (FailureBound::Descriptors, fds.map(|(used, max)| (used as f64, max as f64))),
            (FailureBound::Processors, cpu.map(|used| (used, processors))),
        ];
        let known = bounded.into_iter().filter_map(|(bound, uses)| {
            let (used, max) = uses?;
            Some((String::new(), bound, bounded_buffer(used, max)?))
        });
        buffers.failure.extend(known);
        buffers
    }
}

/// What a class asks of a pool, by the last ten seconds.
fn demand(pool: &PoolSnapshot, class: &ClassSnapshot, base: &Base<'_>) -> Demand {
    let nothing = ClassAccount::default();
    let before = base.account(&pool.name, &class.class.name).unwrap_or(&nothing);
    let requests = class.state.requests;
    let each =
        if requests == 0 { 1.0 } else { f64::from(class.state.running) / f64::from(requests) };
    Demand::between(before, &class.account, base.elapsed, each.max(1.0))
}

fn pool_situation(
    pool: &PoolSnapshot,
    base: Option<&Base<'_>>,
    servers: &[ServerStatus],
) -> PoolSituation {
    let own = || servers.iter().filter(|it| it.pool == pool.name);
    let mut situation = PoolSituation {
        name: pool.name.clone(),
        slots: pool.slots,
        running: pool.running,
        waiting: pool.waiting as u64,
        servers: own().count() as u32,
        servers_down: own().filter(|it| !it.health.usable()).map(|it| it.address.clone()).collect(),
        ..PoolSituation::default()
    };
    for (_, class, counted) in counted(pool, base) {
        let before = base.and_then(|it| it.account(&pool.name, &class.class.name));
        let finished = before.map_or(0, ClassAccount::finished_total);
        situation.finished += class.account.finished_total().saturating_sub(finished);
        situation.shed += counted.shed;
        situation.failed += counted.failed;
    }
    situation
}

/// What was counted of each class of a pool; nothing without a base.
fn counted<'a>(
    pool: &'a PoolSnapshot,
    base: Option<&'a Base<'_>>,
) -> impl Iterator<Item = (&'a str, &'a ClassSnapshot, ClassSituation)> {
    pool.classes.iter().map(move |class| {
        let nothing = ClassAccount::default();
        let counted = base.map_or_else(ClassSituation::default, |base| {
            let before = base.account(&pool.name, &class.class.name).unwrap_or(&nothing);
            ClassSituation::between(before, &class.account)
        });
        (pool.name.as_str(), class, counted)
    })
}

/// The classes over all pools, most important first; one that is gone only while it has requests.
fn class_situations(snapshot: &Snapshot, base: Option<&Base<'_>>) -> Vec<ClassSituation> {
    let mut all: Vec<ClassSituation> = Vec::new();
    for (_, class, counted) in snapshot.pools().flat_map(|pool| counted(pool, base)) {
        if !class.is_planned && class.state.requests + class.state.waiting == 0 {
            continue;
        }
        let name = &class.class.name;
        match all.iter_mut().find(|it| it.name == *name) {
            Some(it) => it.add(&counted),
            None => all.push(ClassSituation {
                name: name.clone(),
                is_background: class.class.background,
                ..counted
            }),
        }
    }
    all
}

fn per_second(count: u64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() { 0.0 } else { count as f64 / elapsed.as_secs_f64() }
}

pub(super) fn unix_seconds() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
