//! One of the policies, chosen by the plan. An enum, so that the way of a request has no call through a
//! pointer.

use super::children::Child;
use super::deadline::Deadline;
use super::fifo::Fifo;
use super::fixed::Fixed;
use super::score::ByScore;
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
    Deadline(Deadline),
    Score(ByScore),
    Fifo(Fifo),
}

/// Does the same with whichever it is.
macro_rules! each {
    ($ranked:expr, $it:ident => $does:expr) => {
        match $ranked {
            Ranked::Strict($it) => $does,
            Ranked::Weighted($it) => $does,
            Ranked::Shared($it) => $does,
            Ranked::Fixed($it) => $does,
            Ranked::Deadline($it) => $does,
            Ranked::Score($it) => $does,
            Ranked::Fifo($it) => $does,
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
            Policy::Deadline => Ranked::Deadline(Deadline),
            Policy::Score { ageing } => Ranked::Score(ByScore::new(ageing)),
            Policy::Fifo => Ranked::Fifo(Fifo),
        }
    }

    /// The same state, if `policy` is of the same kind.
    pub(super) fn under(self, policy: Policy) -> Self {
        let new = Ranked::new(policy);
        match std::mem::discriminant(&self) == std::mem::discriminant(&new) {
            // An ageing is all that such a policy keeps.
            true if !matches!(new, Ranked::Score(_)) => self,
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
