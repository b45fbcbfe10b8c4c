//! A policy as meant: every value present, checked, in the type that the rest of the gateway uses.

use crate::geo::Geo;
use crate::tokens::Credentials;
use ipnet::IpNet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tiergate_core::classify::rule::Rule;
use tiergate_core::classify::score::ScoreTables;
use tiergate_core::classify::{Classifier, Match};
use tiergate_core::origin::retries::Allowance;
use tiergate_core::plan::Plan;

pub use crate::secrets::NamedFile;
pub use crate::session::settings::{Recognised, Session};
pub use crate::tokens::settings::{KeyTable, Token};

/// Everything that one configuration says.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Where clients connect.
    pub listeners: Vec<Listener>,
    /// The server behind.
    pub origin: Origin,
    /// Classes and slots; the shell numbers it (`plan.generation`) when it puts it in force.
    pub plan: Plan,
    /// The rules, compiled.
    pub classifier: Classifier,
    /// The rules as they stand in the file, for explanations; a [`Match::rule`] is a place in here.
    ///
    /// [`Match::rule`]: tiergate_core::classify::Match::rule
    pub rules: Vec<PolicyRule>,
    /// The tables that give a score, for explanations; the classifier has them compiled.
    pub score: Option<ScoreTables>,
    /// How sessions are known again; `None`: no request belongs to one.
    pub session: Option<Session>,
    /// What is done with the connection of a request that is shed ([`Plan::shedding`]): not `Keep`.
    pub shed: RefusalConnection,
    /// How refusals look.
    pub refusal: Refusal,
    /// The file that [`Refusal::page_html`] is read from by [`super::load`].
    pub refusal_page: Option<PathBuf>,
    /// The file's text; empty without a file.
    pub text: String,
    /// Peers whose `Forwarded`/`X-Forwarded-For` are believed.
    pub trusted: Vec<IpNet>,
    /// Which forwarding headers the origin gets.
    pub forwarding: Forwarding,
    /// What is kept in memory for slow clients.
    pub buffering: Buffering,
    /// Where metrics and status are served; `None`: nowhere.
    pub admin: Option<SocketAddr>,
    /// Where requests are logged; `None`: nowhere.
    pub access_log: Option<AccessLog>,
    /// Bounds on sizes and numbers.
    pub limits: Limits,
    /// Bounds on time.
    pub timeouts: Timeouts,
    /// Who clients are, beyond their addresses.
    pub identity: Identity,
    /// The secrets of [`Policy::identity`], read by [`super::load`].
    pub credentials: Arc<Credentials>,
    /// The databases of [`Policy::identity`], read by [`super::load`].
    pub geo: Arc<Geo>,
    /// What whoever runs the gateway should know, such as files of secrets that everybody can read.
    pub warnings: Vec<String>,
    /// What of it the rules ask for.
    pub wanted: Wanted,
    /// Threads that serve requests, each with its own runtime and listening sockets.
    pub threads: usize,
}

impl Policy {
    /// The place of the listener at an address; beyond all places if a reload has taken it away.
    pub fn listener_at(&self, address: SocketAddr) -> u16 {
        let place = self.listeners.iter().position(|listener| listener.address == address);
        place.map_or(u16::MAX, |place| place as u16)
    }

    /// The header in which a trusted peer may say how long the request may wait.
    pub fn deadline_header(&self, found: &Match) -> Option<&str> {
        let rule = self.rules.get(found.deadline_header? as usize)?;
        rule.rule.deadline_header.as_deref()
    }
}

/// A rule of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// The line that it begins on, from 1.
    pub line: usize,
    /// What it says.
    pub rule: Rule,
}

/// How the gateway finds out who a client is, beyond its address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Names by reverse DNS.
    pub names: Names,
    /// Tables of keys.
    pub keys: Vec<KeyTable>,
    /// Signed tokens.
    pub token: Option<Token>,
    /// Databases of countries and autonomous systems.
    pub geo: Vec<NamedFile>,
}

/// Names of clients by forward-confirmed reverse DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// DNS servers; none: the system's.
    pub servers: Vec<SocketAddr>,
    /// Longest time of a look-up with all its questions.
    pub timeout: Duration,
    /// Addresses whose names are remembered.
    pub entries_max: usize,
    /// Look-ups at once.
    pub lookups_max: usize,
    /// Shortest time that an answer is believed, whatever it says.
    pub ttl_min: Duration,
    /// Longest time that an answer is believed, whatever it says.
    pub ttl_max: Duration,
}

impl Default for Names {
    fn default() -> Self {
        super::defaults::NAMES
    }
}

/// What rules ask for that costs something to find out; the rest is left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The client's name by reverse DNS.
    pub names: bool,
    /// The code point of the client's packets.
    pub dscp: bool,
}

/// A socket that clients connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Address and port.
    pub address: SocketAddr,
    /// What rules may call it.
    pub name: Option<String>,
    /// Certificates, for HTTPS.
    pub tls: Option<Tls>,
    /// Whether each connection begins with a PROXY protocol header, and from whom it is taken.
    pub proxy_protocol: ProxyProtocol,
    /// Whether HTTP/2 is offered (ALPN under TLS, prior knowledge without).
    pub http2: bool,
}

/// Certificate and key files in PEM; the first whose name matches the client's SNI is used,
/// otherwise the first of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Pairs of certificate chain and private key.
    pub certificates: Vec<(PathBuf, PathBuf)>,
    /// Certificates of clients; `None`: they are not asked for one.
    pub client: Option<ClientAuthority>,
}

/// Who vouches for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuthority {
    /// PEM file of the authorities.
    pub ca: PathBuf,
    /// PEM files of their revocation lists; without any, nobody's certificate is revoked.
    pub revoked: Vec<PathBuf>,
    /// Whether clients without a certificate are served.
    pub certificate: ClientCertificate,
}

/// Whether a client must have a certificate. One that does not verify ends the handshake either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificate {
    /// Clients without are served.
    Optional,
    /// Clients without are not.
    Required,
}

/// The PROXY protocol on a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// Connections begin with the request.
    Off,
    /// Connections from trusted peers must begin with a v1 or v2 header; others are closed.
    Required,
}

/// The server behind: one or several addresses that answer alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// Where the servers listen. Never empty.
    pub servers: Vec<Server>,
    /// Active health checks; `None`: passive ones only.
    pub health: Option<HealthCheck>,
    /// Failures in a row (connect refused, reset, timed out) after which a server is left out.
    pub failures_max: u32,
    /// How long a failed server is left out before one request tries it again.
    pub retry_after: Duration,
    /// How many requests may be sent once more.
    pub retries: Allowance,
    /// Idle connections kept to each server, by each thread.
    pub idle_connections_max: usize,
}

/// One address of the origin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Server {
    /// Host name or address, and port. Names are resolved at start, at reload and when connects fail.
    Tcp(String, u16),
    /// A UNIX socket.
    Unix(PathBuf),
}

/// How servers are asked whether they are well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The path asked for by GET; 2xx and 3xx are healthy.
    pub path: String,
    /// Time between two checks.
    pub interval: Duration,
    /// Longest time that a check may take.
    pub timeout: Duration,
    /// Failures in a row that make a server unhealthy.
    pub fall: u32,
    /// Successes in a row that make it healthy again.
    pub rise: u32,
}

/// How a refusal looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is done with the connection.
    pub connection: RefusalConnection,
    /// The least in `Retry-After`.
    pub retry_after: Duration,
    /// The most, but for half as much at random; not less than `retry_after`.
    pub retry_after_max: Duration,
    /// Name of the response header that carries the reason; `None`: no such header.
    pub reason_header: Option<String>,
    /// HTML body instead of the built-in one; its file is read at start and at reload.
    pub page_html: Option<String>,
}

/// What a refusal does with the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalConnection {
    /// Answer 503 (or 429) and keep it: closing costs four times the refusal.
    Keep,
    /// Answer 503 and close it.
    Close,
    /// Reset it without an answer.
    Reset,
}

/// The forwarding headers added to requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// `X-Forwarded-For`, `-Proto`, `-Host`.
    pub x_forwarded: bool,
    /// `Forwarded` (RFC 7239).
    pub forwarded: bool,
    /// `Via` (RFC 9110 §7.6.3), in requests and responses.
    pub via: bool,
}

/// What is kept in memory for slow clients, so that they hold no slot; all requests together keep at
/// most [`Limits::buffers_max`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffering {
    /// Bytes of a request's body that are read before the request asks for its slot. 0: none.
    pub request_max: usize,
    /// Bytes of an answer that are read ahead of its client. 0: none.
    pub response_max: usize,
}

/// The access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// The file; `None`: standard output.
    pub path: Option<PathBuf>,
    /// How a line looks.
    pub format: LogFormat,
}

/// Format of an access log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// Apache's combined format, with Tiergate's fields appended.
    Combined,
}

/// Bounds on sizes and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request head; more gets 431 (or 414 if the target alone is too long).
    pub request_head_max: usize,
    /// Bytes of a request target; more gets 414.
    pub target_len_max: usize,
    /// Header fields of a message; more gets 431 (origin: 502).
    pub fields_max: usize,
    /// Bytes of an origin's response head; more gets 502.
    pub response_head_max: usize,
    /// Bytes of a request body; more gets 413. 0: no bound.
    pub request_body_max: u64,
    /// Client connections per process; beyond it new ones wait in the listen queue.
    pub connections_max: usize,
    /// Concurrent HTTP/2 streams of a connection.
    pub http2_streams_max: u32,
    /// Upgraded connections (WebSocket) at once.
    pub tunnels_max: usize,
    /// Bytes kept for slow clients by all requests together; beyond it bodies are streamed.
    pub buffers_max: usize,
}

/// Bounds on time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From a request's first byte to the end of its head; then 408.
    pub request_head: Duration,
    /// Between two reads of a request's body; then 408.
    pub request_body: Duration,
    /// A kept-alive client connection without a request; then it is closed.
    pub idle: Duration,
    /// The handshake of TLS and the PROXY header.
    pub handshake: Duration,
    /// Connecting to an origin server; then 504 (or the next server).
    pub connect: Duration,
    /// From the whole request sent to the head of the answer; then 504.
    pub response_head: Duration,
    /// Between two reads of an answer's body; then the connection is cut.
    pub response_body: Duration,
    /// A write that the client does not take; then the connection is cut.
    pub write: Duration,
    /// An idle connection kept to an origin server.
    pub origin_idle: Duration,
    /// A tunnel on which nothing moves.
    pub tunnel_idle: Duration,
    /// From SIGTERM to the end, at most.
    pub drain: Duration,
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Server::Tcp(host, port) if host.contains(':') && !host.starts_with('[') => {
                write!(f, "[{host}]:{port}")
            }
            Server::Tcp(host, port) => write!(f, "{host}:{port}"),
            Server::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
