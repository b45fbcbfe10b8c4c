//! Warnings of conditions and keys that have no effect beside the others of the policy.

use super::matching::listeners;
use super::naming::name;
use crate::cli::words;
use crate::config::meant::{Policy, PolicyRule};
use tiergate_core::classify::path::{Buffers, normalise};
use tiergate_core::classify::pattern::Pattern;
use tiergate_core::classify::{Condition, Matcher};
use tiergate_core::request::{Part, Value};

/// Escapes that stay in what rules see of a path, and that `forwarding.path` may refuse.
const KEPT: [&str; 2] = ["%2F", "%00"];

/// What is said of them; of each rule once.
pub(super) fn no_effect(policy: &Policy) -> Vec<String> {
    let of_rule = |rule: &PolicyRule| {
        let mut conditions = rule.rule.conditions.iter();
        let of_conditions = conditions.find_map(|one| {
            star(one).or_else(|| refused_path(one, policy)).or_else(|| elsewhere(one, rule, policy))
        });
        let found = of_conditions.or_else(|| never_stored(rule, policy))?;
        Some(format!("{}: {found}", name(rule)))
    };
    policy.rules.iter().filter_map(of_rule).chain(admin(policy)).collect()
}

/// A star where there are no wildcards.
fn star(condition: &Condition) -> Option<String> {
    let key = match condition.part() {
        Part::Method => "method",
        Part::Extension => "extension",
        _ => return None,
    };
    let text = condition.any_of().iter().map(ToString::to_string).find(|it| it.contains('*'))?;
    Some(format!(
        "{key} {text} does not match what it seems to: `*` stands for itself; leave out `{key}`, or write a list"
    ))
}

/// A path that gets 400 before any rule.
fn refused_path(condition: &Condition, policy: &Policy) -> Option<String> {
    let is_path = *condition.part() == Part::Path;
    let why = |path: &[u8]| {
        let refused = normalise(path, policy.paths, &mut Buffers::default()).err()?.ambiguity;
        Some(refused.to_string())
    };
    let of_matcher = |matcher: &Matcher| match matcher {
        Matcher::Pattern(Pattern::Exact(path)) => why(path),
        Matcher::Pattern(pattern) => {
            let text = pattern.to_string();
            let kept = KEPT.iter().find(|it| text.contains(**it))?;
            why(format!("/a{kept}a").as_bytes())
        }
        _ => None,
    };
    let (matcher, why) =
        condition.any_of().iter().filter(|_| is_path).find_map(|it| Some((it, of_matcher(it)?)))?;
    Some(format!(
        "path {matcher} never matches: such a request gets 400 before any rule ({why}: forwarding.path)"
    ))
}

/// An address that clients cannot have connected to.
fn elsewhere(condition: &Condition, rule: &PolicyRule, policy: &Policy) -> Option<String> {
    if *condition.part() != Part::Destination {
        return None;
    }
    let has = |ip| condition.any_of().iter().any(|it| it.matches(Value::Address(ip)));
    let mut used = listeners(&rule.rule, policy).peekable();
    used.peek()?;
    // A PROXY header tells what its client connected to.
    let is_never = used.all(|it| {
        let ip = it.address.ip();
        let is_one = !ip.to_canonical().is_unspecified() && !it.proxy_protocol;
        is_one && !has(ip) && !has(ip.to_canonical())
    });
    let shown = words::condition(condition, policy);
    is_never.then(|| {
        format!("never matches: it asks for {shown}, and none of its listeners has such an address")
    })
}

/// Copies of what is never copied.
fn never_stored(rule: &PolicyRule, policy: &Policy) -> Option<String> {
    rule.rule.stored.filter(|age| !age.is_zero())?;
    let mut methods = rule.rule.conditions.iter().filter(|it| *it.part() == Part::Method);
    let has = |one: &Condition, method: &str| {
        one.any_of().iter().any(|it| it.matches(Value::Text(method.as_bytes())))
    };
    let other = methods.find(|one| !has(one, "GET") && !has(one, "HEAD"))?;
    let shown = words::condition(other, policy);
    Some(format!(
        "`stored` has no effect: only answers to GET and HEAD are kept, and it is for {shown}"
    ))
}

/// What is said of an admin listener where there is none.
fn admin(policy: &Policy) -> Option<String> {
    let keys = [
        (!policy.admin_names.is_empty(), "admin_names"),
        (policy.admin_token_file.is_some(), "admin_token_file"),
    ];
    let keys: Vec<&str> = keys.iter().filter(|(has, _)| *has).map(|(_, key)| *key).collect();
    let verb = if keys.len() > 1 { "have" } else { "has" };
    let is_idle = policy.admin.is_none() && !keys.is_empty();
    is_idle.then(|| {
        format!(
            "{} {verb} no effect: there is no admin listener (admin = false)",
            keys.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    #[test]
    fn what_has_no_effect_is_told_and_nothing_else() {
        let at =
            |address: &str, more: &str| format!("[[listener]]\naddress = \"{address}\"\n{more}");
        let rule = |conditions: &str| format!("[[rule]]\n{conditions}\nrefuse = true\n");
        let stored =
            |conditions: &str| format!("[[rule]]\n{conditions}\nstored = {{ max_age = \"5m\" }}\n");
        let strict = |path: &str| {
            format!("[forwarding]\npath = \"strict\"\n{}", rule(&format!("path = {path}")))
        };
        let kept = |path: &str| strict(path).replace("strict", "normalised");
        let to = |listener: String, network: &str| {
            listener + &rule(&format!("destination = \"{network}\""))
        };
        for (text, expected) in [
            (rule("method = \"*\""), "method * does not match what it seems to: `*` stands"),
            (rule("method = \"GET\""), ""),
            (rule("extension = [\"cgi\", \"*\"]"), "extension * does not match"),
            (rule("extension = \"cgi\""), ""),
            (strict("\"/a%2Fb\""), "path /a%2Fb never matches: such a request gets 400"),
            (strict("[\"/x\", \"/a%2F*\"]"), "(encoded slash in the path: forwarding.path)"),
            (strict("\"/a/b*\""), ""),
            (rule("path = \"/a%2Fb\""), "path /a%2Fb never matches"),
            (kept("\"/a%2Fb\""), ""),
            (kept("\"/a%2F*\""), ""),
            (rule("path = \"/a%00b\""), "(encoded control character in the path: forwarding.path)"),
            (
                to(at("192.0.2.1:80", ""), "192.0.2.2"),
                "never matches: it asks for destination in 192.0.2.2/32, and none",
            ),
            (to(at("192.0.2.1:80", ""), "192.0.2.0/24"), ""),
            (to(at("[::ffff:192.0.2.1]:80", ""), "192.0.2.1"), ""),
            (to(at("0.0.0.0:80", ""), "192.0.2.2"), ""),
            (to(at("192.0.2.1:80", "proxy_protocol = true\n"), "192.0.2.2"), ""),
            (to(at("192.0.2.1:80", "") + &at("192.0.2.2:80", ""), "192.0.2.2"), ""),
            (stored("method = \"POST\""), "`stored` has no effect: only answers to GET and HEAD"),
            (stored("method = [\"POST\", \"HEAD\"]"), ""),
            (stored("path = \"/x\""), ""),
            ("".to_owned(), ""),
        ] {
            let text = format!(
                "admin = false\ntrusted = [\"127.0.0.1\"]\n[origin]\nservers = [\"a:1\"]\n{text}"
            );
            let policy = parse(&text, "p.toml").unwrap_or_else(|fault| panic!("{text}: {fault}"));
            let said = no_effect(&policy).join("\n");
            assert!(said.contains(expected), "{text}: {said}");
            assert_eq!(said.is_empty(), expected.is_empty(), "{text}: {said}");
        }
    }

    #[test]
    fn keys_of_an_admin_listener_need_one() {
        let said = |keys: &str| {
            let text = format!("{keys}\n[origin]\nservers = [\"a:1\"]\n");
            no_effect(&parse(&text, "p.toml").expect("a policy"))
        };
        assert_eq!(said("admin_names = [\"a.test\"]"), [""; 0]);
        assert_eq!(
            said("admin = false\nadmin_names = [\"a.test\"]"),
            ["admin_names has no effect: there is no admin listener (admin = false)"]
        );
    }
}
