//! The best fixed setting of haproxy, or of Tiergate with fixed rates, found by trying.
//!
//! HAProxy's `maxconn` on a server is what Tiergate finds by itself: how many requests the origin
//! works on at once. An operator would find it by load tests, so the lab does: first the settings
//! that the experiment names, then between the best one and its neighbours, or beyond it where it has none, one run each.
//! The one with the most goodput is taken into the comparison.
//!
//! For what a control does while running, the comparison is Tiergate without it, with rates in its place; its policy writes them as
//! multiples of the number that is searched, so that they are scaled together.

use super::experiment::{CLOSER, Experiment};
use super::run::Turn;
use super::turns::{Lab, Outcome};
use crate::contender::Contender;
use anyhow::Result;

/// The measure that decides.
const BY: &str = "goodput";
/// Neighbours that differ by a smaller factor are close enough.
const CLOSE: f64 = 1.15;

/// A setting that was found.
pub(super) struct Found {
    /// `maxconn`, or what rates are multiples of.
    pub(super) slots: u32,
    /// What the page says of it.
    pub(super) words: String,
}

/// Tries some and takes the best.
pub(super) async fn best(
    lab: &mut Lab<'_>,
    experiment: &Experiment,
    contender: Contender,
    capacity: f64,
) -> Result<Found> {
    let usual = f64::from(experiment.origin.slots());
    let measure = experiment.measure.iter().position(|m| m.name == BY);
    let value = |outcome: &Option<Outcome>| {
        let round = outcome.as_ref()?.as_ref().ok().filter(|round| round.void.is_none())?;
        round.values[measure?]
    };
    let mut tried: Vec<(u32, f64)> = Vec::new();
    let mut next: Vec<u32> =
        experiment.search.iter().map(|part| ((usual * part).round() as u32).max(1)).collect();
    let mut left = experiment.searched_max();
    for _ in 0..=CLOSER {
        // The first round of the comparison itself, so that the best is not run twice.
        let turn = |&slots: &u32| Turn { contender, slots, round: 1 };
        let turns: Vec<Turn> = next.iter().map(turn).collect();
        left -= turns.len();
        let outcomes = lab.turns(experiment, capacity, &turns).await?;
        // Without goodput, or any figure, it is the worst.
        let values = outcomes.iter().map(|outcome| value(outcome).unwrap_or(f64::MIN));
        tried.extend(next.iter().copied().zip(values));
        tried.sort_by_key(|(slots, _)| *slots);
        next = closer(&tried);
    }
    (0..left).for_each(|_| lab.progress.skipped());
    let best = of_most(&tried).map_or(experiment.origin.slots(), |place| tried[place].0);
    let part = |slots: u32| format!("{:.2}", f64::from(slots) / usual);
    let word = |slots: u32| if contender.is_ours() { part(slots) } else { slots.to_string() };
    let name = if contender.is_ours() { "rates times" } else { "maxconn" };
    let tried: Vec<String> = tried.iter().map(|(slots, _)| word(*slots)).collect();
    let words = format!("{name} {}, the best of {}", word(best), tried.join(", "));
    Ok(Found { slots: best, words })
}

/// Where the most goodput is.
fn of_most(tried: &[(u32, f64)]) -> Option<usize> {
    (0..tried.len()).max_by(|one, other| tried[*one].1.total_cmp(&tried[*other].1))
}

/// What to try next: halfway, as a factor, from the best setting to each neighbour, and half or twice as many
/// where it has none. `tried` is in the order of the settings.
fn closer(tried: &[(u32, f64)]) -> Vec<u32> {
    let Some(best) = of_most(tried) else { return Vec::new() };
    let slots = f64::from(tried[best].0);
    let below = match best {
        0 => slots / 2.0,
        _ => (slots * f64::from(tried[best - 1].0)).sqrt(),
    };
    let above =
        tried.get(best + 1).map_or(slots * 2.0, |(next, _)| (slots * f64::from(*next)).sqrt());
    let is_new = |next: &u32| *next > 0 && tried.iter().all(|(slots, _)| slots != next);
    let apart = |next: f64| next.max(slots) / next.min(slots) > CLOSE.sqrt();
    [below, above]
        .into_iter()
        .filter(|next| apart(*next))
        .map(|next| next.round() as u32)
        .filter(is_new)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What it finds for an origin whose goodput is largest at so many, and how many runs that took.
    fn found(most_at: f64, first: &[u32]) -> (u32, usize) {
        let value = |slots: u32| -(f64::from(slots) / most_at).ln().abs();
        let mut tried: Vec<(u32, f64)> =
            first.iter().map(|slots| (*slots, value(*slots))).collect();
        for _ in 0..CLOSER {
            tried.extend(closer(&tried).into_iter().map(|slots| (slots, value(slots))));
            tried.sort_by_key(|(slots, _)| *slots);
        }
        (tried[of_most(&tried).unwrap()].0, tried.len())
    }

    #[test]
    fn it_looks_closer_around_the_best() {
        assert_eq!(found(20.0, &[8, 16, 24]), (20, 7));
        assert_eq!(found(12.0, &[8, 16, 24]).0, 13, "to a ninth");
        assert_eq!(found(4.0, &[16, 24]).0, 4, "and beyond what the experiment names");
        assert_eq!(found(60.0, &[16, 24]).0, 48);
        assert_eq!(found(1.0, &[1, 2]).0, 1);
    }

    #[test]
    fn neighbours_that_are_close_are_close_enough() {
        assert!(closer(&[(16, 1.0), (17, 2.0), (18, 1.0)]).is_empty());
        assert!(closer(&[]).is_empty());
    }
}
