//! What `if` and `map` ask of a request, as conditions of rules: none where a rule might let pass what nginx refuses, unless that is said.

use super::super::draft::{Draft, listed, literal, quoted};
use super::expression::path_expression;
use super::grammar::Directive;
use super::names::host;
use std::net::IpAddr;

/// The condition of an `if`.
pub(super) struct Asked {
    /// Whether what has it is refused, or all else.
    pub(super) is_refused: bool,
    /// Its key, and its value as TOML.
    pub(super) condition: (String, String),
    /// What of it nginx asks otherwise.
    pub(super) less_safe: Option<&'static str>,
}

/// What rules do otherwise where one of several values is asked for.
pub(super) const SEVERAL: &str = "of several fields, cookies or parameters of one name one that matches is enough in rules, whatever their order, and names and values are compared with case: let the server before this one remove the others, or let the origin refuse";

/// A host where there is none.
const HOSTLESS: &str =
    "requests without Host (HTTP/1.0) have the server's first name in nginx, and none in rules";

/// A method in small letters.
const SMALL: &str = "nginx refuses methods in small letters, and rules compare with case: if the origin takes delete for DELETE, let it refuse";

/// The condition of an `if`, if a rule can have it; `is_guard`: what has it is refused, not only answered.
pub(super) fn asked(arguments: &[String], is_guard: bool) -> Option<Asked> {
    let (variable, operator, value) = words(arguments)?;
    if (variable, operator, value) == ("$ssl_client_verify", "!=", "SUCCESS") {
        let condition = ("certificate".to_owned(), "true".to_owned());
        return Some(Asked { is_refused: false, condition, less_safe: None });
    }
    let key = key_of(variable)?;
    let is_header = key.starts_with("header.");
    let is_named = key.contains('.');
    let condition = match operator {
        "=" | "!=" if value.is_empty() && is_named => (key, quoted(SOME)),
        "=" | "!=" => {
            let text = text_of(&key, value)?;
            (key, text)
        }
        "~" | "~*" if key == "path" => {
            let text = path_expression(value, operator == "~*")?;
            ("path_regex".to_owned(), quoted(&text))
        }
        "!~" if key == "method" => {
            let list = value.strip_prefix("^(")?.strip_suffix(")$")?;
            let names: Vec<&str> = list.split('|').collect();
            let are_names = names.iter().all(|it| is_method(it));
            are_names.then(|| (key, listed(&names)))?
        }
        _ => return None,
    };
    let is_refused = match operator {
        "=" => !value.is_empty(),
        "!=" => value.is_empty(),
        _ => operator != "!~",
    };
    // Locations replace the path of a condition by their own.
    if condition.0 == "path" && !is_refused {
        return None;
    }
    let less_safe = match condition.0.as_str() {
        // Any field that matches is refused; parameters and cookies have names without case in nginx.
        _ if is_named => (!(is_header && is_refused)).then_some(SEVERAL),
        "host" => (is_refused && is_guard).then_some(HOSTLESS),
        "method" => (is_refused && is_guard).then_some(SMALL),
        _ => None,
    };
    Some(Asked { is_refused, condition, less_safe })
}

/// A pattern of values that are not empty.
pub(super) const SOME: &str = "?*";

/// The variable, the operator and the value; a variable alone is one that is not empty.
fn words(arguments: &[String]) -> Option<(&str, &str, &str)> {
    let mut words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let first = words.first_mut()?;
    *first = first.strip_prefix('(')?;
    if first.is_empty() {
        words.remove(0);
    }
    let last = words.last_mut()?;
    *last = last.strip_suffix(')')?;
    if last.is_empty() && words.len() > 1 {
        words.pop();
    }
    match words[..] {
        [variable] => Some((variable, "!=", "")),
        [variable, operator, value] => Some((variable, operator, value)),
        _ => None,
    }
}

/// A text that a part of requests is compared with, with case, as the value of a condition; `None` if rules compare otherwise.
fn text_of(key: &str, value: &str) -> Option<String> {
    let is_same = match key {
        _ if value.is_empty() || value.contains('$') => false,
        "host" => host(value).is_some_and(|it| it == value),
        "client" => is_address(value),
        "method" => is_method(value),
        "path" => value.starts_with('/'),
        // Newer versions put several fields together with commas.
        _ => !key.starts_with("header.") || !value.contains(','),
    };
    let is_pattern = key == "path" || key.contains('.');
    is_same.then(|| quoted(&if is_pattern { literal(value) } else { value.to_owned() }))
}

/// Whether an address is written as nginx writes it.
pub(super) fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok_and(|it| it.to_string() == text)
}

/// Whether nginx takes it for a method.
pub(super) fn is_method(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_uppercase() || b"_-".contains(&it))
}

/// Header fields that are hidden from rules if peers are not trusted, or sent in several ways, or that belong to a connection.
const HIDDEN: [&str; 15] = [
    "x_forwarded",
    "forwarded",
    "x_real_ip",
    "x_tiergate",
    "tiergate",
    "host",
    "cookie",
    "connection",
    "content_length",
    "transfer_encoding",
    "trailer",
    "upgrade",
    "keep_alive",
    "expect",
    "proxy_",
];

/// The key of conditions that asks for what a variable has, if it asks as nginx does.
pub(super) fn key_of(variable: &str) -> Option<String> {
    let variable = variable.strip_prefix('$')?;
    let in_braces = variable.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
    let variable = in_braces.unwrap_or(variable);
    // Several variables, or one in a text, are none that a rule sees.
    if !variable.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_') {
        return None;
    }
    // $request_uri has the query, which no rule sees as a text, and $http_host the port.
    match variable {
        "host" => return Some("host".to_owned()),
        "uri" | "document_uri" => return Some("path".to_owned()),
        "request_method" => return Some("method".to_owned()),
        "remote_addr" => return Some("client".to_owned()),
        _ => {}
    }
    let (kind, name) = variable.split_once('_').filter(|(_, name)| !name.is_empty())?;
    match kind {
        "cookie" | "arg" => {
            let kind = if kind == "arg" { "query" } else { kind };
            Some(format!("{kind}.{}", quoted(name)))
        }
        "http" => {
            let name = name.to_ascii_lowercase();
            let is_seen = HIDDEN.iter().all(|it| !name.starts_with(it));
            is_seen.then(|| format!("header.{}", quoted(&name.replace('_', "-"))))
        }
        _ => None,
    }
}

/// Lists variables that are set, but are called as those that nginx has of each request.
pub(super) fn redefined(list: &[Directive], draft: &mut Draft) {
    for it in list {
        let name = match it.name.as_str() {
            "set" => it.argument(0),
            "map" | "split_clients" => it.argument(1),
            "geo" => it.arguments.last().map_or("", String::as_str),
            _ => "",
        };
        if name == "$args" || key_of(name).is_some() {
            draft.less_safe(&it.from, "nginx has another variable of this name, or it is made of this one, and conditions ask for that: give it another name");
        }
        redefined(&it.block, draft);
    }
}
