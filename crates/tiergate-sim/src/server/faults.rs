//! Faults, stalls and pauses.

use super::{Fault, FaultKind, Pause, Server};

impl Server {
    /// Whether a request fails, and how long after a worker took it.
    pub(super) fn fails(&mut self, now: u64, kind: FaultKind, class: &str) -> Option<u64> {
        let fault = self.fault_at(now, kind)?;
        let (share, after_ns) = (fault.share, (fault.after_ms * 1e6) as u64);
        let is_of_it = fault.class.as_ref().is_none_or(|of| of == class);
        (is_of_it && self.rng.f64() < share).then_some(after_ns)
    }

    fn fault_at(&self, now: u64, kind: FaultKind) -> Option<&Fault> {
        let at = now as f64 / 1e9;
        let mut faults = self.shape.fault.iter();
        faults.find(|fault| fault.what == kind && (fault.from_s..fault.to_s).contains(&at))
    }

    /// The stall or pause that there is at a moment, from when to when.
    fn stall(&self, at: u64) -> Option<(u64, u64)> {
        let nanos = |seconds: f64| (seconds * 1e9) as u64;
        let fault = self.fault_at(at, FaultKind::Stall);
        fault.map(|fault| (nanos(fault.from_s), nanos(fault.to_s) + 1)).or_else(|| {
            let Pause { every_s, for_s } = self.shape.pause?;
            let from = at / nanos(every_s) * nanos(every_s);
            let until = from + nanos(for_s) + 1;
            (from > 0 && at < until).then_some((from, until))
        })
    }

    pub(super) fn stalled_until(&self, at: u64) -> Option<u64> {
        self.stall(at).map(|(_, until)| until)
    }

    pub(super) fn stall_began(&self, at: u64) -> u64 {
        self.stall(at).map_or(at, |(from, _)| from)
    }

    /// The next moment at which speed changes from outside: a step, an edge of a stall.
    pub(super) fn next_change(&self) -> u64 {
        let now = self.advanced_at;
        let step =
            self.shape.step.get(self.steps_done).map_or(u64::MAX, |step| (step.at_s * 1e9) as u64);
        let edges = self.shape.fault.iter().flat_map(|fault| {
            let stall = fault.what == FaultKind::Stall;
            [fault.from_s, fault.to_s].map(|edge| if stall { (edge * 1e9) as u64 + 1 } else { 0 })
        });
        let pause = self.shape.pause.map_or(u64::MAX, |Pause { every_s, .. }| {
            let begins = (now / (every_s * 1e9) as u64 + 1) * (every_s * 1e9) as u64;
            self.stalled_until(now).map_or(begins, |ends| ends.min(begins))
        });
        edges.filter(|&edge| edge > now).fold(step.min(pause), u64::min)
    }
}
