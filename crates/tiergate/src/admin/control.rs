//! The part of `/status` about control: who adjusts which setting, and what sensors said last.

use crate::config::meant::Sensor;
use crate::observe::snapshot::Snapshot;
use crate::sensors::{Sensors, State};
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

/// A sensor, or another source of readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceStatus {
    /// Its name.
    pub source: String,
    /// What it measures, in words; absent for a source that is no sensor of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measures: Option<String>,
    /// The kind of quantity: `utilization`, `queue_len`, `rate`, `level`; `null` before the first reading.
    pub quantity: Option<String>,
    /// Its last reading.
    pub value: Option<f64>,
    /// How long ago that came. Seconds.
    pub age_seconds: Option<f64>,
    /// Whether there is no reading that holds: the source is silent.
    pub stale: bool,
    /// Readings that were refused because they cannot be.
    pub impossible: u64,
    /// Readings that failed.
    #[serde(default)]
    pub failures: u64,
    /// Reports of servers that were refused; absent: it does not go by reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    /// Why there is no reading now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

impl SourceStatus {
    /// Its last reading, for people.
    pub fn reading(&self) -> String {
        let Some((value, quantity)) = self.value.zip(self.quantity.as_deref()) else {
            return "none yet".to_owned();
        };
        match quantity {
            "utilization" => format!("{:.1} %", value * 100.0),
            "rate" => format!("{value:.1}/s"),
            _ => format!("{value}"),
        }
    }
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

/// The sensors of the policy, in its order, and then other sources that are not silent: a reload may have taken away the
/// sensors of those that are.
pub(super) fn sources(snapshot: &Snapshot, sensors: &Sensors) -> Vec<SourceStatus> {
    let read = |source: &Source| SourceStatus {
        source: source.name.to_string(),
        quantity: Some(source.quantity.name().to_owned()),
        value: Some(source.quantity.value()),
        age_seconds: Some(snapshot.at.since(source.at).as_secs_f64()),
        stale: source.is_stale(snapshot.at),
        impossible: source.impossible,
        ..SourceStatus::default()
    };
    let source = |name: &str| snapshot.sources.iter().find(|it| *it.name == *name);
    let silent =
        |name: &str| SourceStatus { source: name.to_owned(), stale: true, ..Default::default() };
    let sensor = |(sensor, state): (&Sensor, State)| SourceStatus {
        measures: Some(sensor.words()),
        failures: state.failures,
        refused: state.refused,
        fault: state.fault,
        ..source(&sensor.name).map_or_else(|| silent(&sensor.name), read)
    };
    let is_other = |it: &&Source| sensors.settings().iter().all(|sensor| sensor.name != *it.name);
    let others = snapshot.sources.iter().filter(is_other).map(read).filter(|it| !it.stale);
    sensors.settings().iter().zip(sensors.states()).map(sensor).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::meant::{Measure, Of};
    use std::time::Duration;
    use tiergate_core::adjust::Setting;
    use tiergate_core::gate::Gate;
    use tiergate_core::plan::Spec;
    use tiergate_core::sense::{Quantity, Reading};
    use tiergate_core::time::Moment;

    #[test]
    fn status_says_who_set_what_and_which_sources_are_silent() {
        let mut gate: Gate<()> = Gate::new(Spec::protective().build().expect("a valid plan"));
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
        let db = Sensor {
            name: "db.cpu".to_owned(),
            measure: Measure::Cpu(Of::Machine),
            every: Duration::from_secs(1),
        };
        let disk = Sensor {
            name: "disk".to_owned(),
            measure: Measure::Disk("sda".to_owned()),
            every: Duration::from_secs(1),
        };
        let found = sources(&snapshot, &Sensors::new(vec![disk, db]));
        let [disk, db] = &found[..] else { panic!("{found:?}") };
        assert_eq!((disk.source.as_str(), disk.value, disk.stale), ("disk", None, true));
        assert_eq!((db.source.as_str(), db.quantity.as_deref()), ("db.cpu", Some("utilization")));
        assert_eq!((db.value, db.age_seconds, db.stale), (Some(0.5), Some(3.0), true));
        assert_eq!(db.measures.as_deref(), Some("processors in use by the machine"));
        assert_eq!([disk, db].map(SourceStatus::reading), ["none yet", "50.0 %"]);
        let none = Sensors::new(Vec::new());
        assert!(sources(&snapshot, &none).is_empty(), "its sensor is gone, and it is silent");
        let fresh = Snapshot::take(&gate, Moment::from_millis(500));
        assert_eq!(sources(&fresh, &none).len(), 1, "another source");
    }
}
