//! A quota of CPU time, as a container's.

use super::shape::Quota;

/// What is spent of it in the present period.
#[derive(Debug, Default)]
pub(super) struct Spent {
    period: u64,
    ns: f64,
}

impl Spent {
    /// CPU time was spent until `now`; the period has not ended before.
    pub(super) fn spend(&mut self, now: u64, cpu_ns: f64, quota: Quota) {
        if !self.is_all(quota) {
            self.ns += cpu_ns;
        }
        let period = now / period_ns(quota);
        if period != self.period {
            *self = Spent { period, ns: 0.0 };
        }
    }

    /// Whether nothing is left of the period's.
    pub(super) fn is_all(&self, quota: Quota) -> bool {
        self.ns + 0.5 >= quota.cpu_s * 1e9
    }

    /// When it is spent, with so many cores busy from `now` on, or a new period begins.
    pub(super) fn next_event(&self, now: u64, quota: Quota, busy: f64) -> u64 {
        let ends = (now / period_ns(quota) + 1) * period_ns(quota);
        if self.is_all(quota) {
            return ends;
        }
        let lasts = ((quota.cpu_s * 1e9 - self.ns) / busy).ceil().max(1.0);
        ends.min(now.saturating_add(lasts as u64))
    }
}

fn period_ns(quota: Quota) -> u64 {
    (quota.every_s * 1e9) as u64
}
