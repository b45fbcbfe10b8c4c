//! How much each of very many flows had lately, in fixed memory.
//!
//! A count-min sketch: two rows of counters, in each of which a flow has one, and its count is the lesser of both. Who shares
//! one with a flow that has much is told from it by the other, but for one in some millions. Counts fade, as often as
//! their owner says.
//!
//! Source: Cormode & Muthukrishnan, "An improved data stream summary: the count-min sketch" (2005).

/// Counters in a row. Beyond so many flows at once, they are told apart less and less.
const CELLS: usize = 2048;

/// Counts by flow; 16 KiB.
#[derive(Clone, Debug)]
pub(crate) struct Sketch([Vec<f32>; 2]);

impl Sketch {
    /// No flow has any.
    pub(crate) fn new() -> Self {
        Sketch([vec![0.0; CELLS], vec![0.0; CELLS]])
    }

    /// The flow has got so much more, or less. `flow`: even over all values. O(1).
    pub(crate) fn add(&mut self, flow: u64, count: f32) {
        for (row, cell) in self.0.iter_mut().zip(cells(flow)) {
            row[cell] = (row[cell] + count).max(0.0);
        }
    }

    /// How much the flow has, or a little more. O(1).
    pub(crate) fn count(&self, flow: u64) -> f32 {
        let [first, second] = cells(flow);
        self.0[0][first].min(self.0[1][second])
    }

    /// What flows have, those that share a counter together.
    pub(crate) fn counts(&self) -> &[f32] {
        &self.0[0]
    }

    /// Counts fade to this part of themselves; one that has faded to less than `forgotten` is. O(counters).
    pub(crate) fn fade(&mut self, kept: f32, forgotten: f32) {
        for row in &mut self.0 {
            for count in row {
                *count *= kept;
                if *count < forgotten {
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
