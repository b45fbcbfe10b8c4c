//! What is in force of a policy that is observed as a whole: every request is let through at once.
//!
//! What stays is where requests go and what protects the gateway itself. Classes stay as names, since they say
//! which pool takes their requests, and how answers are marked; nothing else of them takes effect while every request
//! has its slot at once. Rules that refuse have been left out, as if they were not written, and so has what adaptations decide.

use super::class::ClassKeys;
use super::place::{At, Place};
use super::policy::Root;
use super::rule::RuleKeys;
use super::section::Section;
use super::server::{SLOTS_MAX, Written};
use std::time::Duration;
use tiergate_core::class::{Late, WhenFull};
use tiergate_core::control::Slots;
use toml::de::DeTable;

/// Longer than any request waits: none does.
const NO_DEADLINE: Duration = Duration::from_secs(3600);

/// Leaves of a policy what routes requests. `place`: that of the policy.
pub(super) fn let_through(root: &mut Root, place: &Place) {
    let place = place.key("scheduling");
    root.scheduling = At { value: Section::read(&DeTable::new(), &place), place };
    root.site.clear();
    root.policer.clear();
    root.police = None;
    root.resource.clear();
    root.shedding = None;
    root.refusal.value.block = None;
    root.class.iter_mut().for_each(|it| class(&mut it.value));
    root.rule.iter_mut().for_each(|it| rule(&mut it.value));
    if let Some(origin) = &mut root.origin {
        origin.slots.value = Slots::Fixed(SLOTS_MAX as u32);
        origin.shared = None;
        origin.slots_per_server = None;
        servers(&mut origin.servers);
    }
    for At { value: pool, .. } in &mut root.pool {
        pool.slots.value = Slots::Fixed(SLOTS_MAX as u32);
        pool.shared = None;
        pool.slots_per_server = None;
        servers(&mut pool.servers);
    }
}

/// Its name, its pool, its mark and its flows stay: weights of pools go by flows.
fn class(class: &mut ClassKeys) {
    class.deadline = Some(NO_DEADLINE);
    class.background = false;
    class.transmit = None;
    class.learn_patience = false;
    class.minimum = 0.0;
    class.police = None;
    class.refuse_at.clear();
    class.site = None;
    class.resource = None;
    class.share = None;
    class.reserve = 0.0;
    class.order = None;
    class.codel = None;
    class.when_full = WhenFull::RefuseNew;
    class.late = Late::Refuse;
    class.preemptible = false;
    class.service_target = None;
}

/// Class, pool, score and flow stay.
fn rule(rule: &mut RuleKeys) {
    rule.deadline = None;
    rule.police = None;
    rule.resource = None;
    // Enough of those that take many would fill even this many slots.
    rule.slots = None;
    rule.deadline_header = None;
    // The server's own answer passes, whatever it is.
    rule.stored = None;
}

fn servers(servers: &mut [At<Written>]) {
    servers.iter_mut().for_each(|it| it.value.slots = None);
}
