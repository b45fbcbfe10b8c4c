//! A rate limit for lookups by network: a client with many addresses (an IPv6 client has 2^64 and more)
//! can neither use up the resolver nor fill the cache faster than this.

use foldhash::quality::RandomState;
use std::hash::BuildHasher;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use tiergate_core::time::Moment;

/// Networks are IPv4 /24 and IPv6 /48, the smallest that are routed.
const PREFIX_V4: u32 = 24;
const PREFIX_V6: u32 = 48;

/// Lookups of a network in a burst; a /24 full of crawlers is known within a minute.
const BURST: u64 = 64;

/// Nanoseconds between two more: four a second.
const INTERVAL: u64 = 250_000_000;

/// Cells. Networks of the same cell share its budget; the cell depends on a key of this process, so that
/// a client cannot choose it. 32 KiB.
const CELLS: usize = 4096;

/// A token bucket for each network, as the moment when it is full again (GCRA). No lock.
#[derive(Debug)]
pub(super) struct Budget {
    full_at: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl Budget {
    pub(super) fn new() -> Self {
        let full_at = (0..CELLS).map(|_| AtomicU64::new(0)).collect();
        Budget { full_at, hasher: RandomState::default() }
    }

    /// Takes one lookup from the budget of the address's network; `false`: it is used up.
    pub(super) fn take(&self, address: Ipv6Addr, now: Moment) -> bool {
        let cell = self.hasher.hash_one(network(address)) as usize % CELLS;
        let now = now.nanos();
        let take = |full_at: u64| {
            let next = full_at.max(now) + INTERVAL;
            (next - now <= BURST * INTERVAL).then_some(next)
        };
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.full_at[cell].fetch_update(set, fetch, take).is_ok()
    }
}

fn network(address: Ipv6Addr) -> u128 {
    let bits = u128::from(address);
    let host = match address.to_ipv4_mapped() {
        Some(_) => 32 - PREFIX_V4,
        None => 128 - PREFIX_V6,
    };
    bits >> host << host
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_network_has_its_burst_and_then_its_rate() {
        let budget = Budget::new();
        let address = |number: u128| Ipv6Addr::from((0x2001_0db8_u128 << 96) + number);
        // A /48 has 2^80 addresses, and it is all one.
        let taken = (0..10_000u128).filter(|it| budget.take(address(it << 60), Moment::ZERO));
        assert_eq!(taken.count() as u64, BURST);
        let later = Moment::from_millis(10_000);
        let taken = (0..10_000u128).filter(|it| budget.take(address(*it), later)).count();
        assert_eq!(taken, 40);
    }

    #[test]
    fn networks_have_each_their_own() {
        let v4 = |a, b, c, d| Ipv4Addr::new(a, b, c, d).to_ipv6_mapped();
        assert_eq!(network(v4(192, 0, 2, 1)), network(v4(192, 0, 2, 254)));
        assert_ne!(network(v4(192, 0, 2, 1)), network(v4(192, 0, 3, 1)));
        let budget = Budget::new();
        let all = (0..256u32).filter(|it| {
            let address = v4(10, 0, *it as u8, 1);
            (0..BURST).all(|_| budget.take(address, Moment::ZERO))
        });
        // A few share a cell.
        assert!(all.count() > 200);
    }
}
