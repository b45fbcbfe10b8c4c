//! What does the HTTP/1.1 wire code cost per message?
//!
//! `cargo bench -p tiergate-wire --bench wire`. Prints nanoseconds per operation, the median of
//! [`ROUNDS`] rounds; aims stand beside them. Run it on an idle core: it measures time.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;
use tiergate_wire::http1::Forwarding;
use tiergate_wire::http1::{
    ChunkScanner, FieldTable, ForwardInfo, HeadLimits, HeadSearch, Parsed, PeerText, ResponseInfo,
    Version, parse_request, parse_response, write_request_head, write_response_head,
};

const ROUNDS: usize = 31;
const OPERATIONS: u32 = 20_000;

const LIMITS: HeadLimits =
    HeadLimits { head_len_max: 32 * 1024, target_len_max: 8 * 1024, fields_max: 100 };

const WRK: &[u8] = b"GET /index.html HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

const BROWSER: &[u8] = b"GET /shop/item/4711?colour=blue&size=l HTTP/1.1\r\n\
Host: www.example.com\r\n\
Connection: keep-alive\r\n\
Cache-Control: max-age=0\r\n\
sec-ch-ua: \"Chromium\";v=\"128\", \"Not;A=Brand\";v=\"24\"\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/128.0.0.0 Safari/537.36\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
Sec-Fetch-Site: same-origin\r\n\
Sec-Fetch-Mode: navigate\r\n\
Referer: https://www.example.com/shop/list?page=3\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\n\
Accept-Language: en-GB,en;q=0.9,de;q=0.8\r\n\
Cookie: session=0123456789abcdef0123456789abcdef; consent=yes; theme=dark\r\n\r\n";

const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: nginx/1.26.3\r\nDate: Mon, 01 Sep 2025 10:00:00 GMT\r\n\
Content-Type: text/html\r\nContent-Length: 1024\r\nLast-Modified: Mon, 01 Sep 2025 09:00:00 GMT\r\n\
Connection: keep-alive\r\nETag: \"68b5\"\r\nAccept-Ranges: bytes\r\n\r\n";

fn main() {
    let all = Forwarding { x_forwarded: true, forwarded: false, via: true };
    let none = Forwarding { x_forwarded: false, forwarded: false, via: false };
    report("parse wrk-like GET", None, || parse_only(WRK));
    report("parse browser-like GET", None, || parse_only(BROWSER));
    let mut out = Vec::with_capacity(4096);
    report("parse+write wrk-like GET, nothing added", Some(150), || request(&mut out, WRK, none));
    report("parse+write wrk-like GET, X-Forwarded-* and Via", None, || request(&mut out, WRK, all));
    report("parse+write browser-like GET, nothing added", Some(400), || {
        request(&mut out, BROWSER, none);
    });
    report("parse+write browser-like GET, X-Forwarded-* and Via", Some(400), || {
        request(&mut out, BROWSER, all);
    });
    report("parse+write nginx's 200", Some(400), || response(&mut out));
    let large = large_head();
    for (what, piece) in
        [("28 KiB head, 1,460 bytes a read", 1460), ("28 KiB head, 64 bytes a read", 64)]
    {
        report_of(&format!("{what}, parsed at each"), None, 100, || pieces(&large, piece, false));
        report_of(&format!("{what}, searched first"), None, 100, || pieces(&large, piece, true));
    }
    let body = chunked_body();
    report("scan 64 KiB in chunks of 4 KiB", None, || {
        let scan = ChunkScanner::new().feed(black_box(&body)).expect("a good body");
        assert!(scan.done);
    });
}

fn parse_only(head: &[u8]) {
    let mut fields = FieldTable::new();
    let parsed = parse_request(black_box(head), &mut fields, &LIMITS);
    assert!(matches!(black_box(parsed), Ok(Parsed::Complete(_))));
}

fn request(out: &mut Vec<u8>, head: &[u8], add: Forwarding) {
    thread_local! {
        static PEER: PeerText = PeerText::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 17)));
    }
    let forward = ForwardInfo {
        peer: PEER.with(|peer| *peer),
        peer_trusted: false,
        https: false,
        add,
        level: None,
        listener_host: b"127.0.0.1:8080",
    };
    let mut fields = FieldTable::new();
    let Ok(Parsed::Complete(head)) = parse_request(black_box(head), &mut fields, &LIMITS) else {
        panic!("a good head")
    };
    out.clear();
    write_request_head(out, &head, &fields, &forward, &[]);
    black_box(&out);
}

fn response(out: &mut Vec<u8>) {
    let mut fields = FieldTable::new();
    let parsed = parse_response(black_box(RESPONSE), &mut fields, &LIMITS, false);
    let Ok(Parsed::Complete(head)) = parsed else { panic!("a good head") };
    out.clear();
    let info = ResponseInfo {
        client: Version::Http11,
        keep_alive: true,
        via: true,
        date_line: b"",
        location: None,
        extra: &[],
    };
    write_response_head(out, &head, &fields, &info);
    black_box(&out);
}

/// A head of 28 KiB: many large cookies.
fn large_head() -> Vec<u8> {
    let mut head = b"GET / HTTP/1.1\r\nHost: www.example.com\r\n".to_vec();
    while head.len() < 28 * 1024 {
        head.extend_from_slice(b"X-Forwarded-State: ");
        head.resize(head.len() + 400, b'x');
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// A head that arrives `piece` bytes at a time; `search`: its end is looked for before it is parsed.
fn pieces(head: &[u8], piece: usize, search: bool) {
    let mut searched = HeadSearch::default();
    for len in (piece..).step_by(piece).map(|len| len.min(head.len())) {
        let received = black_box(&head[..len]);
        if search && !searched.ready(received, LIMITS.head_len_max) {
            continue;
        }
        let mut fields = FieldTable::new();
        if let Ok(Parsed::Complete(_)) = black_box(parse_request(received, &mut fields, &LIMITS)) {
            return;
        }
        assert!(len < head.len(), "a good head");
    }
}

fn chunked_body() -> Vec<u8> {
    let mut body = Vec::new();
    for _ in 0..16 {
        body.extend_from_slice(b"1000\r\n");
        body.resize(body.len() + 4096, b'x');
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"0\r\n\r\n");
    body
}

fn report(what: &str, aim_ns: Option<u32>, operation: impl FnMut()) {
    report_of(what, aim_ns, OPERATIONS, operation);
}

fn report_of(what: &str, aim_ns: Option<u32>, operations: u32, mut operation: impl FnMut()) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..operations {
                operation();
            }
            start.elapsed().as_nanos() as f64 / f64::from(operations)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let aim = aim_ns.map_or(String::new(), |ns| format!("  (aim: below {ns})"));
    println!(
        "{what:<55} {:>8.1} ns  [{:.1} .. {:.1}]{aim}",
        rounds[ROUNDS / 2],
        rounds[0],
        rounds[ROUNDS - 1]
    );
}
