//! References by name.

use super::error::{instead, shortened};
use super::place::Place;

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
