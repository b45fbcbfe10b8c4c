//! The faults: what happens to the gateway, its clients and its origin.

use super::origin::Say;
use std::fmt::{self, Display};
use std::time::Duration;

/// How many origin servers there are.
pub(super) const SERVERS: usize = 3;

/// One fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fault {
    /// Clients of the basic class that ask far more than the origin can answer.
    Burst { clients: usize },
    /// Requests of the basic class that the origin answers wrongly, late or not at all.
    FaultyAnswers { clients: usize },
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
    /// A signal without a meaning (SIGWINCH).
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

impl Fault {
    /// The origin server that is out of order meanwhile.
    pub(super) fn servers(self) -> Vec<usize> {
        match self {
            Fault::ServerKilled { server }
            | Fault::ServerStopped { server }
            | Fault::ServerWrong { server, .. } => vec![server],
            Fault::AllServersOut { .. } => (0..SERVERS).collect(),
            _ => Vec::new(),
        }
    }

    /// The kind alone, for tables.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Fault::Burst { .. } => "burst of basic requests",
            Fault::FaultyAnswers { .. } => "faulty answers",
            Fault::SlowHeads { .. } => "slow request heads",
            Fault::SlowBodies { .. } => "slow request bodies",
            Fault::SlowReaders { .. } => "slow readers",
            Fault::Leavers { .. } => "clients that leave",
            Fault::Malformed { .. } => "malformed requests",
            Fault::IdleConnections { .. } => "idle connections",
            Fault::TinyWindows { .. } => "HTTP/2 one-byte windows",
            Fault::ResetFlood { .. } => "HTTP/2 reset flood",
            Fault::ServerKilled { .. } => "server killed",
            Fault::ServerStopped { .. } => "server stopped",
            Fault::ServerWrong { .. } => "server answers wrongly",
            Fault::AllServersOut { .. } => "all servers out",
            Fault::Reloads { .. } => "reloads",
            Fault::LogReopened { .. } => "log reopened",
            Fault::Signals { .. } => "signals",
            Fault::FullDisk => "full disk",
            Fault::ClockStep { .. } => "clock step",
            Fault::GatewayPaused { .. } => "gateway paused",
            Fault::FewDescriptors { .. } => "no descriptors left",
        }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind())?;
        match *self {
            Fault::Burst { clients }
            | Fault::FaultyAnswers { clients }
            | Fault::SlowHeads { clients }
            | Fault::SlowBodies { clients }
            | Fault::SlowReaders { clients }
            | Fault::Leavers { clients }
            | Fault::Malformed { clients }
            | Fault::TinyWindows { clients }
            | Fault::ResetFlood { clients } => write!(f, ": {clients} clients"),
            Fault::IdleConnections { connections } => write!(f, ": {connections}"),
            Fault::ServerKilled { server } | Fault::ServerStopped { server } => {
                write!(f, ": server {}", server + 1)
            }
            Fault::ServerWrong { server, say } => {
                write!(f, ": server {} ({})", server + 1, say.name())
            }
            Fault::AllServersOut { killed } => {
                write!(f, ": {}", if killed { "killed" } else { "stopped" })
            }
            Fault::Reloads { count } | Fault::LogReopened { count } | Fault::Signals { count } => {
                write!(f, ": {count}")
            }
            Fault::FullDisk => Ok(()),
            Fault::ClockStep { seconds } => write!(f, ": {seconds:+} s"),
            Fault::GatewayPaused { millis } => write!(f, ": {millis} ms"),
            Fault::FewDescriptors { spare } => write!(f, ": {spare} to spare"),
        }
    }
}

/// A fault and its time, from the beginning of its phase.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Event {
    pub(super) at: Duration,
    pub(super) lasting: Duration,
    pub(super) fault: Fault,
    /// Seed of the choices made while it lasts.
    pub(super) seed: u64,
}
