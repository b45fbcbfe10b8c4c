//! A line as an operator writes it: text with variables.
//!
//! `$remote_addr [$time_local] "$request" $status $class` has the variables of nginx that mean something here, and Tiergate's own;
//! those of HAProxy (`%ci [%trg] %ST`) are the same under other names ([`fields`]). What clients send is escaped: as Apache and nginx do,
//! or, in a line that begins with `{`, as JSON wants it.

mod fields;

use super::entry::Entry;
use super::time::Clock;
use fields::Variable;

/// Longest pattern.
const LEN_MAX: usize = 4_096;

/// A line's parts, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
    escape: Escape,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Variable(Variable),
}

/// How values are escaped, and what stands for one that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escape {
    /// As Apache and nginx; `-`.
    Text,
    /// For the inside of a JSON string; nothing, or for numbers `0`.
    Json,
}

/// What is written besides the entry.
pub(super) struct Around<'a> {
    pub(super) clock: &'a mut Clock,
    /// Refused requests since the last refused one that has a line.
    pub(super) left_out: u64,
}

impl Pattern {
    /// Reads one.
    ///
    /// # Errors
    /// Which variable is not known, or what else is wrong, and what may be written.
    pub(crate) fn parse(text: &str) -> Result<Pattern, String> {
        if text.is_empty() || text.len() > LEN_MAX || text.contains(['\n', '\r', '\0']) {
            return Err(format!("must be one line of 1 to {LEN_MAX} bytes"));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['$', '%']) {
            push_text(&mut parts, &rest[..at]);
            let (sign, behind) = rest[at..].split_at(1);
            if let Some(after) = behind.strip_prefix(sign) {
                push_text(&mut parts, sign);
                rest = after;
                continue;
            }
            let (name, after) = if sign == "$" { dollar(behind)? } else { percent(behind)? };
            parts.push(Part::Variable(Variable::of(sign, name)?));
            rest = after;
        }
        push_text(&mut parts, rest);
        let escape = if text.starts_with('{') { Escape::Json } else { Escape::Text };
        Ok(Pattern { parts, escape })
    }

    /// Appends a line, without its line feed. The entry's target and referrer have no query.
    pub(super) fn push(&self, line: &mut Vec<u8>, entry: &Entry<'_>, around: &mut Around<'_>) {
        for part in &self.parts {
            match part {
                Part::Text(text) => line.extend_from_slice(text.as_bytes()),
                Part::Variable(variable) => variable.push(line, self.escape, entry, around),
            }
        }
    }
}

/// Adjacent texts are one part.
fn push_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Text(before)) => *before = format!("{before}{text}").into(),
        _ => parts.push(Part::Text(text.into())),
    }
}

/// The name behind `$`, also in braces, and what follows.
fn dollar(text: &str) -> Result<(&str, &str), String> {
    if let Some(inside) = text.strip_prefix('{') {
        return inside.split_once('}').ok_or_else(|| "has `${` without `}`".to_owned());
    }
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let (name, after) = text.split_at(end.unwrap_or(text.len()));
    match name {
        "" => Err("has `$` without a name: `$$` is the sign itself".to_owned()),
        _ => Ok((name, after)),
    }
}

/// The same behind `%`, where names are letters only.
fn percent(text: &str) -> Result<(&str, &str), String> {
    if text.starts_with(['{', '[']) {
        let why = "has `%{` or `%[`: flags and expressions of HAProxy are not known here, write quotes as such, and variables by their names";
        return Err(why.to_owned());
    }
    let end = text.find(|letter: char| !letter.is_ascii_alphabetic());
    // HAProxy's names follow each other without a space: the longest that is known.
    let letters = &text[..end.unwrap_or(text.len())];
    let known = (1..=letters.len()).rev().find(|&len| Variable::of("%", &letters[..len]).is_ok());
    match known {
        _ if letters.is_empty() => {
            Err("has `%` without a name: `%%` is the sign itself".to_owned())
        }
        Some(len) => Ok(text.split_at(len)),
        None => Ok((letters, &text[letters.len()..])),
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::tests::entry;
    use super::*;
    use proptest::prelude::*;
    use tiergate_core::reason::Reason;

    fn line(pattern: &str, entry: &Entry<'_>) -> String {
        let pattern = Pattern::parse(pattern).unwrap_or_else(|why| panic!("{pattern}: {why}"));
        let (mut line, mut clock) = (Vec::new(), Clock::default());
        let entry = Entry { target: b"/cart/7", referer: b"https://shop.example/", ..*entry };
        pattern.push(&mut line, &entry, &mut Around { clock: &mut clock, left_out: 3 });
        String::from_utf8(line).expect("valid UTF-8")
    }

    #[test]
    fn nginx_s_own_default_is_the_combined_format() {
        let pattern = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
                       \"$http_referer\" \"$http_user_agent\"";
        assert_eq!(
            line(pattern, &entry()),
            "192.0.2.7 - - [20/Nov/2026:18:23:51 +0000] \"GET /cart/7 HTTP/1.1\" 200 5120 \
             \"https://shop.example/\" \"curl/8.14.1\""
        );
    }

    #[test]
    fn times_are_in_the_unit_of_the_program_whose_name_it_is() {
        assert_eq!(line("$request_time $queue_time", &entry()), "0.041 0.001");
        assert_eq!(line("%Ta/%Tw/%Tr", &entry()), "41/1/38");
        let refused = Entry { first_byte: None, waited: None, ..entry() };
        assert_eq!(line("$queue_time %Tw/%Tr $upstream_header_time", &refused), "- -1/-1 -");
        assert_eq!(
            line("$time_iso8601 $msec", &entry()),
            "2026-11-20T18:23:51+00:00 1795199031.042"
        );
    }

    #[test]
    fn haproxy_s_names_may_follow_each_other() {
        assert_eq!(line("%ci %HM%HP%ST%% %s", &entry()), "192.0.2.7 GET/cart/7200% 10.0.0.5:8080");
    }

    #[test]
    fn tiergate_s_own() {
        let refused = Entry { reason: Some(Reason::QueueFull), ..entry() };
        let pattern = "${class}:$rule $verdict $reason $policer $refusals_left_out $$";
        assert_eq!(line(pattern, &refused), "checkout:2 queued queue_full - 3 $");
    }

    #[test]
    fn a_line_that_begins_with_a_brace_is_json() {
        let hostile = Entry { user_agent: b"a\"b\\\n\xff", reason: None, ..entry() };
        let pattern = r#"{"agent":"$http_user_agent","reason":"$reason","queue":$queue_time}"#;
        let text = line(pattern, &Entry { waited: None, ..hostile });
        let json: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        assert_eq!(json["agent"], "a\"b\\\n\u{fffd}");
        assert_eq!((&json["reason"], &json["queue"]), (&"".into(), &0.into()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let why = |pattern: &str| Pattern::parse(pattern).expect_err("wrong");
        assert_eq!(
            why("$remote_adr"),
            "has the unknown variable `$remote_adr`, did you mean `$remote_addr`?"
        );
        assert!(why("$args").starts_with("has `$args`: queries are never logged"));
        assert!(why("$http_cookie").starts_with("has `$http_cookie`: of the header"));
        assert!(why("%[src]").contains("expressions of HAProxy"));
        assert_eq!(why("${class"), "has `${` without `}`");
        assert_eq!(why("50 % of"), "has `%` without a name: `%%` is the sign itself");
        assert_eq!(why("a\nb"), "must be one line of 1 to 4096 bytes");
    }

    proptest! {
        /// Whatever is written as a pattern and sent by a client, a line stays one line.
        #[test]
        fn a_line_is_one_line(pattern in "[ -~]{0,60}", sent in prop::collection::vec(any::<u8>(), 0..60)) {
            let Ok(pattern) = Pattern::parse(&pattern) else { return Ok(()) };
            let entry = Entry { user_agent: &sent, referer: &sent, host: &sent, method: &sent, ..entry() };
            let (mut line, mut clock) = (Vec::new(), Clock::default());
            pattern.push(&mut line, &entry, &mut Around { clock: &mut clock, left_out: 0 });
            prop_assert!(line.iter().all(|byte| !matches!(byte, b'\n' | b'\r' | 0)));
        }
    }
}
