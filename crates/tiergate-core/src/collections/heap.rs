//! Heaps that can be left from the middle: which item is first by a rank.
//!
//! An item is named by a number and is in one heap at a time of those that are kept together, so that
//! they share one table of where each item stands. Each item stands with its rank, so that sifting
//! reads nothing else; four children stand side by side, so that a level costs two lines of the cache.

use super::table::grown;

const CHILDREN: usize = 4;
/// Items whose memory an empty heap keeps when it is released: 1.5 kB.
const KEPT: usize = 64;
const NOWHERE: u32 = u32::MAX;

/// What comes first: the lowest of the first number, and then of the second.
pub(crate) type Rank = (u64, u64);

#[derive(Clone, Copy, Debug)]
struct Item {
    rank: Rank,
    number: u32,
}

/// Heaps whose items are disjoint, each named by a number. Their memory is kept for the next items.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heaps {
    heaps: Vec<Vec<Item>>,
    /// Where each item stands in the heap that it is in.
    places: Vec<u32>,
}

/// One of the heaps, and where all items stand.
struct Heap<'a> {
    items: &'a mut Vec<Item>,
    places: &'a mut [u32],
}

impl Heaps {
    /// The first of a heap. O(1).
    pub(crate) fn first(&self, heap: u32) -> Option<u32> {
        self.heaps.get(heap as usize)?.first().map(|item| item.number)
    }

    /// Puts an item in, or, if it is in, gives it another rank. O(log n).
    pub(crate) fn put(&mut self, heap: u32, number: u32, rank: Rank) {
        grown(&mut self.heaps, heap as usize);
        if self.places.len() <= number as usize {
            self.places.resize(number as usize + 1, NOWHERE);
        }
        let item = Item { rank, number };
        let place = self.places[number as usize];
        let mut heap = self.heap(heap);
        if place == NOWHERE {
            heap.items.push(item);
            heap.rise(heap.items.len() - 1, item);
        } else {
            heap.seat(place as usize, item);
        }
    }

    /// Takes an item out, if it is in the heap. O(log n).
    pub(crate) fn remove(&mut self, heap: u32, number: u32) {
        let Some(place) = self.places.get_mut(number as usize) else {
            return;
        };
        let place = std::mem::replace(place, NOWHERE);
        if place == NOWHERE {
            return;
        }
        let mut heap = self.heap(heap);
        let last = heap.items.pop().expect("the item is in it");
        if (place as usize) < heap.items.len() {
            heap.seat(place as usize, last);
        }
    }

    /// Gives back memory, if there is much, of a heap that is empty.
    pub(crate) fn release(&mut self, heap: u32) {
        if let Some(items) = self.heaps.get_mut(heap as usize).filter(|it| it.capacity() > KEPT) {
            debug_assert!(items.is_empty());
            *items = Vec::new();
        }
    }

    fn heap(&mut self, heap: u32) -> Heap<'_> {
        Heap { items: &mut self.heaps[heap as usize], places: &mut self.places }
    }
}

impl Heap<'_> {
    /// Puts `item` where another stands, or above or below it.
    fn seat(&mut self, place: usize, item: Item) {
        if item.rank < self.items[place].rank {
            self.rise(place, item);
        } else {
            self.sink(place, item);
        }
    }

    /// Puts `item` at `place`, or above it.
    fn rise(&mut self, mut place: usize, item: Item) {
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.items[parent].rank <= item.rank {
                break;
            }
            self.set(place, self.items[parent]);
            place = parent;
        }
        self.set(place, item);
    }

    /// Puts `item` at `place`, or below it.
    fn sink(&mut self, mut place: usize, item: Item) {
        loop {
            let first = place * CHILDREN + 1;
            let children = first..(first + CHILDREN).min(self.items.len());
            let Some(least) = children.min_by_key(|&child| self.items[child].rank) else {
                break;
            };
            if item.rank <= self.items[least].rank {
                break;
            }
            self.set(place, self.items[least]);
            place = least;
        }
        self.set(place, item);
    }

    fn set(&mut self, place: usize, item: Item) {
        self.items[place] = item;
        self.places[item.number as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Two heaps that are kept together, against sorted maps.
        #[test]
        fn the_first_is_first(ops in prop::collection::vec((0_u32..40, 0_u64..20, 0_u8..3), 1..200)) {
            let mut heaps = Heaps::default();
            let mut models = [BTreeMap::new(), BTreeMap::new()];
            for (number, rank, op) in ops {
                let which = number as usize % 2;
                // Equal ranks do not occur in use; the number tells them apart here.
                let rank = (rank, u64::from(number));
                models[which].retain(|_, other| *other != number);
                if op == 0 {
                    heaps.remove(which as u32, number);
                } else {
                    models[which].insert(rank, number);
                    heaps.put(which as u32, number, rank);
                }
                for (which, model) in (0..).zip(&models) {
                    let first = model.first_key_value().map(|(_, number)| *number);
                    prop_assert_eq!(heaps.first(which), first);
                    if model.is_empty() {
                        heaps.release(which);
                    }
                }
            }
            for (which, model) in (0..).zip(models) {
                for number in model.into_values() {
                    prop_assert_eq!(heaps.first(which), Some(number));
                    heaps.remove(which, number);
                }
                prop_assert_eq!(heaps.first(which), None);
            }
        }
    }
}
