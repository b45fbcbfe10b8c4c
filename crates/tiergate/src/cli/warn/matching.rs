//! Warnings of rules that no request can ever match.

use crate::cli::words;
use crate::config::meant::{Listener, Policy, Tls};
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::pattern::Pattern;
use tiergate_core::classify::rule::Rule;
use tiergate_core::classify::{Condition, Matcher};
use tiergate_core::request::{Part, RequestView, Value};

/// Why no request can ever match a rule, where that is certain.
pub(super) fn never_matches(rule: &Rule, policy: &Policy) -> Option<String> {
    // Only if every path is written out.
    let exact = rule.conditions.iter().find_map(exact_paths);
    let of_tls = |has: fn(&Tls) -> bool| {
        listeners(rule, policy).filter_map(|listener| listener.tls.as_ref()).any(has)
    };
    for condition in &rule.conditions {
        let shown = || words::condition(condition, policy);
        match condition.part() {
            Part::Extension | Part::Path => {
                let some =
                    |path: &&[u8]| condition.holds(&RequestView { path, ..RequestView::EMPTY });
                if exact.as_ref().is_some_and(|paths| !paths.iter().any(some)) {
                    return Some(format!("none of its paths has {}", shown()));
                }
            }
            Part::Sni | Part::Certificate if !of_tls(|_| true) => {
                return Some(format!("{} needs a listener with TLS", shown()));
            }
            Part::Certificate if !of_tls(|tls| tls.client.is_some()) => {
                return Some(format!("{} needs a listener with tls.client_ca", shown()));
            }
            Part::Country | Part::Asn if policy.identity.geo.is_empty() => {
                return Some(format!("{} needs [geo]", shown()));
            }
            Part::Subject if !has_subjects(policy) => {
                return Some(format!("{} needs [[key]] or [token]", shown()));
            }
            Part::Dscp => {
                let mut used = listeners(rule, policy).peekable();
                if used.peek().is_some() && used.all(|listener| listener.proxy_protocol) {
                    return Some(format!("{}: {NOT_OURS}", shown()));
                }
            }
            _ => {}
        }
    }
    None
}

/// Why the code point of a client behind the PROXY protocol is not known.
pub(super) const NOT_OURS: &str = "behind the PROXY protocol, packets are the proxy's";

/// The listeners whose requests a rule may match.
pub(super) fn listeners<'p>(
    rule: &'p Rule,
    policy: &'p Policy,
) -> impl Iterator<Item = &'p Listener> {
    let named = move |place: u64| {
        let mut asked = rule.conditions.iter().filter(|one| *one.part() == Part::Listener);
        asked.all(|one| one.any_of().iter().any(|any| any.matches(Value::Number(place))))
    };
    (0..).zip(&policy.listeners).filter(move |(place, _)| named(*place)).map(|(_, one)| one)
}

/// The listeners, of several, at which a rule asks for a code point that is not the client's.
pub(super) fn proxied(rule: &Rule, policy: &Policy) -> Option<String> {
    let asks = |condition: &Condition| *condition.part() == Part::Dscp;
    let proxied = listeners(rule, policy).filter(|listener| listener.proxy_protocol);
    let names: Vec<String> = proxied.map(Listener::shown).collect();
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

/// Whether requests may have a subject.
fn has_subjects(policy: &Policy) -> bool {
    !policy.identity.keys.is_empty() || policy.identity.token.is_some()
}

/// What is said where fairness is by subjects, and no request has one.
pub(super) fn without_subject(policy: &Policy) -> Option<String> {
    let of_rules = policy.rules.iter().filter_map(|rule| rule.rule.flow.as_ref());
    let asks = policy.classifier.flows().chain(of_rules).any(|flow| *flow == Flow::Subject);
    let why = "flow = \"subject\" needs [[key]] or [token]: without them no request has a subject, and its client's address counts";
    (asks && !has_subjects(policy)).then(|| why.to_owned())
}
