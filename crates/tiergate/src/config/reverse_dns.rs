//! `[reverse_dns]`: names of clients by forward-confirmed reverse DNS.

use super::kind::list;
use super::place::At;
use super::section::{Kind, section};
use super::show;
use super::values::{ADDRESS, TIME, time_up_to, whole};
use std::net::SocketAddr;
use std::time::Duration;

/// Most DNS servers: each look-up may try all.
const SERVERS_MAX: usize = 8;

section! {
    /// Names of clients by forward-confirmed reverse DNS.
    #[derive(PartialEq, Eq)]
    pub struct ReverseDns {
        /// DNS servers, `"127.0.0.1:53"`. Use a resolver on this machine if you can: an attacker who can forge
        /// its answers can forge names.
        servers: Vec<SocketAddr> = list(ADDRESS, SERVERS_MAX, "servers")
            .or_else("must not be empty; leave it out for the system's servers")
            .plain()
            .or_none("those of `/etc/resolv.conf`");
        /// Longest time of a look-up with all its queries; then the client has no name for 10 s.
        /// Why: a resolver that has to ask others answers within a second; a later answer is useless.
        timeout: Duration = time_up_to(30).or("2s");
        /// How many addresses are cached, at 64 bytes each plus the name (at most 253 bytes).
        /// Why: about the clients of a busy site within an hour; 4 MiB, and typically 3 MiB of names (at most
        /// 18).
        entries_max: usize = whole(64..=1 << 24).or(65_536);
        /// Concurrent look-ups; 1024 more wait.
        /// Why: thousands a second with a resolver nearby, and little load for a slow one.
        lookups_max: usize = whole(1..=1024).or(64);
        /// Shortest time for which an answer is cached, whatever its TTL; also applies to negative answers.
        /// Why: shorter TTLs serve load balancing; the name of a client does not change by the second.
        ttl_min: Duration = TIME.or("1m");
        /// Longest time for which an answer is cached, whatever its TTL.
        /// Why: an address that is reassigned keeps its old name for no longer.
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
