//! The part of `/status` about adaptations.

use crate::observe::snapshot::AdaptationSnapshot;
use serde::{Deserialize, Serialize};
use tiergate_core::adapt::{Estimate, margins};
use tiergate_core::gate::WatchState;

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
    /// Its other readings, and which of all is short; absent: it has no others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<WatchedStatus>,
    /// The sensor that decided last; absent: there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<String>,
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
    /// The sites with guarantees; absent: none has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guarantees: Vec<GuaranteeStatus>,
    /// The part of the guarantees that is kept: less than 1 where requests cost more than the policy says; absent: no site has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarantees_kept: Option<f64>,
}

/// A site's guarantee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuaranteeStatus {
    /// The site.
    pub site: String,
    /// Share of what the sensor measures that is guaranteed.
    pub guaranteed: f64,
    /// Share that the site uses, by what requests cost as the policy says.
    pub used: f64,
}

impl GuaranteeStatus {
    /// For people: `shop uses 18.0 % of 20.0 %`.
    pub fn words(&self) -> String {
        let [used, guaranteed] = [self.used, self.guaranteed].map(|share| share * 100.0);
        format!("{} uses {used:.1} % of {guaranteed:.1} %", self.site)
    }
}

/// Another reading of an adaptation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchedStatus {
    /// As of the adaptation.
    pub sensor: String,
    /// As of the adaptation.
    pub reading: Option<f64>,
    /// As of the adaptation.
    pub reference: f64,
    /// As of the adaptation.
    pub cost_per_request: Vec<EstimateStatus>,
    /// As of the adaptation.
    pub cost_per_mebibyte: EstimateStatus,
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
    /// Its latest readings, for people.
    pub fn readings(&self) -> String {
        let first = words(&self.sensor, self.reading, self.reference);
        let also = self.also.iter().map(|it| words(&it.sensor, it.reading, it.reference));
        std::iter::once(first).chain(also).collect::<Vec<_>>().join(", ")
    }
}

/// A reading, for people.
fn words(sensor: &str, reading: Option<f64>, reference: f64) -> String {
    let shown = |value: f64| match reference < 1.0 {
        true => format!("{:.1} %", value * 100.0),
        false => format!("{value}"),
    };
    let reading = reading.map_or_else(|| "none".to_owned(), shown);
    format!("{sensor} {reading} of {}", shown(reference))
}

impl From<&WatchState> for WatchedStatus {
    fn from(it: &WatchState) -> Self {
        WatchedStatus {
            sensor: it.watched.source.to_string(),
            reading: it.reading,
            reference: it.watched.reference.value(),
            cost_per_request: it.costs.iter().copied().map(Into::into).collect(),
            cost_per_mebibyte: it.mebibyte.into(),
        }
    }
}

pub(super) fn status(it: &AdaptationSnapshot) -> AdaptationStatus {
    let state = &it.state;
    let settings = &state.settings;
    let mut readings = state.readings.iter().map(WatchedStatus::from);
    let first = readings.next().expect("an adaptation has a reading");
    let also: Vec<WatchedStatus> = readings.collect();
    let margins = |late| margins(settings.gain_margin, 1.0, late);
    AdaptationStatus {
        name: settings.name.clone(),
        sensor: first.sensor,
        reading: first.reading,
        reference: first.reference,
        short: state
            .readings
            .get(state.short)
            .filter(|_| !also.is_empty())
            .map(|it| it.watched.source.to_string()),
        also,
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
        cost_per_request: first.cost_per_request,
        cost_per_mebibyte: first.cost_per_mebibyte,
        gain_margins: [margins(0.0).gain, margins(1.0).gain],
        delay_margin: margins(0.0).delay,
        guarantees: it
            .guarantees
            .iter()
            .map(|(site, it)| GuaranteeStatus {
                site: site.clone(),
                guaranteed: it.guaranteed,
                used: it.used,
            })
            .collect(),
        guarantees_kept: (!it.guarantees.is_empty()).then_some(state.kept),
    }
}
