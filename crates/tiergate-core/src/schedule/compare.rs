//! Policies that compare requests, whatever child they belong to: each child offers the request that it
//! would serve next, and the best of these is served. They keep no state: a request's key never changes
//! while it waits.

use super::children::Child;
use super::{Grant, Load, Next, Scheduler};
use crate::time::Moment;
use std::time::Duration;

/// Which of two requests goes first.
pub trait Compare {
    /// Whether `one` goes before `other`.
    fn goes_before(&self, one: &Next, other: &Next) -> bool;
}

impl<C: Compare> Scheduler for C {
    fn reconfigure(&mut self, _now: Moment, _children: &[Child], _loads: &[Load], _slots: f64) {}

    fn advance(&mut self, _now: Moment, _loads: &[Load], _slots: f64) {}

    fn pick(&mut self, loads: &[Load], _slots: f64) -> Option<usize> {
        let mut best: Option<usize> = None;
        for (child, load) in loads.iter().enumerate().filter(|(_, load)| load.waiting > 0) {
            if best.is_none_or(|best| self.goes_before(&load.next, &loads[best].next)) {
                best = Some(child);
            }
        }
        best
    }

    fn granted(&mut self, _child: usize, _loads: &[Load], _slots: f64, _grant: Grant) {}

    fn finished(&mut self, _child: usize, _grant: Grant, _actual: f64) {}

    fn next_change(&self, _loads: &[Load], _slots: f64) -> Option<Duration> {
        None
    }
}
