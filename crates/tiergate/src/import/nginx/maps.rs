//! `map`: what a variable is set to by another one, as conditions of requests.

use super::super::draft::{Draft, From, literal, quoted};
use super::asked::{SOME, is_address, is_method, key_of};
use super::expression::{caseless, path_expression};
use super::grammar::Directive;
use super::names::host;
use super::reasons::why;

/// A `map`: a condition of requests for each value.
pub(super) struct Map {
    pub(super) entries: Vec<Entry>,
    /// Whether rules may choose another entry than nginx for some values; other differences are listed.
    pub(super) is_inexact: bool,
}

/// An entry of a map, in the order in which the first that matches decides.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// A condition's key, `header.x-key`, and its value as TOML; `None`: every request.
    pub(super) matches: Option<(String, String)>,
    pub(super) value: String,
    pub(super) from: From,
}

impl Map {
    /// `None` if no condition asks for its variable.
    pub(super) fn read(it: &Directive, draft: &mut Draft) -> Option<Self> {
        let Some(key) = key_of(it.argument(0)) else {
            draft.note(
                &it.from,
                "no condition of rules for this variable: write rules by hand for what it decides",
            );
            return None;
        };
        let is_hosts = key == "host" && it.block.iter().any(|it| it.name == "hostnames");
        let is_named = key.contains('.');
        let (mut exact, mut wild, mut patterns) = (Vec::new(), Vec::new(), Vec::new());
        let (mut last, mut empty) = (None, None);
        for line in &it.block {
            let entry = |matches| Entry {
                matches,
                value: line.argument(0).to_owned(),
                from: line.from.clone(),
            };
            let one = |text: String| entry(Some((key.clone(), quoted(&text))));
            match line.name.as_str() {
                "default" => last = Some(entry(None)),
                "hostnames" | "volatile" => {}
                "include" => draft.less_safe(&line.from, why("include")),
                "" => empty = Some(entry(None)),
                text if text.starts_with('~') => match pattern(&key, text) {
                    Some(condition) => patterns.push(entry(Some(condition))),
                    None => {
                        draft.less_safe(&line.from, "no rule asks for this expression, so what it chooses gets the default: write a pattern with * and ? by hand");
                    }
                },
                text if is_hosts && text.ends_with(".*") => {
                    draft.less_safe(&line.from, "hosts are names or *.name, so what this chooses gets the default: write rules by hand");
                }
                text if is_hosts && text.starts_with(['.', '*']) => {
                    let below = text.trim_start_matches('*').trim_start_matches('.');
                    if let Some(name) = host(below) {
                        wild.push(one(format!("*.{name}")));
                        exact.extend(text.starts_with('.').then(|| one(name)));
                    }
                }
                text => match self::text(&key, text.strip_prefix('\\').unwrap_or(text)) {
                    Text::Condition(key, value) => exact.push(entry(Some((key, value)))),
                    Text::Never => {}
                    Text::Unlike => {
                        draft.less_safe(&line.from, "no rule asks for this text as nginx does, so what it chooses gets the default: write rules by hand");
                    }
                },
            }
        }
        let is_cased = |it: &Entry| {
            it.matches.as_ref().is_some_and(|(_, value)| value.contains(char::is_alphabetic))
        };
        if is_named && exact.iter().any(is_cased) {
            draft.note(&it.from, "nginx compares these texts without regard to case, and rules compare with it: add the other spellings that count");
        }
        wild.sort_by_key(|it| usize::MAX - it.matches.as_ref().map_or(0, |(_, value)| value.len()));
        // An empty text is one that is not there, or there and empty: of several fields this one counts, so that what is asked for is there.
        if empty.is_some() && last.is_none() {
            last = Some(Entry { matches: None, value: String::new(), from: it.from.clone() });
        }
        let mut first = None;
        if is_named && let (Some(empty), Some(last)) = (&empty, &mut last) {
            first = Some(Entry { matches: Some((key.clone(), quoted(""))), ..empty.clone() });
            last.matches = Some((key.clone(), quoted(SOME)));
        }
        let is_exempting = last.as_ref().is_some_and(|it: &Entry| it.value.is_empty());
        let is_plain = exact.is_empty() && patterns.is_empty() && is_exempting && first.is_some();
        let is_inexact = is_named && !(is_plain && key.starts_with("header."));
        // nginx asks for exact texts before regular expressions.
        let all = first.into_iter().chain(exact).chain(wild).chain(patterns);
        Some(Map { entries: all.chain(last).chain(empty).collect(), is_inexact })
    }
}

/// What a text of a map is compared with.
enum Text {
    /// A condition: key and value.
    Condition(String, String),
    /// No request has this text.
    Never,
    /// Rules would compare otherwise.
    Unlike,
}

/// What nginx compares without regard to case.
fn text(key: &str, text: &str) -> Text {
    let lower = text.to_ascii_lowercase();
    let upper = text.to_ascii_uppercase();
    let found = match key {
        "host" => host(text),
        "client" => is_address(&lower).then_some(lower),
        "method" => is_method(&upper).then_some(upper),
        "path" => {
            return match caseless(text) {
                Some(expression) => Text::Condition("path_regex".to_owned(), quoted(&expression)),
                None => Text::Unlike,
            };
        }
        _ => Some(literal(text)),
    };
    match found {
        Some(found) => Text::Condition(key.to_owned(), quoted(&found)),
        None => Text::Never,
    }
}

/// The condition of a map's regular expression.
fn pattern(key: &str, text: &str) -> Option<(String, String)> {
    let text = text.strip_prefix('~')?;
    let is_caseless = text.starts_with('*');
    match key {
        "path" => {
            let text = path_expression(text.trim_start_matches('*'), is_caseless)?;
            Some(("path_regex".to_owned(), quoted(&text)))
        }
        _ if is_caseless || !key.contains('.') => None,
        _ => Some((key.to_owned(), quoted(&plain_pattern(text)?))),
    }
}

/// A regular expression of letters, anchors and `.*` as a pattern.
fn plain_pattern(text: &str) -> Option<String> {
    let (begin, text) = match text.strip_prefix('^') {
        Some(text) => ("", text),
        None => ("**", text),
    };
    let (text, end) = match text.strip_suffix('$') {
        Some(text) => (text, ""),
        None => (text, "**"),
    };
    let plain = text.chars().all(|it| {
        it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '/' | ' ' | ':' | '=' | ',')
    });
    plain.then(|| format!("{begin}{text}{end}"))
}
