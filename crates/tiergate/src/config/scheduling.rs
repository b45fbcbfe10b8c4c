//! `[scheduling]` and `[[site]]`: which request gets the next free slot.

use super::guarantee::{GuaranteeKeys, guarantee};
use super::kind::Choice;
use super::mode::{MODE, Mode};
use super::parts::{self, Part, Sums};
use super::place::At;
use super::section::{Kind, section, table};
use super::values::{Name, POINTS, SHARE, check_unique, points, whole};
use tiergate_core::class::{Class, Order, WhenFull};
use tiergate_core::classify::Match;
use tiergate_core::classify::score::Points;
use tiergate_core::plan::Plan;
use tiergate_core::schedule::{Costing, Policy, Site, Terms};

/// Longest queue: about 2 GiB of waiting connections.
pub(super) const QUEUE_MAX: u64 = 1_000_000;

/// Policies by their names; the points that a score gains are a key of their own.
const POLICY: Choice<Policy> = Choice(&[
    ("strict", Policy::Strict),
    ("weighted", Policy::Weighted),
    ("shared", Policy::Shared),
    ("fixed", Policy::Fixed),
    ("deadline", Policy::Deadline),
    ("score", Policy::Score { ageing: 0.0 }),
    ("fifo", Policy::Fifo),
]);

section! {
    /// Which request gets the next free slot.
    pub(super) struct Scheduling {
        /// Which class of a site is served next: see the table below. A site may set its own.
        policy: Policy = POLICY.or("strict");
        /// Points a second that waiting requests gain, with `policy = "score"`; 0: no ageing.
        /// Why: with the ten points of the DiffServer paper, a request is overtaken by later ones for at most
        /// ten seconds; of equal scores the older goes first anyway.
        ageing: Points = POINTS.or(1);
        /// What a request costs, for weights and fair queueing: the `"seconds"` for which it holds its slots;
        /// `"requests"`: each the same; or the `"bytes"` of its response. Estimated from earlier requests of
        /// the same rule, and corrected when the request has ended.
        /// Why: weights then apply to the work at the origin, however expensive single requests are.
        cost: Costing = Choice(&[
            ("requests", Costing::Requests),
            ("seconds", Costing::Seconds),
            ("bytes", Costing::Bytes),
        ]).or("seconds");
        /// Which site is served next, where there are several; values as of `policy`.
        between_sites: Policy = POLICY.or("strict");
        /// How many requests of all classes together may wait, in each pool; beyond it, the newest request of the
        /// least important class of the same site is dropped for one of a more important class, and else one of its
        /// own class, as its `when_full` and fair queueing have it. Where a class or a site has more than its part of
        /// the places (by weight or what it is sure of; else sites, and classes without priorities, alike), it makes room for those with less.
        queue: Option<u32> = whole(1..=QUEUE_MAX).optional("only the classes' own bounds");
    }
}

section! {
    /// Classes that are served as one, such as a host's or a customer's.
    pub(super) struct SiteKeys {
        /// The name by which classes refer to it.
        name: Option<String> = Name.required("write name = \"…\"");
        /// Whether it is in force, `"enforce"`; or only [observed](#mode-parts-of-a-policy-that-are-observed), `"observe"`: in force there is no such site, none of its classes, and none of the rules that name those.
        mode: Mode = MODE.or("enforce");
        /// Which of its classes is served next.
        policy: Option<Policy> = POLICY.optional("as `[scheduling]` says");
        /// Points a second that waiting requests gain, with `policy = "score"`.
        ageing: Option<Points> = POINTS.optional("as `[scheduling]` says");
        /// Its part of the work relative to the others', with `between_sites = "weighted"`; more than 0.
        weight: Points = POINTS.or(1);
        /// Share of the slots that it is guaranteed, with `between_sites = "strict"`.
        minimum: f64 = SHARE.or("0%");
        /// Its share of the slots, with `between_sites = "shared"` or `"fixed"`.
        share: Option<f64> = SHARE.optional("`\"0%\"`");
        /// The part of its share that is kept free for it, with `between_sites = "shared"`.
        reserve: f64 = SHARE.or("0%");
        /// What its requests can rely on, however much the others ask for: [guarantees](#guarantees).
        guarantee: Option<At<GuaranteeKeys>> = table().placed().optional("nothing");
    }
}

/// What is said of points that grow where none are counted.
const NOT_SCORED: &str = "has no effect without policy = \"score\"; leave it out";

/// The policy with the points that waiting requests gain.
fn aged(policy: Policy, ageing: Points) -> Policy {
    match policy {
        Policy::Score { .. } => Policy::Score { ageing: points(ageing) },
        other => other,
    }
}

fn is_scored(policy: Policy) -> bool {
    matches!(policy, Policy::Score { .. })
}

/// The sites, and the policy between them; one site if none is given.
pub(super) fn sites(
    At { value: raw, place }: &At<Scheduling>,
    sites: Vec<At<SiteKeys>>,
) -> (Vec<Site>, Policy) {
    let one = || Site { policy: aged(raw.policy, raw.ageing), ..Site::named("default") };
    let mut resolved: Vec<Site> = Vec::new();
    let mut sums = Sums::default();
    // A single site has all the slots.
    let several = sites.len() > 1;
    let between = if several { raw.between_sites } else { Policy::Strict };
    for At { value: site, place } in sites {
        let SiteKeys { weight, minimum, share, reserve, .. } = site;
        let part = Part { weight, minimum, share, reserve };
        let Some(name) = site.name else { continue };
        let before = resolved.iter().map(|site| site.name.as_str());
        check_unique("site", &name, before, &place.key("name"));
        let policy = site.policy.unwrap_or(raw.policy);
        if site.ageing.is_some() && !is_scored(policy) {
            place.fault_at("ageing", NOT_SCORED);
        }
        let terms = part.resolve(between, &mut sums, &place);
        let policy = aged(policy, site.ageing.unwrap_or(raw.ageing));
        let Terms { weight, minimum, share, reserve } = terms;
        let guarantee = site.guarantee.as_ref().and_then(|raw| guarantee(&raw.value));
        resolved.push(Site { name, policy, weight, minimum, share, reserve, guarantee });
    }
    if resolved.is_empty() {
        resolved.push(one());
    }
    let scored = resolved.iter().any(|site| is_scored(site.policy)) || is_scored(raw.between_sites);
    if place.has("ageing") && !scored {
        place.fault_at("ageing", NOT_SCORED);
    }
    (resolved, aged(raw.between_sites, raw.ageing))
}

/// The order in which a class's requests are served by default: policies that compare requests are
/// offered the one that each class would serve next.
pub(super) fn default_order(site: &Site, between: Option<Policy>) -> Order {
    let compared =
        [Some(site.policy), between].into_iter().flatten().find_map(|policy| match policy {
            Policy::Deadline => Some(Order::Deadline),
            Policy::Score { .. } => Some(Order::Score),
            _ => None,
        });
    compared.unwrap_or(Order::Fifo)
}

/// A policy in words.
fn policy_words(policy: Policy) -> String {
    match policy {
        Policy::Strict => "the most important class that waits, but for the minimums",
        Policy::Weighted => "in proportion to their weights",
        Policy::Shared => "each its share; what one does not use is lent, but for its reserve",
        Policy::Fixed => "each its share and never more",
        Policy::Deadline => "the request of the earliest deadline",
        Policy::Score { ageing: 0.0 } => "the request of the highest score",
        Policy::Score { ageing } => {
            return format!("the request of the highest score, which grows by {ageing} a second");
        }
        Policy::Fifo => "the request that came first",
    }
    .to_owned()
}

/// For `tiergate check`: the policies between sites and classes, and what requests cost; empty where all
/// is as by default.
pub(crate) fn words(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    let several = plan.sites.len() > 1;
    if several {
        lines.push(format!("among the sites: {}", policy_words(plan.between_sites)));
    }
    for (id, site) in plan.site_ids().iter().zip(&plan.sites) {
        if !several && site.policy == Policy::Strict {
            continue;
        }
        let classes = plan.classes.iter().filter(|class| class.site == *id);
        let names: Vec<&str> = classes.map(|class| class.name.as_str()).collect();
        let (name, part) = match several {
            true => (
                format!("among the classes of site {} ({})", site.name, names.join(", ")),
                parts::words(plan.between_sites, &site.terms()),
            ),
            false => ("among the classes".to_owned(), String::new()),
        };
        lines.push(format!("{name}: {}{part}", policy_words(site.policy)));
    }
    let weighted = plan.sites.iter().any(|site| site.policy == Policy::Weighted)
        || several && plan.between_sites == Policy::Weighted;
    if plan.cost != Costing::default() || weighted {
        let cost = match plan.cost {
            Costing::Requests => "every request costs the same",
            Costing::Seconds => "a request costs the time that it holds its slots",
            Costing::Bytes => "a request costs the bytes of its response",
        };
        lines.push(cost.to_owned());
    }
    if plan.queue_len_max < u32::MAX {
        lines.push(format!("at most {} wait in all classes together", plan.queue_len_max));
    }
    lines
}

/// For `tiergate explain`: how a request is served beside its class, a line each.
pub(crate) fn request_words(plan: &Plan, found: &Match) -> Vec<String> {
    let class = plan.class(found.class).expect("the plan has the classes of its rules");
    let site = plan.site_of(class);
    let several = plan.sites.len() > 1;
    let mut lines = Vec::new();
    if several || site.policy != Policy::Strict {
        let of = if several { format!("site {}: ", site.name) } else { String::new() };
        lines.push(format!("{of}next is {}", policy_words(site.policy)));
    }
    if class.order == Order::Score
        || is_scored(site.policy)
        || class.when_full == WhenFull::DropLeast
    {
        lines.push(format!("its score there is {}", found.score));
    }
    if let Some(slots) = found.slots.filter(|slots| *slots > 1) {
        lines.push(format!("it takes {slots} slots"));
    }
    lines
}

/// Warns of scheduling that has no effect. `scored`: whether anything gives a score.
pub(crate) fn warn(plan: &Plan, scored: bool, warnings: &mut Vec<String>) {
    let between = (plan.sites.len() > 1).then_some(plan.between_sites);
    for (id, site) in plan.site_ids().iter().zip(&plan.sites) {
        if !plan.classes.iter().any(|class| class.site == *id) {
            warnings.push(format!("site {}: no class belongs to it", site.name));
        }
        let whose = format!("site {}", site.name);
        parts::warn(&whose, "between_sites", between, &site.terms(), warnings);
    }
    if between.is_none() && plan.between_sites != Policy::Strict {
        warnings.push("between_sites has no effect on a single site".to_owned());
    }
    for class in &plan.classes {
        let policy = Some(plan.site_of(class).policy);
        let whose = format!("class {}", class.name);
        parts::warn(&whose, "policy", policy, &class.terms(), warnings);
    }
    if let Some(first) = plan.classes.first().filter(|class| class.preemptible) {
        let name = &first.name;
        warnings.push(format!("class {name}: preemptible has no effect: no class is above it"));
    }
    if !scored {
        warn_unscored(plan, warnings);
    }
}

/// Warns of orders by a score that nothing gives.
fn warn_unscored(plan: &Plan, warnings: &mut Vec<String>) {
    let why = "neither [score] nor a rule gives a score: all have 0";
    for class in &plan.classes {
        let Class { name, order, when_full, .. } = class;
        // Where that is the site's policy, it is reported below.
        if *order == Order::Score && !is_scored(plan.site_of(class).policy) {
            warnings.push(format!("class {name}: order = \"score\": {why}"));
        }
        if *when_full == WhenFull::DropLeast {
            warnings.push(format!("class {name}: when_full = \"drop-least\": {why}"));
        }
    }
    let mut policies = plan.sites.iter().map(|site| site.policy).chain([plan.between_sites]);
    if policies.any(is_scored) {
        warnings.push(format!("policy = \"score\": {why}"));
    }
}
