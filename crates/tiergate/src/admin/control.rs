//! The part of `/status` about control: who adjusts which setting, and what sensors said last.

use crate::observe::snapshot::Snapshot;
use serde::{Deserialize, Serialize};
use tiergate_core::adjust::{Adjusted, Adjustment, Applied};
use tiergate_core::sense::Source;

/// A setting of the policy that a controller overrides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdjustmentStatus {
    /// Who set it.
    pub owner: String,
    /// The setting.
    pub setting: String,
    /// The class or policer that it is of; empty: of the gateway as a whole.
    pub of: String,
    /// The value in force.
    pub value: f64,
    /// The value that it moves to.
    pub target: f64,
    /// The policy's value.
    pub planned: f64,
    /// Lowest value.
    pub min: f64,
    /// Highest value.
    pub max: f64,
    /// Most that it changes in a second; absent: it changes at once.
    pub slew_per_second: Option<f64>,
    /// Whether it has ended because a reload took away what it adjusts, or left it no room.
    pub lapsed: bool,
}

/// A source of readings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceStatus {
    /// Its name.
    pub source: String,
    /// What it measures.
    pub quantity: String,
    /// Its last reading.
    pub value: f64,
    /// How long ago that came. Seconds.
    pub age_seconds: f64,
    /// Whether the reading holds no more: the source is silent.
    pub stale: bool,
    /// Readings that were refused because they cannot be.
    pub impossible: u64,
}

pub(super) fn adjustments(snapshot: &Snapshot) -> Vec<AdjustmentStatus> {
    let status = |adjusted: &Adjusted| {
        let Adjusted { owner, of, wanted, applied, lapsed, .. } = adjusted;
        let Adjustment { setting, min, max, slew_per_s, .. } = *wanted;
        let Applied { value, target, planned } = *applied;
        AdjustmentStatus {
            owner: owner.to_string(),
            setting: setting.name().to_owned(),
            of: of.to_string(),
            value,
            target,
            planned,
            min,
            max,
            slew_per_second: Some(slew_per_s).filter(|slew| slew.is_finite()),
            lapsed: *lapsed,
        }
    };
    snapshot.adjustments.iter().map(status).collect()
}

pub(super) fn sources(snapshot: &Snapshot) -> Vec<SourceStatus> {
    let status = |source: &Source| SourceStatus {
        source: source.name.to_string(),
        quantity: source.quantity.name().to_owned(),
        value: source.quantity.value(),
        age_seconds: snapshot.at.since(source.at).as_secs_f64(),
        stale: source.is_stale(snapshot.at),
        impossible: source.impossible,
    };
    snapshot.sources.iter().map(status).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tiergate_core::adjust::Setting;
    use tiergate_core::gate::Gate;
    use tiergate_core::plan::Plan;
    use tiergate_core::sense::{Quantity, Reading};
    use tiergate_core::time::Moment;

    #[test]
    fn status_says_who_set_what_and_which_sources_are_silent() {
        let mut gate: Gate<()> = Gate::new(Plan::protective());
        let setting = Setting::SlotsMax;
        let slew_per_s = f64::INFINITY;
        let wanted = Adjustment { setting, value: 40.0, min: 5.0, max: 100.0, slew_per_s };
        gate.adjust(Moment::ZERO, "power", wanted).expect("nobody else does");
        let quantity = Quantity::Utilization(0.5);
        let lasting = Duration::from_secs(1);
        gate.observe(Moment::ZERO, Reading { source: "db.cpu", quantity, lasting }).expect("good");
        let snapshot = Snapshot::take(&gate, Moment::from_millis(3000));
        let adjusted = &adjustments(&snapshot)[0];
        assert_eq!((adjusted.owner.as_str(), adjusted.setting.as_str()), ("power", "slots_max"));
        assert_eq!((adjusted.value, adjusted.planned), (40.0, 10_000.0));
        assert_eq!((adjusted.slew_per_second, adjusted.lapsed), (None, false));
        let source = &sources(&snapshot)[0];
        assert_eq!((source.source.as_str(), source.quantity.as_str()), ("db.cpu", "utilization"));
        assert_eq!((source.value, source.age_seconds, source.stale), (0.5, 3.0, true));
    }
}
