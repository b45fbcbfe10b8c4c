//! A path rewritten to the one spelling that is sent, and to the one that rules see.

use super::ambiguity::Ambiguity;

/// Whether the path has a `%`, a backslash, or a slash followed by a slash, a dot or a semicolon.
pub(super) fn is_suspicious(path: &[u8]) -> bool {
    // Eight bytes at a time: a byte of `apart` is zero where the byte and its sign are alike.
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let marks = |word: u64, sign: u8| {
        let apart = word ^ (LOW * u64::from(sign));
        // Exact in every byte, unlike the shorter form that borrows from the byte below.
        !(((apart & !HIGH) + !HIGH) | apart) & HIGH
    };
    let word =
        |bytes: &[u8]| u64::from_le_bytes(*bytes.first_chunk::<8>().expect("nine bytes are left"));
    let mut rest = path;
    while rest.len() > 8 {
        let (here, next) = (word(rest), word(&rest[1..]));
        let begins = marks(next, b'/') | marks(next, b'.') | marks(next, b';');
        let slashes = marks(here, b'/') & begins;
        if slashes | marks(here, b'%') | marks(here, b'\\') != 0 {
            return true;
        }
        rest = &rest[8..];
    }
    rest.iter().any(|byte| matches!(byte, b'%' | b'\\'))
        || rest.windows(2).any(|two| matches!(two, b"//" | b"/." | b"/;"))
}

/// Writes the path as it is sent to `out` (cleared first); `slashes`: with encoded slashes and backslashes
/// as slashes.
///
/// # Errors
/// [`Ambiguity::Escape`] if a `%` begins no escape; it is then written as `%25`.
pub(super) fn simplify(raw: &[u8], slashes: bool, out: &mut Vec<u8>) -> Result<(), Ambiguity> {
    out.clear();
    // Decoding first, then segments: `%2e%2e` is `..`.
    let escapes = decode_unreserved(raw, slashes, out);
    resolve(out);
    escapes
}

/// The byte that an escape at the start of `bytes` stands for.
fn escaped(bytes: &[u8]) -> Option<u8> {
    let hex = |byte: u8| char::from(byte).to_digit(16);
    match *bytes {
        [b'%', high, low, ..] => Some((hex(high)? * 16 + hex(low)?) as u8),
        _ => None,
    }
}

fn decode_unreserved(raw: &[u8], slashes: bool, out: &mut Vec<u8>) -> Result<(), Ambiguity> {
    let mut escapes = Ok(());
    let mut rest = raw;
    while let [byte, after @ ..] = rest {
        let escape = escaped(rest);
        rest = if escape.is_some() { &rest[3..] } else { after };
        match (escape.unwrap_or(*byte), escape) {
            (b'/' | b'\\', _) if slashes => out.push(b'/'),
            (b'%', None) => {
                escapes = Err(Ambiguity::Escape);
                out.extend_from_slice(b"%25");
            }
            (byte, Some(_)) if !is_unreserved(byte) => put_escape(byte, out),
            (byte, _) => out.push(byte),
        }
    }
    escapes
}

/// Source: RFC 3986 §2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn put_escape(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// The path as rules see it, from the one that is sent: that itself if it has no escapes, else written to
/// `out`.
pub(super) fn decode<'a>(sent: &'a [u8], out: &'a mut Vec<u8>) -> &'a [u8] {
    if !sent.contains(&b'%') {
        return sent;
    }
    out.clear();
    let mut rest = sent;
    while let [byte, after @ ..] = rest {
        match escaped(rest) {
            Some(stays @ (b'/' | b'%' | 0)) => put_escape(stays, out),
            Some(byte) => out.push(byte),
            None => {
                out.push(*byte);
                rest = after;
                continue;
            }
        }
        rest = &rest[3..];
    }
    out
}

/// Drops empty and `.` segments and resolves `..`, in place: what is written never overtakes what is
/// read.
fn resolve(path: &mut Vec<u8>) {
    let mut written = 0;
    let mut read = 0;
    // Each turn takes a slash and the segment behind it.
    while read < path.len() {
        let start = read + 1;
        let end = path[start..].iter().position(|byte| *byte == b'/');
        let end = end.map_or(path.len(), |len| start + len);
        let last = end == path.len();
        match &path[start..end] {
            b"" | b"." => {}
            b".." => {
                let parent = path[..written].iter().rposition(|byte| *byte == b'/');
                written = parent.unwrap_or(0);
            }
            _ => {
                path.copy_within(read..end, written);
                written += end - read;
                read = end;
                continue;
            }
        }
        read = end;
        if last {
            // A path that ends in nothing, `.` or `..` names a directory. There is room: the slash
            // just read is at or behind this place.
            path[written] = b'/';
            written += 1;
        }
    }
    path.truncate(written);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_work_is_seen_at_every_place() {
        for len in 2..40 {
            for place in 1..len - 1 {
                for bad in [&b"%4"[..], b"//", b"/.", b"/;", b"\\x", b"x\\"] {
                    let mut path = vec![b'x'; len];
                    path[0] = b'/';
                    path[place..place + 2].copy_from_slice(bad);
                    assert!(is_suspicious(&path), "{}", String::from_utf8_lossy(&path));
                }
            }
        }
    }
}
