//! What is said of the programs: addresses, switches, counts.

use std::net::SocketAddr;

/// An address that a listener's connections come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Service {
    /// Place of the listener in [`Early::listeners`].
    pub listener: u16,
    /// One address; not that of all.
    pub local: SocketAddr,
}

/// What the program does. All off: every packet passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Police by the rules.
    pub police: bool,
    /// Drop SYNs of blocked clients whose requests the gate never spares.
    pub block: bool,
    /// Drop SYNs of all blocked clients.
    pub block_all: bool,
}

/// What was counted at a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketCounts {
    /// SYNs that got a token.
    pub passed: u64,
    /// Of them, those that got one of the overflow.
    pub overflow: u64,
    /// SYNs that got none.
    pub dropped: u64,
}

/// What was counted in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SynCounts {
    /// SYNs to our listeners while any switch was on.
    pub seen: u64,
    /// Of them, those that passed because the client was let in.
    pub let_in: u64,
    /// Those that were dropped because the client is blocked.
    pub blocked: u64,
}

/// Where connections of a target went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SteerCounts {
    /// To its own listener.
    pub own: u64,
    /// To the listener of all others, since its own was not there.
    pub others: u64,
    /// Where they would have gone without the program, since neither was there.
    pub left: u64,
}

/// How a program gets its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the driver, before the kernel has made a buffer.
    Native,
    /// After that, on any interface.
    Generic,
    /// At the ingress of the interface.
    Ingress,
    /// By rules of nftables, at the ingress of the interface.
    Nftables,
}

impl Way {
    /// As it is written in status and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Way::Native => "native",
            Way::Generic => "generic",
            Way::Ingress => "ingress",
            Way::Nftables => "nftables",
        }
    }
}
