//! Ids in a plan's order, and the place of each.

use crate::fault::Fault;
use crate::names::Id;
use std::fmt::Display;

const NONE: u32 = u32::MAX;

/// Which ids a plan has, and in which order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places<I> {
    ids: Vec<I>,
    /// By id: its place, or [`NONE`].
    places: Vec<u32>,
}

impl<I: Id> Places<I> {
    /// Interns names in this order.
    pub(super) fn intern<N: Display>(
        names: impl Iterator<Item = N>,
        mut intern: impl FnMut(&N) -> Result<I, Fault>,
    ) -> Result<Self, Fault> {
        let mut these = Places { ids: Vec::new(), places: Vec::new() };
        for (place, name) in (0..).zip(names) {
            let id = intern(&name)?;
            if these.places.len() <= id.index() {
                these.places.resize(id.index() + 1, NONE);
            }
            if these.places[id.index()] != NONE {
                return Err(Fault::new(format!("two {} are called `{name}`", I::KIND)));
            }
            these.places[id.index()] = place;
            these.ids.push(id);
        }
        Ok(these)
    }

    /// The ids in order.
    pub fn ids(&self) -> &[I] {
        &self.ids
    }

    /// The place of an id, from 0. O(1).
    pub fn place(&self, id: I) -> Option<usize> {
        let place = *self.places.get(id.index())? as usize;
        // Another rule may have had its place in tables, and an unused one has none here.
        (self.ids.get(place) == Some(&id)).then_some(place)
    }
}
