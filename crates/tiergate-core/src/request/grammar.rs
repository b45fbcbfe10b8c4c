//! The grammars of a request's head: the path's extension, the query's parameters, and the fields that
//! have a grammar of their own.

/// The part behind the last dot of a path's last segment: `png` of `/a/b.png`. None if the segment has
/// no dot, or only at its beginning (`/.profile`) or end.
pub(super) fn extension(path: &[u8]) -> Option<&[u8]> {
    let segment = memchr::memrchr(b'/', path).map_or(path, |slash| &path[slash + 1..]);
    let dot = memchr::memrchr(b'.', segment).filter(|dot| *dot > 0)?;
    Some(&segment[dot + 1..]).filter(|extension| !extension.is_empty())
}

/// Calls `found` with the name and value of every parameter of a query, decoded once: `+` is a space,
/// a stray `%` is itself. `buffer` is written to where there is something to decode.
///
/// Source: WHATWG URL, application/x-www-form-urlencoded, read as servers do. O(query).
pub(crate) fn parameters<'q>(
    query: &'q [u8],
    buffer: &'q mut Vec<u8>,
    mut found: impl FnMut(&[u8], &[u8]),
) {
    for pair in query.split(|byte| *byte == b'&') {
        if pair.is_empty() {
            continue;
        }
        let (name, value) = match memchr::memchr(b'=', pair) {
            Some(sign) => (&pair[..sign], &pair[sign + 1..]),
            None => (pair, &pair[..0]),
        };
        if memchr::memchr2(b'%', b'+', pair).is_none() {
            found(name, value);
            continue;
        }
        buffer.clear();
        decode(name, buffer);
        let name_len = buffer.len();
        decode(value, buffer);
        found(&buffer[..name_len], &buffer[name_len..]);
    }
}

fn decode(text: &[u8], out: &mut Vec<u8>) {
    let hex = |place: usize| text.get(place).and_then(|byte| char::from(*byte).to_digit(16));
    let mut place = 0;
    while let Some(byte) = text.get(place) {
        match (byte, hex(place + 1), hex(place + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                place += 2;
            }
            (b'+', ..) => out.push(b' '),
            _ => out.push(*byte),
        }
        place += 1;
    }
}

/// Longest media type that is looked at: both of its parts have at most 127 characters (RFC 6838 §4.2).
const MEDIA_TYPE_LEN_MAX: usize = 255;

/// The type of a `Content-Type` without its parameters, in lower case; `None` if it is empty or too long
/// to be one.
pub(super) fn media_type<'f>(field: &'f [u8], buffer: &'f mut Vec<u8>) -> Option<&'f [u8]> {
    let end = memchr::memchr(b';', field).unwrap_or(field.len());
    let found = field[..end].trim_ascii();
    if found.is_empty() || found.len() > MEDIA_TYPE_LEN_MAX {
        return None;
    }
    if !found.iter().any(u8::is_ascii_uppercase) {
        return Some(found);
    }
    buffer.clear();
    buffer.extend_from_slice(found);
    buffer.make_ascii_lowercase();
    Some(buffer)
}

/// The number of a `Content-Length`; `None` if it is none.
pub(super) fn content_length(value: &[u8]) -> Option<u64> {
    let digits = value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
}

/// Whether a `Sec-Purpose`, `Purpose` or `X-Moz` says that the page is fetched before anybody wants to
/// see it. Source: WHATWG Fetch, `Sec-Purpose`; the others are what browsers sent before.
pub(super) fn is_prefetch(value: &[u8]) -> bool {
    let end = memchr::memchr2(b';', b',', value).unwrap_or(value.len());
    value[..end].trim_ascii().eq_ignore_ascii_case(b"prefetch")
}

/// What a request without the field has (RFC 9218 §4.1).
pub(super) const URGENCY_DEFAULT: u64 = 3;

/// The urgency in a `Priority` field: 0 the most urgent, 7 the least; `None` if the field says nothing
/// that makes sense. Source: RFC 9218 §4.1; of several the last counts, as in any dictionary.
pub(super) fn urgency(value: &[u8]) -> Option<u64> {
    let of_member = |member: &[u8]| match member.trim_ascii() {
        [b'u', b'=', digit @ b'0'..=b'7'] => Some(u64::from(digit - b'0')),
        [b'u', b'=', digit @ b'0'..=b'7', b';' | b' ', ..] => Some(u64::from(digit - b'0')),
        _ => None,
    };
    value.split(|byte| *byte == b',').rev().find_map(of_member)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions() {
        for (path, expected) in [
            ("/a/b.png", Some("png")),
            ("/a.tar.gz", Some("gz")),
            ("/a.b/c", None),
            ("/.profile", None),
            ("/a.", None),
            ("/", None),
            ("", None),
            ("/..x", Some("x")),
        ] {
            assert_eq!(extension(path.as_bytes()), expected.map(str::as_bytes), "{path}");
        }
    }

    #[test]
    fn parameters_are_decoded_once() {
        let read = |query: &str| {
            let mut found = Vec::new();
            parameters(query.as_bytes(), &mut Vec::new(), |name, value| {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                found.push((text(name), text(value)));
            });
            found
        };
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
        };
        assert_eq!(read("a=1&b&&c=2=3"), pairs(&[("a", "1"), ("b", ""), ("c", "2=3")]));
        assert_eq!(read("%61+b=%2541%3d+%zz%"), pairs(&[("a b", "%41= %zz%")]));
        assert_eq!(read(""), pairs(&[]));
        assert_eq!(read("=x"), pairs(&[("", "x")]));
    }

    #[test]
    fn fields_with_a_grammar() {
        let media = |text: &str| {
            let mut buffer = Vec::new();
            let media = media_type(text.as_bytes(), &mut buffer);
            media.map(|media| String::from_utf8(media.to_vec()).unwrap())
        };
        assert_eq!(media("Text/HTML; charset=utf-8").as_deref(), Some("text/html"));
        assert_eq!(media(" ; x"), None);
        assert_eq!(media(&"a".repeat(256)), None);
        assert_eq!(media(&"a".repeat(255)).map(|media| media.len()), Some(255));

        assert_eq!(content_length(b"18446744073709551615"), Some(u64::MAX));
        for wrong in [&b""[..], b"-1", b"+1", b"18446744073709551616", b"1,1"] {
            assert_eq!(content_length(wrong), None);
        }

        for prefetch in ["prefetch", "Prefetch", "prefetch;prerender", " prefetch , x"] {
            assert!(is_prefetch(prefetch.as_bytes()), "{prefetch}");
        }
        for other in ["", "prefetcher", "x;prefetch", "prerender"] {
            assert!(!is_prefetch(other.as_bytes()), "{other}");
        }

        for (value, expected) in [
            ("u=5", Some(5)),
            ("i, u=0", Some(0)),
            ("u=1;x=2, i", Some(1)),
            ("u=1, u=6", Some(6)),
            ("u=8", None),
            ("u=-1", None),
            ("U=1", None),
            ("u", None),
            ("au=1", None),
            ("u=12", None),
            ("", None),
        ] {
            assert_eq!(urgency(value.as_bytes()), expected, "{value}");
        }
    }
}
