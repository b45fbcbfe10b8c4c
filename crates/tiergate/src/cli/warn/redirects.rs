//! Warnings of rules that send clients to what they match themselves: a loop, until the browser gives up.

use super::naming::name;
use crate::config::meant::{Policy, PolicyRule};
use tiergate_core::classify::path::{Buffers, normalise};
use tiergate_core::classify::rule::Rule;
use tiergate_core::classify::{Condition, Output};
use tiergate_core::request::{Part, RequestView};
use tiergate_wire::http1::host_name;

/// Statuses with which a client keeps the method of its request (RFC 9110 §15.4).
const KEEP_METHOD: [u16; 2] = [307, 308];

/// What is said of them.
pub(super) fn loops(policy: &Policy) -> Vec<String> {
    let rules = policy.rules.iter().enumerate();
    rules.filter_map(|(index, rule)| redirected_to_itself(index, rule, policy)).collect()
}

fn redirected_to_itself(index: usize, rule: &PolicyRule, policy: &Policy) -> Option<String> {
    let denial = rule.denial.as_deref()?;
    let location = denial.location.as_deref()?;
    let (host, target) = match location.split_once("://") {
        Some((scheme, rest)) => {
            let rest = rest.split('#').next().unwrap_or(rest);
            let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            if !listens(policy, scheme, authority) {
                return None;
            }
            (Some(host_name(authority.as_bytes())), target)
        }
        None => (None, location.split('#').next().unwrap_or(location)),
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = if path.is_empty() { "/" } else { path };
    let mut buffers = Buffers::default();
    let path = normalise(path.as_bytes(), policy.paths, &mut buffers).ok()?.judged;
    let next = RequestView {
        path,
        query: query.as_bytes(),
        host: host.unwrap_or_default(),
        method: b"GET",
        ..RequestView::EMPTY
    };
    let keeps_method = KEEP_METHOD.contains(&denial.status);
    // The client comes back as it came, but for what the location says.
    let stays = |condition: &Condition| match condition.part() {
        Part::Path | Part::Extension | Part::Query(_) => condition.holds(&next),
        Part::Method => keeps_method || condition.holds(&next),
        // Another host may be another gateway, and another scheme another listener.
        Part::Host => host.is_none() || condition.holds(&next),
        Part::Header(_) | Part::Listener | Part::Destination | Part::Sni => host.is_none(),
        // A body is not sent again.
        Part::ContentLength | Part::ContentType => keeps_method,
        _ => true,
    };
    let is_matched = |rule: &Rule| rule.conditions.iter().all(stays);
    let names_host = rule.rule.conditions.iter().any(|one| *one.part() == Part::Host);
    if !is_matched(&rule.rule) || (host.is_some() && !names_host) {
        return None;
    }
    // One before it may let these requests through.
    let before = policy.rules[..index].iter();
    let mut before = before.filter(|it| it.rule.sets(Output::Verdict) && is_matched(&it.rule));
    before.next().is_none().then(|| {
        format!(
            "{} sends clients to {location}, which it matches itself, so that they go in a circle: name other paths, or put a rule for {} before it",
            name(rule),
            String::from_utf8_lossy(path)
        )
    })
}

/// Whether requests by this scheme, to the port that is said, may come to a listener of the policy.
fn listens(policy: &Policy, scheme: &str, authority: &str) -> bool {
    let is_secure = scheme.eq_ignore_ascii_case("https");
    let name = host_name(authority.as_bytes());
    let port = authority[name.len()..].strip_prefix(':').and_then(|it| it.parse().ok());
    policy.listeners.iter().any(|it| {
        it.tls.is_some() == is_secure && port.is_none_or(|port: u16| it.address.port() == port)
    })
}
