//! A queue that never empties: so many packets in a row have waited a little, each too little to count as late.
//!
//! Where the gateway's own system takes no more than some milliseconds of what is sent too fast (its sockets are full then), no packet is ever very late. But on a link
//! that is not full some find no queue, however much their times differ. Source: the least of an interval tells a standing queue from a passing one (CoDel, Nichols and
//! Jacobson 2012).

use super::watched::Sample;
use std::time::Duration;

/// So many in a row, over so long, are no chance.
const PACKETS: u32 = 32;
const LASTING: Duration = Duration::from_millis(300);

/// Packets in a row that have waited.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    /// The first, and how many there were.
    run: Option<(Sample, u32)>,
    /// Whether one did since that has not: else the way is longer than it was, and nothing stands.
    is_armed: bool,
}

impl Standing {
    /// A packet has waited, or has not. What was carried since the first of a row that is long enough, in bits a second: the link was busy all the time.
    pub(super) fn sees(&mut self, sample: Sample, has_waited: bool) -> Option<f64> {
        if !has_waited {
            *self = Standing { run: None, is_armed: true };
            return None;
        }
        let (first, count) = self.run.get_or_insert((sample, 0));
        *count += 1;
        let is_long = *count >= PACKETS && sample.at.since(first.at) >= LASTING;
        if !is_long || !self.is_armed {
            return None;
        }
        let carried = sample.carried_since(*first, sample.waited);
        *self = Standing::default();
        Some(carried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Moment;

    /// Packets of 1,250 bytes, one every 10 ms: 1 Mb/s. Whether they have waited.
    fn sees(standing: &mut Standing, from: u64, waited: &[bool]) -> Vec<f64> {
        let packet = |(number, waited): (u64, &bool)| {
            let at = Moment::from_millis(10 * number);
            standing.sees(Sample { at, sent: 1250.0 * number as f64, waited: 0.002 }, *waited)
        };
        (from..).zip(waited).filter_map(packet).collect()
    }

    #[test]
    fn a_long_row_says_what_is_carried_once() {
        let mut standing = Standing::default();
        assert!(sees(&mut standing, 0, &[true; 100]).is_empty(), "none was ever without");
        assert!(sees(&mut standing, 100, &[false]).is_empty());
        let said = sees(&mut standing, 101, &[true; 100]);
        assert_eq!(said.iter().map(|it| it.round()).collect::<Vec<_>>(), [1e6]);
        let mut broken = [true; 100];
        (0..100).step_by(32).for_each(|place| broken[place] = false);
        assert!(sees(&mut standing, 201, &broken).is_empty());
    }
}
