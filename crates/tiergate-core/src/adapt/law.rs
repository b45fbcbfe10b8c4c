//! How much less, or more, of the server is to be used: a proportional and integral law, in its incremental form.
//!
//! In that form the output is a change, so that a set point at its end winds nothing up, and one that somebody else has moved is
//! taken from where it is.
//!
//! The paper's tuning: with a process that follows at once and samples that are T apart, dead time is T/2. The
//! phase of the controller is -π/6 at the frequency w where the loop's is -π, so that w = (5π/3)/T, Ki = w tan(π/6),
//! and Kp = cos(π/6)/(G p) for a gain margin G and a process gain p. What is returned is to be divided by p; so p is not in here.
//!
//! Source: Abdelzaher 4.4, equations 3 to 8.

use std::f64::consts::PI;

/// Of the change of the error, before the gain margin: cos(π/6).
const PROPORTIONAL: f64 = 0.866_025_403_784_438_6;
/// Of the error in a period, before the gain margin: cos(π/6) Ki T, where Ki T = (5π/3) tan(π/6).
const INTEGRAL: f64 = PROPORTIONAL * 5.0 * PI / 3.0 * 0.577_350_269_189_625_8;

/// The law's memory: the error of the last period.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PiLaw {
    before: Option<f64>,
}

impl PiLaw {
    /// By how much the use of the server is to change for this error (reference less reading).
    pub(crate) fn next(&mut self, gain_margin: f64, error: f64) -> f64 {
        let before = self.before.replace(error).unwrap_or(error);
        (PROPORTIONAL * (error - before) + INTEGRAL * error) / gain_margin
    }

    /// There was no reading: the next one is compared with none.
    pub(crate) fn is_blind(&mut self) {
        self.before = None;
    }
}

/// How far a loop is from oscillating.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margins {
    /// By what factor the process gain may be larger.
    pub gain: f64,
    /// How much later, in periods, what is done may show itself.
    pub delay: f64,
}

/// The margins of the sampled loop whose process gain is `gain` times what is estimated, and whose readings are `late` periods old: a
/// reading of a period that begins when the last step is done is 0 late. Below 1 (gain) or 0 (delay) the loop oscillates.
///
/// Cost: 2,000 points of the frequency response; for status, not for requests.
pub fn margins(gain_margin: f64, gain: f64, late: f64) -> Margins {
    let (proportional, integral) = (PROPORTIONAL / gain_margin, INTEGRAL / gain_margin);
    const POINTS: usize = 2000;
    let mut margins = Margins { gain: f64::INFINITY, delay: f64::INFINITY };
    let mut before: Option<(f64, f64)> = None;
    for point in 1..=POINTS {
        // Radians a period, up to half the rate of sampling.
        let w = PI * point as f64 / POINTS as f64;
        // Change of the set point by the error, (A(1 - 1/z) + B), and the set point is the sum of changes: 1/(1 - 1/z).
        let (re, im) = (1.0 - w.cos(), w.sin());
        let square = re * re + im * im;
        let (sum_re, sum_im) = (proportional + integral * re / square, -integral * im / square);
        let size = gain * sum_re.hypot(sum_im);
        // A step shows in the reading after it: one period, and those that it is late.
        let phase = sum_im.atan2(sum_re) - w * (1.0 + late);
        if let Some((size_before, phase_before)) = before {
            if phase_before > -PI && phase <= -PI {
                margins.gain = margins.gain.min(1.0 / size);
            }
            if size_before >= 1.0 && size < 1.0 {
                margins.delay = margins.delay.min((phase + PI) / w);
            }
        }
        before = Some((size, phase));
    }
    if let Some((size, phase)) = before {
        if margins.gain.is_infinite() && phase <= -PI + 0.1 {
            margins.gain = 1.0 / size;
        }
        if size >= 1.0 {
            margins.delay = 0.0;
        }
    }
    margins
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last errors of a loop whose process gain is `gain` times the estimate, with readings that are so late.
    fn errors(gain_margin: f64, gain: f64, late: usize) -> Vec<f64> {
        let (mut law, mut used) = (PiLaw::default(), vec![0.0; late + 1]);
        for _ in 0..4000 {
            let reading = used[used.len() - 1 - late];
            let next = used[used.len() - 1] + gain * law.next(gain_margin, 0.58 - reading);
            used.push(next);
        }
        used[3950..].iter().map(|used| 0.58 - used).collect()
    }

    fn settles(gain_margin: f64, gain: f64, late: usize) -> bool {
        errors(gain_margin, gain, late).iter().all(|error| error.abs() < 1e-3)
    }

    #[test]
    fn it_settles_without_an_error_that_stays() {
        for gain_margin in [4.0, 10.0] {
            assert!(settles(gain_margin, 1.0, 0), "{gain_margin}");
        }
        // Gain halved and doubled, and readings that are a period late.
        for gain in [0.5, 1.0, 2.0] {
            for late in [0, 1] {
                assert!(settles(10.0, gain, late), "gain {gain}, {late} late");
            }
        }
        assert!(!settles(4.0, 2.0, 0), "the paper's smaller margin does not stand a double gain");
    }

    #[test]
    fn the_margins_are_where_the_loop_begins_to_oscillate() {
        for gain_margin in [4.0, 10.0] {
            for late in [0, 1, 2] {
                let Margins { gain, .. } = margins(gain_margin, 1.0, late as f64);
                assert!(settles(gain_margin, gain * 0.95, late), "{gain_margin} {late}: {gain}");
                assert!(!settles(gain_margin, gain * 1.05, late), "{gain_margin} {late}: {gain}");
            }
        }
        let Margins { gain, delay } = margins(10.0, 1.0, 0.0);
        assert!((4.0..5.0).contains(&gain) && delay > 2.0, "{gain} {delay}");
        let twice = margins(10.0, 2.0, 1.0);
        assert!(twice.gain > 1.0 && twice.delay > 0.0, "{twice:?}");
    }

    #[test]
    fn after_a_pause_the_first_error_is_compared_with_none() {
        let mut law = PiLaw::default();
        law.next(10.0, 0.5);
        law.is_blind();
        assert_eq!(law.next(10.0, -0.5), -0.5 * INTEGRAL / 10.0);
    }
}
