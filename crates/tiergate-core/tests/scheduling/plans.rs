//! Random plans and clients.

use crate::script::{Script, Source};
use fastrand::Rng;
use std::time::Duration;
use tiergate_core::class::Class;
use tiergate_core::control::Slots;
use tiergate_core::names::RuleKey;
use tiergate_core::plan::Spec;
use tiergate_core::schedule::{Costing, Policy, Site};
use tiergate_core::time::Moment;

/// Requests of a run.
const ARRIVALS: u32 = 80;

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A class that refuses nobody.
pub(crate) fn class(name: &str) -> Class {
    let deadline = Duration::from_secs(10_000);
    Class { deadline, patience: false, fair: false, ..Class::named(name) }
}

/// Two to five of the classes a to f, in any order, each changed by `change`.
pub(crate) fn classes(rng: &mut Rng, change: impl Fn(&mut Rng, &mut Class)) -> Vec<Class> {
    let mut names = ["a", "b", "c", "d", "e", "f"];
    rng.shuffle(&mut names);
    let count = rng.usize(2..=5);
    names[..count]
        .iter()
        .map(|name| {
            let mut class = class(name);
            change(rng, &mut class);
            class
        })
        .collect()
}

/// One site under the policy, one to six slots.
pub(crate) fn plan(rng: &mut Rng, policy: Policy, classes: Vec<Class>) -> Spec {
    Spec {
        classes,
        slots: Slots::Fixed(rng.u32(1..=6)),
        sites: vec![Site { policy, ..Site::named("site") }],
        cost: Costing::Requests,
        ..Spec::protective()
    }
}

/// Clients of every class, some of them always there and some now and then.
pub(crate) fn sources(
    rng: &mut Rng,
    flows: u64,
    change: impl Fn(&mut Rng, &mut Source),
) -> Vec<Source> {
    let mut sources = Vec::new();
    for (place, name) in ["a", "b", "c", "d", "e", "f"].iter().enumerate() {
        for flow in 0..rng.u64(1..=flows) {
            let mut source = Source::of(name, 100 * place as u64 + flow);
            // Many at once that follow each other at once, or as many as there are now and then.
            source.users = if rng.bool() { rng.u32(1..=6) } else { 0 };
            source.pause = if source.users > 0 && rng.bool() {
                Duration::ZERO
            } else {
                millis(rng.u64(1..=40))
            };
            let low = rng.u64(1..=10);
            source.service = (millis(low), millis(low * rng.u64(1..=5)));
            change(rng, &mut source);
            sources.push(source);
        }
    }
    sources
}

/// A run under one plan, or under several that follow each other.
pub(crate) fn script(
    rng: &mut Rng,
    make: impl Fn(&mut Rng) -> Spec,
    sources: Vec<Source>,
) -> Script {
    let reloads = if rng.bool() { 0 } else { rng.u32(1..=3) };
    let mut at = Moment::ZERO;
    let mut reload = |rng: &mut Rng| {
        at = at + millis(rng.u64(1..=60));
        (at, make(rng))
    };
    Script {
        plan: make(rng),
        reloads: (0..reloads).map(|_| reload(rng)).collect(),
        sources,
        arrivals: ARRIVALS,
        until: Moment::NEVER,
        cancelled: if rng.bool() { 0 } else { rng.u8(0..30) },
    }
}

/// Rules by their numbers.
pub(crate) fn rules(count: u32) -> Vec<RuleKey> {
    (0..count).map(|number| format!("rule-{number}").into()).collect()
}

/// Parts of a whole: that many numbers of slots that add up to no more than `slots`.
pub(crate) fn parts(rng: &mut Rng, slots: u32, count: usize) -> Vec<u32> {
    let mut parts = vec![0; count];
    for _ in 0..rng.u32(0..=slots) {
        parts[rng.usize(0..count)] += 1;
    }
    parts
}

/// The longest that a request is in service.
pub(crate) fn longest(script: &Script) -> Duration {
    script.sources.iter().map(|source| source.service.1).max().unwrap_or_default()
}

/// The most slot-seconds that a request is charged with: what one really takes, or what is guessed as long
/// as nothing is known (50 ms). The theorem's `l` where costs are learned.
pub(crate) fn dearest(script: &Script) -> f64 {
    longest(script).as_secs_f64().max(0.05)
}
