//! References by name.

use super::error::{instead, shortened};
use super::place::Place;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::classify::flow::Flow;
use tiergate_core::names::{Id, Interned};
use tiergate_core::plan::Plan;

/// The place of what is called `name` among those of its kind; reports one that does not exist.
pub(super) fn find<'n>(
    kind: &str,
    name: &str,
    names: impl Iterator<Item = &'n str> + Clone,
    place: &Place,
) -> Option<usize> {
    let found = names.clone().position(|known| known == name);
    if found.is_none() {
        let instead = instead(name, names);
        place.fault(format!("no {kind} is called {:?}{instead}", shortened(name)));
    }
    found
}

/// The id of a name; reports that too many names were used since the process began.
pub(super) fn intern<I: Id>(names: &mut Interned<I>, name: &str, place: &Place) -> I {
    names.intern(name).unwrap_or_else(|exhausted| {
        place.fault(exhausted.to_string());
        I::at(0)
    })
}

/// The classes of a policy, most important first.
pub(super) struct Classes {
    pub(super) ids: Vec<ClassId>,
    pub(super) list: Vec<Class>,
    /// What fairness is counted by in each.
    pub(super) flows: Vec<Option<Flow>>,
}

impl Classes {
    /// The class of this name; reports one that does not exist.
    pub(super) fn named(&self, name: &str, place: &Place) -> Option<ClassId> {
        let names = self.list.iter().map(|class| class.name.as_str());
        find("class", name, names, place).map(|index| self.ids[index])
    }
}

/// The name of a class that the plan has.
pub(crate) fn class_name(plan: &Plan, class: ClassId) -> &str {
    plan.class(class).map_or("", |class| &class.name)
}
