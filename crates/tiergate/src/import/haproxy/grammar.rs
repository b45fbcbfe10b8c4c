//! The grammar of HAProxy's configuration: sections of lines, quotes, escapes, comments, variables of the environment.
//!
//! Source: HAProxy's configuration manual, §2.2 "Quoting and escaping"; written anew.

use super::super::draft::{From, ImportFault};
use std::collections::BTreeMap;

/// Most lines: as many as any real file has.
const LINES_MAX: usize = 200_000;

/// A line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) words: Vec<String>,
    pub(super) from: From,
}

impl Line {
    /// The word at a place, or an empty text.
    pub(super) fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", String::as_str)
    }

    /// The word behind another one, before the line's condition.
    pub(super) fn after(&self, word: &str) -> Option<&str> {
        let mut words = self.words.iter().take_while(|it| *it != "if" && *it != "unless");
        words.find(|it| *it == word)?;
        words.next().map(String::as_str)
    }
}

/// A section: `frontend`, `backend`, …
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) from: From,
    /// What it takes from its `defaults`, whose ACLs only these lines know.
    pub(super) inherited: Vec<Line>,
    pub(super) lines: Vec<Line>,
}

impl Section {
    pub(super) fn is_proxy(&self) -> bool {
        self.is_front() || self.is_back()
    }

    /// Whether clients connect to it.
    pub(super) fn is_front(&self) -> bool {
        matches!(self.kind.as_str(), "frontend" | "listen")
    }

    /// Whether it may have servers.
    pub(super) fn is_back(&self) -> bool {
        matches!(self.kind.as_str(), "backend" | "listen")
    }

    /// What it takes from its `defaults`, and what it says itself.
    pub(super) fn all_lines(&self) -> impl DoubleEndedIterator<Item = &Line> {
        self.inherited.iter().chain(&self.lines)
    }

    /// Whether it is switched off.
    pub(super) fn is_disabled(&self) -> bool {
        let last = self.all_lines().rfind(|it| matches!(it.word(0), "disabled" | "enabled"));
        last.is_some_and(|it| it.word(0) == "disabled")
    }
}

const SECTIONS: [&str; 17] = [
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "peers",
    "resolvers",
    "userlist",
    "mailers",
    "cache",
    "program",
    "http-errors",
    "ring",
    "fcgi-app",
    "log-forward",
    "crt-store",
    "traces",
];

/// The sections of a file.
///
/// # Errors
/// The first line that cannot be read.
pub(super) fn read(
    text: &str,
    file: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Section>, ImportFault> {
    let mut sections: Vec<Section> = Vec::new();
    let mut set = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        if number > LINES_MAX {
            let message = format!("has more than {LINES_MAX} lines");
            return Err(ImportFault { file: file.to_owned(), line: number, message });
        }
        let from = From { file: file.to_owned(), line: number, text: line.trim().to_owned() };
        let known = |name: &str| set.get(name).cloned().unwrap_or_else(|| environment(name));
        let words = words(line, &known).map_err(|fault| from.fault(fault))?;
        let Some(first) = words.first() else { continue };
        if SECTIONS.contains(&first.as_str()) {
            let name = words.get(1).cloned().unwrap_or_default();
            let inherited = inherited(&words, &sections).map_err(|fault| from.fault(fault))?;
            let kind = first.clone();
            sections.push(Section { kind, name, from, inherited, lines: Vec::new() });
            continue;
        }
        // Conditions by the version of HAProxy are beyond what an import can know.
        if first.starts_with('.') {
            return Err(
                from.fault("is a condition by HAProxy's version: leave the lines in that hold")
            );
        }
        let Some(section) = sections.last_mut() else {
            return Err(
                from.fault("must be in a section: global, defaults, frontend, backend or listen")
            );
        };
        if section.kind == "global" {
            sets(&words, environment, &mut set);
        }
        section.lines.push(Line { words, from });
    }
    Ok(sections)
}

/// What a section that begins with these words takes from the `defaults` that it names behind `from`, or that precede it.
fn inherited(words: &[String], sections: &[Section]) -> Result<Vec<Line>, String> {
    let kind = words.first().map_or("", String::as_str);
    let named = words.iter().position(|it| it == "from").and_then(|at| words.get(at + 1));
    let mut defaults = sections.iter().filter(|it| it.kind == "defaults");
    let found = match (kind, named) {
        ("defaults" | "frontend" | "backend" | "listen", Some(name)) => {
            let found = defaults.rfind(|it| it.name == *name);
            Some(found.ok_or_else(|| format!("no defaults are called {name:?}"))?)
        }
        ("frontend" | "backend" | "listen", None) => defaults.next_back(),
        _ => None,
    };
    Ok(found.map_or_else(Vec::new, |it| it.all_lines().cloned().collect()))
}

/// What a line of `global` sets in the environment, for the lines behind it.
fn sets(
    words: &[String],
    environment: &dyn Fn(&str) -> Option<String>,
    set: &mut BTreeMap<String, Option<String>>,
) {
    match words {
        [how, name, value] if how == "setenv" => {
            set.insert(name.clone(), Some(value.clone()));
        }
        [how, name, value] if how == "presetenv" => {
            let known = set.get(name).cloned().unwrap_or_else(|| environment(name));
            set.insert(name.clone(), known.or_else(|| Some(value.clone())));
        }
        [how, names @ ..] if how == "unsetenv" => {
            set.extend(names.iter().map(|it| (it.clone(), None)));
        }
        _ => {}
    }
}

/// The words of a line.
fn words(line: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut begun) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    let mut quote = None;
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\'', None) | ('"', None) => (quote, begun) = (Some(letter), true),
            (it, Some(open)) if it == open => quote = None,
            ('\\', None | Some('"')) => {
                begun = true;
                let is_escape = |it: &char| {
                    matches!(it, 'n' | 'r' | 't' | 'x' | ' ' | '\t' | '#' | '\\' | '\'' | '"' | '$')
                };
                word.push(match letters.next_if(is_escape) {
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some('t') => '\t',
                    Some('x') => {
                        let digits: String = letters.by_ref().take(2).collect();
                        let code = u8::from_str_radix(&digits, 16).ok().filter(u8::is_ascii);
                        char::from(
                            code.ok_or("must have the code of an ASCII character behind \\x")?,
                        )
                    }
                    Some(letter) => letter,
                    // Before other letters it stays: `\d` and `\.` are for expressions.
                    None => '\\',
                });
            }
            ('$', Some('"')) => {
                let braced = letters.next_if_eq(&'{').is_some();
                let mut name = String::new();
                while let Some(it) = letters.next_if(|it| it.is_ascii_alphanumeric() || *it == '_')
                {
                    name.push(it);
                }
                let mut otherwise = None;
                if braced && letters.next_if_eq(&'-').is_some() {
                    let text = std::iter::from_fn(|| letters.next_if(|it| *it != '}'));
                    otherwise = Some(text.collect::<String>());
                }
                if braced && letters.next_if_eq(&'}').is_none() {
                    return Err("must close ${ with }".to_owned());
                }
                // HAProxy takes an empty text, which would open `bind "${ADDRESS}:80"` to all the world.
                word += &environment(&name).or(otherwise).ok_or_else(|| {
                    format!(
                        "uses ${name}, which is not set here: set it as it is for HAProxy's service"
                    )
                })?;
            }
            ('#', None) => break,
            (it, None) if it.is_whitespace() => {
                if std::mem::take(&mut begun) {
                    words.push(std::mem::take(&mut word));
                }
            }
            (it, _) => {
                begun = true;
                word.push(it);
            }
        }
    }
    if quote.is_some() {
        return Err("has a quote that is not closed".to_owned());
    }
    if begun {
        words.push(word);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_quotes_and_variables() {
        let of = |name: &str| (name == "PORT").then(|| "80".to_owned());
        let words = |line| words(line, &of);
        assert_eq!(words("a  'b c' d\\ e # f").expect("right"), ["a", "b c", "d e"]);
        assert_eq!(words("x\"a:${PORT}\"'$PORT' \"\"").expect("right"), ["xa:80$PORT", ""]);
        assert_eq!(words("\"${NO-1 2}:${PORT-1}\"").expect("right"), ["1 2:80"]);
        assert!(words("\"$NO\"").is_err() && words("\"${NO}:1\"").is_err());
        assert!(words("a 'b").is_err() && words("\"${A\"").is_err() && words("\\xg").is_err());
        assert_eq!(words("^/\\d+\\.x\\\\\\x41#b \\").expect("right"), ["^/\\d+\\.x\\A"]);
        // There are no lines that go on in the next.
        assert_eq!(words("a \\").expect("right"), ["a", "\\"]);
    }

    #[test]
    fn sections_have_lines_with_numbers() {
        let read = |text| read(text, "f", &|_| None);
        let list = read("# x \\\nfrontend web\n bind :80 ssl\n\nbackend b\n").expect("right");
        assert_eq!((list.len(), list[0].lines[0].from.line), (2, 3));
        assert_eq!(list[0].lines[0].words, ["bind", ":80", "ssl"]);
        assert_eq!(read("\nbind :80").expect_err("no section").line, 2);
    }

    #[test]
    fn what_the_file_sets_is_known_behind_it() {
        let of = |name: &str| (name == "GIVEN").then(|| "1".to_owned());
        let read = |text| read(text, "f", &of);
        let text = "global\n presetenv GIVEN 2\n presetenv NEW 3\n setenv LAST \"4$NEW\"\n\
                    frontend f\n bind \"$GIVEN:$NEW:$LAST\"";
        assert_eq!(read(text).expect("right")[1].lines[0].words, ["bind", "1:3:43"]);
        let fault = read("global\n unsetenv GIVEN\nfrontend f\n bind \"$GIVEN:80\"");
        assert_eq!(fault.expect_err("it is not set any more").line, 4);
    }
}
