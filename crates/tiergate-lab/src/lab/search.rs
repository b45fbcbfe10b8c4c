//! The best fixed setting of haproxy, found by trying.
//!
//! HAProxy's `maxconn` on a server is what Tiergate finds by itself: how many requests the origin
//! works on at once. An operator would find it by load tests, so the lab does: the settings
//! that the experiment names, one run each, and the one with the most goodput is taken into the comparison.

use super::experiment::Experiment;
use super::run::Turn;
use super::turns::{Lab, Outcome};
use crate::contender::Contender;
use anyhow::Result;

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
    let usual = f64::from(experiment.origin.slots());
    let measure = experiment.measure.iter().position(|m| m.name == BY);
    let turn = |part: &f64| Turn {
        contender: Contender::Haproxy,
        slots: ((usual * part).round() as u32).max(1),
        // The first round of the comparison itself, so that the best is not run twice.
        round: 1,
    };
    let turns: Vec<Turn> = experiment.search.iter().map(turn).collect();
    let outcomes = lab.turns(experiment, capacity, &turns).await?;
    let value = |(_, outcome): &(&Turn, &Option<Outcome>)| {
        let round = outcome.as_ref()?.as_ref().ok().filter(|round| round.void.is_none())?;
        round.values[measure?]
    };
    let least = |value: Option<f64>| value.unwrap_or(f64::MIN);
    let tried = turns.iter().zip(&outcomes);
    let best = tried.max_by(|one, other| least(value(one)).total_cmp(&least(value(other))));
    let best = best.map_or(experiment.origin.slots(), |(turn, _)| turn.slots);
    let tried: Vec<String> = turns.iter().map(|turn| turn.slots.to_string()).collect();
    let words = format!("maxconn {best}, the best of {}", tried.join(", "));
    Ok(Found { slots: best, words })
}
