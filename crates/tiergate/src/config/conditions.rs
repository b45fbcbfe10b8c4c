//! The conditions of a rule.

use super::error::{instead, shortened};
use super::kind::values;
use super::listener::Listener;
use super::place::{At, Place};
use super::rule::RuleKeys;
use super::values::is_token;
use tiergate_core::classify::Span;
use tiergate_core::classify::pattern::Pattern;
use tiergate_core::classify::rule::{Condition, Number};

/// The conditions of a rule; its other keys are left alone.
pub(super) fn conditions(raw: &RuleKeys, place: &Place, listeners: &[Listener]) -> Vec<Condition> {
    fn inner<T: Clone>(given: &Option<Vec<At<T>>>) -> Option<Vec<T>> {
        given.clone().map(values)
    }
    let number = |of, spans: Option<Vec<Span>>| spans.map(|spans| Condition::Number { of, spans });
    let mut all = Vec::new();
    all.extend(inner(&raw.client).map(Condition::Client));
    all.extend(inner(&raw.domain).map(Condition::Domain));
    all.extend(number(Number::Country, inner(&raw.country)));
    all.extend(number(Number::Asn, inner(&raw.asn)));
    all.extend(raw.certificate.clone().map(Condition::Certificate));
    all.extend(raw.subject.clone().map(Condition::Subject));
    all.extend(number(Number::Dscp, inner(&raw.dscp)));
    all.extend(number(Number::Listener, listener_places(&raw.listener, listeners)));
    all.extend(inner(&raw.destination).map(Condition::Destination));
    all.extend(inner(&raw.sni).map(Condition::Sni));
    all.extend(inner(&raw.host).map(Condition::Host));
    all.extend(inner(&raw.method).map(Condition::Method));
    all.extend(inner(&raw.path).map(Condition::Path));
    all.extend(inner(&raw.path_regex).map(Condition::PathRegex));
    all.extend(inner(&raw.extension).map(Condition::Extension));
    for (name, values) in named(&raw.query, None) {
        all.push(Condition::Query { name: name.into(), values });
    }
    all.extend(inner(&raw.content_type).map(Condition::ContentType));
    all.extend(number(Number::ContentLength, inner(&raw.content_length)));
    if raw.prefetch == Some(false) {
        let message = "must be true; leave it out for requests of either kind";
        place.fault_at("prefetch", message);
    }
    all.extend(raw.prefetch.map(|_| Condition::Prefetch));
    all.extend(number(Number::Urgency, inner(&raw.urgency)));
    for (name, values) in named(&raw.header, Some("a header")) {
        all.push(Condition::Header { name: name.into(), values });
    }
    for (name, values) in named(&raw.cookie, Some("a cookie")) {
        all.push(Condition::Cookie { name: name.into(), values });
    }
    all
}

/// Places of listeners that are named, or given by their address.
fn listener_places(given: &Option<Vec<At<String>>>, listeners: &[Listener]) -> Option<Vec<Span>> {
    let place_of = |At { value: text, place }: &At<String>| {
        let found = listeners.iter().position(|listener| listener.is_called(text));
        if found.is_none() {
            let addresses = listeners.iter().map(|listener| listener.address.to_string());
            let names = listeners.iter().filter_map(|listener| listener.name.clone());
            let known: Vec<String> = names.chain(addresses).collect();
            let instead = instead(text, known.iter().map(String::as_str));
            let text = shortened(text);
            place.fault(format!("no listener is called {text:?} or has that address{instead}"));
        }
        found.map(|place| Span::one(place as u64))
    };
    given.as_ref().map(|given| given.iter().filter_map(place_of).collect())
}

/// Names and patterns; `what`: what the names must be those of.
fn named(
    given: &Option<Vec<(String, At<Vec<Pattern>>)>>,
    what: Option<&str>,
) -> Vec<(String, Vec<Pattern>)> {
    let named = given.iter().flatten().map(|(name, At { value, place })| {
        if let Some(what) = what.filter(|_| !is_token(name)) {
            place.fault(format!("must be the name of {what}, got {:?}", shortened(name)));
        }
        (name.clone(), value.clone())
    });
    named.collect()
}
