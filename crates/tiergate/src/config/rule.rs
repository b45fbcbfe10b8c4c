//! `[[rule]]` as written: conditions, and what becomes of requests that match.

use super::denial::{Refuse, RefuseKind};
use super::error::{instead, shortened};
use super::header_name::TRUSTED_HEADER;
use super::kind::Named;
use super::listener::Listener;
use super::mode::{MODE, Mode};
use super::place::{At, Place};
use super::policer::{Police, PoliceKind};
use super::resource::NameOrFalse;
use super::route::{To, ToKind};
use super::rule_values::{
    ASN, COUNTRY, DOMAIN, DSCP, EXTENSION, FLOW, HOST, MEDIA_TYPE, METHOD, PATH, REGEX, SIZES,
    URGENCY, Values, any_of,
};
use super::section::{Kind, section};
use super::stored::StoredOrFalse;
use super::values::{FLAG, NETWORK, Name, POINTS, TEXT, TIME, is_token, whole};
use ipnet::IpNet;
use std::time::Duration;
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::pattern::{HostPattern, Pattern};
use tiergate_core::classify::score::Points;
use tiergate_core::classify::{Condition, Matcher, PathRegex, Span};
use tiergate_core::request::Part;

/// Most slots of one request: as many as any origin of which a policy knows the number has.
const SLOTS_MAX: u64 = 10_000;

section! {
    /// All conditions given must hold; of a list, one is enough.
    pub(super) struct RuleKeys {
        /// Its name in logs, metrics and `explain`; unique, and not a number. A reload recognises a rule by
        /// its name, or else by its conditions.
        name: Option<String> = Name.optional("its number, from 1");
        /// Whether it is in force, `"enforce"`; or only [observed](#mode-parts-of-a-policy-that-are-observed), `"observe"`: in force there is no such rule, and the next that matches decides.
        mode: Mode = MODE.or("enforce");
        /// The path matches a pattern, below; without the query, normalised. `*` is anything but `/` (at the
        /// end: anything), `**` anything, `?` one character.
        path: Option<Vec<Pattern>> = any_of(PATH).plain().optional("");
        /// The host of the request (from its target or `Host` header, without port) is `"example.com"`, or a
        /// subdomain: `"*.example.com"` (at any depth, but not `example.com` itself). Case and a trailing dot
        /// are ignored.
        host: Option<Vec<HostPattern>> = any_of(HOST).plain().optional("");
        /// The method. Case-sensitive, as in HTTP.
        method: Option<Vec<Matcher>> = any_of(METHOD).plain().optional("");
        /// `header.NAME`: a header field of this name has a value that matches a pattern; `true`: it is
        /// present. Names are case-insensitive, values case-sensitive. If the field occurs several times, one
        /// match is enough; a value is not split at commas. Fields that only `trusted` peers may send to the
        /// origin (`X-Forwarded-…`, `Forwarded`, `X-Real-IP`, `X-Tiergate-…`, `Tiergate-Level`) are hidden from rules if
        /// another peer sends them.
        header: Vec<(String, At<Vec<Pattern>>)> = Named(Values).or_none("");
        /// `cookie.NAME`: a cookie of this name has a value that matches a pattern; `true`: it is present.
        /// Case-sensitive; quotes are part of the value.
        cookie: Vec<(String, At<Vec<Pattern>>)> = Named(Values).or_none("");
        /// The client's address is this one, or in this network: `"192.0.2.7"`, `"10.0.0.0/8"`,
        /// `"2001:db8::/32"`. An IPv4-mapped IPv6 address counts as IPv4. Behind a proxy this is the
        /// forwarded address if the proxy is `trusted`, else the proxy's.
        client: Option<Vec<IpNet>> = any_of(NETWORK).plain().optional("");
        /// The last segment of the path has this extension (what follows its last dot): `"cgi"`.
        /// Case-insensitive; `/.profile` has none.
        extension: Option<Vec<Matcher>> = any_of(EXTENSION).plain().optional("");
        /// A regular expression matches somewhere in the normalised path; anchor it with `^` and `$`. The
        /// syntax is that of Rust's [regex](https://docs.rs/regex/latest/regex/#syntax), over bytes: `.` is any byte but a line
        /// feed, `\w`, `\d`, `\s` and `(?i)` are those of ASCII, and `(?u)` has what follows match characters. Matching takes time
        /// linear in the path, so there are no look-arounds and no back-references. At most 1024 bytes, and
        /// 256 KiB when compiled.
        path_regex: Option<Vec<PathRegex>> = any_of(REGEX).plain().optional("");
        /// `query.NAME`: a query parameter of this name has a value that matches a pattern; `true`: it is
        /// present. Names and values are decoded once (`%XX`, `+`). Of several, one match is enough.
        query: Vec<(String, At<Vec<Pattern>>)> = Named(Values).or_none("");
        /// The body's media type, without parameters, matches a pattern, `"image/*"`. Case-insensitive.
        content_type: Option<Vec<Pattern>> = any_of(MEDIA_TYPE).plain().optional("");
        /// `Content-Length` is in a range, inclusive: `"1MiB.."`, `"..64KiB"`, `"1KiB..1MiB"`. A body of
        /// unknown length matches no range.
        content_length: Option<Vec<Span>> = any_of(SIZES).plain().optional("");
        /// `true`: the request is a prefetch, according to its `Sec-Purpose`, `Purpose` or `X-Moz` header.
        prefetch: Option<bool> = FLAG.optional("");
        /// The urgency in the `Priority` header (RFC 9218): `0` (most urgent) to `7`, or a range, `"0..2"`; 3
        /// without the header. Clients may claim any urgency: use it to lower requests, or among the requests
        /// of one client.
        urgency: Option<Vec<Span>> = any_of(URGENCY).plain().optional("");
        /// The client connected to this listener, by its `name` or `address`.
        listener: Option<Vec<At<String>>> = any_of(TEXT).optional("");
        /// The client connected to this address or network (according to the socket, or to the PROXY header
        /// of a trusted peer); for sites that have addresses of their own.
        destination: Option<Vec<IpNet>> = any_of(NETWORK).plain().optional("");
        /// The server name in the client's TLS handshake; patterns as for `host`.
        sni: Option<Vec<HostPattern>> = any_of(HOST).plain().optional("");
        /// The client's host name is this or below it: `"unl.edu"` matches `unl.edu` and `cse.unl.edu`, not
        /// `notunl.edu`. The name comes from [forward-confirmed reverse
        /// DNS](#reverse_dns-clients-names-by-reverse-dns); while it is not known, nothing matches.
        domain: Option<Vec<HostPattern>> = any_of(DOMAIN).plain().optional("");
        /// The client's address belongs to this country (`"DE"`), according to the database of `[geo]`.
        country: Option<Vec<Matcher>> = any_of(COUNTRY).plain().optional("");
        /// The client's address belongs to this autonomous system (`64500`, `"64500..64510"`), according to
        /// the database of `[geo]`.
        asn: Option<Vec<Span>> = any_of(ASN).plain().optional("");
        /// The name in the client's verified certificate matches a pattern; `true`: the client has a verified
        /// certificate.
        certificate: Option<Vec<Pattern>> = Values.optional("");
        /// The subject of a verified token or key matches a pattern; `true`: the request has a verified
        /// subject.
        subject: Option<Vec<Pattern>> = Values.optional("");
        /// The DSCP of the SYN packet with which the client connected, 0 to 63: `46`, `"8..15"`.
        dscp: Option<Vec<Span>> = any_of(DSCP).plain().optional("");
        /// How important it is to keep the request's connection under overload, 0 (least) to 255: see
        /// [`[shedding]`](#shedding-which-requests-are-shed-under-overload).
        importance: Option<u8> = whole(0..=255).optional("none: it is shed first");
        /// Its score, instead of the one computed by [`[score]`](#score-a-number-by-client-and-path).
        score: Option<Points> = POINTS.optional("the tables'");
        /// The unit of fair queueing inside its class: see [flows](#flows-the-unit-of-fairness).
        flow: Option<Flow> = FLOW.optional("the class's");
        /// The class of the request. Required unless the rule sets something else.
        class: Option<String> = TEXT.optional("the default class");
        /// The request is always refused, whatever the load; counted in `class`, if set. `true`: with 403; or a status (403, 404, 410, 451, 429, 503), or a table:
        /// see [refused by a rule](#refused-by-a-rule).
        refuse: Option<Refuse> = RefuseKind.optional("`false`");
        /// Longest time that it waits, instead of its class's `deadline`; needs `class`.
        deadline: Option<Duration> = TIME.optional("the class's");
        /// The policer that it is subject to: its name, or `{ rate = "60/s", burst = 10 }`; beyond it 429. `false`: no policer of a
        /// later rule; its class's is beside it.
        police: Option<At<Police>> = PoliceKind.placed().optional("none");
        /// The pool that takes it, instead of its class's; `"default"`: that of `[origin]`. Or several with weights,
        /// `{ stable = 95, canary = 5 }`: see [pools by weight](#pools-by-weight).
        pool: Option<To> = ToKind.optional("the class's");
        /// The [resource](#resource-what-only-some-requests-need) that it needs beside a slot of its pool, instead of its class's;
        /// `false`: none.
        resource: Option<Option<String>> =
            NameOrFalse("the name of a resource, or false").optional("the class's");
        /// The [adaptation](#adaptation-worse-answers-instead-of-none) that decides the quality of its answer, instead of its class's; `false`: none, the
        /// quality is full.
        adaptation: Option<Option<String>> =
            NameOrFalse("the name of an adaptation, or false").optional("the class's");
        /// While the server is overloaded, a copy of an earlier answer is served, at most so old: `{ max_age = "5m" }`; see
        /// [stored copies](#stored-copies). `false`: none, whatever later rules say.
        stored: Option<Duration> = StoredOrFalse.optional("`false`");
        /// How many slots it takes, for requests that occupy several of the origin's workers. When it is
        /// next, free slots are held for it until there are enough; a request that needs more slots than the
        /// limit runs alone.
        slots: Option<u16> = whole(1..=SLOTS_MAX).optional("`1`");
        /// Header in which a `trusted` peer states how many milliseconds the request may still wait: an
        /// integer of at most nine digits. It can only shorten the deadline of the rule or class. From other
        /// peers, or malformed, it is ignored.
        deadline_header: Option<String> = TRUSTED_HEADER.optional("none");
    }
}

/// The conditions of a rule, in the order in which they are shown; its other keys are left alone.
pub(super) fn conditions(raw: &RuleKeys, place: &Place, listeners: &[Listener]) -> Vec<Condition> {
    fn on<M: Clone + Into<Matcher>>(part: Part, any_of: &Option<Vec<M>>) -> Option<Condition> {
        any_of.as_ref().map(|any_of| Condition::new(part, any_of.iter().cloned()))
    }
    if raw.prefetch == Some(false) {
        let message = "must be true; leave it out for requests of either kind";
        place.fault_at("prefetch", message);
    }
    for (name, At { place, .. }) in &raw.header {
        if name.eq_ignore_ascii_case("host") {
            place.fault("is no header of HTTP/2 and HTTP/3, so that their requests would pass this rule by; write host = \"…\" in the rule".to_owned());
        }
    }
    let mut all = Vec::new();
    all.extend(on(Part::Client, &raw.client));
    all.extend(on(Part::ClientName, &raw.domain));
    all.extend(on(Part::Country, &raw.country));
    all.extend(on(Part::Asn, &raw.asn));
    all.extend(on(Part::Certificate, &raw.certificate));
    all.extend(on(Part::Subject, &raw.subject));
    all.extend(on(Part::Dscp, &raw.dscp));
    all.extend(on(Part::Listener, &listener_places(&raw.listener, listeners)));
    all.extend(on(Part::Destination, &raw.destination));
    all.extend(on(Part::Sni, &raw.sni));
    all.extend(on(Part::Host, &raw.host));
    all.extend(on(Part::Method, &raw.method));
    all.extend(on(Part::Path, &raw.path));
    all.extend(on(Part::Path, &raw.path_regex));
    all.extend(on(Part::Extension, &raw.extension));
    all.extend(named(&raw.query, Part::Query, None));
    all.extend(on(Part::ContentType, &raw.content_type));
    all.extend(on(Part::ContentLength, &raw.content_length));
    all.extend(on(Part::Prefetch, &raw.prefetch.map(|_| vec![Pattern::Any])));
    all.extend(on(Part::Urgency, &raw.urgency));
    all.extend(named(&raw.header, Part::Header, Some("a header")));
    all.extend(named(&raw.cookie, Part::Cookie, Some("a cookie")));
    all
}

/// What a condition looks at, in words.
pub(crate) fn noun(part: &Part) -> &'static str {
    match part {
        Part::Client => "client",
        Part::ClientName => "domain",
        Part::Country => "country",
        Part::Asn => "AS",
        Part::Certificate => "certificate",
        Part::Subject => "subject",
        Part::Dscp => "DSCP",
        Part::Listener => "listener",
        Part::Destination => "destination",
        Part::Sni => "sni",
        Part::Host => "host",
        Part::Method => "method",
        Part::Path => "path",
        Part::Extension => "extension",
        Part::Query(_) => "query",
        Part::ContentType => "content type",
        Part::ContentLength => "content length",
        Part::Prefetch => "prefetch",
        Part::Urgency => "urgency",
        Part::Header(_) => "header",
        Part::Cookie(_) => "cookie",
    }
}

/// A condition in words, such as `path /cart/* or /pay`; `alternatives`: what its part may be.
pub(crate) fn words(condition: &Condition, alternatives: &str) -> String {
    let noun = noun(condition.part());
    let value = match condition.any_of().contains(&Matcher::Pattern(Pattern::Any)) {
        true => "present".to_owned(),
        false => format!("= {alternatives}"),
    };
    match (condition.part(), condition.any_of().first()) {
        (Part::Prefetch, _) => noun.to_owned(),
        (Part::Header(name) | Part::Cookie(name) | Part::Query(name), _) => {
            format!("{noun} {name} {value}")
        }
        (Part::Certificate | Part::Subject, _) => format!("{noun} {value}"),
        (_, Some(Matcher::Regex(_))) => format!("{noun} like {alternatives}"),
        (_, Some(Matcher::Network(_))) => format!("{noun} in {alternatives}"),
        _ => format!("{noun} {alternatives}"),
    }
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

/// The conditions on parts that have names; `what`: what the names must be those of.
fn named(
    given: &[(String, At<Vec<Pattern>>)],
    part: fn(Box<str>) -> Part,
    what: Option<&str>,
) -> Vec<Condition> {
    let condition = |(name, At { value, place }): &(String, At<Vec<Pattern>>)| {
        if let Some(what) = what.filter(|_| !is_token(name)) {
            place.fault(format!("must be the name of {what}, got {:?}", shortened(name)));
        }
        Condition::new(part(name.as_str().into()), value.iter().cloned())
    };
    given.iter().map(condition).collect()
}
