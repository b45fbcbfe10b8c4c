//! The triggers of all classes, and which are pulled.

use super::trigger::{Backlogs, Trigger};
use crate::names::ClassId;
use crate::plan::Plan;
use crate::schedule::Load;

/// The classes of a plan that are counted together: one bit for each rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted(u64);

impl Counted {
    const ALL: Counted = Counted(u64::MAX);

    fn of(of: &Backlogs, plan: &Plan) -> Self {
        match of {
            Backlogs::All => Counted::ALL,
            Backlogs::Of(ids) => {
                let ranks = ids.iter().filter_map(|id| plan.rank(*id));
                Counted(ranks.fold(0, |ranks, rank| ranks | 1 << rank))
            }
        }
    }

    /// Whether the class of this rank counts. Those that are gone rank last, and count among all.
    pub(crate) fn has(self, rank: usize) -> bool {
        self == Counted::ALL || rank < 64 && self.0 & 1 << rank != 0
    }

    /// How many requests wait, those left out that stand apart: what they wait for concerns no others. O(classes).
    fn waiting(self, loads: &[Load]) -> u32 {
        let counted = loads.iter().enumerate().filter(|(rank, _)| self.has(*rank));
        counted.map(|(_, load)| load.all_waiting() - load.apart).sum()
    }
}

/// A class's trigger, and whether it is pulled.
#[derive(Clone, Debug)]
struct Watch {
    class: ClassId,
    rank: usize,
    trigger: Trigger,
    of: Counted,
    pulled: bool,
}

/// All classes' triggers, and which are pulled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Triggers {
    watches: Vec<Watch>,
    /// By rank: how many of the class's triggers are pulled.
    pulled: Vec<u8>,
}

impl Triggers {
    /// Puts a plan's triggers in force, with these requests waiting. A trigger that stays, of a class that
    /// stays, stays pulled until its backlog is short enough.
    pub(crate) fn reconfigure(&mut self, plan: &Plan, loads: &[Load]) {
        let former = std::mem::take(&mut self.watches);
        self.pulled = vec![0; loads.len()];
        for (rank, (id, class)) in plan.class_ids().iter().zip(&plan.classes).enumerate() {
            for trigger in &class.refuse_at {
                let same = |it: &&Watch| it.class == *id && it.trigger == *trigger;
                let pulled = former.iter().find(same).is_some_and(|it| it.pulled);
                self.pulled[rank] += u8::from(pulled);
                let of = Counted::of(&trigger.of, plan);
                self.watches.push(Watch { class: *id, rank, trigger: trigger.clone(), of, pulled });
            }
        }
        (0..loads.len()).for_each(|rank| self.changed(rank, loads));
    }

    /// Whether the class is refused now. O(1).
    pub(crate) fn bars(&self, rank: usize) -> bool {
        // A class that came back from among those that are gone has no triggers.
        self.pulled.get(rank).is_some_and(|&pulled| pulled > 0)
    }

    /// Whether the class's own requests count for each reason that it is refused for now.
    pub(crate) fn are_own(&self, rank: usize) -> bool {
        let pulled = self.watches.iter().filter(|it| it.rank == rank && it.pulled);
        pulled.into_iter().all(|watch| watch.of.has(rank))
    }

    /// For each reason that the class is refused for now: whose backlog must become shorter, and by how
    /// many requests, until it is not.
    pub(crate) fn excess(
        &self,
        rank: usize,
        loads: &[Load],
    ) -> impl Iterator<Item = (Counted, u32)> {
        let pulled = self.watches.iter().filter(move |it| it.rank == rank && it.pulled);
        pulled.map(move |watch| {
            let waiting = watch.of.waiting(loads);
            (watch.of, (waiting + 1).saturating_sub(watch.trigger.until))
        })
    }

    /// More or fewer of the class wait. O(triggers × classes); nothing where there are none.
    pub(crate) fn changed(&mut self, rank: usize, loads: &[Load]) {
        for watch in self.watches.iter_mut().filter(|watch| watch.of.has(rank)) {
            let waiting = watch.of.waiting(loads);
            let pulled = match watch.pulled {
                true => waiting >= watch.trigger.until,
                false => waiting >= watch.trigger.waiting,
            };
            if pulled != watch.pulled {
                watch.pulled = pulled;
                let count = &mut self.pulled[watch.rank];
                *count = if pulled { *count + 1 } else { *count - 1 };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::names::Names;
    use crate::plan::Spec;

    fn loads(waiting: [u32; 3]) -> Vec<Load> {
        waiting.map(|waiting| Load { waiting, ..Load::default() }).to_vec()
    }

    #[test]
    fn it_begins_at_one_length_and_ends_below_another_and_a_reload_keeps_it() {
        let mut names = Names::default();
        let mut plan = |order: [&str; 3]| {
            let mut classes = order.map(Class::named).to_vec();
            let of = Backlogs::Of(vec![ClassId(0), ClassId(1)]);
            let c = classes.iter().position(|class| class.name == "c").unwrap();
            classes[c].refuse_at = vec![Trigger { of, waiting: 10, until: 4 }];
            Plan::build(Spec { classes, ..Spec::protective() }, &mut names).unwrap()
        };
        let mut triggers = Triggers::default();
        triggers.reconfigure(&plan(["a", "b", "c"]), &loads([0; 3]));
        let bars = |triggers: &mut Triggers, waiting, changed| {
            triggers.changed(changed, &loads(waiting));
            [0, 1, 2].map(|rank| triggers.bars(rank))
        };
        assert_eq!(bars(&mut triggers, [5, 4, 99], 1), [false; 3], "c's own does not count");
        assert_eq!(bars(&mut triggers, [5, 5, 99], 1), [false, false, true]);
        assert_eq!(bars(&mut triggers, [0, 4, 0], 0), [false, false, true]);
        triggers.reconfigure(&plan(["b", "c", "a"]), &loads([4, 0, 0]));
        assert_eq!(bars(&mut triggers, [4, 0, 0], 0), [false, true, false]);
        assert_eq!(bars(&mut triggers, [0, 99, 3], 2), [false; 3]);
        assert_eq!(bars(&mut triggers, [5, 0, 4], 0), [false; 3]);
    }
}
