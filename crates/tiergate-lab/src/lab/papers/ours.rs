//! Values of ours, taken from results. Pure.

use super::data::{Shown, Source, Value};
use crate::lab::page::spread::{Spread, valid};
use crate::lab::page::words::{number, quantity};
use crate::lab::result::{Better, Results, Unit};

/// A value at a load.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    /// The phase; empty for a measure.
    pub(super) phase: String,
    /// What is judged and shown.
    pub(super) value: f64,
    /// The two that it was computed from.
    pub(super) parts: Option<(f64, f64)>,
}

/// What a value came to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Taken {
    /// In the order of the phases; one for a measure.
    pub(super) points: Vec<Point>,
    /// Of the values that it was computed from.
    pub(super) unit: Unit,
    shown: Shown,
}

/// Takes a value from results; `None`: they do not have it, or not all of it.
pub(super) fn take(value: &Value, results: &Results) -> Option<Taken> {
    let (own, unit) = series(&value.of, results)?;
    let other = match &value.over {
        Some(over) => Some(series(&over.or(&value.of), results)?.0),
        None => None,
    };
    let points = own.iter().enumerate().map(|(place, (phase, own))| {
        let (value, parts) = match (&other, value.shown) {
            (None, _) => (*own, None),
            (Some(other), shown) => {
                let base = other.get(place)?.1;
                let multiple = (base != 0.0).then(|| own / base)?;
                let less = if shown == Shown::Change { 1.0 } else { 0.0 };
                (multiple - less, Some((*own, base)))
            }
        };
        Some(Point { phase: phase.clone(), value, parts })
    });
    Some(Taken { points: points.collect::<Option<_>>()?, unit, shown: value.shown })
}

/// The medians at a source, by phase, and what they are in.
fn series(source: &Source, results: &Results) -> Option<(Vec<(String, f64)>, Unit)> {
    let experiment =
        results.experiments.iter().find(|e| Some(&e.name) == source.experiment.as_ref())?;
    let contender = experiment.contender(source.contender())?;
    if let Some(name) = &source.measure {
        let place = experiment.measures.iter().position(|m| m.name == *name)?;
        let measure = &experiment.measures[place];
        let median = Spread::of_measure(contender, place, measure.better)?.median?;
        return Some((vec![(String::new(), median)], measure.unit));
    }
    let plot = experiment.plots.iter().position(|p| Some(&p.title) == source.plot.as_ref())?;
    let at = |name: &String| {
        let phase = experiment.phases.iter().position(|p| p.name == *name)?;
        let value = |lines: &Vec<Vec<Option<f64>>>| *lines.get(plot)?.get(phase)?;
        let rounds: Vec<_> = valid(contender).map(|round| value(&round.lines)).collect();
        Some((name.clone(), Spread::of(&rounds, Better::Lower)?.median?))
    };
    let points = source.phases.iter().map(at).collect::<Option<_>>()?;
    Some((points, experiment.plots[plot].unit))
}

impl Taken {
    /// In words: `−92 % (60.3 ms against 712 ms)`; several phases one after another.
    pub(super) fn words(&self) -> String {
        let point = |point: &Point| {
            let phase = match point.phase.as_str() {
                "" => String::new(),
                phase => format!("{phase}: "),
            };
            let parts = point.parts.map(|(own, other)| {
                let unit = self.unit;
                format!(" ({} against {})", quantity(Some(own), unit), quantity(Some(other), unit))
            });
            let value = match self.shown {
                Shown::Value => quantity(Some(point.value), self.unit),
                Shown::Multiple => format!("{}×", number(point.value, Unit::Ratio)),
                Shown::Change => change(point.value),
            };
            format!("{phase}{value}{}", parts.unwrap_or_default())
        };
        self.points.iter().map(point).collect::<Vec<_>>().join("; ")
    }
}

/// `−92 %`, `+7 %`.
pub(super) fn change(value: f64) -> String {
    let percent = (value * 100.0).round();
    match percent {
        0.0 => "±0 %".into(),
        less if less < 0.0 => format!("−{} %", -less),
        more => format!("+{more} %"),
    }
}
