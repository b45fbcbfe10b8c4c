//! A new plan: it adds, changes, and lets go by attrition.
//!
//! Everything that is known is kept by id, so that it stays where it is: who waits and runs, what was
//! learned (costs, drain rates, the limit), given (tokens, tags, balances) and counted. A class that is gone
//! keeps what waits and runs in it until that has ended, in its own queue, served after all others. So does a pool:
//! what waits for its slots still gets them, by the limit that it had, since its requests belong to its servers.

use super::{Gate, Pool};
use crate::admit::block::Blocking;
use crate::admit::importance::Shedding;
use crate::backlog::Discipline;
use crate::control::Slots;
use crate::names::{ClassId, PoolId};
use crate::plan::Plan;
use crate::time::Moment;
use std::mem::discriminant;
use std::time::Duration;

impl<T> Gate<T> {
    /// Puts a new plan in force; nobody waiting or running is lost. The limit that each pool has found is kept as
    /// long as its `slots` does not change. O(pools × classes²), and O(n log n) of classes whose order changes.
    pub fn reconfigure(&mut self, now: Moment, plan: Plan) {
        let now = self.common.latest(now);
        self.let_time_pass(now);
        self.adjustments.advance(now);
        self.make_pools(&plan);
        self.steer_by(&plan);
        let plan = self.adjustments.rebase(plan);
        let given = &self.adjustments.base().slots;
        if plan.slots != *given || self.common.plan.slots != *given {
            self.pools[PoolId::DEFAULT.index()].limit.set_bounds(now, &plan.slots);
        }
        self.put_in_force(now, plan);
    }

    /// Adds the pools that are new; the limit of one that is known begins anew if it is set in another way.
    pub(super) fn make_pools(&mut self, plan: &Plan) {
        for id in plan.pool_ids() {
            let slots = plan.pool_slots(*id).expect("the plan has the pool");
            // An id between may belong to a plan that never came in force: its pool stays empty.
            while self.pools.len() <= id.index() {
                let next = PoolId(self.pools.len() as u16);
                let mut pool = Pool::new(next, plan, slots, slots.law());
                pool.limit.set_clock(self.common.ahead);
                self.pools.push(pool);
            }
            let pool = &mut self.pools[id.index()];
            if pool.given != *slots {
                pool.given = slots.clone();
                pool.limit.reconfigure(slots);
            }
            pool.is_per_server = plan.is_per_server(*id);
        }
    }

    /// A pool has so many slots from now on, until a plan says otherwise. O(classes).
    pub(crate) fn set_slots(&mut self, now: Moment, pool: PoolId, slots: u32) {
        let (now, pool, common) = self.at(now, pool);
        pool.let_time_pass(now);
        pool.given = Slots::Fixed(slots);
        pool.limit.set_bounds(now, &pool.given);
        pool.dispatch(common, now);
    }

    /// Lets time pass in every pool.
    pub(super) fn let_time_pass(&mut self, now: Moment) {
        self.pools.iter_mut().for_each(|pool| pool.let_time_pass(now));
    }

    /// Puts every part under a plan, but for the limits, and gives the slots that are free by it.
    pub(super) fn put_in_force(&mut self, now: Moment, plan: Plan) {
        let Gate { pools, common, .. } = self;
        pools.iter_mut().for_each(|pool| pool.is_planned = false);
        for id in plan.pool_ids() {
            let name = plan.pool_name(*id).expect("the plan has the pool");
            let pool = &mut pools[id.index()];
            (pool.is_planned, pool.name) = (true, name.into());
        }
        let former = std::mem::replace(&mut common.plan, plan);
        let plan = &common.plan;
        pools.iter_mut().for_each(|pool| pool.put_in_force(now, &former, plan, common.ahead));
        let policers = plan.policer_ids().iter().copied().zip(&plan.policers);
        common.policers.reconfigure(now, policers, plan.site_policer);
        common.adapting.reconfigure(now, plan);
        let is_kept = match (&mut common.blocking, plan.block) {
            (Some(blocking), Some(settings)) => blocking.reconfigure(settings),
            (blocking, settings) => {
                std::mem::replace(blocking, settings.map(Blocking::new)).is_none()
            }
        };
        if !is_kept {
            common.effects.unblock_all();
        }
        pools.iter_mut().for_each(|pool| pool.dispatch(common, now));
    }
}

impl<T> Pool<T> {
    /// Puts every part under a plan, but for the limit. A pool that is gone from the plan goes on with its
    /// classes.
    fn put_in_force(&mut self, now: Moment, former: &Plan, plan: &Plan, ahead: Duration) {
        self.set_servers_in_force(now);
        self.classes.reconfigure(now, plan, |class| is_charged_alike(former, plan, class));
        self.reconfigure_resources(now, plan, ahead);
        self.reconfigure_background(now);
        for (id, class) in plan.class_ids().iter().zip(&plan.classes) {
            for lane in self.lanes.of_class(*id) {
                self.backlog.reconfigure(lane, Discipline::of_plan(plan, class));
                self.slow.make_room(lane.index());
                self.slow_beside.make_room(lane.index());
            }
            self.preemptible.make_room(id.index());
        }
        let (classes, rules) = (plan.class_ids(), plan.rule_ids());
        self.costs.reconfigure(plan.cost, classes, rules);
        self.account.reconfigure(classes, rules);
        // A rule without a name is shown by its number: under another number its count begins anew, or
        // that number's count would jump.
        for &rule in rules {
            let [before, after] = [former, plan].map(|plan| plan.rule(rule));
            if after.is_some_and(|label| label.name.is_none())
                && before != after
                && let Some(hits) = self.account.rule_hits.get_mut(rule)
            {
                *hits = 0;
            }
        }
        match (&mut self.shedding, plan.shedding) {
            (Some(shedding), Some(aim)) => shedding.reconfigure(aim, classes),
            (shedding, aim) => *shedding = aim.map(|aim| Shedding::new(now, aim, classes)),
        }
        self.triggers.reconfigure(plan, self.classes.loads());
        self.set_targets(now, plan);
        self.schedule.reconfigure(now, plan, self.classes.loads(), self.limit.slots());
    }
}

impl<T> Pool<T> {
    /// Puts the classes' service targets in force, where the number of slots is found while serving.
    fn set_targets(&mut self, now: Moment, plan: &Plan) {
        let targets = |is_adaptive: bool| {
            let classes = plan.class_ids().iter().zip(&plan.classes).filter(move |_| is_adaptive);
            classes.filter_map(|(id, class)| Some((*id, class.service_target?)))
        };
        self.limit.set_targets(now, targets(self.is_adaptive()));
        for resource in self.resources.iter_mut() {
            resource.limit.set_targets(now, targets(resource.is_adaptive()));
        }
    }
}

/// Whether what the schedule was told of a class's grants under the former plan means the same under the
/// new one.
fn is_charged_alike(former: &Plan, new: &Plan, class: ClassId) -> bool {
    let of = |plan: &Plan| {
        let class = plan.class(class)?;
        let between = (plan.sites.len() > 1).then_some(discriminant(&plan.between_sites));
        Some((plan.cost, class.site, discriminant(&plan.site_of(class).policy), between))
    };
    of(former).is_some() && of(former) == of(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::gate::{Arrival, Claim, Verdict};
    use crate::names::{Names, RuleKey};
    use crate::outcome::{End, Outcome};
    use crate::plan::Spec;
    use crate::reason::Reason;
    use crate::schedule::Costing;

    #[test]
    fn costs_by_rule_survive_another_order_of_rules_and_classes() {
        let mut names = Names::default();
        let mut plan = |classes: &[&str], rules: &[&str]| {
            let classes = classes.iter().map(|name| Class::named(*name)).collect();
            let rules = rules.iter().map(|rule| (*rule).into()).collect();
            let spec = Spec { classes, rules, ..Spec::protective() };
            Plan::build(spec, &mut names).expect("a valid plan")
        };
        let mut gate: Gate<()> = Gate::new(plan(&["a", "b"], &["fast", "slow"]));
        let [fast, slow] = [0, 1].map(|place| gate.plan().rule_ids()[place]);
        let class = ClassId(1);
        let mut now = Moment::ZERO;
        for (rule, millis) in [(fast, 10), (slow, 500)] {
            let arrival = Arrival { rule: Some(rule), ..Arrival::of(class) };
            let Verdict::Admit(slot) = gate.arrive(now, arrival, || ()) else { panic!("free") };
            now = now + Duration::from_millis(millis);
            gate.finish(now, slot, Outcome::without_answer(End::Served));
        }
        gate.reconfigure(now, plan(&["new", "b", "a"], &["first", "slow", "second", "fast"]));
        let learned = |rule| gate.pools[0].costs.estimate(class, Some(rule), 1);
        assert_eq!([fast, slow].map(learned), [0.01, 0.5]);
        assert_eq!(gate.plan().rule(fast).map(|rule| rule.number), Some(4));
        assert_eq!(
            [fast, slow].map(|rule| *gate.account().rule_hits.get(rule).expect("a hit")),
            [1, 1]
        );
    }

    #[test]
    fn a_rule_without_a_name_counts_anew_under_another_number() {
        let mut names = Names::default();
        let mut plan = |rules: &[u64]| {
            let rules = rules.iter().map(|rule| RuleKey::Conditions(*rule, 0)).collect();
            Plan::build(Spec { rules, ..Spec::protective() }, &mut names).expect("a valid plan")
        };
        let mut gate: Gate<()> = Gate::new(plan(&[1, 2]));
        let [one, two] = [0, 1].map(|place| gate.plan().rule_ids()[place]);
        for rule in [one, one, two] {
            let arrival = Arrival { rule: Some(rule), ..Arrival::of(ClassId(0)) };
            let _ = gate.arrive(Moment::ZERO, arrival, || ());
        }
        let hits = |gate: &Gate<()>| {
            [one, two].map(|rule| *gate.account().rule_hits.get(rule).expect("a hit"))
        };
        gate.reconfigure(Moment::ZERO, plan(&[1, 2, 3]));
        assert_eq!(hits(&gate), [2, 1]);
        gate.reconfigure(Moment::ZERO, plan(&[1, 4, 2]));
        assert_eq!(hits(&gate), [2, 0]);
    }

    #[test]
    fn a_rule_that_gets_the_place_of_another_inherits_nothing_and_is_charged_for_nobody() {
        let mut names = Names::default();
        let mut plan = |rule: RuleKey| {
            let spec = Spec { rules: vec![rule], slots: Slots::Fixed(1), ..Spec::protective() };
            let cost = Costing::Seconds;
            Plan::build(Spec { cost, ..spec }, &mut names).expect("a valid plan")
        };
        let mut gate: Gate<()> = Gate::new(plan(RuleKey::Conditions(0, 0)));
        let former = gate.plan().rule_ids()[0];
        let by = |rule| Arrival { rule, ..Arrival::of(ClassId(0)) };
        let served = || Outcome::without_answer(End::Served);
        let mut now = Moment::ZERO;
        for (rule, millis) in [(Some(former), 500), (None, 100)] {
            let Verdict::Admit(slot) = gate.arrive(now, by(rule), || ()) else { panic!("free") };
            now = now + Duration::from_millis(millis);
            gate.finish(now, slot, served());
        }
        let own = by(Some(former));
        let Verdict::Admit(slot) = gate.arrive(now, own, || ()) else { panic!("free") };
        let Verdict::Queue(ticket) = gate.arrive(now, own, || ()) else { panic!("full") };
        for hash in 1..4 {
            gate.reconfigure(now, plan(RuleKey::Conditions(hash, 0)));
            gate.refuse(by(Some(gate.plan().rule_ids()[0])), Reason::Rule);
        }
        let rule = gate.plan().rule_ids()[0];
        assert_eq!((rule.index(), gate.plan().rule(former)), (former.index(), None));
        let estimate = |gate: &Gate<()>, rule| gate.pools[0].costs.estimate(ClassId(0), rule, 1);
        assert_eq!(estimate(&gate, Some(rule)), 0.3, "its class's");
        // One runs and one waits by the former rule, and one comes that was classified by it.
        now = now + Duration::from_secs(1);
        gate.finish(now, slot, served());
        let Claim::Admitted(slot) = gate.claim(ticket) else { panic!("its turn") };
        gate.refuse(own, Reason::Rule);
        now = now + Duration::from_secs(1);
        gate.finish(now, slot, served());
        assert_eq!(estimate(&gate, Some(rule)), estimate(&gate, None));
        assert_eq!(gate.account().rule_hits.get(rule), Some(&1), "its own");
        assert_eq!(gate.account().unmatched, 1);
        // A rule with a name gets the place of the second, which had a hit.
        gate.reconfigure(now, plan("named".into()));
        let named = gate.plan().rule_ids()[0];
        assert_eq!((named.index(), gate.account().rule_hits.get(named)), (1, Some(&0)));
    }
}
