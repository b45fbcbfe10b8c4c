//! The troubles: what happens to the gateway, its clients and its origin.

use super::origin::Say;
use std::fmt::{self, Display};
use std::time::Duration;

/// How many origin servers there are.
pub(super) const SERVERS: usize = 3;

/// One trouble.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Trouble {
    /// Clients of the basic class that ask far more than the origin can answer.
    Burst { clients: usize },
    /// Requests of the basic class that the origin answers wrongly, late or not at all.
    OriginFaults { clients: usize },
    /// Clients that send a head byte by byte.
    SlowHeads { clients: usize },
    /// Clients that send a body byte by byte.
    SlowBodies { clients: usize },
    /// Clients that read a large answer slowly.
    SlowReaders { clients: usize },
    /// Clients that leave at any moment, with requests in progress.
    Leavers { clients: usize },
    /// Malformed and ambiguous requests, giant heads, other protocols.
    Malformed { clients: usize },
    /// Connections that are opened and left idle, more than the gateway accepts.
    IdleConnections { connections: usize },
    /// HTTP/2 clients that take one byte at a time.
    TinyWindows { clients: usize },
    /// HTTP/2 clients that cancel what they have just asked.
    ResetFlood { clients: usize },
    /// An origin server is killed, and started again at the end.
    ServerKilled { server: usize },
    /// An origin server stops running (SIGSTOP).
    ServerStopped { server: usize },
    /// An origin server answers everything in one wrong way.
    ServerWrong { server: usize, say: Say },
    /// All origin servers stop running, or are killed.
    AllServersOut { killed: bool },
    /// The policy is reloaded, with good and bad policies.
    Reloads { count: usize },
    /// The access log is moved and reopened (SIGUSR1).
    LogReopened { count: usize },
    /// A signal without a meaning (SIGUSR2).
    Signals { count: usize },
    /// The access log's disk is full.
    FullDisk,
    /// The wall clock is wrong by so many seconds, and right again at the end.
    ClockStep { seconds: i64 },
    /// The gateway does not run for a moment (SIGSTOP).
    GatewayPaused { millis: u64 },
    /// The gateway may open no further files.
    FewDescriptors { spare: u64 },
}

impl Trouble {
    /// The origin server that is out of order meanwhile.
    pub(super) fn servers(self) -> Vec<usize> {
        match self {
            Trouble::ServerKilled { server }
            | Trouble::ServerStopped { server }
            | Trouble::ServerWrong { server, .. } => vec![server],
            Trouble::AllServersOut { .. } => (0..SERVERS).collect(),
            _ => Vec::new(),
        }
    }

    /// The kind alone, for tables.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Trouble::Burst { .. } => "burst of basic requests",
            Trouble::OriginFaults { .. } => "faulty answers",
            Trouble::SlowHeads { .. } => "slow request heads",
            Trouble::SlowBodies { .. } => "slow request bodies",
            Trouble::SlowReaders { .. } => "slow readers",
            Trouble::Leavers { .. } => "clients that leave",
            Trouble::Malformed { .. } => "malformed requests",
            Trouble::IdleConnections { .. } => "idle connections",
            Trouble::TinyWindows { .. } => "HTTP/2 one-byte windows",
            Trouble::ResetFlood { .. } => "HTTP/2 reset flood",
            Trouble::ServerKilled { .. } => "server killed",
            Trouble::ServerStopped { .. } => "server stopped",
            Trouble::ServerWrong { .. } => "server answers wrongly",
            Trouble::AllServersOut { .. } => "all servers out",
            Trouble::Reloads { .. } => "reloads",
            Trouble::LogReopened { .. } => "log reopened",
            Trouble::Signals { .. } => "signals",
            Trouble::FullDisk => "full disk",
            Trouble::ClockStep { .. } => "clock step",
            Trouble::GatewayPaused { .. } => "gateway paused",
            Trouble::FewDescriptors { .. } => "no descriptors left",
        }
    }
}

impl Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind())?;
        match *self {
            Trouble::Burst { clients }
            | Trouble::OriginFaults { clients }
            | Trouble::SlowHeads { clients }
            | Trouble::SlowBodies { clients }
            | Trouble::SlowReaders { clients }
            | Trouble::Leavers { clients }
            | Trouble::Malformed { clients }
            | Trouble::TinyWindows { clients }
            | Trouble::ResetFlood { clients } => write!(f, ": {clients} clients"),
            Trouble::IdleConnections { connections } => write!(f, ": {connections}"),
            Trouble::ServerKilled { server } | Trouble::ServerStopped { server } => {
                write!(f, ": server {}", server + 1)
            }
            Trouble::ServerWrong { server, say } => {
                write!(f, ": server {} ({})", server + 1, say.name())
            }
            Trouble::AllServersOut { killed } => {
                write!(f, ": {}", if killed { "killed" } else { "stopped" })
            }
            Trouble::Reloads { count }
            | Trouble::LogReopened { count }
            | Trouble::Signals { count } => write!(f, ": {count}"),
            Trouble::FullDisk => Ok(()),
            Trouble::ClockStep { seconds } => write!(f, ": {seconds:+} s"),
            Trouble::GatewayPaused { millis } => write!(f, ": {millis} ms"),
            Trouble::FewDescriptors { spare } => write!(f, ": {spare} to spare"),
        }
    }
}

/// A trouble and its time, from the beginning of its phase.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Event {
    pub(super) at: Duration,
    pub(super) lasting: Duration,
    pub(super) trouble: Trouble,
    /// Seed of the choices made while it lasts.
    pub(super) seed: u64,
}
