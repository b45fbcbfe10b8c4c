//! References by name.

use super::error::{instead, shortened};
use super::place::Place;
use tiergate_core::names::{Id, Interned};

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
