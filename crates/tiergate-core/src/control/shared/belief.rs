//! What is believed of the knee: the number of slots from which on requests queue at the origin, and how round it is. A
//! probability for each on a grid.
//!
//! With `k` the ln of the knee and `w` its width, the ln of the time in service at `exp(x)` slots is
//! `w · ln(1 + exp((x - k) / w))` more than that of a request alone. Sharp (`w` = 0): so many workers and one queue. At 1:
//! contention by the law of Gunther. Between: workers in several processes that take requests unevenly.

use super::times::Point;

/// What time in service costs: the limit stands where a hundredth more slots are expected to give this part of a hundredth
/// more throughput; and how much more for each unit of doubt (ln of the knee), so that a knee that is sought is not sought
/// far above.
pub(super) const PRICE: (f64, f64) = (0.25, 0.3);
/// ln of slots on the grid: of the first place, places for each factor of e, and all: from 0.5 to 30,000 slots.
const FROM: f64 = -0.7;
const PER_ONE: f64 = 16.0;
const PLACES: usize = 176;
/// Widths of knees.
const WIDTHS: [f64; 3] = [0.02, 0.25, 1.0];
/// Part of probability that a cycle is wrong whatever it says.
const WRONG: f64 = 0.003;
/// Part of the belief that moves far in a cycle, since origins change; the same where times in service have changed;
/// how far (mean, ln), and how far the rest moves.
const FAR: f64 = 0.01;
const FAR_CHANGED: f64 = 0.3;
const FAR_BY: f64 = 0.5;
const NEAR_BY: f64 = 0.015;

/// Part of the belief that goes back in a cycle to where the knee was before capacity was lost.
const BACK: f64 = 0.02;

type Grid = [[f64; PLACES]; WIDTHS.len()];

/// The grid, and how far it has moved from where it was made, in places: less than one.
#[derive(Clone, Debug)]
pub(super) struct Belief {
    grid: Grid,
    off: f64,
}

/// How much longer requests take at so much (ln) above a knee, as ln.
fn longer(above: f64, width: f64) -> f64 {
    let scaled = above / width;
    match scaled {
        ..-5.0 => 0.0,
        5.0.. => above,
        _ => width * scaled.exp().ln_1p(),
    }
}

/// How much more throughput more slots give there: the elasticity, from 1 far below the knee to 0.
fn gains(above: f64, width: f64) -> f64 {
    1.0 / (1.0 + (above / width).exp())
}

impl Belief {
    /// Nothing is known but where to begin, as ln.
    pub(super) fn new(ln_slots: f64) -> Self {
        let mut belief = Belief { grid: [[0.0; PLACES]; WIDTHS.len()], off: 0.0 };
        let mut grid = belief.grid;
        for line in &mut grid {
            for (place, mass) in line.iter_mut().enumerate() {
                *mass = (-(belief.ln_of(place) - ln_slots).abs()).exp();
            }
        }
        belief.set(grid);
        belief
    }

    /// ln of the slots of a place.
    fn ln_of(&self, place: usize) -> f64 {
        FROM + (place as f64 + self.off) / PER_ONE
    }

    /// Believes this, made normal.
    fn set(&mut self, mut grid: Grid) {
        let sum: f64 = grid.iter().flatten().sum();
        grid.iter_mut().flatten().for_each(|mass| *mass /= sum);
        self.grid = grid;
    }

    /// Says what the times in service of a cycle were. Returns the variance that the best knee leaves unexplained,
    /// relative to the points' own. O(places · points).
    pub(super) fn observe(&mut self, points: &[Point]) -> f64 {
        let mut best = f64::MAX;
        let mut grid = self.grid;
        for (line, width) in grid.iter_mut().zip(WIDTHS) {
            for (place, mass) in line.iter_mut().enumerate() {
                let mut sums = (0.0, 0.0, 0.0);
                for it in points {
                    let off = it.longer - longer(it.ln_slots - self.ln_of(place), width);
                    let weight = 1.0 / it.variance;
                    sums = (sums.0 + weight, sums.1 + off * weight, sums.2 + off * off * weight);
                }
                let square = (sums.2 - sums.1 * sums.1 / sums.0).max(0.0);
                best = best.min(square);
                *mass *= WRONG + (-square / 2.0).exp();
            }
        }
        self.set(grid);
        best / (points.len() as f64 - 1.0)
    }

    /// A cycle has passed that told so much, 1 or more being all that it can: the origin may be another one by now.
    pub(super) fn pass(&mut self, told: f64) {
        self.spread(FAR * told.min(1.0));
    }

    /// Times in service have grown by this (ln): the origin can do so much less at once, or each request is more
    /// work, or anything else.
    pub(super) fn changed(&mut self, grown: f64) {
        let moved = self.moved((-grown * PER_ONE).round() as isize);
        let masses = self.grid.iter_mut().flatten().zip(moved.iter().flatten());
        masses.for_each(|(mass, moved)| *mass = 0.5 * (*mass + moved));
        self.spread(FAR_CHANGED);
    }

    /// The knee may be where it was before, of which this is ln.
    pub(super) fn may_be_back(&mut self, ln_slots: f64) {
        let place = ((ln_slots - FROM) * PER_ONE - self.off).round().clamp(0.0, PLACES as f64 - 1.0)
            as usize;
        for line in &mut self.grid {
            let sum: f64 = line.iter().sum();
            line.iter_mut().for_each(|mass| *mass *= 1.0 - BACK);
            line[place] += BACK * sum;
        }
    }

    fn spread(&mut self, part: f64) {
        let mut grid = self.grid;
        for line in &mut grid {
            let (far, near) = (spread_by(*line, FAR_BY), spread_by(*line, NEAR_BY));
            for ((mass, far), near) in line.iter_mut().zip(far).zip(near) {
                *mass = (1.0 - part) * near + part * far;
            }
        }
        // A knee that has moved far may have another width, too.
        for place in 0..PLACES {
            let mean = grid.iter().map(|line| line[place]).sum::<f64>() / WIDTHS.len() as f64;
            grid.iter_mut().for_each(|line| line[place] += part * (mean - line[place]));
        }
        self.set(grid);
    }

    /// So many slots, as ln, are enough for now: more of them were never of use.
    pub(super) fn suffices(&mut self, ln_slots: f64) {
        let mut grid = self.grid;
        for line in &mut grid {
            for (place, mass) in line.iter_mut().enumerate() {
                *mass *= (-(self.ln_of(place) - ln_slots).max(0.0)).exp();
            }
        }
        self.set(grid);
    }

    /// Moves it by this, as ln.
    pub(super) fn shift(&mut self, by: f64) {
        self.off += by * PER_ONE;
        let places = self.off.round();
        self.off -= places;
        if places != 0.0 {
            self.set(self.moved(places as isize));
        }
    }

    /// The grid with every mass so many places further.
    fn moved(&self, places: isize) -> Grid {
        let mut grid = self.grid;
        for (line, before) in grid.iter_mut().zip(&self.grid) {
            for (place, mass) in line.iter_mut().enumerate() {
                *mass = before[(place as isize - places).clamp(0, PLACES as isize - 1) as usize];
            }
        }
        grid
    }

    /// The fewest slots, as ln, at which more of them give less throughput than `price` for each part of time in service
    /// that they cost. O(places · log(places)).
    pub(super) fn best(&self, price: f64) -> f64 {
        let at = |place: usize| {
            let lines = self.grid.iter().zip(WIDTHS);
            lines
                .map(|(line, width)| {
                    let masses = line.iter().enumerate();
                    masses
                        .map(|(knee, mass)| {
                            mass * gains(self.ln_of(place) - self.ln_of(knee), width)
                        })
                        .sum::<f64>()
                })
                .sum::<f64>()
        };
        let (mut low, mut high) = (0, PLACES - 1);
        while high - low > 1 {
            let middle = (low + high) / 2;
            if at(middle) > price { low = middle } else { high = middle }
        }
        let (more, less) = (at(low), at(high));
        self.ln_of(low) + ((more - price) / (more - less).max(1e-9)).clamp(0.0, 1.0) / PER_ONE
    }

    /// ln of the slots that the knee is below with this probability.
    fn quantile(&self, part: f64) -> f64 {
        let mut sum = 0.0;
        for place in 0..PLACES {
            let mass: f64 = self.grid.iter().map(|line| line[place]).sum();
            if sum + mass >= part {
                return self.ln_of(place) + ((part - sum) / mass - 0.5) / PER_ONE;
            }
            sum += mass;
        }
        self.ln_of(PLACES - 1)
    }

    /// Standard deviation of ln of the knee, from the quantiles that are one away from the median.
    pub(super) fn doubt(&self) -> f64 {
        (self.quantile(0.84) - self.quantile(0.16)) / 2.0
    }
}

/// Each place's part goes to its neighbours, by a two-sided exponential distribution with this mean.
fn spread_by(mut line: [f64; PLACES], mean: f64) -> [f64; PLACES] {
    let keep = (-1.0 / (mean * PER_ONE)).exp();
    let pass = |carry: f64, mass: &mut f64| {
        *mass = carry * keep + *mass * (1.0 - keep);
        *mass
    };
    line.iter_mut().fold(0.0, pass);
    line.iter_mut().rev().fold(0.0, pass);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: f64 = super::PRICE.0;

    /// Observes so many cycles at an origin with such a knee, with looks around the best of what is believed.
    fn observe(belief: &mut Belief, cycles: u32, knee: f64, width: f64) -> f64 {
        for _ in 0..cycles {
            let base = belief.best(PRICE);
            let points = [-0.2, 0.0, 0.0, 0.2].map(|look| {
                let ln_slots = base + look;
                let variance = 0.03 * 0.03;
                Point { ln_slots, longer: longer(ln_slots - knee.ln(), width), variance }
            });
            belief.observe(&points);
            belief.pass(1.0);
        }
        belief.best(PRICE).exp()
    }

    #[test]
    fn a_sharp_knee_is_found_from_far_below_and_far_above() {
        for start in [1.0, 10.0, 100.0, 2_000.0_f64] {
            let mut belief = Belief::new(start.ln());
            let found = observe(&mut belief, 40, 50.0, 0.01);
            assert!((49.0..56.0).contains(&found), "from {start}: {found}");
            assert!(belief.doubt() < 0.1, "{}", belief.doubt());
        }
    }

    #[test]
    fn where_the_knee_is_round_the_limit_stands_where_a_slot_is_not_worth_its_price() {
        // T = 1 + n / K gives 0.3 of the gain at n = 2.3 K.
        let mut belief = Belief::new(10_f64.ln());
        let found = observe(&mut belief, 100, 20.0, 1.0);
        assert!((40.0..75.0).contains(&found), "{found}");
    }

    #[test]
    fn a_knee_that_moves_is_followed() {
        let mut belief = Belief::new(10_f64.ln());
        observe(&mut belief, 40, 50.0, 0.01);
        let found = observe(&mut belief, 40, 25.0, 0.01);
        assert!((23.0..29.0).contains(&found), "halved: {found}");
        let found = observe(&mut belief, 40, 75.0, 0.01);
        assert!((70.0..85.0).contains(&found), "three times as much: {found}");
    }

    #[test]
    fn moves_of_less_than_a_place_add_up_and_blur_nothing() {
        let mut belief = Belief::new(10_f64.ln());
        observe(&mut belief, 40, 50.0, 0.01);
        let (before, doubt) = (belief.best(PRICE), belief.doubt());
        (0..1000).for_each(|_| belief.shift(0.0007));
        assert!((belief.best(PRICE) - before - 0.7).abs() < 1e-6);
        assert!((belief.doubt() - doubt).abs() < 1e-6);
    }

    #[test]
    fn times_that_have_grown_make_it_doubt() {
        let mut belief = Belief::new(50_f64.ln());
        observe(&mut belief, 40, 50.0, 0.01);
        let (doubt, before) = (belief.doubt(), belief.quantile(0.25));
        belief.changed(2_f64.ln());
        assert!(belief.doubt() > 3.0 * doubt, "{doubt} before, {} after", belief.doubt());
        let lower = belief.quantile(0.25);
        assert!((before - lower - 2_f64.ln()).abs() < 0.2, "{before} before, {lower} after");
    }

    #[test]
    fn points_that_nothing_explains_are_said() {
        let point = |ln_slots, longer| Point { ln_slots, longer, variance: 0.01 };
        let mut belief = Belief::new(2.3);
        let odd = belief.observe(&[point(2.0, 0.5), point(2.3, 0.0), point(2.6, 0.5)]);
        let like = belief.observe(&[point(2.0, 0.0), point(2.3, 0.0), point(2.6, 0.0)]);
        assert!(odd > 5.0 && like < 0.1, "{odd}, {like}");
        assert!((belief.grid.iter().flatten().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}
