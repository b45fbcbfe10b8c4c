//! The part of `/status` about adaptations.

use crate::observe::snapshot::AdaptationSnapshot;
use serde::{Deserialize, Serialize};
use tiergate_core::adapt::{Estimate, margins};

/// What decides the quality of answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdaptationStatus {
    /// Its name.
    pub name: String,
    /// The sensor, or `backlog`.
    pub sensor: String,
    /// Its latest reading; `null`: there is none that holds.
    pub reading: Option<f64>,
    /// Where that is to stay.
    pub reference: f64,
    /// What it is doing: `full`, `adapts`, `lowest`, `blind`.
    pub state: String,
    /// The highest level, full quality.
    pub levels: u8,
    /// The set points of the classes, the most important first; one whose answers are full and that has no requests is left out.
    pub set_points: Vec<SetPointStatus>,
    /// Requests that were refused for it, at index 0, and those that were answered, by level.
    pub answered: Vec<u64>,
    /// Share of what the sensor measures that a request a second takes, apart from its bytes, by level; at index 0 a refusal.
    pub cost_per_request: Vec<EstimateStatus>,
    /// The same of a MiB a second.
    pub cost_per_mebibyte: EstimateStatus,
    /// By what factor a change may show more of an effect than expected before the loop oscillates: with readings that are up to date, and
    /// with those that are a period late.
    pub gain_margins: [f64; 2],
    /// How many periods later a change may show itself before the loop oscillates.
    pub delay_margin: f64,
}

/// A class's set point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetPointStatus {
    /// The class.
    pub class: String,
    /// A part of the clients as large as its fraction gets the next higher level.
    pub set_point: f64,
}

/// A number that was estimated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EstimateStatus {
    /// The number; `null`: nothing said how much it is.
    pub value: Option<f64>,
    /// Its standard error.
    pub error: f64,
}

impl From<Estimate> for EstimateStatus {
    fn from(estimate: Estimate) -> Self {
        let value = estimate.is_known().then_some(estimate.value);
        EstimateStatus { value, error: estimate.error }
    }
}

impl AdaptationStatus {
    /// Its latest reading, for people.
    pub fn reading(&self) -> String {
        let shown = |value: f64| match self.reference < 1.0 {
            true => format!("{:.1} %", value * 100.0),
            false => format!("{value}"),
        };
        let reading = self.reading.map_or_else(|| "none".to_owned(), shown);
        format!("{reading} of {}", shown(self.reference))
    }
}

pub(super) fn status(it: &AdaptationSnapshot) -> AdaptationStatus {
    let state = &it.state;
    let settings = &state.settings;
    let margins = |late| margins(settings.gain_margin, 1.0, late);
    AdaptationStatus {
        name: settings.name.clone(),
        sensor: settings.source.to_string(),
        reading: state.reading,
        reference: settings.reference.value(),
        state: state.state.name().to_owned(),
        levels: settings.highest(),
        set_points: it
            .set_points
            .iter()
            .map(|(class, set_point)| SetPointStatus {
                class: class.clone(),
                set_point: *set_point,
            })
            .collect(),
        answered: state.answered.clone(),
        cost_per_request: state.costs.iter().copied().map(Into::into).collect(),
        cost_per_mebibyte: state.mebibyte.into(),
        gain_margins: [margins(0.0).gain, margins(1.0).gain],
        delay_margin: margins(0.0).delay,
    }
}
