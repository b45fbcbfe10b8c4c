//! The files of a policy as one: lists of tables one behind the other, tables together, and each other key once.

use super::error::{Spot, shortened};
use super::place::{File, Place};
use super::source::Sources;
use std::rc::Rc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The one document that all files are, with places in the texts of all, one behind the other; reports what is no TOML, and keys that two files have.
pub(super) fn document<'t>(sources: &'t Sources, file: &Rc<File>) -> DeTable<'t> {
    let mut whole = DeTable::new();
    for (index, source) in sources.files.iter().enumerate() {
        let (document, syntax) = DeTable::parse_recoverable(&source.text);
        for fault in syntax {
            let span = fault.span().unwrap_or_default();
            let at = source.begin + span.start;
            // Where something is missing, there is what stands in its place.
            let rest = source.text.get(span.start..).unwrap_or_default();
            let len = span.len().max(rest.chars().next().map_or(0, char::len_utf8));
            match (fault.message().trim(), source.text.get(span.clone())) {
                ("duplicate key", Some(key)) => {
                    let key = shortened(key);
                    let message = format!("`{key}` stands here a second time; leave one out");
                    Place::of(file, String::new(), at).fault(message);
                }
                (message, _) => {
                    let (key, word) = around(&source.text, span.start);
                    let message = match rest.get(..len).and_then(unseen).map(u32::from) {
                        Some(letter) => format!(
                            "{message}: there is U+{letter:04X}, which looks like a blank or like nothing; write it anew with plain blanks"
                        ),
                        None => no_toml(message, &word),
                    };
                    Place::of(file, key, at).fault(message);
                }
            }
        }
        let mut document = moved_table(document.into_inner(), source.begin);
        if index == 0 {
            whole = document;
            continue;
        }
        // What it includes is among the sources.
        document.remove("include");
        let root = Place::of(file, String::new(), source.begin);
        merge(&mut whole, document, &root, true);
    }
    whole
}

/// What is said of a text that is no TOML; `word`: what is found there, if anything is.
fn no_toml(message: &str, word: &str) -> String {
    let is_no_value = ["invalid float", "invalid integer", "invalid date", "string values must"];
    match word {
        "" => message.to_owned(),
        _ if is_no_value.iter().any(|it| message.starts_with(it)) => {
            format!(
                "must be a value as TOML has it, a text in plain quotes, got `{}`",
                shortened(word)
            )
        }
        _ => format!("{message}, got `{}`", shortened(word)),
    }
}

/// The first character that is not to be seen, or looks like a blank and is none.
fn unseen(text: &str) -> Option<char> {
    let is_plain = |it: char| matches!(it, ' ' | '\t' | '\n' | '\r');
    let is_nothing = |it: char| matches!(it, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    text.chars().find(|&it| !is_plain(it) && (it.is_whitespace() || is_nothing(it)))
}

/// The key of whose value a byte is, as the line has it, and the word around that byte.
fn around(text: &str, at: usize) -> (String, String) {
    let (Some(before), Some(behind)) = (text.get(..at), text.get(at..)) else {
        return (String::new(), String::new());
    };
    let line = before.rsplit('\n').next().unwrap_or_default();
    let key = line.split_once('=').map_or("", |(key, _)| key.trim());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let key = if key.bytes().all(is_plain) { shortened(key) } else { String::new() };
    let is_end = |it: char| it.is_whitespace() || "[]{},=#".contains(it);
    let begin = line.rfind(is_end).map_or(line, |at| line[at..].trim_start_matches(is_end));
    let end = behind.split(is_end).next().unwrap_or_default();
    (key, format!("{begin}{end}"))
}

/// A step on the way to a value of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A key of a table.
    Key(&'static str),
    /// An element of a list, from 0.
    Element(usize),
}

/// The place of a value of a policy; as far as its files have it.
pub(crate) fn place_of(sources: &Sources, steps: &[Step]) -> Spot {
    let file = File::of(sources);
    let root = DeValue::Table(document(sources, &file));
    let mut place = Place::of(&file, String::new(), 0);
    let mut value = Some(&root);
    for step in steps {
        let next = match (step, value) {
            (Step::Key(key), Some(DeValue::Table(table))) => table.get(*key),
            (Step::Element(index), Some(DeValue::Array(list))) => list.get(*index),
            _ => None,
        };
        let at = next.map_or(place.at, |it| it.span().start);
        place = match step {
            Step::Key(key) => place.key_at(key, at),
            Step::Element(index) => place.element_at(*index, at),
        };
        value = next.map(|it| it.get_ref());
    }
    place.spot()
}

/// Where a policy first says that a part of it is observed only, or the whole.
pub(crate) fn first_observed(sources: &Sources) -> Option<Spot> {
    let file = File::of(sources);
    let root = DeValue::Table(document(sources, &file));
    let mut first = None;
    find_observed(&root, &Place::of(&file, String::new(), 0), &mut first);
    first.map(|place: Place| place.spot())
}

/// The same in a value; `first`: the first place so far.
fn find_observed(value: &DeValue<'_>, place: &Place, first: &mut Option<Place>) {
    match value {
        DeValue::Table(table) => {
            for (key, value) in table {
                let place = place.key_at(key.get_ref(), value.span().start);
                let is_mode =
                    key.get_ref() == "mode" && value.get_ref().as_str() == Some("observe");
                if is_mode && first.as_ref().is_none_or(|first| place.at < first.at) {
                    *first = Some(place);
                } else {
                    find_observed(value.get_ref(), &place, first);
                }
            }
        }
        DeValue::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                let place = place.element_at(index, value.span().start);
                find_observed(value.get_ref(), &place, first);
            }
        }
        _ => {}
    }
}

/// Adds what a further file has to what those before have. `is_top`: it is the file itself, of which lists of tables are lengthened.
fn merge<'t>(whole: &mut DeTable<'t>, further: DeTable<'t>, place: &Place, is_top: bool) {
    for (key, value) in further {
        let here = place.key_at(key.get_ref(), key.span().start);
        let Some(known) = whole.get_mut(&**key.get_ref()) else {
            whole.insert(key, value);
            continue;
        };
        let first = known.span().start;
        match (known.get_mut(), value.into_inner()) {
            (DeValue::Table(known), DeValue::Table(value)) => merge(known, value, &here, false),
            (DeValue::Array(known), DeValue::Array(value))
                if is_top && is_of_tables(known.iter()) && is_of_tables(value.iter()) =>
            {
                for element in value {
                    known.push(element);
                }
            }
            _ => here.fault(format!(
                "is set at {} already; leave one of them out",
                here.elsewhere(first)
            )),
        }
    }
}

fn is_of_tables<'v, 't: 'v>(mut list: impl Iterator<Item = &'v Spanned<DeValue<'t>>>) -> bool {
    list.all(|it| it.get_ref().is_table())
}

/// The same with places that begin at a byte.
fn moved_table(table: DeTable<'_>, begin: usize) -> DeTable<'_> {
    if begin == 0 {
        return table;
    }
    let entry = |(key, value): (Spanned<_>, _)| {
        let span = key.span();
        (Spanned::new(span.start + begin..span.end + begin, key.into_inner()), moved(value, begin))
    };
    table.into_iter().map(entry).collect()
}

fn moved(value: Spanned<DeValue<'_>>, begin: usize) -> Spanned<DeValue<'_>> {
    let span = value.span();
    let value = match value.into_inner() {
        DeValue::Table(table) => DeValue::Table(moved_table(table, begin)),
        DeValue::Array(list) => {
            DeValue::Array(list.into_iter().map(|it| moved(it, begin)).collect())
        }
        plain => plain,
    };
    Spanned::new(span.start + begin..span.end + begin, value)
}

#[cfg(test)]
mod tests {
    use crate::config::parse;

    #[test]
    fn what_is_not_seen_in_a_key_is_named() {
        for (line, place) in [
            ("n\u{a0}ame = \"x\"", "U+00A0"),
            ("name\u{a0}= \"x\"", "U+00A0"),
            ("\u{a0}name = \"x\"", "U+00A0"),
            ("na\u{200b}me = \"x\"", "U+200B"),
            ("name =\u{a0}\"x\"", "U+00A0"),
            ("weight = 2\u{a0}", "U+00A0"),
            ("näme = \"\u{a0}\"", ""),
        ] {
            let text = format!("[origin]\nservers = [\"a:1\"]\n[[class]]\n{line}\n");
            let said = parse(&text, "p.toml").expect_err("no TOML").to_string();
            let first = said.lines().next().unwrap_or_default();
            assert!(first.starts_with("p.toml:4:"), "{line:?}: {said}");
            assert_eq!(first.contains("there is U+"), !place.is_empty(), "{line:?}: {said}");
            assert!(first.contains(place), "{line:?}: {said}");
        }
    }
}
