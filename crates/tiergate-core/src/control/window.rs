//! One window of measurement: throughput at one number of slots, while the limit binds.

use super::ends::Ends;
use super::law::Completion;
use crate::outcome::End;
use crate::time::Moment;
use std::time::Duration;

/// Part of the usual time of an answer from which on a client that leaves has waited long enough to tell of
/// the origin.
const PATIENT: f64 = 0.75;
/// An error that comes after so many times the usual time of an answer tells of an origin with too much to do, as of one that gives up
/// late requests itself (504).
const LATE: f64 = 2.0;
/// The origin has paused (to collect garbage, for another tenant of its machine) if for this many times the usual time between two
/// answers none came, and for this many times as long as the answer that ends the wait usually takes: a long poll that holds
/// the slots is no pause.
const PAUSE: (f64, f64) = (16.0, 4.0);

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
    /// Answers counted, and those of them that were not late.
    pub(super) served: u32,
    pub(super) good: u32,
    /// How requests granted in this window ended, settling or not.
    ends: Ends,
    seen: Moment,
    /// Binding time since the last answer, and its part of the area.
    silent_ns: u64,
    silent_area_ns: f64,
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
            self.silent_ns += elapsed;
            self.silent_area_ns += elapsed as f64 * f64::from(running);
        }
    }

    /// Whether the origin has as much to do as the limit lets it have.
    fn is_bound(&self, running: u32) -> bool {
        running >= self.slots || self.full
    }

    /// Counts the end of a request; call after [`Window::pass`]. Returns whether it is an answer that
    /// tells of the throughput.
    /// `usual_s`, `of_class_s`: mean time that a slot is held by an answered request, and by one of its class, seconds; 0: not known.
    pub(super) fn count(
        &mut self,
        completion: &Completion<'_>,
        usual_s: f64,
        of_class_s: f64,
    ) -> bool {
        let Completion { admitted, outcome, load, .. } = *completion;
        // A slot granted in an earlier window is evidence about the number of slots of then. Failures count
        // with slots free, too: a limit far too high never binds, because the clients leave first.
        let own = u32::from(admitted >= self.opened);
        let held_s = completion.now.since(admitted).as_secs_f64();
        match outcome.end {
            _ if outcome.is_answer() => {
                let is_late = completion.is_late();
                self.ends.add(completion.flow, false, own);
                let counts =
                    self.is_bound(load.running) && self.settling_ns == 0 && self.bound_ns > 0;
                self.served += u32::from(counts);
                self.good += u32::from(counts && !is_late);
                if counts {
                    self.leave_out_pause(usual_s, of_class_s);
                }
                return counts;
            }
            // A client that leaves much sooner than others are answered tells of the client.
            End::Cancelled if held_s >= PATIENT * usual_s => {
                self.ends.add(completion.flow, true, own)
            }
            End::TimedOut if held_s >= usual_s => self.ends.add(completion.flow, true, own),
            End::Error if held_s >= LATE * usual_s => self.ends.add(completion.flow, true, own),
            _ => {}
        }
        false
    }

    /// Time in which the origin paused says nothing of the number of slots: windows with and without would differ whatever they try.
    fn leave_out_pause(&mut self, usual_s: f64, of_class_s: f64) {
        let silent_ns = std::mem::take(&mut self.silent_ns);
        let silent_area_ns = std::mem::take(&mut self.silent_area_ns);
        let apart_s = usual_s / f64::from(self.slots);
        let usual_ns = 1e9 * (PAUSE.0 * apart_s).max(PAUSE.1 * of_class_s);
        if of_class_s > 0.0 && silent_ns as f64 > usual_ns {
            self.bound_ns -= silent_ns;
            self.area_ns -= silent_area_ns;
        }
    }

    /// Whether nearly every request granted in this window has failed.
    pub(super) fn is_failing(&self) -> bool {
        self.ends.are_failures()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::OriginLoad;
    use crate::names::{ClassId, LaneId};
    use crate::outcome::Outcome;

    const SLOTS: u32 = 4;
    const USUAL_S: f64 = 0.04;

    /// A window in which answers came at these milliseconds, and how a request ended that began at 0.
    fn window(answers_ms: &[u64], of_class_s: f64, ends: &[(u64, End)]) -> Window {
        let mut window = Window::open(Moment::ZERO, SLOTS, false, Duration::ZERO);
        let answers = answers_ms.iter().map(|at| (*at, End::Served));
        for (at_ms, end) in answers.chain(ends.iter().copied()) {
            let now = Moment::from_millis(at_ms);
            window.pass(now, SLOTS);
            let outcome = Outcome::without_answer(end);
            let completion = Completion {
                now,
                class: ClassId(0),
                lane: LaneId(0),
                flow: 0,
                admitted: Moment::ZERO,
                waited: Duration::ZERO,
                found: SLOTS,
                outcome: &outcome,
                load: OriginLoad { running: SLOTS, waiting: 1 },
            };
            window.count(&completion, USUAL_S, of_class_s);
        }
        window
    }

    #[test]
    fn a_pause_is_left_out() {
        let answers = [10, 20, 30, 530, 540];
        let bound = |of_class_s| window(&answers, of_class_s, &[]).bound().as_millis();
        assert_eq!(bound(USUAL_S), 40);
        assert_eq!(bound(0.2), 540, "one that takes long is no pause");
        assert_eq!(window(&[10, 20, 30, 180], USUAL_S, &[]).bound().as_millis(), 180);
        assert!((window(&answers, USUAL_S, &[]).running() - 4.0).abs() < 1e-9);
    }

    #[test]
    fn errors_that_come_late_are_failures_and_others_are_not() {
        let ends = |at_ms| window(&[], USUAL_S, &[(at_ms, End::Error); 8]).is_failing();
        assert!(ends(90) && !ends(60));
    }
}
