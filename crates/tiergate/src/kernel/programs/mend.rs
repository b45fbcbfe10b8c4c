//! What has failed is tried again: rules, interfaces, and the program where nftables stands in for it.

use super::{Orders, Programs};
use tiergate_core::time::Moment;
use tiergate_kernel::Fault;

impl Programs {
    /// Tries again what has failed, when it is time: rules if they are not there, else attaching alone; and the program where nftables stands in for it. Rules are also written when the listeners' addresses have changed.
    /// What came of it; `None`: nothing had to be done.
    pub(in crate::kernel) fn mend(
        &mut self,
        orders: Orders<'_>,
        now: Moment,
    ) -> Option<Result<(), Fault>> {
        let Orders { settings, policy, here, .. } = orders;
        let mut is_better = false;
        if self.is_second_best() && self.better.is_due(now) {
            is_better = self.try_ebpf(orders);
            match is_better {
                true => self.better.succeeded(),
                false => self.better.failed(now),
            }
        }
        let is_elsewhere = self.is_elsewhere(policy, here);
        let has_rules = self.has_rules(settings) && !is_elsewhere;
        let is_whole = self.is_attached(settings) && has_rules;
        if is_whole && is_better {
            // What nftables lacked, the program has.
            self.again.succeeded();
            return Some(Ok(()));
        }
        if is_whole || !(is_elsewhere || self.again.is_due(now)) {
            return None;
        }
        if !has_rules {
            return Some(self.put_in_force(orders));
        }
        let done = self.attach_or_fall_back(orders);
        self.remember(&done, now);
        Some(done)
    }

    /// Something has failed that was in force: rather none than some of it, until the next attempt.
    pub(in crate::kernel) fn give_up(&mut self, now: Moment) {
        self.fail_open();
        self.again.failed(now);
    }

    /// What came of an attempt.
    pub(super) fn remember(&mut self, done: &Result<(), Fault>, now: Moment) {
        match done {
            Ok(()) => self.again.succeeded(),
            Err(_) => self.again.failed(now),
        }
    }
}
