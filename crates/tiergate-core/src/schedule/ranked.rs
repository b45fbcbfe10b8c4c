//! One of the policies, chosen by the plan. An enum, so that the way of a request has no call through a
//! pointer.

use super::children::Child;
use super::compare::Compare;
use super::fixed::Fixed;
use super::shared::Shared;
use super::strict::Strict;
use super::weighted::Weighted;
use super::{Grant, Load, Policy, Scheduler};
use crate::time::Moment;
use std::time::Duration;

/// A policy in force among some children.
#[derive(Clone, Debug)]
pub(super) enum Ranked {
    Strict(Strict),
    Weighted(Weighted),
    Shared(Shared),
    Fixed(Fixed),
    Compare(Compare),
}

/// Does the same with whichever it is.
macro_rules! each {
    ($ranked:expr, $it:ident => $does:expr) => {
        match $ranked {
            Ranked::Strict($it) => $does,
            Ranked::Weighted($it) => $does,
            Ranked::Shared($it) => $does,
            Ranked::Fixed($it) => $does,
            Ranked::Compare($it) => $does,
        }
    };
}

impl Ranked {
    /// The policy, with no children yet.
    pub(super) fn new(policy: Policy) -> Self {
        match policy {
            Policy::Strict => Ranked::Strict(Strict::default()),
            Policy::Weighted => Ranked::Weighted(Weighted::default()),
            Policy::Shared => Ranked::Shared(Shared::default()),
            Policy::Fixed => Ranked::Fixed(Fixed::default()),
            Policy::Deadline => Ranked::Compare(Compare::Deadline),
            Policy::Score { ageing } => Ranked::Compare(Compare::Score { ageing }),
            Policy::Fifo => Ranked::Compare(Compare::Fifo),
        }
    }

    /// The same state, if `policy` is of the same kind.
    pub(super) fn under(self, policy: Policy) -> Self {
        let new = Ranked::new(policy);
        match std::mem::discriminant(&self) == std::mem::discriminant(&new) {
            // How requests are compared is all that such a policy keeps.
            true if !matches!(new, Ranked::Compare(_)) => self,
            _ => new,
        }
    }
}

impl Scheduler for Ranked {
    fn reconfigure(&mut self, now: Moment, children: &[Child], loads: &[Load], slots: f64) {
        each!(self, it => it.reconfigure(now, children, loads, slots));
    }

    fn advance(&mut self, now: Moment, loads: &[Load], slots: f64) {
        each!(self, it => it.advance(now, loads, slots));
    }

    fn pick(&mut self, loads: &[Load], slots: f64) -> Option<usize> {
        each!(self, it => it.pick(loads, slots))
    }

    fn granted(&mut self, child: usize, loads: &[Load], slots: f64, grant: Grant) {
        each!(self, it => it.granted(child, loads, slots, grant));
    }

    fn finished(&mut self, child: usize, grant: Grant, actual: f64) {
        each!(self, it => it.finished(child, grant, actual));
    }

    fn next_change(&self, loads: &[Load], slots: f64) -> Option<Duration> {
        each!(self, it => it.next_change(loads, slots))
    }
}
