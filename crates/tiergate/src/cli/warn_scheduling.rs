//! What a policy says of scheduling that changes nothing, or that nobody can mean.

use crate::config::meant::Policy;
use tiergate_core::class::{Class, Order, WhenFull};
use tiergate_core::control::Slots;
use tiergate_core::schedule::{Policy as Between, Site};

/// What is said of scheduling and makes no sense.
pub(super) fn warnings(policy: &Policy, warnings: &mut Vec<String>) {
    let plan = &policy.plan;
    for (index, site) in plan.sites.iter().enumerate() {
        let mut classes = plan.classes.iter().filter(|class| class.site.index() == index);
        if classes.next().is_none() {
            warnings.push(format!("site {}: no class belongs to it", site.name));
        }
        let between = match plan.sites.len() {
            1 => None,
            _ => Some(plan.between_sites),
        };
        let whose = format!("site {}", site.name);
        part(&whose, "between_sites", between, &Part::of_site(site), warnings);
    }
    if plan.sites.len() == 1 && plan.between_sites != Between::Strict {
        warnings.push("between_sites has no effect on a single site".to_owned());
    }
    for class in &plan.classes {
        let between = Some(plan.sites[class.site.index()].policy);
        let whose = format!("class {}", class.name);
        part(&whose, "policy", between, &Part::of_class(class), warnings);
    }
    preemptible(policy, warnings);
    scores(policy, warnings);
    rules(policy, warnings);
}

/// What a class, or a site, has of the slots.
struct Part {
    weight: f64,
    minimum: f64,
    share: f64,
    reserve: f64,
}

impl Part {
    fn of_site(site: &Site) -> Self {
        let Site { weight, minimum, share, reserve, .. } = *site;
        Part { weight, minimum, share, reserve }
    }

    fn of_class(class: &Class) -> Self {
        let Class { weight, minimum, share, reserve, .. } = *class;
        Part { weight, minimum, share, reserve }
    }
}

/// Parts of which the policy under `key` makes nothing; `None`: there is nobody to divide with.
fn part(whose: &str, key: &str, between: Option<Between>, part: &Part, warnings: &mut Vec<String>) {
    let is = |policies: &[Between]| between.is_some_and(|between| policies.contains(&between));
    let mut needs = |given: bool, name: &str, policies: &[Between], words: &str| {
        if given && !is(policies) {
            warnings.push(format!("{whose}: {name} has no effect without {key} = {words}"));
        }
    };
    let shared = [Between::Shared, Between::Fixed];
    needs(part.weight != 1.0, "weight", &[Between::Weighted], "\"weighted\"");
    needs(part.minimum > 0.0, "minimum", &[Between::Strict], "\"strict\"");
    needs(part.share > 0.0, "share", &shared, "\"shared\" or \"fixed\"");
    needs(
        part.reserve > 0.0 && (part.share == 0.0 || is(&shared)),
        "reserve",
        &shared[..1],
        "\"shared\"",
    );
    if between == Some(Between::Shared) && part.share == 0.0 {
        warnings.push(format!("{whose}: without a share it gets only what the others leave"));
    }
}

/// Preemptible classes that no class is above.
fn preemptible(policy: &Policy, warnings: &mut Vec<String>) {
    if let Some(first) = policy.plan.classes.first().filter(|class| class.preemptible) {
        let name = &first.name;
        warnings.push(format!("class {name}: preemptible has no effect: no class is above it"));
    }
}

/// Orders by a score that nothing gives.
fn scores(policy: &Policy, warnings: &mut Vec<String>) {
    if policy.score.is_some() || policy.rules.iter().any(|rule| rule.rule.score.is_some()) {
        return;
    }
    let without = "neither [score] nor a rule gives a score: all have 0";
    let plan = &policy.plan;
    let scored = |policy: Between| matches!(policy, Between::Score { .. });
    for class in &plan.classes {
        // Where that is the site's policy, it is told below.
        let by_policy = scored(plan.sites[class.site.index()].policy);
        if class.order == Order::Score && !by_policy {
            warnings.push(format!("class {}: order = \"score\": {without}", class.name));
        }
        if class.when_full == WhenFull::DropLeast {
            warnings.push(format!("class {}: when_full = \"drop-least\": {without}", class.name));
        }
    }
    let mut policies = plan.sites.iter().map(|site| site.policy).chain([plan.between_sites]);
    if policies.any(scored) {
        warnings.push(format!("policy = \"score\": {without}"));
    }
}

/// Rules whose requests never fit, or whose header nobody may send.
fn rules(policy: &Policy, warnings: &mut Vec<String>) {
    for (index, rule) in policy.rules.iter().enumerate() {
        let name = format!("rule {} (line {})", index + 1, rule.line);
        if let (Some(takes), Slots::Fixed(slots)) = (rule.rule.slots, &policy.plan.slots)
            && u32::from(takes) > *slots
        {
            warnings.push(format!("{name}: takes {takes} slots, and there are only {slots}"));
        }
        if let Some(header) = rule.rule.deadline_header.as_ref()
            && policy.trusted.is_empty()
        {
            warnings.push(format!("{name}: {header} is believed of nobody: `trusted` is empty"));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::check::{meaning, warnings};
    use crate::config::meant::Policy;
    use crate::config::parse;

    fn policy(text: &str) -> Policy {
        parse(&format!("{text}\n[origin]\nservers = [\"a:1\"]\nslots = 8\n"), "p.toml").unwrap()
    }

    fn warned(text: &str) -> Vec<String> {
        let rules =
            "[[rule]]\npath = \"/a\"\nclass = \"a\"\n[[rule]]\npath = \"/b\"\nclass = \"b\"\n";
        warnings(&policy(&format!("{text}{rules}")))
    }

    #[test]
    fn parts_that_the_policy_makes_nothing_of_are_told() {
        let classes = "[[class]]\nname = \"a\"\nshare = \"50%\"\nreserve = \"10%\"\nweight = 3\n\
                       [[class]]\nname = \"b\"\nminimum = \"10%\"\n";
        let under = |policy: &str| warned(&format!("{classes}[scheduling]\npolicy = {policy:?}\n"));
        let share = "class a: share has no effect without policy = \"shared\" or \"fixed\"";
        let weight = "class a: weight has no effect without policy = \"weighted\"";
        let minimum = "class b: minimum has no effect without policy = \"strict\"";
        assert_eq!(under("strict"), [weight, share]);
        assert_eq!(under("weighted"), [share, minimum]);
        let leaves = "class b: without a share it gets only what the others leave";
        assert_eq!(under("shared"), [weight, minimum, leaves]);
        let reserve = "class a: reserve has no effect without policy = \"shared\"";
        let classes = classes.replace("minimum", "share = \"50%\"\nminimum");
        let fixed = warned(&format!("{classes}[scheduling]\npolicy = \"fixed\"\n"));
        assert_eq!(fixed, [weight, reserve, minimum]);
        let scores = "policy = \"score\": neither [score] nor a rule gives a score: all have 0";
        assert_eq!(under("score"), [weight, share, minimum, scores]);
    }

    #[test]
    fn sites_orders_and_rules_that_make_no_sense_are_told() {
        assert_eq!(
            warned(
                "[scheduling]\nbetween_sites = \"shared\"\n\
                 [[site]]\nname = \"x\"\nshare = \"50%\"\n[[site]]\nname = \"y\"\nweight = 2\n\
                 [[class]]\nname = \"a\"\nsite = \"x\"\norder = \"score\"\npreemptible = true\n\
                 [[class]]\nname = \"b\"\nsite = \"x\"\nwhen_full = \"drop-least\"\n\
                 [[rule]]\nslots = 9\ndeadline_header = \"X-Budget\"\n"
            ),
            [
                "site y: no class belongs to it",
                "site y: weight has no effect without between_sites = \"weighted\"",
                "site y: without a share it gets only what the others leave",
                "class a: preemptible has no effect: no class is above it",
                "class a: order = \"score\": neither [score] nor a rule gives a score: all have 0",
                "class b: when_full = \"drop-least\": neither [score] nor a rule gives a score: all have 0",
                "rule 1 (line 18): takes 9 slots, and there are only 8",
                "rule 1 (line 18): x-budget is believed of nobody: `trusted` is empty",
            ]
        );
        assert_eq!(
            warned(
                "[scheduling]\nbetween_sites = \"fifo\"\n[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\n"
            ),
            ["between_sites has no effect on a single site"]
        );
    }

    #[test]
    fn who_is_served_next_in_words() {
        let plain = meaning(&policy(""), "p.toml");
        assert!(!plain.contains("Who is served next"), "{plain}");
        let words = meaning(
            &policy(
                "trusted = [\"127.0.0.1\"]\n[scheduling]\nbetween_sites = \"weighted\"\npolicy = \"shared\"\n\
                 [[site]]\nname = \"x\"\nweight = 3\n[[site]]\nname = \"y\"\npolicy = \"score\"\nageing = 2.5\n\
                 [[class]]\nname = \"a\"\nsite = \"x\"\nshare = \"60%\"\nreserve = \"5%\"\norder = \"adaptive-lifo\"\n\
                 codel = { target = \"10ms\" }\nfair = false\n\
                 [[class]]\nname = \"b\"\nsite = \"y\"\nlate = \"last\"\nwhen_full = \"drop-oldest\"\n\
                 queue_bytes = \"1MiB\"\npreemptible = true\n\
                 [[rule]]\npath = \"/a\"\nclass = \"a\"\nslots = 4\ndeadline_header = \"X-Budget\"\n",
            ),
            "p.toml",
        );
        for line in [
            "Who is served next",
            "  of the sites: in proportion to their weights",
            "  of site x (a): each its share; what one does not use is lent, but for its reserve, weight 3",
            "  of site y (b): the request of the highest score, which grows by 2.5 a second, weight 1",
            "  a request costs the time that it holds its slots",
            "  1  a  waits at most 2s, at most 10000 in the queue, site x, 60% of the slots, 5% of them never lent, the newest first under overload, whatever their flow, dropped while 10ms of delay stand for 200ms",
            "  2  b  waits at most 2s, at most 10000 in the queue, site y, the oldest leaves a full queue, the late last, until twice the deadline, at most 1MiB in the queue, GET and HEAD preempted by classes above; takes what no rule matches",
            "  1  (line 27)  path /a → a, slots 4, deadline by a trusted x-budget",
        ] {
            assert!(words.lines().any(|found| found == line), "`{line}` is missing in\n{words}");
        }
    }
}
