//! Random heads and bodies, good and nearly good, against the oracle.

mod oracle;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Field lines, of which most may stand in a head.
const LINES: [&[u8]; 48] = [
    b"Host: a\r\n",
    b"Host: a.b:80\r\n",
    b"host:b\r\n",
    b"Content-Length: 5\r\n",
    b"content-length:  05\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: 5, 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"transfer-encoding:Chunked \r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Transfer-Encoding : chunked\r\n",
    b"Transfer_Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive, X-Hop\r\n",
    b"Connection: upgrade, te\r\n",
    b"Connection: host, transfer-encoding, content-length\r\n",
    b"Connection: accept,x-forwarded-for\r\n",
    b"X-Hop: 1\r\n",
    b"Keep-Alive: 5\r\n",
    b"Upgrade: websocket\r\n",
    b"Upgrade: h2c\r\n",
    b"TE: trailers\r\n",
    b"TE: gzip\r\n",
    b"Trailer: x\r\n",
    b"Expect: 100-continue\r\n",
    b"Max-Forwards: 0\r\n",
    b"X-Forwarded-For: 1.1.1.1\r\n",
    b"X-Forwarded-Proto: https\r\n",
    b"X-Forwarded-Host: evil\r\n",
    b"X-Forwarded-Port: 1\r\n",
    b"X_Forwarded_For: 1.1.1.1\r\n",
    b"Forwarded: for=1.1.1.1\r\n",
    b"X-Real-IP: 1.1.1.1\r\n",
    b"X-Tiergate-Class: a\r\n",
    b"X-Forwarded-: a\r\n",
    b"X-Tiergate-: a\r\n",
    b"Via: 1.0 x\r\n",
    b"Proxy: x\r\n",
    b"Proxy-Authorization: x\r\n",
    b"Date: x\r\n",
    b"Accept: */*\r\n",
    b"A:\tb  c\t\r\n",
    b"A:\r\n",
    b"Under_score: \xff\r\n",
    b"A: b\n",
    b" folded\r\n",
    b"A: b\rC: d\r\n",
    b"A\0: b\r\n",
];

const REQUEST_LINES: [&[u8]; 12] = [
    b"GET / HTTP/1.1\r\n",
    b"GET /a?b?c HTTP/1.1\r\n",
    b"POST /a? HTTP/1.1\r\n",
    b"GET / HTTP/1.0\r\n",
    b"GET http://h HTTP/1.1\r\n",
    b"GET https://h:1?x HTTP/1.0\r\n",
    b"OPTIONS * HTTP/1.1\r\n",
    b"OPTIONS http://h HTTP/1.1\r\n",
    b"TRACE / HTTP/1.1\r\n",
    b"\r\nGET / HTTP/1.1\r\n",
    b"CONNECT a:1 HTTP/1.1\r\n",
    b"GET / HTTP/1.1\n",
];

const STATUS_LINES: [&[u8]; 10] = [
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 200\r\n",
    b"HTTP/1.0 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n",
    b"HTTP/1.1 101 \r\n",
    b"HTTP/1.1 204 No Content\r\n",
    b"HTTP/1.1 304 \r\n",
    b"HTTP/1.1 426 Upgrade Required\r\n",
    b"HTTP/1.1 999 x y\r\n",
    b"HTTP/1.1 200 OK\n",
];

/// A first line and some fields, at times with a byte replaced, and something after it.
fn head(first: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<u8>> {
    let damage = proptest::option::weighted(0.2, (any::<proptest::sample::Index>(), byte()));
    (select(first), vec(select(&LINES[..]), 0..9), damage, any::<bool>()).prop_map(
        |(first, lines, damage, host)| {
            let host: &[u8] = if host { b"Host: a\r\n" } else { b"" };
            let mut bytes = [first, host, &lines.concat(), b"\r\nbody"].concat();
            if let Some((index, byte)) = damage {
                let at = index.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        },
    )
}

fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![select(&b"\r\n \t:,;_\0\x7f#?"[..]), any::<u8>()]
}

/// Pieces of chunked bodies, mostly whole chunks.
const CHUNK_PIECES: [&[u8]; 34] = [
    b"5\r\nhello\r\n",
    b"5\r\nhello\r\n",
    b"2\r\n\r\n\r\n",
    b"0a\r\n0123456789\r\n",
    b"00000000000000A\r\n0123456789\r\n",
    b"0000000000000005\r\nhello\r\n",
    b"1;a=b\r\nx\r\n",
    b"1;a=\"b;c\"\r\nx\r\n",
    b"1 ;a\r\nx\r\n",
    b"1; \ta\r\nx\r\n",
    b"1;\r\nx\r\n",
    b"1;a\n\r\nx\r\n",
    b"0x1\r\nx\r\n",
    b"-1\r\nx\r\n",
    b"+1\r\nx\r\n",
    b"1\nx\r\n",
    b"1\r\nx\n",
    b"1\r\nxy\r\n",
    b"\r\n",
    b"ffffffffffffffff\r\n",
    b"0\r\n\r\n",
    b"0\r\n\r\n",
    b"0;a=b\r\n\r\n",
    b"000\r\nA: b\r\nC:d \r\n\r\n",
    b"0\r\nContent-Length: 5\r\n\r\n",
    b"0\r\nA : b\r\n\r\n",
    b"0\r\nA: b\n\r\n",
    b"0\r\nA: b\r\n c\r\n\r\n",
    b"0\r\n\n",
    b"0\r\r\n",
    b"0\r\nA",
    b": b\r\n",
    b"\0",
    b"7\r\n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn requests_keep_their_meaning(bytes in head(&REQUEST_LINES)) {
        oracle::request(&bytes);
    }

    #[test]
    fn responses_keep_their_meaning(bytes in head(&STATUS_LINES)) {
        oracle::response(&bytes);
    }

    #[test]
    fn chunks_are_what_a_simple_decoder_finds(pieces in vec(select(&CHUNK_PIECES[..]), 0..6)) {
        oracle::chunked(&pieces.concat());
    }

    #[test]
    fn good_chunks_are_decoded(
        chunks in vec(vec(any::<u8>(), 1..300), 0..5),
        rest in vec(any::<u8>(), 0..8),
    ) {
        let mut bytes = Vec::new();
        for chunk in &chunks {
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        let len = bytes.len();
        bytes.extend_from_slice(&rest);
        let scanned = tiergate_wire::http1::ChunkScanner::new().feed(&bytes).unwrap();
        prop_assert_eq!((scanned.consumed, scanned.done), (len, true));
        oracle::chunked(&bytes);
    }

    #[test]
    fn any_bytes_at_all(bytes in vec(byte(), 0..200)) {
        oracle::request(&bytes);
        oracle::response(&bytes);
        oracle::chunked(&bytes);
    }
}
