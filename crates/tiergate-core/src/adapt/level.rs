//! From a set point and a client to a level.

use crate::names::AdaptationId;

/// A level: 0 is to be refused, 1 the lowest quality.
pub type LevelNumber = u8;

/// What was decided about a request that an adaptation applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adapted {
    /// The adaptation.
    pub adaptation: AdaptationId,
    /// The level of its answer.
    pub level: LevelNumber,
}

/// The level of a client at a set point. `client`: a hash that is even over all values, always the same for one client.
///
/// When a set point falls, no more clients lose their level than must: a client that has the higher level at some F has it at
/// every greater one.
pub(crate) fn of_client(set_point: f64, client: u64, highest: LevelNumber) -> LevelNumber {
    let set_point = set_point.clamp(0.0, f64::from(highest));
    let whole = set_point.floor();
    // 53 bits are all that a fraction has.
    let place = (client >> 11) as f64 / (1u64 << 53) as f64;
    let level = if place < set_point - whole { whole + 1.0 } else { whole };
    level as LevelNumber
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_part_of_the_clients_as_large_as_the_fraction_gets_the_higher_level() {
        let clients: Vec<u64> =
            (0..10_000u64).map(|client| client.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        for (set_point, lower) in [(0.25, 0), (1.5, 1), (2.9, 2)] {
            let levels = clients.iter().map(|client| of_client(set_point, *client, 3));
            let higher = levels.filter(|level| *level == lower + 1).count() as f64 / 10_000.0;
            assert!((higher - set_point.fract()).abs() < 0.02, "{set_point}: {higher}");
        }
        assert!(clients.iter().all(|client| of_client(2.0, *client, 2) == 2));
        assert!(clients.iter().all(|client| of_client(7.0, *client, 2) == 2));
        assert!(clients.iter().all(|client| of_client(0.0, *client, 2) == 0));
    }

    proptest! {
        #[test]
        fn a_better_set_point_is_worse_for_nobody(client: u64, one in 0.0..4.0f64, other in 0.0..4.0f64) {
            let (low, high) = (one.min(other), one.max(other));
            prop_assert!(of_client(low, client, 4) <= of_client(high, client, 4));
        }
    }
}
