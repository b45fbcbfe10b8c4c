//! What is known of former plans: a request classified before a reload, and a slot granted before
//! one, speak of classes by the numbers of their own plan.

use crate::admit::policer::PolicerId;
use crate::class::ClassId;
use std::collections::VecDeque;

/// How many older plans' class numbers stay known. A request is classified and then at once taken
/// to the gate, so that one would do; slots pin their own plan however old.
const GENERATIONS_KEPT: usize = 8;

/// Where what a plan numbers has got to in the next one.
#[derive(Clone, Debug)]
pub(super) struct Moved {
    /// Each class.
    pub(super) classes: Vec<ClassId>,
    /// Each policer; `None`: there is no such policer any more.
    pub(super) policers: Vec<Option<PolicerId>>,
}

/// Numbers of a former plan in terms of the one in force.
#[derive(Debug)]
struct Former {
    generation: u32,
    moved: Moved,
    running: u32,
}

/// The plan in force and those before it.
#[derive(Debug)]
pub(super) struct Generations {
    current: u32,
    /// The least important class of the plan in force.
    last: ClassId,
    /// Slots, and streams, that are out under the plan in force; the rest are counted in `former`.
    running: u32,
    former: VecDeque<Former>,
}

impl Generations {
    /// Begins with a plan of so many classes.
    pub(super) fn new(generation: u32, classes: usize) -> Self {
        let last = ClassId(classes as u16 - 1);
        Generations { current: generation, last, running: 0, former: VecDeque::new() }
    }

    /// A class number of any known plan in terms of the plan in force. An unknown plan's requests
    /// go to the least important class, which can hurt nobody else.
    pub(super) fn translate(&self, generation: u32, class: ClassId) -> ClassId {
        if generation == self.current {
            return class.min(self.last);
        }
        self.former
            .iter()
            .find(|former| former.generation == generation)
            .and_then(|former| former.moved.classes.get(class.index()).copied())
            .unwrap_or(self.last)
    }

    /// A policer's number likewise; `None` if there is no such policer any more.
    pub(super) fn translate_policer(&self, generation: u32, id: PolicerId) -> Option<PolicerId> {
        if generation == self.current {
            return Some(id);
        }
        let former = self.former.iter().find(|former| former.generation == generation)?;
        former.moved.policers.get(id.index()).copied().flatten()
    }

    /// A slot was granted under the plan in force.
    pub(super) fn granted(&mut self) {
        self.running += 1;
    }

    /// A slot that was granted under some plan is back.
    pub(super) fn released(&mut self, generation: u32) {
        if generation == self.current {
            self.running -= 1;
        } else if let Some(former) =
            self.former.iter_mut().find(|former| former.generation == generation)
        {
            former.running -= 1;
            self.forget();
        }
    }

    /// Another plan is in force. `moved`: where each class has got to. `unclaimed`: slots that were
    /// granted and will be claimed under the new plan.
    pub(super) fn replace(
        &mut self,
        generation: u32,
        classes: usize,
        moved: Moved,
        unclaimed: u32,
    ) {
        for former in &mut self.former {
            for class in &mut former.moved.classes {
                *class = moved.classes[class.index()];
            }
            for policer in &mut former.moved.policers {
                *policer = policer.and_then(|id| moved.policers[id.index()]);
            }
        }
        self.former.push_back(Former {
            generation: self.current,
            moved,
            running: self.running - unclaimed,
        });
        self.current = generation;
        self.last = ClassId(classes as u16 - 1);
        self.running = unclaimed;
        self.forget();
    }

    fn forget(&mut self) {
        while self.former.len() > GENERATIONS_KEPT {
            let idle = self.former.iter().position(|former| former.running == 0);
            match idle {
                Some(place) => drop(self.former.remove(place)),
                // Every one of them has a slot out: bounded by the slots.
                None => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(classes: &[u16], policers: &[Option<u16>]) -> Moved {
        Moved {
            classes: classes.iter().map(|&class| ClassId(class)).collect(),
            policers: policers.iter().map(|policer| policer.map(PolicerId)).collect(),
        }
    }

    #[test]
    fn a_class_is_followed_through_reloads_until_it_is_forgotten() {
        let mut generations = Generations::new(0, 2);
        generations.replace(1, 3, moved(&[2, 1], &[Some(1), None]), 0);
        assert_eq!(generations.translate(0, ClassId(0)), ClassId(2));
        assert_eq!(generations.translate(1, ClassId(0)), ClassId(0));
        assert_eq!(generations.translate(1, ClassId(9)), ClassId(2), "no such class");
        assert_eq!(generations.translate_policer(0, PolicerId(0)), Some(PolicerId(1)));
        assert_eq!(generations.translate_policer(0, PolicerId(1)), None);
        assert_eq!(generations.translate_policer(1, PolicerId(1)), Some(PolicerId(1)));
        assert_eq!(generations.translate(7, ClassId(0)), ClassId(2), "no such plan");
        for generation in 2..12 {
            generations.replace(generation, 3, moved(&[1, 0, 2], &[None, Some(0)]), 0);
        }
        assert_eq!(generations.translate(10, ClassId(0)), ClassId(1));
        assert_eq!(generations.translate(0, ClassId(1)), ClassId(2), "forgotten");
        assert_eq!(generations.former.len(), GENERATIONS_KEPT);
    }

    #[test]
    fn a_plan_with_a_slot_out_stays_known() {
        let mut generations = Generations::new(0, 2);
        generations.granted();
        for generation in 1..20 {
            generations.replace(generation, 2, moved(&[0, 1], &[]), 0);
        }
        assert_eq!(generations.translate(0, ClassId(0)), ClassId(0));
        generations.released(0);
        generations.replace(20, 2, moved(&[0, 1], &[]), 0);
        assert_eq!(generations.translate(0, ClassId(0)), ClassId(1), "forgotten");
    }
}
