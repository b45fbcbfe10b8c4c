//! The encoding of a page, as a browser finds it.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use memchr::memmem;

/// How far a browser looks for a declaration, in bytes.
const PRESCAN: usize = 1024;

/// The encoding of a page, or why it cannot be rewritten.
///
/// By its byte order mark, or by its `meta` element; without either UTF-8 if it is valid, else windows-1252. That one stands for
/// whatever the server declares: all that matters is that markup is ASCII, and bytes beyond are left as they are.
///
/// Source: the HTML standard, "determining the character encoding".
pub(super) fn encoding_of(bytes: &[u8]) -> Result<&'static Encoding, &'static str> {
    const WIDE: &str = "an encoding in which markup is not ASCII";
    let found = match Encoding::for_bom(bytes) {
        Some((encoding, _)) => encoding,
        None if bytes[..bytes.len().min(PRESCAN)].contains(&0) => return Err("not a text"),
        None => match declared(&bytes[..bytes.len().min(PRESCAN)]) {
            Some(encoding) => encoding,
            None if std::str::from_utf8(bytes).is_ok() && !bytes.contains(&0x1b) => UTF_8,
            None if bytes.contains(&0x1b) => return Err(WIDE),
            None => WINDOWS_1252,
        },
    };
    if found.is_ascii_compatible() { Ok(found) } else { Err(WIDE) }
}

/// What a `meta` element declares.
fn declared(head: &[u8]) -> Option<&'static Encoding> {
    let head = without_comments(&head.to_ascii_lowercase());
    let mut rest = &head[..];
    while let Some(at) = memmem::find(rest, b"<meta") {
        rest = &rest[at + 5..];
        let tag = &rest[..memchr::memchr(b'>', rest).unwrap_or(rest.len())];
        let Some(at) = memmem::find(tag, b"charset") else { continue };
        let Some(value) = tag[at + 7..].trim_ascii_start().strip_prefix(b"=") else { continue };
        let value = value.trim_ascii_start();
        let value = value.strip_prefix(b"\"").or(value.strip_prefix(b"'")).unwrap_or(value);
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"';/".contains(byte);
        let label = &value[..value.iter().position(ends).unwrap_or(value.len())];
        if let Some(encoding) = Encoding::for_label(label) {
            // What was read as ASCII is no UTF-16, whatever it says; the standard has both rules.
            return Some(match encoding.name() {
                "UTF-16LE" | "UTF-16BE" => UTF_8,
                "x-user-defined" => WINDOWS_1252,
                _ => encoding,
            });
        }
    }
    None
}

fn without_comments(head: &[u8]) -> Vec<u8> {
    let (mut kept, mut rest) = (Vec::with_capacity(head.len()), head);
    while let Some(at) = memmem::find(rest, b"<!--") {
        kept.extend_from_slice(&rest[..at]);
        let end = memmem::find(&rest[at..], b"-->").map(|end| at + end + 3);
        rest = &rest[end.unwrap_or(rest.len())..];
    }
    kept.extend_from_slice(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings() {
        for (page, name) in [
            (&b"<html>\xc3\xa9"[..], "UTF-8"),
            (b"<html>\xe9", "windows-1252"),
            (b"<meta charset=iso-8859-1>\xc3\xa9", "windows-1252"),
            (b"<META http-equiv=Content-Type content='text/html; charset=Shift_JIS'>", "Shift_JIS"),
            (b"<!-- <meta charset=gbk> --><meta charset = \"koi8-r\">", "KOI8-R"),
            (b"<meta name=charset><meta charset='utf-16'>", "UTF-8"),
            (b"\xef\xbb\xbf<meta charset=gbk>", "UTF-8"),
            (b"", "UTF-8"),
        ] {
            let text = String::from_utf8_lossy(page);
            assert_eq!(encoding_of(page).map(Encoding::name), Ok(name), "{text}");
        }
        for wrong in
            [&b"\xff\xfe<\0h\0"[..], b"<\0h\0t\0", b"<meta charset=iso-2022-jp>", b"\x1b$B"]
        {
            assert!(encoding_of(wrong).is_err(), "{wrong:?}");
        }
    }
}
