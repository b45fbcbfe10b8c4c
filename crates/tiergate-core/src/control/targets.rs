//! The service targets of all classes in one pool: the strictest bounds the limit.

use super::law::Completion;
use super::target::{ServiceTarget, Target, TargetState};
use crate::names::ClassId;
use crate::time::Moment;

/// The targets of the classes that have one. Bounded by the classes of a plan.
#[derive(Debug, Default)]
pub(super) struct Targets {
    all: Vec<(ClassId, Target)>,
    /// The least of their bounds. Each step of the limit asks for it.
    most: Option<u32>,
    /// The class whose target came to be missed, or is missed no longer, and which of the two; not said yet.
    news: Option<(ClassId, bool)>,
}

impl Targets {
    /// Other targets; what was found for classes that keep one stays. O(classes²).
    pub(super) fn reconfigure(
        &mut self,
        now: Moment,
        wanted: impl Iterator<Item = (ClassId, ServiceTarget)>,
    ) {
        let mut before = std::mem::take(&mut self.all);
        for (class, settings) in wanted {
            let known = before.iter().position(|(of, _)| *of == class);
            let mut target = match known {
                Some(place) => before.swap_remove(place).1,
                None => Target::new(settings),
            };
            target.reconfigure(now, settings);
            self.all.push((class, target));
        }
        self.look();
    }

    /// The most slots; `None`: no target bounds them.
    pub(super) fn most(&self) -> Option<u32> {
        self.most
    }

    /// How the target of a class fares; `None`: it has none. O(targets).
    pub(super) fn state(&self, class: ClassId) -> Option<TargetState> {
        self.all.iter().find(|(of, _)| *of == class).map(|(_, target)| target.state())
    }

    /// What became of a target last, once: whether that of this class is missed.
    pub(super) fn take_news(&mut self) -> Option<(ClassId, bool)> {
        self.news.take()
    }

    /// The server is away: what is in progress is no evidence.
    pub(super) fn is_away(&mut self, now: Moment) {
        self.all.iter_mut().for_each(|(_, target)| target.is_away(now));
    }

    /// A request has ended while so many slots were in force, of which there are `floor` at least. Whether the bound has
    /// changed. O(targets).
    pub(super) fn finished(&mut self, completion: &Completion<'_>, slots: u32, floor: u32) -> bool {
        let mut is_other = false;
        for (class, target) in &mut self.all {
            if *class != completion.class {
                is_other |= target.passes(completion.now);
                continue;
            }
            let was_missed = target.is_missed();
            is_other |= target.finished(completion, slots, floor);
            if target.is_missed() != was_missed {
                self.news = Some((*class, target.is_missed()));
            }
        }
        is_other && self.look()
    }

    /// A request has ended that is none of theirs here. Whether the bound has changed. O(targets).
    pub(super) fn passes(&mut self, now: Moment) -> bool {
        let passes = |is_other, (_, target): &mut (ClassId, Target)| target.passes(now) | is_other;
        self.all.iter_mut().fold(false, passes) && self.look()
    }

    fn look(&mut self) -> bool {
        let most = self.all.iter().filter_map(|(_, target)| target.most()).min();
        std::mem::replace(&mut self.most, most) != most
    }
}
