//! One point of the hour.

use super::super::snapshot::Snapshot;
use serde::{Deserialize, Serialize};
use std::time::SystemTime;
use tiergate_core::account::ClassAccount;
use tiergate_core::incident::ClassSituation;

/// What was counted in ten seconds, and the slots at their end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HourPoint {
    /// When they ended. Seconds of UNIX time.
    pub at_seconds: u64,
    /// Slots of the default pool.
    pub slots: u32,
    /// Those in use.
    pub running: u32,
    /// Requests in its queues.
    pub waiting: u64,
    /// By class, over all pools; those without requests are left out.
    pub classes: Vec<(String, ClassPoint)>,
}

/// A class in ten seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassPoint {
    /// Requests that came.
    pub arrived: u64,
    /// Those that got a slot at once.
    pub at_once: u64,
    /// Those that had to wait.
    pub queued: u64,
    /// Those that were refused, whatever the reason, or whose client left the queue.
    pub refused: u64,
    /// Those that the origin did not answer, or answered by an error.
    pub failed: u64,
    /// 99 % of those that got a slot waited no longer. Seconds; `None`: none did.
    pub wait_p99_seconds: Option<f64>,
    /// 99 % of those that had a slot gave it back after no longer a time. Seconds.
    pub service_p99_seconds: Option<f64>,
}

impl HourPoint {
    pub(super) fn between(
        at: SystemTime,
        snapshot: &Snapshot,
        before: &[(String, ClassAccount)],
        now: &[(String, ClassAccount)],
    ) -> Self {
        let nothing = ClassAccount::default();
        let class = |(name, now): &(String, ClassAccount)| {
            let before = before.iter().find(|it| it.0 == *name).map_or(&nothing, |it| &it.1);
            let point = ClassPoint::between(before, now);
            (point != ClassPoint::default()).then(|| (name.clone(), point))
        };
        let at = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        HourPoint {
            at_seconds: at.as_secs(),
            slots: snapshot.default.slots,
            running: snapshot.default.running,
            waiting: snapshot.default.waiting as u64,
            classes: now.iter().filter_map(class).collect(),
        }
    }

    /// The class called `name`; one without requests has a point of zeros.
    pub fn class(&self, name: &str) -> ClassPoint {
        self.classes.iter().find(|it| it.0 == name).map_or_else(ClassPoint::default, |it| it.1)
    }
}

impl ClassPoint {
    fn between(before: &ClassAccount, now: &ClassAccount) -> Self {
        let p99 = |now: &tiergate_core::histogram::Histogram, before| {
            now.since(before).quantile(0.99).map(|it| it.as_secs_f64())
        };
        let counted = ClassSituation::between(before, now);
        let left = now.cancelled_waiting.saturating_sub(before.cancelled_waiting);
        ClassPoint {
            arrived: now.arrived.saturating_sub(before.arrived),
            at_once: now.admitted_at_once.saturating_sub(before.admitted_at_once),
            queued: now.queued.saturating_sub(before.queued),
            refused: now.refused_total().saturating_sub(before.refused_total()) + left,
            failed: counted.failed,
            wait_p99_seconds: p99(&now.wait, &before.wait),
            service_p99_seconds: p99(&now.service, &before.service),
        }
    }
}

/// Adds what was counted of a class in another pool.
pub(super) fn add(account: &mut ClassAccount, other: &ClassAccount) {
    account.arrived += other.arrived;
    account.admitted_at_once += other.admitted_at_once;
    account.queued += other.queued;
    account.cancelled_waiting += other.cancelled_waiting;
    account.refused.iter_mut().zip(other.refused).for_each(|(it, more)| *it += more);
    account.stored.iter_mut().zip(other.stored).for_each(|(it, more)| *it += more);
    account.finished.iter_mut().zip(other.finished).for_each(|(it, more)| *it += more);
    account.wait.add(&other.wait);
    account.first_byte.add(&other.first_byte);
    account.service.add(&other.service);
}
