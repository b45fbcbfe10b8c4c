//! What an ACL asks of the path. HAProxy sees it as it was sent, rules see it normalised and decoded, and the origin gets what rules see, with
//! its escapes: a condition means the same if it holds for the one exactly if it holds for the other of a normalised path.

use super::super::draft::{literal, quoted};
use super::between::{Between, Bound, Term};

/// Whether the letter is never escaped in a normalised path.
fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '_' | '~' | '/')
}

/// Whether the letter may be one of an escape's digits, which are in capitals.
fn is_digit(letter: char, caseless: bool) -> bool {
    matches!(letter, '0'..='9' | 'A'..='F') || caseless && matches!(letter, 'a'..='f')
}

/// The condition `path` with these values, matched this way.
///
/// # Errors
/// Why no rule can ask it.
pub(super) fn asked(values: &[String], way: &str, caseless: bool) -> Result<Between, String> {
    if way == "reg" {
        let expressions = values.iter().map(|it| expression(it, caseless));
        let all = expressions.collect::<Option<_>>().ok_or(
            "rules see the path decoded, and this expression may see its escapes, or is written otherwise here",
        )?;
        return Ok(Between::exact(Term::new("path_regex", all)));
    }
    let key = if caseless { "path_regex" } else { "path" };
    let (mut wide, mut narrow, mut is_exact) = (Vec::new(), Vec::new(), true);
    for text in values {
        let text = match way {
            "dir" => text.trim_matches('/'),
            _ => text.as_str(),
        };
        if text.is_empty() || !text.chars().all(|it| it.is_ascii_graphic() && it != '%') {
            return Err("rules see the path decoded".to_owned());
        }
        // The end of an escape may be the beginning of what is looked for: the rest of it is found there, too.
        let found = match way {
            "end" | "sub" => {
                let digits = text.chars().take(2).take_while(|it| is_digit(*it, caseless)).count();
                &text[digits..]
            }
            _ => text,
        };
        if found.is_empty() {
            return Err("the digits of an escape are found, too".to_owned());
        }
        wide.extend(pattern(found, way, caseless)?);
        if text.chars().all(is_plain) {
            narrow.extend(pattern(text, way, caseless)?);
        }
        is_exact &= found == text && text.chars().all(is_plain);
    }
    let why = (!is_exact).then(|| "rules see the path decoded".to_owned());
    Ok(Between {
        wide: Bound::wide(key, wide),
        narrow: Bound::narrow(key, narrow),
        why,
        open: None,
    })
}

/// The patterns, or with `caseless` the expressions, of a text, as TOML.
fn pattern(text: &str, way: &str, caseless: bool) -> Result<Vec<String>, String> {
    if caseless {
        let text = regex(text);
        let expression = match way {
            "str" => format!("^{text}$"),
            "beg" => format!("^{text}"),
            "end" => format!("{text}$"),
            "sub" => text,
            "dir" => format!("/{text}(?:/|$)"),
            _ => return Err(format!("{way}: not of a path")),
        };
        return Ok(vec![quoted(&format!("(?i-u){expression}"))]);
    }
    let text = literal(text);
    Ok(match way {
        "str" => vec![quoted(&text)],
        "beg" => vec![quoted(&format!("{text}*"))],
        "end" => vec![quoted(&format!("**{text}"))],
        "sub" => vec![quoted(&format!("**{text}*"))],
        "dir" => vec![quoted(&format!("**/{text}/*")), quoted(&format!("**/{text}"))],
        _ => return Err(format!("{way}: not of a path")),
    })
}

/// A text as a regular expression that means it.
pub(super) fn regex(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        let is_sign = letter.is_ascii() && !letter.is_ascii_alphanumeric();
        if is_sign && !matches!(letter, '/' | '_' | '-') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// An expression of HAProxy's, as TOML, if it is known to mean the same of a decoded path, in the syntax of rules.
///
/// Known are letters that are never escaped, classes and repetitions of them, groups, and `.*`, `.+`, `[^/]*` and `[^/]+`, but not where what
/// follows could be found within an escape: `^/a.*0x` is found in `/a%20x`, which is `/a x` to rules.
fn expression(text: &str, caseless: bool) -> Option<String> {
    // Whatever the path is, it begins with anything.
    let bare = text.strip_prefix("^.*").or_else(|| text.strip_prefix(".*")).unwrap_or(text);
    let mut scan = Scan { rest: bare, caseless, depth: 0 };
    let begins_open = match scan.rest.strip_prefix('^') {
        Some(rest) if bare.len() == text.len() => {
            scan.rest = rest;
            false
        }
        Some(_) => return None,
        None => true,
    };
    // A path of `*` has nothing of a letter, and all else begins with `/`.
    let first = scan.rest.strip_prefix('\\').unwrap_or(scan.rest).chars().next()?;
    if !is_plain(first) {
        return None;
    }
    scan.alternatives(begins_open)?;
    let flags = if caseless { "(?i-u)" } else { "(?-u)" };
    scan.rest.is_empty().then(|| quoted(&format!("{flags}{bare}")))
}

/// Most groups in groups.
const DEPTH_MAX: usize = 16;

struct Scan<'t> {
    rest: &'t str,
    caseless: bool,
    depth: usize,
}

impl Scan<'_> {
    /// Reads alternatives up to `)` or the end. `open`: what comes next may be found within an escape; so is the result.
    fn alternatives(&mut self, open: bool) -> Option<bool> {
        let mut after = self.sequence(open)?;
        while let Some(rest) = self.rest.strip_prefix('|') {
            // Outside of groups an alternative has an anchor of its own.
            if self.depth == 0 {
                return None;
            }
            self.rest = rest;
            after |= self.sequence(open)?;
        }
        Some(after)
    }

    fn sequence(&mut self, mut open: bool) -> Option<bool> {
        loop {
            if self.rest.is_empty() || self.rest.starts_with(['|', ')']) {
                return Some(open);
            }
            if let Some(rest) = self.rest.strip_prefix('$') {
                self.rest = rest;
                let is_last = rest.is_empty() || rest.starts_with(['|', ')']);
                return is_last.then_some(open);
            }
            open = self.repeated(open)?;
        }
    }

    /// Something with what repeats it.
    fn repeated(&mut self, open: bool) -> Option<bool> {
        for (anything, is_some) in [("[^/]*", false), ("[^/]+", true), (".*", false), (".+", true)]
        {
            if let Some(rest) = self.rest.strip_prefix(anything) {
                self.rest = rest;
                let is_unknown = is_some && open || rest.starts_with(['?', '*', '+', '{']);
                return (!is_unknown).then_some(true);
            }
        }
        let after = if let Some(rest) = self.rest.strip_prefix('(') {
            self.rest = rest.strip_prefix("?:").unwrap_or(rest);
            self.depth += 1;
            let after = (self.depth <= DEPTH_MAX).then(|| self.alternatives(open))??;
            self.depth -= 1;
            self.rest = self.rest.strip_prefix(')')?;
            after
        } else {
            let may_be_digit = self.letter()?;
            if open && may_be_digit {
                return None;
            }
            false
        };
        let Some(least) = self.repetition()? else { return Some(after) };
        // Of a repetition the next begins where the last ended, and without any there is what was before.
        (!after).then_some(open && least == 0)
    }

    /// How often at least the last may come; `None` without a repetition.
    fn repetition(&mut self) -> Option<Option<u32>> {
        let (least, rest) = match self.rest.chars().next() {
            Some('?' | '*') => (0, &self.rest[1..]),
            Some('+') => (1, &self.rest[1..]),
            Some('{') => {
                let (range, rest) = self.rest[1..].split_once('}')?;
                let (least, most) = range.split_once(',').unwrap_or((range, ""));
                let is_number = |it: &str| it.len() < 4 && it.chars().all(|it| it.is_ascii_digit());
                if !is_number(most) || !is_number(least) {
                    return None;
                }
                (least.parse().ok()?, rest)
            }
            _ => return Some(None),
        };
        self.rest = rest;
        // Of a repetition of a repetition the two syntaxes think otherwise.
        (!rest.starts_with(['?', '*', '+', '{'])).then_some(Some(least))
    }

    /// Reads a letter or class; whether it may be a digit of an escape.
    fn letter(&mut self) -> Option<bool> {
        if let Some(rest) = self.rest.strip_prefix('[') {
            let (class, rest) = rest.split_once(']')?;
            self.rest = rest;
            return self.class(class);
        }
        let (letter, len) = escaped(self.rest)?;
        self.rest = &self.rest[len..];
        Some(is_digit(letter, self.caseless))
    }

    fn class(&self, mut class: &str) -> Option<bool> {
        let mut may_be_digit = false;
        if class.is_empty() {
            return None;
        }
        while !class.is_empty() {
            let (first, len) = match class {
                // At the end, or at the beginning, it is itself.
                "-" => ('-', 1),
                _ if class.starts_with('.') => ('.', 1),
                _ => escaped(class)?,
            };
            class = &class[len..];
            let is_range = class.starts_with('-') && class.len() > 1;
            let last = match is_range {
                true => {
                    let (last, len) = escaped(&class[1..])?;
                    class = &class[1 + len..];
                    last
                }
                false => first,
            };
            let is_within = |sort: fn(&char) -> bool| sort(&first) && sort(&last);
            let is_known = first == last
                || first < last
                    && (is_within(char::is_ascii_digit)
                        || is_within(char::is_ascii_lowercase)
                        || is_within(char::is_ascii_uppercase));
            if !is_known {
                return None;
            }
            may_be_digit |= (first..=last).any(|it| is_digit(it, self.caseless));
        }
        Some(may_be_digit)
    }
}

/// The letter that stands for itself at the beginning, and its length; `None` if it means something else, or may be escaped in a path.
fn escaped(text: &str) -> Option<(char, usize)> {
    let mut letters = text.chars();
    match letters.next()? {
        '\\' => letters.next().filter(|it| matches!(it, '.' | '-' | '/')).map(|it| (it, 2)),
        letter if is_plain(letter) && letter != '.' => Some((letter, 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_that_see_escapes_are_not_taken_over() {
        for (text, is_known) in [
            ("^/re/.*$", true),
            ("^/api/v[0-9]+/users/[^/]+/edit$", true),
            ("\\.(php|aspx?)$", true),
            ("^.*\\.git(/|$)", true),
            ("^/a(?:b|c)*/x{2,3}", true),
            ("^/[a-z0-9_.-]+/x", true),
            ("^/a.*0x", false),
            ("admin", true),
            ("Admin", false),
            ("^/a|/b", false),
            ("^/a.$", false),
            ("^/.{3}$", false),
            ("^/[^a]+$", false),
            ("^/\\d+$", false),
            ("^/a b", false),
            ("^/a%20", false),
            ("^/a++", false),
            ("^/(a|b.*)+c", false),
            ("^/(a.*|b)9", false),
            ("^/a(?=b)", false),
            ("^/a$b", false),
            ("^[^/]*$", false),
            ("^/[a-Z]", false),
            ("^/[[:alpha:]]", false),
            ("(", false),
            ("", false),
        ] {
            assert_eq!(expression(text, false).is_some(), is_known, "{text}");
        }
        assert!(expression("admin", true).is_none());
        assert_eq!(expression("^/a", true).as_deref(), Some("\"(?i-u)^/a\""));
    }
}
