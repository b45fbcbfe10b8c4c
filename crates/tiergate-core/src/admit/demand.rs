//! Demand: how many requests each flow sent lately, beside how many others do.
//!
//! A count-min sketch: two rows of counters, in each of which a flow has one, and its count is the lesser of both. Who shares
//! one with a flow that sends much is told from it by the other, but for one in some millions. Counts fade, as often as
//! their owner says: by a twentieth ten times a second, half of what is known is of the last 1.4 s.
//!
//! Source: Cormode & Muthukrishnan, "An improved data stream summary: the count-min sketch" (2005).

/// Counters in a row; 16 KiB in all. Beyond so many flows at once, they are told apart less and less.
const CELLS: usize = 2048;
/// A count that has faded to less is forgotten.
const FORGOTTEN: f32 = 0.25;
/// Heavy is a flow that sends more than this many times what flows send on average, light one that sends less than this
/// part of it.
const HEAVY: f32 = 2.0;
const LIGHT: f32 = 0.5;

/// What flows sent lately.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    rows: [Vec<f32>; 2],
    /// What flows sent on average when counts faded last.
    mean: f32,
}

impl Demand {
    /// Nothing was sent yet.
    pub(crate) fn new() -> Self {
        Demand { rows: [vec![0.0; CELLS], vec![0.0; CELLS]], mean: 0.0 }
    }

    /// A request of the flow has come. `flow`: even over all values. O(1).
    pub(crate) fn came(&mut self, flow: u64) {
        for (row, cell) in self.rows.iter_mut().zip(cells(flow)) {
            row[cell] += 1.0;
        }
    }

    /// How many requests of the flow came lately, or a few more. O(1).
    pub(crate) fn count(&self, flow: u64) -> f32 {
        let [first, second] = cells(flow);
        self.rows[0][first].min(self.rows[1][second])
    }

    /// Whether the flow sends more than twice what flows do on average, as it was when counts faded last: a flow
    /// that is alone never does. O(1).
    pub(crate) fn is_heavy(&self, flow: u64) -> bool {
        self.mean > 0.0 && self.count(flow) > HEAVY * self.mean
    }

    /// Whether the flow sends less than half of what flows do on average: one that is alone never does. O(1).
    pub(crate) fn is_light(&self, flow: u64) -> bool {
        self.count(flow) < LIGHT * self.mean
    }

    /// Counts fade to this part of themselves. O(counters).
    pub(crate) fn fade(&mut self, kept: f32) {
        for row in &mut self.rows {
            for count in row {
                *count *= kept;
                if *count < FORGOTTEN {
                    *count = 0.0;
                }
            }
        }
        let row = &self.rows[0];
        let (sum, flows) = (row.iter().sum::<f32>(), row.iter().filter(|it| **it > 0.0).count());
        self.mean = sum / flows.max(1) as f32;
    }
}

/// The flow's counter in each row.
fn cells(flow: u64) -> [usize; 2] {
    [flow as usize % CELLS, (flow >> 32) as usize % CELLS]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashed(flow: u64) -> u64 {
        flow.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23).wrapping_mul(0xD6E8_FEB8_6659_FD93)
    }

    #[test]
    fn a_flow_that_sends_much_more_than_others_is_heavy_until_it_stops() {
        let mut demand = Demand::new();
        for _ in 0..20 {
            (0..40).for_each(|flow| demand.came(hashed(flow)));
            (100..106).for_each(|flow| (0..50).for_each(|_| demand.came(hashed(flow))));
            demand.fade(0.95);
        }
        assert!((100..106).all(|flow| demand.is_heavy(hashed(flow))));
        assert!(
            (0..40).all(|flow| !demand.is_heavy(hashed(flow)) && demand.is_light(hashed(flow)))
        );
        assert!(!demand.is_heavy(hashed(7_777)), "it never sent any");
        for _ in 0..100 {
            (0..40).for_each(|flow| demand.came(hashed(flow)));
            demand.fade(0.95);
        }
        assert!((0..106).all(|flow| !demand.is_heavy(hashed(flow))));
    }

    #[test]
    fn alone_or_alike_none_is_heavy() {
        let mut demand = Demand::new();
        for round in 0..50 {
            (0..1 + round % 3).for_each(|_| demand.came(hashed(1)));
            demand.fade(0.95);
        }
        assert!(!demand.is_heavy(hashed(1)) && !demand.is_light(hashed(1)));
        let mut demand = Demand::new();
        for _ in 0..50 {
            (0..1000).for_each(|flow| demand.came(hashed(flow)));
            demand.fade(0.95);
        }
        let heavy = (0..1000).filter(|flow| demand.is_heavy(hashed(*flow))).count();
        assert!(heavy < 100, "those that share both counters with others: {heavy}");
    }
}
