//! Fixed capacity: each child has its share of the slots and never more, whoever waits and whatever is
//! free.
//!
//! A share's whole slots are kept by counting, its fraction over time ([`super::balance`]): over any
//! stretch of time a child holds at most its share, what it saved up while it waited for others
//! (one slot-second), and one request. A share below one slot is one slot for part of the time. Of
//! several children that may have the fraction of a slot now, the one that is owed most slot time goes
//! first; slots therefore stay free although somebody waits.
//!
//! Source: WebQoS §4.4 ("a fixed capacity that cannot be shared with another class").

use super::balance::{Balance, is_whole};
use super::children::{Child, States};
use super::{Load, Scheduler};
use crate::time::Moment;
use std::time::Duration;

/// The state of the policy.
#[derive(Clone, Debug, Default)]
pub(super) struct Fixed {
    shares: Vec<f64>,
    balances: States<Balance>,
    settled: Moment,
}

impl Scheduler for Fixed {
    fn reconfigure(&mut self, now: Moment, children: &[Child], _loads: &[Load], _slots: f64) {
        self.settled = now;
        self.balances.reconfigure(children);
        self.shares = children.iter().map(|child| child.terms.share).collect();
    }

    fn advance(&mut self, now: Moment, loads: &[Load], slots: f64) {
        let seconds = now.since(self.settled).as_secs_f64();
        self.settled = now;
        let balances = self.balances.all_mut().iter_mut();
        for ((balance, share), load) in balances.zip(&self.shares).zip(loads) {
            balance.pass(seconds, share * slots, load.running, load.waiting > 0);
        }
    }

    fn pick(&mut self, loads: &[Load], slots: f64) -> Option<usize> {
        let mut best: Option<(usize, f64)> = None;
        for (child, load) in loads.iter().enumerate() {
            let (size, balance) = (self.shares[child] * slots, self.balances.all()[child]);
            if load.waiting == 0 || !balance.allows(size, load.running, load.next.slots) {
                continue;
            }
            if is_whole(size, load.running, load.next.slots) {
                return Some(child);
            }
            if best.is_none_or(|(_, most)| balance.seconds() > most) {
                best = Some((child, balance.seconds()));
            }
        }
        best.map(|(child, _)| child)
    }

    fn next_change(&self, loads: &[Load], slots: f64) -> Option<Duration> {
        let waiting = loads.iter().enumerate().filter(|(_, load)| load.waiting > 0);
        let times = waiting.filter_map(|(child, load)| {
            let (size, balance) = (self.shares[child] * slots, self.balances.all()[child]);
            match balance.allows(size, load.running, load.next.slots) {
                true => None,
                false => balance.allows_in(size, load.running, load.next.slots),
            }
        });
        times.min()
    }
}
