//! How long a request takes: by its path, by what the timeline says, by how many are in service.

use crate::units::{parse_duration, written};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Longest mean service time that can be asked for, and longest time of any request.
pub(super) const SERVICE_MAX: Duration = Duration::from_secs(3600);
/// Largest factor by which a part of the site can become slower.
pub(super) const FACTOR_MAX: f64 = 10_000.0;

/// How service times vary about their mean.
#[derive(clap::ValueEnum, Deserialize, Serialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Spread {
    /// All alike.
    Constant,
    /// Exponentially distributed.
    Exponential,
    /// Nine in ten take half the mean, one in ten takes 5.5 times the mean.
    Bimodal,
}

impl Spread {
    /// A service time with the given mean.
    pub(super) fn draw(self, mean: Duration, random: &mut fastrand::Rng) -> Duration {
        match self {
            Self::Constant => mean,
            Self::Exponential => mean.mul_f64(crate::load::exponential(random)),
            Self::Bimodal if random.f64() < 0.9 => mean.mul_f64(0.5),
            Self::Bimodal => mean.mul_f64(5.5),
        }
    }
}

/// Mean service time of the paths that begin with a prefix. Written `/report=200ms`.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Route {
    /// How the path begins.
    pub(crate) prefix: String,
    /// Mean time that a worker spends on it; 0 answers at once.
    pub(crate) service: Duration,
}

impl FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected PREFIX=TIME such as /report=200ms, got {text:?}");
        let (prefix, time) = text.rsplit_once('=').ok_or_else(wrong)?;
        let prefix = prefix_in(prefix)?;
        let service = parse_duration(time)?;
        if service > SERVICE_MAX {
            return Err(format!("{text:?}: the time must be at most an hour"));
        }
        Ok(Self { prefix, service })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.prefix, written(self.service))
    }
}

/// How a path may begin, checked.
pub(super) fn prefix_in(text: &str) -> Result<String, String> {
    match text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => Err(format!("a path begins with /, got {text:?}")),
    }
}

/// Slowing down under too many requests at once, as by lock contention or lost caches: with more
/// than `above` in service, a request that begins takes `1 + factor * excess / above` times as
/// long. Written `16:0.5`.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Thrash {
    above: usize,
    factor: f64,
}

impl FromStr for Thrash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected REQUESTS:FACTOR such as 16:0.5, got {text:?}");
        let (above, factor) = text.split_once(':').ok_or_else(wrong)?;
        let above: usize = above.parse().map_err(|_| wrong())?;
        let factor: f64 = factor.parse().map_err(|_| wrong())?;
        if above == 0 || !(0.0..=FACTOR_MAX).contains(&factor) {
            return Err(format!(
                "{text:?}: at least 1 request, and a factor from 0 to {FACTOR_MAX}"
            ));
        }
        Ok(Self { above, factor })
    }
}

impl fmt::Display for Thrash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.above, self.factor)
    }
}

impl Thrash {
    fn times(self, in_service: usize) -> f64 {
        1.0 + self.factor * in_service.saturating_sub(self.above) as f64 / self.above as f64
    }
}

macro_rules! as_text_in_files {
    ($($kind:ty),*) => {$(
        impl TryFrom<String> for $kind {
            type Error = String;
            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }
        impl From<$kind> for String {
            fn from(value: $kind) -> Self {
                value.to_string()
            }
        }
    )*};
}
pub(super) use as_text_in_files;
as_text_in_files!(Route, Thrash);

/// The mean service time of each request as it begins.
pub(super) struct Times {
    usual: Duration,
    /// Longest prefix first.
    routes: Vec<Route>,
    thrash: Option<Thrash>,
    /// Prefixes and factors that the timeline has set; at most one entry a prefix.
    slow: Vec<(String, f64)>,
    in_service: usize,
}

impl Times {
    pub(super) fn new(usual: Duration, routes: &[Route], thrash: Option<Thrash>) -> Self {
        let mut routes = routes.to_vec();
        routes.sort_by_key(|route| std::cmp::Reverse(route.prefix.len()));
        Self { usual, routes, thrash, slow: Vec::new(), in_service: 0 }
    }

    /// Mean service time of a path on an ordinary day.
    pub(super) fn usual(&self, path: &str) -> Duration {
        let route = self.routes.iter().find(|route| path.starts_with(&route.prefix));
        route.map_or(self.usual, |route| route.service)
    }

    /// From now on paths with that prefix take `factor` times as long; 1 is the ordinary day.
    pub(super) fn slow(&mut self, prefix: &str, factor: f64) {
        self.slow.retain(|(known, _)| known != prefix);
        self.slow.push((prefix.to_owned(), factor));
    }

    /// Counts a request in, and returns its mean service time.
    pub(super) fn begin(&mut self, path: &str) -> Duration {
        self.in_service += 1;
        let hits = self.slow.iter().filter(|(prefix, _)| path.starts_with(prefix));
        let slow: f64 = hits.map(|(_, factor)| factor).product();
        let thrash = self.thrash.map_or(1.0, |thrash| thrash.times(self.in_service));
        let seconds = self.usual(path).as_secs_f64() * slow * thrash;
        Duration::from_secs_f64(seconds.min(SERVICE_MAX.as_secs_f64()))
    }

    /// Counts it out.
    pub(super) fn end(&mut self) {
        self.in_service -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spread_keeps_the_mean() {
        for spread in [Spread::Constant, Spread::Exponential, Spread::Bimodal] {
            let mut random = fastrand::Rng::with_seed(7);
            let mean = Duration::from_millis(20);
            let total: Duration = (0..20_000).map(|_| spread.draw(mean, &mut random)).sum();
            let ratio = total.as_secs_f64() / 20_000.0 / mean.as_secs_f64();
            assert!((ratio - 1.0).abs() < 0.05, "{spread:?}: {ratio}");
        }
    }

    const MS: Duration = Duration::from_millis(1);

    fn times(thrash: Option<&str>) -> Times {
        let routes = ["/a=10ms", "/a/b=20ms", "/free=0"].map(|text| text.parse().unwrap());
        Times::new(40 * MS, &routes, thrash.map(|text| text.parse().unwrap()))
    }

    #[test]
    fn the_longest_route_counts() {
        let times = times(None);
        let of = |path| times.usual(path);
        assert_eq!([of("/"), of("/a"), of("/a/b/c")], [40 * MS, 10 * MS, 20 * MS]);
        assert_eq!(of("/free"), Duration::ZERO);
    }

    #[test]
    fn slow_parts_multiply_and_recover() {
        let mut times = times(None);
        times.slow("/a", 3.0);
        times.slow("/", 2.0);
        assert_eq!((times.begin("/x"), times.begin("/a")), (80 * MS, 60 * MS));
        times.slow("/a", 1.0);
        assert_eq!(times.begin("/a"), 20 * MS);
        assert_eq!(times.slow.len(), 2, "a prefix has one entry");
        times.slow("/", FACTOR_MAX * FACTOR_MAX);
        assert_eq!(times.begin("/"), SERVICE_MAX, "bounded");
    }

    #[test]
    fn too_many_at_once_slow_each_other_down() {
        let mut times = times(Some("2:0.5"));
        let took: Vec<Duration> = (0..4).map(|_| times.begin("/")).collect();
        assert_eq!(took, [40 * MS, 40 * MS, 50 * MS, 60 * MS]);
        times.end();
        times.end();
        times.end();
        assert_eq!(times.begin("/"), 40 * MS);
    }

    #[test]
    fn what_is_written_is_read_back_and_mistakes_are_told() {
        for text in ["/report=200ms", "/a=b=1500us", "/=0", "/x=2s"] {
            assert_eq!(text.parse::<Route>().unwrap().to_string(), text);
        }
        assert_eq!("16:0.5".parse::<Thrash>().unwrap().to_string(), "16:0.5");
        for wrong in ["", "report=1s", "/a", "/a=", "/a=-1s", "/a=2000m"] {
            assert!(wrong.parse::<Route>().is_err(), "{wrong:?}");
        }
        for wrong in ["", "16", "0:1", "16:-1", "16:NaN", "16:inf", "x:1"] {
            assert!(wrong.parse::<Thrash>().is_err(), "{wrong:?}");
        }
    }
}
