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
        let instead = match names.clone().next() {
            Some(_) => instead(name, names),
            None => format!("; there is no {kind}"),
        };
        place.fault(format!("no {kind} is called {:?}{instead}", shortened(name)));
    }
    found
}

/// The ids of a policy's names of one kind.
pub(super) struct Interning<'n, I> {
    names: &'n mut Interned<I>,
    is_full: bool,
}

impl<'n, I: Id> Interning<'n, I> {
    /// Where those names are that the process knows.
    pub(super) fn of(names: &'n mut Interned<I>) -> Self {
        Interning { names, is_full: false }
    }

    /// The id of a name; reports the first for which there is no room.
    pub(super) fn id(&mut self, name: &str, place: &Place) -> I {
        self.names.intern(name).unwrap_or_else(|exhausted| {
            if !std::mem::replace(&mut self.is_full, true) {
                place.fault(exhausted.to_string());
            }
            I::at(0)
        })
    }
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
