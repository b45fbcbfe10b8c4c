//! Who is served next, in words. What a policy leaves as it is by default is not said.

use super::words::class_name;
use crate::config::meant::Policy;
use crate::config::show;
use std::fmt::Write as _;
use tiergate_core::class::{Class, ClassId, Late, Order, WhenFull};
use tiergate_core::classify::Match;
use tiergate_core::schedule::{Costing, Policy as Between, Site};

/// The policies between sites and classes, and what requests cost; empty where all is as by default.
pub(super) fn scheduling(policy: &Policy) -> Vec<String> {
    let plan = &policy.plan;
    let mut lines = Vec::new();
    let several = plan.sites.len() > 1;
    if several {
        lines.push(format!("of the sites: {}", between(plan.between_sites)));
    }
    for (index, site) in plan.sites.iter().enumerate() {
        if !several && site.policy == Between::Strict {
            continue;
        }
        let classes = plan.classes.iter().enumerate();
        let of_site = classes.filter(|(_, class)| class.site.index() == index);
        let names: Vec<&str> =
            of_site.map(|(place, _)| class_name(policy, ClassId(place as u16))).collect();
        let name = match several {
            true => format!("of site {} ({})", site.name, names.join(", ")),
            false => "of the classes".to_owned(),
        };
        let part = match several {
            true => part(plan.between_sites, &site.into()),
            false => String::new(),
        };
        lines.push(format!("{name}: {}{part}", between(site.policy)));
    }
    let counts = lines.iter().any(|line| line.contains("weight"));
    if plan.cost != Costing::default() || counts {
        lines.push(
            match plan.cost {
                Costing::Requests => "every request costs the same",
                Costing::Seconds => "a request costs the time that it holds its slots",
                Costing::Bytes => "a request costs the bytes of its answer",
            }
            .to_owned(),
        );
    }
    if plan.queue_len_max < u32::MAX {
        lines.push(format!("at most {} wait in all classes together", plan.queue_len_max));
    }
    lines
}

/// A policy in words.
pub(super) fn between(policy: Between) -> String {
    match policy {
        Between::Strict => "the most important that waits, but for the minimums".to_owned(),
        Between::Weighted => "in proportion to their weights".to_owned(),
        Between::Shared => {
            "each its share; what one does not use is lent, but for its reserve".to_owned()
        }
        Between::Fixed => "each its share and never more".to_owned(),
        Between::Deadline => "the request of the earliest deadline".to_owned(),
        Between::Score { ageing: 0.0 } => "the request of the highest score".to_owned(),
        Between::Score { ageing } => {
            format!("the request of the highest score, which grows by {ageing} a second")
        }
        Between::Fifo => "the request that came first".to_owned(),
    }
}

/// What a class, or a site, has of the slots.
struct Part {
    weight: f64,
    minimum: f64,
    share: f64,
    reserve: f64,
}

impl From<&Site> for Part {
    fn from(site: &Site) -> Self {
        let Site { weight, minimum, share, reserve, .. } = *site;
        Part { weight, minimum, share, reserve }
    }
}

impl From<&Class> for Part {
    fn from(class: &Class) -> Self {
        let Class { weight, share, reserve, .. } = *class;
        // Its minimum is told with its deadline and its queue, whatever the policy.
        Part { weight, minimum: 0.0, share, reserve }
    }
}

/// What the policy makes of a part: begins with a comma, or is empty.
fn part(policy: Between, part: &Part) -> String {
    match policy {
        Between::Strict if part.minimum > 0.0 => {
            format!(", sure of {} of the slots", show::share(part.minimum))
        }
        Between::Weighted => format!(", weight {}", part.weight),
        Between::Shared if part.reserve > 0.0 => format!(
            ", {} of the slots, {} of them never lent",
            show::share(part.share),
            show::share(part.reserve)
        ),
        Between::Shared => format!(", {} of the slots", show::share(part.share)),
        Between::Fixed => format!(", {} of the slots and no more", show::share(part.share)),
        _ => String::new(),
    }
}

/// What is to be said of a class beside its deadline and its queue: begins with a comma, or is empty.
pub(super) fn class(class: &Class, policy: &Policy) -> String {
    let plan = &policy.plan;
    let site = &plan.sites[class.site.index()];
    let mut words = String::new();
    if plan.sites.len() > 1 {
        write!(words, ", site {}", site.name).expect("a string takes all");
    }
    words += &part(site.policy, &class.into());
    words += match class.order {
        Order::Fifo => "",
        // As the site's policy, which is told apart.
        Order::Deadline if site.policy == Between::Deadline => "",
        Order::Score if matches!(site.policy, Between::Score { .. }) => "",
        Order::AdaptiveLifo => ", the newest first under overload",
        Order::Deadline => ", the earliest deadline first",
        Order::Score => ", the highest score first",
    };
    if !class.fair {
        words += ", whatever their flow";
    }
    if let Some(codel) = class.codel {
        let (target, interval) = (show::time(codel.target), show::time(codel.interval));
        words += &format!(", dropped while {target} of delay stand for {interval}");
    }
    words += match class.when_full {
        WhenFull::RefuseNew => "",
        WhenFull::DropOldest => ", the oldest leaves a full queue",
        WhenFull::DropLeast => ", the lowest score leaves a full queue",
    };
    words += match class.late {
        Late::Refuse => "",
        Late::Last => ", the late last, until twice the deadline",
    };
    if class.queue_bytes_max != Class::QUEUE_BYTES_MAX_DEFAULT {
        words += &format!(", at most {} in the queue", show::bytes(class.queue_bytes_max));
    }
    if class.preemptible {
        words += ", GET and HEAD preempted by classes above";
    }
    if class.streams_max != Class::STREAMS_MAX_DEFAULT {
        words += &format!(", at most {} streams", class.streams_max);
    }
    words
}

/// What a request gets of scheduling beside its class: a line each.
pub(super) fn request(policy: &Policy, found: &Match) -> Vec<String> {
    let plan = &policy.plan;
    let class = &plan.classes[found.class.index()];
    let site = &plan.sites[class.site.index()];
    let mut lines = Vec::new();
    if plan.sites.len() > 1 || site.policy != Between::Strict {
        let of = match plan.sites.len() > 1 {
            true => format!("site {}: ", site.name),
            false => String::new(),
        };
        lines.push(format!("{of}served is {}", between(site.policy)));
    }
    let scored = class.order == Order::Score || matches!(site.policy, Between::Score { .. });
    if scored || class.when_full == WhenFull::DropLeast {
        lines.push(format!("its score there is {}", found.score));
    }
    if let Some(slots) = found.slots.filter(|slots| *slots > 1) {
        lines.push(format!("it takes {slots} slots"));
    }
    if let Some(header) = policy.deadline_header(found) {
        let least = show::time(found.deadline.unwrap_or(class.deadline));
        lines.push(match policy.trusted.is_empty() {
            true => format!("{header} is not believed: nobody is trusted"),
            false => {
                format!("a trusted peer's {header} says how long it waits, at most {least}")
            }
        });
    }
    lines
}
