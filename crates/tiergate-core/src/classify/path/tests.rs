use super::*;
use proptest::prelude::*;

const ALL: [Handling; 4] =
    [Handling::Strict, Handling::Decoded, Handling::Normalised, Handling::AsReceived];

/// A path as it is judged and as it is sent.
fn both(raw: &[u8], handling: Handling) -> Result<(Vec<u8>, Vec<u8>), Ambiguity> {
    let mut buffers = Buffers::default();
    let paths = normalise(raw, handling, &mut buffers).map_err(|unclear| unclear.ambiguity)?;
    Ok((paths.judged.to_vec(), paths.sent.unwrap_or(raw).to_vec()))
}

fn texts(raw: &str, handling: Handling) -> Result<(String, String), Ambiguity> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    both(raw.as_bytes(), handling).map(|(judged, sent)| (text(judged), text(sent)))
}

#[test]
fn spellings_of_one_path_become_one() {
    let table = [
        ("/%63art", "/cart"),
        ("//cart", "/cart"),
        ("/x/../cart", "/cart"),
        ("/./cart", "/cart"),
        ("/%2e%2E/cart", "/cart"),
        ("/x/%2e./cart", "/cart"),
        ("/x//../cart", "/cart"),
        ("/../../cart", "/cart"),
        ("///", "/"),
        ("/", "/"),
        ("/cart/", "/cart/"),
        ("/cart//", "/cart/"),
        ("/cart/.", "/cart/"),
        ("/cart/x/..", "/cart/"),
        ("/..", "/"),
        ("/.", "/"),
        ("/...", "/..."),
        ("/.well-known/x", "/.well-known/x"),
        ("*", "*"),
        ("/a/b/../../..//c", "/c"),
        ("/%7Euser/%2D%5f%2e", "/~user/-_."),
    ];
    for (raw, expected) in table {
        for handling in ALL {
            let sent = if handling == Handling::AsReceived { raw } else { expected };
            let expected = Ok((expected.to_owned(), sent.to_owned()));
            assert_eq!(texts(raw, handling), expected, "from {raw}");
        }
    }
    for handling in ALL {
        assert_eq!(texts("", handling), Ok(("/".to_owned(), String::new())));
    }
}

#[test]
fn what_needs_its_escape_keeps_it_on_the_way() {
    // As received, as judged, as sent.
    let table = [
        ("/a%20b", "/a b", "/a%20b"),
        ("/%c3%a9", "/é", "/%C3%A9"),
        ("/a%3Bb;c", "/a;b;c", "/a%3Bb;c"),
        ("/a%3fb%23c", "/a?b#c", "/a%3Fb%23c"),
        ("/a%2Bb+c", "/a+b+c", "/a%2Bb+c"),
        ("/50%25", "/50%25", "/50%25"),
        ("/%41%20/../%62%20", "/b ", "/b%20"),
        ("/[x]|{y}%7b", "/[x]|{y}{", "/[x]|{y}%7B"),
    ];
    for (raw, judged, sent) in table {
        for handling in [Handling::Strict, Handling::Decoded, Handling::Normalised] {
            assert_eq!(texts(raw, handling), Ok((judged.to_owned(), sent.to_owned())));
        }
        assert_eq!(texts(raw, Handling::AsReceived), Ok((judged.to_owned(), raw.to_owned())));
    }
}

#[test]
fn separators_are_refused_decoded_or_kept() {
    use Ambiguity::{Backslash, DoubleEncoding, EncodedSlash, Segment};
    // As received; why it is refused; decoded; judged and sent with separators kept, `None`: refused.
    type Kept = Option<(&'static str, &'static str)>;
    let table: [(&str, Ambiguity, &str, Kept); 13] = [
        ("/a%2fb", EncodedSlash, "/a/b", Some(("/a%2Fb", "/a%2Fb"))),
        ("/%61%2fb", EncodedSlash, "/a/b", Some(("/a%2Fb", "/a%2Fb"))),
        ("/a\\b", Backslash, "/a/b", Some(("/a\\b", "/a\\b"))),
        ("/a%5cb", Backslash, "/a/b", Some(("/a\\b", "/a%5Cb"))),
        ("/a%252fb", DoubleEncoding, "/a%252fb", Some(("/a%252fb", "/a%252fb"))),
        ("/%2561", DoubleEncoding, "/%2561", Some(("/%2561", "/%2561"))),
        ("/%25fA", DoubleEncoding, "/%25fA", Some(("/%25fA", "/%25fA"))),
        ("/%25%36%31", DoubleEncoding, "/%2561", Some(("/%2561", "/%2561"))),
        ("/a%2F..%2fb", Segment, "/b", None),
        ("/x/..%2Fb", EncodedSlash, "/b", None),
        ("/x/..\\b", Backslash, "/b", None),
        ("/x\\%2e%5Cb", Segment, "/x/b", None),
        ("/x%2F..", Segment, "/", None),
    ];
    for (raw, why, decoded, kept) in table {
        // Which of its faults is named does not matter much, but it is one of them.
        let strict = texts(raw, Handling::Strict).unwrap_err();
        assert!(strict == why || strict == Segment, "{raw}: {strict}");
        let expected = Ok((decoded.to_owned(), decoded.to_owned()));
        assert_eq!(texts(raw, Handling::Decoded), expected, "{raw}");
        let kept = kept.map(|(judged, sent)| (judged.to_owned(), sent.to_owned()));
        assert_eq!(texts(raw, Handling::Normalised), kept.ok_or(Segment), "{raw}");
    }
}

#[test]
fn what_no_server_should_get_is_refused_unless_paths_pass_as_received() {
    use Ambiguity::{Control, Escape, Overlong, Segment};
    let table = [
        ("/50%", Escape, "/50%25"),
        ("/%zz", Escape, "/%25zz"),
        ("/%2", Escape, "/%252"),
        ("/%u0061", Escape, "/%25u0061"),
        ("/%%363", Escape, "/%2563"),
        ("/a%00b", Control, "/a%00b"),
        ("/a%0ab", Control, "/a\nb"),
        ("/a%7F", Control, "/a\u{7f}"),
        ("/x/..;/cart", Segment, "/x/..;/cart"),
        ("/x/..;a=b", Segment, "/x/..;a=b"),
        ("/%2e;/cart", Segment, "/.;/cart"),
        ("/..%3B/cart", Segment, "/..;/cart"),
        ("/;/cart", Segment, "/;/cart"),
        ("/x/;a=b/cart", Segment, "/x/;a=b/cart"),
    ];
    for (raw, why, judged) in table {
        for handling in [Handling::Strict, Handling::Decoded, Handling::Normalised] {
            assert_eq!(texts(raw, handling), Err(why), "{raw}");
        }
        let expected = Ok((judged.to_owned(), raw.to_owned()));
        assert_eq!(texts(raw, Handling::AsReceived), expected, "{raw}");
    }
    for raw in ["/%c0%af", "/%C1%A1", "/%e0%80%af", "/%e0%9f%bf", "/%f0%80%80%af", "/%F0%8f%bf%bf"]
    {
        assert_eq!(texts(raw, Handling::Strict), Err(Overlong), "{raw}");
    }
}

#[test]
fn what_is_only_unusual_passes() {
    for raw in [
        "/a;b=c/d;e",
        "/;jsessionid=1",
        "/a/;b;c=d",
        "/a./b..",
        "/..a/.b/...;c",
        "/caf%E9",
        "/%C1",
        "/%C3%89",
        "/%E0%A4%85",
        "/%F0%9F%98%80",
        "/100%25",
        "/100%25-x",
        "/%25g1%251",
        "/%20",
        "/a:b@c,d",
    ] {
        assert_eq!(both(raw.as_bytes(), Handling::Strict).unwrap().1, raw.as_bytes(), "{raw}");
    }
}

#[test]
fn an_ordinary_path_is_borrowed() {
    let mut buffers = Buffers::default();
    let raw = b"/products/category/shoes.html";
    let paths = normalise(raw, Handling::Strict, &mut buffers).unwrap();
    assert!(std::ptr::eq(paths.judged, raw) && paths.sent.is_none());
    assert_eq!((buffers.sent.capacity(), buffers.judged.capacity()), (0, 0));
}

#[test]
fn buffers_are_used_again() {
    let mut buffers = Buffers::default();
    for raw in ["/a%20long/%41/path", "/%41", "/b", "/%20"] {
        let paths = normalise(raw.as_bytes(), Handling::Strict, &mut buffers).unwrap();
        let fresh = both(raw.as_bytes(), Handling::Strict).unwrap();
        assert_eq!((paths.judged.to_vec(), paths.sent.unwrap_or(raw.as_bytes()).to_vec()), fresh);
    }
}

/// Paths of what matters here, with escapes of anything.
fn any_path() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[/.;a\\\\]".prop_map(|text| text),
        2 => "[!-~&&[^#?]]",
        3 => any::<u8>().prop_map(|byte| format!("%{byte:02x}")),
        2 => any::<u8>().prop_map(|byte| format!("%{byte:02X}")),
        1 => "%(2F|2f|5c|2e|25|00|2|z)",
    ];
    proptest::collection::vec(piece, 0..16).prop_map(|pieces| format!("/{}", pieces.concat()))
}

fn any_handling() -> impl Strategy<Value = Handling> {
    prop::sample::select(&ALL[..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    /// The origin gets what rules judged: what is sent is its own normal form, and is judged the same.
    #[test]
    fn what_is_sent_is_judged_the_same(raw in any_path(), handling in any_handling()) {
        if let Ok((judged, sent)) = both(raw.as_bytes(), handling) {
            prop_assert_eq!(both(&sent, handling), Ok((judged, sent)));
        }
    }

    /// Judged again, a judged path is the same.
    #[test]
    fn the_result_is_its_own_normal_form(raw in any_path()) {
        let (judged, _) = both(raw.as_bytes(), Handling::AsReceived).unwrap();
        prop_assert_eq!(judged[0], b'/');
        prop_assert_eq!(&both(&judged, Handling::AsReceived).unwrap().0, &judged);
        let text = String::from_utf8_lossy(&judged);
        prop_assert!(!text.contains("//"));
        prop_assert!(!text.split('/').any(|segment| segment == "." || segment == ".."));
    }

    /// What is sent has only characters of the path that was received, and escapes.
    #[test]
    fn what_is_sent_is_a_path_and_no_longer(raw in any_path(), handling in any_handling()) {
        if let Ok((_, sent)) = both(raw.as_bytes(), handling) {
            prop_assert!(sent.len() <= raw.len());
            prop_assert!(sent.iter().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(byte)));
            prop_assert_eq!(sent[0], b'/');
        }
    }

    /// No server that decodes once sees another path than rules, whatever it takes for a separator.
    #[test]
    fn servers_that_decode_once_see_the_judged_path(raw in any_path()) {
        let decoded = |raw: &[u8]| {
            let mut out = Vec::new();
            let mut rest = raw;
            while let [byte, after @ ..] = rest {
                let hex = (*byte == b'%').then(|| std::str::from_utf8(&after[..2]).unwrap());
                out.push(hex.map_or(*byte, |hex| u8::from_str_radix(hex, 16).unwrap()));
                rest = if hex.is_some() { &after[2..] } else { after };
            }
            out
        };
        if let Ok((judged, sent)) = both(raw.as_bytes(), Handling::Strict) {
            // Rules see one `%` as `%25`.
            prop_assert_eq!(&decoded(&sent), &decoded(&judged));
            let seen = decoded(&sent);
            let mut segments = seen[1..].split(|byte| matches!(byte, b'/' | b'\\')).rev();
            let last = segments.next().unwrap();
            prop_assert!(last != b"." && last != b"..");
            prop_assert!(segments.all(|one| !matches!(one, b"" | b"." | b"..")));
        }
    }

    #[test]
    fn escaping_any_byte_changes_nothing(path in "/[a-z./]{0,20}", place in 0usize..20) {
        let place = place.min(path.len() - 1);
        let byte = path.as_bytes()[place];
        if byte == b'/' {
            return Ok(());
        }
        let escaped = format!("{}%{byte:02X}{}", &path[..place], &path[place + 1..]);
        let strict = |path: &str| both(path.as_bytes(), Handling::Strict);
        prop_assert_eq!(strict(&escaped), strict(&path));
    }

    #[test]
    fn a_path_in_normal_form_is_sent_byte_for_byte(
        path in "(/[a-z]([a-zA-Z0-9_.~!$&'()*+,:;@=-]|%20|%C3%A9|%3B|%2B){0,6}){1,5}/?",
    ) {
        let mut buffers = Buffers::default();
        for handling in ALL {
            let paths = normalise(path.as_bytes(), handling, &mut buffers).unwrap();
            prop_assert_eq!(paths.sent, None);
        }
    }
}
