//! Every default and every bound of the policy file, each with its reason.
//!
//! A default must be safe in front of a server that nobody has measured: it may neither turn away
//! what the server would have answered nor let a slow or huge client use up the gateway.
//! (What a class has by default stands at [`tiergate_core::class::Class`].)

use super::meant::{Buffering, Forwarding, Limits, Names, Refusal, RefusalConnection, Timeouts};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use tiergate_core::admit::block;
use tiergate_core::admit::session::Bounds;
use tiergate_core::class::Codel;
use tiergate_core::origin::retries::Allowance;

/// Burst of a policer: with 20 Poisson arrivals lose no more than evenly spaced ones, with 5 they do
/// (Voigt D §3.5).
pub const POLICER_BURST: u32 = 20;
/// Flows that a policer tells apart: 2.4 MB, and more clients than are active at once at most sites.
pub const POLICER_FLOWS_MAX: u32 = 100_000;
/// Loopback: nothing is offered to a network that nobody asked for.
pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
/// Loopback: metrics and status name paths and clients. 9090 is where Prometheus users look first.
pub const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9090);
/// Name of the only class where none is given.
pub const CLASS_NAME: &str = "default";
/// Name of the only site where none is given.
pub const SITE_NAME: &str = "default";
/// Points a second that a waiting request gains by score: over the paper's ten points nobody is passed
/// for longer than ten seconds, and of what has the same score the older goes first anyway.
pub const AGEING: f64 = 1.0;
/// CoDel in the words of RFC 8289 §4.3 and §4.2: a queue that stands for a twentieth of the interval is
/// no burst any more. The interval is a round trip on the Internet, as there.
pub const CODEL: Codel =
    Codel { target: Duration::from_millis(5), interval: Duration::from_millis(100) };
/// One failed connect may be chance, three in a row are not.
pub const FAILURES_MAX: u32 = 3;
/// A restarting server is back within seconds; one trial request a second costs nothing.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);
/// As Finagle: a fifth more load does not break what is just coming back, and ten a second let a quiet
/// site's few requests survive a restart of its server.
pub const RETRIES: Allowance = Allowance { share: 0.2, floor: 10 };
/// More retries a second than any origin serves requests: as good as no budget.
pub const RETRIES_FLOOR_MAX: u64 = 1_000_000;
/// More than the slots of nearly every origin: with fewer, requests beyond them open a connection
/// each. What an idle one costs the origin, `timeouts.origin_idle` gives back soon.
pub const IDLE_CONNECTIONS_MAX: usize = 1024;
/// With `fall` 3 a dead server is found in about five seconds.
pub const HEALTH_INTERVAL: Duration = Duration::from_secs(2);
/// A server that needs longer for its health page is not well.
pub const HEALTH_TIMEOUT: Duration = Duration::from_secs(1);
/// As for failures of requests.
pub const HEALTH_FALL: u32 = 3;
/// One success may come from a server that is still starting.
pub const HEALTH_RISE: u32 = 2;

/// How long a session lasts, and how many are kept.
pub const SESSION: Bounds = Bounds {
    // As servlet containers: who comes later has begun something else.
    idle: Duration::from_secs(30 * 60),
    // A working day: a session is no licence to be served first for ever.
    lifetime: Duration::from_secs(12 * 3600),
    // At most 14 MB; what a busy site begins in half an hour at 50 a second.
    sessions_max: 100_000,
    // A browser has 6 connections to a host; over HTTP/2 a page asks for a few dozen things at once.
    at_once_max: 32,
};

/// A delay that people do not notice; a backlog that stands for longer has come to stay (CoDel's
/// interval, RFC 8289 §3.2).
pub const SHED_DELAY: Duration = Duration::from_millis(100);
/// Whoever is shed is told that it may come back, and when.
pub const SHED: RefusalConnection = RefusalConnection::Close;

/// Answer and keep the connection: closing costs four times the refusal (measured), and whoever was
/// refused comes back.
pub const REFUSAL: Refusal = Refusal {
    connection: RefusalConnection::Keep,
    // The shortest that the header can say: the limit is found anew several times a second.
    retry_after: Duration::from_secs(1),
    // Longer than any queue that is served; who is told more goes away, or does not keep to it.
    retry_after_max: Duration::from_secs(30),
    // What is refused and why is the operator's business unless they say otherwise.
    reason_header: None,
    page_html: None,
};

/// When a client is blocked, where the policy has any blocked.
pub const BLOCK: block::Settings = block::Settings {
    // Whoever keeps to `Retry-After` is refused once a second at most; a page's own six or more
    // connections may be refused together once.
    after: 10,
    within: Duration::from_secs(10),
    // The patience of a person who presses the button again.
    lasting: Duration::from_secs(5),
    // As for policers: 2.4 MB.
    flows_max: POLICER_FLOWS_MAX,
};

/// What proxied applications expect: the client's address in the header that everyone reads; two
/// spellings may contradict, so no `Forwarded`. No `Via`, though RFC 9110 §7.6.3 demands it: nginx and
/// others send no compressed answers to whoever says that it is a proxy (docs/adr/0006).
pub const FORWARDING: Forwarding = Forwarding { x_forwarded: true, forwarded: false, via: false };

/// What is kept for a slow client.
pub const BUFFERING: Buffering = Buffering {
    // Forms, and what programs post, fit; files are streamed.
    request_max: 64 << 10,
    // Nearly every page and every answer of an API; what is larger is mostly a file.
    response_max: 256 << 10,
};

/// Most that is kept for one slow client, each way: what is longer is streamed at no loss.
pub const BUFFERING_MAX: u64 = 64 << 20;

/// The bounds where the policy names none.
pub const LIMITS: Limits = Limits {
    // As nginx (4 buffers of 8 KiB): browsers with all their cookies stay below.
    request_head_max: 32 << 10,
    // RFC 9112 §3 asks for at least 8,000.
    target_len_max: 8 << 10,
    // As Apache (100) and HAProxy (101).
    fields_max: 100,
    // Origins set more and longer cookies than clients return at once.
    response_head_max: 64 << 10,
    // What is long is streamed and never kept: a bound is for the origin to set.
    request_body_max: 0,
    // Each may need a second descriptor towards the origin; 16,000 fit below the common hard limit
    // of 20,000 open files. The shell lowers it if the process may open fewer.
    connections_max: 8_000,
    // The least that RFC 9113 §6.5.2 recommends; also the default of nginx's and Apache's kin.
    http2_streams_max: 100,
    // Half of the connections, so that idle WebSockets cannot keep all others out.
    tunnels_max: 4_000,
    // A thousand slow readers, or thousands of slow uploads; affordable on the smallest servers.
    buffers_max: 256 << 20,
};

/// The times where the policy names none.
pub const TIMEOUTS: Timeouts = Timeouts {
    // A head fits a few packets: even with two lost ones on a poor link it takes seconds.
    request_head: Duration::from_secs(10),
    // Between two reads, not for the whole: slow uploads are allowed, stalled ones are not.
    request_body: Duration::from_secs(30),
    // As long as browsers profit from it; an idle connection costs about a KiB.
    idle: Duration::from_secs(60),
    // Two round trips and some arithmetic, on a poor link.
    handshake: Duration::from_secs(10),
    // Two lost packets: TCP tries again after 1 s and 3 s.
    connect: Duration::from_secs(3),
    // As nginx and Apache: reports that take most of a minute exist.
    response_head: Duration::from_secs(60),
    // As nginx. Longer pauses are for WebSockets, or for an operator who knows of a long poll.
    response_body: Duration::from_secs(60),
    // A phone in a tunnel comes back within this time, or not at all.
    write: Duration::from_secs(30),
    // Below the 5 s after which Node.js and Apache close theirs, so that requests seldom meet a
    // connection that is just being closed.
    origin_idle: Duration::from_secs(4),
    // Applications that care send pings at least every minute; this only clears away the dead.
    tunnel_idle: Duration::from_secs(3600),
    // The patience of Kubernetes; systemd waits for 90 s.
    drain: Duration::from_secs(30),
};

/// Names of clients.
pub const NAMES: Names = Names {
    servers: Vec::new(),
    // A resolver that has to ask around answers within a second; what is later is lost.
    timeout: Duration::from_secs(2),
    // Every client of a busy site within an hour. 4 MiB, and the names: at most 18 MiB more, mostly 3.
    entries_max: 65_536,
    // With a resolver nearby, thousands a second; with a slow one, little for it to bear.
    lookups_max: 64,
    // Shorter ones are meant for balancing load; who a client is does not change by the second.
    ttl_min: Duration::from_secs(60),
    // An address that changes hands takes its name along for no longer.
    ttl_max: Duration::from_secs(3600),
};

/// What most interfaces call it.
pub const KEY_HEADER: &str = "x-api-key";
/// RFC 6750 §2.1.
pub const TOKEN_HEADER: &str = "authorization";
/// Clocks that are kept by NTP differ by less; RFC 7519 §4.1.4 speaks of a few minutes at most.
pub const TOKEN_LEEWAY: Duration = Duration::from_secs(60);
/// Most key tables: a request is looked up in each whose header it has.
pub const KEY_TABLES_MAX: usize = 16;

/// Most databases: each request is looked up in each.
pub const GEO_DATABASES_MAX: usize = 4;

/// Most files of revocation lists for a listener: one of each authority, and few sites believe more.
pub const CLIENT_CRLS_MAX: usize = 64;

/// Most DNS servers: each look-up may try all.
pub const NAME_SERVERS_MAX: usize = 8;
/// Longest time of a look-up: nobody who is answered later is still there.
pub const NAMES_TIMEOUT_MAX: Duration = Duration::from_secs(30);

/// One for each processor, because each thread runs without ever blocking; one if that is unknown.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Longest file that is read as a policy: some hundred thousand rules.
pub const FILE_LEN_MAX: u64 = 32 << 20;
/// Longest page that is kept in memory for refusals.
pub const PAGE_LEN_MAX: u64 = 256 << 10;
/// Most listeners: each thread has a socket for each.
pub const LISTENERS_MAX: usize = 64;
/// Most servers of an origin: choosing one looks at each, and a request remembers those it tried.
pub const SERVERS_MAX: usize = tiergate_core::origin::SERVERS_MAX;
/// Most networks in `trusted`: each request of a trusted peer is compared with each.
pub const TRUSTED_MAX: usize = 1024;
/// Most slots: far beyond what any origin works on at once.
pub const SLOTS_MAX: u64 = 1_000_000;
/// Most slots of one request: as many as any origin of which a policy knows the number has.
pub const RULE_SLOTS_MAX: u64 = 10_000;
/// Longest queue of a class: about 2 GiB of waiting connections.
pub const QUEUE_MAX: u64 = 1_000_000;
/// Most threads: beyond any machine's processors.
pub const THREADS_MAX: u64 = 1024;
/// Longest name of a class: it stands in every line of the log and in every metric.
pub const CLASS_NAME_LEN_MAX: usize = 64;
/// Most resources that rules name: each will have a sensor and a controller.
pub const RESOURCES_MAX: usize = 64;
/// Longest time: what is meant to be longer is a mistake in the unit.
pub const TIME_MAX: Duration = Duration::from_secs(24 * 3600);
