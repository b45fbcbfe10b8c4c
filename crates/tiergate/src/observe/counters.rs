//! Counters of the gateway itself: connections, requests, responses, bytes.
//!
//! | state | written by | read by |
//! |---|---|---|
//! | [`ThreadCounters`] | the thread that owns the set, relaxed | a scrape, relaxed |
//! | processor time of requests by class | the thread that served one that is measured, under its lock | a scrape, under its lock |
//! | text of the last reload's fault | a reload, under its lock | a scrape, under its lock |
//!
//! A scrape may see a request in one counter and not yet in another; each counter only grows.

use super::answers::{Answers, ThreadAnswers};
use crate::budget::Budget;
use crate::origin::transport::OriginTlsCounters;
use crate::reverse_dns::LookupCounters;
use crate::stored::StoreCounters;
use crate::tally::{Tally, ThreadTally};
use crate::tokens::Proof;
use crate::trace::TraceCounters;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tiergate_core::names::ClassId;

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
    /// HTTP/3.
    Http3,
}

impl Protocol {
    /// Every protocol, in the order of their indices.
    pub const ALL: [Protocol; 4] =
        [Protocol::Http10, Protocol::Http11, Protocol::Http2, Protocol::Http3];

    /// The protocol's name in metrics and logs, as in a request line.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Http10 => "HTTP/1.0",
            Protocol::Http11 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2.0",
            Protocol::Http3 => "HTTP/3.0",
        }
    }
}

/// Statuses of responses to bad requests; any other is counted as `other`.
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
    /// Client connections that could not be accepted: no descriptor was left.
    pub connections_not_accepted: ThreadTally,
    /// Clients over QUIC that were asked to show that their address is theirs.
    pub quic_retries: ThreadTally,
    /// Idle client connections that made room for others.
    pub connections_evicted: ThreadTally,
    /// Client connections that were closed as they came: their clients had others, and none of another's made room.
    pub connections_turned_away: ThreadTally,
    /// Changes of the code point of a client connection's packets.
    pub marks_changed: ThreadTally,
    /// Those that the system refused.
    pub marks_failed: ThreadTally,
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
    /// Connections over HTTP/2, and connections and requests over HTTP/3, that broke the protocol.
    pub protocol_errors: [ThreadTally; 2],
    /// Requests whose head was read whole, by [`Protocol::ALL`].
    pub requests: [ThreadTally; Protocol::ALL.len()],
    /// Responses sent, by [`STATUS_CLASSES`].
    pub responses: [ThreadTally; STATUS_CLASSES.len()],
    /// Requests whose client left before the origin was done, by [`Abandoned::ALL`].
    pub abandoned: [ThreadTally; Abandoned::ALL.len()],
    /// Keys and tokens checked, by [`Proof::ALL`].
    pub credentials: [ThreadTally; Proof::ALL.len()],
    /// Bad requests, by [`BAD_STATUSES`], then the others.
    pub bad_requests: [ThreadTally; BAD_STATUSES.len() + 1],
    /// Answers by class.
    pub answers: ThreadAnswers,
}

impl ThreadCounters {
    /// Counts a request whose head was read whole.
    pub fn request(&self, protocol: Protocol) {
        self.requests[protocol as usize].one();
    }

    /// Counts what broke the rules of HTTP/2 or HTTP/3.
    pub fn protocol_error(&self, protocol: Protocol) {
        self.protocol_errors[usize::from(protocol == Protocol::Http3)].one();
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

/// How a request went on at the origin when its client had left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abandoned {
    /// The origin answered to the end.
    Finished,
    /// The origin closed the connection when we did.
    Stopped,
    /// The connection was closed: at once, or at a bound.
    Cut,
}

impl Abandoned {
    /// All of them.
    pub const ALL: [Abandoned; 3] = [Abandoned::Finished, Abandoned::Stopped, Abandoned::Cut];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Abandoned::Finished => "finished",
            Abandoned::Stopped => "stopped",
            Abandoned::Cut => "cut",
        }
    }
}

/// Why the rest of a body is streamed that was to be spooled, or a spooled body was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpoolFault {
    /// There are as many bytes in files as may be.
    Bytes,
    /// There are as many files as may be.
    Files,
    /// There was no memory for what is on its way to the file.
    Memory,
    /// A file could not be made or written.
    Write,
    /// A file could not be read: its request failed.
    Read,
}

impl SpoolFault {
    /// All of them.
    pub const ALL: [SpoolFault; 5] = [
        SpoolFault::Bytes,
        SpoolFault::Files,
        SpoolFault::Memory,
        SpoolFault::Write,
        SpoolFault::Read,
    ];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            SpoolFault::Bytes => "bytes",
            SpoolFault::Files => "files",
            SpoolFault::Memory => "memory",
            SpoolFault::Write => "write",
            SpoolFault::Read => "read",
        }
    }
}

/// Bodies in files.
#[derive(Debug, Default)]
pub struct SpoolCounters {
    /// Bytes in files, or on their way there.
    pub bytes: Arc<Budget>,
    /// Files.
    pub files: Arc<Budget>,
    /// Requests whose body was written to one.
    pub requests: Tally,
    /// By [`SpoolFault`].
    pub faults: [Tally; SpoolFault::ALL.len()],
}

/// What the access log counts.
#[derive(Debug, Default)]
pub struct LogCounters {
    /// Lines written.
    pub written: Tally,
    /// Lines dropped because the writer could not keep up.
    pub dropped: Tally,
    /// Refused requests that have no line, as the policy has it.
    pub left_out: Tally,
    /// What never became a request and has no line, because there were too many in a second.
    pub bad_left_out: Tally,
    /// Writes or reopens that failed.
    pub errors: Tally,
}

/// Processor time that the gateway spent on requests that were measured, by class. Few are, so that threads may share it.
#[derive(Debug, Default)]
pub struct CpuByClass(Mutex<Vec<Cpu>>);

/// The same of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Requests that were measured.
    pub requests: u64,
    /// What they took together.
    pub time: Duration,
}

impl CpuByClass {
    /// A request of the class took so long.
    pub fn add(&self, class: ClassId, time: Duration) {
        let mut classes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if classes.len() <= class.index() {
            classes.resize_with(class.index() + 1, Cpu::default);
        }
        let of = &mut classes[class.index()];
        of.requests += 1;
        of.time += time;
    }

    /// What was measured of the class.
    pub fn of(&self, class: ClassId) -> Cpu {
        let classes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        classes.get(class.index()).copied().unwrap_or_default()
    }
}

/// Everything the gateway counts outside the gate. One per process, shared.
#[derive(Debug)]
pub struct Counters {
    threads: Box<[ThreadCounters]>,
    /// The access log's counters.
    pub access_log: LogCounters,
    /// Processor time by class.
    pub cpu: CpuByClass,
    /// Memory that buffers bodies for slow clients.
    pub buffered: Arc<Budget>,
    /// Client connections that are open.
    pub connections: Arc<Budget>,
    /// How many there may be, by the configuration in force.
    pub connections_max: AtomicUsize,
    /// Bodies in files.
    pub spool: SpoolCounters,
    /// Copies of answers.
    pub store: Arc<StoreCounters>,
    /// Lookups of clients' names.
    pub reverse_dns: Arc<LookupCounters>,
    /// Retries beyond the retry budget.
    pub retries_denied: Arc<Tally>,
    /// Spans.
    pub traces: Arc<TraceCounters>,
    /// TLS handshakes with origin servers.
    pub origin_tls: Arc<OriginTlsCounters>,
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
            access_log: LogCounters::default(),
            cpu: CpuByClass::default(),
            buffered: Arc::default(),
            connections: Arc::default(),
            connections_max: AtomicUsize::new(0),
            spool: SpoolCounters::default(),
            store: Arc::default(),
            reverse_dns: Arc::default(),
            retries_denied: Arc::default(),
            traces: Arc::default(),
            origin_tls: Arc::default(),
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

    /// A count, summed over all threads.
    pub fn sum(&self, of: impl Fn(&ThreadCounters) -> &ThreadTally) -> u64 {
        self.threads.iter().map(|thread| of(thread).total()).sum()
    }

    /// Counts, each summed over all threads.
    pub fn sums<const N: usize>(
        &self,
        of: impl Fn(&ThreadCounters) -> &[ThreadTally; N],
    ) -> [u64; N] {
        std::array::from_fn(|place| self.sum(|thread| &of(thread)[place]))
    }

    /// The answers of a class, of all threads.
    pub fn answers(&self, class: ClassId) -> Answers {
        let mut all = Answers::default();
        self.threads.iter().for_each(|thread| thread.answers.add_to(&mut all, class));
        all
    }

    /// Open upgraded connections.
    pub fn tunnels_active(&self) -> u64 {
        // Ends before beginnings, which may run ahead meanwhile: the difference is not negative for long.
        let closed = self.sum(|it| &it.tunnels_closed);
        self.sum(|it| &it.tunnels_opened).saturating_sub(closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up_and_do_not_share_lines() {
        let counters = Counters::new(2);
        for index in [0, 1, 0, 1] {
            counters.thread(index).tunnels_opened.one();
            counters.thread(index).request(Protocol::Http2);
        }
        counters.thread(1).tunnels_closed.one();
        assert_eq!(counters.tunnels_active(), 3);
        assert_eq!(counters.sums(|it| &it.requests), [0, 0, 4, 0]);
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
        assert_eq!(counters.sums(|it| &it.responses), [1, 1, 0, 0, 6]);
        let bad = counters.sums(|it| &it.bad_requests);
        assert_eq!(bad.iter().sum::<u64>(), 2);
        assert_eq!(bad[BAD_STATUSES.len()], 1);
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
