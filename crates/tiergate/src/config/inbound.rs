//! `[policer.control]`: a policer's rate that follows a sensor.

use super::lookup::find;
use super::meant::Unit;
use super::mode::{MODE, Mode};
use super::place::{At, Place, wrong};
use super::section::{Definitions, Kind, section};
use super::sensor::Sensor;
use super::show;
use super::values::{RATE, SHARE, TEXT, whole};
use serde_json::{Value as Json, json};
use tiergate_core::admit::bucket::{PARTS, Rate};
use tiergate_core::admit::inbound::{Inbound, Reference};
use toml::de::DeValue;

/// Longest queue that may be a reference.
const QUEUE_LEN_MAX: u64 = 1_000_000;
/// The paper's lowest rate and references (Voigt D, 3).
const MIN: Rate = Rate::per_second(10);
const UTILIZATION: Reference = Reference::Utilization(9000);
const QUEUE_LEN: Reference = Reference::QueueLen(100);

section! {
    /// What the rate of a policer follows.
    pub(super) struct ControlKeys {
        /// The [`[[sensor]]`](#sensor-what-is-measured-of-the-machine) whose reading is held at the reference, one that measures a share or a
        /// queue; or `"backlog"`: the requests that wait in the queue of `[origin]`.
        sensor: Option<String> = TEXT.required("write sensor = \"…\", the name of a [[sensor]], or \"backlog\"");
        /// Whether it is in force, `"enforce"`; or only [observed](#mode-parts-of-a-policy-that-are-observed), `"observe"`: in force the rate is `rate`, whatever is read.
        mode: Mode = MODE.or("enforce");
        /// Where the reading is to stay: a share such as `"90%"`, or the length of a queue.
        /// Why: a processor that is in use nine tenths of the time still answers quickly; a queue of 100 is short for a
        /// server, and long enough to be seen growing (Voigt, Paper D, §3).
        reference: Option<Reference> = ReferenceKind.optional("`\"90%\"`, or `100` for a queue");
        /// The rate never falls below this.
        /// Why: nobody is shut out entirely (Voigt, Paper D, §3.1).
        min: Option<Rate> = RATE.optional("`\"10/s\"`, or half of `rate` if that is less");
    }
}

/// A share, or a length.
pub(super) struct ReferenceKind;

impl Kind for ReferenceKind {
    type Value = Reference;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Reference> {
        match value {
            DeValue::String(_) => {
                let parts = SHARE.read(value, place)? * PARTS as f64;
                Some(Reference::Utilization(parts.round() as u16))
            }
            DeValue::Integer(_) => {
                whole(1..=QUEUE_LEN_MAX).read(value, place).map(Reference::QueueLen)
            }
            _ => wrong(value, place, "a share such as \"90%\", or the length of a queue"),
        }
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        let length = whole::<u32>(1..=QUEUE_LEN_MAX).schema(definitions);
        json!({ "oneOf": [SHARE.schema(definitions), length] })
    }
}

/// What it means, of a policer with that rate.
pub(super) fn inbound(
    At { value: raw, place }: At<ControlKeys>,
    rate: Rate,
    sensors: &[Sensor],
) -> Option<Inbound> {
    let name = raw.sensor?;
    let usual = (UTILIZATION, QUEUE_LEN);
    let reference = reference_of(&name, raw.reference, usual, sensors, &place)?;
    let half = Rate::of_per_second(rate.tokens_per_second() / 2.0);
    let min = raw.min.unwrap_or(MIN.min(half));
    let inbound = Inbound { source: name.into(), reference, min };
    if let Err(fault) = inbound.check(rate) {
        let key = if fault.starts_with("reference") { "reference" } else { "min" };
        place.fault_at(key, fault.split_once(' ').map_or(fault, |(_, what)| what));
    }
    Some(inbound)
}

/// Where the reading of a sensor, or the backlog, is to stay: as given, or `usual` of a share and of a queue. Reports a sensor that does
/// not exist, or is of another kind.
pub(super) fn reference_of(
    name: &str,
    given: Option<Reference>,
    usual: (Reference, Reference),
    sensors: &[Sensor],
    place: &Place,
) -> Option<Reference> {
    let usual = if name == Inbound::BACKLOG {
        usual.1
    } else {
        let names = sensors.iter().map(|it| it.name.as_str()).chain([Inbound::BACKLOG]);
        let found = find("sensor", name, names, &place.key("sensor"))?;
        match sensors[found].measure.unit() {
            Unit::Utilization => usual.0,
            Unit::QueueLen => usual.1,
            Unit::Rate | Unit::Level => {
                let fault =
                    format!("{name:?} measures neither a share nor a queue; name another sensor");
                place.fault_at("sensor", fault);
                return None;
            }
        }
    };
    let reference = given.unwrap_or(usual);
    match (usual, reference) {
        (Reference::QueueLen(_), Reference::Utilization(_)) => {
            place.fault_at(
                "reference",
                format!("must be a length such as 100: {name:?} is a queue"),
            );
        }
        (Reference::Utilization(_), Reference::QueueLen(_)) => {
            place.fault_at(
                "reference",
                format!("must be a share such as \"90%\": {name:?} measures one"),
            );
        }
        _ => {}
    }
    Some(reference)
}

/// In words, as part of what is said of a policer.
pub(super) fn words(inbound: &Inbound) -> String {
    let Inbound { source, reference, min } = inbound;
    let reference = match reference {
        Reference::Utilization(parts) => show::share(f64::from(*parts) / PARTS as f64),
        Reference::QueueLen(len) => len.to_string(),
    };
    let source = match &**source {
        Inbound::BACKLOG => "the backlog".to_owned(),
        sensor => format!("sensor {sensor}"),
    };
    format!("; at least {}, so that {source} stays at {reference}", show::rate(*min))
}
