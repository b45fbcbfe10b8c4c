//! What must hold for any bytes at all, checked against parsers written for clarity alone. Shared by
//! the property tests and the fuzz targets.

use std::net::{IpAddr, Ipv4Addr};
use tiergate_wire::http1::Forwarding;
use tiergate_wire::http1::{
    ChunkScanner, Delivery, FieldTable, ForwardInfo, Framing, HeadError, HeadLimits, Malformed,
    Parsed, PeerText, RequestHead, ResponseInfo, Version, delivery, parse_request, parse_response,
    write_request_head, write_response_head,
};

const LIMITS: HeadLimits = HeadLimits { head_len_max: 512, target_len_max: 64, fields_max: 12 };

/// What we write may be longer than what we take.
const OWN_LIMITS: HeadLimits =
    HeadLimits { head_len_max: 4096, target_len_max: 128, fields_max: 64 };

/// A message head as a reader without optimisations and without mercy sees it.
#[derive(Debug)]
struct Head {
    /// The words of the first line; the third with the spaces it contains.
    first: [String; 3],
    /// Names in lower case.
    fields: Vec<(String, String)>,
}

impl Head {
    /// Reads a head that ends where `text` ends. One char per byte.
    fn read(bytes: &[u8]) -> Option<Head> {
        let text: String = bytes.iter().map(|&b| char::from(b)).collect();
        let mut lines: Vec<&str> = text.strip_suffix("\r\n\r\n")?.split("\r\n").collect();
        if text.replace("\r\n", "").contains(|c: char| c.is_ascii_control() && c != '\t') {
            return None;
        }
        let mut words = lines.remove(0).splitn(3, ' ').map(String::from);
        let first = [words.next()?, words.next()?, words.next()?];
        let mut fields = Vec::new();
        for line in lines {
            let (name, value) = line.split_once(':')?;
            let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            if name.is_empty() || !name.chars().all(token) {
                return None;
            }
            let value = value.trim_matches([' ', '\t']);
            fields.push((name.to_ascii_lowercase(), value.to_string()));
        }
        Some(Head { first, fields })
    }

    fn values(&self, name: &str) -> Vec<&str> {
        let named = self.fields.iter().filter(|(n, _)| n == name);
        named.map(|(_, value)| value.as_str()).collect()
    }

    fn framing(&self) -> Option<Framing> {
        match (
            self.values("content-length").as_slice(),
            self.values("transfer-encoding").as_slice(),
        ) {
            ([], []) => Some(Framing::None),
            ([len], []) => Some(Framing::Length(len.parse().ok()?)),
            ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => Some(Framing::Chunked),
            _ => None,
        }
    }

    /// The fields that no one between client and origin has any business with.
    fn end_to_end(&self) -> Vec<&(String, String)> {
        const OURS: [&str; 18] = [
            "host",
            "content-length",
            "transfer-encoding",
            "connection",
            "keep-alive",
            "te",
            "upgrade",
            "expect",
            "max-forwards",
            "forwarded",
            "via",
            "proxy",
            "x-real-ip",
            "date",
            "proxy-connection",
            "proxy-authorization",
            "proxy-authenticate",
            "proxy-authentication-info",
        ];
        let connection = self.values("connection").join(",").to_ascii_lowercase();
        let named: Vec<&str> = connection.split(',').map(|n| n.trim_matches([' ', '\t'])).collect();
        let prefixed =
            |name: &str| name.starts_with("x-forwarded-") || name.starts_with("x-tiergate-");
        let special = |name: &str| OURS.contains(&name) || prefixed(name);
        self.fields
            .iter()
            .filter(|(name, _)| !named.contains(&name.as_str()))
            .filter(|(name, _)| !special(name))
            .filter(|(name, _)| {
                !(name.contains('_') && special(&name.replace('_', "-"))) || name == "date"
            })
            .collect()
    }
}

fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|&b| char::from(b)).collect()
}

fn status_of<T>(parsed: &Result<Parsed<T>, HeadError>) -> Option<u16> {
    match parsed {
        Ok(Parsed::Complete(_)) => Some(200),
        Ok(Parsed::Partial) => None,
        Err(error) => Some(error.status),
    }
}

/// Checks that feeding `bytes` in growing pieces comes to the answer that the whole gets.
fn check_split(bytes: &[u8], answer: impl Fn(&[u8]) -> Option<u16>) {
    let trickled = (0..=bytes.len()).find_map(|len| answer(&bytes[..len]));
    assert_eq!(trickled, answer(bytes), "the answer depends on the split");
}

/// Checks everything about `bytes` as a request.
pub(crate) fn request(bytes: &[u8]) {
    check_split(bytes, |part| status_of(&parse_request(part, &mut FieldTable::new(), &LIMITS)));
    let mut fields = FieldTable::new();
    let Ok(Parsed::Complete(head)) = parse_request(bytes, &mut fields, &LIMITS) else {
        return;
    };
    let sent = Head::read(bytes[..head.len].strip_prefix(b"\r\n").unwrap_or(&bytes[..head.len]))
        .expect("what is accepted is well-formed");
    assert_eq!(sent.framing(), Some(head.body), "framing as sent");
    assert_eq!(sent.fields.len(), fields.fields().len());
    for trusted in [false, true] {
        for on in [false, true] {
            for head in [head, head.with_path(b"/another/%20path")] {
                check_forwarded(&head, &fields, &sent, trusted, on);
            }
        }
    }
}

fn check_forwarded(
    head: &RequestHead<'_>,
    fields: &FieldTable<'_>,
    sent: &Head,
    peer_trusted: bool,
    on: bool,
) {
    let forward = ForwardInfo {
        peer: PeerText::new(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        peer_trusted,
        https: on,
        add: Forwarding { x_forwarded: on, forwarded: on, via: on },
        level: None,
        listener_host: b"gate",
    };
    let mut out = Vec::new();
    write_request_head(&mut out, head, fields, &forward, &[]);
    let written = Head::read(&out).expect("what is written is well-formed");
    let target = match (head.path, head.has_query) {
        (path, true) => format!("{}?{}", text(path), text(head.query)),
        (path, false) => text(path),
    };
    assert_eq!(written.first, [text(head.method), target, "HTTP/1.1".into()]);
    assert_eq!(written.framing(), Some(head.body), "framing as written");
    let host = if head.host.is_empty() { "gate".into() } else { text(head.host) };
    assert_eq!(written.values("host"), [host.as_str()]);
    assert_eq!(written.end_to_end(), sent.end_to_end());
    if !peer_trusted {
        let forged = |(name, value): &&(String, String)| {
            name.starts_with("x-tiergate-")
                || name.starts_with("x-forwarded-") && !on
                || name == "x-forwarded-for" && value != "127.0.0.1"
                || matches!(name.as_str(), "proxy" | "x-real-ip")
        };
        assert_eq!(written.fields.iter().find(forged), None);
    }

    let mut again_fields = FieldTable::new();
    let again = match parse_request(&out, &mut again_fields, &OWN_LIMITS) {
        Ok(Parsed::Complete(again)) => again,
        other => panic!("what is written is not accepted: {other:?}"),
    };
    assert_eq!(again.len, out.len());
    assert_eq!(
        (again.method, again.path, again.query, again.body),
        (head.method, head.path, head.query, head.body)
    );
    assert!(!again.expect_continue, "the expectation is answered here");
    assert_eq!(again.upgrade, head.upgrade);
    assert_eq!(again.te_trailers, head.te_trailers);
    assert!(again.keep_alive);
}

/// Checks everything about `bytes` as a response.
pub(crate) fn response(bytes: &[u8]) {
    for to_head in [false, true] {
        check_split(bytes, |part| {
            status_of(&parse_response(part, &mut FieldTable::new(), &LIMITS, to_head))
        });
        let mut fields = FieldTable::new();
        let Ok(Parsed::Complete(head)) = parse_response(bytes, &mut fields, &LIMITS, to_head)
        else {
            continue;
        };
        let bodiless = to_head || head.status < 200 || matches!(head.status, 204 | 304);
        for client in [Version::Http10, Version::Http11] {
            let info = ResponseInfo {
                client,
                keep_alive: true,
                via: true,
                date_line: b"Date: now\r\n",
                location: None,
                extra: &[],
            };
            let mut out = Vec::new();
            let keep_alive = write_response_head(&mut out, &head, &fields, &info);
            let written = Head::read(&out).expect("what is written is well-formed");
            assert_eq!(written.first[..2], ["HTTP/1.1".to_string(), head.status.to_string()]);
            let framing = written.framing().expect("one framing at most");
            let expected = match delivery(&head, client) {
                _ if bodiless => head.content_length.map_or(Framing::None, Framing::Length),
                Delivery::Empty | Delivery::Raw => head.body,
                Delivery::Dechunked | Delivery::UntilClose => Framing::None,
            };
            let never = head.status < 200 || head.status == 204;
            assert_eq!(framing, if never { Framing::None } else { expected });
            let closes = written.values("connection").iter().any(|v| v.contains("close"));
            assert_eq!(closes, !keep_alive);
            let sent_again = parse_response(&out, &mut FieldTable::new(), &OWN_LIMITS, to_head);
            assert!(matches!(sent_again, Ok(Parsed::Complete(_))), "{sent_again:?}");
        }
    }
}

/// A chunked body as a reader without optimisations sees it: data, trailers, bytes consumed. `None`
/// if it is not valid or not whole.
fn read_chunked(bytes: &[u8]) -> Option<(String, Vec<String>, usize)> {
    let all = text(bytes);
    let mut rest = all.as_str();
    let mut data = String::new();
    loop {
        let (line, after) = rest.split_once("\r\n")?;
        let size = line.split_once(';').map_or(line, |(size, _)| size);
        if size.is_empty() || size.len() > 15 || !size.chars().all(|c| c.is_ascii_hexdigit()) {
            return None;
        }
        if line.contains(|c: char| !(c == '\t' || c == ' ' || c.is_ascii_graphic())) {
            return None;
        }
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = after;
        if size == 0 {
            break;
        }
        let chunk: String = rest.chars().take(size).collect();
        rest = rest.strip_prefix(chunk.as_str())?.strip_prefix("\r\n")?;
        if chunk.chars().count() < size {
            return None;
        }
        data.push_str(&chunk);
    }
    let mut trailers = Vec::new();
    loop {
        let (line, after) = rest.split_once("\r\n")?;
        rest = after;
        if line.is_empty() {
            let consumed = all.chars().count() - rest.chars().count();
            return Some((data, trailers, consumed));
        }
        trailers.push(line.to_string());
    }
}

/// What the scanner makes of `bytes` when they come in pieces of at most `piece` bytes.
fn scan(bytes: &[u8], piece: usize) -> Result<(Vec<u8>, ChunkScanner, Option<usize>), Malformed> {
    let mut scanner = ChunkScanner::new();
    let mut data = Vec::new();
    let mut at = 0;
    for part in bytes.chunks(piece) {
        let mut rest = part;
        while !rest.is_empty() {
            let step = scanner.step(rest)?;
            data.extend_from_slice(&rest[step.data.clone()]);
            at += step.consumed;
            if step.done {
                return Ok((data, scanner, Some(at)));
            }
            assert!(step.consumed > 0, "no progress");
            rest = &rest[step.consumed..];
        }
    }
    Ok((data, scanner, None))
}

/// Checks everything about `bytes` as a chunked body.
pub(crate) fn chunked(bytes: &[u8]) {
    let whole = scan(bytes, bytes.len().max(1));
    for piece in [1, 2, 3, 7, 64] {
        match (&whole, scan(bytes, piece)) {
            (Ok((data, _, end)), Ok((split_data, _, split_end))) => {
                assert_eq!((data, end), (&split_data, &split_end), "pieces of {piece}");
            }
            (Err(_), Err(_)) => {}
            (whole, split) => panic!("pieces of {piece}: {whole:?} {split:?}"),
        }
    }
    match (&whole, ChunkScanner::new().feed(bytes)) {
        (Ok((_, _, end)), Ok(scanned)) => {
            assert_eq!(scanned.done, end.is_some());
            assert_eq!(scanned.consumed, end.unwrap_or(bytes.len()));
        }
        (Err(_), Err(_)) => {}
        (whole, fed) => panic!("{whole:?} {fed:?}"),
    }
    if let Ok((data, scanner, Some(end))) = whole {
        let (naive_data, naive_trailers, naive_end) =
            read_chunked(bytes).expect("what is accepted is well-formed");
        assert_eq!((text(&data), end), (naive_data, naive_end));
        let trailers: Vec<_> = scanner.trailers().map(|field| text(field.name)).collect();
        let naive: Vec<_> =
            naive_trailers.iter().map(|line| line.split(':').next().unwrap().to_string()).collect();
        // Those that may not stand in a trailer are dropped; the others stay, in their order.
        let mut left = naive.iter();
        assert!(
            trailers.iter().all(|kept| left.any(|name| name == kept)),
            "{trailers:?} of {naive:?}"
        );
    }
}
