//! Times in service, by class, of the requests that were admitted in one block of time.

use std::array;

/// Classes beyond share the places of others: their times are mixed, which makes them vary more.
pub(super) const CLASSES: usize = 64;
/// No answer counts for more than so many usual ones of its class, once so many were seen: one that hangs
/// says nothing of the limit.
const USUAL_MAX: f64 = 6.0;
const KNOWN: f64 = 64.0;
/// What is usual in a class is that of so many answers.
const USUAL_OF: f64 = 512.0;
/// Squared coefficient of variation in a class: at least, and while it is not known.
pub(super) const VARIES_MIN: f64 = 0.02;
const VARIES_UNKNOWN: f64 = 0.5;
/// A block's own error, as ln, beyond chance: mixtures change within a class, the knee is round.
const ERROR: f64 = 0.03;

/// Times in service of some requests of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    count: f64,
    /// Seconds, those of requests without an answer among them, and the squares of the others.
    sum: f64,
    squares: f64,
    /// ln of the limit while they were in service, summed.
    ln_slots: f64,
}

impl Times {
    fn merge(&mut self, more: &Times) {
        self.count += more.count;
        self.sum += more.sum;
        self.squares += more.squares;
        self.ln_slots += more.ln_slots;
    }

    /// Squared coefficient of variation.
    fn varies(&self) -> f64 {
        if self.sum == 0.0 {
            return 1.0;
        }
        (self.squares * self.count / (self.sum * self.sum) - 1.0).max(0.0)
    }

    fn mean(&self) -> f64 {
        self.sum / self.count
    }
}

/// The times of each class.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByClass([Times; CLASSES]);

impl Default for ByClass {
    fn default() -> Self {
        ByClass(array::from_fn(|_| Times::default()))
    }
}

/// What is usual in each class: lately, without the rarest long ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Usual(ByClass);

impl Usual {
    /// A request of the class took `held_s` seconds under such a limit. Returns them, or less if they are very unusual.
    pub(super) fn add(&mut self, class: usize, held_s: f64, slots: f64) -> f64 {
        let Times { count, sum, squares, ln_slots } = &mut self.0.0[class % CLASSES];
        let most = if *count > KNOWN { USUAL_MAX * *sum / *count } else { f64::MAX };
        let held_s = held_s.min(most);
        for total in [&mut *count, sum, squares, ln_slots] {
            *total *= 1.0 - 1.0 / USUAL_OF;
        }
        (*count, *sum, *squares) = (*count + 1.0, *sum + held_s, *squares + held_s * held_s);
        *ln_slots += slots.ln();
        held_s
    }

    /// Mean time, seconds; 0 if none was seen.
    pub(super) fn mean(&self, class: usize) -> f64 {
        let usual = &self.0.0[class % CLASSES];
        if usual.count == 0.0 { 0.0 } else { usual.mean() }
    }

    /// Whether enough were seen.
    pub(super) fn is_known(&self, class: usize) -> bool {
        self.0.0[class % CLASSES].count > KNOWN
    }

    /// How many times more slots these are than usual; 1 if fewer, or if nothing was seen.
    pub(super) fn slots_since(&self, class: usize, slots: f64) -> f64 {
        let Times { count, ln_slots, .. } = self.0.0[class % CLASSES];
        if count == 0.0 { 1.0 } else { (slots.ln() - ln_slots / count).exp().max(1.0) }
    }

    fn varies(&self, class: usize) -> f64 {
        let usual = &self.0.0[class];
        usual.varies().max(if usual.count < KNOWN { VARIES_UNKNOWN } else { VARIES_MIN })
    }
}

impl ByClass {
    /// A request of the class took `held_s` seconds, under a limit of which this is ln.
    pub(super) fn add(&mut self, class: usize, held_s: f64, ln_slots: f64) {
        let one = Times { count: 1.0, sum: held_s, squares: held_s * held_s, ln_slots };
        self.0[class % CLASSES].merge(&one);
    }

    /// A request of the class left its slot after `held_s` seconds without an answer.
    pub(super) fn left(&mut self, class: usize, held_s: f64) {
        self.0[class % CLASSES].sum += held_s;
    }

    pub(super) fn merge(&mut self, more: &ByClass) {
        self.0.iter_mut().zip(&more.0).for_each(|(sum, more)| sum.merge(more));
    }

    /// Requests, of all classes.
    pub(super) fn count(&self) -> f64 {
        self.0.iter().map(|times| times.count).sum()
    }

    /// How much longer these requests took than the others of their class; `None`: too few to say. O(classes).
    pub(super) fn beside(&self, others: &ByClass, usual: &Usual) -> Option<Point> {
        let (mut weight, mut longer, mut ln_slots) = (0.0, 0.0, 0.0);
        for (class, (of, others)) in self.0.iter().zip(&others.0).enumerate() {
            if of.count < 2.0 || others.count < 2.0 {
                continue;
            }
            let varies = usual.varies(class);
            let of_class = of.count / varies;
            // The logarithm of a mean of few is too small on average.
            let too_small = 0.5 * varies * (1.0 / of.count - 1.0 / others.count);
            longer += ((of.mean() / others.mean()).ln() + too_small) * of_class;
            ln_slots += of.ln_slots / of.count * of_class;
            weight += of_class;
        }
        let variance = 1.0 / weight + ERROR * ERROR;
        let found = Point { ln_slots: ln_slots / weight, longer: longer / weight, variance };
        (weight > 0.0).then_some(found)
    }
}

/// What a block tells, all as ln: the limit that its requests saw, how much longer they took than others of their
/// classes, and the variance of that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Point {
    pub(super) ln_slots: f64,
    pub(super) longer: f64,
    pub(super) variance: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many requests of each class, of these seconds each.
    fn block(classes: &[(usize, u32, f64)]) -> ByClass {
        let mut block = ByClass::default();
        for (class, count, held_s) in classes {
            (0..*count).for_each(|_| block.add(*class, *held_s, 2.0));
        }
        block
    }

    fn beside(block: &ByClass, others: &ByClass) -> Option<Point> {
        block.beside(others, &Usual::default())
    }

    #[test]
    fn another_mixture_of_classes_takes_no_longer() {
        let slow = block(&[(0, 1000, 0.01), (1, 9000, 0.1)]);
        let fast = block(&[(0, 9000, 0.01), (1, 1000, 0.1)]);
        assert!(beside(&slow, &fast).expect("enough").longer.abs() < 1e-3);
        let slower = block(&[(0, 1000, 0.02), (1, 9000, 0.2)]);
        let found = beside(&slower, &fast).expect("enough");
        assert!((found.longer - 2_f64.ln()).abs() < 1e-3 && found.ln_slots == 2.0);
    }

    #[test]
    fn few_requests_seem_no_quicker_than_many() {
        let mut seed = 1_u64;
        let mut exponential = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            -0.1 * (((seed >> 11) + 1) as f64 / (1_u64 << 53) as f64).ln()
        };
        let (mut usual, mut whole) = (Usual::default(), ByClass::default());
        for _ in 0..100_000 {
            whole.add(0, usual.add(0, exponential(), 10.0), 2.0);
        }
        let mut of_few = || {
            let mut few = ByClass::default();
            (0..8).for_each(|_| few.add(0, usual.add(0, exponential(), 10.0), 2.0));
            few.beside(&whole, &usual).expect("enough").longer
        };
        let mean = (0..2000).map(|_| of_few()).sum::<f64>() / 2000.0;
        assert!(mean.abs() < 0.02, "{mean}");
    }

    #[test]
    fn few_requests_say_little_and_one_nothing() {
        let whole = block(&[(0, 100, 0.01), (1, 1, 0.01)]);
        assert!(beside(&block(&[(0, 1, 0.03)]), &whole).is_none());
        assert!(beside(&block(&[(1, 5, 0.03)]), &whole).is_none());
        let [few, many] = [5, 50].map(|count| block(&[(0, count, 0.01)]));
        let [few, many] = [few, many].map(|it| beside(&it, &whole).expect("enough").variance);
        assert!(few > 5.0 * many, "{few}, {many}");
    }

    #[test]
    fn one_that_hangs_counts_for_no_more_than_six() {
        let mut usual = Usual::default();
        assert_eq!(usual.add(3, 5.0, 10.0), 5.0, "nothing is usual yet");
        (0..10_000).for_each(|_| assert!(usual.add(3, 0.01, 10.0) <= 0.01));
        assert!((usual.add(3, 100.0, 10.0) - 0.06).abs() < 1e-3);
        assert_eq!(usual.mean(4), 0.0);
    }
}
