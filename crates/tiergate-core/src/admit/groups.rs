//! Groups of flows: what one address does must not speak for all, so that means over groups are trimmed.

/// The group of a flow, of so many: a power of two. By Fibonacci hashing: the highest bits are the best mixed.
pub(crate) fn group(flow: u64, groups: usize) -> usize {
    (flow.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - groups.ilog2())) as usize
}

/// How many of the groups that were seen are left out of a mean: the worst quarter, and one of two or three (a trimmed
/// mean; Tukey, 1962).
pub(crate) fn left_out(seen: usize) -> usize {
    seen.div_ceil(4).min(seen.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_in_all_groups_alike() {
        for step in [1, 2, 256, 65_536, 1 << 40] {
            let mut counts = [0; 16];
            (0..1_600).for_each(|number| counts[group(number * step, 16)] += 1);
            assert!(counts.iter().all(|count| (50..200).contains(count)), "{step}: {counts:?}");
        }
    }

    #[test]
    fn a_quarter_is_left_out_and_never_all() {
        let out = [0, 1, 2, 3, 4, 5, 13, 64].map(left_out);
        assert_eq!(out, [0, 0, 1, 1, 1, 2, 4, 16]);
    }
}
