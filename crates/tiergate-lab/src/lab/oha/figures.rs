//! What oha prints (`--output-format json --stats-success-breakdown`), read.

use crate::load::counts::Counts;
use crate::load::figures::Figures;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What oha says of a request that its client gave up.
const TIMED_OUT: &str = "timeout";

/// The part of its output that is used here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    summary: Summary,
    /// Of 2xx answers, in seconds, by `p50`, `p99`, …; without any answer there is no number.
    latency_percentiles_successful: Option<BTreeMap<String, Option<f64>>>,
    status_code_distribution: BTreeMap<String, u64>,
    error_distribution: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Summary {
    /// From the first request to the last answer, in seconds.
    total: f64,
}

/// What became of the requests of one kind of clients.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Driven {
    /// Numbers and latencies.
    pub(crate) figures: Figures,
    /// From the first request to the last answer, in seconds.
    pub(crate) seconds: f64,
}

/// Reads the output of a process that was to send so many requests; `None`: something is missing, or some requests
/// are.
pub(super) fn read(text: &str, requests: u64) -> Option<Driven> {
    let said: Said = serde_json::from_str(text).ok()?;
    let mut counts = Counts { sent: requests, ..Counts::default() };
    for (status, number) in &said.status_code_distribution {
        *match status.as_str() {
            "503" | "429" => &mut counts.refused,
            status if status.starts_with('2') => &mut counts.ok,
            _ => &mut counts.failed,
        } += number;
    }
    for (error, number) in &said.error_distribution {
        *if error == TIMED_OUT { &mut counts.timed_out } else { &mut counts.failed } += number;
    }
    if counts.ok + counts.refused + counts.failed + counts.timed_out != requests {
        return None;
    }
    let percentiles = said.latency_percentiles_successful.filter(|_| counts.ok > 0);
    let of = |name: &str| Some(percentiles.as_ref()?.get(name).copied()?? * 1e3);
    let figures = Figures {
        counts,
        attempts: requests,
        p25_ms: of("p25"),
        p50_ms: of("p50"),
        p75_ms: of("p75"),
        p90_ms: of("p90"),
        p99_ms: of("p99"),
        ..Figures::default()
    };
    Some(Driven { figures, seconds: said.summary.total })
}

#[cfg(test)]
mod tests;
