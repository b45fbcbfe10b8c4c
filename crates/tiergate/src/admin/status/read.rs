//! Reads the state from the parts that know it.

use super::{
    BackgroundLimit, BackgroundStatus, ClassStatus, Clients, ConfigStatus, ControlStatus,
    LimitStatus, LogStatus, PolicerStatus, PoolStatus, ResourceStatus, Spread, Status,
    TargetStatus,
};
use crate::admin::context::{ConfigInForce, Context, unready};
use crate::admin::last_change::last_change;
use crate::admin::quantiles::quantiles;
use crate::admin::{adaptation, control, observed};
use crate::observe::access_log::rfc3339;
use crate::observe::counters::{Counters, Protocol, STATUS_CLASSES};
use crate::observe::history::{History, Point, Window};
use crate::observe::server::ServerStatus;
use crate::observe::snapshot::{ClassSnapshot, PoolSnapshot, ResourceSnapshot, Snapshot};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::SystemTime;
use tiergate_core::admit::policer::PolicerState;
use tiergate_core::gate::{BackgroundBound, BackgroundState, ClassState, SteerState};
use tiergate_core::histogram::Histogram;
use tiergate_core::outcome::End;
use tiergate_core::reason::Reason;
use tiergate_core::stored::Instead;
use tiergate_core::time::Moment;

impl Status {
    /// Reads everything.
    pub fn read(context: &Context, history: &History) -> Self {
        let snapshot = (context.snapshot)();
        let origin = (context.origin)();
        let phase = (context.phase)();
        let config = (context.config)();
        let log = &context.counters.access_log;
        let uptime = SystemTime::now().duration_since(context.counters.started());
        Status {
            version: context.version.to_owned(),
            at_seconds: snapshot.at.seconds(),
            uptime_seconds: uptime.unwrap_or_default().as_secs_f64(),
            phase,
            unready: unready(phase, &origin).map(str::to_owned),
            config: config_status(context, &config),
            limit: limit_status(
                &snapshot.default,
                &origin,
                snapshot.at,
                history.course().collect(),
            ),
            shedding: snapshot.default.shedding,
            classes: classes(&snapshot.default, &snapshot, history).collect(),
            pools: snapshot
                .others
                .iter()
                .map(|it| pool_status(it, &origin, &snapshot, history))
                .collect(),
            resources: resources(&snapshot).collect(),
            background: backgrounds(&snapshot).collect(),
            link: snapshot.link.clone(),
            link_capacity: snapshot.link_capacity.clone(),
            lanes: snapshot.lanes.clone(),
            kernel: snapshot.kernel.clone(),
            policers: snapshot
                .policers
                .iter()
                .map(|it| policer_status(it, &snapshot.steered))
                .collect(),
            adaptations: snapshot.adaptations.iter().map(adaptation::status).collect(),
            observed: snapshot.observed.as_ref().map(observed::status),
            adjustments: control::adjustments(&snapshot),
            sources: control::sources(&snapshot, &(context.sensors)()),
            unmatched: snapshot.unmatched,
            origin,
            workers: (context.workers)(),
            listeners: (context.listeners)(),
            clients: clients(&context.counters),
            access_log: LogStatus {
                written: log.written.total(),
                dropped: log.dropped.total(),
                errors: log.errors.total(),
            },
        }
    }
}

fn config_status(context: &Context, config: &ConfigInForce) -> ConfigStatus {
    let last = context.counters.last_reload();
    ConfigStatus {
        path: config.path.as_ref().map(|path| path.display().to_string()),
        generation: config.generation,
        reloads_ok: context.counters.reloads_ok.total(),
        reloads_failed: context.counters.reloads_failed.total(),
        last_reload: last.at.map(rfc3339),
        last_fault: last.fault,
    }
}

fn pool_status(
    pool: &PoolSnapshot,
    origin: &[ServerStatus],
    snapshot: &Snapshot,
    history: &History,
) -> PoolStatus {
    PoolStatus {
        name: pool.name.clone(),
        limit: limit_status(pool, origin, snapshot.at, Vec::new()),
        shedding: pool.shedding,
        classes: classes(pool, snapshot, history).collect(),
    }
}

/// The background of each pool that has one.
fn backgrounds(snapshot: &Snapshot) -> impl Iterator<Item = BackgroundStatus> + '_ {
    let of_pool = |pool: &PoolSnapshot| {
        let state = pool.background?;
        let BackgroundState { most, running, is_quiet, felt, bounded_by, rests_until } = state;
        let felt_most_by = match bounded_by {
            Some(BackgroundBound::Class(id)) => pool.classes.iter().find(|it| it.id == id),
            _ => None,
        };
        Some(BackgroundStatus {
            pool: pool.name.clone(),
            most,
            running,
            quiet: is_quiet,
            felt: felt.each.exp_m1(),
            felt_error: felt.error,
            bounded_by: bounded_by.map(|it| match it {
                BackgroundBound::ResponseTimes | BackgroundBound::Class(_) => {
                    BackgroundLimit::ResponseTimes
                }
                BackgroundBound::Throughput => BackgroundLimit::Throughput,
                BackgroundBound::Slowdown => BackgroundLimit::Slowdown,
                BackgroundBound::LastingEffect => BackgroundLimit::LastingEffect,
            }),
            felt_most_by: felt_most_by.map(|it| it.class.name.clone()),
            rests_seconds: rests_until.map(|until| until.since(snapshot.at).as_secs_f64()),
        })
    };
    snapshot.pools().filter_map(of_pool)
}

/// The resources of all pools.
fn resources(snapshot: &Snapshot) -> impl Iterator<Item = ResourceStatus> + '_ {
    let of_pool = |pool: &'_ PoolSnapshot| -> Vec<ResourceStatus> {
        let status = |it: &ResourceSnapshot| ResourceStatus {
            name: it.name.clone(),
            pool: pool.name.clone(),
            adaptive: it.adaptive,
            slots: it.slots,
            running: it.running,
            waiting: it.waiting,
            last_change: last_change(it.last_step, snapshot.at),
        };
        pool.resources.iter().map(status).collect()
    };
    snapshot.pools().flat_map(of_pool)
}

/// The classes in a pool.
fn classes(
    pool: &PoolSnapshot,
    snapshot: &Snapshot,
    history: &History,
) -> impl Iterator<Item = ClassStatus> {
    // One that is gone is shown until its last request has ended.
    let shown = |class: &&ClassSnapshot| class.is_planned || class.state != ClassState::default();
    let classes = pool.classes.iter().filter(shown);
    classes.map(|class| class_status(class, history.window(snapshot, pool, &class.class.name).0))
}

fn limit_status(
    pool: &PoolSnapshot,
    origin: &[ServerStatus],
    now: Moment,
    course: Vec<Point>,
) -> LimitStatus {
    let change = last_change(pool.last_step, now);
    LimitStatus {
        adaptive: pool.adaptive,
        shared: pool.shared,
        slots: pool.slots,
        running: pool.running,
        lent: pool.lent,
        waiting: pool.waiting as u64,
        last_change: change.map(|change| match pool.last_server {
            Some((id, slots)) => change.of_server(id, slots, &pool.name, origin),
            None => change,
        }),
        course,
    }
}

fn class_status(class: &ClassSnapshot, window: Window) -> ClassStatus {
    let account = &class.account;
    let settings = &class.class;
    let spread = |window: &Histogram, total: &Histogram| Spread {
        window: quantiles(window),
        total: quantiles(total),
    };
    ClassStatus {
        name: settings.name.clone(),
        guaranteed_share: settings.minimum,
        site: class.site.clone(),
        order: class.order.to_owned(),
        share: settings.share,
        queue_len_max: settings.queue_len_max,
        deadline_seconds: settings.deadline.as_secs_f64(),
        waiting: class.state.waiting,
        held_up: class.state.held_up,
        running: class.state.running,
        in_service: class.state.requests,
        streams: class.state.streams,
        patience_seconds: class.state.patience.map(|it| it.as_secs_f64()),
        service_target: class.state.target.map(|it| TargetStatus {
            quantile: it.target.quantile.name().to_owned(),
            seconds: it.target.time.as_secs_f64(),
            slots: it.slots,
            missed: it.is_missed,
            answers: it.answers,
            late: it.late,
        }),
        arrived: account.arrived,
        admitted_at_once: account.admitted_at_once,
        queued: account.queued,
        cancelled_waiting: account.cancelled_waiting,
        // Each slot granted has recorded its wait.
        admitted: account.wait.count(),
        refused: named(Reason::ALL.map(Reason::name), account.refused),
        stored: named(Instead::ALL.map(Instead::name), account.stored),
        finished: named(End::ALL.map(End::name), account.finished),
        wait: spread(&window.wait, &account.wait),
        first_byte: spread(&window.first_byte, &account.first_byte),
    }
}

fn policer_status((name, state): &(String, PolicerState), steered: &[SteerState]) -> PolicerStatus {
    let control = steered.iter().find(|it| it.policer == *name).map(|it| ControlStatus {
        sensor: it.source.clone(),
        reading: it.reading,
        reference: it.reference.value(),
        state: it.state.name().to_owned(),
    });
    PolicerStatus {
        name: name.clone(),
        tokens_per_second: state.rate.tokens_per_second(),
        passed: state.counts.passed,
        overflow: state.counts.overflow,
        refused: state.counts.refused,
        untracked: state.counts.untracked,
        early: state.counts.early,
        flows: state.flows as u64,
        control,
    }
}

fn clients(counters: &Counters) -> Clients {
    let requests = counters.sums(|it| &it.requests);
    Clients {
        connections_active: counters.connections.used() as u64,
        connections_max: counters.connections_max.load(Ordering::Relaxed) as u64,
        connections_accepted: counters.sum(|it| &it.connections_accepted),
        connections_evicted: counters.sum(|it| &it.connections_evicted),
        connections_turned_away: counters.sum(|it| &it.connections_turned_away),
        tunnels_active: counters.tunnels_active(),
        buffered_bytes: counters.buffered.used() as u64,
        spooled_bytes: counters.spool.bytes.used() as u64,
        stored_bytes: counters.store.size().1,
        tls_failed: counters.sum(|it| &it.tls_failed),
        requests: named(Protocol::ALL.map(Protocol::name), requests),
        responses: named(STATUS_CLASSES, counters.sums(|it| &it.responses)),
        bad_requests: counters.sums(|it| &it.bad_requests).iter().sum(),
        received_bytes: counters.sum(|it| &it.received_bytes),
        sent_bytes: counters.sum(|it| &it.sent_bytes),
    }
}

/// Counts by name.
fn named<const N: usize>(names: [&str; N], counts: [u64; N]) -> BTreeMap<String, u64> {
    names.map(str::to_owned).into_iter().zip(counts).collect()
}
