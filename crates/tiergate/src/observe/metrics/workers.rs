//! Metrics of the processes that serve pools.

use super::Readings;
use super::page::Page;
use crate::workers::status::WorkersStatus;

impl Readings<'_> {
    /// Nothing where the policy names no processes.
    pub(super) fn workers(&self, page: &mut Page) {
        if self.workers.is_empty() {
            return;
        }
        let pool = |it: &WorkersStatus| match it.pool.is_empty() {
            true => "default".to_owned(),
            false => it.pool.clone(),
        };
        let mut gauge = |name: &str, help: &str, number: fn(&WorkersStatus) -> u32| {
            let rows = self.workers.iter().map(|it| ([("pool", pool(it))], number(it)));
            page.gauge(name, help).each(rows);
        };
        gauge(
            "workers_wanted",
            "Processes that the policy asks for; 0: those that there are",
            |it| it.wanted,
        );
        gauge("workers_alive", "Processes that serve the pool", |it| it.alive);
        gauge(
            "workers_ready",
            "Those that the gateway started and that accept connections",
            |it| it.ready,
        );
        page.counter("worker_restarts_total", "Processes started again after they had ended")
            .each(self.workers.iter().map(|it| ([("pool", pool(it))], it.restarts)));
        let shares = self.workers.iter().flat_map(|it| {
            let row = |share| (pool(it), share);
            it.shares.iter().map(row)
        });
        let about = "Whether the processes have what the policy says (1) or cannot get it (0)";
        page.gauge("workers_share_in_force", about).each(shares.map(|(pool, share)| {
            ([("pool", pool), ("share", share.name.clone())], u32::from(share.in_force))
        }));
    }
}
