//! The earliest of many moments: which of a million deadlines is next.
//!
//! A tournament tree over the places of a table: each node holds the earliest moment of the eight
//! below it. Eight moments fill one line of the cache, so that a change touches one line a level, and
//! only the lowest two levels of a million are outside the near caches. A heap of a million
//! would move some twenty items, each with a place to write down elsewhere.
//!
//! | moments | levels | memory |
//! |---|---|---|
//! | 1,000,000 | 7 | 9.2 bytes each |

use crate::time::Moment;

const CHILDREN: usize = 8;

/// A moment for each place, and the earliest of them. [`Moment::NEVER`] is none.
#[derive(Debug, Default)]
pub(crate) struct Earliest {
    /// From the moments themselves to a single node. Each is a multiple of eight long but the last.
    levels: Vec<Vec<Moment>>,
}

impl Earliest {
    /// Sets a place's moment. O(log n).
    pub(crate) fn set(&mut self, place: u32, moment: Moment) {
        let mut place = place as usize;
        if self.levels.first().is_none_or(|leaves| leaves.len() <= place) {
            self.grow(place + 1);
        }
        let mut value = moment;
        for level in &mut self.levels {
            if level[place] == value {
                return;
            }
            level[place] = value;
            place /= CHILDREN;
            let group = place * CHILDREN;
            // The last level is a single node, which nothing stands above.
            if let Some(eight) = level.get(group..group + CHILDREN) {
                value = earliest(eight);
            }
        }
    }

    /// The earliest moment. O(1).
    pub(crate) fn first(&self) -> Moment {
        self.levels.last().map_or(Moment::NEVER, |root| root[0])
    }

    /// The place of the earliest moment, unless there is none. O(log n).
    pub(crate) fn first_place(&self) -> Option<u32> {
        let first = self.first();
        if first == Moment::NEVER {
            return None;
        }
        let mut place = 0;
        for level in self.levels.iter().rev().skip(1) {
            let group = place * CHILDREN;
            let eight = &level[group..group + CHILDREN];
            let found = eight.iter().position(|&moment| moment == first);
            place = group + found.expect("a node is the earliest of its children");
        }
        Some(place as u32)
    }

    /// Makes room for so many places; doubles, so that it is seldom needed.
    fn grow(&mut self, places: usize) {
        let mut level = self.levels.drain(..).next().unwrap_or_default();
        level.resize(places.next_power_of_two(), Moment::NEVER);
        while level.len() > 1 {
            level.resize(level.len().next_multiple_of(CHILDREN), Moment::NEVER);
            let above = level.chunks(CHILDREN).map(earliest).collect();
            self.levels.push(std::mem::replace(&mut level, above));
        }
        self.levels.push(level);
    }
}

fn earliest(moments: &[Moment]) -> Moment {
    *moments.iter().min().expect("one at least")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_found(ops in prop::collection::vec((0_u32..700, 0_u64..50), 1..300)) {
            let mut earliest = Earliest::default();
            let mut model = vec![Moment::NEVER; 700];
            for (place, moment) in ops {
                let moment = if moment > 35 { Moment::NEVER } else { Moment::from_nanos(moment) };
                earliest.set(place, moment);
                model[place as usize] = moment;
                let first = *model.iter().min().unwrap();
                prop_assert_eq!(earliest.first(), first);
                let found = earliest.first_place();
                prop_assert_eq!(found.is_some(), first != Moment::NEVER);
                prop_assert!(found.is_none_or(|place| model[place as usize] == first));
            }
        }
    }
}
