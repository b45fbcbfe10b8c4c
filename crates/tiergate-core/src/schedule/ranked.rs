//! One of the policies, chosen by the plan. An enum, so that the way of a request has no call through a
//! pointer.

use super::deadline::Deadline;
use super::fifo::Fifo;
use super::fixed::Fixed;
use super::score::ByScore;
use super::shared::Shared;
use super::strict::Strict;
use super::weighted::Weighted;
use super::{Grant, Load, Policy, Scheduler, Terms};
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
    pub(super) fn new(policy: Policy, terms: &[Terms]) -> Self {
        match policy {
            Policy::Strict => Ranked::Strict(Strict::new(terms)),
            Policy::Weighted => Ranked::Weighted(Weighted::new(terms)),
            Policy::Shared => Ranked::Shared(Shared::new(terms)),
            Policy::Fixed => Ranked::Fixed(Fixed::new(terms)),
            Policy::Deadline => Ranked::Deadline(Deadline),
            Policy::Score { ageing } => Ranked::Score(ByScore::new(ageing)),
            Policy::Fifo => Ranked::Fifo(Fifo),
        }
    }
}

impl Scheduler for Ranked {
    fn resume(&mut self, loads: &[Load], slots: f64) {
        each!(self, it => it.resume(loads, slots));
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
