//! `[[lane]]`: threads of their own for the connections of some classes.

use super::kind::{Scalar, one_or_many};
use super::lookup::Classes;
use super::place::At;
use super::section::{Kind, section};
use super::values::{Name, TEXT, check_unique, whole};
use serde_json::json;
use std::ops::RangeInclusive;
use tiergate_core::classify::Classifier;
use tiergate_core::names::ClassId;
use tiergate_core::plan::Plan;
use toml::de::DeValue;

/// Most lanes: each has threads.
pub(super) const COUNT_MAX: usize = 16;

section! {
    /// Threads of their own, at a priority of the operating system's, for the connections of some classes.
    pub(super) struct LaneKeys {
        /// Its name in status, metrics and the names of its threads.
        name: Option<String> = Name.required("write name = \"…\"");
        /// The classes whose connections are served in it: a class, or a list. At least one rule must give each by what is known when a connection is
        /// accepted, by nothing but `client`, `listener`, `destination` and `dscp`.
        classes: Vec<At<String>> =
            one_or_many(TEXT, usize::MAX, "classes").needed("write classes = [\"…\"]");
        /// How many threads it has, beside those of `threads`.
        threads: usize = whole(1..=256).or(1);
        /// Their priority, as `nice` has it: -20 is the most urgent, 0 what processes usually have. Less than that of the process needs CAP_SYS_NICE.
        /// Why: less urgent threads would make the others wait for what all share.
        nice: i32 = NICE.or(-10);
        /// How many connections there may be in it; further ones are closed as they come.
        /// Why: `limits.connections_max` bounds all together, and makes room for the most important; this one makes none, so that one client of the lane can fill it.
        connections_max: Option<usize> = whole(1..=10_000_000).optional("no bound of its own");
    }
}

const NICE: Scalar<i32, RangeInclusive<i32>> = Scalar {
    expected: "a whole number from -20 to 0",
    bounds: -20..=0,
    parse: |value, bounds| {
        let number = match value {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
            _ => None,
        };
        number.filter(|number| bounds.contains(number)).ok_or(None)
    },
    schema: |bounds| json!({ "type": "integer", "minimum": bounds.start(), "maximum": bounds.end() }),
    range: |bounds| Some(format!("{} to {}", bounds.start(), bounds.end())),
};

/// A lane, as the policy has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneSettings {
    /// Its name.
    pub name: String,
    /// The classes whose connections are served in it.
    pub classes: Vec<ClassId>,
    /// How many threads it has, at least one.
    pub threads: usize,
    /// Their priority, -20 to 0.
    pub nice: i32,
    /// How many connections there may be in it.
    pub connections_max: Option<usize>,
}

/// The lanes of a policy.
pub(super) fn lanes(
    raw: Vec<At<LaneKeys>>,
    classes: &Classes,
    // `None`: it is not looked at.
    classifier: Option<&Classifier>,
) -> Vec<LaneSettings> {
    let mut lanes: Vec<LaneSettings> = Vec::new();
    for At { value: raw, place } in raw {
        let Some(name) = raw.name else { continue };
        let before = lanes.iter().map(|it| it.name.as_str());
        check_unique("lane", &name, before, &place.key("name"));
        let mut own = Vec::new();
        for At { value: class, place } in raw.classes {
            let Some(id) = classes.named(&class, &place) else { continue };
            if let Some(other) = lanes.iter().find(|it| it.classes.contains(&id)) {
                place.fault(format!("class {class:?} has lane {:?} already", other.name));
            } else if classifier.is_some_and(|it| !it.is_known_at_accept(id)) {
                place.fault(format!("no rule gives class {class:?} by what is known when a connection is accepted: write one with nothing but client, listener, destination and dscp"));
            } else if !own.contains(&id) {
                own.push(id);
            }
        }
        let LaneKeys { threads, nice, connections_max, .. } = raw;
        lanes.push(LaneSettings { name, classes: own, threads, nice, connections_max });
    }
    lanes
}

/// For `tiergate check`.
pub(crate) fn words(lanes: &[LaneSettings], plan: &Plan) -> Vec<String> {
    let of = |lane: &LaneSettings| {
        let LaneSettings { name, threads, nice, .. } = lane;
        let names = lane.classes.iter().filter_map(|id| plan.class(*id)).map(|it| &*it.name);
        let classes = names.collect::<Vec<_>>().join(", ");
        let most = lane
            .connections_max
            .map_or(String::new(), |max| format!(", at most {max} connections"));
        let of_threads =
            if *threads == 1 { "1 thread".into() } else { format!("{threads} threads") };
        format!("{name}: connections of {classes}, on {of_threads} with nice {nice}{most}")
    };
    lanes.iter().map(of).collect()
}
