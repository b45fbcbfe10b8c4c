//! A slab: items in one table whose places are reused, and the links of lists through them.
//!
//! An item is named by its index while its owner knows that it is there, and by a [`Key`] where it may be
//! gone: a place's generation changes when its item is removed, so that an older key finds nothing.

use super::list::{Link, List, NONE, some};
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// Names an item for as long as it is in the slab, and nothing after that: until its place has been
/// reused 2³² times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    index: u32,
    generation: NonZeroU32,
}

impl Key {
    /// Where the item is, if it is still there.
    pub(crate) fn index(self) -> u32 {
        self.index
    }
}

/// The items, each of which may be in one [`List`] of the slab. Its memory is kept for the next items.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    items: Vec<Option<T>>,
    /// Of a free place: the next free one.
    links: Vec<Link>,
    free: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { items: Vec::new(), links: Vec::new(), free: NONE }
    }
}

impl<T> Slab<T> {
    /// Memory that one item takes, in a table that is as large as it need be.
    pub(crate) const ITEM_BYTES: usize = size_of::<Option<T>>() + size_of::<Link>();

    /// An empty one with room for so many items.
    pub(crate) fn with_capacity(items: usize) -> Self {
        Slab { items: Vec::with_capacity(items), links: Vec::with_capacity(items), free: NONE }
    }

    /// Adds an item, in no list yet. O(1).
    ///
    /// # Panics
    /// If 2³² - 1 items are in it.
    pub(crate) fn insert(&mut self, item: T) -> Key {
        if self.free == NONE {
            assert!(self.items.len() < NONE as usize, "callers' bounds fit in 32 bits");
            self.free = self.items.len() as u32;
            self.items.push(None);
            self.links.push(Link::NEW);
        }
        let index = self.free;
        self.free = self.links[index as usize].next;
        self.items[index as usize] = Some(item);
        self.key(index)
    }

    /// Removes an item that is in no list, or in one that is given up as a whole. O(1).
    ///
    /// # Panics
    /// If there is no such item.
    pub(crate) fn remove(&mut self, index: u32) -> T {
        let item = self.items[index as usize].take().expect("what is removed is there");
        let link = &mut self.links[index as usize];
        link.generation = link.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        link.next = std::mem::replace(&mut self.free, index);
        item
    }

    /// What names the item later.
    pub(crate) fn key(&self, index: u32) -> Key {
        Key { index, generation: self.links[index as usize].generation }
    }

    /// The item of the key, unless it is gone. O(1).
    pub(crate) fn find(&self, key: Key) -> Option<&T> {
        let link = self.links.get(key.index as usize)?;
        self.items[key.index as usize].as_ref().filter(|_| link.generation == key.generation)
    }

    /// The same, to be changed.
    pub(crate) fn find_mut(&mut self, key: Key) -> Option<&mut T> {
        let link = self.links.get(key.index as usize)?;
        self.items[key.index as usize].as_mut().filter(|_| link.generation == key.generation)
    }

    /// Every item with its index.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        (0..).zip(&mut self.items).filter_map(|(index, item)| Some((index, item.as_mut()?)))
    }

    /// Puts an item that is in no list at the end of one. O(1).
    pub(crate) fn append(&mut self, list: &mut List, index: u32) {
        list.append(&mut self.links, index);
    }

    /// Puts an item that is in no list at the beginning of one. O(1).
    pub(crate) fn prepend(&mut self, list: &mut List, index: u32) {
        list.prepend(&mut self.links, index);
    }

    /// Takes an item out of the list that it is in. O(1).
    pub(crate) fn unlink(&mut self, list: &mut List, index: u32) {
        list.remove(&mut self.links, index);
    }

    /// The item behind this one in its list.
    pub(crate) fn next(&self, index: u32) -> Option<u32> {
        some(self.links[index as usize].next)
    }

    /// The item before this one in its list.
    pub(crate) fn previous(&self, index: u32) -> Option<u32> {
        some(self.links[index as usize].previous)
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        self.items[index as usize].as_ref().expect("an index names an item")
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        self.items[index as usize].as_mut().expect("an index names an item")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn a_key_is_no_larger_where_there_may_be_none() {
        assert_eq!(size_of::<Option<Key>>(), 8);
    }

    #[test]
    fn places_are_reused_and_old_keys_find_nothing() {
        let mut slab = Slab::default();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first.index()), "first");
        let second = slab.insert("second");
        assert_eq!(second.index(), first.index());
        assert_eq!((slab.find(first), slab.find(second)), (None, Some(&"second")));
    }

    proptest! {
        /// Against a map of every key that was ever given out.
        #[test]
        fn it_is_a_map(ops in prop::collection::vec((any::<bool>(), 0_usize..1000), 1..200)) {
            let mut slab = Slab::default();
            let (mut model, mut keys) = (HashMap::new(), Vec::new());
            for (is_insertion, number) in ops {
                if is_insertion || keys.is_empty() {
                    let key = slab.insert(number);
                    prop_assert_eq!(model.insert(key, number), None, "never given out before");
                    keys.push(key);
                } else {
                    let key = keys[number % keys.len()];
                    if let Some(known) = model.remove(&key) {
                        prop_assert_eq!(slab.remove(key.index()), known);
                    }
                }
                for key in &keys {
                    prop_assert_eq!(slab.find(*key), model.get(key));
                }
                prop_assert_eq!(slab.iter_mut().count(), model.len());
                let most = keys.iter().map(|key| key.index()).max().expect("one at least");
                prop_assert!((most as usize) < keys.len());
            }
        }
    }
}
