//! By how much longer requests take beside background requests in progress, learned from pairs of turns.
//!
//! Two ways. By least squares, as if each background request made them longer by as much: soon known, and says what is to be expected of more
//! than have been tried. And for itself by about how many there were: where only many hurt, or more do not hurt more, what is in proportion is not so.

/// A contrast of fewer background requests in progress says nothing.
pub(super) const CONTRAST_MIN: f64 = 0.05;
/// What is thought of the effect of one background request before anything is known: 0, give or take so much, in ln.
const UNKNOWN: f64 = 0.3;
/// The effect of as many as the bound lets in is never known better than this, in ln; and of one number for itself, so that it is not long believed once it is
/// wrong.
const CERTAIN: f64 = 0.01;
const CERTAIN_OF_STEP: f64 = 0.02;
/// The numbers that are looked at for themselves: from the least on, each so many times the last.
const STEPS: usize = 26;
const STEP_LEAST: f64 = 0.05;
const STEP_RATIO: f64 = 1.5;
/// What one pair of turns leaves of what was known: it lasts about 250.
const MEMORY: f64 = 0.996;
/// And of one number for itself: it lasts about 200, because what is not tried any more is not learned anew.
const MEMORY_OF_STEP: f64 = 0.995;
/// What is left of it where pairs do not fit any more: by so many standard deviations of their mean over about ten.
const MEMORY_SURPRISED: f64 = 0.2;
const SURPRISE: f64 = 3.0;
const RECENT: f64 = 0.2;
/// How many standard errors are left out of what is sure: where many effects are looked at, chance has some of them look as if they were there.
const SURELY: f64 = 2.5;
/// Variance of the difference between two turns, however many requests come: a pause of the origin's hits them all. And a pair counts as no further from what is
/// known than so many standard deviations, so that one alone proves nothing.
const PAIR_VARIANCE: f64 = 0.001;
const FARTHEST: f64 = 3.0;
/// Variance of ln of the time within a kind of request before anything is known, and how slowly it is learned.
const VARIANCE: f64 = 1.0;
const VARIANCE_STEP: f64 = 0.01;
/// It is never less: what is equal to the microsecond is so by rounding.
const VARIANCE_MIN: f64 = 1e-3;

/// What the contrast has found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Felt {
    /// By how much longer the foreground takes for each background request in progress, in ln.
    pub each: f64,
    /// Its standard error.
    pub error: f64,
}

/// Requests of a turn, and what they took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) requests: u32,
    /// The sum of what they took in ln, beside what is usual.
    sum: f64,
}

impl Taken {
    pub(super) const NOTHING: Taken = Taken { requests: 0, sum: 0.0 };

    /// The square by which it differs from those before it says how much they vary within a turn; `None`: it is the first.
    pub(super) fn note(&mut self, x: f64) -> Option<f64> {
        let before = f64::from(self.requests);
        let square = (x - self.mean()).powi(2) * before / (before + 1.0);
        self.requests += 1;
        self.sum += x;
        (before > 0.0).then_some(square)
    }

    /// Those of another turn, too.
    pub(super) fn add(&mut self, other: Taken) {
        self.requests += other.requests;
        self.sum += other.sum;
    }

    pub(super) fn mean(self) -> f64 {
        self.sum / f64::from(self.requests.max(1))
    }
}

/// Background requests in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    /// What those who came in the turn with them found, on average, and how many more that were than in the one without.
    pub(super) present: f64,
    pub(super) contrast: f64,
    /// The bound.
    pub(super) most: f64,
}

/// Sums of a regression through the origin: weighted.
#[derive(Clone, Copy, Debug)]
struct Sums {
    squares: f64,
    products: f64,
}

impl Sums {
    const NOTHING: Sums = Sums { squares: 0.0, products: 0.0 };

    fn forget(&mut self, left: f64) {
        self.squares *= left;
        self.products *= left;
    }

    /// It took so much longer with so many more, and is not to be known better than by so much of each.
    fn add(&mut self, weight: f64, contrast: f64, difference: f64, certain: f64) {
        self.squares += weight * contrast * contrast;
        self.products += weight * contrast * difference;
        self.forget((certain.powi(2) * self.squares).recip().min(1.0));
        debug_assert!(self.squares.is_finite() && self.products.is_finite());
    }

    fn mean(&self) -> f64 {
        self.products / self.squares.max(1e-9)
    }

    /// `unknown`: the standard error where nothing is known.
    fn felt(&self, unknown: f64) -> Felt {
        let known = self.squares + unknown.powi(-2);
        Felt { each: self.products / known, error: known.sqrt().recip() }
    }
}

/// What is known of the effect on some requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effect {
    variance: f64,
    /// How many times as much pairs vary as their requests' variance accounts for: those of a queue vary together.
    spread: f64,
    /// Mean of what did not fit of the last pairs, in standard deviations of one.
    misfit: f64,
    /// In proportion.
    sums: Sums,
    /// By about how many there were; as of one each.
    steps: [Sums; STEPS],
}

impl Effect {
    pub(super) const UNKNOWN: Effect = Effect {
        variance: VARIANCE,
        spread: 1.0,
        misfit: 0.0,
        sums: Sums::NOTHING,
        steps: [Sums::NOTHING; STEPS],
    };

    /// A request differed by so much, squared, from others.
    pub(super) fn varies(&mut self, square: f64) {
        self.variance += VARIANCE_STEP * (square - self.variance);
        self.variance = self.variance.max(VARIANCE_MIN);
    }

    /// A pair of turns is over. O(steps).
    pub(super) fn forget(&mut self) {
        self.sums.forget(MEMORY);
        self.steps.iter_mut().for_each(|step| step.forget(MEMORY_OF_STEP));
    }

    /// In it requests came both with so many background requests, which were so many more than without, and without; and the bound.
    pub(super) fn learn(&mut self, numbers: Numbers, with: Taken, without: Taken) {
        let Numbers { present, contrast, most } = numbers;
        let difference = with.mean() - without.mean();
        let counts = 1.0 / f64::from(with.requests) + 1.0 / f64::from(without.requests);
        let Felt { each, error } = self.felt();
        let rest = difference - each * contrast;
        let expected = self.variance * counts + PAIR_VARIANCE;
        let variance = expected * self.spread + (contrast * error).powi(2);
        self.misfit += RECENT * ((rest / variance.sqrt()).clamp(-SURPRISE, SURPRISE) - self.misfit);
        let spread = (rest * rest / expected).min(SURPRISE * SURPRISE * self.spread);
        self.spread = (self.spread + 0.05 * (spread - self.spread)).clamp(1.0, 20.0);
        // The standard deviation of such a mean.
        let is_surprise = self.misfit.abs() > SURPRISE * (RECENT / (2.0 - RECENT)).sqrt();
        if is_surprise {
            self.misfit = 0.0;
            // That it is not in proportion is no news to the steps.
            self.sums.forget(MEMORY_SURPRISED);
        }
        let weight = 1.0 / (expected * self.spread);
        self.sums.add(weight, contrast, difference, CERTAIN / most.max(contrast));
        let step = (present / STEP_LEAST).max(1.0).log(STEP_RATIO).round() as usize;
        let step = &mut self.steps[step.min(STEPS - 1)];
        let farthest = FARTHEST / weight.sqrt();
        let difference = difference.clamp(step.mean() - farthest, step.mean() + farthest);
        step.add(weight, 1.0, difference, CERTAIN_OF_STEP);
    }

    /// The bound followed what is known, and is so many times what it was: of far fewer, what is known of many says little, because an effect is hardly ever in proportion.
    pub(super) fn forgets_far(&mut self, ratio: f64) {
        if ratio < STEP_RATIO.recip() {
            self.sums.forget(ratio.powi(2));
        }
    }

    /// The effect of one background request.
    pub(super) fn felt(&self) -> Felt {
        self.sums.felt(UNKNOWN)
    }

    /// What it is at least, as far as chance allows to say.
    pub(super) fn surely(&self) -> f64 {
        let Felt { each, error } = self.felt();
        (each - SURELY * error).max(0.0)
    }

    /// Fewer than the fewest of which it is certain that they make requests longer by more than this. O(steps).
    pub(super) fn unhurt(&self, tolerated: f64) -> f64 {
        let hurts = |step: &Sums| {
            let Felt { each, error } = step.felt(1.0 / tolerated);
            each - SURELY * error > tolerated
        };
        let fewest = self.steps.iter().position(hurts);
        fewest.map_or(f64::INFINITY, |step| STEP_LEAST * STEP_RATIO.powf(step as f64 - 0.5))
    }
}
