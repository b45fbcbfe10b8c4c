//! What each class should get, worked out on paper: an oracle for the scheduler that knows nothing of
//! how it works.

/// A class as the oracle sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claimant {
    /// Slots that its requests would use on average if it were alone.
    pub demand: f64,
    /// Share of the slots that it is sure of.
    pub minimum: f64,
}

/// The mean number of slots that each class uses, most important first.
///
/// Properties, each tested: (1) nobody gets more than its demand; (2) the sum is the smaller of the
/// slots and the demand; (3) nobody gets less than the smaller of its demand and its minimum;
/// (4) beyond the minimums, nobody gets anything while somebody more important lacks something.
pub fn shares(slots: f64, claimants: &[Claimant]) -> Vec<f64> {
    let sure = |claimant: &Claimant| claimant.demand.min(claimant.minimum * slots);
    let mut left = slots - claimants.iter().map(sure).sum::<f64>();
    let mut shares = Vec::with_capacity(claimants.len());
    for claimant in claimants {
        let more = (claimant.demand - sure(claimant)).clamp(0.0, left.max(0.0));
        left -= more;
        shares.push(sure(claimant) + more);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(rng: &mut fastrand::Rng) -> (f64, Vec<Claimant>) {
        let count = rng.usize(1..8);
        let claimants = (0..count)
            .map(|_| Claimant {
                demand: 20.0 * rng.f64(),
                minimum: if rng.bool() { rng.f64() / count as f64 } else { 0.0 },
            })
            .collect();
        (1.0 + 30.0 * rng.f64(), claimants)
    }

    #[test]
    fn the_oracle_has_its_properties() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..10_000 {
            let (slots, claimants) = random(&mut rng);
            let shares = shares(slots, &claimants);
            let demand: f64 = claimants.iter().map(|claimant| claimant.demand).sum();
            let sum: f64 = shares.iter().sum();
            assert!((sum - slots.min(demand)).abs() < 1e-9);
            for (place, (share, claimant)) in shares.iter().zip(&claimants).enumerate() {
                let sure = claimant.demand.min(claimant.minimum * slots);
                assert!(*share <= claimant.demand + 1e-9);
                assert!(*share >= sure - 1e-9);
                let lacking = shares[..place]
                    .iter()
                    .zip(&claimants)
                    .any(|(share, claimant)| *share < claimant.demand - 1e-9);
                assert!(!lacking || *share <= sure + 1e-9);
            }
        }
    }

    #[test]
    fn an_example_worked_by_hand() {
        let claimant = |demand, minimum| Claimant { demand, minimum };
        let all = [claimant(6.0, 0.0), claimant(9.0, 0.1), claimant(9.0, 0.2)];
        assert_eq!(shares(10.0, &all), [6.0, 2.0, 2.0]);
    }
}
