//! Strict priority with minimum shares: the most important child that has requests waiting is
//! served first, except that one below its minimum goes before all that are above theirs.
//!
//! A child below the whole part of its minimum is owed a slot before all that are owed a part of one. The
//! fraction is kept by an account of slot
//! time (as in [`super::balance`]): while others wait too, the child earns its minimum and pays for what
//! it holds; with a positive balance it is owed one more. What a child does not claim is lent, and comes
//! back with the next slot that any request frees: within one service time. With no minimums it is
//! plain strict priority, and has nothing to keep.
//!
//! Source: WebQoS §4.4 (strict priority; shared capacity's reserve). The fraction is ours.

use super::balance::{BALANCE_MAX, BALANCE_MIN, rounded_up, whole};
use super::children::{Child, States};
use super::{Load, Scheduler};
use crate::time::Moment;

/// The state of the policy: what each child is sure of, and its balance of slot time.
#[derive(Clone, Debug, Default)]
pub(super) struct Strict {
    shares: Vec<f64>,
    balances: States<f64>,
    /// Whether any child is sure of anything.
    any: bool,
    settled: Moment,
}

impl Scheduler for Strict {
    fn reconfigure(&mut self, now: Moment, children: &[Child], _loads: &[Load], _slots: f64) {
        let minimums = children.iter().map(|child| child.terms.minimum);
        self.put_in_force(now, children, minimums.collect());
    }

    fn advance(&mut self, now: Moment, loads: &[Load], slots: f64) {
        if !self.any {
            return;
        }
        let elapsed = now.since(self.settled).as_secs_f64();
        self.settled = now;
        let waiting = loads.iter().filter(|load| load.waiting > 0).count();
        let balances = self.balances.all_mut().iter_mut();
        for ((balance, &share), load) in balances.zip(&self.shares).zip(loads) {
            if share == 0.0 {
                continue;
            }
            let others_wait = waiting > usize::from(load.waiting > 0);
            let owed = share * slots;
            // Nobody else wants the slots that it holds: they cost it nothing.
            let held =
                if others_wait { f64::from(load.running).min(rounded_up(owed)) } else { 0.0 };
            let highest = match load.waiting {
                // A class that asks for nothing saves nothing up; what it owes, it goes on owing.
                0 => 0.0,
                _ if others_wait => BALANCE_MAX,
                // Alone it waits for no other class, so it earns no more than it has.
                _ => balance.max(0.0),
            };
            *balance = (*balance + (owed - held) * elapsed).clamp(BALANCE_MIN, highest);
        }
    }

    fn pick(&mut self, loads: &[Load], slots: f64) -> Option<usize> {
        self.pick_eligible(loads, slots, |_| true)
    }
}

impl Strict {
    /// Puts a plan's children in force, with the shares that they are sure of.
    pub(super) fn put_in_force(&mut self, now: Moment, children: &[Child], shares: Vec<f64>) {
        self.settled = now;
        self.balances.reconfigure(children);
        self.shares = shares;
        self.any = self.shares.iter().any(|&share| share > 0.0);
    }

    /// The first below the whole part of its minimum, or else the first that is owed the fraction, or else
    /// the first; of those that wait and are eligible.
    pub(super) fn pick_eligible(
        &self,
        loads: &[Load],
        slots: f64,
        is_eligible: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut waiting = loads
            .iter()
            .enumerate()
            .filter(|&(child, load)| load.waiting > 0 && is_eligible(child));
        if !self.any {
            return waiting.next().map(|(child, _)| child);
        }
        let (mut owed_part, mut first) = (None, None);
        for (child, load) in waiting {
            let owed = self.shares[child] * slots;
            let running = f64::from(load.running);
            if running < whole(owed) {
                return Some(child);
            }
            if owed_part.is_none() && self.balances.all()[child] > 0.0 && running < rounded_up(owed)
            {
                owed_part = Some(child);
            }
            first = first.or(Some(child));
        }
        owed_part.or(first)
    }
}
