//! The gate's numbers at one moment, copied out so that its lock is held only to copy.

use crate::kernel::KernelStatus;
use crate::lanes::LaneStatus;
use crate::link::{LinkCapacity, LinkPart};
use serde::{Deserialize, Serialize};
use tiergate_core::account::ClassAccount;
use tiergate_core::adjust::Adjusted;
use tiergate_core::admit::policer::PolicerState;
use tiergate_core::class::{Class, Order};
use tiergate_core::control::Step;
use tiergate_core::gate::{
    AdaptationState, BackgroundState, ClassState, Gate, GuaranteeState, Pool, ResourceState,
    SteerState,
};
use tiergate_core::histogram::Histogram;
use tiergate_core::names::{ClassId, PoolId, RuleId, ServerId};
use tiergate_core::plan::Plan;
use tiergate_core::reason::Reason;
use tiergate_core::sense::Source;
use tiergate_core::shadow::ClassTally;
use tiergate_core::time::Moment;

/// Most rules whose hits are copied and shown, the first ones of the policy. A policy may have
/// 10,000 rules; each would be a time series.
pub const RULES_SHOWN_MAX: usize = 500;

/// Most classes that are shown though they are neither in the policy nor have requests, the latest to be
/// named. Each costs about 3.5 KiB under the gate's lock and 120 time series; without a bound, a policy
/// whose generator makes up names would cost more with each reload.
pub const CLASSES_GONE_SHOWN_MAX: usize = 64;

/// One class at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSnapshot {
    /// Which it is, in every plan.
    pub id: ClassId,
    /// Whether the plan in force has it. What was counted of one that is gone stays.
    pub is_planned: bool,
    /// Its settings.
    pub class: Class,
    /// The name of its site; empty: it is gone, and so is its site.
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

/// A pool at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSnapshot {
    /// Its name; empty: it is the default pool.
    pub name: String,
    /// The classes, most important first, then those that are gone: all that have requests, and
    /// [`CLASSES_GONE_SHOWN_MAX`] others. Of a pool beside the default one, those that had requests at all.
    pub classes: Vec<ClassSnapshot>,
    /// Whether the limit is adaptive.
    pub adaptive: bool,
    /// Whether it is found together with other gateways.
    pub shared: bool,
    /// The number of slots in force.
    pub slots: u32,
    /// Slots in use.
    pub running: u32,
    /// Requests in progress without a slot: theirs are lent, or they wait for one of another server.
    pub lent: u32,
    /// Requests in the queues.
    pub waiting: usize,
    /// The last change of the limit, and when.
    pub last_step: Option<(Moment, Step)>,
    /// The server whose limit that was, and how many slots it has since; `None`: the servers share a limit.
    pub last_server: Option<(ServerId, u32)>,
    /// Shedding; `None`: the policy sheds nothing.
    pub shedding: Option<SheddingSnapshot>,
    /// What some of its requests need beside a slot.
    pub resources: Vec<ResourceSnapshot>,
    /// Its background; `None`: the policy has none.
    pub background: Option<BackgroundState>,
}

/// A resource of a pool at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceSnapshot {
    /// Its name.
    pub name: String,
    /// Whether the limit is adaptive.
    pub adaptive: bool,
    /// The number of slots in force.
    pub slots: u32,
    /// Slots in use.
    pub running: u32,
    /// Requests in the queues that need one.
    pub waiting: u32,
    /// The last change of the limit, and when.
    pub last_step: Option<(Moment, Step)>,
}

/// An adaptation at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptationSnapshot {
    /// What the gate says of it.
    pub state: AdaptationState,
    /// Its set points, by the names of the classes, the most important first.
    pub set_points: Vec<(String, f64)>,
    /// The guarantees of its sites, by their names.
    pub guarantees: Vec<(String, GuaranteeState)>,
}

impl AdaptationSnapshot {
    fn of(state: AdaptationState, plan: &Plan) -> Self {
        let named = |(class, set_point): &(ClassId, f64)| {
            (crate::config::class_name(plan, *class).to_owned(), *set_point)
        };
        let of_site = |it: &GuaranteeState| {
            (plan.site(it.site).map_or_else(String::new, |site| site.name.clone()), *it)
        };
        AdaptationSnapshot {
            set_points: state.set_points.iter().map(named).collect(),
            guarantees: state.guarantees.iter().map(of_site).collect(),
            state,
        }
    }
}

/// A policy that is observed, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedSnapshot {
    /// Its file.
    pub path: String,
    /// Requests that were not observed because too many were at the time.
    pub untracked: u64,
    /// Its classes, most important first.
    pub classes: Vec<ObservedClass>,
    /// The first [`RULES_SHOWN_MAX`] rules, as people know them, and how many requests each decided about.
    pub rule_hits: Vec<(String, u64)>,
    /// The first [`POLICERS_SHOWN_MAX`] policers by name, those of earlier policies last.
    pub policers: Vec<(String, PolicerState)>,
    /// The adaptations by name: requests by the level that they would have been answered at, 0: refused for it.
    pub adaptations: Vec<(String, Vec<u64>)>,
}

/// A class of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedClass {
    /// Its name.
    pub name: String,
    /// Requests that would wait now.
    pub waiting: u32,
    /// What was counted of it, by pool.
    pub accounts: Vec<ClassAccount>,
    /// Beside what the policy in force did.
    pub tally: ClassTally,
}

impl ObservedClass {
    /// Requests that came.
    pub fn arrived(&self) -> u64 {
        self.accounts.iter().map(|it| it.arrived).sum()
    }

    /// Requests that would have been refused for a reason.
    pub fn refused(&self, reason: Reason) -> u64 {
        self.accounts.iter().map(|it| it.refused[reason.index()]).sum()
    }

    /// Time in the queue of those that would have got a slot.
    pub fn wait(&self) -> Histogram {
        let mut all = Histogram::default();
        self.accounts.iter().for_each(|it| all.add(&it.wait));
        all
    }
}

/// The gate at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// When, on the gate's clock.
    pub at: Moment,
    /// The default pool.
    pub default: PoolSnapshot,
    /// The other pools of the policy, and those that are gone and have requests left.
    pub others: Vec<PoolSnapshot>,
    /// The names and states of the first [`POLICERS_SHOWN_MAX`] policers; those that are gone come last.
    pub policers: Vec<(String, PolicerState)>,
    /// The policers whose rate follows a reading.
    pub steered: Vec<SteerState>,
    /// What decides the quality of answers.
    pub adaptations: Vec<AdaptationSnapshot>,
    /// The first [`RULES_SHOWN_MAX`] rules, by name or number, and their hits.
    pub rule_hits: Vec<(String, u64)>,
    /// How many rules there are.
    pub rules: usize,
    /// Requests that no rule matched.
    pub unmatched: u64,
    /// Settings that controllers override.
    pub adjustments: Vec<Adjusted>,
    /// The last reading of each sensor.
    pub sources: Vec<Source>,
    /// A policy that is observed; [`Snapshot::take`] knows none.
    pub observed: Option<ObservedSnapshot>,
    /// What classes have of the link; [`Snapshot::take`] knows nothing of it.
    pub link: Vec<LinkPart>,
    /// What an interface says that the link carries; [`Snapshot::take`] knows nothing of it.
    pub link_capacity: Option<LinkCapacity>,
    /// Threads of their own for the connections of some classes; empty: there are none.
    pub lanes: Vec<LaneStatus>,
    /// What the kernel does; `None`: the policy asks for nothing of it.
    pub kernel: Option<KernelStatus>,
}

impl Snapshot {
    /// Copies the gate's numbers. Call it under the gate's lock and do nothing else there.
    ///
    /// Cost: about 3.5 KiB copied per class and pool, no formatting; the figures stand in
    /// `docs/observability.md`.
    pub fn take<T>(gate: &Gate<T>, now: Moment) -> Self {
        let plan = gate.plan();
        let mut pools = gate.pools().map(|pool| PoolSnapshot::take(pool, plan));
        Snapshot {
            at: now,
            default: pools.next().expect("the default pool comes first"),
            others: pools.collect(),
            policers: policers(gate),
            steered: gate.steered().collect(),
            adaptations: gate.adaptations().map(|it| AdaptationSnapshot::of(it, plan)).collect(),
            rule_hits: rule_hits(gate),
            rules: plan.rules.len(),
            unmatched: gate.unmatched(),
            adjustments: gate.adjustments().iter().cloned().collect(),
            sources: gate.sources().iter().cloned().collect(),
            observed: None,
            link: Vec::new(),
            link_capacity: None,
            lanes: Vec::new(),
            kernel: None,
        }
    }

    /// Every pool, the default one first.
    pub fn pools(&self) -> impl Iterator<Item = &PoolSnapshot> + Clone {
        std::iter::once(&self.default).chain(&self.others)
    }
}

/// The first rules and what each decided about.
pub(crate) fn rule_hits<T>(gate: &Gate<T>) -> Vec<(String, u64)> {
    let plan = gate.plan();
    let hits = |id: &RuleId| {
        let label = plan.rule(*id).expect("the plan has it");
        (label.to_string(), gate.rule_hits(*id))
    };
    plan.rule_ids().iter().take(RULES_SHOWN_MAX).map(hits).collect()
}

/// The first policers.
pub(crate) fn policers<T>(gate: &Gate<T>) -> Vec<(String, PolicerState)> {
    let shown = gate.policers().take(POLICERS_SHOWN_MAX);
    shown.map(|(name, state)| (name.to_owned(), state)).collect()
}

impl PoolSnapshot {
    fn take<T>(pool: &Pool<T>, plan: &Plan) -> Self {
        let mut gone = 0;
        let mut is_shown = |id: ClassId| {
            let state = pool.state(id);
            let has_requests = state.requests + state.waiting + state.streams > 0;
            // Of a pool that takes the requests of few classes, the others would be many series of zeros.
            if pool.id() != PoolId::DEFAULT && pool.account().classes[id.index()].arrived == 0 {
                return false;
            }
            let stays = plan.rank(id).is_some() || has_requests;
            gone += usize::from(!stays);
            stays || gone <= CLASSES_GONE_SHOWN_MAX
        };
        let name = if pool.id() == PoolId::DEFAULT { "" } else { pool.name() };
        PoolSnapshot {
            name: name.to_owned(),
            classes: pool
                .classes()
                .filter(|(id, _)| is_shown(*id))
                .map(|(id, class)| ClassSnapshot {
                    id,
                    is_planned: plan.rank(id).is_some(),
                    class: class.clone(),
                    site: plan.site(class.site).map_or_else(String::new, |site| site.name.clone()),
                    order: order_name(class.order),
                    state: pool.state(id),
                    account: pool.account().classes[id.index()].clone(),
                })
                .collect(),
            adaptive: pool.is_adaptive(),
            shared: pool.is_shared(),
            slots: pool.slots(),
            running: pool.running(),
            lent: pool.lent(),
            waiting: pool.waiting(),
            last_step: pool.last_step(),
            last_server: pool.last_server(),
            shedding: pool.shedding().map(|shedding| SheddingSnapshot {
                overload: shedding.overload(),
                fraction: shedding.fraction(),
            }),
            resources: pool.resources().map(ResourceSnapshot::of).collect(),
            background: pool.background(),
        }
    }

    /// The class called `name`.
    pub fn class(&self, name: &str) -> Option<&ClassSnapshot> {
        self.classes.iter().find(|it| it.class.name == name)
    }
}

impl ResourceSnapshot {
    fn of(state: ResourceState<'_>) -> Self {
        let ResourceState { slots, is_adaptive: adaptive, running, waiting, last_step, .. } = state;
        let name = state.name.to_owned();
        ResourceSnapshot { name, adaptive, slots, running, waiting, last_step }
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
    use tiergate_core::control::Slots;
    use tiergate_core::gate::Arrival;
    use tiergate_core::names::{Names, RuleKey};
    use tiergate_core::plan::Spec;

    #[test]
    fn it_copies_what_the_gate_says_and_at_most_so_many_rules() {
        let mut plan = Spec::protective();
        plan.slots = Slots::Fixed(1);
        plan.rules =
            (1..11 + RULES_SHOWN_MAX as u64).map(|rule| RuleKey::Conditions(rule, 0)).collect();
        plan.rules[3] = "pages".into();
        let mut gate: Gate<()> = Gate::new(plan.build().expect("a valid plan"));
        let arrival = Arrival { rule: Some(RuleId::at(3)), ..Arrival::of(ClassId(0)) };
        for _ in 0..3 {
            // The gate remembers the slot; nothing here gives it back.
            let _verdict = gate.arrive(Moment::ZERO, arrival, || ());
        }
        let snapshot = Snapshot::take(&gate, Moment::from_millis(5));
        assert_eq!(snapshot.rule_hits.len(), RULES_SHOWN_MAX);
        assert_eq!(snapshot.rules, RULES_SHOWN_MAX + 10);
        let hits = &snapshot.rule_hits[2..4];
        assert_eq!(hits, [("3".to_owned(), 0), ("pages".to_owned(), 3)]);
        assert_eq!((snapshot.default.running, snapshot.default.waiting), (1, 2));
        let class = snapshot.default.class("default").expect("the only one");
        assert_eq!((class.state.running, class.state.waiting), (1, 2));
        assert_eq!(class.account.arrived, 3);
        assert!(!snapshot.default.adaptive);
    }
    #[test]
    fn classes_that_are_gone_are_shown_while_they_have_requests_and_at_most_so_many_others() {
        let mut names = Names::default();
        let mut plan = |class: &str| {
            let classes = vec![Class::named(class)];
            let spec = Spec { slots: Slots::Fixed(1), classes, ..Spec::protective() };
            Plan::build(spec, &mut names).expect("a valid plan")
        };
        let mut gate: Gate<()> = Gate::new(plan("held"));
        let _slot = gate.arrive(Moment::ZERO, Arrival::of(ClassId(0)), || ());
        for number in 0..CLASSES_GONE_SHOWN_MAX + 10 {
            gate.reconfigure(Moment::ZERO, plan(&format!("c{number}")));
        }
        let snapshot = Snapshot::take(&gate, Moment::ZERO);
        assert_eq!(snapshot.default.classes.len(), 2 + CLASSES_GONE_SHOWN_MAX);
        assert!(snapshot.default.classes[0].is_planned && snapshot.default.class("c73").is_some());
        assert!(snapshot.default.class("c72").is_some() && snapshot.default.class("c0").is_none());
        assert_eq!(snapshot.default.class("held").map(|it| it.state.requests), Some(1));
    }
}
