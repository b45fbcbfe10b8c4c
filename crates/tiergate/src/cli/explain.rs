//! `tiergate explain`: what a given request would get, and why.

mod asked;
mod question;

use super::{outputs, words};
use crate::config::meant::Policy;
use crate::config::{class, load, route, scheduling, show};
use crate::request::decide::may_be_forwarded;
use crate::visible;
use asked::{Asked, Believed};
pub use question::{Known, Question};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use tiergate_core::adapt::Adaptation;
use tiergate_core::classify::path::{Buffers, Paths, normalise};
use tiergate_core::classify::{Condition, Match, Output, Scratch, Span};
use tiergate_core::names::{AdaptationId, ResourceId, Route};
use tiergate_core::plan::Plan;
use tiergate_core::request::{Part, RequestView, Value};
use tiergate_wire::http1::FieldTable;

/// Most earlier rules that are shown because all but one of their conditions hold.
const NEAR_MAX: usize = 5;

/// What is said of a target that is none over HTTP/2 and HTTP/3.
const MALFORMED: &str =
    "Its stream is reset before any rule: HTTP/2 and HTTP/3 have no target with such a character\n";

/// Reads a policy file and says what a request gets by it. The program ends with 0 then, and with 1 on
/// an error.
///
/// # Errors
/// When the file cannot be read or has faults, or the question is none.
pub fn explain_file(path: &Path, question: &Question) -> anyhow::Result<String> {
    let policy = load(path)?;
    let answer = explain(&policy, &path.to_string_lossy(), question).map_err(anyhow::Error::msg)?;
    // What the policy compares a request with may be a secret.
    Ok(policy.redaction.redacted(&answer).into_owned())
}

/// Says which class and rule a request gets, and why.
///
/// # Errors
/// When the question cannot be read as a request; the message says what is expected.
pub fn explain(policy: &Policy, file: &str, question: &Question) -> Result<String, String> {
    let asked = Asked::of(question)?;
    let peer = question.client.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let known = &question.known;
    let listener = policy.listener_called(known.listener.as_deref().unwrap_or_default())?;
    let client_name = known.client_name.as_deref().unwrap_or_default().to_ascii_lowercase();
    if asked.is_malformed {
        let line = visible::line(&asked.line);
        return Ok(format!("{line} from {peer}\n\n{MALFORMED}"));
    }
    let (mut table, mut buffers) = (FieldTable::new(), Buffers::default());
    let head = match asked.head(&policy.limits, &mut table) {
        Ok(head) => head,
        Err(fault) => return Ok(refused(&asked, peer, (fault.status, fault.why))),
    };
    if let Err(wrong) = may_be_forwarded(&policy.limits, &head) {
        return Ok(refused(&asked, peer, wrong));
    }
    let paths = match normalise(head.path, policy.paths, &mut buffers) {
        Ok(paths) => paths,
        Err(unclear) => {
            let why = format!("{} (forwarding.path)", unclear.ambiguity);
            return Ok(refused(&asked, peer, (400, &why)));
        }
    };
    let believed = asked.believed(&table, peer, &policy.trusted);
    let client = believed.client;
    #[allow(clippy::needless_update, reason = "a new part need not be told here at once")]
    let view = RequestView {
        method: head.method,
        host: head.host_name(),
        path: paths.judged,
        query: head.query,
        fields: &believed.fields,
        client,
        listener,
        local: known.destination.unwrap_or(policy.listeners[usize::from(listener)].address.ip()),
        sni: text_of(&known.sni),
        client_name: client_name.as_bytes(),
        country: known.country.unwrap_or_default(),
        asn: known.asn.unwrap_or_default(),
        certificate: text_of(&known.certificate),
        subject: text_of(&known.subject),
        // The packets are the peer's.
        dscp: known.dscp.filter(|_| client == peer).unwrap_or(RequestView::DSCP_UNKNOWN),
        ..RequestView::EMPTY
    };
    let found = policy.classifier.classify(&view, &mut Scratch::default());
    let mut text = shown(&view, head.path, &paths);
    if asked.had_fragment {
        text += "  `#` and what is behind it are left out over HTTP/2 and HTTP/3\n";
    }
    text += &by_trust(&believed, peer);
    if let (true, Some(whole)) = (policy.is_all_observed, &policy.observed) {
        let pool = pool(&policy.plan, &found).map(|words| format!("; {words}"));
        text += &format!(
            "\nIn force every request is let through at once{}\n",
            pool.unwrap_or_default()
        );
        text += "\nWhat is observed (mode = \"observe\"):\n";
        let found = whole.classifier.classify(&view, &mut Scratch::default());
        text += &decision(whole, file, &view, &found);
        text += &near(whole, file, &view, &found);
        text += &outputs::by_part(whole, &view);
        return Ok(text);
    }
    let in_force = decision(policy, file, &view, &found);
    text += &in_force;
    text += &near(policy, file, &view, &found);
    text += &outputs::by_part(policy, &view);
    if let Some(whole) = &policy.observed {
        let found = whole.classifier.classify(&view, &mut Scratch::default());
        let observed = decision(whole, file, &view, &found);
        text += match observed == in_force {
            true => "\nThat is in force; with what is observed the decision is the same\n",
            false => "\nThat is in force; with what is observed (mode = \"observe\"):\n",
        };
        if observed != in_force {
            text += &observed;
        }
    }
    Ok(text)
}

/// Which rule decides, what becomes of the request, and what else rules say of it.
fn decision(policy: &Policy, file: &str, view: &RequestView<'_>, found: &Match) -> String {
    let mut text = decided(policy, file, view, found);
    text += &consequence(policy, found);
    if policy.plan.is_in_tree(view.path) {
        text += "\nIt is answered 404 all the same: the path is below a tree of an adaptation, which is reached by levels only\n";
    }
    text += &outputs::further(policy, file, view, found);
    text + &crate::kernel::explain_words(policy, view, found)
}

fn text_of(given: &Option<String>) -> &[u8] {
    given.as_deref().unwrap_or_default().as_bytes()
}

/// A request that is refused before any rule sees it.
fn refused(asked: &Asked, client: IpAddr, (status, why): (u16, &str)) -> String {
    let line = visible::line(&asked.line);
    format!("{line} from {client}\n\nIt is refused with {status} before any rule: {why}\n")
}

/// What a request has, for a line.
fn readable(bytes: &[u8]) -> String {
    visible::line(&String::from_utf8_lossy(bytes)).into_owned()
}

fn shown(view: &RequestView<'_>, raw_path: &[u8], paths: &Paths<'_>) -> String {
    let [method, path, raw_path] = [view.method, view.path, raw_path].map(readable);
    let mut text = format!("{method} {path} from {}", view.client);
    if !view.host.is_empty() {
        text += &format!(", host {}", readable(view.host));
    }
    if path != raw_path {
        text += &format!("\n  the path was written {raw_path}");
    }
    let sent = paths.sent.map_or(raw_path, readable);
    if path != sent {
        text += &format!("\n  the origin gets it as {sent}");
    }
    text + "\n"
}

/// What of a request counts for what it is only because its peer is trusted, or does not because it is not.
fn by_trust(believed: &Believed<'_>, peer: IpAddr) -> String {
    let mut text = String::new();
    if believed.client != peer {
        text += &format!("  {peer} is trusted, and names this client\n");
    }
    if !believed.hidden.is_empty() {
        let names: Vec<_> = believed.hidden.iter().map(|it| String::from_utf8_lossy(it)).collect();
        let names = names.join(", ");
        text += &format!("  rules do not see {names}: {peer} is not `trusted`\n");
    }
    text
}

fn decided(policy: &Policy, file: &str, view: &RequestView<'_>, found: &Match) -> String {
    let Some(index) = found.rule else {
        let rules = policy.rules.len();
        let by = match &policy.score {
            Some(tables) if tables.bands.iter().any(|(from, _)| found.score >= *from) => {
                format!("its score of {} gives the class", found.score)
            }
            _ => "the default class takes it".to_owned(),
        };
        return format!("\nNo rule matches (of {rules}): {by}\n");
    };
    let rule = &policy.rules[index as usize];
    let mut text = format!(
        "\nRule {} ({}:{}) decides: {} → {}\n",
        rule.label(),
        rule.file.as_deref().unwrap_or(file),
        rule.line,
        words::conditions(&rule.rule, policy),
        words::action(&rule.rule, policy)
    );
    for condition in &rule.rule.conditions {
        text += &format!(
            "  yes  {}: {}\n",
            words::condition(condition, policy),
            fact(condition, view, policy)
        );
    }
    text
}

fn consequence(policy: &Policy, found: &Match) -> String {
    let name = words::class_name(policy, found.class);
    if found.refuse {
        let denial = found.rule.and_then(|rule| policy.rules[rule as usize].denial.as_deref());
        let how = denial.map_or(String::new(), |it| format!(", {}", it.words()));
        return format!("\nIt is refused, whatever the load, and counted in class {name}{how}\n");
    }
    let class = policy.plan.class(found.class).expect("the plan has those of its rules");
    let mut class = class.clone();
    class.deadline = found.deadline.unwrap_or(class.deadline);
    let classes = policy.plan.classes.len();
    let because = match found.deadline {
        Some(deadline) => {
            format!("\n  the rule says {} instead of the class's deadline", show::time(deadline))
        }
        None => String::new(),
    };
    let served: String = served(policy, found).iter().map(|line| format!("\n  {line}")).collect();
    let shed = match (policy.plan.shedding, found.importance) {
        (None, _) => String::new(),
        (Some(_), None) => {
            "\n  under overload it goes first, unless its connection was important before"
                .to_owned()
        }
        (Some(_), Some(importance)) => {
            let when = policy.session.as_ref().map_or("", |_| " in a running session");
            format!("\n  under overload its connection is kept by importance {importance}{when}")
        }
    };
    format!(
        "\nClass {name}, {} of {classes} in importance: {}{because}{served}{shed}\n",
        policy.plan.rank(found.class).map_or(0, |rank| rank + 1),
        class::words(&class, &policy.plan)
    )
}

/// How it is served beside its class, a line each.
fn served(policy: &Policy, found: &Match) -> Vec<String> {
    let mut lines = scheduling::request_words(&policy.plan, found);
    lines.extend(pool(&policy.plan, found));
    lines.extend(resource(&policy.plan, found));
    lines.extend(adaptation(&policy.plan, found));
    lines.extend(found.stored.map(|age| match age.is_zero() {
        true => "no copy of an answer is served: a rule says so".to_owned(),
        false => format!(
            "under overload a copy of an earlier answer may be served, at most {} old: a rule says so",
            show::time(age)
        ),
    }));
    if let Some(header) = policy.deadline_header(found) {
        let class = policy.plan.class(found.class).expect("the plan has those of its rules");
        let most = show::time(found.deadline.unwrap_or(class.deadline));
        lines.push(match policy.trusted.is_empty() {
            true => format!("{header} is ignored: no peer is trusted"),
            false => format!("a trusted peer's {header} says how long it waits, at most {most}"),
        });
    }
    lines
}

/// The pool that takes it, where there are several.
fn pool(plan: &Plan, found: &Match) -> Option<String> {
    let id = plan.pool_of(found);
    let name = plan.pool_name(id).filter(|_| !plan.pools.is_empty())?;
    let why = match found.pool {
        Some(_) => "a rule says so",
        None if plan.route_of(found) == Route::default() => {
            "neither a rule nor its class names one"
        }
        None => "its class says so",
    };
    let fallback = plan.pool(id).and_then(|pool| plan.pool_name(pool.fallback?));
    let fallback = fallback
        .map_or(String::new(), |to| format!("; while no server of it is usable, {to} takes it"));
    if let split @ Route::Split(_) = plan.route_of(found) {
        // Which one depends on the secret that the gateway hashes flows with.
        let weights = route::words(split, plan);
        return Some(format!("it goes to one of the pools {weights}, by its flow: {why}"));
    }
    Some(format!("it goes to pool {name}: {why}{fallback}"))
}

/// What it needs beside a slot.
fn resource(plan: &Plan, found: &Match) -> Option<String> {
    if found.resource == Some(ResourceId::NONE) && plan.class(found.class)?.resource.is_some() {
        return Some("it needs no resource: a rule says so".to_owned());
    }
    let id = plan.resource_of(found)?;
    let settings = plan.resource(id)?;
    let who = if found.resource.is_some() { "a rule" } else { "its class" };
    let name = &settings.name;
    if plan.pools_of(plan.route_of(found)).all(|pool| pool != settings.pool) {
        let pool = plan.pool_name(settings.pool).unwrap_or_default();
        return Some(format!(
            "{who} says that it needs {name}, which is of pool {pool}: no effect"
        ));
    }
    Some(format!("it needs a slot of {name}, too: {who} says so"))
}

/// What decides the quality of its answer.
fn adaptation(plan: &Plan, found: &Match) -> Option<String> {
    if found.adaptation == Some(AdaptationId::NONE) {
        plan.class(found.class)?.adaptation?;
        return Some("its answer is of full quality: a rule says so".to_owned());
    }
    let settings = plan.adaptation(plan.adaptation_of(found)?)?;
    let who = if found.adaptation.is_some() { "a rule" } else { "its class" };
    let Adaptation { name, levels, .. } = settings;
    if !settings.acts {
        return Some(format!("its answer is of full quality: {name} is only observed"));
    }
    let site = plan.class(found.class).map(|class| plan.site_of(class));
    let share = site.zip(settings.costs).and_then(|(site, costs)| {
        let id = plan.class(found.class)?.site;
        let share = costs.share(&site.guarantee.filter(|_| settings.sites.contains(&id))?);
        Some(format!("; site {} is guaranteed {} of it", site.name, show::share(share)))
    });
    Some(format!(
        "the quality of its answer, one of {}, is decided by {name}: {who} says so{}",
        levels.len(),
        share.unwrap_or_default()
    ))
}

/// Earlier rules of which all conditions but one hold.
fn near(policy: &Policy, file: &str, view: &RequestView<'_>, found: &Match) -> String {
    let before = found.rule.map_or(policy.rules.len(), |rule| rule as usize);
    let near = policy.rules[..before].iter().filter_map(|rule| {
        let mut failing = rule.rule.conditions.iter().filter(|one| !one.holds(view));
        let failing = failing.next().filter(|_| failing.next().is_none())?;
        let decides = rule.rule.sets(Output::Verdict) && rule.rule.conditions.len() > 1;
        decides.then(|| {
            format!(
                "  rule {} ({}:{}) → {}\n    no   {}: {}\n",
                rule.label(),
                rule.file.as_deref().unwrap_or(file),
                rule.line,
                words::action(&rule.rule, policy),
                words::condition(failing, policy),
                fact(failing, view, policy)
            )
        })
    });
    outputs::titled("Earlier rules that nearly match", near.take(NEAR_MAX).collect())
}

/// What the request has where a condition looks.
fn fact(condition: &Condition, view: &RequestView<'_>, policy: &Policy) -> String {
    let part = condition.part();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let shown = |value: Value<'_>| match value {
        Value::Text(value) if matches!(part, Part::Header(_)) => format!("{:?}", text(value)),
        Value::Text(value) => readable(value),
        Value::Address(address) => address.to_string(),
        Value::Number(number) => words::number(part, Span::one(number), policy),
    };
    match part {
        // The whole, so that a wrong name is seen.
        Part::Query(_) if view.query.is_empty() => "there is no query".to_owned(),
        Part::Query(_) => format!("the query is {}", readable(view.query)),
        Part::Cookie(_) => {
            let cookies: Vec<String> = view.values(b"cookie").map(text).collect();
            match cookies.is_empty() {
                true => "there are no cookies".to_owned(),
                false => format!("the Cookie header is {:?}", cookies.join("; ")),
            }
        }
        Part::Extension => format!("the path is {}", readable(view.path)),
        Part::Prefetch => match condition.holds(view) {
            true => "the client says so".to_owned(),
            false => "neither Sec-Purpose, Purpose nor X-Moz says so".to_owned(),
        },
        part => {
            let mut values = Vec::new();
            part.each(view, |value| values.push(shown(value)));
            match values.is_empty() {
                true => "there is none, or it is not known".to_owned(),
                false => format!("it is {}", values.join(" and ")),
            }
        }
    }
}

#[cfg(test)]
mod tests;
