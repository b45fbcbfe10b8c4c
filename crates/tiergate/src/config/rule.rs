//! `[[rule]]` as written: conditions, and what becomes of requests that match.

use super::error::{instead, shortened};
use super::kind::{Named, values};
use super::listener::Listener;
use super::place::{At, Place};
use super::policer::{Police, PoliceKind};
use super::rule_values::{
    ASN, COUNTRY, DOMAIN, DSCP, EXTENSION, FLOW, HOST, MEDIA_TYPE, METHOD, PATH, REGEX, SIZES,
    URGENCY, Values, any_of,
};
use super::section::{Kind, section};
use super::values::{Flag, HEADER, NETWORK, Name, PointsNumber, TEXT, TIME, is_token, whole};
use ipnet::IpNet;
use std::time::Duration;
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::pattern::{HostPattern, Pattern};
use tiergate_core::classify::rule::{Condition, Number};
use tiergate_core::classify::score::Points;
use tiergate_core::classify::{PathRegex, Span};

/// Most slots of one request: as many as any origin of which a policy knows the number has.
const SLOTS_MAX: u64 = 10_000;

section! {
    /// All conditions given must hold; of a list, one is enough.
    #[derive(Clone, Debug)]
    pub(super) struct RuleKeys {
        /// The path, without query, normalised. `*` is anything but `/` (at the end: anything), `**`
        /// anything, `?` one character.
        path: Option<Vec<At<Pattern>>> = any_of(PATH).optional("");
        /// The host of the target or the `Host` header, without port, is `"example.com"`, or below it:
        /// `"*.example.com"` (at any depth, but not `example.com` itself). Case and a final dot are ignored.
        host: Option<Vec<At<HostPattern>>> = any_of(HOST).optional("");
        /// The method. Case matters, as in HTTP.
        method: Option<Vec<At<Box<str>>>> = any_of(METHOD).optional("");
        /// `header.NAME`: a header field of this name has a value that matches a pattern; `true`: there is
        /// one. The name's case is ignored, the value's matters. Of several fields one is enough; a value is
        /// taken whole, not split at commas. Fields that the origin gets from `trusted` peers only
        /// (`X-Forwarded-…`, `Forwarded`, `X-Real-IP`, `X-Tiergate-…`) are hidden from rules if another peer
        /// sends them.
        header: Option<Vec<(String, At<Vec<Pattern>>)>> = Named(Values).optional("");
        /// `cookie.NAME`: a cookie of this name has a value that matches a pattern; `true`: there is one.
        /// Case matters; quotes belong to the value.
        cookie: Option<Vec<(String, At<Vec<Pattern>>)>> = Named(Values).optional("");
        /// The client's address is this, or in this network: `"192.0.2.7"`, `"10.0.0.0/8"`,
        /// `"2001:db8::/32"`. IPv4 written as IPv6 counts as IPv4. Behind a proxy this is the forwarded
        /// address if the proxy is `trusted`, else the proxy's.
        client: Option<Vec<At<IpNet>>> = any_of(NETWORK).optional("");
        /// The path's last segment ends in this extension, `"cgi"`: what follows its last dot. Case is
        /// ignored; `/.profile` has none.
        extension: Option<Vec<At<Box<str>>>> = any_of(EXTENSION).optional("");
        /// A regular expression is found in the normalised path; anchor it by `^` and `$`. The syntax is
        /// that of Rust's [regex](https://docs.rs/regex/latest/regex/#syntax); time is linear in the path,
        /// so there is neither look-around nor back-reference. At most 1024 bytes, and 256 KiB of states.
        path_regex: Option<Vec<At<PathRegex>>> = any_of(REGEX).optional("");
        /// `query.NAME`: a parameter of the query of this name has a value that matches a pattern; `true`:
        /// there is one. Name and value are decoded once (`%XX`, `+`) before. Of several one is enough.
        query: Option<Vec<(String, At<Vec<Pattern>>)>> = Named(Values).optional("");
        /// The body's media type, without parameters, matches a pattern, `"image/*"`. Case is ignored.
        content_type: Option<Vec<At<Pattern>>> = any_of(MEDIA_TYPE).optional("");
        /// The body's length by `Content-Length` is in a range, both ends included: `"1MiB.."`,
        /// `"..64KiB"`, `"1KiB..1MiB"`. A body of unknown length is in none.
        content_length: Option<Vec<At<Span>>> = any_of(SIZES).optional("");
        /// `true`: the client prefetches, by `Sec-Purpose`, `Purpose` or `X-Moz`.
        prefetch: Option<bool> = Flag.optional("");
        /// The urgency in `Priority` (RFC 9218) is this: `0` (most urgent) to `7`, `"0..2"`. Requests
        /// without it have 3. The client may claim any: use it to put requests lower, or among the requests
        /// of one client.
        urgency: Option<Vec<At<Span>>> = any_of(URGENCY).optional("");
        /// The client connected to this listener, by its `name` or `address`.
        listener: Option<Vec<At<String>>> = any_of(TEXT).optional("");
        /// The client connected to this address or network (by the socket, or the PROXY header of a trusted
        /// peer): sites on several addresses.
        destination: Option<Vec<At<IpNet>>> = any_of(NETWORK).optional("");
        /// The client asked for this server name in its TLS handshake; as `host`.
        sni: Option<Vec<At<HostPattern>>> = any_of(HOST).optional("");
        /// The client's name is this or below it: `"unl.edu"` is `unl.edu` and `cse.unl.edu`, not
        /// `notunl.edu`. The name is that of forward-confirmed reverse DNS; while it is not known, nothing
        /// matches.
        domain: Option<Vec<At<HostPattern>>> = any_of(DOMAIN).optional("");
        /// The client's address belongs to this country (`"DE"`), by the database of `[geo]`.
        country: Option<Vec<At<Span>>> = any_of(COUNTRY).optional("");
        /// The client's address belongs to this autonomous system (`64500`, `"64500..64510"`), by the
        /// database of `[geo]`.
        asn: Option<Vec<At<Span>>> = any_of(ASN).optional("");
        /// The name in the client's verified certificate matches a pattern; `true`: there is one.
        certificate: Option<Vec<Pattern>> = Values.optional("");
        /// The subject of a verified token or key matches a pattern; `true`: there is one. A claim without
        /// proof is no subject.
        subject: Option<Vec<Pattern>> = Values.optional("");
        /// The code point of the client's packets is this, 0 to 63: `46`, `"8..15"`; taken from the SYN of
        /// its connection.
        dscp: Option<Vec<At<Span>>> = any_of(DSCP).optional("");
        /// How much it matters that the request's connection is kept under overload, 0 least to 255 most.
        importance: Option<u8> = whole(0..=255).optional("none: it is shed first");
        /// Its level of service, 0 for none; for stages that degrade.
        level: Option<u8> = whole(0..=255).optional("none");
        /// The resource that it uses most, a name of your choice; at most 64 of them.
        resource: Option<String> = Name.optional("none");
        /// Its score, instead of that of the tables of `[score]`.
        score: Option<Points> = PointsNumber.optional("the tables'");
        /// What fairness inside its class is counted by.
        flow: Option<Flow> = FLOW.optional("the class's");
        /// It belongs to this class. Must be given unless the rule says anything else.
        class: Option<String> = TEXT.optional("the default class");
        /// `true`: it is always refused, whatever the load; counted in `class`, if given.
        refuse: Option<bool> = Flag.optional("`false`");
        /// Longest time that it waits, instead of its class's `deadline`; needs `class`.
        deadline: Option<Duration> = TIME.optional("the class's");
        /// The policer that it is subject to: its name, or `{ rate = "60/s", burst = 10 }`; beyond it 429.
        police: Option<At<Police>> = PoliceKind.placed().optional("none");
        /// How many slots it takes, for requests that occupy several of the origin's workers. When it is
        /// next, it keeps the free ones until there are enough; one that takes more than there are runs
        /// alone.
        slots: Option<u16> = whole(1..=SLOTS_MAX).optional("`1`");
        /// Header in which a `trusted` peer says how many milliseconds the request may still wait: one whole
        /// number of at most nine digits. It only shortens the rule's or class's deadline. From any other
        /// peer, or written otherwise, it is ignored.
        deadline_header: Option<String> = HEADER.optional("none");
    }
}

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
