//! Paths that servers read differently.

use super::handling::Handling;
use std::fmt;

/// Why a path is refused: servers differ in what they take it for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ambiguity {
    /// A `%` without two hexadecimal digits, which RFC 3986 does not allow: a letter to some; others
    /// know `%u0041`.
    Escape,
    /// An encoded control character. NUL ends a text for some, others trim or split at a line's end.
    Control,
    /// A character in more bytes of UTF-8 than it needs (`%C0%AF`), which lenient decoders take for the
    /// character.
    Overlong,
    /// A `.` or `..` between separators that are not plain slashes (`..%2F`, `..\`); or with parameters
    /// (`/..;a=b/`), or nothing but parameters (`/;a=b/x`), which servlet containers strip first.
    Segment,
    /// `%2F`.
    EncodedSlash,
    /// A backslash, encoded or not: a separator to servers for Windows.
    Backslash,
    /// An encoded `%` before two hexadecimal digits: an escape to servers that decode twice.
    DoubleEncoding,
}

impl Ambiguity {
    /// What is wrong with the path.
    pub fn why(self) -> &'static str {
        match self {
            Ambiguity::Escape => "% without two hexadecimal digits in the path",
            Ambiguity::Control => "encoded control character in the path",
            Ambiguity::Overlong => "overlong UTF-8 in the path",
            Ambiguity::Segment => "empty or dot segment in the path that servers read differently",
            Ambiguity::EncodedSlash => "encoded slash in the path",
            Ambiguity::Backslash => "backslash in the path",
            Ambiguity::DoubleEncoding => "double encoding in the path",
        }
    }

    /// Whether paths with it are refused. The last three occur in paths that are well meant.
    fn is_refused(self, handling: Handling) -> bool {
        use Ambiguity::{Backslash, DoubleEncoding, EncodedSlash};
        match self {
            EncodedSlash | Backslash | DoubleEncoding => handling == Handling::Strict,
            _ => handling != Handling::AsReceived,
        }
    }
}

impl fmt::Display for Ambiguity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why())
    }
}

impl std::error::Error for Ambiguity {}

/// Checks a path as rules see it.
pub(super) fn check(judged: &[u8], handling: Handling) -> Result<(), Ambiguity> {
    for at in 0..judged.len() {
        match found(&judged[at..]) {
            Some(ambiguity) if ambiguity.is_refused(handling) => return Err(ambiguity),
            _ => {}
        }
    }
    Ok(())
}

/// What begins at the start of `rest`. All escapes that rules still see are in upper case.
fn found(rest: &[u8]) -> Option<Ambiguity> {
    // First, because a separator is a fault of its own.
    if separator_len(rest).is_some_and(|len| begins_with_hidden_segment(&rest[len..])) {
        return Some(Ambiguity::Segment);
    }
    match *rest {
        [b'%', b'0', b'0', ..] | [0..=0x1f | 0x7f, ..] => Some(Ambiguity::Control),
        [b'%', b'2', b'F', ..] => Some(Ambiguity::EncodedSlash),
        [b'%', b'2', b'5', high, low, ..]
            if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
        {
            Some(Ambiguity::DoubleEncoding)
        }
        [b'\\', ..] => Some(Ambiguity::Backslash),
        [0xc0 | 0xc1, 0x80..=0xbf, ..]
        | [0xe0, 0x80..=0x9f, 0x80..=0xbf, ..]
        | [0xf0, 0x80..=0x8f, 0x80..=0xbf, 0x80..=0xbf, ..] => Some(Ambiguity::Overlong),
        _ => None,
    }
}

/// Bytes of what some server takes for a slash at the start of `rest`.
fn separator_len(rest: &[u8]) -> Option<usize> {
    match rest {
        [b'/' | b'\\', ..] => Some(1),
        [b'%', b'2', b'F', ..] => Some(3),
        _ => None,
    }
}

/// Whether `rest` begins with a segment that some server takes for an empty one, `.` or `..`. Those between
/// plain slashes are resolved already.
fn begins_with_hidden_segment(rest: &[u8]) -> bool {
    match rest {
        // The last may have nothing else: `/;jsessionid=1` is what servlet containers write themselves.
        [b';', after @ ..] => (0..after.len()).any(|at| separator_len(&after[at..]).is_some()),
        [b'.', b'.', after @ ..] | [b'.', after @ ..] => {
            after.is_empty() || after[0] == b';' || separator_len(after).is_some()
        }
        _ => false,
    }
}
