//! A table of a number for each flow, in bounded memory and bounded time.
//!
//! A flow has two sets of eight places each, found by its number, and may stand in any of the sixteen.
//! A place is taken over only when its owner says that the number in it means nothing any more: nobody
//! is forgotten who still matters. If all sixteen matter, there is no place, and the owner says what
//! happens then. With two sets to choose from, no flow is without a place until nearly all are taken
//! (Azar, Broder, Karlin, Upfal 1999: balanced allocations).
//!
//! | flows at once | memory | measured |
//! |---|---|---|
//! | 1,000,000 | 24 bytes × flows = 24 MB | none of 1,000,000 random flows without a place |
//!
//! Flows are keyed hashes, so that nobody can choose whose places they share. Two flows with the same
//! 64 bits share a number: among 1,000,000 flows about one chance in 37 million.

/// Places of a set: their flows fill one line of the cache, their numbers another.
const WAYS: usize = 8;

/// The table. Memory is used as places are.
#[derive(Clone, Debug)]
pub(super) struct FlowTable {
    flows: Vec<u64>,
    numbers: Vec<u64>,
}

/// Where a flow stands, or may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot(usize);

impl FlowTable {
    /// Room for so many flows at once: half as many places more, so that they do not get in each
    /// other's way.
    pub(super) fn for_flows(flows_max: u32) -> Self {
        let places = Self::places_for(flows_max);
        FlowTable { flows: vec![0; places], numbers: vec![0; places] }
    }

    /// How many places a table for so many flows has.
    pub(super) fn places_for(flows_max: u32) -> usize {
        (flows_max as usize + flows_max as usize / 2).div_ceil(WAYS).max(2) * WAYS
    }

    /// How many places there are.
    pub(super) fn places(&self) -> usize {
        self.flows.len()
    }

    /// Where the flow stands, or else a place whose number `is_free`; of the two sets that with more
    /// of them. O(1): at most sixteen places are looked at.
    pub(super) fn find(&self, flow: u64, is_free: impl Fn(u64) -> bool) -> Option<Spot> {
        let sets = self.sets_of(flow);
        for set in sets {
            let flows = &self.flows[set..set + WAYS];
            if let Some(place) = flows.iter().position(|&other| other == flow) {
                return Some(Spot(set + place));
            }
        }
        let free = sets.map(|set| {
            let numbers = &self.numbers[set..set + WAYS];
            let count = numbers.iter().filter(|&&number| is_free(number)).count();
            (count, numbers.iter().position(|&number| is_free(number)).map(|place| set + place))
        });
        let [(first, at_first), (second, at_second)] = free;
        (if first >= second { at_first } else { at_second }).map(Spot)
    }

    /// The flow's number; 0 if another's is there.
    pub(super) fn number(&self, spot: Spot, flow: u64) -> u64 {
        if self.flows[spot.0] == flow { self.numbers[spot.0] } else { 0 }
    }

    /// Sets the flow's number.
    pub(super) fn set(&mut self, spot: Spot, flow: u64, number: u64) {
        self.flows[spot.0] = flow;
        self.numbers[spot.0] = number;
    }

    /// Lowers every number that is higher. O(places).
    pub(super) fn lower_to(&mut self, most: u64) {
        self.numbers.iter_mut().for_each(|number| *number = most.min(*number));
    }

    /// About how many places are taken: counted among a sample of at most 4096.
    pub(super) fn taken(&self, is_free: impl Fn(u64) -> bool) -> usize {
        const SAMPLE_MAX: usize = 4096;
        let step = self.numbers.len().div_ceil(SAMPLE_MAX);
        let seen = self.numbers.iter().step_by(step);
        let (len, taken) = (seen.len(), seen.filter(|&&number| !is_free(number)).count());
        taken * self.numbers.len() / len
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

    /// Different for different numbers, as a hash would be.
    fn flow(number: u64) -> u64 {
        let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    #[test]
    fn as_many_flows_as_were_asked_for_find_a_place_and_are_found_again() {
        for flows in [1, 7, 1000, 100_000] {
            let mut table = FlowTable::for_flows(flows);
            for number in 1..=u64::from(flows) {
                let spot = table.find(flow(number), |number| number == 0).expect("room");
                table.set(spot, flow(number), number);
            }
            for number in 1..=u64::from(flows) {
                let spot = table.find(flow(number), |_| false).expect("it is there");
                assert_eq!(table.number(spot, flow(number)), number);
            }
            let taken = table.taken(|number| number == 0);
            assert!(taken.abs_diff(flows as usize) <= flows as usize / 20 + 1, "{taken}");
        }
    }

    #[test]
    fn a_million_flows_all_have_a_place_in_24_megabytes() {
        let mut table = FlowTable::for_flows(1_000_000);
        assert!(16 * table.places() <= 24_000_200, "{} places", table.places());
        for number in 1..=1_000_000 {
            let spot = table.find(flow(number), |number| number == 0).expect("room");
            table.set(spot, flow(number), number);
        }
    }

    #[test]
    fn only_what_is_free_is_taken_over() {
        let mut table = FlowTable::for_flows(10);
        let (mut held, mut number) = (Vec::new(), 0);
        // Until the table is full for some flow.
        loop {
            number += 1;
            let Some(spot) = table.find(flow(number), |number| number == 0) else { break };
            table.set(spot, flow(number), number);
            held.push(number);
        }
        assert!(held.len() >= 10);
        for &number in &held {
            let spot = table.find(flow(number), |_| false).expect("nobody was pushed out");
            assert_eq!(table.number(spot, flow(number)), number);
        }
        let spot = table.find(flow(number), |number| number == held[0] || number == held[1]);
        if let Some(spot) = spot {
            assert_eq!(table.number(spot, flow(number)), 0, "another's number is nobody's");
        }
    }
}
