//! Servers that have a limit each: which there are, and which may get requests.
//!
//! Where all servers share one limit, the shell chooses a server for each request that has a slot. Where each has its own, a slot is
//! of one server, and the gate chooses: of those with a free slot, the one with the smallest share of its slots in use. So the
//! stronger ones get more, and none gets more than it can take. What the shell finds out about servers it says here.

use super::Gate;
use super::pool::Pool;
use crate::control::{Access, ServerSlots};
use crate::names::{PoolId, ServerId};
use crate::time::Moment;

impl<T> Gate<T> {
    /// Which servers of a pool have a number of slots of their own, whatever the plan says for all; at most one for each. Only where the plan
    /// gives each server a limit of its own. In force from the next [`Gate::reconfigure`] or [`Gate::set_servers`] on: told before a
    /// plan, both are in force at one moment. Nothing for a pool that the gate does not know yet. O(numbers).
    pub fn set_server_slots(&mut self, pool: PoolId, numbers: &[(ServerId, u32)]) {
        if let Some(pool) = self.pools.get_mut(pool.index()) {
            pool.has_new_numbers |= pool.limit.set_numbers(numbers);
        }
    }

    /// The servers of a pool from now on. Those that are new may get requests. Requests in progress at others end there. To be told
    /// when a plan has been put in force, and when names stand for other servers. O(servers).
    pub fn set_servers(&mut self, now: Moment, pool: PoolId, servers: &[ServerId]) {
        let (now, pool, common) = self.at(now, pool);
        if *pool.servers != *servers || pool.has_new_numbers {
            pool.advance(now);
            pool.servers = servers.into();
            pool.set_servers_in_force(now);
            pool.dispatch(common, now);
        }
    }

    /// Which servers of a pool may get requests; to be told some times a second. One that comes back gets its slots back gradually: twice
    /// as many with each round of good answers, all after 10 s. Nothing where they share a limit. O(servers).
    pub fn set_access(&mut self, now: Moment, pool: PoolId, servers: &[(ServerId, Access)]) {
        let (now, pool, common) = self.at(now, pool);
        if pool.limit.has_other_access(now, servers) {
            pool.advance(now);
            pool.limit.set_access(now, servers);
            pool.dispatch(common, now);
        }
    }
}

impl<T> Pool<T> {
    /// Whether each server has a limit of its own.
    pub fn is_per_server(&self) -> bool {
        self.limit.is_per_server()
    }

    /// The servers that have a limit of their own, in the order that the shell named them in.
    pub fn servers(&self) -> impl Iterator<Item = ServerSlots> + '_ {
        self.limit.servers()
    }

    /// Gives each server its limit, or all together theirs. Where the shell has named no servers, they have theirs together.
    pub(super) fn set_servers_in_force(&mut self, now: Moment) {
        self.limit.set_per_server(self.is_per_server && !self.servers.is_empty());
        self.limit.set_servers(now, &self.servers);
        self.has_new_numbers = false;
    }
}
