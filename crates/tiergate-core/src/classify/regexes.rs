//! Regular expressions over paths: which of many match, in one pass.

use crate::fault::Fault;
use regex_automata::meta::{BuildError, Cache, Config, Regex};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, PatternSet, nfa::thompson::WhichCaptures};
use std::fmt;
use std::sync::Arc;

/// Most bytes of the states of one expression; a counted repetition like `(a{1000}){1000}` has more.
const STATES_SIZE_MAX: usize = 256 << 10;
/// Most bytes of the states of all expressions together.
const ALL_STATES_SIZE_MAX: usize = 64 << 20;
/// Bytes that each thread keeps for states of the automaton met so far; when they are full it begins anew.
const CACHE_SIZE_MAX: usize = 4 << 20;

/// A regular expression over a normalised path, found anywhere in it unless anchored by `^` and `$`.
///
/// A path is bytes, and so `.` and `[^a]` match any byte: `^/a/.*$` takes `/a/%FF` too, as it does in servers whose expressions are PCRE's.
/// `\w`, `\d`, `\s` and `(?i)` are those of ASCII. `(?u)` has what follows match characters.
///
/// Matching takes time linear in the path, whatever the expression: there is no backtracking, and
/// hence neither look-around nor back-references.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathRegex {
    text: Box<str>,
}

impl PathRegex {
    /// Most bytes of an expression.
    pub const LEN_MAX: usize = 1024;

    /// Reads an expression, in the syntax of Rust's regex crate.
    ///
    /// # Errors
    /// When it is too long, needs too many states, or is none.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        if text.len() > Self::LEN_MAX {
            return Err(Fault::new(format!("must have at most {} bytes", Self::LEN_MAX)));
        }
        build(&[text], MatchKind::LeftmostFirst, STATES_SIZE_MAX).map_err(|fault| {
            match (fault.size_limit(), fault.syntax_error()) {
                (None, Some(syntax)) => {
                    // Its message draws the place on several lines; what is wrong stands on the last.
                    let message = syntax.to_string();
                    let last = message.lines().last().unwrap_or_default();
                    let last = last.trim_start_matches("error: ");
                    // Only `(?u)` allows what is beyond ASCII within classes and `(?i)`.
                    let hint = if last.starts_with("Unicode not allowed") {
                        " (it matches bytes; write (?u) before what is to match characters beyond ASCII)"
                    } else {
                        ""
                    };
                    Fault::new(format!("must be a regular expression: {last}{hint}"))
                }
                _ => Fault::new("needs too many states; repeat less often"),
            }
        })?;
        Ok(PathRegex { text: text.into() })
    }

    /// Whether it is found in the path. Compiles the expression, which rules keep only together
    /// ([`Regexes`]); for explanations.
    pub fn matches(&self, path: &[u8]) -> bool {
        let regex = build(&[&self.text], MatchKind::LeftmostFirst, STATES_SIZE_MAX);
        regex.expect("it was compiled when it was read").is_match(path)
    }
}

impl fmt::Display for PathRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn build(
    texts: &[&str],
    kind: MatchKind,
    states_size_max: usize,
) -> Result<Regex, Box<BuildError>> {
    let config = Config::new()
        .match_kind(kind)
        .which_captures(WhichCaptures::Implicit)
        .utf8_empty(false)
        .nfa_size_limit(Some(states_size_max))
        .hybrid_cache_capacity(CACHE_SIZE_MAX);
    Regex::builder()
        .configure(config)
        // Paths are bytes.
        .syntax(syntax::Config::new().utf8(false).unicode(false))
        .build_many(texts)
        .map_err(Box::new)
}

/// Many expressions as one automaton, each with the number of the fact that it establishes.
#[derive(Clone, Debug)]
pub(super) struct Regexes {
    regex: Arc<Regex>,
    facts: Vec<u32>,
    /// Its place in [`RegexCaches`].
    place: usize,
}

/// What matching keeps between requests: for each automaton the states met so far.
pub(super) type RegexCaches = Vec<Option<RegexCache>>;

#[derive(Clone, Debug)]
pub(super) struct RegexCache {
    /// Whose states these are.
    regex: Arc<Regex>,
    cache: Cache,
    found: PatternSet,
}

impl Regexes {
    /// A set of distinct expressions; `None` if together they need too many states. `place`: of its own
    /// among all sets of the classifier.
    pub(super) fn new<'p>(
        patterns: impl IntoIterator<Item = (&'p PathRegex, u32)>,
        place: usize,
    ) -> Option<Self> {
        let patterns = patterns.into_iter().map(|(pattern, fact)| (&*pattern.text, fact));
        let (texts, facts): (Vec<&str>, _) = patterns.unzip();
        let regex = build(&texts, MatchKind::All, ALL_STATES_SIZE_MAX).ok()?;
        Some(Regexes { regex: Arc::new(regex), facts, place })
    }

    /// Calls `emit` with the fact of every expression that is found in the text. O(text), in rare
    /// cases times the size of the expressions; allocates only for states that are new.
    pub(super) fn find(&self, text: &[u8], caches: &mut RegexCaches, mut emit: impl FnMut(u32)) {
        if caches.len() <= self.place {
            caches.resize(self.place + 1, None);
        }
        let kept = match &mut caches[self.place] {
            Some(kept) if Arc::ptr_eq(&kept.regex, &self.regex) => kept,
            stale => stale.insert(RegexCache {
                regex: self.regex.clone(),
                cache: self.regex.create_cache(),
                found: PatternSet::new(self.regex.pattern_len()),
            }),
        };
        kept.found.clear();
        let input = Input::new(text);
        self.regex.which_overlapping_matches_with(&mut kept.cache, &input, &mut kept.found);
        // Mostly none is found, and then none of them is gone through.
        if !kept.found.is_empty() {
            for pattern in kept.found.iter() {
                emit(self.facts[pattern.as_usize()]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_that_are_none_or_too_large_are_refused_in_one_line() {
        for (text, fault) in [
            ("(", "must be a regular expression: unclosed group"),
            ("(?=a)", "must be a regular expression: look-around"),
            ("(a{1000}){1000}", "needs too many states"),
            ("[é]", "must be a regular expression: Unicode not allowed here (it matches bytes"),
            (r"\pL", "must be a regular expression: Unicode not allowed here (it matches bytes"),
            (&"a".repeat(1025), "must have at most 1024 bytes"),
        ] {
            let message = PathRegex::parse(text).unwrap_err().to_string();
            assert!(message.starts_with(fault), "{text}: {message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn bytes_that_are_no_utf_8_evade_no_expression() {
        for (text, path, matches) in [
            ("^/re/.*$", b"/re/\xff".as_slice(), true),
            ("^/[^/]+/x$", b"/\xc0\xaf/x", true),
            ("^/é.$", "/éa".as_bytes(), true),
            ("(?u)(?i)^/É.$", "/éé".as_bytes(), true),
            ("(?u)^/.$", b"/\xff", false),
            (r"^/\w+$", "/é".as_bytes(), false),
        ] {
            let regex = PathRegex::parse(text).unwrap();
            assert_eq!(regex.matches(path), matches, "{text} on {path:?}");
        }
    }

    #[test]
    fn all_that_match_are_found_and_an_automaton_of_former_rules_is_forgotten() {
        let regex = |text| PathRegex::parse(text).unwrap();
        let some = [regex("^/a"), regex("b$"), regex("(?i)X"), regex("^$"), regex(r"\d{2,}")];
        let numbered: Vec<_> = some.iter().zip(0..).collect();
        let all = Regexes::new(numbered.iter().copied(), 1).unwrap();
        let other = Regexes::new(numbered[2..3].iter().copied(), 1).unwrap();
        let mut caches = RegexCaches::new();
        let mut found = |regexes: &Regexes, path: &[u8]| {
            let mut found = Vec::new();
            regexes.find(path, &mut caches, |fact| found.push(fact));
            found.sort_unstable();
            found
        };
        assert_eq!(found(&all, b"/axb"), [0, 1, 2]);
        assert_eq!(found(&other, b"/axb"), [2]);
        assert_eq!(found(&all, b"/axb12c"), [0, 2, 4]);
        assert_eq!(found(&all, b""), [3]);
        assert_eq!(found(&all, b"/\xff"), [0; 0]);
    }
}
