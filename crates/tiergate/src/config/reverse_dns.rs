//! `[reverse_dns]`: names of clients by forward-confirmed reverse DNS.

use super::kind::list;
use super::place::At;
use super::section::{Kind, section};
use super::show;
use super::values::{ADDRESS, TIME, whole};
use std::net::SocketAddr;
use std::time::Duration;

/// Most DNS servers: each look-up may try all.
const SERVERS_MAX: usize = 8;

section! {
    /// Names of clients by forward-confirmed reverse DNS.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ReverseDns {
        /// DNS servers, `"127.0.0.1:53"`. A resolver on this machine is best: whatever can forge its answers
        /// can forge names.
        servers: Vec<SocketAddr> = list(ADDRESS, SERVERS_MAX, "servers")
            .or_else("must not be empty; leave it out for the system's servers")
            .plain()
            .or_none("those of `/etc/resolv.conf`");
        /// Longest time of a look-up with all its queries; then there is no name for 10 s.
        /// Why: a resolver that has to ask others answers within a second; a later answer is useless.
        timeout: Duration = TIME.up_to(30).or("2s");
        /// Addresses that are remembered: 64 bytes each, and the name (at most 253 bytes).
        /// Why: every client of a busy site within an hour. 4 MiB, and the names: at most 18 MiB more,
        /// mostly 3.
        entries_max: usize = whole(64..=1 << 24).or(65_536);
        /// Concurrent look-ups; 1024 more wait.
        /// Why: with a resolver nearby, thousands a second; little load for a slow one.
        lookups_max: usize = whole(1..=1024).or(64);
        /// Shortest time that an answer is cached, whatever its own TTL; also that there is no name.
        /// Why: shorter ones are meant for balancing load; a client's name does not change by the second.
        ttl_min: Duration = TIME.or("1m");
        /// Longest time that an answer is cached, whatever its own TTL.
        /// Why: an address that changes hands keeps its name for no longer.
        ttl_max: Duration = TIME.or("1h");
    }
}

pub(super) fn reverse_dns(At { value: settings, place }: At<ReverseDns>) -> ReverseDns {
    let ReverseDns { ttl_min, ttl_max, .. } = settings;
    if ttl_min > ttl_max {
        let [min, max] = [ttl_min, ttl_max].map(show::time);
        let at = if place.has("ttl_min") { "ttl_min" } else { "ttl_max" };
        place.fault_at(at, format!("ttl_min, \"{min}\", must be at most ttl_max, \"{max}\""));
    }
    settings
}
