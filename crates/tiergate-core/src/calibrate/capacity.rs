//! Capacity and knee, from all steps of a ramp.

use super::step::Step;
use super::usage::Usage;
use crate::adapt::Estimate;

/// Steps of the highest throughput belong to the plateau as far as they come this near to it.
pub(super) const PLATEAU: f64 = 0.96;
/// What remains of the capacity after the load went back to the knee, in an origin that is steady.
const STEADY: f64 = 0.8;
/// So many times as many requests as at the knee are clearly beyond it: what is saturated is in use all the time.
const BEYOND: f64 = 1.5;

/// What the origin can do.
#[derive(Clone, Debug)]
pub struct Capacity {
    /// Answers a second at saturation, and the standard error: mean of the steps of the plateau that are clearly beyond the knee,
    /// or of all.
    pub rate: Estimate,
    /// The step at the knee, the least concurrency that reaches the plateau.
    pub knee: Step,
    /// Mean utilizations of the steps that tell the rate.
    pub usage: Usage,
    /// Mean bytes of an answer's body.
    pub bytes: f64,
    /// Whether the origin did the same when the load went back to the knee. One that became slower has no capacity that these
    /// figures tell.
    pub is_steady: bool,
    /// What it did then, in answers a second; `None`: the load did not go back.
    pub after: Option<f64>,
}

/// The capacity by the steps of a ramp; `None`: nothing was answered. Where the ramp ended before saturation it is a lower bound.
///
/// `back`: whether the last step is the one for which the load went back to the knee.
pub fn capacity(steps: &[Step], back: bool) -> Option<Capacity> {
    let Some((last, rising)) = steps.split_last().filter(|_| back) else {
        return of_steps(steps);
    };
    let before = of_steps(rising)?;
    // Compared with the same concurrency: below the knee of some steps the throughput is lower by a little.
    let was = before.knee.rate().min(before.rate.value);
    let doubt = 1.0 + 2.0 * last.error().hypot(before.knee.error());
    let is_steady = last.rate() * doubt >= STEADY * was;
    let after = Some(last.rate());
    if !is_steady {
        return Some(Capacity { is_steady, after, ..before });
    }
    let both = |it: &Step| match it.concurrency == last.concurrency {
        true => it.with(last),
        false => it.clone(),
    };
    let merged: Vec<Step> = rising.iter().map(both).collect();
    Some(Capacity { after, ..of_steps(&merged)? })
}

fn of_steps(steps: &[Step]) -> Option<Capacity> {
    let highest = steps.iter().map(Step::rate_least).fold(0.0, f64::max);
    let plateau = PLATEAU * highest;
    let reached = steps.iter().filter(|it| it.answered > 0 && it.rate() >= plateau);
    let knee = reached.min_by_key(|it| it.concurrency)?;
    // The highest is high by chance, too. With those that may be as high, and not only those that were, the mean is not.
    let may_be = |it: &&Step| {
        it.concurrency >= knee.concurrency && it.rate() * (1.0 + 2.0 * it.error()) >= plateau
    };
    let all: Vec<&Step> = steps.iter().filter(may_be).collect();
    let least = BEYOND * f64::from(knee.concurrency);
    let beyond = all.iter().copied().filter(|it| f64::from(it.concurrency) >= least);
    let beyond: Vec<&Step> = beyond.collect();
    let saturated = if beyond.is_empty() { &all } else { &beyond };
    let usage = saturated.iter().map(|it| (&it.usage, it.time.as_secs_f64()));
    let sum = |of: fn(&Step) -> u64| all.iter().map(|it| of(it)).sum::<u64>() as f64;
    Some(Capacity {
        rate: mean(saturated),
        knee: knee.clone(),
        usage: Usage::mean(usage),
        bytes: sum(|it| it.bytes) / sum(|it| it.answered).max(1.0),
        is_steady: true,
        after: None,
    })
}

/// Mean throughput of steps by their length, and its standard error: by the errors of the steps, or by what they differ by where
/// that is more.
fn mean(steps: &[&Step]) -> Estimate {
    let seconds: f64 = steps.iter().map(|it| it.time.as_secs_f64()).sum();
    let weight = |it: &Step| it.time.as_secs_f64() / seconds;
    let value: f64 = steps.iter().map(|it| it.rate() * weight(it)).sum();
    let own: f64 = steps.iter().map(|it| (it.error() * it.rate() * weight(it)).powi(2)).sum();
    let spread: f64 = steps.iter().map(|it| (it.rate() - value).powi(2)).sum();
    let number = steps.len() as f64;
    let spread = spread / (number * (number - 1.0)).max(1.0);
    Estimate { value, error: own.max(spread).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::super::step::Slice;
    use super::super::usage::Resource;
    use super::*;
    use std::time::Duration;

    fn step(concurrency: u32, rate: u64, busy: f64) -> Step {
        let mut step = Step::new(concurrency);
        for _ in 0..8 {
            step.add(&Slice {
                length: Duration::from_millis(500),
                answered: rate / 2,
                bytes: rate * 50,
                cycles: Duration::from_millis(500) * concurrency,
                usage: Usage::default().with(Resource::Machine, busy),
                ..Slice::default()
            });
        }
        step
    }

    #[test]
    fn the_knee_is_the_least_concurrency_on_the_plateau() {
        let steps = [
            step(1, 100, 0.25),
            step(2, 200, 0.5),
            step(4, 396, 0.97),
            step(8, 404, 1.0),
            step(3, 300, 0.75),
            step(4, 390, 0.98),
        ];
        let found = capacity(&steps, true).expect("answers");
        assert!((found.rate.value - 404.0).abs() < 1.0, "{found:?}");
        assert_eq!((found.knee.concurrency, found.usage.of(Resource::Machine)), (4, Some(1.0)));
        assert!((found.bytes - 100.0).abs() < 1e-9 && found.is_steady);
        let slower = capacity(&[step(1, 100, 1.0), step(2, 100, 1.0), step(1, 60, 1.0)], true);
        let slower = slower.expect("answers");
        assert!(!slower.is_steady, "{slower:?}");
        assert_eq!(slower.usage.of(Resource::Machine), Some(1.0));
        assert!(capacity(&[], false).is_none() && capacity(&[Step::new(1)], true).is_none());
    }

    #[test]
    fn a_server_that_thrashes_beyond_its_knee_is_judged_at_it() {
        let steps = [step(1, 100, 0.3), step(2, 198, 0.6), step(4, 320, 1.0), step(8, 200, 1.0)];
        let found = capacity(&steps, false).expect("answers");
        assert_eq!((found.rate.value, found.knee.concurrency, found.after), (320.0, 4, None));
    }
}
