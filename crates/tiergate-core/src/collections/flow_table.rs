//! A table of a number for each flow, in bounded memory and bounded time.
//!
//! A flow has two sets of eight places each, found by its number, and may stand in any of the sixteen.
//! A place is taken over only when its owner says that the number in it means nothing any more: no flow
//! is forgotten that still matters. If all sixteen matter, there is no place, and the owner says what
//! happens then. With two sets to choose from, no flow is without a place until nearly all are taken
//! (Azar, Broder, Karlin, Upfal 1999: balanced allocations).
//!
//! | flows at once | memory | measured |
//! |---|---|---|
//! | 1,000,000 | 24 bytes × flows = 24 MB | none of 1,000,000 random flows without a place |
//!
//! Flows are keyed hashes, so that no client can choose whose places it shares. Two flows with the same
//! 64 bits share a number: among 1,000,000 flows about one chance in 37 million.

/// Places of a set: their flows fill one line of the cache, their numbers another.
const WAYS: usize = 8;

/// The table. Memory is used as places are.
#[derive(Clone, Debug)]
pub(crate) struct FlowTable {
    flows: Vec<u64>,
    numbers: Vec<u64>,
}

impl FlowTable {
    /// Room for so many flows at once: half as many places more, so that they do not get in each
    /// other's way.
    pub(crate) fn for_flows(flows_max: u32) -> Self {
        let sets = (flows_max as usize + flows_max as usize / 2).div_ceil(WAYS).max(2);
        FlowTable { flows: vec![0; sets * WAYS], numbers: vec![0; sets * WAYS] }
    }

    /// How many places there are.
    pub(crate) fn places(&self) -> usize {
        self.flows.len()
    }

    /// The flow's number; 0 if it has none. O(1): at most sixteen places are looked at.
    pub(crate) fn number(&self, flow: u64) -> u64 {
        self.find(flow).map_or(0, |place| self.numbers[place])
    }

    /// The flow's number, to be changed: 0 in a place whose number `is_over` if the flow has none yet, and
    /// of the two sets in that with more of them; `None` if there is no such place. O(1).
    pub(crate) fn entry(&mut self, flow: u64, is_over: impl Fn(u64) -> bool) -> Option<&mut u64> {
        if let Some(place) = self.find(flow) {
            return Some(&mut self.numbers[place]);
        }
        let [(first, at_first), (second, at_second)] = self.sets_of(flow).map(|set| {
            let numbers = &self.numbers[set..set + WAYS];
            let count = numbers.iter().filter(|&&number| is_over(number)).count();
            (count, numbers.iter().position(|&number| is_over(number)).map(|place| set + place))
        });
        let place = if first >= second { at_first } else { at_second }?;
        self.flows[place] = flow;
        self.numbers[place] = 0;
        Some(&mut self.numbers[place])
    }

    /// Lowers every number that is higher. O(places).
    pub(crate) fn lower_to(&mut self, most: u64) {
        self.numbers.iter_mut().for_each(|number| *number = most.min(*number));
    }

    /// About how many places are taken: counted among a sample of at most 4096.
    pub(crate) fn taken(&self, is_over: impl Fn(u64) -> bool) -> usize {
        const SAMPLE_MAX: usize = 4096;
        let step = self.numbers.len().div_ceil(SAMPLE_MAX);
        let seen = self.numbers.iter().step_by(step);
        let (len, taken) = (seen.len(), seen.filter(|&&number| !is_over(number)).count());
        taken * self.numbers.len() / len
    }

    fn find(&self, flow: u64) -> Option<usize> {
        self.sets_of(flow).into_iter().find_map(|set| {
            let flows = &self.flows[set..set + WAYS];
            flows.iter().position(|&other| other == flow).map(|place| set + place)
        })
    }

    fn sets_of(&self, flow: u64) -> [usize; 2] {
        let sets = (self.flows.len() / WAYS) as u128;
        // The upper half of the product is even over the sets, whatever their number.
        let set = |hash: u64| ((u128::from(hash) * sets) >> 64) as usize * WAYS;
        [set(flow), set(flow.rotate_left(32).wrapping_mul(0x9e37_79b9_7f4a_7c15))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Different for different numbers, as a hash would be.
    fn flow(number: u64) -> u64 {
        let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Gives flows numbers until so many have one; which have.
    fn filled(table: &mut FlowTable, flows: u64) -> Vec<u64> {
        let numbered = |&number: &u64| {
            let entry = table.entry(flow(number), |number| number == 0);
            entry.map(|entry| *entry = number).is_some()
        };
        (1..=flows).filter(numbered).collect()
    }

    #[test]
    fn as_many_flows_as_were_asked_for_find_a_place_and_are_found_again() {
        for flows in [1, 7, 1000, 100_000, 1_000_000] {
            let mut table = FlowTable::for_flows(flows);
            assert_eq!(filled(&mut table, flows.into()).len(), flows as usize);
            assert!((1..=u64::from(flows)).all(|number| table.number(flow(number)) == number));
            let taken = table.taken(|number| number == 0);
            assert!(taken.abs_diff(flows as usize) <= flows as usize / 20 + 1, "{taken}");
        }
    }

    #[test]
    fn a_million_flows_take_24_megabytes() {
        let table = FlowTable::for_flows(1_000_000);
        assert!(16 * table.places() <= 24_000_200, "{} places", table.places());
    }

    #[test]
    fn only_what_is_over_is_taken_over() {
        let mut table = FlowTable::for_flows(10);
        let held = filled(&mut table, 1000);
        assert!((10..=16).contains(&held.len()));
        assert!(held.iter().all(|&number| table.number(flow(number)) == number));
        let over = held[0];
        let heir = (1001..2000).find(|&new| {
            let entry = table.entry(flow(new), |number| number == over);
            entry.map(|entry| assert_eq!(std::mem::replace(entry, new), 0)).is_some()
        });
        assert_eq!(table.number(flow(over)), 0, "its place is another's");
        assert_eq!(table.number(flow(heir.expect("16 places are in two sets"))), heir.unwrap());
    }

    proptest! {
        /// As long as there is room, it is a map.
        #[test]
        fn it_is_a_map(ops in prop::collection::vec((0_u64..100, any::<u64>()), 1..300)) {
            let mut table = FlowTable::for_flows(100);
            let mut model = HashMap::new();
            for (number, value) in ops {
                *table.entry(flow(number), |number| number == 0).expect("room") = value;
                model.insert(number, value);
                for number in 0..100 {
                    prop_assert_eq!(table.number(flow(number)), *model.get(&number).unwrap_or(&0));
                }
            }
        }
    }
}
