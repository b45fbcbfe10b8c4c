//! What is said of the programs: addresses, switches, counts.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

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

/// Clients that are blocked and that are let in, each for how much longer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// IPv6 by the /64.
    pub blocked: Vec<(IpAddr, Duration)>,
    /// The same.
    pub let_in: Vec<(IpAddr, Duration)>,
}

impl Lists {
    /// What is left of them after a time.
    pub fn after(mut self, passed: Duration) -> Lists {
        for list in [&mut self.blocked, &mut self.let_in] {
            list.iter_mut().for_each(|(_, left)| *left = left.saturating_sub(passed));
            list.retain(|(_, left)| !left.is_zero());
        }
        self
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_list_those_stay_whose_time_is_not_over() {
        let client = |number: u32| IpAddr::from(number.to_be_bytes());
        let of = |seconds: [u64; 2]| {
            let all = seconds.into_iter().zip(1..).filter(|it| it.0 > 0);
            all.map(|(it, number)| (client(number), Duration::from_secs(it))).collect()
        };
        let lists = Lists { blocked: of([5, 6]), let_in: of([7, 4]) };
        let wanted = Lists { blocked: of([0, 1]), let_in: of([2, 0]) };
        assert_eq!(lists.after(Duration::from_secs(5)), wanted);
    }
}
