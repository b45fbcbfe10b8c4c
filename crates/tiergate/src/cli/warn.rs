//! What a policy allows but makes no sense: rules that never match or never decide, classes that
//! nothing leads to.

use super::{warn_scheduling, words};
use crate::config::meant::{Listener, Policy, PolicyRule, ProxyProtocol};
use tiergate_core::admit::bucket::PARTS;
use tiergate_core::admit::policer::{PolicerId, Share};
use tiergate_core::class::ClassId;
use tiergate_core::classify::pattern::Pattern;
use tiergate_core::classify::rule::Rule;
use tiergate_core::classify::{Condition, Matcher, Output};
use tiergate_core::request::{Part, RequestView, Value};

/// Most pairs of rules that are compared for one covering the other: some seconds.
const PAIRS_MAX: usize = 100_000_000;

/// What is allowed but makes no sense.
pub fn warnings(policy: &Policy) -> Vec<String> {
    let mut warnings = Vec::new();
    // The rules that decide about the class of some request, as far as that can be told.
    let mut deciding = vec![true; policy.rules.len()];
    for (index, rule) in policy.rules.iter().enumerate() {
        if let Some(why) = never_matches(&rule.rule, policy) {
            warnings.push(format!("{} never matches: {why}", name(index, rule)));
            deciding[index] = false;
        } else if let Some(listeners) = proxied(&rule.rule, policy) {
            let rule = name(index, rule);
            warnings.push(format!("{rule} never matches clients of {listeners}: {NOT_OURS}"));
        }
    }
    shadowed(policy, &mut deciding, &mut warnings);
    unreached(policy, &deciding, &mut warnings);
    idle_policers(policy, &mut warnings);
    importance(policy, &mut warnings);
    warn_scheduling::warnings(policy, &mut warnings);
    warnings.extend_from_slice(&policy.warnings);
    warnings
}

fn name(index: usize, rule: &PolicyRule) -> String {
    format!("rule {} (line {})", index + 1, rule.line)
}

/// Why no request can ever have what a rule asks for, where that is sure.
fn never_matches(rule: &Rule, policy: &Policy) -> Option<String> {
    // Only if every path is written out.
    let exact = rule.conditions.iter().find_map(exact_paths);
    let tls = policy.listeners.iter().any(|listener| listener.tls.is_some());
    for condition in &rule.conditions {
        match condition.part() {
            Part::Extension | Part::Path => {
                let some =
                    |path: &&[u8]| condition.holds(&RequestView { path, ..RequestView::EMPTY });
                if exact.as_ref().is_some_and(|paths| !paths.iter().any(some)) {
                    let condition = words::condition(condition, policy);
                    return Some(format!("none of its paths has {condition}"));
                }
            }
            Part::Sni | Part::Certificate if !tls => {
                let condition = words::condition(condition, policy);
                return Some(format!("{condition} needs a listener with TLS"));
            }
            Part::Dscp => {
                let mut used = listeners(rule, policy).peekable();
                if used.peek().is_some() && used.all(is_proxied) {
                    let condition = words::condition(condition, policy);
                    return Some(format!("{condition}: {NOT_OURS}"));
                }
            }
            _ => {}
        }
    }
    None
}

/// Why the code point of a client behind the PROXY protocol is not known.
const NOT_OURS: &str = "behind the PROXY protocol, packets are the proxy's";

fn is_proxied(listener: &Listener) -> bool {
    listener.proxy_protocol == ProxyProtocol::Required
}

/// The listeners whose requests a rule may match.
fn listeners<'p>(rule: &'p Rule, policy: &'p Policy) -> impl Iterator<Item = &'p Listener> {
    let named = move |place: u64| {
        let mut asked = rule.conditions.iter().filter(|one| *one.part() == Part::Listener);
        asked.all(|one| one.any_of().iter().any(|any| any.matches(Value::Number(place))))
    };
    (0..).zip(&policy.listeners).filter(move |(place, _)| named(*place)).map(|(_, one)| one)
}

/// The listeners, of several, at which a rule asks for a code point that is not the client's.
fn proxied(rule: &Rule, policy: &Policy) -> Option<String> {
    let asks = |condition: &Condition| *condition.part() == Part::Dscp;
    let proxied = listeners(rule, policy).filter(|listener| is_proxied(listener));
    let names: Vec<String> =
        proxied.map(|one| one.name.clone().unwrap_or_else(|| one.address.to_string())).collect();
    (rule.conditions.iter().any(asks) && !names.is_empty()).then(|| names.join(", "))
}

/// The paths of a condition on the path, if each of them is written out.
fn exact_paths(condition: &Condition) -> Option<Vec<&[u8]>> {
    fn exactly(matcher: &Matcher) -> Option<&[u8]> {
        match matcher {
            Matcher::Pattern(Pattern::Exact(bytes)) => Some(bytes),
            _ => None,
        }
    }
    let paths = Some(condition).filter(|condition| *condition.part() == Part::Path)?;
    paths.any_of().iter().map(exactly).collect()
}

/// Rules of which earlier ones surely take every request, for each output that they set.
fn shadowed(policy: &Policy, deciding: &mut [bool], warnings: &mut Vec<String>) {
    let mut pairs = 0;
    for (index, later) in policy.rules.iter().enumerate() {
        pairs += index;
        if pairs > PAIRS_MAX {
            warnings.push(format!("rules from {} on were not compared: too many", index + 1));
            break;
        }
        let set: Vec<Output> = later.rule.outputs().collect();
        let mut open = set.clone();
        let mut told = Vec::new();
        for (place, earlier) in policy.rules[..index].iter().enumerate() {
            if open.is_empty() {
                break;
            }
            let takes: Vec<Output> =
                open.iter().copied().filter(|output| earlier.rule.sets(*output)).collect();
            if takes.is_empty() || !earlier.rule.covers(&later.rule) {
                continue;
            }
            open.retain(|output| !takes.contains(output));
            if takes.contains(&Output::Verdict) {
                deciding[index] = false;
            }
            let why = match earlier.rule.conditions == later.rule.conditions {
                true => "asks for the same",
                false => "takes all of its requests",
            };
            told.push((takes, format!("{} {why}", name(place, earlier))));
        }
        let later = name(index, later);
        match &told[..] {
            [] => {}
            [(_, by)] if open.is_empty() => {
                warnings.push(format!("{later} never decides: {by}"));
            }
            many => {
                for (outputs, by) in many {
                    let outputs: Vec<&str> = outputs.iter().map(|output| output.name()).collect();
                    let outputs = outputs.join(" and ");
                    warnings.push(format!("{later} never decides about {outputs}: {by}"));
                }
            }
        }
    }
}

/// Classes that no request can get.
fn unreached(policy: &Policy, deciding: &[bool], warnings: &mut Vec<String>) {
    let default = policy.classifier.default_class();
    let bands = policy.score.iter().flat_map(|tables| &tables.bands);
    let by_score: Vec<ClassId> = bands.map(|(_, class)| *class).collect();
    for (index, class) in policy.plan.classes.iter().enumerate() {
        let id = ClassId(index as u16);
        if id == default || by_score.contains(&id) {
            continue;
        }
        let mut leading = policy
            .rules
            .iter()
            .zip(deciding)
            .filter(|(rule, _)| rule.rule.class == Some(id))
            .peekable();
        let led = leading.peek().is_some();
        if !led {
            warnings.push(format!("class {}: no rule leads to it", class.name));
        } else if !leading.any(|(_, deciding)| *deciding) {
            warnings.push(format!("class {}: only rules that never decide lead to it", class.name));
        }
    }
}

/// Policers that nothing uses, and classes that come under one in which they have no part.
fn idle_policers(policy: &Policy, warnings: &mut Vec<String>) {
    let plan = &policy.plan;
    let default = policy.classifier.default_class();
    for (index, policer) in plan.policers.iter().enumerate() {
        let id = Some(PolicerId(index as u16));
        let mut classes: Vec<ClassId> = (0..plan.classes.len() as u16).map(ClassId).collect();
        if plan.site_policer != id {
            classes.retain(|class| {
                let of_class = |rule: &Rule| rule.class.unwrap_or(default) == *class;
                plan.classes[class.index()].policer == id
                    || policy.rules.iter().any(|it| it.rule.policer == id && of_class(&it.rule))
            });
        }
        if classes.is_empty() {
            warnings.push(format!("policer {}: nothing comes under it", policer.name));
        }
        let sum: u64 = policer.shares.iter().map(|share| u64::from(share.parts)).sum();
        let shared = |class: &ClassId| policer.shares.iter().any(|share| share.class == *class);
        for class in classes.iter().filter(|class| sum == PARTS && !shared(class)) {
            let name = words::class_name(policy, *class);
            warnings.push(format!(
                "policer {}: class {name} has no share, and gets only what the others leave",
                policer.name
            ));
        }
        let reached = |share: &&Share| classes.contains(&share.class);
        for share in policer.shares.iter().filter(|share| !classes.is_empty() && !reached(share)) {
            let name = words::class_name(policy, share.class);
            warnings.push(format!(
                "policer {}: class {name} has a share, but never comes under it",
                policer.name
            ));
        }
    }
}

/// Importance that changes nothing, and importance that anybody can have.
fn importance(policy: &Policy, warnings: &mut Vec<String>) {
    let said =
        || policy.rules.iter().enumerate().filter(|(_, rule)| rule.rule.importance.is_some());
    let Some(delay) = policy.plan.shedding else {
        if let Some((index, rule)) = said().next() {
            let name = name(index, rule);
            warnings.push(format!("{name}: importance changes nothing without [shedding]"));
        }
        return;
    };
    if said().next().is_none() {
        let why = "no rule says `importance`: only class and age tell who goes first";
        warnings.push(format!("shedding: {why}"));
    }
    if policy.plan.classes.iter().all(|class| class.deadline <= delay) {
        let why = "no class waits as long as its delay: nobody is ever shed";
        warnings.push(format!("shedding: {why}"));
    }
    if policy.session.is_some() {
        return;
    }
    for (index, rule) in said() {
        let mut claims = rule.rule.conditions.iter().filter_map(claim);
        if let Some(claim) = claims.next()
            && !rule.rule.conditions.iter().any(is_proof)
        {
            let name = name(index, rule);
            warnings.push(format!(
                "{name}: whoever guesses the value of {claim} is as important; with [session], \
                 only who was admitted is"
            ));
        }
    }
}

/// What a client merely says.
fn claim(condition: &Condition) -> Option<String> {
    match condition.part() {
        Part::Cookie(name) => Some(format!("cookie {name}")),
        Part::Header(name) => Some(format!("header {name}")),
        _ => None,
    }
}

/// What a client cannot make up.
fn is_proof(condition: &Condition) -> bool {
    matches!(
        condition.part(),
        Part::Client
            | Part::ClientName
            | Part::Country
            | Part::Asn
            | Part::Certificate
            | Part::Subject
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn warned(rules: &str) -> Vec<String> {
        let text = format!(
            "[origin]\nservers = [\"a:1\"]\n\
             [[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\n[[class]]\nname = \"c\"\n{rules}"
        );
        warnings(&parse(&text, "p.toml").unwrap())
    }

    #[test]
    fn rules_that_never_decide_and_classes_without_rules_are_told() {
        assert_eq!(
            warned(
                "[[rule]]\npath = \"/x/*\"\nclass = \"a\"\n\
                 [[rule]]\npath = \"/x/y\"\nmethod = \"GET\"\nclass = \"b\"\n\
                 [[rule]]\nmethod = \"GET\"\nclass = \"a\"\n\
                 [[rule]]\npath = \"/x/*\"\nclass = \"c\"\n"
            ),
            [
                "rule 2 (line 12) never decides: rule 1 (line 9) takes all of its requests",
                "rule 4 (line 19) never decides: rule 1 (line 9) asks for the same",
                "class b: only rules that never decide lead to it",
            ]
        );
        assert_eq!(
            warned("[[rule]]\nmethod = \"GET\"\nclass = \"a\"\n"),
            ["class b: no rule leads to it"]
        );
    }

    #[test]
    fn what_an_earlier_rule_does_not_say_a_later_one_may() {
        assert_eq!(
            warned(
                "[[rule]]\npath = \"/x/*\"\nimportance = 5\n\
                 [[rule]]\npath = \"/x/*\"\nclass = \"a\"\n\
                 [[rule]]\npath = \"/x/y\"\nclass = \"b\"\nimportance = 6\nslots = 2\n\
                 [[rule]]\npath = \"/x/z\"\nimportance = 7\n[shedding]\n"
            ),
            [
                "rule 3 (line 15) never decides about importance: rule 1 (line 9) takes all of its requests",
                "rule 3 (line 15) never decides about class: rule 2 (line 12) takes all of its requests",
                "rule 4 (line 20) never decides: rule 1 (line 9) takes all of its requests",
                "class b: only rules that never decide lead to it",
            ]
        );
    }

    #[test]
    fn importance_that_changes_nothing_or_that_anybody_has_is_told() {
        let by_cookie = "[[rule]]\nmethod = \"GET\"\nclass = \"a\"\n\
             [[rule]]\nmethod = \"PUT\"\nclass = \"b\"\n\
             [[rule]]\ncookie.basket = \"full\"\nimportance = 200\n";
        let rules = |shedding: &str| format!("{by_cookie}{shedding}");
        assert_eq!(
            warned(&rules("")),
            ["rule 3 (line 15): importance changes nothing without [shedding]"]
        );
        assert_eq!(
            warned(&rules("[shedding]\n")),
            ["rule 3 (line 15): whoever guesses the value of cookie basket is as important; with \
              [session], only who was admitted is"]
        );
        assert_eq!(warned(&rules("[shedding]\n[session]\nown = true\n")), [""; 0]);
        assert_eq!(warned(&rules("client = \"10.0.0.0/8\"\n[shedding]\n")), [""; 0]);
        let without = by_cookie.replace("importance = 200", "slots = 2");
        assert_eq!(
            warned(&format!("{without}[shedding]\ndelay = \"2s\"\n")),
            [
                "shedding: no rule says `importance`: only class and age tell who goes first",
                "shedding: no class waits as long as its delay: nobody is ever shed",
            ]
        );
    }

    #[test]
    fn rules_that_never_match_are_told() {
        assert_eq!(
            warned(
                "[[rule]]\npath = [\"/a.cgi\", \"/b\"]\nextension = \"jpg\"\nclass = \"a\"\n\
                 [[rule]]\npath = \"/a.cgi\"\nextension = \"cgi\"\nclass = \"a\"\n\
                 [[rule]]\nsni = \"a.com\"\nclass = \"b\"\n"
            ),
            [
                "rule 1 (line 9) never matches: none of its paths has extension jpg",
                "rule 3 (line 17) never matches: sni a.com needs a listener with TLS",
                "class b: only rules that never decide lead to it",
            ]
        );
    }

    #[test]
    fn code_points_behind_the_proxy_protocol_are_told() {
        let warned = |listeners: &str, rule: &str| {
            let text = format!(
                "trusted = [\"10.0.0.1\"]\n[origin]\nservers = [\"a:1\"]\n{listeners}\
                 [[rule]]\ndscp = 46\nrefuse = true\n{rule}"
            );
            warnings(&parse(&text, "p.toml").unwrap())
        };
        let plain = "[[listener]]\naddress = \"127.0.0.1:80\"\nname = \"plain\"\n";
        let proxied =
            "[[listener]]\naddress = \"127.0.0.1:81\"\nproxy_protocol = true\nname = \"proxied\"\n";
        let both = format!("{plain}{proxied}");
        assert_eq!(warned(plain, ""), [""; 0]);
        assert_eq!(
            warned(proxied, ""),
            [
                "rule 1 (line 8) never matches: DSCP 46: behind the PROXY protocol, packets are the proxy's"
            ]
        );
        assert_eq!(
            warned(&both, ""),
            [
                "rule 1 (line 11) never matches clients of proxied: behind the PROXY protocol, packets are the proxy's"
            ]
        );
        assert_eq!(warned(&both, "listener = \"plain\"\n"), [""; 0]);
        let only = warned(&both, "listener = \"proxied\"\n");
        assert!(only[0].starts_with("rule 1 (line 11) never matches: DSCP 46: "), "{only:?}");
    }
}
