//! Patterns over bytes: exact, prefix, glob.

use super::glob::{Glob, Token};
use crate::fault::Fault;
use std::fmt;

/// What a path or a value is compared with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Whatever there is, also nothing.
    Any,
    /// Exactly these bytes.
    Exact(Box<[u8]>),
    /// These bytes, then anything.
    Prefix(Box<[u8]>),
    /// Wildcards elsewhere than at the end.
    Glob(Box<Glob>),
}

impl Pattern {
    /// Most bytes of a pattern: no path that a browser sends is longer.
    pub const LEN_MAX: usize = 2048;

    /// A pattern for [normalised](super::path::normalise) paths.
    ///
    /// `*` stands for any bytes but `/`, `**` for any bytes, `?` for one byte but `/`, and `\` takes
    /// the special meaning from what follows. A `*` at the very end stands for all the rest: `/cart/*`
    /// is everything below `/cart/`, however deep.
    pub fn path(text: &str) -> Result<Self, Fault> {
        let mut tokens = tokens(text)?;
        if !matches!(tokens[0], Token::Byte(b'/') | Token::Run | Token::Rest) {
            return Err(Fault::new("must begin with `/` or `*`"));
        }
        if let Some((part, instead)) = never_in_paths(&tokens) {
            return Err(Fault::new(format!(
                "can never match, because paths are normalised first: `{part}` never occurs, {instead}"
            )));
        }
        if let Some(last @ Token::Run) = tokens.last_mut() {
            *last = Token::Rest;
        }
        Self::of(text, &tokens, Some(b'/'))
    }

    /// A pattern for header and cookie values, where `/` is a byte like any other.
    pub fn value(text: &str) -> Result<Self, Fault> {
        if text.is_empty() {
            return Ok(Pattern::Exact(Box::default()));
        }
        Self::of(text, &tokens(text)?, None)
    }

    fn of(text: &str, tokens: &[Token], separator: Option<u8>) -> Result<Self, Fault> {
        let literal = |tokens: &[Token]| -> Option<Box<[u8]>> {
            let byte = |token: &Token| match token {
                Token::Byte(byte) => Some(*byte),
                _ => None,
            };
            tokens.iter().map(byte).collect()
        };
        if let Some(bytes) = literal(tokens) {
            return Ok(Pattern::Exact(bytes));
        }
        let (last, before) = tokens.split_last().expect("no pattern is empty");
        let open = *last == Token::Rest || (*last == Token::Run && separator.is_none());
        match literal(before).filter(|_| open) {
            Some(bytes) if bytes.is_empty() => Ok(Pattern::Any),
            Some(bytes) => Ok(Pattern::Prefix(bytes)),
            None => {
                let glob = Glob::new(text, tokens, separator)?;
                Ok(Pattern::Glob(Box::new(glob)))
            }
        }
    }

    /// Whether the whole of `text` matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        match self {
            Pattern::Any => true,
            Pattern::Exact(bytes) => text == &**bytes,
            Pattern::Prefix(bytes) => text.starts_with(bytes),
            Pattern::Glob(glob) => glob.matches(text),
        }
    }

    /// Whether everything that `other` matches is surely matched by `self`. Says no when in doubt.
    pub fn covers(&self, other: &Pattern) -> bool {
        match (self, other) {
            (Pattern::Any, _) => true,
            (_, Pattern::Any) => false,
            (_, Pattern::Exact(bytes)) => self.matches(bytes),
            (Pattern::Prefix(all), Pattern::Prefix(some)) => some.starts_with(all),
            (Pattern::Prefix(all), Pattern::Glob(some)) => some.prefix().starts_with(all),
            _ => self == other,
        }
    }
}

impl fmt::Display for Pattern {
    /// As it would be written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes)
                .replace('\\', "\\\\")
                .replace('*', "\\*")
                .replace('?', "\\?")
        };
        match self {
            Pattern::Any => f.write_str("*"),
            Pattern::Exact(bytes) => f.write_str(&escaped(bytes)),
            Pattern::Prefix(bytes) => write!(f, "{}*", escaped(bytes)),
            Pattern::Glob(glob) => glob.fmt(f),
        }
    }
}

/// Checks that a pattern is neither empty nor longer than [`Pattern::LEN_MAX`].
fn check_len(text: &str) -> Result<(), Fault> {
    match text.len() {
        0 => Err(Fault::new("must not be empty")),
        1..=Pattern::LEN_MAX => Ok(()),
        _ => Err(Fault::new(format!("must have at most {} bytes", Pattern::LEN_MAX))),
    }
}

/// The elements of a pattern, runs of stars joined.
fn tokens(text: &str) -> Result<Vec<Token>, Fault> {
    check_len(text)?;
    let dangling = || Fault::new("ends in a backslash; write `\\\\` for a backslash");
    let mut tokens = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let token = match byte {
            b'\\' => Token::Byte(bytes.next().ok_or_else(dangling)?),
            b'?' => Token::One,
            b'*' => match tokens.last_mut() {
                Some(star @ (Token::Run | Token::Rest)) => {
                    *star = Token::Rest;
                    continue;
                }
                _ => Token::Run,
            },
            byte => Token::Byte(byte),
        };
        tokens.push(token);
    }
    Ok(tokens)
}

/// A literal part that normalisation always takes away, and what to do about it.
fn never_in_paths(tokens: &[Token]) -> Option<(&'static str, &'static str)> {
    let byte = |place: usize| match tokens.get(place) {
        Some(Token::Byte(byte)) => Some(*byte),
        _ => None,
    };
    // The end of the pattern ends a segment too; a wildcard does not.
    let ends = |place: usize| place == tokens.len() || byte(place) == Some(b'/');
    let wildcard = |place: usize| place < tokens.len() && byte(place).is_none();
    let hex = |place: usize| byte(place).and_then(|byte| char::from(byte).to_digit(16));
    for place in 0..tokens.len() {
        match byte(place) {
            Some(b'/') if byte(place + 1) == Some(b'/') => return Some(("//", "write `/`")),
            Some(b'/') if byte(place + 1) == Some(b'.') => {
                if ends(place + 2) {
                    return Some(("/.", "leave it out"));
                }
                if byte(place + 2) == Some(b'.') && ends(place + 3) {
                    return Some(("/..", "write the path it leads to"));
                }
            }
            Some(b'%') => match (hex(place + 1), hex(place + 2)) {
                (Some(2), Some(15)) | (Some(2), Some(5)) | (Some(0), Some(0))
                    if byte(place + 2) != Some(b'f') => {}
                (Some(2), Some(15)) => return Some(("%2f", "write `%2F`")),
                (Some(_), Some(_)) => return Some(("%XX", "write the character itself")),
                // A wildcard behind it may stand for what completes the escape.
                _ if wildcard(place + 1) || wildcard(place + 2) => {}
                _ => return Some(("%", "write `%25`")),
            },
            _ => {}
        }
    }
    None
}

/// What a host is compared with: a name or address, or all names below one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// This host, in lower case.
    Exact(Box<str>),
    /// Every host that ends in this (it begins with a dot), in lower case, however many labels are
    /// in front.
    Below(Box<str>),
    /// This host and every host below it, in lower case.
    Within(Box<str>),
}

impl HostPattern {
    /// A pattern for hosts: `example.com`, `*.example.com`, `[::1]`. Case and a final dot are
    /// ignored, as in DNS.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let wildcard = || {
            Fault::new("may have `*` only at its beginning and followed by a dot: `*.example.com`")
        };
        let host = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let (below, name) = match host.strip_prefix('*') {
            Some(rest) if rest.starts_with('.') && rest.len() > 1 => (true, rest),
            Some(_) => return Err(wildcard()),
            None => (false, &*host),
        };
        check_len(name)?;
        if !below && name.starts_with('.') {
            return Err(Fault::new(format!(
                "must not begin with a dot; write `*{name}` for all hosts below it"
            )));
        }
        let bracketed = name.starts_with('[') && name.ends_with(']');
        for letter in name.chars() {
            match letter {
                '*' => return Err(wildcard()),
                ':' | '[' | ']' if bracketed => {}
                'a'..='z' | '0'..='9' => {}
                sign if "-._~!$&'()+,;=%".contains(sign) => {}
                other => {
                    return Err(Fault::new(format!(
                        "has {other:?}, which no host has; leave out scheme, port and path"
                    )));
                }
            }
        }
        Ok(if below { HostPattern::Below(name.into()) } else { HostPattern::Exact(name.into()) })
    }

    /// A domain: `example.com` is that host and all below it, on the borders of labels.
    pub fn domain(text: &str) -> Result<Self, Fault> {
        match Self::parse(text.strip_prefix('.').unwrap_or(text))? {
            HostPattern::Exact(name) if !name.starts_with('.') => Ok(HostPattern::Within(name)),
            _ => Err(Fault::new("must be a name without `*`; all names below it are meant too")),
        }
    }

    fn name(&self) -> &str {
        match self {
            HostPattern::Exact(name) | HostPattern::Below(name) | HostPattern::Within(name) => name,
        }
    }

    /// Bytes of the name: of two that match one host, the longer is the more specific.
    pub(super) fn name_len(&self) -> usize {
        self.name().len()
    }

    /// Whether `host` (without port) matches.
    pub fn matches(&self, host: &[u8]) -> bool {
        let (host, name) = (without_final_dot(host), self.name().as_bytes());
        let Some(start) = host.len().checked_sub(name.len()) else {
            return false;
        };
        let (before, end) = host.split_at(start);
        end.eq_ignore_ascii_case(name)
            && match self {
                HostPattern::Exact(_) => before.is_empty(),
                HostPattern::Below(_) => true,
                HostPattern::Within(_) => before.is_empty() || before.ends_with(b"."),
            }
    }

    /// Whether everything that `other` matches is matched by `self`.
    pub fn covers(&self, other: &HostPattern) -> bool {
        match (self, other) {
            (_, HostPattern::Exact(name)) => self.matches(name.as_bytes()),
            (HostPattern::Below(all), HostPattern::Below(some)) => some.ends_with(&**all),
            (HostPattern::Within(_), HostPattern::Within(name)) => self.matches(name.as_bytes()),
            // Whatever is below `.b.c` is within `c` and within `b.c`.
            (HostPattern::Within(_), HostPattern::Below(end)) => self.matches(&end.as_bytes()[1..]),
            (HostPattern::Below(_), HostPattern::Within(name)) => self.matches(name.as_bytes()),
            (HostPattern::Exact(_), _) => false,
        }
    }
}

impl fmt::Display for HostPattern {
    /// As it would be written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(name) | HostPattern::Within(name) => f.write_str(name),
            HostPattern::Below(end) => write!(f, "*{end}"),
        }
    }
}

/// The host as it is compared: `example.com.` and `example.com` are one.
pub(super) fn without_final_dot(host: &[u8]) -> &[u8] {
    host.strip_suffix(b".").unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::super::glob::MIDDLE_LEN_MAX;
    use super::*;

    #[test]
    fn a_star_at_the_end_of_a_path_is_the_rest_elsewhere_it_stops_at_a_slash() {
        let table = [
            ("/cart/*", "/cart/", true),
            ("/cart/*", "/cart/a/b", true),
            ("/cart/*", "/cart", false),
            ("/cart", "/cart", true),
            ("/cart", "/cart/", false),
            ("/img/*.png", "/img/a.png", true),
            ("/img/*.png", "/img/.png", true),
            ("/img/*.png", "/img/a/b.png", false),
            ("/img/**.png", "/img/a/b.png", true),
            ("/u/*/orders/*", "/u/7/orders/1/2", true),
            ("/u/*/orders/*", "/u/7/8/orders/1", false),
            ("/u/**/orders", "/u/7/8/orders", true),
            ("/u/**/orders", "/u/orders", false),
            ("/v?/x", "/v1/x", true),
            ("/v?/x", "/v//x", false),
            ("/v?/x", "/v/x", false),
            ("*.php", "/a.php", false),
            ("**.php", "/a/b.php", true),
            ("/a\\*", "/a*", true),
            ("/a\\*", "/ab", false),
            ("/a*a", "/a", false),
            ("*", "", true),
        ];
        for (pattern, path, expected) in table {
            let compiled = Pattern::path(pattern).unwrap();
            assert_eq!(compiled.matches(path.as_bytes()), expected, "{pattern} on {path}");
        }
    }

    #[test]
    fn in_values_a_slash_is_a_byte_like_any_other() {
        let agent = Pattern::value("*bot*").unwrap();
        assert!(agent.matches(b"Mozilla/5.0 (compatible; Googlebot/2.1)"));
        assert!(!agent.matches(b"Mozilla/5.0"));
        assert_eq!(Pattern::value("text/*").unwrap(), Pattern::Prefix((*b"text/").into()));
        assert!(Pattern::value("").unwrap().matches(b""));
    }

    #[test]
    fn patterns_that_no_normalised_path_has_are_refused() {
        for text in ["/a//b", "/a/./b", "/a/..", "/../x", "/%63art", "/a%2fb", "/50%"] {
            let fault = Pattern::path(text).unwrap_err().to_string();
            assert!(fault.starts_with("can never match"), "{text}: {fault}");
        }
        for text in [
            "/.well-known/*",
            "/a/..b",
            "/a%2Fb",
            "/50%25",
            "/a/.*",
            "/a%*",
            "/...",
            "/%00",
            "/a\\?c",
        ] {
            assert!(Pattern::path(text).is_ok(), "{text}");
        }
        // As `/a%3Fc` is seen.
        assert!(Pattern::path("/a\\?c").unwrap().matches(b"/a?c"));
        let fault = |text| Pattern::path(text).unwrap_err().to_string();
        assert_eq!(fault("cart"), "must begin with `/` or `*`");
        assert_eq!(fault("/a\\"), "ends in a backslash; write `\\\\` for a backslash");
    }

    #[test]
    fn the_longest_middle_is_accepted_and_one_more_refused() {
        let pattern = |len: usize| Pattern::path(&format!("/*{}?/x", "a".repeat(len - 2)));
        assert!(pattern(MIDDLE_LEN_MAX).is_ok());
        let fault = pattern(MIDDLE_LEN_MAX + 1).unwrap_err().to_string();
        assert!(fault.starts_with("must have at most 127 characters between"), "{fault}");
        let longest = pattern(MIDDLE_LEN_MAX).unwrap();
        let text = format!("/zz{}b/x", "a".repeat(MIDDLE_LEN_MAX - 2));
        assert!(longest.matches(text.as_bytes()));
        assert!(!longest.matches(&text.as_bytes()[1..]));
    }

    #[test]
    fn hosts_ignore_case_and_a_final_dot() {
        let exact = HostPattern::parse("Shop.Example.com.").unwrap();
        assert!(exact.matches(b"shop.example.COM"));
        assert!(exact.matches(b"shop.example.com."));
        let below = HostPattern::parse("*.example.com").unwrap();
        assert!(below.matches(b"a.b.EXAMPLE.com"));
        assert!(!below.matches(b"example.com"));
        assert!(!below.matches(b"badexample.com"));
        for text in ["*", "*.", "a.*.com", "*example.com"] {
            let fault = HostPattern::parse(text).unwrap_err().to_string();
            assert!(fault.starts_with("may have `*` only at its beginning"), "{text}: {fault}");
        }
        let fault = HostPattern::parse("a.com:80").unwrap_err().to_string();
        assert!(fault.starts_with("has ':', which no host has"), "{fault}");
        assert!(HostPattern::parse("[::1]").unwrap().matches(b"[::1]"));
    }

    #[test]
    fn cover_is_never_claimed_wrongly() {
        let path = |text| Pattern::path(text).unwrap();
        assert!(path("/a/*").covers(&path("/a/b/*")));
        assert!(path("/a/*").covers(&path("/a/*.png")));
        assert!(path("/a/*.png").covers(&path("/a/x.png")));
        assert!(!path("/a/b/*").covers(&path("/a/*")));
        assert!(!path("/a").covers(&path("/a/*")));
        assert!(path("*").covers(&path("/a/*/b")));
    }
}
