//! Counters of the gateway itself: connections, requests, responses, bytes, origin servers.
//!
//! | state | written by | read by |
//! |---|---|---|
//! | [`ThreadCounters`] | the thread that owns the set, relaxed | a scrape, relaxed |
//! | [`ServerCounters`] | every thread, relaxed | a scrape, relaxed |
//! | list of servers | start and reload, under its lock | a scrape, under its lock |
//! | text of the last reload's fault | a reload, under its lock | a scrape, under its lock |
//!
//! A scrape may see a request in one counter and not yet in another; each counter only grows.

use crate::budget::Budget;
use crate::reverse_dns::LookupCounters;
use crate::tally::{Tally, ThreadTally};
use crate::tokens::Proof;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

/// The protocol that a request came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Protocol {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2, with or without TLS.
    Http2,
}

impl Protocol {
    /// Every protocol, in the order of their indices.
    pub const ALL: [Protocol; 3] = [Protocol::Http10, Protocol::Http11, Protocol::Http2];

    /// The protocol's name in metrics and logs, as in a request line.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Http10 => "HTTP/1.0",
            Protocol::Http11 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2.0",
        }
    }
}

/// Statuses by which bad requests are answered and counted; any other is counted as `other`.
pub const BAD_STATUSES: [u16; 9] = [400, 405, 408, 413, 414, 417, 431, 501, 505];

/// Classes of response status: index 0 is 1xx.
pub const STATUS_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// What one serving thread counts. Two cache lines apart from every other set, so that threads do
/// not slow each other down (128: adjacent lines are fetched in pairs on x86).
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ThreadCounters {
    /// Client connections accepted.
    pub connections_accepted: ThreadTally,
    /// Client connections ended, however.
    pub connections_closed: ThreadTally,
    /// TLS handshakes that failed or timed out.
    pub tls_failed: ThreadTally,
    /// PROXY protocol headers that were missing, malformed or late.
    pub proxy_failed: ThreadTally,
    /// Bytes read from clients.
    pub received_bytes: ThreadTally,
    /// Bytes written to clients.
    pub sent_bytes: ThreadTally,
    /// Connections upgraded (WebSocket).
    pub tunnels_opened: ThreadTally,
    /// Upgraded connections ended.
    pub tunnels_closed: ThreadTally,
    requests: [ThreadTally; Protocol::ALL.len()],
    responses: [ThreadTally; STATUS_CLASSES.len()],
    /// Keys and tokens that were looked at, by [`Proof::ALL`].
    pub credentials: [ThreadTally; Proof::ALL.len()],
    bad_requests: [ThreadTally; BAD_STATUSES.len() + 1],
}

impl ThreadCounters {
    /// Counts a request whose head was read whole.
    pub fn request(&self, protocol: Protocol) {
        self.requests[protocol as usize].one();
    }

    /// Counts a final or interim response sent to a client. Statuses outside 100–599 count as 5xx.
    pub fn response(&self, status: u16) {
        let class = usize::from(status / 100).wrapping_sub(1);
        self.responses[class.min(STATUS_CLASSES.len() - 1)].one();
    }

    /// Counts a request answered by `status` because it was malformed, too large or too slow.
    pub fn bad_request(&self, status: u16) {
        let place = BAD_STATUSES.iter().position(|&known| known == status);
        self.bad_requests[place.unwrap_or(BAD_STATUSES.len())].one();
    }
}

/// What is counted for one origin server, by all threads.
#[derive(Debug)]
#[repr(align(128))]
pub struct ServerCounters {
    /// Address as configured; the label in metrics.
    pub address: String,
    /// Connections opened.
    pub connects: Tally,
    /// Requests sent on a connection that was kept from an earlier one.
    pub reuses: Tally,
    /// Attempts that failed: refused, reset, timed out, malformed answer.
    pub failures: Tally,
    /// Requests sent to it again because a kept connection turned out to be closed.
    pub retries: Tally,
}

/// What the access log counts.
#[derive(Debug, Default)]
pub struct LogCounters {
    /// Lines written.
    pub written: Tally,
    /// Lines thrown away because the writer could not keep up.
    pub dropped: Tally,
    /// Writes or reopens that failed.
    pub errors: Tally,
}

/// The sum over all threads, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Client connections accepted.
    pub connections_accepted: u64,
    /// Client connections ended.
    pub connections_closed: u64,
    /// TLS handshakes that failed.
    pub tls_failed: u64,
    /// PROXY headers that failed.
    pub proxy_failed: u64,
    /// Bytes read from clients.
    pub received_bytes: u64,
    /// Bytes written to clients.
    pub sent_bytes: u64,
    /// Memory kept for slow clients now, in bytes.
    pub buffered_bytes: u64,
    /// Tunnels opened.
    pub tunnels_opened: u64,
    /// Tunnels ended.
    pub tunnels_closed: u64,
    /// Requests, by [`Protocol::ALL`].
    pub requests: [u64; Protocol::ALL.len()],
    /// Responses, by [`STATUS_CLASSES`].
    pub responses: [u64; STATUS_CLASSES.len()],
    /// Keys and tokens, by [`Proof::ALL`].
    pub credentials: [u64; Proof::ALL.len()],
    /// Bad requests, by [`BAD_STATUSES`], then the others.
    pub bad_requests: [u64; BAD_STATUSES.len() + 1],
}

impl Totals {
    /// Client connections open now.
    pub fn connections_active(&self) -> u64 {
        // The two are read one after the other, so that the later one may have run ahead.
        self.connections_accepted.saturating_sub(self.connections_closed)
    }

    /// Upgraded connections open now.
    pub fn tunnels_active(&self) -> u64 {
        self.tunnels_opened.saturating_sub(self.tunnels_closed)
    }
}

/// Everything the gateway counts outside the gate. One per process, shared.
#[derive(Debug)]
pub struct Counters {
    threads: Box<[ThreadCounters]>,
    servers: RwLock<Vec<Arc<ServerCounters>>>,
    /// The access log's counters.
    pub access_log: LogCounters,
    /// Memory kept for slow clients.
    pub buffered: Arc<Budget>,
    /// Lookups of clients' names.
    pub reverse_dns: Arc<LookupCounters>,
    /// Retries that the origin's budget did not allow.
    pub retries_denied: Arc<Tally>,
    /// Reloads that put a new configuration in force.
    pub reloads_ok: Tally,
    /// Reloads that were refused.
    pub reloads_failed: Tally,
    last_reload: Mutex<LastReload>,
    started: SystemTime,
}

/// The latest reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastReload {
    /// When it ended; `None`: there was none yet.
    pub at: Option<SystemTime>,
    /// Why it was refused; `None`: it was not.
    pub fault: Option<String>,
}

/// Longest text of a reload's fault that is kept.
pub const FAULT_LEN_MAX: usize = 4096;

impl Counters {
    /// Counters at zero, with a set for each of `threads` threads (at least one).
    pub fn new(threads: usize) -> Arc<Self> {
        Arc::new(Counters {
            threads: (0..threads.max(1)).map(|_| ThreadCounters::default()).collect(),
            servers: RwLock::default(),
            access_log: LogCounters::default(),
            buffered: Arc::default(),
            reverse_dns: Arc::default(),
            retries_denied: Arc::default(),
            reloads_ok: Tally::default(),
            reloads_failed: Tally::default(),
            last_reload: Mutex::default(),
            started: SystemTime::now(),
        })
    }

    /// The set of the thread numbered `index`, which alone may count in it.
    ///
    /// # Panics
    /// If there are no more than `index` threads.
    pub fn thread(&self, index: usize) -> &ThreadCounters {
        &self.threads[index]
    }

    /// Names the origin servers in force, and returns their counters in the same order. A server
    /// that was there before keeps its counts; one that is gone is no longer shown.
    pub fn set_servers(&self, addresses: &[String]) -> Vec<Arc<ServerCounters>> {
        let mut servers = self.servers.write().unwrap_or_else(PoisonError::into_inner);
        let kept = addresses.iter().map(|address| {
            let known = servers.iter().find(|server| server.address == *address);
            known.cloned().unwrap_or_else(|| {
                Arc::new(ServerCounters {
                    address: address.clone(),
                    connects: Tally::default(),
                    reuses: Tally::default(),
                    failures: Tally::default(),
                    retries: Tally::default(),
                })
            })
        });
        let kept: Vec<_> = kept.collect();
        servers.clone_from(&kept);
        kept
    }

    /// The counters of the origin servers in force.
    pub fn servers(&self) -> Vec<Arc<ServerCounters>> {
        let servers = self.servers.read().unwrap_or_else(PoisonError::into_inner);
        servers.clone()
    }

    /// Counts a reload, and keeps the start of its fault's text.
    pub fn reloaded(&self, result: Result<(), &str>) {
        let fault = match result {
            Ok(()) => {
                self.reloads_ok.one();
                None
            }
            Err(fault) => {
                self.reloads_failed.one();
                Some(fault[..fault.floor_char_boundary(FAULT_LEN_MAX)].to_owned())
            }
        };
        *self.last_reload.lock().unwrap_or_else(PoisonError::into_inner) =
            LastReload { at: Some(SystemTime::now()), fault };
    }

    /// The latest reload.
    pub fn last_reload(&self) -> LastReload {
        let last = self.last_reload.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }

    /// When the process started.
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// The sum over all threads.
    pub fn totals(&self) -> Totals {
        let mut totals =
            Totals { buffered_bytes: self.buffered.used() as u64, ..Totals::default() };
        for thread in &self.threads {
            // Ends before beginnings: what is open never comes out below zero for long.
            totals.connections_closed += thread.connections_closed.total();
            totals.connections_accepted += thread.connections_accepted.total();
            totals.tunnels_closed += thread.tunnels_closed.total();
            totals.tunnels_opened += thread.tunnels_opened.total();
            totals.tls_failed += thread.tls_failed.total();
            totals.proxy_failed += thread.proxy_failed.total();
            totals.received_bytes += thread.received_bytes.total();
            totals.sent_bytes += thread.sent_bytes.total();
            sum(&mut totals.requests, &thread.requests);
            sum(&mut totals.responses, &thread.responses);
            sum(&mut totals.credentials, &thread.credentials);
            sum(&mut totals.bad_requests, &thread.bad_requests);
        }
        totals
    }
}

fn sum(into: &mut [u64], tallies: &[ThreadTally]) {
    for (total, tally) in into.iter_mut().zip(tallies) {
        *total += tally.total();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up_and_do_not_share_lines() {
        let counters = Counters::new(2);
        for index in [0, 1, 0, 1] {
            counters.thread(index).connections_accepted.one();
            counters.thread(index).request(Protocol::Http2);
        }
        counters.thread(1).connections_closed.one();
        let totals = counters.totals();
        assert_eq!(totals.connections_active(), 3);
        assert_eq!(totals.requests, [0, 0, 4]);
        assert_eq!(std::mem::align_of::<ThreadCounters>(), 128);
    }

    #[test]
    fn odd_statuses_are_counted_somewhere() {
        let counters = Counters::new(1);
        for status in [0, 99, 100, 204, 599, 600, 999, u16::MAX] {
            counters.thread(0).response(status);
        }
        counters.thread(0).bad_request(431);
        counters.thread(0).bad_request(418);
        let totals = counters.totals();
        assert_eq!(totals.responses, [1, 1, 0, 0, 6]);
        assert_eq!(totals.bad_requests.iter().sum::<u64>(), 2);
        assert_eq!(totals.bad_requests[BAD_STATUSES.len()], 1);
    }

    #[test]
    fn a_server_keeps_its_counts_over_a_reload() {
        let counters = Counters::new(1);
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        counters.set_servers(&names(&["a:1", "b:1"]))[1].connects.add(7);
        let after = counters.set_servers(&names(&["b:1", "c:1"]));
        assert_eq!(after[0].connects.total(), 7);
        assert_eq!(after[1].connects.total(), 0);
        assert_eq!(counters.servers().len(), 2);
    }

    #[test]
    fn the_last_fault_is_kept_until_a_reload_works() {
        let counters = Counters::new(1);
        assert_eq!(counters.last_reload(), LastReload::default());
        counters.reloaded(Err(&"é".repeat(FAULT_LEN_MAX)));
        let fault = counters.last_reload().fault.expect("failed");
        assert!(fault.len() <= FAULT_LEN_MAX && fault.ends_with('é'));
        counters.reloaded(Ok(()));
        assert_eq!(counters.last_reload().fault, None);
        assert_eq!((counters.reloads_ok.total(), counters.reloads_failed.total()), (1, 1));
    }
}
