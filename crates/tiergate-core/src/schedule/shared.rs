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
use super::strict::Minimums;
use super::{Grant, Load, Scheduler, Terms};
use crate::time::Moment;
use std::time::Duration;

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct Shared {
    shares: Minimums,
    /// `None`: nobody has a reserve, and everything is lent.
    reserves: Option<Reserves>,
}

/// What is kept free for whom.
#[derive(Clone, Debug)]
struct Reserves {
    parts: Vec<f64>,
    balances: Vec<Balance>,
    /// By child: slots that it holds of the pool.
    borrowed: Vec<u32>,
    /// What is in no reserve.
    pool_part: f64,
    pool: Balance,
    pool_held: u32,
    settled: Moment,
}

impl Shared {
    /// A policy for these children, with every balance at zero.
    pub fn new(terms: &[Terms]) -> Self {
        let shares = Minimums::new(terms.iter().map(|terms| terms.share));
        let parts: Vec<f64> = terms.iter().map(|terms| terms.reserve).collect();
        let reserved: f64 = parts.iter().sum();
        let reserves = (reserved > 0.0).then(|| Reserves {
            balances: vec![Balance::default(); parts.len()],
            borrowed: vec![0; parts.len()],
            pool_part: (1.0 - reserved).max(0.0),
            pool: Balance::default(),
            pool_held: 0,
            settled: Moment::ZERO,
            parts,
        });
        Shared { shares, reserves }
    }
}

impl Reserves {
    fn own(&self, child: usize, load: &Load) -> u32 {
        load.running.saturating_sub(self.borrowed[child])
    }

    fn allows_own(&self, child: usize, load: &Load, slots: f64, more: u16) -> bool {
        let own = self.own(child, load);
        self.balances[child].allows(self.parts[child] * slots, own, more)
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
            self.balances[child].pass(seconds, self.parts[child] * slots, own, waits);
            anybody |= waits;
        }
        self.pool.pass(seconds, self.pool_part * slots, self.pool_held, anybody);
    }
}

impl Scheduler for Shared {
    fn resume(&mut self, loads: &[Load], slots: f64) {
        if let Some(reserves) = &mut self.reserves {
            for (child, load) in loads.iter().enumerate() {
                let own = whole(reserves.parts[child] * slots) as u32;
                reserves.borrowed[child] = load.running.saturating_sub(own);
            }
            reserves.pool_held = reserves.borrowed.iter().sum();
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
        self.shares.pick(loads, slots, allows)
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
                reserves.balances[child].allows_in(size, own, more),
                reserves.pool.allows_in(pool, reserves.pool_held, more),
            ]
        });
        times.flatten().min()
    }
}
