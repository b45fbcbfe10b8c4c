//! Requests and answers: well-formed ones, and what one should not send.

use super::choices::Choices;
use super::framing::{self, Read};

/// A request inside a body, or behind an answer: it must never be taken for one.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: h\r\nX-End: hidden\r\n\r\n";

/// Bytes that say whose they are, and where they stand.
pub(crate) fn content(of: &str, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 32);
    if len > 300 {
        bytes.extend_from_slice(HIDDEN.as_bytes());
    }
    while bytes.len() < len {
        bytes.extend_from_slice(format!("<{of}@{}>", bytes.len()).as_bytes());
    }
    bytes.truncate(len);
    bytes
}

pub(crate) fn len(choices: &mut Choices<'_>) -> usize {
    match choices.below(16) {
        0..=1 => 0,
        2..=9 => 1 + choices.below(60),
        10..=12 => 300 + choices.below(3000),
        13..=14 => 10_000 + 64 * choices.below(256),
        _ => 60_000 + 512 * choices.below(256),
    }
}

/// `body` in chunks.
pub(crate) fn chunked(choices: &mut Choices<'_>, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let size = 1 + choices.pick(&[body.len(), 7, 1000, 1, 4096]);
    // Not more chunks than are worth it.
    for chunk in body.chunks(size.max(body.len() / 50)) {
        let extension = choices.pick(&["", "", "", ";a", ";a=\"b;c\"", "; a = b", ";\t"]);
        let zeros = choices.pick(&["", "", "", "0", "000000"]);
        out.extend_from_slice(format!("{zeros}{:X}{extension}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        let end: &str = if choices.one_in(60) { "\n" } else { "\r\n" };
        out.extend_from_slice(end.as_bytes());
    }
    let last = choices.pick(&["0\r\n", "0\r\n", "0\r\n", "0;x\r\n", "00\r\n"]);
    out.extend_from_slice(last.as_bytes());
    let trailers = choices.pick(&[
        "",
        "",
        "",
        "X-Sum: 1\r\n",
        "Content-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "X-A: 1\r\nHost: evil\r\nX-B: 2\r\n",
    ]);
    out.extend_from_slice(trailers.as_bytes());
    let end = if choices.one_in(40) { "\n" } else { "\r\n" };
    out.extend_from_slice(end.as_bytes());
    out
}

pub(crate) const METHODS: [&str; 8] =
    ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"];

/// Fields that end at the gateway, or that only it may say.
const HOPS: [&str; 10] = [
    "Connection: x-hop\r\nX-Hop: 1\r\n",
    "Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n",
    "TE: trailers\r\nConnection: TE\r\n",
    "TE: gzip\r\n",
    "Proxy-Authorization: secret\r\n",
    "Proxy-Connection: keep-alive\r\n",
    "X-Tiergate-Class: best\r\nX_Tiergate_Class: best\r\n",
    "X-Forwarded-For: 6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\n",
    "Proxy: http://evil\r\n",
    "Connection: content-length, host, transfer-encoding\r\n",
];

/// Framing that leaves room for two readings.
const AMBIGUOUS: [&str; 12] = [
    "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
    "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    "Content-Length: 4\r\nContent-Length: 5\r\n",
    "Content-Length: 4, 4\r\n",
    "Content-Length: +4\r\n",
    "Content-Length: 0x4\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Transfer-Encoding: chunked, identity\r\n",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "Transfer-Encoding : chunked\r\n",
    "Transfer-Encoding:\x0bchunked\r\n",
    "X: y\r\n Transfer-Encoding: chunked\r\n",
];

/// A request over HTTP/1.1, called `id`.
pub(crate) fn request(choices: &mut Choices<'_>, id: &str) -> Vec<u8> {
    let method = choices.pick(&METHODS);
    let version = if choices.one_in(10) { "HTTP/1.0" } else { "HTTP/1.1" };
    let target = match choices.below(12) {
        8 => format!("/{id}?q=/../x&y"),
        9 => format!("http://h/{id}"),
        10 => format!("/a/./{id}//b%2fc"),
        11 if method == "OPTIONS" => "*".to_owned(),
        _ => format!("/{id}"),
    };
    let mut head = format!("{method} {target} {version}\r\nHost: h\r\nX-End: {id}\r\n");
    for _ in 0..choices.pick(&[0, 0, 1, 2]) {
        head += choices.pick(&HOPS);
    }
    head += choices.pick(&["", "", "", "", "", "", "", "", "Connection: close\r\n"]);
    let expects = choices.one_in(12);
    if expects {
        head += "Expect: 100-continue\r\n";
    }
    if choices.one_in(12) {
        head += "Connection: upgrade\r\nUpgrade: websocket\r\n";
    }
    if choices.one_in(20) {
        head += choices.pick(&AMBIGUOUS);
    }
    let framing = if matches!(method, "GET" | "HEAD" | "OPTIONS" | "DELETE") {
        choices.pick(&[0, 0, 0, 0, 0, 0, 1, 2])
    } else {
        choices.pick(&[1, 2, 2, 0])
    };
    let body = if framing == 0 { Vec::new() } else { content(id, len(choices)) };
    let (line, body) = match framing {
        0 => (String::new(), body),
        1 => (format!("Content-Length: {}\r\n", body.len()), body),
        _ => ("Transfer-Encoding: chunked\r\n".into(), chunked(choices, &body)),
    };
    let mut bytes = format!("{head}{line}\r\n").into_bytes();
    bytes.extend_from_slice(&body);
    if choices.one_in(16) {
        mutate(choices, &mut bytes);
    }
    bytes
}

/// Changes a few bytes, mostly those of the head.
pub(crate) fn mutate(choices: &mut Choices<'_>, bytes: &mut Vec<u8>) {
    for _ in 0..=choices.below(3) {
        if bytes.is_empty() {
            return;
        }
        let at = choices.below(bytes.len().min(600));
        let other: &[u8] =
            choices.pick(&[b"\r\n", b"\n", b"\r", b" ", b":", b"\0", b"0", b"\t", b";", b","]);
        match choices.below(4) {
            0 => drop(bytes.splice(at..at + 1, other.iter().copied())),
            1 => drop(bytes.splice(at..at, other.iter().copied())),
            2 => drop(bytes.remove(at)),
            _ => bytes[at] ^= 1 << choices.below(8),
        }
    }
}

/// What the origin answers.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) bytes: Vec<u8>,
    /// The connection is closed behind it, whatever it says.
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Keep,
    Close,
    Reset,
    /// Behind the answer comes what nobody asked for.
    Junk,
    /// No more comes.
    Hang,
}

/// An answer called `id`, to a request by `method`.
pub(crate) fn answer(choices: &mut Choices<'_>, id: &str, method: &str, upgrade: bool) -> Answer {
    let mut bytes = Vec::new();
    let interims = choices.pick(&[0, 0, 0, 0, 1, 1, 2, 17]);
    for _ in 0..interims {
        let status = choices.pick(&["100 Continue", "103 Early Hints", "102 X"]);
        bytes.extend_from_slice(format!("HTTP/1.1 {status}\r\nX-Id: {id}\r\n\r\n").as_bytes());
    }
    let status = match choices.below(16) {
        0..=8 => 200,
        9 => 404,
        10 => 500,
        11 => 503,
        12 => 204,
        13 => 304,
        14 => 206,
        _ if upgrade || choices.one_in(4) => 101,
        _ => 200,
    };
    let version = if choices.one_in(12) { "HTTP/1.0" } else { "HTTP/1.1" };
    let mut head = format!("{version} {status} So\r\nX-Id: {id}\r\n");
    if status == 101 {
        head += "Connection: upgrade\r\nUpgrade: websocket\r\n";
    }
    head += choices.pick(&[
        "",
        "",
        "",
        "Connection: close\r\n",
        "Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n",
        "Connection: x-hop\r\nX-Hop: 1\r\n",
        "Proxy-Authenticate: Basic\r\n",
        "Date: Mon, 01 Sep 2025 10:00:00 GMT\r\n",
    ]);
    if choices.one_in(24) {
        head += choices.pick(&AMBIGUOUS);
    }
    let body = content(id, len(choices));
    let framing = choices.pick(&[1, 2, 1, 2, 1, 3, 0]);
    let bodiless = method == "HEAD" || status < 200 || matches!(status, 204 | 304);
    let (line, mut body) = match framing {
        0 => (String::new(), Vec::new()),
        1 => (format!("Content-Length: {}\r\n", body.len()), body),
        2 => ("Transfer-Encoding: chunked\r\n".into(), chunked(choices, &body)),
        _ => (String::new(), body),
    };
    if bodiless && !choices.one_in(8) {
        body.clear();
    }
    let mut end = match choices.below(20) {
        0..=11 => End::Keep,
        12..=13 => End::Close,
        14 => End::Reset,
        15..=16 => End::Junk,
        17 => End::Hang,
        _ => End::Keep,
    };
    if framing == 3 && !choices.one_in(3) {
        end = End::Close;
    }
    bytes.extend_from_slice(format!("{head}{line}\r\n").as_bytes());
    bytes.extend_from_slice(&body);
    if choices.one_in(10) {
        // Cut somewhere.
        bytes.truncate(choices.below(bytes.len().min(60_000) + 1));
        if end == End::Junk {
            // Which could be what a head lacks of a whole one.
            end = End::Keep;
        }
    }
    if choices.one_in(16) {
        let good = bytes.clone();
        mutate(choices, &mut bytes);
        // Without its name nobody could tell whose answer it is.
        if !is_named(&bytes, id, method) {
            bytes = good;
        }
    }
    Answer { bytes, end }
}

/// Whether the head of the final answer has its name, if there is a final answer.
fn is_named(bytes: &[u8], id: &str, method: &str) -> bool {
    let mut at = 0;
    while let Read::Message(message) = framing::response(&bytes[at..], method) {
        at += message.len;
        if !(100..200).contains(&message.status()) || message.status() == 101 {
            return message.values("x-id") == [id];
        }
    }
    true
}

/// What nobody asked for: it looks like an answer.
pub(crate) fn junk(choices: &mut Choices<'_>) -> &'static [u8] {
    choices.pick(&[
        b"HTTP/1.1 200 OK\r\nX-Id: junk\r\nContent-Length: 4\r\n\r\njunk",
        b"\r\n",
        b"x",
        b"HTTP/1.1 100 Continue\r\nX-Id: junk\r\n\r\n",
    ])
}
