//! The pairs of a `Cookie` header.

/// The name and value of every pair, in the order sent, without surrounding white space.
///
/// A part without `=` is a name with an empty value; quotes belong to the value; nothing is decoded.
/// Source: RFC 6265bis §5.8.3 (how browsers write it), read as leniently as servers do.
pub(crate) fn pairs(header: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = Some(header);
    std::iter::from_fn(move || {
        let line = rest?;
        let pair = match memchr::memchr(b';', line) {
            Some(end) => {
                rest = Some(&line[end + 1..]);
                &line[..end]
            }
            None => {
                rest = None;
                line
            }
        };
        // Names are short: a plain loop finds the sign sooner than a vectorised search starts.
        Some(match pair.iter().position(|byte| *byte == b'=') {
            Some(sign) => (trim(&pair[..sign]), trim(&pair[sign + 1..])),
            None => (trim(pair), &pair[..0]),
        })
    })
}

fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_as_servers_read_them() {
        let read = |header: &'static str| -> Vec<(&str, &str)> {
            let text = |bytes| std::str::from_utf8(bytes).unwrap();
            pairs(header.as_bytes()).map(|(name, value)| (text(name), text(value))).collect()
        };
        assert_eq!(read("a=1; b=2;c=3"), [("a", "1"), ("b", "2"), ("c", "3")]);
        assert_eq!(read(" a = 1=2 ;b"), [("a", "1=2"), ("b", "")]);
        assert_eq!(read("a=\"x\";;"), [("a", "\"x\""), ("", ""), ("", "")]);
        assert_eq!(read(""), [("", "")]);
    }
}
