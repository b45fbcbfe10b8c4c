//! Metrics in the text forms that Prometheus scrapes.
//!
//! Everything is read first ([`Readings`]) and written afterwards, so that no lock is held while
//! text is made. Every label has few values: classes (64 at most), reasons, ends, servers of the
//! policy, the first rules.

#[cfg(test)]
mod lint;
mod page;
mod process;
mod sessions;
mod text;
mod write;

use super::counters::{Counters, ServerCounters, Totals};
use super::origin::OriginStatus;
use super::refusals::Refusals;
use super::snapshot::Snapshot;
use crate::reverse_dns::LookupCounters;
use crate::session;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::time::SystemTime;

pub use text::Form;

/// Everything that one scrape shows, at (nearly) one moment.
#[derive(Clone, Debug)]
pub struct Readings {
    snapshot: Snapshot,
    totals: Totals,
    servers: Vec<Arc<ServerCounters>>,
    retries_denied: u64,
    origin: OriginStatus,
    log: [u64; 3],
    reloads: [u64; 2],
    reload_failed: bool,
    refusals_skipped: u64,
    reverse_dns: Arc<LookupCounters>,
    started: SystemTime,
    now: SystemTime,
    version: &'static str,
    process: process::Usage,
    sessions: session::Readings,
}

impl Readings {
    /// Reads all counters. `snapshot` comes from [`Snapshot::take`] under the gate's lock.
    pub fn take(
        snapshot: Snapshot,
        counters: &Counters,
        refusals: &Refusals,
        origin: OriginStatus,
        version: &'static str,
    ) -> Self {
        let log = &counters.access_log;
        Readings {
            snapshot,
            totals: counters.totals(),
            servers: counters.servers(),
            retries_denied: counters.retries_denied.total(),
            origin,
            log: [log.written.total(), log.dropped.total(), log.errors.total()],
            reloads: [counters.reloads_ok.total(), counters.reloads_failed.total()],
            reload_failed: counters.last_reload().fault.is_some(),
            refusals_skipped: refusals.skipped(),
            reverse_dns: counters.reverse_dns.clone(),
            started: counters.started(),
            now: SystemTime::now(),
            version,
            process: process::usage(),
            sessions: session::Readings::default(),
        }
    }

    /// The same with what is known of sessions, by the classes of the snapshot.
    pub fn with_sessions(self, sessions: session::Readings) -> Self {
        Readings { sessions, ..self }
    }

    /// The readings as text.
    pub fn encode(self, form: Form) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut open_metrics = String::with_capacity(64 * 1024);
        prometheus_client::encoding::text::encode(&mut open_metrics, &registry)
            .expect("a string takes every write");
        match form {
            Form::OpenMetrics => open_metrics,
            Form::Prometheus => text::to_prometheus(&open_metrics),
        }
    }
}
