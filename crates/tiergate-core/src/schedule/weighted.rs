//! Weighted: work in proportion to weights, among those that wait.
//!
//! Start-time fair queueing with several in service, SFQ(D). Each child has a finish tag: what it has
//! been served, over its weight, on one virtual clock. Its next request's start tag is that, or the
//! virtual time at which it began to wait if that is later; the smallest start tag is served next, and
//! is then the virtual time. A request is charged with what it is expected to cost when it gets its slot,
//! and the charge is put right when it ends and what it cost is known: what holds is work, not counts.
//!
//! While two children wait all the time, what they were served, over their weights, differs by no more
//! than `(D + 1)` times their costliest requests over their weights, `D` being the slots; and by what
//! estimates of requests still in service are wrong. A child that was idle begins at the virtual time:
//! it gets nothing for the time that it did not ask (no burst), and owes nothing for what it had while
//! others did not ask (it does not pay).
//!
//! Source: Goyal, Vin, Cheng: Start-time Fair Queueing (1996), §2; Jin, Chase, Kaur: Interposed
//! Proportional Sharing (2004), §3.2 (D in service). The correction of charges: as in Kubernetes' API
//! Priority and Fairness.

use super::children::{Child, States};
use super::{Grant, Load, Scheduler};
use crate::time::Moment;

/// The state of the policy.
#[derive(Clone, Debug, Default)]
pub(super) struct Weighted {
    tags: States<Tags>,
    virtual_time: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tags {
    weight: f64,
    /// Tag at which its last request is done with.
    finish: f64,
    /// Tag of its next request, while it waits.
    start: f64,
    waits: bool,
}

impl Weighted {
    /// The child's part among those that have requests. O(children).
    pub(super) fn part(&self, child: usize, has_any: impl Fn(usize) -> bool) -> f64 {
        let tags = self.tags.all();
        let all = (0..tags.len()).filter(|&other| other == child || has_any(other));
        tags[child].weight / all.map(|other| tags[other].weight).sum::<f64>()
    }
}

impl Scheduler for Weighted {
    fn reconfigure(&mut self, _now: Moment, children: &[Child], _loads: &[Load], _slots: f64) {
        self.tags.reconfigure(children);
        for (child, tags) in children.iter().zip(self.tags.all_mut()) {
            // What it is ahead is work, whatever it counts from now on.
            let weight = std::mem::replace(&mut tags.weight, child.terms.weight);
            let ahead = |tag: f64| {
                self.virtual_time + (tag - self.virtual_time) * weight / child.terms.weight
            };
            (tags.finish, tags.start) = (ahead(tags.finish), ahead(tags.start));
        }
    }

    fn advance(&mut self, _now: Moment, loads: &[Load], _slots: f64) {
        for (child, load) in self.tags.all_mut().iter_mut().zip(loads) {
            child.waits &= load.waiting > 0;
        }
    }

    fn pick(&mut self, loads: &[Load], _slots: f64) -> Option<usize> {
        let mut best: Option<(usize, f64)> = None;
        let tags = self.tags.all_mut().iter_mut();
        for (place, (child, load)) in tags.zip(loads).enumerate() {
            if load.waiting == 0 {
                child.waits = false;
                continue;
            }
            if !child.waits {
                // Nothing was granted since it began to wait: that asks here first.
                child.waits = true;
                child.start = child.finish.max(self.virtual_time);
            }
            if best.is_none_or(|(_, least)| child.start < least) {
                best = Some((place, child.start));
            }
        }
        best.map(|(place, _)| place)
    }

    fn granted(&mut self, child: usize, loads: &[Load], _slots: f64, grant: Grant) {
        let waits = loads[child].waiting > 0;
        let child = &mut self.tags.all_mut()[child];
        let start = match child.waits {
            true => child.start,
            false => child.finish.max(self.virtual_time),
        };
        self.virtual_time = self.virtual_time.max(start);
        child.finish = start + grant.estimate / child.weight;
        child.start = child.finish;
        child.waits &= waits;
    }

    fn finished(&mut self, child: usize, grant: Grant, actual: f64) {
        let child = &mut self.tags.all_mut()[child];
        let difference = (actual - grant.estimate) / child.weight;
        child.finish += difference;
        child.start += difference;
    }
}
