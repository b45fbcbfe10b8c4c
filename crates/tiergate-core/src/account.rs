//! Accounting: each request is counted once where it ends, and once where it begins.

use crate::collections::grown;
use crate::histogram::Histogram;
use crate::names::{ByRule, ClassId, RuleId};
use crate::outcome::{End, Outcome};
use crate::reason::Reason;
use crate::stored::Instead;
use std::time::Duration;

/// What became of one class's requests since the class exists.
///
/// `arrived = admitted at once + queued + refused on arrival + served from the store on arrival`, and
/// `arrived = finished + refused + served from the store + cancelled while waiting + waiting + running`, where running ones are
/// counted by request ([`crate::gate::ClassState::requests`]), and those served from the store without the failures, which are
/// among the finished ones. A wait that has ended with a copy counts from when its owner has asked for the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassAccount {
    /// Requests that came in.
    pub arrived: u64,
    /// Requests that got a slot on arrival.
    pub admitted_at_once: u64,
    /// Requests that had to wait.
    pub queued: u64,
    /// Requests that left the backlog because their client did.
    pub cancelled_waiting: u64,
    /// Refusals, by [`Reason::index`].
    pub refused: [u64; Reason::COUNT],
    /// Requests that got a copy of an earlier answer, by [`Instead::index`].
    pub stored: [u64; Instead::COUNT],
    /// Requests that gave their slot back, by [`End::index`].
    pub finished: [u64; End::COUNT],
    /// Bytes of answers that came from the origin.
    pub origin_bytes: u64,
    /// Time in the backlog of the requests that got a slot (zero for those admitted at once).
    pub wait: Histogram,
    /// From the grant to the first byte of the answer.
    pub first_byte: Histogram,
    /// From the grant to the end.
    pub service: Histogram,
}

impl ClassAccount {
    /// All refusals, whatever the reason.
    pub fn refused_total(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// All requests that gave a slot back.
    pub fn finished_total(&self) -> u64 {
        self.finished.iter().sum()
    }
}

/// The accounts of all classes that there ever were, and the hits of rules. By id: what was counted
/// stays while the process lives, or while the rule has its id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// By class id.
    pub classes: Vec<ClassAccount>,
    /// How often each rule decided the class; of one without a name, since it has its number.
    pub rule_hits: ByRule<u64>,
    /// Requests that no rule matched.
    pub unmatched: u64,
}

impl Account {
    /// Makes room for a plan's classes and rules, so that no request has to.
    pub(crate) fn reconfigure(&mut self, classes: &[ClassId], rules: &[RuleId]) {
        classes.iter().for_each(|id| _ = grown(&mut self.classes, id.index()));
        self.rule_hits.make_room(rules);
    }

    pub(crate) fn arrived(&mut self, class: ClassId, rule: Option<RuleId>) {
        self.classes[class.index()].arrived += 1;
        match rule.map(|rule| self.rule_hits.get_mut(rule)) {
            Some(Some(hits)) => *hits += 1,
            // Its rule is long gone, and another has its place.
            Some(None) => {}
            None => self.unmatched += 1,
        }
    }

    pub(crate) fn granted(&mut self, class: ClassId, waited: Duration) {
        self.classes[class.index()].wait.record(waited);
    }

    pub(crate) fn refused(&mut self, class: ClassId, reason: Reason) {
        self.classes[class.index()].refused[reason.index()] += 1;
    }

    pub(crate) fn stored(&mut self, class: ClassId, instead: Instead) {
        self.classes[class.index()].stored[instead.index()] += 1;
    }

    pub(crate) fn finished(&mut self, class: ClassId, service: Duration, outcome: &Outcome) {
        let account = &mut self.classes[class.index()];
        account.finished[outcome.end.index()] += 1;
        account.origin_bytes += outcome.bytes;
        account.service.record(service);
        if let Some(first_byte) = outcome.first_byte {
            account.first_byte.record(first_byte);
        }
    }
}
