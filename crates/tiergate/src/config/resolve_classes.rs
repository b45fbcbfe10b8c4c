//! From classes as written to classes as meant.

use super::defaults;
use super::error::Faults;
use super::raw;
use super::read::At;
use super::resolve::{at_most, time, within};
use super::resolve_policers::Policers;
use super::resolve_rules::{is_name, name_expected};
use super::resolve_scheduling::{Part, Scheduling, Sums, site_of, usual_order};
use super::resolve_triggers;
use super::show;
use tiergate_core::class::{Class, ClassId, Codel};
use tiergate_core::classify::flow::Flow;
use tiergate_core::plan::Plan;
use tiergate_core::schedule::SiteId;

/// The classes, most important first; one with every default if none is written.
pub(super) fn classes(
    raw: Option<At<Vec<At<raw::Class>>>>,
    scheduling: &Scheduling,
    policers: &mut Policers,
    faults: &mut Faults,
) -> Vec<Class> {
    let Some(At { value: raw, place }) = raw else {
        let order = usual_order(SiteId(0), scheduling);
        // Where slots are divided, it has them all.
        let share = if scheduling.sites[0].policy.is_by_share() { 1.0 } else { 0.0 };
        return vec![Class { order, share, ..Class::named(defaults::CLASS_NAME) }];
    };
    if raw.is_empty() {
        faults.add(&place, "must not be empty; leave it out for one class with every default");
    }
    at_most(&place, raw.len(), Plan::CLASSES_MAX, "classes", faults);
    let mut classes: Vec<Class> = Vec::new();
    let sites = &scheduling.sites;
    let mut sums = vec![Sums::default(); sites.len()];
    let mut triggers = Vec::new();
    for At { value: raw, place } in raw {
        let Some(name) = raw.name else {
            faults.missing(&place, "name", "write name = \"…\"");
            continue;
        };
        check_name(&name, &classes, faults);
        let site = site_of(raw.site, sites, &place, faults);
        let part = Part {
            weight: raw.weight,
            minimum: raw.minimum,
            share: raw.share,
            reserve: raw.reserve,
        };
        let under = (sites[site.index()].policy, &place);
        let part = part.resolve(under, &mut sums[site.index()], faults);
        let own = format!("class.{}", name.value);
        let policer = raw.police.and_then(|police| policers.find(police, &own, faults));
        let number = |at: Option<At<u64>>, default: u32, most, faults: &mut Faults| {
            let at = at.map(|at| (at.value, at.place));
            within(at, default.into(), 0..=most, faults, |number| number.to_string()) as u32
        };
        let defaults = Class::named(name.value);
        triggers.push(raw.refuse_at);
        classes.push(Class {
            policer,
            deadline: time(raw.deadline, faults).unwrap_or(defaults.deadline),
            queue_len_max: number(raw.queue, defaults.queue_len_max, defaults::QUEUE_MAX, faults),
            minimum: part.minimum,
            weight: part.weight,
            share: part.share,
            reserve: part.reserve,
            site,
            order: raw.order.map_or_else(|| usual_order(site, scheduling), |order| order.value.0),
            fair: raw.fair.map_or(defaults.fair, |fair| fair.value),
            codel: raw.codel.map(|raw| codel(raw, faults)),
            when_full: raw.when_full.map_or(defaults.when_full, |full| full.value.0),
            late: raw.late.map_or(defaults.late, |late| late.value.0),
            queue_bytes_max: raw.queue_bytes.map_or(defaults.queue_bytes_max, |size| size.value.0),
            preemptible: raw.preemptible.is_some_and(|it| it.value),
            streams_max: number(raw.streams, defaults.streams_max, 10_000_000, faults),
            ..defaults
        });
    }
    // A backlog may be that of a class further down.
    for (index, raw) in triggers.into_iter().enumerate() {
        let own = ClassId(index as u16);
        classes[index].refuse_at = resolve_triggers::triggers(raw, own, &classes, faults);
    }
    classes
}

/// The delay that may stand in a queue.
fn codel(At { value: raw, .. }: At<raw::Codel>, faults: &mut Faults) -> Codel {
    let d = defaults::CODEL;
    let interval_place = raw.interval.as_ref().map(|at| at.place.clone());
    let target = time(raw.target, faults).unwrap_or(d.target);
    // Where only the target is given, the interval follows it: RFC 8289 §4.3 has them 1:20.
    let interval = time(raw.interval, faults).unwrap_or(d.interval.max(target * 20));
    if let Some(place) = interval_place.filter(|_| target >= interval) {
        let (target, interval) = (show::time(target), show::time(interval));
        faults.add(&place, format!("must be more than target, \"{target}\", got \"{interval}\""));
    }
    Codel { target, interval }
}

/// What fairness is counted by inside each class, where the class says it.
pub(super) fn class_flows(raw: &Option<At<Vec<At<raw::Class>>>>) -> Vec<Option<Flow>> {
    let classes = raw.iter().flat_map(|raw| &raw.value);
    classes.map(|class| class.value.flow.as_ref().map(|flow| flow.value.0.clone())).collect()
}

fn check_name(name: &At<String>, before: &[Class], faults: &mut Faults) {
    if !is_name(&name.value) {
        faults.add(&name.place, name_expected(&name.value));
    } else if before.iter().any(|class| class.name == name.value) {
        faults.add(&name.place, format!("another class is called {:?} already", name.value));
    }
}
