//! `tiergate explain`: what a given request would get, and why.

use super::words;
use crate::config::meant::Policy;
use crate::config::{load, show};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use tiergate_core::classify::path::normalise;
use tiergate_core::classify::rule::Condition;
use tiergate_core::classify::{Match, Scratch};
use tiergate_core::request::{Field, RequestView};

/// Most earlier rules that are shown because all but one of their conditions hold.
const NEAR_MAX: usize = 5;

/// The request that is asked about, as given on the command line.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// `GET /x`, with or without a version behind it; the target may be absolute.
    pub request: String,
    /// `Name: value` each.
    pub headers: Vec<String>,
    /// The client; loopback if not given.
    pub client: Option<IpAddr>,
    /// The host; else the target's or the `Host` header's.
    pub host: Option<String>,
}

/// Reads a policy file and says what a request gets by it. The program ends with 0 then, and with 1 on
/// an error.
///
/// # Errors
/// When the file cannot be read or has faults, or the question is none.
pub fn explain_file(path: &Path, question: &Question) -> anyhow::Result<String> {
    let policy = load(path)?;
    explain(&policy, &path.to_string_lossy(), question).map_err(anyhow::Error::msg)
}

/// A request taken apart.
struct Request<'q> {
    method: &'q str,
    host: String,
    raw_path: &'q str,
    query: &'q str,
    fields: Vec<Field<'q>>,
    client: IpAddr,
}

/// Says which class and rule a request gets, and why.
///
/// # Errors
/// When the question cannot be read as a request; the message says what is expected.
pub fn explain(policy: &Policy, file: &str, question: &Question) -> Result<String, String> {
    let request = request(question)?;
    let mut out = Vec::new();
    let view = RequestView {
        method: request.method.as_bytes(),
        host: request.host.as_bytes(),
        path: normalise(request.raw_path.as_bytes(), &mut out),
        query: request.query.as_bytes(),
        fields: &request.fields,
        client: request.client,
        ..RequestView::EMPTY
    };
    let found = policy.classifier.classify(&view, &mut Scratch::default());
    let mut text = asked(&view, request.raw_path);
    text += &decided(policy, file, &view, &found);
    text += &consequence(policy, &found);
    text += &near(policy, file, &view, &found);
    Ok(text)
}

fn request(question: &Question) -> Result<Request<'_>, String> {
    let mut words = question.request.split_ascii_whitespace();
    let expected = || {
        format!(
            "the request must be a method and a target, such as 'GET /x', got {:?}",
            question.request
        )
    };
    let method = words.next().ok_or_else(expected)?;
    let target = words.next().ok_or_else(expected)?;
    let version = words.next().unwrap_or("HTTP/1.1");
    if words.next().is_some() || !version.starts_with("HTTP/") {
        return Err(expected());
    }
    let mut fields = Vec::new();
    for header in &question.headers {
        let (name, value) = header
            .split_once(':')
            .filter(|(name, _)| !name.trim().is_empty())
            .ok_or_else(|| format!("a header must be 'Name: value', got {header:?}"))?;
        fields.push(Field { name: name.trim().as_bytes(), value: value.trim().as_bytes() });
    }
    let absolute = target.strip_prefix("http://").or_else(|| target.strip_prefix("https://"));
    let (authority, local) = match absolute {
        Some(rest) => rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len())),
        None => ("", target),
    };
    let local = local.split('#').next().unwrap_or(local);
    let (raw_path, query) = local.split_once('?').unwrap_or((local, ""));
    let from_header = || {
        let host = fields.iter().find(|field| field.name.eq_ignore_ascii_case(b"host"))?;
        Some(String::from_utf8_lossy(host.value).into_owned())
    };
    let given = question.host.clone();
    let host = given.or_else(|| (!authority.is_empty()).then(|| authority.to_owned()));
    let host = without_port(&host.or_else(from_header).unwrap_or_default()).to_owned();
    let client = question.client.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    Ok(Request { method, host, raw_path, query, fields, client })
}

fn without_port(host: &str) -> &str {
    match host.rfind(':').filter(|colon| host[*colon..].find(']').is_none()) {
        Some(colon) => &host[..colon],
        None => host,
    }
}

fn asked(view: &RequestView<'_>, raw_path: &str) -> String {
    let [method, path] = [view.method, view.path].map(String::from_utf8_lossy);
    let mut text = format!("{method} {path} from {}", view.client);
    if !view.host.is_empty() {
        write!(text, ", host {}", String::from_utf8_lossy(view.host)).expect("a string takes all");
    }
    if path != raw_path {
        write!(text, "\n  the path was written {raw_path}").expect("a string takes all");
    }
    text + "\n"
}

fn decided(policy: &Policy, file: &str, view: &RequestView<'_>, found: &Match) -> String {
    let Some(index) = found.rule else {
        let rules = policy.rules.len();
        return format!("\nNo rule matches (of {rules}): the default class takes it\n");
    };
    let rule = &policy.rules[index as usize];
    let mut text = format!(
        "\nRule {} ({file}:{}) decides: {} → {}\n",
        index + 1,
        rule.line,
        words::conditions(&rule.rule),
        words::action(&rule.rule, policy)
    );
    for condition in &rule.rule.conditions {
        text += &format!("  yes  {}: {}\n", words::condition(condition), fact(condition, view));
    }
    text
}

fn consequence(policy: &Policy, found: &Match) -> String {
    let name = words::class_name(policy, found.class);
    if found.refuse {
        return format!("\nIt is refused, whatever the load, and counted in class {name}\n");
    }
    let class = &policy.plan.classes[found.class.index()];
    let mut class = class.clone();
    class.deadline = found.deadline.unwrap_or(class.deadline);
    let classes = policy.plan.classes.len();
    let because = match found.deadline {
        Some(deadline) => {
            format!("\n  the rule says {} instead of the class's deadline", show::time(deadline))
        }
        None => String::new(),
    };
    format!(
        "\nClass {name}, {} of {classes} in importance: {}{because}\n",
        found.class.index() + 1,
        words::class(&class)
    )
}

/// Earlier rules of which all conditions but one hold.
fn near(policy: &Policy, file: &str, view: &RequestView<'_>, found: &Match) -> String {
    let before = found.rule.map_or(policy.rules.len(), |rule| rule as usize);
    let mut text = String::new();
    let mut shown = 0;
    for (index, rule) in policy.rules[..before].iter().enumerate() {
        let failing: Vec<_> =
            rule.rule.conditions.iter().filter(|condition| !condition.holds(view)).collect();
        let ([failing], true) = (&failing[..], rule.rule.conditions.len() > 1) else {
            continue;
        };
        if shown == 0 {
            text += "\nEarlier rules that nearly match\n";
        }
        text += &format!(
            "  rule {} ({file}:{}) → {}\n    no   {}: {}\n",
            index + 1,
            rule.line,
            words::action(&rule.rule, policy),
            words::condition(failing),
            fact(failing, view)
        );
        shown += 1;
        if shown == NEAR_MAX {
            break;
        }
    }
    text
}

/// What the request has where a condition looks.
fn fact(condition: &Condition, view: &RequestView<'_>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let values = |name: &[u8]| -> String {
        let values: Vec<String> =
            view.values(name).map(|value| format!("{:?}", text(value))).collect();
        match values.is_empty() {
            true => "there is none".to_owned(),
            false => format!("it is {}", values.join(" and ")),
        }
    };
    match condition {
        Condition::Path(_) => format!("it is {}", text(view.path)),
        Condition::Host(_) if view.host.is_empty() => "there is none".to_owned(),
        Condition::Host(_) => format!("it is {}", text(view.host)),
        Condition::Method(_) => format!("it is {}", text(view.method)),
        Condition::Client(_) => format!("it is {}", view.client),
        Condition::Header { name, .. } => values(name.as_bytes()),
        Condition::Cookie { .. } => match values(b"cookie").as_str() {
            "there is none" => "there are no cookies".to_owned(),
            cookies => format!("the Cookie header: {cookies}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    const POLICY: &str = "[origin]
servers = [\"a:1\"]
[[class]]
name = \"checkout\"
minimum = \"10%\"
[[class]]
name = \"rest\"
[[rule]]
path = \"/cart/*\"
method = \"POST\"
class = \"checkout\"
[[rule]]
path = \"/cart/*\"
host = \"*.example.com\"
class = \"checkout\"
deadline = \"500ms\"
[[rule]]
client = \"192.0.2.0/24\"
refuse = true
";

    fn say(question: Question) -> String {
        explain(&parse(POLICY, "p.toml").unwrap(), "p.toml", &question).unwrap()
    }

    #[test]
    fn a_request_is_explained_to_the_last_condition() {
        let said = say(Question {
            request: "GET //%63art/7?x=1 HTTP/1.1".into(),
            headers: vec!["Host: Shop.example.com:8080".into()],
            ..Question::default()
        });
        assert_eq!(
            said,
            "GET /cart/7 from 127.0.0.1, host Shop.example.com
  the path was written //%63art/7

Rule 2 (p.toml:12) decides: host *.example.com and path /cart/* → checkout, waits at most 500ms
  yes  host *.example.com: it is Shop.example.com
  yes  path /cart/*: it is /cart/7

Class checkout, 1 of 2 in importance: waits at most 500ms, at most 10000 in the queue, sure of 10% of the slots
  the rule says 500ms instead of the class's deadline

Earlier rules that nearly match
  rule 1 (p.toml:8) → checkout
    no   method POST: it is GET
"
        );
    }

    #[test]
    fn refusals_and_requests_that_no_rule_matches_are_explained() {
        let request = || "GET http://[::1]:80/x".to_owned();
        let client = Some("::ffff:192.0.2.7".parse().unwrap());
        let refused = say(Question { request: request(), client, ..Question::default() });
        assert!(refused.contains("from ::ffff:192.0.2.7, host [::1]"), "{refused}");
        assert!(
            refused.contains("Rule 3 (p.toml:17) decides: client in 192.0.2.0/24"),
            "{refused}"
        );
        assert!(refused.contains("It is refused, whatever the load, and counted in class rest"));
        let unmatched = say(Question { request: request(), ..Question::default() });
        assert!(
            unmatched.contains("No rule matches (of 3): the default class takes it"),
            "{unmatched}"
        );
        assert!(
            unmatched.contains("Class rest, 2 of 2 in importance: waits at most 2s"),
            "{unmatched}"
        );
    }

    #[test]
    fn questions_that_are_no_requests_are_refused() {
        let policy = parse(POLICY, "p.toml").unwrap();
        let fault = |request: &str, header: &str| {
            let headers = vec![header.to_owned()];
            let question = Question { request: request.into(), headers, ..Question::default() };
            explain(&policy, "p.toml", &question).unwrap_err()
        };
        assert_eq!(
            fault("GET", "A: b"),
            "the request must be a method and a target, such as 'GET /x', got \"GET\""
        );
        assert_eq!(fault("GET /x", "A b"), "a header must be 'Name: value', got \"A b\"");
    }
}
