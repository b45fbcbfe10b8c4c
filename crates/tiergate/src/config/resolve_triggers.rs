//! From triggers as written to triggers as meant.

use super::defaults;
use super::error::Faults;
use super::raw;
use super::read::{At, OneOrMany};
use super::resolve::{at_most, within};
use super::resolve_rules::class_named;
use tiergate_core::admit::trigger::{Backlogs, Trigger};
use tiergate_core::class::{Class, ClassId};

/// The backlogs at which the class `own` is refused.
pub(super) fn triggers(
    raw: Option<At<Vec<At<raw::Trigger>>>>,
    own: ClassId,
    classes: &[Class],
    faults: &mut Faults,
) -> Vec<Trigger> {
    let Some(At { value: raw, place }) = raw else {
        return Vec::new();
    };
    at_most(&place, raw.len(), Trigger::COUNT_MAX, "backlogs", faults);
    raw.into_iter().filter_map(|trigger| self::trigger(trigger, own, classes, faults)).collect()
}

fn trigger(
    At { value: raw, place }: At<raw::Trigger>,
    own: ClassId,
    classes: &[Class],
    faults: &mut Faults,
) -> Option<Trigger> {
    if raw.backlog.is_none() && !faults.at_key(&place, "backlog") {
        faults.missing(&place, "backlog", "write backlog = \"total\", \"own\", or a class");
    }
    if raw.waiting.is_none() && !faults.at_key(&place, "waiting") {
        faults.missing(&place, "waiting", "write waiting = 100");
    }
    let At { value: names, place } = raw.backlog?;
    let names = match names {
        OneOrMany::One(name) => vec![At { value: name, place }],
        OneOrMany::Many(names) => names,
    };
    let mut of = Backlogs::NONE;
    for name in names {
        of = match name.value.as_str() {
            "total" => Backlogs::ALL,
            "own" => of.and(own),
            _ => class_named(&name, classes, faults).map_or(of, |class| of.and(class)),
        };
    }
    let mut number = |at: At<u64>, most| {
        let number = (at.value, at.place);
        within(Some(number), most, 1..=most, faults, |number| number.to_string())
    };
    let waiting = number(raw.waiting?, defaults::QUEUE_MAX);
    let until = raw.until.map_or(waiting, |until| number(until, waiting));
    Some(Trigger { of, waiting: waiting as u32, until: until as u32 })
}
