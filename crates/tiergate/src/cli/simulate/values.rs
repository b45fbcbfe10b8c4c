//! Values of the command line.

use crate::config::{quantities, show};
use std::time::Duration;
use tiergate_sim::distribution::Distribution;
use tiergate_sim::server::Shape;

/// How fast a log is replayed: one speed, or from one to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Speeds {
    from: f64,
    to: f64,
}

/// Speeds that a range is tried at.
const STEPS: i32 = 8;
/// Fastest: a log of a month within seconds.
const SPEED_MAX: f64 = 1e6;

impl Speeds {
    /// Every speed that is tried, ascending: of a range eight, evenly by their factor.
    pub(super) fn all(self) -> Vec<f64> {
        if self.from == self.to {
            return vec![self.from];
        }
        let factor = |n: i32| (self.to / self.from).powf(f64::from(n) / f64::from(STEPS - 1));
        let speed = |n: i32| self.from * factor(n);
        (0..STEPS).map(|n| two_digits(speed(n))).collect()
    }
}

/// With the two digits that matter.
pub(super) fn two_digits(number: f64) -> f64 {
    let scale = 10f64.powf(number.log10().floor() - 1.0);
    // By division: 1.4 is not 14 times 0.1.
    let back = (1.0 / scale).round();
    if scale < 1.0 { (number * back).round() / back } else { (number / scale).round() * scale }
}

/// `10`, `10x`, `1x..10x`.
pub(super) fn speeds(text: &str) -> Result<Speeds, String> {
    let speed = |text: &str| {
        let number = text.strip_suffix('x').unwrap_or(text);
        number.parse().ok().filter(|speed| (1e-3..=SPEED_MAX).contains(speed))
    };
    let expected =
        || format!("must be a speed such as 10x, at most {SPEED_MAX}x, or a range such as 1x..10x");
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    match (speed(from), speed(to)) {
        (Some(from), Some(to)) if from <= to => Ok(Speeds { from, to }),
        _ => Err(expected()),
    }
}

/// A time such as `20ms`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    quantities::time(text).ok_or_else(|| "must be a time such as 20ms or 1.5s".to_owned())
}

/// `20ms`, or a distribution with its parameters behind colons.
pub(super) fn service(text: &str) -> Result<Distribution, String> {
    let expected = || {
        "must be a time such as 20ms, or exponential:20ms, uniform:10ms:30ms, lognormal:20ms:1.5 \
         (mean and standard deviation over mean), bimodal:5ms:200ms:0.1 (short, long, share of the long)"
            .to_owned()
    };
    let ms = |text: &str| {
        let time = quantities::time(text).filter(|time| !time.is_zero());
        time.map(|time| time.as_secs_f64() * 1e3).ok_or_else(expected)
    };
    let number = |text: &str, max: f64| {
        let number = text.parse().ok().filter(|number| (0.0..=max).contains(number));
        number.ok_or_else(expected)
    };
    let parts: Vec<&str> = text.split(':').collect();
    Ok(match parts[..] {
        [mean] | ["constant", mean] => Distribution::Constant { mean_ms: ms(mean)? },
        ["exponential", mean] => Distribution::Exponential { mean_ms: ms(mean)? },
        ["uniform", low, high] => {
            let (low_ms, high_ms) = (ms(low)?, ms(high)?);
            if low_ms > high_ms {
                return Err(expected());
            }
            Distribution::Uniform { low_ms, high_ms }
        }
        ["lognormal", mean, cv] => {
            Distribution::Lognormal { mean_ms: ms(mean)?, cv: number(cv, 100.0)? }
        }
        ["bimodal", short, long, share] => Distribution::Bimodal {
            short_ms: ms(short)?,
            long_ms: ms(long)?,
            long_share: number(share, 1.0)?,
        },
        _ => return Err(expected()),
    })
}

/// What a server is, in words.
pub(super) fn server(shape: &Shape) -> String {
    let mut words = Vec::new();
    words.extend(shape.workers.map(|workers| format!("{workers} workers")));
    words.extend(shape.cores.map(|cores| format!("{cores} cores")));
    for (what, distribution) in [("waiting", shape.wait), ("computing", shape.cpu)] {
        let mean = Duration::from_secs_f64(distribution.mean());
        let mean = Duration::from_micros((mean.as_nanos() as u64).div_ceil(1000));
        if !mean.is_zero() {
            let kind = match distribution {
                Distribution::Constant { .. } => "always",
                Distribution::Uniform { .. } => "evenly around",
                Distribution::Exponential { .. } => "exponential",
                Distribution::Lognormal { .. } => "log-normal",
                Distribution::Bimodal { .. } => "bimodal",
            };
            words.push(format!("{kind} {} {what}", show::time(mean)));
        }
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_one_or_a_range() {
        assert_eq!(speeds("10x").unwrap().all(), [10.0]);
        assert_eq!(speeds("2.5").unwrap().all(), [2.5]);
        let range = speeds("1x..10x").unwrap().all();
        assert_eq!(range, [1.0, 1.4, 1.9, 2.7, 3.7, 5.2, 7.2, 10.0]);
        for wrong in ["", "x", "0", "-1", "10x..1x", "1..", "nan", "1e9", "1x...2x"] {
            assert!(speeds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn service_times_are_times_or_distributions() {
        assert_eq!(service("20ms"), Ok(Distribution::Constant { mean_ms: 20.0 }));
        assert_eq!(service("exponential:1.5s"), Ok(Distribution::Exponential { mean_ms: 1500.0 }));
        assert_eq!(
            service("uniform:10ms:30ms"),
            Ok(Distribution::Uniform { low_ms: 10.0, high_ms: 30.0 })
        );
        assert_eq!(
            service("bimodal:5ms:200ms:0.1"),
            Ok(Distribution::Bimodal { short_ms: 5.0, long_ms: 200.0, long_share: 0.1 })
        );
        for wrong in ["", "20", "0ms", "uniform:30ms:10ms", "lognormal:20ms", "gamma:1ms"] {
            assert!(service(wrong).is_err(), "{wrong}");
        }
    }
}
