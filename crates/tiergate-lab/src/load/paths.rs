//! Which path a request asks for.

/// A draw of ranks by Zipf's law, `P(rank) ~ 1 / rank^exponent`; rank 0 is the most popular.
pub(crate) struct Ranks {
    /// Probability of each rank or a more popular one.
    cumulative: Vec<f64>,
}

impl Ranks {
    /// The law for `count` ranks (at least one); exponent 0: all alike.
    pub(crate) fn new(count: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=count).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        let sums: Vec<f64> = sums.collect();
        Self { cumulative: sums.iter().map(|part| part / sum).collect() }
    }

    /// A rank, from 0. Costs a binary search, and no random number where there is no choice.
    pub(crate) fn draw(&self, random: &mut fastrand::Rng) -> usize {
        if self.cumulative.len() < 2 {
            return 0;
        }
        let at = random.f64();
        self.cumulative.partition_point(|part| *part <= at).min(self.cumulative.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(count: usize, exponent: f64) -> Vec<f64> {
        let (ranks, mut random) = (Ranks::new(count, exponent), fastrand::Rng::with_seed(5));
        let mut shares = vec![0.0; count];
        (0..100_000).for_each(|_| shares[ranks.draw(&mut random)] += 1e-5);
        shares
    }

    #[test]
    fn popularity_falls_with_the_power_of_the_rank() {
        let shares = shares(1000, 1.0);
        // Harmonic number of 1000.
        let sum = 7.4855;
        for rank in [1, 2, 5, 20] {
            let expected = 1.0 / rank as f64 / sum;
            let ratio = shares[rank - 1] / expected;
            assert!((0.9..1.1).contains(&ratio), "rank {rank}: {ratio} of what is due");
        }
        let tail: f64 = shares[500..].iter().sum();
        assert!((tail - 0.0926).abs() < 0.005, "the less popular half: {tail}");
    }

    #[test]
    fn exponent_zero_is_fair_and_one_path_is_certain() {
        assert!(shares(4, 0.0).iter().all(|share| (share - 0.25).abs() < 0.01));
        assert_eq!(shares(1, 1.0).len(), 1);
    }
}
