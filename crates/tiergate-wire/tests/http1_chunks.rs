//! Chunked bodies that must not pass, and the bounds on those that may.

use tiergate_wire::http1::{
    CHUNK_SIZE_DIGITS_MAX, ChunkScanner, EXTENSION_LEN_MAX, EXTENSIONS_LEN_MAX, TRAILER_FIELDS_MAX,
    TRAILERS_LEN_MAX,
};

/// `Some(true)`: done, `Some(false)`: more must come, `None`: refused. The same whole and byte by
/// byte, or it panics.
#[track_caller]
fn scan(bytes: &[u8]) -> Option<bool> {
    let whole = ChunkScanner::new().feed(bytes).ok().map(|scan| scan.done);
    let mut scanner = ChunkScanner::new();
    let mut trickled = Some(false);
    for byte in bytes {
        trickled = scanner.feed(std::slice::from_ref(byte)).ok().map(|scan| scan.done);
        if trickled != Some(false) {
            break;
        }
    }
    assert_eq!(whole, trickled, "{}", bytes.escape_ascii());
    whole
}

#[test]
fn what_rfc_9112_does_not_allow() {
    let bad: [&[u8]; 51] = [
        b"\r\n",
        b"\n",
        b" 5\r\nhello\r\n",
        b"\t5\r\nhello\r\n",
        b"5 \r\nhello\r\n",
        b"5\t\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b"0X5\r\nhello\r\n",
        b"-5\r\nhello\r\n",
        b"+5\r\nhello\r\n",
        b"5h\r\nhello\r\n",
        b"5_0\r\nhello\r\n",
        b"\"5\"\r\nhello\r\n",
        b";a\r\nhello\r\n",
        b"g\r\n",
        b"\xb5\r\n",
        b"5\0\r\nhello\r\n",
        b"5\nhello\r\n",
        b"5\rhello\r\n",
        b"5\r\r\nhello\r\n",
        b"5\r\nhello\n",
        b"5\r\nhello\r",
        b"5\r\nhello0\r\n\r\n",
        b"5\r\nhell\r\n0\r\n\r\n",
        b"5\r\nhello!\r\n0\r\n\r\n",
        b"5\r\nhello\r\n\r\n0\r\n\r\n",
        b"5\r\nhello\n\n0\r\n\r\n",
        b"ffffffffffffffff\r\n",
        b"10000000000000005\r\nhello\r\n",
        b"fffffffffffffffffffffffff\r\n",
        b"5;a\nhello\r\n",
        b"5;a\n5\r\nhello\r\n",
        b"5;a\rb\r\nhello\r\n",
        b"5;\0\r\nhello\r\n",
        b"5;\x7f\r\nhello\r\n",
        b"5;\xc3\xa9\r\nhello\r\n",
        b"5 ;a\r\nhello\r\n",
        b"5\t;a\r\nhello\r\n",
        b"5,a\r\nhello\r\n",
        b"0\n\n",
        b"0\r\n\n",
        b"0\n\r\n",
        b"0\r\nA: b\n\r\n",
        b"0\r\nA: b\r\r\n\r\n",
        b"0\r\nA : b\r\n\r\n",
        b"0\r\n A: b\r\n\r\n",
        b"0\r\nA: b\r\n c\r\n\r\n",
        b"0\r\n: b\r\n\r\n",
        b"0\r\nA\r\n\r\n",
        b"0\r\nA: \0\r\n\r\n",
        b"0\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ];
    for body in bad {
        // What only lacks its end is refused once the next byte shows it.
        let refused = scan(body).is_none() || scan(&[body, b"x"].concat()).is_none();
        assert!(refused, "{}", body.escape_ascii());
    }
}

/// What passes on of a body that arrives whole, or byte by byte.
#[track_caller]
fn passed(bytes: &[u8]) -> String {
    let pass = |pieces: Vec<Vec<u8>>| {
        let mut scanner = ChunkScanner::new();
        let mut out = Vec::new();
        for mut piece in pieces {
            let pass = scanner.pass(&mut piece).expect("a good body");
            out.extend_from_slice(&piece[..pass.kept]);
            if pass.done {
                scanner.put_trailers(&mut out);
                break;
            }
        }
        assert_eq!(scan(&out), Some(true), "what passes is good");
        String::from_utf8(out).expect("ASCII")
    };
    let whole = pass(vec![bytes.to_vec()]);
    assert_eq!(whole, pass(bytes.iter().map(|&byte| vec![byte]).collect()));
    whole
}

#[test]
fn what_was_understood_passes_and_nothing_else() {
    for (body, expected) in [
        ("5\r\nhello\r\n0\r\n\r\nnext", "5\r\nhello\r\n0\r\n\r\n"),
        ("5;a=\"b;c\"\r\nhello\r\n0;d\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"),
        ("0;a\r\nx-sum:\t1 \r\nETag: x\r\n\r\nnext", "0\r\nx-sum: 1\r\nETag: x\r\n\r\n"),
        ("0\r\nA: b\r\nHost: a\r\nC: d\r\n\r\n", "0\r\nA: b\r\nC: d\r\n\r\n"),
    ] {
        assert_eq!(passed(body.as_bytes()), expected);
    }
    for name in [
        "Connection",
        "Authorization",
        "Set-Cookie",
        "X-Tiergate-Class",
        "TE",
        "Trailer",
        "Content-Length",
        "transfer-encoding",
        "Transfer_Encoding",
        "Host",
        "X-Forwarded-For",
        "X_Real_IP",
        // What the gateway writes in heads.
        "Forwarded",
        "Tiergate-Level",
        "Via",
        "X-Request-Id",
        "x_request_id",
        "traceparent",
        "tracestate",
        "RateLimit",
        "ratelimit-policy",
        "Retry-After",
        "retry_after",
        "Alt-Svc",
        "CDN-Cache-Control",
        "Location",
    ] {
        let body = format!("0\r\n{name}: x\r\n\r\n");
        assert_eq!(passed(body.as_bytes()), "0\r\n\r\n", "{name}");
    }
}

#[test]
fn a_name_that_is_left_out_passes_in_no_spelling() {
    let body = b"0\r\nX-Trace: a\r\nx_TRACE: b\r\nX-Traces: c\r\n\r\n";
    let mut scanner = ChunkScanner::new();
    scanner.leave_out(["x-trace"].into_iter().collect());
    assert!(scanner.feed(body).expect("a good body").done);
    let names = |scanner: &ChunkScanner| -> Vec<_> {
        scanner.trailers().map(|field| field.name.to_ascii_lowercase()).collect()
    };
    assert_eq!(names(&scanner), [b"x-traces"]);
    // The names may change when all has come.
    scanner.leave_out(["x-traces"].into_iter().collect());
    assert_eq!(names(&scanner), [b"x-trace", b"x_trace"]);
    let mut put = Vec::new();
    scanner.put_trailers(&mut put);
    assert_eq!(put, b"X-Trace: a\r\nx_TRACE: b\r\n\r\n");
}

#[test]
fn what_is_good_passes() {
    let good: [&[u8]; 9] = [
        b"0\r\n\r\n",
        b"000\r\n\r\n",
        b"5\r\nhello\r\n0\r\n\r\n",
        b"A\r\n0123456789\r\n0\r\n\r\n",
        b"5;a\r\nhello\r\n0;b=\"c d\"\r\n\r\n",
        b"5; a = b\r\nhello\r\n0\r\n\r\n",
        b"2\r\n\r\n\r\n0\r\n\r\n",
        b"0\r\nETag: x\r\nx-sum:\t1 \r\n\r\n",
        b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    ];
    for body in good {
        assert_eq!(scan(body), Some(true), "{}", body.escape_ascii());
    }
    let mut scanner = ChunkScanner::new();
    let scanned = scanner.feed(b"0\r\nETag: x\r\nx-sum:\t1 \r\n\r\nnext").unwrap();
    assert_eq!((scanned.consumed, scanned.done), (25, true));
    let trailers: Vec<_> = scanner.trailers().map(|f| (f.name, f.value)).collect();
    assert_eq!(trailers, [(&b"ETag"[..], &b"x"[..]), (b"x-sum", b"1")]);
    let after = scanner.feed(b"next").unwrap();
    assert_eq!((after.consumed, after.done), (0, true), "nothing after the end is the body's");
}

#[test]
fn bounds() {
    let digits = |len: usize| format!("{:0>len$}\r\n", 5);
    assert_eq!(scan(digits(CHUNK_SIZE_DIGITS_MAX.into()).as_bytes()), Some(false));
    assert_eq!(scan(digits(usize::from(CHUNK_SIZE_DIGITS_MAX) + 1).as_bytes()), None);

    let chunk = |extension: usize| format!("1{}\r\nx\r\n", ";".repeat(extension));
    let most = usize::from(EXTENSION_LEN_MAX);
    assert_eq!(scan(chunk(most).as_bytes()), Some(false));
    assert_eq!(scan(chunk(most + 1).as_bytes()), None);
    let chunks = usize::from(EXTENSIONS_LEN_MAX / EXTENSION_LEN_MAX);
    assert_eq!(scan(chunk(most).repeat(chunks).as_bytes()), Some(false));
    assert_eq!(scan((chunk(most).repeat(chunks) + &chunk(1)).as_bytes()), None);
    assert_eq!(scan((chunk(most).repeat(chunks) + &chunk(0)).as_bytes()), Some(false));

    let fields = |count: usize| format!("0\r\n{}\r\n", "A: b\r\n".repeat(count));
    assert_eq!(scan(fields(TRAILER_FIELDS_MAX).as_bytes()), Some(true));
    assert_eq!(scan(fields(TRAILER_FIELDS_MAX + 1).as_bytes()), None);
    let long = |len: usize| format!("0\r\nA: {}\r\n\r\n", "x".repeat(len - 5));
    assert_eq!(scan(long(TRAILERS_LEN_MAX).as_bytes()), Some(true));
    assert_eq!(scan(long(TRAILERS_LEN_MAX + 1).as_bytes()), None);
    assert_eq!(scan(&[b"0\r\nA: ", &[b'x'; 2 * TRAILERS_LEN_MAX][..]].concat()), None);
}
