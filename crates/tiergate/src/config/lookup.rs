//! References by name.

use super::error::{instead, shortened};
use super::place::Place;
use tiergate_core::class::{Class, ClassId};

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

/// The class of this name; reports one that does not exist.
pub(super) fn class_named(name: &str, classes: &[Class], place: &Place) -> Option<ClassId> {
    let names = classes.iter().map(|class| class.name.as_str());
    find("class", name, names, place).map(|index| ClassId(index as u16))
}
