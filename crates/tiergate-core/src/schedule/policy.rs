//! The policies: which there are, and one of them in force. An enum, so that the way of a request has no
//! call through a pointer.

use super::children::Child;
use super::compare::Compare;
use super::fixed::Fixed;
use super::shared::Shared;
use super::strict::Strict;
use super::weighted::Weighted;
use super::{Grant, Load, Scheduler, Terms};
use crate::time::Moment;
use std::time::Duration;

/// Which of several classes, or sites, gets the next slot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Policy {
    /// The most important that waits; but each is sure of its minimum, which is lent while it is not used.
    #[default]
    Strict,
    /// Slots in proportion to weights, counted in work: start-time fair queueing.
    Weighted,
    /// Each has its share; what one does not use is lent, except its reserve (WebQoS §4.4).
    Shared,
    /// Each has its share and never more (WebQoS §4.4).
    Fixed,
    /// The request of the earliest deadline, whatever its class.
    Deadline,
    /// The request of the highest score, whatever its class; a request gains `ageing` points a second
    /// while it waits (0: it may wait until its deadline).
    Score {
        /// Points a second.
        ageing: f64,
    },
    /// The request that came first, whatever its class. What other policies are compared with.
    Fifo,
}

impl Policy {
    /// Whether it shares slots out by [`Terms::share`].
    pub const fn is_by_share(self) -> bool {
        matches!(self, Policy::Shared | Policy::Fixed)
    }

    /// Whether it compares single requests, whatever their class.
    pub const fn compares(self) -> bool {
        matches!(self, Policy::Deadline | Policy::Score { .. } | Policy::Fifo)
    }

    /// The part of the slots that a child of these terms is sure of.
    pub const fn sure(self, terms: &Terms) -> f64 {
        match self {
            Policy::Strict => terms.minimum,
            Policy::Shared | Policy::Fixed => terms.share,
            Policy::Weighted | Policy::Deadline | Policy::Score { .. } | Policy::Fifo => 0.0,
        }
    }
}

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

    /// The part of a child by weight among those that have requests; 0.0 if weights do not decide.
    pub(super) fn part(&self, child: usize, has_any: impl Fn(usize) -> bool) -> f64 {
        match self {
            Ranked::Weighted(weighted) => weighted.part(child, has_any),
            _ => 0.0,
        }
    }

    /// The part of a child in the places for waiting, beside what it is sure of: by weight; none by importance, where
    /// the more important takes what it needs; else as much as each other that has requests.
    pub(super) fn places(
        &self,
        child: usize,
        children: usize,
        has_any: impl Fn(usize) -> bool,
    ) -> f64 {
        match self {
            Ranked::Strict(_) => 0.0,
            Ranked::Weighted(weighted) => weighted.part(child, has_any),
            _ => equal_part(children, has_any),
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

/// The part of each of so many that have requests.
pub(super) fn equal_part(children: usize, has_any: impl Fn(usize) -> bool) -> f64 {
    1.0 / (0..children).filter(|child| has_any(*child)).count().max(1) as f64
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
