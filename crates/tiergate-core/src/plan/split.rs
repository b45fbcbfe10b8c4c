//! Requests that go to several pools by weight, as for a canary: each flow to one of them.

use crate::names::PoolId;

/// Pools and their weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Each pool once, with its weight: 1 to [`Split::PARTS_MAX`], one of them more than 0.
    pub parts: Vec<(PoolId, u32)>,
}

impl Split {
    /// Most pools of one split. Each request looks at each.
    pub const PARTS_MAX: usize = 16;
    /// Most splits of a plan that differ.
    pub const COUNT_MAX: usize = 256;

    /// The pool of a flow: always the same while the weights are, and each gets its share of the flows. If a weight changes,
    /// only those flows move that must, to pools whose share grows or from those whose share falls, whatever the order. About
    /// 20 ns a pool.
    ///
    /// Source: weighted rendezvous hashing (Schindelhauer and Schomaker 2005). Each pool draws, of each flow, a time that is
    /// exponential with its weight; the first has it.
    pub fn choose(&self, flow: u64) -> PoolId {
        let time = |&(pool, weight): &(PoolId, u32)| {
            let drawn = mix(flow ^ mix(pool.index() as u64 + 1));
            // More than 0 and below 1, in steps of 2^-53.
            let even = ((drawn >> 11) as f64 + 0.5) * (0.5_f64).powi(53);
            -even.ln() / f64::from(weight)
        };
        let first = self.parts.iter().min_by(|one, other| time(one).total_cmp(&time(other)));
        first.map_or(PoolId::DEFAULT, |(pool, _)| *pool)
    }

    /// What is wrong with it.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let parts = &self.parts;
        let is_twice = |(place, (pool, _)): (usize, &(PoolId, u32))| {
            parts[..place].iter().any(|(other, _)| other == pool)
        };
        if parts.is_empty() || parts.len() > Self::PARTS_MAX {
            return Some("a split must have 1 to 16 pools");
        }
        if parts.iter().all(|(_, weight)| *weight == 0) {
            return Some("one weight of a split must be more than 0");
        }
        parts.iter().enumerate().any(is_twice).then_some("a split must name each pool once")
    }
}

/// Mixes all bits (the finaliser of SplitMix64).
fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Id;
    use proptest::prelude::*;

    const FLOWS: u64 = 10_000;

    fn split(weights: &[u32]) -> Split {
        let parts = weights.iter().enumerate();
        Split { parts: parts.map(|(pool, weight)| (PoolId::at(pool), *weight)).collect() }
    }

    fn chosen(split: &Split) -> Vec<PoolId> {
        // Hashes of flows are even; here they are not.
        (0..FLOWS).map(|flow| split.choose(flow)).collect()
    }

    fn moved(before: &[PoolId], after: &[PoolId]) -> usize {
        before.iter().zip(after).filter(|(before, after)| before != after).count()
    }

    #[test]
    fn a_larger_share_moves_only_its_own_flows() {
        let [before, after] = [[95, 5], [90, 10]].map(|weights| chosen(&split(&weights)));
        let canary = |pools: &[PoolId]| pools.iter().filter(|pool| pool.index() == 1).count();
        assert!((400..600).contains(&canary(&before)), "{}", canary(&before));
        assert!((850..1150).contains(&canary(&after)), "{}", canary(&after));
        assert_eq!(moved(&before, &after), canary(&after) - canary(&before));
    }

    #[test]
    fn the_order_and_the_scale_of_weights_make_no_difference() {
        let one = split(&[90, 9, 1]);
        let mut other = split(&[180, 18, 2]);
        other.parts.reverse();
        assert_eq!(chosen(&one), chosen(&other));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn each_pool_gets_its_share_and_none_without_weight(
            weights in proptest::collection::vec(0_u32..1000, 1..16),
        ) {
            let split = split(&weights);
            prop_assume!(split.fault().is_none());
            let chosen = chosen(&split);
            let all: u32 = weights.iter().sum();
            for (place, weight) in weights.iter().enumerate() {
                let count = chosen.iter().filter(|pool| pool.index() == place).count() as f64;
                let share = f64::from(*weight) / f64::from(all);
                let expected = share * FLOWS as f64;
                let deviation = (expected * (1.0 - share)).sqrt();
                prop_assert!((count - expected).abs() <= 5.0 * deviation, "{count}, {expected}");
            }
        }

        #[test]
        fn a_weight_moves_flows_only_to_or_from_its_pool(
            weights in proptest::collection::vec(1_u32..1000, 2..8),
            other in 0_u32..1000,
        ) {
            let mut changed = weights.clone();
            changed[0] = other;
            let [before, after] = [weights, changed].map(|weights| chosen(&split(&weights)));
            for (before, after) in before.iter().zip(&after) {
                prop_assert!(before == after || before.index() == 0 || after.index() == 0);
            }
        }
    }
}
