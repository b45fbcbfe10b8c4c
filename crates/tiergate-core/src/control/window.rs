//! One window of measurement: throughput at one number of slots, while the limit binds.

use super::law::Completion;
use crate::outcome::End;
use crate::time::Moment;
use std::time::Duration;

/// Fewest failures, and failures for each answer, at which a window is failing.
const FAILURES_MIN: u32 = 8;
const FAILURES_PER_KEPT: u32 = 3;
/// Part of the usual time of an answer from which on a client that leaves has waited long enough to tell of
/// the origin.
const PATIENT: f64 = 0.75;

/// Counts answers while every slot is in use. Time in which slots are free says nothing of the origin's
/// capacity, so that the window's clock stands still then.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    slots: u32,
    /// Whether free slots are kept from requests that wait, and thus count as used; set it after
    /// [`Window::pass`].
    pub(super) full: bool,
    /// Binding time still to pass until the change of slots has worked through.
    settling_ns: u64,
    bound_ns: u64,
    area_ns: f64,
    /// Answers counted.
    pub(super) served: u32,
    /// Requests granted in this window that were answered, settling or not.
    kept: u32,
    /// Requests granted in this window that ended without an answer because it took too long.
    failed: u32,
    seen: Moment,
    pub(super) opened: Moment,
}

impl Window {
    pub(super) fn open(now: Moment, slots: u32, full: bool, settling: Duration) -> Self {
        let settling_ns = settling.as_nanos() as u64;
        Window { slots, full, settling_ns, seen: now, opened: now, ..Window::default() }
    }

    /// Lets time pass in which `running` requests were in progress.
    pub(super) fn pass(&mut self, now: Moment, running: u32) {
        let elapsed = now.nanos().saturating_sub(self.seen.nanos());
        self.seen = now;
        if !self.is_bound(running) {
            return;
        }
        if self.settling_ns > 0 {
            self.settling_ns = self.settling_ns.saturating_sub(elapsed);
        } else {
            self.bound_ns += elapsed;
            self.area_ns += elapsed as f64 * f64::from(running);
        }
    }

    /// Whether the origin has as much to do as the limit lets it have.
    fn is_bound(&self, running: u32) -> bool {
        running >= self.slots || self.full
    }

    /// Counts the end of a request; call after [`Window::pass`]. Returns whether it is an answer that
    /// tells of the throughput.
    /// `usual_s`: mean time that a slot is held by an answered request, seconds.
    pub(super) fn count(&mut self, completion: &Completion<'_>, usual_s: f64) -> bool {
        let Completion { admitted, outcome, load, .. } = *completion;
        // A slot granted in an earlier window is evidence about the number of slots of then. Failures count
        // with slots free, too: a limit far too high never binds, because the clients leave first.
        let own = u32::from(admitted >= self.opened);
        let held_s = completion.now.since(admitted).as_secs_f64();
        match outcome.end {
            _ if outcome.is_answer() => {
                self.kept += own;
                let counts =
                    self.is_bound(load.running) && self.settling_ns == 0 && self.bound_ns > 0;
                self.served += u32::from(counts);
                return counts;
            }
            // A client that leaves much sooner than others are answered tells of the client.
            End::Cancelled if held_s >= PATIENT * usual_s => self.failed += own,
            End::TimedOut if held_s >= usual_s => self.failed += own,
            _ => {}
        }
        false
    }

    /// Whether nearly every request granted in this window has failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failed >= FAILURES_MIN && self.failed > FAILURES_PER_KEPT * self.kept
    }

    /// Time in which the limit was binding.
    pub(super) fn bound(&self) -> Duration {
        Duration::from_nanos(self.bound_ns)
    }

    /// Mean number of requests in progress.
    pub(super) fn running(&self) -> f64 {
        self.area_ns / self.bound_ns.max(1) as f64
    }
}
