//! One spelling for each path, so that no rule is evaded by another.

/// The path as rules see it: escapes decoded once, `//` made `/`, `.` and `..` resolved.
///
/// Borrowed from `raw`, at the cost of one look at each byte, when there is nothing to do; written to
/// `out` (cleared first) otherwise, in linear time. What the origin gets is the path as sent.
///
/// - `%2F` (an encoded slash) stays, in upper case: it is no separator, and decoding it would let
///   `/a%2F..%2Fcart` and `/cart` look alike where the origin tells them apart.
/// - `%25` stays, and a `%` without two digits behind it becomes `%25`, so that nothing decodes twice
///   and the result is its own normal form.
/// - `%00` stays, so that no path ends before its end for anyone.
/// - `..` above the root stays at the root (RFC 3986 §5.2.4).
/// - What does not begin with `/` (`*`, an authority) is returned as it is; nothing at all is `/`.
///
/// Known weakness: an origin that strips path parameters (`/cart;v=1`), ignores case or takes `\` for
/// `/` spells one path in more ways than this undoes; write rules for such origins with a glob.
pub fn normalise<'a>(raw: &'a [u8], out: &'a mut Vec<u8>) -> &'a [u8] {
    if raw.is_empty() {
        return b"/";
    }
    if raw[0] != b'/' || !suspicious(raw) {
        return raw;
    }
    out.clear();
    // Decoding first, then segments: `%2e%2e` is `..`.
    decode(raw, out);
    resolve(out);
    out
}

/// Whether the path has a `%`, or a slash followed by a slash or a dot.
fn suspicious(path: &[u8]) -> bool {
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
        let slashes = marks(here, b'/') & (marks(next, b'/') | marks(next, b'.'));
        if slashes | marks(here, b'%') != 0 {
            return true;
        }
        rest = &rest[8..];
    }
    rest.contains(&b'%') || rest.windows(2).any(|two| matches!(two, b"//" | b"/."))
}

/// Appends `raw` with its escapes decoded, but for those that stay.
fn decode(raw: &[u8], out: &mut Vec<u8>) {
    let hex = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut rest = raw;
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let (Some(high), Some(low)) = (hex(after.first()), hex(after.get(1))) else {
            out.extend_from_slice(b"%25");
            continue;
        };
        rest = &after[2..];
        match (high * 16 + low) as u8 {
            b'/' => out.extend_from_slice(b"%2F"),
            b'%' => out.extend_from_slice(b"%25"),
            0 => out.extend_from_slice(b"%00"),
            decoded => out.push(decoded),
        }
    }
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
    use proptest::prelude::*;

    fn normal(raw: &[u8]) -> Vec<u8> {
        normalise(raw, &mut Vec::new()).to_vec()
    }

    #[test]
    fn spellings_of_one_path_become_one() {
        let table = [
            ("/cart", "/cart"),
            ("/%63art", "/cart"),
            ("//cart", "/cart"),
            ("/x/../cart", "/cart"),
            ("/./cart", "/cart"),
            ("/%2e%2E/cart", "/cart"),
            ("/x/%2e./cart", "/cart"),
            ("/x//../cart", "/cart"),
            ("/../../cart", "/cart"),
            ("///", "/"),
            ("", "/"),
            ("/", "/"),
            ("/cart/", "/cart/"),
            ("/cart//", "/cart/"),
            ("/cart/.", "/cart/"),
            ("/cart/x/..", "/cart/"),
            ("/..", "/"),
            ("/.", "/"),
            ("/...", "/..."),
            ("/.well-known/x", "/.well-known/x"),
            ("/a%2fb", "/a%2Fb"),
            ("/a%2F..%2fcart", "/a%2F..%2Fcart"),
            ("/a%00b", "/a%00b"),
            ("/%2563art", "/%2563art"),
            ("/50%", "/50%25"),
            ("/%zz", "/%25zz"),
            ("/%%363", "/%2563"),
            ("/%c3%a9", "/é"),
            ("/a%20b", "/a b"),
            ("*", "*"),
            ("example.com:443", "example.com:443"),
            ("/..;/cart", "/..;/cart"),
            ("/a/b/../../..//c", "/c"),
        ];
        for (raw, expected) in table {
            let got = normal(raw.as_bytes());
            assert_eq!(String::from_utf8_lossy(&got), expected, "from {raw}");
        }
    }

    #[test]
    fn an_ordinary_path_is_borrowed() {
        let mut out = Vec::new();
        let raw = b"/products/category/shoes.html";
        assert!(std::ptr::eq(normalise(raw, &mut out), raw));
        assert_eq!(out.capacity(), 0);
    }

    #[test]
    fn what_needs_work_is_seen_at_every_place() {
        for len in 2..40 {
            for place in 1..len - 1 {
                for bad in [&b"%4"[..], b"//", b"/."] {
                    let mut path = vec![b'x'; len];
                    path[0] = b'/';
                    path[place..place + 2].copy_from_slice(bad);
                    assert!(suspicious(&path), "{}", String::from_utf8_lossy(&path));
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn the_result_is_its_own_normal_form(tail in "[/.a%2EfF5e0]{0,24}") {
            let once = normal(format!("/{tail}").as_bytes());
            prop_assert_eq!(&normal(&once), &once);
            prop_assert_eq!(once[0], b'/');
            let text = String::from_utf8_lossy(&once);
            prop_assert!(!text.contains("//"));
            prop_assert!(!text.split('/').any(|segment| segment == "." || segment == ".."));
        }

        #[test]
        fn escaping_any_byte_changes_nothing(
            path in "/[a-z./]{0,20}", place in 0usize..20,
        ) {
            let place = place.min(path.len() - 1);
            let byte = path.as_bytes()[place];
            if byte == b'/' {
                return Ok(());
            }
            let escaped = format!("{}%{byte:02X}{}", &path[..place], &path[place + 1..]);
            prop_assert_eq!(normal(escaped.as_bytes()), normal(path.as_bytes()));
        }
    }
}
