//! From the times of a log to the times of a run.

use super::line::Stamp;
use fastrand::Rng;

/// How the requests of one second are spread within it, where the log says no more than the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Within {
    /// At random, in the order of the log, as independent clients come.
    #[default]
    Random,
    /// Evenly.
    Even,
}

/// When each request comes, in nanoseconds from the beginning, ascending, with its place in `stamps`:
/// `speed` times as fast as in the log. The log need not be in order.
pub fn times(stamps: &[Stamp], speed: f64, within: Within, seed: u64) -> Vec<(u64, u32)> {
    let mut order: Vec<(u64, u32)> =
        stamps.iter().enumerate().map(|(place, stamp)| (stamp.ns, place as u32)).collect();
    // Stable: requests of one second stay in the order of the log.
    order.sort_by_key(|&(ns, _)| ns);
    let start = order.first().map_or(0, |&(ns, _)| ns - ns % SECOND);
    let mut rng = Rng::with_seed(seed);
    let mut offsets = Vec::new();
    let mut from = 0;
    while from < order.len() {
        let second = order[from].0;
        let same = order[from..].iter().take_while(|&&(ns, _)| ns == second).count();
        let group = &mut order[from..from + same];
        if !stamps[group[0].1 as usize].precise {
            offsets.clear();
            offsets.extend((0..same).map(|n| match within {
                Within::Even => n as f64 / same as f64,
                Within::Random => rng.f64(),
            }));
            offsets.sort_by(f64::total_cmp);
            for ((ns, _), offset) in group.iter_mut().zip(&offsets) {
                *ns += (offset * SECOND as f64) as u64;
            }
        }
        from += same;
    }
    for (ns, _) in &mut order {
        *ns = ((*ns - start) as f64 / speed) as u64;
    }
    // Precise lines and others may lie between each other.
    order.sort_by_key(|&(ns, _)| ns);
    order
}

const SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ns: u64) -> Stamp {
        Stamp { ns, precise: false }
    }

    #[test]
    fn a_second_s_requests_are_spread_over_it_in_their_order() {
        let stamps =
            [at(7 * SECOND), at(5 * SECOND), at(5 * SECOND), at(5 * SECOND), at(5 * SECOND)];
        let even = times(&stamps, 1.0, Within::Even, 1);
        let quarter = SECOND / 4;
        assert_eq!(
            even,
            [(0, 1), (quarter, 2), (2 * quarter, 3), (3 * quarter, 4), (2 * SECOND, 0)]
        );
        let fast = times(&stamps, 10.0, Within::Even, 1);
        assert_eq!(fast[4], (SECOND / 5, 0));
        let random = times(&stamps, 1.0, Within::Random, 1);
        let places: Vec<u32> = random.iter().map(|&(_, place)| place).collect();
        assert_eq!(places, [1, 2, 3, 4, 0]);
        assert!(random[3].0 < SECOND && random[4].0 >= 2 * SECOND);
        assert_eq!(random, times(&stamps, 1.0, Within::Random, 1));
        assert_ne!(random, times(&stamps, 1.0, Within::Random, 2));
    }

    #[test]
    fn times_that_are_known_are_kept() {
        let precise = |ns| Stamp { ns, precise: true };
        let stamps = [precise(5 * SECOND + 7), precise(5 * SECOND + 3), precise(5 * SECOND + 3)];
        assert_eq!(times(&stamps, 1.0, Within::Random, 1), [(3, 1), (3, 2), (7, 0)]);
        assert_eq!(times(&[], 1.0, Within::Random, 1), []);
    }
}
