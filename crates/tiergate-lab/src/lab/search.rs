//! The best fixed setting of haproxy, found by trying.
//!
//! HAProxy's `maxconn` on a server is what Tiergate finds by itself: how many requests the origin
//! works on at once. An operator would find it by load tests, so the lab does: around what the
//! origin has, one run each, and the one with the most goodput is taken into the comparison.

use super::Lab;
use super::contender::Contender;
use super::experiment::Experiment;
use anyhow::Result;

/// What is tried, as parts of what the origin works on at once.
pub(super) const TRIED: [f64; 5] = [0.5, 0.75, 1.0, 1.5, 2.0];
/// The measure that decides.
const BY: &str = "goodput";

/// A setting that was found.
pub(super) struct Found {
    /// `maxconn`.
    pub(super) slots: u32,
    /// What the page says of it.
    pub(super) words: String,
}

/// Tries each and takes the best.
pub(super) async fn best(
    lab: &mut Lab<'_>,
    experiment: &Experiment,
    capacity: f64,
) -> Result<Found> {
    let usual = experiment.origin.slots();
    let measure = experiment.measure.iter().position(|m| m.name == BY);
    let mut best = (usual, f64::MIN);
    let mut tried = Vec::new();
    for part in TRIED {
        let slots = ((f64::from(usual) * part).round() as u32).max(1);
        // The first round of the comparison itself, so that the best is not run twice.
        let run = lab.run(experiment, Contender::Haproxy, capacity, slots, 1).await?;
        let Ok(round) = run else {
            break;
        };
        let value = measure.and_then(|m| round.values[m]).unwrap_or(f64::MIN);
        if value > best.1 {
            best = (slots, value);
        }
        tried.push(slots.to_string());
    }
    let words = format!("maxconn {}, the best of {}", best.0, tried.join(", "));
    Ok(Found { slots: best.0, words })
}
