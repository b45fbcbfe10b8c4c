//! Whose deadline is next, of all that wait.
//!
//! A tree of winners over the places of the slab: each node holds the earliest moment of the eight
//! below it. Eight moments fill one line of the cache, so that a change touches one line a level, and
//! only the lowest two levels of a million waiters are outside the near caches. A heap of a million
//! would move some twenty items, each with a place to write down elsewhere.
//!
//! | waiters | levels | memory |
//! |---|---|---|
//! | 1,000,000 | 7 | 9.2 bytes a place |

use crate::time::Moment;

const CHILDREN: usize = 8;

/// The earliest of a moment for each place; [`Moment::NEVER`] where nobody waits.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// From the moments themselves to a single node. Each is a multiple of eight long but the last.
    levels: Vec<Vec<Moment>>,
}

impl Deadlines {
    /// Sets a place's moment. O(log n).
    pub(super) fn set(&mut self, place: u32, moment: Moment) {
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
                value = *eight.iter().min().expect("eight");
            }
        }
    }

    /// The earliest moment. O(1).
    pub(super) fn first(&self) -> Moment {
        self.levels.last().map_or(Moment::NEVER, |root| root[0])
    }

    /// The place of the earliest moment, unless there is none. O(log n).
    pub(super) fn first_place(&self) -> Option<u32> {
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
        let mut len = places.next_power_of_two().max(CHILDREN);
        let mut leaves = self.levels.drain(..).next().unwrap_or_default();
        leaves.resize(len.next_multiple_of(CHILDREN), Moment::NEVER);
        self.levels.push(leaves);
        while len > 1 {
            let below = self.levels.last().expect("the leaves at least");
            let least = |eight: &[Moment]| *eight.iter().min().expect("eight");
            let mut level: Vec<Moment> = below.chunks(CHILDREN).map(least).collect();
            len = level.len();
            if len > 1 {
                level.resize(len.next_multiple_of(CHILDREN), Moment::NEVER);
            }
            self.levels.push(level);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_earliest_is_found(ops in prop::collection::vec((0_u32..700, 0_u64..50), 1..300)) {
            let mut deadlines = Deadlines::default();
            let mut model = vec![Moment::NEVER; 700];
            for (place, moment) in ops {
                let moment = if moment > 35 { Moment::NEVER } else { Moment::from_nanos(moment) };
                deadlines.set(place, moment);
                model[place as usize] = moment;
                let first = *model.iter().min().unwrap();
                prop_assert_eq!(deadlines.first(), first);
                let found = deadlines.first_place();
                prop_assert_eq!(found.is_some(), first != Moment::NEVER);
                prop_assert!(found.is_none_or(|place| model[place as usize] == first));
            }
        }
    }
}
