//! Triggers: a class is refused while some backlog is long, so that the classes above it wait less.
//!
//! A trigger names a backlog (of one class, of several, of all) and a length at which the class begins
//! to be refused; it goes on until the backlog is shorter than a second length. With both the same this
//! is WebQoS's rule: "until the total number of queued requests falls below j".
//!
//! Source: WebQoS §4.3 (j of all queued, k of premium queued). Any backlog and hysteresis: ours.

use crate::class::{Class, ClassId};
use crate::schedule::Load;

/// Classes whose waiting requests are counted together: one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlogs(u64);

impl Backlogs {
    /// Every class.
    pub const ALL: Backlogs = Backlogs(u64::MAX);
    /// No class.
    pub const NONE: Backlogs = Backlogs(0);

    /// These, and this class.
    #[must_use]
    pub const fn and(self, class: ClassId) -> Self {
        Backlogs(self.0 | 1 << class.0)
    }

    /// Whether this class is one of them.
    pub const fn has(self, class: ClassId) -> bool {
        self.0 & 1 << class.0 != 0
    }

    /// How many requests of these wait. O(classes).
    fn waiting(self, loads: &[Load]) -> u32 {
        let counted = |(index, load): (usize, &Load)| {
            if self.has(ClassId(index as u16)) { load.waiting } else { 0 }
        };
        loads.iter().enumerate().map(counted).sum()
    }
}

/// When a class is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Whose waiting requests count.
    pub of: Backlogs,
    /// From so many waiting on; at least 1.
    pub waiting: u32,
    /// Until there are fewer than so many; 1 to `waiting`.
    pub until: u32,
}

impl Trigger {
    /// Most triggers of one class.
    pub const COUNT_MAX: usize = 8;
}

#[derive(Clone, Debug)]
struct Watch {
    class: ClassId,
    trigger: Trigger,
    pulled: bool,
}

/// All classes' triggers, and which are pulled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Triggers {
    watches: Vec<Watch>,
    /// How many of each class's triggers are pulled.
    pulled: Vec<u8>,
}

impl Triggers {
    /// The triggers of these classes, with these requests waiting. What was pulled before is pulled if
    /// the backlog is long enough to begin.
    pub(crate) fn new(classes: &[Class], loads: &[Load]) -> Self {
        let mut triggers = Triggers { watches: Vec::new(), pulled: vec![0; classes.len()] };
        for (index, class) in classes.iter().enumerate() {
            let class_id = ClassId(index as u16);
            triggers.watches.extend(class.refuse_at.iter().map(|&trigger| Watch {
                class: class_id,
                trigger,
                pulled: false,
            }));
        }
        for class in 0..classes.len() as u16 {
            triggers.changed(ClassId(class), loads);
        }
        triggers
    }

    /// Whether the class is refused now. O(1).
    pub(crate) fn bars(&self, class: ClassId) -> bool {
        self.pulled[class.index()] > 0
    }

    /// For each reason that the class is refused for now: whose backlog must become shorter, and by how
    /// many requests, until it is not.
    pub(crate) fn excess(
        &self,
        class: ClassId,
        loads: &[Load],
    ) -> impl Iterator<Item = (Backlogs, u32)> {
        let pulled = self.watches.iter().filter(move |it| it.class == class && it.pulled);
        pulled.map(move |watch| {
            let waiting = watch.trigger.of.waiting(loads);
            (watch.trigger.of, (waiting + 1).saturating_sub(watch.trigger.until))
        })
    }

    /// More or fewer of the class wait. O(triggers × classes); nothing where there are none.
    pub(crate) fn changed(&mut self, class: ClassId, loads: &[Load]) {
        for watch in self.watches.iter_mut().filter(|watch| watch.trigger.of.has(class)) {
            let waiting = watch.trigger.of.waiting(loads);
            let pulled = match watch.pulled {
                true => waiting >= watch.trigger.until,
                false => waiting >= watch.trigger.waiting,
            };
            if pulled != watch.pulled {
                watch.pulled = pulled;
                let count = &mut self.pulled[watch.class.index()];
                *count = if pulled { *count + 1 } else { *count - 1 };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(waiting: [u32; 3]) -> Vec<Load> {
        waiting.map(|waiting| Load { waiting, ..Load::default() }).to_vec()
    }

    #[test]
    fn it_begins_at_one_length_and_ends_below_another() {
        let mut classes = ["a", "b", "c"].map(Class::named);
        let of = Backlogs::NONE.and(ClassId(0)).and(ClassId(1));
        classes[2].refuse_at = vec![Trigger { of, waiting: 10, until: 4 }];
        let mut triggers = Triggers::new(&classes, &loads([0; 3]));
        let mut bars = |waiting, changed| {
            triggers.changed(ClassId(changed), &loads(waiting));
            [0, 1, 2].map(|class| triggers.bars(ClassId(class)))
        };
        assert_eq!(bars([5, 4, 99], 1), [false; 3], "c's own does not count");
        assert_eq!(bars([5, 5, 99], 1), [false, false, true]);
        assert_eq!(bars([0, 4, 0], 0), [false, false, true]);
        assert_eq!(bars([0, 3, 0], 1), [false; 3]);
        assert_eq!(bars([5, 4, 0], 0), [false; 3]);
    }
}
