//! From the conditions of a rule as written to conditions as meant.

use super::error::{Faults, Place, instead, shortened};
use super::meant::Listener;
use super::raw;
use super::read::{At, Named, OneOrMany};
use super::values::{Values, is_token};
use tiergate_core::classify::Span;
use tiergate_core::classify::pattern::Pattern;
use tiergate_core::classify::rule::{Condition, Number};

/// The conditions of a rule; its other keys are left alone.
pub(super) fn conditions(
    raw: &raw::Rule,
    listeners: &[Listener],
    faults: &mut Faults,
) -> Vec<Condition> {
    /// The inner values of one or many.
    fn inner<T: Clone, U>(at: &Option<At<OneOrMany<T>>>, of: impl Fn(T) -> U) -> Option<Vec<U>> {
        at.as_ref().map(|at| at.value.clone().into_vec().into_iter().map(of).collect())
    }
    let mut all = Vec::new();
    all.extend(inner(&raw.client, |network| network.0).map(Condition::Client));
    all.extend(inner(&raw.domain, |domain| domain.0).map(Condition::Domain));
    all.extend(numbers(Number::Country, inner(&raw.country, |country| country.0)));
    all.extend(numbers(Number::Asn, inner(&raw.asn, |asn| asn.0)));
    all.extend(values(&raw.certificate).map(Condition::Certificate));
    all.extend(values(&raw.subject).map(Condition::Subject));
    all.extend(numbers(Number::Dscp, inner(&raw.dscp, |dscp| dscp.0)));
    all.extend(numbers(Number::Listener, listener_places(&raw.listener, listeners, faults)));
    all.extend(inner(&raw.destination, |network| network.0).map(Condition::Destination));
    all.extend(inner(&raw.sni, |host| host.0).map(Condition::Sni));
    all.extend(inner(&raw.host, |host| host.0).map(Condition::Host));
    all.extend(inner(&raw.method, |method| method.0).map(Condition::Method));
    all.extend(inner(&raw.path, |path| path.0).map(Condition::Path));
    all.extend(inner(&raw.path_regex, |regex| regex.0).map(Condition::PathRegex));
    all.extend(inner(&raw.extension, |extension| extension.0).map(Condition::Extension));
    for (name, values) in named(&raw.query) {
        all.push(Condition::Query { name: name.into(), values });
    }
    all.extend(inner(&raw.content_type, |media| media.0).map(Condition::ContentType));
    all.extend(numbers(Number::ContentLength, inner(&raw.content_length, |size| size.0)));
    all.extend(prefetch(&raw.prefetch, faults));
    all.extend(numbers(Number::Urgency, inner(&raw.urgency, |urgency| urgency.0)));
    check_names(&raw.header, "a header", faults);
    for (name, values) in named(&raw.header) {
        all.push(Condition::Header { name: name.into(), values });
    }
    check_names(&raw.cookie, "a cookie", faults);
    for (name, values) in named(&raw.cookie) {
        all.push(Condition::Cookie { name: name.into(), values });
    }
    all
}

fn numbers(of: Number, spans: Option<Vec<Span>>) -> Option<Condition> {
    spans.map(|spans| Condition::Number { of, spans })
}

fn values(at: &Option<At<Values>>) -> Option<Vec<Pattern>> {
    at.as_ref().map(|at| at.value.0.clone())
}

fn prefetch(at: &Option<At<bool>>, faults: &mut Faults) -> Option<Condition> {
    let at = at.as_ref()?;
    if !at.value {
        faults.add(&at.place, "must be true; leave it out for requests of either kind");
    }
    Some(Condition::Prefetch)
}

/// Places of listeners that are named, or given by their address.
fn listener_places(
    at: &Option<At<OneOrMany<String>>>,
    listeners: &[Listener],
    faults: &mut Faults,
) -> Option<Vec<Span>> {
    let at = at.as_ref()?;
    let mut place_of = |text: &str, place: &Place| {
        let is = |listener: &Listener| {
            listener.name.as_deref() == Some(text) || listener.address.to_string() == text
        };
        let found = listeners.iter().position(is);
        if found.is_none() {
            let addresses = listeners.iter().map(|listener| listener.address.to_string());
            let names = listeners.iter().filter_map(|listener| listener.name.clone());
            let known: Vec<String> = names.chain(addresses).collect();
            let instead = instead(text, known.iter().map(String::as_str));
            let text = shortened(text);
            faults
                .add(place, format!("no listener is called {text:?} or has that address{instead}"));
        }
        found.map(|place| Span::one(place as u64))
    };
    Some(match &at.value {
        OneOrMany::One(text) => place_of(text, &at.place).into_iter().collect(),
        OneOrMany::Many(texts) => {
            texts.iter().filter_map(|text| place_of(&text.value, &text.place)).collect()
        }
    })
}

fn named(raw: &Option<At<Named<Values>>>) -> impl Iterator<Item = (String, Vec<Pattern>)> {
    let named = raw.iter().flat_map(|raw| raw.value.0.iter());
    named.map(|(name, values)| (name.clone(), values.value.0.clone()))
}

fn check_names(raw: &Option<At<Named<Values>>>, what: &str, faults: &mut Faults) {
    for (name, values) in raw.iter().flat_map(|raw| raw.value.0.iter()) {
        if !is_token(name) {
            let message = format!("must be the name of {what}, got {:?}", shortened(name));
            faults.add(&values.place, message);
        }
    }
}
