//! Shared capacity: each child has its share of the slots; what one does not use is lent to the others,
//! except its reserve, which stays free for it.
//!
//! The slots are parted into the reserves and a pool of all others. A child takes its own reserve first
//! and then from the pool, where one below its share goes before all that are above theirs, and the more
//! important first among equals ([`super::strict`] with shares for minimums). Nobody takes another's
//! reserve: slots may stay free although somebody waits. What is not a whole number of slots is kept
//! over time ([`super::balance`]), in the reserves and in the pool alike. With no reserves nothing is
//! ever kept free.
//!
//! Source: WebQoS §4.4 ("any non-used capacity can be given to another class. The class may also have
//! a minimum reserve capacity that cannot be assigned to another class").

use super::balance::{Balance, whole};
use super::children::{Child, States};
use super::strict::Strict;
use super::{Grant, Load, Scheduler};
use crate::time::Moment;
use std::time::Duration;

/// The state of the policy.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared {
    shares: Strict,
    /// `None`: nobody has a reserve, and everything is lent.
    reserves: Option<Reserves>,
}

/// What is kept free for whom.
#[derive(Clone, Debug, Default)]
struct Reserves {
    parts: Vec<f64>,
    balances: States<Balance>,
    /// By child: slots that it holds of the pool.
    borrowed: Vec<u32>,
    /// What is in no reserve.
    pool_part: f64,
    pool: Balance,
    pool_held: u32,
    settled: Moment,
}

impl Reserves {
    /// Puts a plan's reserves in force among requests that hold slots: what a child holds beyond its
    /// reserve, it holds of the pool.
    fn reconfigure(&mut self, now: Moment, children: &[Child], loads: &[Load], slots: f64) {
        self.settled = now;
        self.balances.reconfigure(children);
        self.parts = children.iter().map(|child| child.terms.reserve).collect();
        self.pool_part = (1.0 - self.parts.iter().sum::<f64>()).max(0.0);
        let held = self.parts.iter().zip(loads);
        let borrowed =
            |(part, load): (&f64, &Load)| load.running.saturating_sub(whole(part * slots) as u32);
        self.borrowed = held.map(borrowed).collect();
        self.pool_held = self.borrowed.iter().sum();
    }

    fn own(&self, child: usize, load: &Load) -> u32 {
        load.running.saturating_sub(self.borrowed[child])
    }

    fn allows_own(&self, child: usize, load: &Load, slots: f64, more: u16) -> bool {
        let own = self.own(child, load);
        self.balances.all()[child].allows(self.parts[child] * slots, own, more)
    }

    fn allows(&self, child: usize, load: &Load, slots: f64) -> bool {
        let more = load.next.slots;
        self.allows_own(child, load, slots, more)
            || self.pool.allows(self.pool_part * slots, self.pool_held, more)
    }

    fn advance(&mut self, now: Moment, loads: &[Load], slots: f64) {
        let seconds = now.since(self.settled).as_secs_f64();
        self.settled = now;
        let mut anybody = false;
        for (child, load) in loads.iter().enumerate() {
            let (own, waits) = (self.own(child, load), load.waiting > 0);
            self.balances.all_mut()[child].pass(seconds, self.parts[child] * slots, own, waits);
            anybody |= waits;
        }
        self.pool.pass(seconds, self.pool_part * slots, self.pool_held, anybody);
    }
}

impl Scheduler for Shared {
    fn reconfigure(&mut self, now: Moment, children: &[Child], loads: &[Load], slots: f64) {
        let shares = children.iter().map(|child| child.terms.share);
        self.shares.put_in_force(now, children, shares.collect());
        let reserved: f64 = children.iter().map(|child| child.terms.reserve).sum();
        match &mut self.reserves {
            _ if reserved <= 0.0 => self.reserves = None,
            reserves => reserves.get_or_insert_default().reconfigure(now, children, loads, slots),
        }
    }

    fn advance(&mut self, now: Moment, loads: &[Load], slots: f64) {
        self.shares.advance(now, loads, slots);
        if let Some(reserves) = &mut self.reserves {
            reserves.advance(now, loads, slots);
        }
    }

    fn pick(&mut self, loads: &[Load], slots: f64) -> Option<usize> {
        let reserves = self.reserves.as_ref();
        let allows = |child| reserves.is_none_or(|it| it.allows(child, &loads[child], slots));
        self.shares.pick_eligible(loads, slots, allows)
    }

    fn granted(&mut self, child: usize, loads: &[Load], slots: f64, grant: Grant) {
        if let Some(reserves) = &mut self.reserves
            && !reserves.allows_own(child, &loads[child], slots, grant.slots)
        {
            reserves.borrowed[child] += u32::from(grant.slots);
            reserves.pool_held += u32::from(grant.slots);
        }
    }

    fn finished(&mut self, child: usize, grant: Grant, _actual: f64) {
        if let Some(reserves) = &mut self.reserves {
            // What is borrowed goes back first, so that others find the pool as full as can be.
            let back = reserves.borrowed[child].min(u32::from(grant.slots));
            reserves.borrowed[child] -= back;
            reserves.pool_held -= back;
        }
    }

    fn next_change(&self, loads: &[Load], slots: f64) -> Option<Duration> {
        let reserves = self.reserves.as_ref()?;
        let waiting = loads.iter().enumerate().filter(|(_, load)| load.waiting > 0);
        let barred = waiting.filter(|&(child, load)| !reserves.allows(child, load, slots));
        let times = barred.flat_map(|(child, load)| {
            let more = load.next.slots;
            let (own, size) = (reserves.own(child, load), reserves.parts[child] * slots);
            let pool = reserves.pool_part * slots;
            [
                reserves.balances.all()[child].allows_in(size, own, more),
                reserves.pool.allows_in(pool, reserves.pool_held, more),
            ]
        });
        times.flatten().min()
    }
}
