//! Regular expressions: nginx's are PCRE's, over bytes, and rules have Rust's.

/// The expression as `path_regex` has it, over bytes; `None` if it may mean something else there. What rules do not have at all, look-arounds
/// and references, stays, because they refuse it.
///
/// Source: pcre2pattern(3), and <https://docs.rs/regex/latest/regex/#syntax>. `$` is also before a last line feed in PCRE; no path
/// has one that rules see, nor another control character.
pub(super) fn path_expression(text: &str, is_caseless: bool) -> Option<String> {
    let (text, is_caseless) = match text.strip_prefix("(?i)") {
        Some(rest) => (rest, true),
        None => (text, is_caseless),
    };
    let flags = if is_caseless { "(?i-u)" } else { "(?-u)" };
    let mut rest = text;
    let mut is_repeated = false;
    while !rest.is_empty() {
        let (len, repeats) = piece(rest, is_repeated)?;
        rest = &rest[len..];
        is_repeated = repeats;
    }
    Some(format!("{flags}{text}"))
}

/// The length of what begins an expression, and whether it says how often something is repeated; `is_repeated`: so does what stands before it.
fn piece(rest: &str, is_repeated: bool) -> Option<(usize, bool)> {
    let bytes = rest.as_bytes();
    Some(match bytes[0] {
        b'\\' => (escape(bytes)?, false),
        b'[' => (class(rest)?, false),
        b'(' => (group(rest)?, false),
        // As few as possible.
        b'?' if is_repeated => (1, false),
        b'*' | b'+' | b'?' if !is_repeated => (1, true),
        b'{' if !is_repeated => (count(rest)?, true),
        b'*' | b'+' | b'{' | b'}' | b']' => return None,
        b' '..=b'~' => (1, false),
        _ => return None,
    })
}

fn escape(bytes: &[u8]) -> Option<usize> {
    let is_same = match bytes.get(1)? {
        // Ends of words in one, signs in the other.
        b'<' | b'>' => false,
        it if it.is_ascii_punctuation() || it.is_ascii_digit() => true,
        it => b"dDwWsSbBAz".contains(it),
    };
    is_same.then_some(2)
}

/// A class in brackets. Rust's have operations of sets, and classes within.
fn class(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let mut at = 1 + usize::from(bytes.get(1) == Some(&b'^'));
    // The first is a letter like others.
    at += usize::from(bytes.get(at) == Some(&b']'));
    loop {
        let two = bytes.get(at..at + 2).unwrap_or_default();
        at += match *bytes.get(at)? {
            b']' => return Some(at + 1),
            b'\\' if two != b"\\b" && two != b"\\B" && two != b"\\A" && two != b"\\z" => {
                escape(&bytes[at..])?
            }
            b'[' if two == b"[:" => {
                let name = rest[at + 2..].split_once(":]")?.0;
                let is_name = name.bytes().all(|it| it.is_ascii_lowercase());
                is_name.then_some(name.len() + 4)?
            }
            b'[' | b'\\' => return None,
            b'&' | b'-' | b'~' if two[..] == [bytes[at]; 2] => return None,
            b' '..=b'~' => 1,
            _ => return None,
        };
    }
}

fn group(rest: &str) -> Option<usize> {
    let Some(after) = rest.strip_prefix("(?") else {
        return (!rest.starts_with("(*")).then_some(1);
    };
    let plain = [":", "=", "!", "<=", "<!"];
    if let Some(sign) = plain.iter().find(|it| after.starts_with(**it)) {
        return Some(2 + sign.len());
    }
    let name = after.strip_prefix("P<").or_else(|| after.strip_prefix('<'))?;
    let (name, behind) = name.split_once('>')?;
    let is_name = name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
    is_name.then_some(rest.len() - behind.len())
}

/// `{n}`, `{n,}` or `{n,m}`.
fn count(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('{')?.split_once('}')?.0;
    let (least, most) = inner.split_once(',').unwrap_or((inner, ""));
    let are_digits = [least, most].iter().all(|it| it.bytes().all(|it| it.is_ascii_digit()));
    (are_digits && !least.is_empty()).then_some(inner.len() + 2)
}

/// An expression for a text without regard to case; `None` if it has other than ASCII.
pub(super) fn caseless(text: &str) -> Option<String> {
    let mut expression = "(?i-u)^".to_owned();
    for letter in text.chars() {
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '/' | '-' | '_' => expression.push(letter),
            ' '..='~' if letter.is_ascii_punctuation() && !matches!(letter, '<' | '>') => {
                expression.extend(['\\', letter]);
            }
            ' '..='~' => expression.push(letter),
            _ => return None,
        }
    }
    Some(expression + "$")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiergate_core::classify::PathRegex;

    #[test]
    fn expressions_that_mean_the_same_are_over_bytes() {
        let cases: [(&str, &[u8], bool); 8] = [
            ("\\.(php|cgi)$", b"/x.php", true),
            ("^/re/.*$", b"/re/\xff", true),
            ("^/re/[^/]+$", b"/re/\xff\xfe", true),
            ("^/\\w{2,3}?$", b"/\xc3\xa9", false),
            ("^/[[:alpha:]\\d-]+$", b"/a-1", true),
            ("^/[]a]$", b"/]", true),
            ("(?i)^/\\$A", b"/$a", true),
            ("^/(?<name>a)(?:b)$", b"/ab", true),
        ];
        for (text, path, matches) in cases {
            let made = path_expression(text, false).expect(text);
            let regex = PathRegex::parse(&made).expect(text);
            assert_eq!(regex.matches(path), matches, "{text}");
        }
        assert_eq!(path_expression("a", true).as_deref(), Some("(?i-u)a"));
        let whole = caseless("/a.b<").expect("ASCII");
        assert!(PathRegex::parse(&whole).expect("one").matches(b"/A.B<"));
        assert_eq!(caseless("/é"), None);
    }

    #[test]
    fn expressions_that_may_mean_something_else_are_none() {
        for text in [
            "\\<a", "a\\>", "[a&&b]", "[a--b]", "[a~~b]", "[a[b]]", "a++", "a*+", "a{,3}", "a{x}",
            "a}", "é", "[é]", "(?>a)", "a(?i)b", "(?#x)", "\\h", "\\Qa\\E", "(*UTF8)a", "\\x41",
            "[a", "\\",
        ] {
            assert_eq!(path_expression(text, false), None, "{text}");
        }
    }
}
