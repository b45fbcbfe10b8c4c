//! What a request costs the origin: charged by expectation when it gets its slot, and put right when it
//! ends.
//!
//! What requests of a rule took is learned as a mean: the plain one of the first [`MEMORY`], and from
//! then on one in which the latest weighs `1 / MEMORY`, so that one odd request moves it little and a
//! change is believed after as many. Where no rule matched, or nothing is known of the rule, the class's mean
//! counts, and then that of all requests.
//!
//! Source: ours; the estimate that is corrected as in Kubernetes' API Priority and Fairness ("seat
//! seconds").

use crate::collections::grown;
use crate::names::{ByRule, ClassId, RuleId};
use crate::outcome::{End, Outcome};
use crate::schedule::Costing;
use std::time::Duration;

/// Requests that a mean remembers.
const MEMORY: u32 = 64;
/// What a request is said to cost when nothing is known of any: seconds of a slot, and bytes. Of the order of
/// a page; wrong for no longer than until the first requests end.
const GUESS_SECONDS: f64 = 0.05;
const GUESS_BYTES: f64 = 16_384.0;

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    mean: f64,
    count: u32,
}

impl Mean {
    fn learn(&mut self, cost: f64) {
        if self.count == MEMORY {
            self.mean += (cost - self.mean) * const { 1.0 / MEMORY as f64 };
        } else {
            self.count += 1;
            self.mean += (cost - self.mean) / f64::from(self.count);
        }
    }

    fn known(self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }
}

/// What requests cost: by rule, by class, and all. Survives reloads as long as the unit does.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    unit: Costing,
    rules: ByRule<Mean>,
    /// By id.
    classes: Vec<Mean>,
    all: Mean,
}

impl Costs {
    /// Nothing is known.
    pub(crate) fn new(unit: Costing) -> Self {
        Costs { unit, rules: ByRule::default(), classes: Vec::new(), all: Mean::default() }
    }

    /// Makes room for a plan's classes and rules, so that no request has to; in another unit nothing is
    /// known.
    pub(crate) fn reconfigure(&mut self, unit: Costing, classes: &[ClassId], rules: &[RuleId]) {
        if self.unit != unit {
            *self = Costs::new(unit);
        }
        classes.iter().for_each(|id| _ = grown(&mut self.classes, id.index()));
        self.rules.make_room(rules);
    }

    /// What a request of the rule, or else of the class, will cost. O(1).
    pub(crate) fn estimate(&self, class: ClassId, rule: Option<RuleId>, slots: u16) -> f64 {
        let guess = match self.unit {
            Costing::Requests => return 1.0,
            Costing::Seconds => GUESS_SECONDS * f64::from(slots),
            Costing::Bytes => GUESS_BYTES,
        };
        let rule = rule.and_then(|rule| self.rules.get(rule)?.known());
        let known = rule.or_else(|| self.classes[class.index()].known());
        known.or_else(|| self.all.known()).unwrap_or(guess)
    }

    /// What a request cost that held so many slots for so long.
    pub(crate) fn actual(&self, held: Duration, slots: u16, outcome: &Outcome) -> f64 {
        match self.unit {
            Costing::Requests => 1.0,
            Costing::Seconds => seconds(held) * f64::from(slots),
            Costing::Bytes => outcome.bytes as f64,
        }
    }

    /// A request of the rule, and of the class, cost so much and ended so. O(1).
    pub(crate) fn learn(&mut self, class: ClassId, rule: Option<RuleId>, cost: f64, end: End) {
        // What was cut short says nothing of what such requests cost.
        if matches!(end, End::Cancelled | End::Preempted | End::Pushback)
            || self.unit == Costing::Requests
        {
            return;
        }
        self.all.learn(cost);
        self.classes[class.index()].learn(cost);
        if let Some(rule) = rule.and_then(|rule| self.rules.get_mut(rule)) {
            rule.learn(cost);
        }
    }
}

/// Without a division, which would be most of what a cost costs.
fn seconds(span: Duration) -> f64 {
    span.as_secs() as f64 + f64::from(span.subsec_nanos()) * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: ClassId = ClassId(1);

    fn costs(unit: Costing) -> Costs {
        let mut costs = Costs::new(unit);
        costs.reconfigure(unit, &[CLASS, ClassId(0)], &[RuleId::at(2), RuleId::at(0)]);
        costs
    }

    #[test]
    fn the_rule_is_asked_first_then_the_class_then_all() {
        let mut costs = costs(Costing::Seconds);
        assert_eq!(costs.estimate(CLASS, Some(RuleId::at(2)), 4), GUESS_SECONDS * 4.0);
        costs.learn(ClassId(0), Some(RuleId::at(0)), 3.0, End::Served);
        assert_eq!(costs.estimate(CLASS, Some(RuleId::at(2)), 1), 3.0);
        costs.learn(CLASS, None, 2.0, End::Failed);
        assert_eq!(costs.estimate(CLASS, Some(RuleId::at(2)), 1), 2.0);
        costs.learn(CLASS, Some(RuleId::at(2)), 1.0, End::Served);
        assert_eq!(costs.estimate(CLASS, Some(RuleId::at(2)), 1), 1.0);
        assert_eq!(costs.estimate(CLASS, Some(RuleId::at(99)), 1), 1.5, "no such rule");
        costs.learn(CLASS, Some(RuleId::at(2)), 100.0, End::Cancelled);
        assert_eq!(costs.estimate(CLASS, Some(RuleId::at(2)), 1), 1.0, "it was cut short");
        costs.reconfigure(Costing::Seconds, &[CLASS], &[RuleId::at(200)]);
        assert_eq!(costs.estimate(CLASS, Some(RuleId::at(2)), 1), 1.0, "a reload");
        costs.reconfigure(Costing::Bytes, &[CLASS], &[]);
        assert_eq!(costs.estimate(CLASS, Some(RuleId::at(2)), 1), GUESS_BYTES, "in seconds it was");
    }

    #[test]
    fn one_odd_request_moves_the_mean_little_and_a_change_is_believed() {
        let mut costs = costs(Costing::Bytes);
        (0..1000).for_each(|_| costs.learn(CLASS, Some(RuleId::at(0)), 100.0, End::Served));
        costs.learn(CLASS, Some(RuleId::at(0)), 6_500.0, End::Served);
        assert_eq!(costs.estimate(CLASS, Some(RuleId::at(0)), 1), 200.0);
        (0..256).for_each(|_| costs.learn(CLASS, Some(RuleId::at(0)), 1_000.0, End::Served));
        assert!((costs.estimate(CLASS, Some(RuleId::at(0)), 1) - 1_000.0).abs() < 20.0);
    }

    #[test]
    fn each_unit_counts_what_it_says() {
        let outcome = Outcome { end: End::Served, first_byte: None, bytes: 7, left: None };
        let half = Duration::from_millis(500);
        let cost = |unit| costs(unit).actual(half, 3, &outcome);
        assert_eq!(cost(Costing::Requests), 1.0);
        assert_eq!(cost(Costing::Seconds), 1.5);
        assert_eq!(cost(Costing::Bytes), 7.0);
    }
}
