//! The gate's numbers at one moment, copied out so that its lock is held only to copy.

use serde::{Deserialize, Serialize};
use tiergate_core::account::ClassAccount;
use tiergate_core::adjust::Adjusted;
use tiergate_core::admit::policer::PolicerState;
use tiergate_core::class::{Class, Order};
use tiergate_core::control::{Slots, Step};
use tiergate_core::gate::{ClassState, Gate};
use tiergate_core::sense::Source;
use tiergate_core::time::Moment;

/// Most rules whose hits are copied and shown, the first ones of the policy. A policy may have
/// 10,000 rules; each would be a time series.
pub const RULES_SHOWN_MAX: usize = 500;

/// One class at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSnapshot {
    /// Its settings.
    pub class: Class,
    /// The name of its site.
    pub site: String,
    /// In which order its requests get slots, as policies call it.
    pub order: &'static str,
    /// What it is doing.
    pub state: ClassState,
    /// What was counted since the class exists.
    pub account: ClassAccount,
}

/// Most policers that are copied and shown, the first ones of the policy: each is six time series.
pub const POLICERS_SHOWN_MAX: usize = 100;

/// Shedding at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SheddingSnapshot {
    /// How overloaded the origin is, 0.0 to 1.0; the target is 0.5.
    pub overload: f64,
    /// The fraction of requests that is shed, 0.0 to 1.0.
    pub fraction: f64,
}

/// The gate at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// When, on the gate's clock.
    pub at: Moment,
    /// The plan's generation.
    pub generation: u32,
    /// The classes, most important first.
    pub classes: Vec<ClassSnapshot>,
    /// The names and states of the first [`POLICERS_SHOWN_MAX`] policers.
    pub policers: Vec<(String, PolicerState)>,
    /// Hits of the first [`RULES_SHOWN_MAX`] rules.
    pub rule_hits: Vec<u64>,
    /// How many rules there are.
    pub rules: usize,
    /// Requests that no rule matched.
    pub unmatched: u64,
    /// Whether the limit is adaptive.
    pub adaptive: bool,
    /// The number of slots in force.
    pub slots: u32,
    /// Slots in use.
    pub running: u32,
    /// Requests in the queues.
    pub waiting: usize,
    /// The last change of the limit, and when.
    pub last_step: Option<(Moment, Step)>,
    /// Shedding; `None`: the policy sheds nothing.
    pub shedding: Option<SheddingSnapshot>,
    /// Settings that controllers override.
    pub adjustments: Vec<Adjusted>,
    /// The last reading of each sensor.
    pub sources: Vec<Source>,
}

impl Snapshot {
    /// Copies the gate's numbers. Call it under the gate's lock and do nothing else there.
    ///
    /// Cost: about 3.5 KiB copied per class, no formatting; the figures stand in
    /// `docs/observability.md`.
    pub fn take<T>(gate: &Gate<T>, now: Moment) -> Self {
        let (plan, account) = (gate.plan(), gate.account());
        let classes = plan.classes.iter().zip(gate.states()).zip(&account.classes);
        let shown = account.rule_hits.len().min(RULES_SHOWN_MAX);
        Snapshot {
            at: now,
            generation: plan.generation,
            classes: classes
                .map(|((class, state), account)| ClassSnapshot {
                    class: class.clone(),
                    site: plan.sites[class.site.index()].name.clone(),
                    order: order_name(class.order),
                    state,
                    account: account.clone(),
                })
                .collect(),
            policers: plan
                .policers
                .iter()
                .zip(gate.policers())
                .take(POLICERS_SHOWN_MAX)
                .map(|(policer, state)| (policer.name.clone(), state))
                .collect(),
            rule_hits: account.rule_hits[..shown].to_vec(),
            rules: account.rule_hits.len(),
            unmatched: account.unmatched,
            adaptive: matches!(plan.slots, Slots::Adaptive(_)),
            slots: gate.slots(),
            running: gate.running(),
            waiting: gate.waiting(),
            last_step: gate.last_step(),
            shedding: gate.shedding().map(|shedding| SheddingSnapshot {
                overload: shedding.overload(),
                fraction: shedding.fraction(),
            }),
            adjustments: gate.adjustments().iter().cloned().collect(),
            sources: gate.sources().iter().cloned().collect(),
        }
    }

    /// The class called `name`.
    pub fn class(&self, name: &str) -> Option<&ClassSnapshot> {
        self.classes.iter().find(|it| it.class.name == name)
    }
}

/// An order as policies call it.
pub const fn order_name(order: Order) -> &'static str {
    match order {
        Order::Fifo => "fifo",
        Order::AdaptiveLifo => "adaptive-lifo",
        Order::Deadline => "deadline",
        Order::Score => "score",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiergate_core::class::ClassId;
    use tiergate_core::gate::Arrival;
    use tiergate_core::plan::Plan;

    #[test]
    fn it_copies_what_the_gate_says_and_at_most_so_many_rules() {
        let mut plan = Plan::protective();
        plan.slots = Slots::Fixed(1);
        plan.rules = RULES_SHOWN_MAX + 10;
        let mut gate: Gate<()> = Gate::new(plan);
        let arrival = Arrival { rule: Some(3), ..Arrival::of(ClassId(0)) };
        for _ in 0..3 {
            // The gate remembers the slot; nothing here gives it back.
            let _verdict = gate.arrive(Moment::ZERO, arrival, || ());
        }
        let snapshot = Snapshot::take(&gate, Moment::from_millis(5));
        assert_eq!(snapshot.rule_hits.len(), RULES_SHOWN_MAX);
        assert_eq!((snapshot.rules, snapshot.rule_hits[3]), (RULES_SHOWN_MAX + 10, 3));
        assert_eq!((snapshot.running, snapshot.waiting), (1, 2));
        let class = snapshot.class("default").expect("the only one");
        assert_eq!((class.state.running, class.state.waiting), (1, 2));
        assert_eq!(class.account.arrived, 3);
        assert!(!snapshot.adaptive);
    }
}
