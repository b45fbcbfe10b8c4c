//! A new plan: what goes over into it.

use super::Gate;
use super::generations::Moved;
use crate::account::Account;
use crate::admit::block::Blocking;
use crate::admit::feasible::DrainRate;
use crate::admit::importance::Shedding;
use crate::admit::policer::{self, PolicerId, Policers};
use crate::admit::trigger::Triggers;
use crate::backlog::{Discipline, LISTS, list_of};
use crate::class::ClassId;
use crate::control::Limit;
use crate::cost::Costs;
use crate::plan::Plan;
use crate::schedule::{Load, Schedule};
use crate::time::Moment;

impl<T> Gate<T> {
    /// Puts a new plan in force; nobody waiting or running is lost. Classes are known again by their
    /// names; requests of a class that is gone go on in the least important one.
    ///
    /// The limit found so far is kept as long as `slots` does not change. O(n log n).
    ///
    /// # Panics
    /// If the plan fails [`Plan::check`].
    pub fn reconfigure(&mut self, now: Moment, plan: Plan) {
        if let Err(fault) = plan.check() {
            panic!("an unchecked plan reached the gate: {fault}");
        }
        self.adjustments.advance(now);
        let other_limit = plan.slots != self.base.slots;
        self.base = plan;
        self.adjustments.renumber(&self.base);
        let plan = self.adjustments.over(&self.base);
        let last = ClassId(plan.classes.len() as u16 - 1);
        let place = |name: &str| {
            let found = plan.classes.iter().position(|class| class.name == name);
            found.map_or(last, |place| ClassId(place as u16))
        };
        let moved: Vec<ClassId> =
            self.plan.classes.iter().map(|class| place(&class.name)).collect();

        // A slot that its waiter has not claimed yet will be claimed under the new plan.
        let disciplines = Discipline::of_plan(&plan);
        let unclaimed = self.backlog.reclass(disciplines, |class| moved[class.index()]);
        let policer = |old: &policer::Settings| {
            let same = plan.policers.iter().position(|new| new.name == old.name);
            same.map(|place| PolicerId(place as u16))
        };
        let policers = self.plan.policers.iter().map(policer).collect();
        let numbers = Moved { classes: moved.clone(), policers };
        self.generations.replace(plan.generation, plan.classes.len(), numbers, unclaimed);
        let former = std::mem::replace(&mut self.policers, Policers::new(now, &plan.policers));
        let names = (&plan.policers[..], &self.plan.policers[..]);
        self.policers.inherit(now, names, former, &moved);
        let former = std::mem::replace(&mut self.blocking, plan.block.map(Blocking::new));
        if let Some(former) = former
            && !self.blocking.as_mut().is_some_and(|blocking| blocking.inherit(former))
        {
            self.effects.unblock_all();
        }

        let mut drains = vec![DrainRate::since(now); plan.classes.len() * LISTS];
        let mut loads = vec![Load::default(); plan.classes.len()];
        let (mut requests, mut streams) = (vec![0; loads.len()], vec![0; loads.len()]);
        let mut account = Account::sized(plan.classes.len(), plan.rules);
        for (old, &new) in moved.iter().enumerate() {
            loads[new.index()].waiting += self.loads[old].waiting;
            loads[new.index()].running += self.loads[old].running;
            requests[new.index()] += self.requests[old];
            streams[new.index()] += self.streams[old];
            if plan.classes[new.index()].name == self.plan.classes[old].name {
                account.classes[new.index()] = std::mem::take(&mut self.account.classes[old]);
                for running in [true, false] {
                    drains[list_of(new, running)] =
                        self.drains[list_of(ClassId(old as u16), running)];
                }
            }
        }
        account.unmatched = self.account.unmatched;
        let stays = |(old, new): &(usize, ClassId)| {
            plan.classes[new.index()].name == self.plan.classes[*old].name
        };
        let kept = moved.iter().copied().enumerate().filter(stays);
        let mut costs = Costs::new(plan.cost, plan.classes.len(), plan.rules);
        costs.inherit(&self.costs, kept.map(|(old, new)| (ClassId(old as u16), new)));
        self.costs = costs;
        self.preemptible.reclass(plan.classes.len(), &moved);
        (self.requests, self.streams) = (requests, streams);
        self.loads = loads;
        self.drains = drains;
        self.triggers = Triggers::new(&plan.classes, &self.loads);
        self.account = account;
        self.schedule = Schedule::new(&plan);
        self.since = now;
        self.shedding = plan.shedding.map(|aim| match self.shedding.take() {
            Some(shedding) => shedding.under(aim, plan.classes.len(), &moved),
            None => Shedding::new(now, aim, plan.classes.len()),
        });
        if other_limit {
            self.limit = Limit::new(plan.slots.law(), &plan.slots);
        } else if plan.slots != self.plan.slots {
            self.limit.set_bounds(now, &plan.slots);
        }
        if (0..).zip(&moved).any(|(place, class)| class.0 != place) {
            self.limit.renumbered();
        }
        self.schedule.resume(&self.loads, self.limit.slots());
        self.advance(now);
        self.plan = plan;
        self.dispatch(now);
    }
}
