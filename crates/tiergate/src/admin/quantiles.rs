//! Quantiles of durations, as `/status` has them.

use serde::{Deserialize, Serialize};
use tiergate_core::histogram::Histogram;

/// Quantiles of a duration, each at most 25 % above the true value. Seconds; absent if nothing was
/// counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// How many were counted.
    pub count: u64,
    /// Half are at most this.
    pub p50_seconds: Option<f64>,
    /// All but one in a hundred are at most this.
    pub p99_seconds: Option<f64>,
}

pub(super) fn quantiles(histogram: &Histogram) -> Quantiles {
    let seconds = |quantile| histogram.quantile(quantile).map(|span| span.as_secs_f64());
    Quantiles { count: histogram.count(), p50_seconds: seconds(0.5), p99_seconds: seconds(0.99) }
}
