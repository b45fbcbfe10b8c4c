//! Whether a claim is reproduced: by bounds in the paper's file, from the figures alone.

use super::data::{Bounds, Claim, Shown, Value};
use super::ours::{change, take};
use crate::lab::page::words::quantity;
use crate::lab::result::{Results, Unit};

/// How a claim came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Reproduced,
    Direction,
    NotReproduced,
    NotMeasured,
}

impl Verdict {
    /// All of them, the best first.
    pub(super) const ALL: [Self; 4] =
        [Self::Reproduced, Self::Direction, Self::NotReproduced, Self::NotMeasured];

    /// What the page calls it.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Direction => "in direction only",
            Self::NotReproduced => "not reproduced",
            Self::NotMeasured => "not measured",
        }
    }
}

/// The verdict on a claim: of several phases, all must be within the bounds.
pub(super) fn of(claim: &Claim, results: &Results) -> Verdict {
    let Some(taken) = claim.ours.as_ref().and_then(|value| take(value, results)) else {
        return Verdict::NotMeasured;
    };
    let all = |bounds: &Bounds| taken.points.iter().all(|point| bounds.hold(point.value));
    if all(&claim.reproduced) {
        Verdict::Reproduced
    } else if all(&claim.direction) {
        Verdict::Direction
    } else {
        Verdict::NotReproduced
    }
}

/// The bounds in words: `reproduced: at most −76 %; direction: at most ±0 %`; a value has its unit once it is known.
pub(super) fn rule(claim: &Claim, results: &Results) -> Option<String> {
    let value = claim.ours.as_ref()?;
    let unit = take(value, results).map(|taken| taken.unit);
    let both = [("reproduced", &claim.reproduced), ("direction", &claim.direction)];
    let words =
        |(name, bounds): (&str, &Bounds)| Some(format!("{name}: {}", within(bounds, value, unit)?));
    let words: Vec<String> = both.into_iter().filter_map(words).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

fn within(bounds: &Bounds, value: &Value, unit: Option<Unit>) -> Option<String> {
    let number = |number: f64| match value.shown {
        Shown::Value => unit.map_or(number.to_string(), |unit| quantity(Some(number), unit)),
        Shown::Multiple => format!("{number}×"),
        Shown::Change => change(number),
    };
    match (bounds.at_least.map(number), bounds.at_most.map(number)) {
        (None, None) => None,
        (Some(least), None) => Some(format!("at least {least}")),
        (None, Some(most)) => Some(format!("at most {most}")),
        (Some(least), Some(most)) => Some(format!("{least} to {most}")),
    }
}
