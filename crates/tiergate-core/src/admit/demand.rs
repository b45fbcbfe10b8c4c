//! Demand: how many requests each flow sent lately, beside how many others do.
//!
//! A count-min sketch: two rows of counters, in each of which a flow has one, and its count is the lesser of both. Who shares
//! one with a flow that sends much is told from it by the other, but for one in some millions. Counts fade, as often as
//! their owner says: by a twentieth ten times a second, half of what is known is of the last 1.4 s.
//!
//! Of all that was sent, a part passes. Each flow's due is the same, such that what flows send up to it makes up that part:
//! those that send less have nothing to give up for others (max-min fairness).
//!
//! Source: Cormode & Muthukrishnan, "An improved data stream summary: the count-min sketch" (2005); Bertsekas & Gallager,
//! Data Networks (1992), §6.5.2.

/// Counters in a row; 16 KiB in all. Beyond so many flows at once, they are told apart less and less.
const CELLS: usize = 2048;
/// A count that has faded to less is forgotten.
const FORGOTTEN: f32 = 0.25;
/// Bisections that find the due, to a thousandth of the largest count.
const STEPS: usize = 20;

/// What flows sent lately.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    rows: [Vec<f32>; 2],
    /// What each flow may send, as it was found out last.
    due: f32,
}

impl Demand {
    /// Nothing was sent yet.
    pub(crate) fn new() -> Self {
        Demand { rows: [vec![0.0; CELLS], vec![0.0; CELLS]], due: f32::INFINITY }
    }

    /// A request of the flow has come. `flow`: even over all values. O(1).
    pub(crate) fn came(&mut self, flow: u64) {
        self.add(flow, 1.0);
    }

    /// The flow has got so much more, or less. O(1).
    pub(crate) fn add(&mut self, flow: u64, count: f32) {
        for (row, cell) in self.rows.iter_mut().zip(cells(flow)) {
            row[cell] = (row[cell] + count).max(0.0);
        }
    }

    /// How many requests of the flow came lately, or a few more. O(1).
    pub(crate) fn count(&self, flow: u64) -> f32 {
        let [first, second] = cells(flow);
        self.rows[0][first].min(self.rows[1][second])
    }

    /// Whether the flow sends no more than this part of its due, with one more that comes now: a flow that is new is
    /// not within it where all are. O(1).
    pub(crate) fn is_within(&self, flow: u64, part: f32) -> bool {
        self.count(flow) + 1.0 <= part * self.due
    }

    /// Finds each flow's due where this part of all that was sent lately passes, 0.0 to 1.0. O(counters).
    pub(crate) fn passes(&mut self, part: f64) {
        let row = &self.rows[0];
        let sent: f32 = row.iter().sum();
        let aim = part as f32 * sent;
        let (mut low, mut high) = (0.0, row.iter().copied().fold(0.0, f32::max));
        if aim >= sent {
            self.due = f32::INFINITY;
            return;
        }
        for _ in 0..STEPS {
            let middle = 0.5 * (low + high);
            let passes: f32 = row.iter().map(|count| count.min(middle)).sum();
            if passes < aim { low = middle } else { high = middle }
        }
        self.due = high;
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
    fn each_flow_may_send_as_much_as_each_other_and_who_sends_less_leaves_the_rest_to_them() {
        let mut demand = Demand::new();
        for _ in 0..20 {
            (0..40).for_each(|flow| demand.came(hashed(flow)));
            (100..106).for_each(|flow| (0..50).for_each(|_| demand.came(hashed(flow))));
            demand.fade(0.95);
        }
        let within = |demand: &Demand, flows: std::ops::Range<u64>| {
            flows.filter(|flow| demand.is_within(hashed(*flow), 1.0)).count()
        };
        // 340 come at a time, 40 of them of the small flows. Of 100 that pass, each of the six has ten; of 23, as the
        // small ones, each half of one.
        demand.passes(100.0 / 340.0);
        assert_eq!((within(&demand, 0..40), within(&demand, 100..106)), (40, 0));
        demand.passes(23.0 / 340.0);
        assert_eq!((within(&demand, 0..40), within(&demand, 100..106)), (0, 0));
        assert!(demand.is_within(hashed(7_777), 1.0), "it never sent any");
        demand.passes(1.0);
        assert_eq!(within(&demand, 100..106), 6, "nothing is too much");
        for _ in 0..100 {
            (0..40).for_each(|flow| demand.came(hashed(flow)));
            demand.fade(0.95);
        }
        demand.passes(0.9);
        assert_eq!(within(&demand, 100..106), 6, "they have stopped");
    }

    #[test]
    fn alone_or_alike_none_is_within_its_due_where_any_is_too_much() {
        for flows in [1, 1000] {
            let mut demand = Demand::new();
            for _ in 0..50 {
                (0..flows).for_each(|flow| demand.came(hashed(flow)));
                demand.fade(0.95);
            }
            demand.passes(0.6);
            let within = (0..flows).filter(|flow| demand.is_within(hashed(*flow), 1.0)).count();
            assert_eq!(within, 0);
        }
    }
}
