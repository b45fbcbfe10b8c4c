//! Warnings of conditions on what no rule ever sees: queries in paths, headers that no peer may send, requests that are refused before any rule.

use super::naming::name;
use crate::config::meant::{Policy, PolicyRule};
use tiergate_core::classify::{Condition, Matcher};
use tiergate_core::request::{Field, Part};
use tiergate_wire::http1::{FieldRoom, FieldTable};

/// What is said of them; of each rule once.
pub(super) fn unseen(policy: &Policy) -> Vec<String> {
    let of_rule = |rule: &PolicyRule| {
        let mut found = rule.rule.conditions.iter().filter_map(|one| {
            query_in_path(one)
                .or_else(|| other_signs(one))
                .or_else(|| spaces(one))
                .or_else(|| two_cookies(one))
                .or_else(|| guarded(one, policy))
                .or_else(|| refused(one, policy))
        });
        Some(format!("{}: {}", name(rule), found.next()?))
    };
    policy.rules.iter().filter_map(of_rule).collect()
}

/// A path that is to have a query.
fn query_in_path(condition: &Condition) -> Option<String> {
    let said = |matcher: &Matcher| {
        let text = matcher.to_string();
        let how = match matcher {
            Matcher::Regex(_) if text.contains("\\?") => {
                "leave it out, and ask for it by query.NAME = \"…\"".to_owned()
            }
            Matcher::Regex(_) => return None,
            // One that stands for a character is before no parameter.
            _ => {
                let (path, query) = text.split_once("\\?").or_else(|| text.split_once('?'))?;
                let (name, value) = query.split_once('=')?;
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
                let key = match name.bytes().all(is_plain) && !name.is_empty() {
                    true => name.to_owned(),
                    false => format!("{name:?}"),
                };
                format!("write path = {path:?} and query.{key} = {value:?}")
            }
        };
        Some(format!("{text} does not match what it seems to: a path has no query; {how}"))
    };
    let is_path = *condition.part() == Part::Path;
    condition.any_of().iter().filter(|_| is_path).find_map(said)
}

/// A path with signs of other systems' patterns, which stand for themselves here.
fn other_signs(condition: &Condition) -> Option<String> {
    let said = |matcher: &Matcher| {
        let text = matcher.to_string();
        if let Matcher::Regex(_) = matcher {
            let why =
                "never matches: `/` is before `^`; write the expression without slashes around it";
            let without_slash =
                "never matches: a path begins with `/`, which belongs between `^` and the rest";
            let mut after = text.strip_prefix('^').unwrap_or_default().bytes();
            // What may be left out is before a slash, perhaps.
            let is_relative = after.next().is_some_and(|it| it.is_ascii_alphanumeric())
                && after.all(|it| !matches!(it, b'?' | b'*' | b'{'));
            let why = match is_relative && !text.contains('|') {
                true => Some(without_slash),
                false => text.starts_with("/^").then_some(why),
            };
            return why.map(|why| format!("{text} {why}"));
        }
        let is_name = |it: &str| it.starts_with(|first: char| first.is_ascii_alphabetic());
        let is_placeholder = |segment: &&str| {
            let inner = |open, close| segment.strip_prefix(open)?.strip_suffix(close);
            let named = segment.strip_prefix(':').or_else(|| inner('{', '}'));
            named.or_else(|| inner('<', '>')).is_some_and(|it| is_name(it) && !it.contains(','))
        };
        let how = if let Some(segment) = text.split('/').find(is_placeholder) {
            format!("{segment} stands for itself; write `*` for any part of a path")
        } else if text
            .split_once('{')
            .is_some_and(|(_, rest)| rest.contains(',') && rest.contains('}'))
        {
            "braces stand for themselves; write a list of paths".to_owned()
        } else if text.contains('#') {
            "clients send no fragment, and this matches paths with `%23` alone; leave out `#` and what follows".to_owned()
        } else {
            return None;
        };
        Some(format!("{text} does not match what it seems to: {how}"))
    };
    let is_path = *condition.part() == Part::Path;
    condition.any_of().iter().filter(|_| is_path).find_map(said)
}

/// A value that begins or ends with what clients' values never do.
fn spaces(condition: &Condition) -> Option<String> {
    let (Part::Header(name) | Part::Cookie(name)) = condition.part() else { return None };
    let has_spaces = |it: &Matcher| {
        let text = it.to_string();
        text.trim_matches([' ', '\t', '\r', '\n']) != text
    };
    condition.any_of().iter().all(has_spaces).then(|| {
        format!("never matches with spaces or line ends around a value, as those of {name} have none; leave them out (of an environment variable or a file, too)")
    })
}

/// A cookie whose value is to have what ends one.
fn two_cookies(condition: &Condition) -> Option<String> {
    let Part::Cookie(cookie) = condition.part() else { return None };
    let has_end = |it: &Matcher| it.to_string().contains(';');
    condition.any_of().iter().all(has_end).then(|| {
        format!("never matches: `;` is behind the value of cookie {cookie}, and in none; write the value of this cookie alone")
    })
}

/// A header that is taken from trusted peers only, where there are none.
fn guarded(condition: &Condition, policy: &Policy) -> Option<String> {
    let Part::Header(header) = condition.part() else { return None };
    if !policy.trusted.is_empty() {
        return None;
    }
    let (mut table, mut room) = (FieldTable::new(), FieldRoom::new());
    table.push(Field { name: header.as_bytes(), value: b"x" }).ok()?;
    let is_left_out = table.believed(false, &mut room).is_empty();
    is_left_out.then(|| {
        format!("never matches: header {header} is taken from `trusted` peers only, and there are none; name the networks of your proxies in `trusted`")
    })
}

/// Requests that are answered before any rule is asked.
fn refused(condition: &Condition, policy: &Policy) -> Option<String> {
    let all = |is: &dyn Fn(&Matcher) -> bool| condition.any_of().iter().all(is);
    let max = policy.limits.request_body_max;
    match condition.part() {
        Part::Method if all(&|it| matches!(it, Matcher::Exact(one) if &**one == "CONNECT")) => {
            Some("never matches: CONNECT gets 501 before any rule".to_owned())
        }
        Part::ContentLength
            if max > 0 && all(&|it| matches!(it, Matcher::Range(span) if span.first > max)) =>
        {
            let max = crate::config::show::bytes(max);
            Some(format!(
                "never matches: a body of more than limits.request_body_max, {max}, gets 413 before any rule"
            ))
        }
        _ => None,
    }
}
