//! Doubly linked lists through the entries of a table: an entry's neighbours are named by their index.
//!
//! The links are a table of their own, twelve bytes an entry, so that an entry which leaves its list
//! touches its neighbours in a table that is small enough to be in a near cache.

use std::num::NonZeroU32;

/// No entry.
pub(super) const NONE: u32 = u32::MAX;

/// What is known of an entry beside what it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// Its neighbours in the list that it is in.
    pub(super) previous: u32,
    pub(super) next: u32,
    /// Which of the items that were here one after the other is here now.
    pub(super) generation: NonZeroU32,
}

impl Link {
    /// Of an entry that was in no list yet.
    pub(super) const NEW: Link = Link { previous: NONE, next: NONE, generation: NonZeroU32::MIN };
}

/// Links of further lists of entries that are in lists of their own table: an entry may be in one of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links(Vec<Link>);

impl Links {
    /// Memory that one entry takes.
    pub(crate) const ENTRY_BYTES: usize = size_of::<Link>();

    /// Puts an entry that is in none of these lists at the end of one. O(1).
    pub(crate) fn append(&mut self, list: &mut List, index: u32) {
        if self.0.len() <= index as usize {
            self.0.resize(index as usize + 1, Link::NEW);
        }
        list.append(&mut self.0, index);
    }

    /// Takes an entry out of the list that it is in. O(1).
    pub(crate) fn unlink(&mut self, list: &mut List, index: u32) {
        list.remove(&mut self.0, index);
    }
}

/// A list: its ends and its length. An entry of the table is in one list at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List {
    first: u32,
    last: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        List { first: NONE, last: NONE, len: 0 }
    }
}

impl List {
    /// How many entries are in it.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The entry at its beginning.
    pub(crate) fn first(&self) -> Option<u32> {
        some(self.first)
    }

    /// The entry at its end.
    pub(crate) fn last(&self) -> Option<u32> {
        some(self.last)
    }

    /// Appends an entry that is in no list. O(1).
    pub(super) fn append(&mut self, links: &mut [Link], index: u32) {
        let last = std::mem::replace(&mut self.last, index);
        match last {
            NONE => self.first = index,
            last => links[last as usize].next = index,
        }
        let link = &mut links[index as usize];
        (link.previous, link.next) = (last, NONE);
        self.len += 1;
    }

    /// Puts an entry that is in no list before all others. O(1).
    pub(super) fn prepend(&mut self, links: &mut [Link], index: u32) {
        let first = std::mem::replace(&mut self.first, index);
        match first {
            NONE => self.last = index,
            first => links[first as usize].previous = index,
        }
        let link = &mut links[index as usize];
        (link.previous, link.next) = (NONE, first);
        self.len += 1;
    }

    /// Takes an entry out, which is in this list. O(1).
    pub(super) fn remove(&mut self, links: &mut [Link], index: u32) {
        let Link { previous, next, .. } = links[index as usize];
        match previous {
            NONE => self.first = next,
            previous => links[previous as usize].next = next,
        }
        match next {
            NONE => self.last = previous,
            next => links[next as usize].previous = previous,
        }
        self.len -= 1;
    }
}

/// `None` for [`NONE`].
pub(super) fn some(index: u32) -> Option<u32> {
    (index != NONE).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Two lists over one table, against vectors.
        #[test]
        fn lists_are_in_the_order_of_appending(ops in prop::collection::vec((0_u32..20, 0..2_usize), 1..200)) {
            let mut links = [Link::NEW; 20];
            let mut lists = [List::default(); 2];
            let mut models = [Vec::new(), Vec::new()];
            for (index, to) in ops {
                // One that is in a list leaves it; any other joins one.
                match models.iter().position(|model: &Vec<u32>| model.contains(&index)) {
                    Some(of) => {
                        lists[of].remove(&mut links, index);
                        models[of].retain(|other| *other != index);
                    }
                    None => {
                        lists[to].append(&mut links, index);
                        models[to].push(index);
                    }
                }
                for (list, model) in lists.iter().zip(&models) {
                    prop_assert_eq!(list.len() as usize, model.len());
                    prop_assert_eq!(list.last(), model.last().copied());
                    let next = |&index: &u32| some(links[index as usize].next);
                    let forward: Vec<u32> = std::iter::successors(list.first(), next).collect();
                    prop_assert_eq!(&forward, model);
                    let previous = |&index: &u32| some(links[index as usize].previous);
                    let mut back: Vec<u32> = std::iter::successors(list.last(), previous).collect();
                    back.reverse();
                    prop_assert_eq!(&back, model);
                }
            }
        }
    }
}
