//! `[[rule]]`: which requests belong to which class, and what else becomes of them.

use super::class::Classes;
use super::conditions::conditions;
use super::kind::{Kind, Named};
use super::listener::Listener;
use super::place::{At, Place};
use super::policer::{Police, PoliceKind, Policers};
use super::rule_values::{
    ASN, COUNTRY, DOMAIN, DSCP, EXTENSION, FLOW, HOST, MEDIA_TYPE, METHOD, PATH, REGEX, SIZES,
    URGENCY, Values, any_of,
};
use super::section::section;
use super::values::{Flag, HEADER, NETWORK, Name, PointsNumber, TEXT, TIME, check_unique, whole};
use ipnet::IpNet;
use std::time::Duration;
use tiergate_core::class::ClassId;
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::pattern::{HostPattern, Pattern};
use tiergate_core::classify::rule::Rule;
use tiergate_core::classify::score::{Points, Score, ScoreTables};
use tiergate_core::classify::{Classifier, CompileError, PathRegex, Span};
use tiergate_core::names::RuleIdentities;

/// Most resources that rules name: each will have a sensor and a controller.
const RESOURCES_MAX: usize = 64;
/// Most slots of one request: as many as any origin of which a policy knows the number has.
const SLOTS_MAX: u64 = 10_000;

section! {
    /// All conditions given must hold; of a list, one is enough.
    #[derive(Clone, Debug)]
    pub(super) struct RuleKeys {
        /// Its name in logs, metrics and explanations, no number; each has another. A reload knows a rule
        /// again by it, or else by its conditions.
        name: Option<String> = Name.optional("its number, from 1");
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

/// A rule of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// The line that it begins on, from 1.
    pub line: usize,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What it says.
    pub rule: Rule,
}

impl PolicyRule {
    /// What people call it: its number from 1, `index` being its place, and its name if it has one.
    pub fn label(&self, index: usize) -> String {
        match &self.name {
            Some(name) => format!("{} {name}", index + 1),
            None => (index + 1).to_string(),
        }
    }
}

/// What rules refer to.
pub(super) struct References<'p, 'n> {
    pub(super) classes: &'p Classes,
    pub(super) listeners: &'p [Listener],
    /// Resources, in the order in which rules first name them.
    pub(super) resources: &'p mut Vec<String>,
    pub(super) policers: &'p mut Policers<'n>,
}

/// The rules in order, each with its place; and what each is known by.
pub(super) fn rules(
    raw: Option<Vec<At<RuleKeys>>>,
    references: &mut References<'_, '_>,
) -> (Vec<(PolicyRule, Place)>, Vec<Box<str>>) {
    let mut names: Vec<String> = Vec::new();
    let mut keys = RuleIdentities::default();
    let resolved = |(index, At { value: mut raw, place }): (usize, At<RuleKeys>)| {
        let (police, name) = (raw.police.take(), raw.name.take());
        if let Some(name) = &name {
            let place = place.key("name");
            check_unique("rule", name, names.iter().map(String::as_str), &place);
            if name.bytes().all(|byte| byte.is_ascii_digit()) {
                place.fault(format!("must not be a number, got {name:?}"));
            }
            names.push(name.clone());
        }
        let mut rule = rule(raw, &place, references);
        let key = keys.next(name.as_deref(), &format!("{:?}", rule.conditions));
        let own = match &name {
            Some(name) => format!("rule.{name}"),
            None => format!("rule.{}", index + 1),
        };
        // The number of a rule changes with the rules above it.
        let own_key = name.is_none().then(|| format!("rule.{key}").into());
        rule.policer = police.and_then(|police| references.policers.find(police, &own, own_key));
        ((PolicyRule { line: place.line(), name, rule }, place), key)
    };
    raw.into_iter().flatten().enumerate().map(resolved).unzip()
}

fn rule(raw: RuleKeys, place: &Place, references: &mut References<'_, '_>) -> Rule {
    let refuse = raw.refuse == Some(true);
    if refuse {
        let useless = ["police", "deadline", "slots", "deadline_header"];
        for key in useless.into_iter().filter(|key| place.has(key)) {
            place.fault_at(key, "has no effect on requests that are refused; leave it out");
        }
    } else if raw.deadline.is_some() && !place.has("class") {
        place.fault_at("deadline", "needs `class`, because both come from one rule");
    }
    const OUTPUTS: [&str; 9] = [
        "class",
        "police",
        "importance",
        "level",
        "score",
        "flow",
        "resource",
        "slots",
        "deadline_header",
    ];
    // What is wrong with `refuse` itself has been reported.
    let refused = refuse || place.has("refuse") && raw.refuse.is_none();
    if !refused && !OUTPUTS.iter().any(|key| place.has(key)) {
        place.missing("class", "write class = \"…\", or refuse = true");
    }
    let class = raw.class.as_ref();
    Rule {
        conditions: conditions(&raw, place, references.listeners),
        importance: raw.importance,
        level: raw.level,
        score: raw.score.map(Score::of),
        class: class.and_then(|name| references.classes.named(name, &place.key("class"))),
        resource: raw.resource.and_then(|name| resource(name, place, references.resources)),
        flow: raw.flow,
        deadline: raw.deadline,
        refuse,
        slots: raw.slots,
        deadline_header: raw.deadline_header.map(|name| name.to_ascii_lowercase().into()),
        ..Rule::default()
    }
}

/// The place of a resource by its name, which is added if it is new.
fn resource(name: String, rule: &Place, known: &mut Vec<String>) -> Option<u16> {
    let index = known.iter().position(|known| *known == name).unwrap_or_else(|| {
        known.push(name);
        known.len() - 1
    });
    if index >= RESOURCES_MAX {
        let message = format!("all rules together may name at most {RESOURCES_MAX} resources");
        rule.fault_at("resource", message);
        return None;
    }
    Some(index as u16)
}

/// Compiles the rules; `None` if they exceed a bound. `flow`: what fairness is counted by, where neither
/// rule nor class says it.
pub(super) fn compile(
    rules: &[(PolicyRule, Place)],
    default_class: ClassId,
    score: Option<&ScoreTables>,
    flow: Flow,
    classes: &Classes,
) -> Option<Classifier> {
    let plain: Vec<Rule> = rules.iter().map(|(rule, _)| rule.rule.clone()).collect();
    match Classifier::compile(&plain, default_class) {
        Ok(classifier) => {
            let classifier = classifier.with_flows(flow, by_id(classes));
            Some(match score {
                Some(tables) => classifier.with_score(tables),
                None => classifier,
            })
        }
        Err(fault) => {
            let index = match fault {
                CompileError::TooManyRules => Classifier::RULES_MAX,
                CompileError::TooManyConditions(index)
                | CompileError::TooManyAlternatives(index)
                | CompileError::NoAlternative(index) => index,
                CompileError::ExpressionsTooLarge => 0,
            };
            rules[index].1.fault(fault.to_string());
            None
        }
    }
}

/// What fairness is counted by in each class, by id.
fn by_id(classes: &Classes) -> Vec<Option<Flow>> {
    let mut flows = vec![];
    for (id, flow) in classes.ids.iter().zip(&classes.flows) {
        flows.resize(flows.len().max(id.index() + 1), None);
        flows[id.index()] = flow.clone();
    }
    flows
}
