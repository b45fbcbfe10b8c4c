//! A heap that can be left from the middle: who is first by a rank, of waiters or of flows.
//!
//! Each item stands with its rank, so that sifting reads nothing else; four children stand side by
//! side, so that a level costs two lines of the cache. Where an item stands is kept outside, by
//! number, so that many heaps whose items are disjoint share one table of places.

const CHILDREN: usize = 4;
/// Items whose memory an empty heap keeps when it rests: 1.5 kB.
const KEPT: usize = 64;
const NOWHERE: u32 = u32::MAX;

/// What comes first: the lowest of the first number, and then of the second.
pub(super) type Rank = (u64, u64);

/// Where each item stands in the heap that it is in.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<u32>);

#[derive(Clone, Copy, Debug)]
struct Item {
    rank: Rank,
    number: u32,
}

/// The heap. Its memory is kept for the next items.
#[derive(Clone, Debug, Default)]
pub(super) struct Heap(Vec<Item>);

impl Places {
    fn set(&mut self, number: u32, place: usize) {
        if self.0.len() <= number as usize {
            self.0.resize(number as usize + 1, NOWHERE);
        }
        self.0[number as usize] = place as u32;
    }

    fn of(&self, number: u32) -> Option<usize> {
        self.0.get(number as usize).filter(|&&place| place != NOWHERE).map(|&place| place as usize)
    }
}

impl Heap {
    /// The first. O(1).
    pub(super) fn top(&self) -> Option<u32> {
        self.0.first().map(|item| item.number)
    }

    /// Puts an item in, or, if it is in, gives it another rank. O(log n).
    pub(super) fn put(&mut self, places: &mut Places, number: u32, rank: Rank) {
        let item = Item { rank, number };
        match places.of(number) {
            Some(place) if rank < self.0[place].rank => self.rise(places, place, item),
            Some(place) => self.sink(places, place, item),
            None => {
                self.0.push(item);
                self.rise(places, self.0.len() - 1, item);
            }
        }
    }

    /// Takes an item out, if it is in. O(log n).
    pub(super) fn remove(&mut self, places: &mut Places, number: u32) {
        let Some(place) = places.of(number) else {
            return;
        };
        places.set(number, NOWHERE as usize);
        let last = self.0.pop().expect("the item is in it");
        if place == self.0.len() {
            return;
        }
        if last.rank < self.0[place].rank {
            self.rise(places, place, last);
        } else {
            self.sink(places, place, last);
        }
    }

    /// Gives back memory, if there is much, of a heap that is empty.
    pub(super) fn rest(&mut self) {
        debug_assert!(self.0.is_empty());
        if self.0.capacity() > KEPT {
            self.0 = Vec::new();
        }
    }

    /// Puts `item` at `place`, or above it.
    fn rise(&mut self, places: &mut Places, mut place: usize, item: Item) {
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.0[parent].rank <= item.rank {
                break;
            }
            self.seat(places, place, self.0[parent]);
            place = parent;
        }
        self.seat(places, place, item);
    }

    /// Puts `item` at `place`, or below it.
    fn sink(&mut self, places: &mut Places, mut place: usize, item: Item) {
        loop {
            let first = place * CHILDREN + 1;
            let children = first..(first + CHILDREN).min(self.0.len());
            let Some(least) = children.min_by_key(|&child| self.0[child].rank) else {
                break;
            };
            if item.rank <= self.0[least].rank {
                break;
            }
            self.seat(places, place, self.0[least]);
            place = least;
        }
        self.seat(places, place, item);
    }

    fn seat(&mut self, places: &mut Places, place: usize, item: Item) {
        self.0[place] = item;
        places.set(item.number, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Two heaps that share a table of places, against sorted maps.
        #[test]
        fn the_first_is_first(ops in prop::collection::vec((0_u32..40, 0_u64..20, 0_u8..3), 1..200)) {
            let mut places = Places::default();
            let mut heaps = [Heap::default(), Heap::default()];
            let mut models = [BTreeMap::new(), BTreeMap::new()];
            for (number, rank, op) in ops {
                let which = number as usize % 2;
                // Equal ranks do not occur in use; the number tells them apart here.
                let rank = (rank, u64::from(number));
                if op == 0 {
                    heaps[which].remove(&mut places, number);
                    models[which].retain(|_, other| *other != number);
                } else {
                    models[which].retain(|_, other| *other != number);
                    models[which].insert(rank, number);
                    heaps[which].put(&mut places, number, rank);
                }
                for which in 0..2 {
                    let first = models[which].first_key_value().map(|(_, number)| *number);
                    prop_assert_eq!(heaps[which].top(), first);
                    prop_assert_eq!(heaps[which].0.len(), models[which].len());
                }
            }
        }
    }
}
