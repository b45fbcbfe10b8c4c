//! What an origin saw, as `/echo` of `origin.js` tells it; and what several tests ask.

use super::client::Client;
use super::gateway::{Gateway, Policy};
use super::pattern_bytes;
use super::servers::Server;
use serde_json::Value;

/// A gateway before the server, with enough slots.
pub fn gateway(server: &Server) -> Gateway {
    Gateway::start(&Policy::of(&[server.server()]))
}

/// What a browser sends besides.
pub const BROWSER: &str = "Host: example.test\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: de,en-US;q=0.7,en;q=0.3\r\n\
    Accept-Encoding: gzip, deflate\r\n\
    Referer: https://example.test/a?b=c&d=%20e\r\n\
    DNT: 1\r\nSec-GPC: 1\r\nUpgrade-Insecure-Requests: 1\r\n\
    Sec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: same-origin\r\n\
    Sec-Fetch-User: ?1\r\nPriority: u=0, i\r\nTE: trailers\r\nConnection: keep-alive, TE\r\n\
    Cookie: session=abc; theme=\"dark\"; empty=; long=0123456789abcdef0123456789abcdef\r\n";

/// Files that several tests ask for.
pub fn fill(server: &Server) {
    server.put("data.bin", &pattern_bytes(0, 10_000));
    server.put("text.txt", "compressible ".repeat(500).as_bytes());
    server.put("empty", b"");
}

/// What the origin saw of a request to `/echo` of Node's.
pub fn echoed(client: &mut Client, request: impl AsRef<[u8]>) -> Value {
    client.send(request);
    let answer = client.answer();
    assert_eq!(answer.status, 200, "{}", answer.head);
    serde_json::from_slice(&answer.body).expect("JSON")
}

/// The values that the origin saw of a field.
pub fn values(seen: &Value, name: &str) -> Vec<String> {
    let raw = seen["headers"].as_array().expect("a list");
    let pairs = raw.chunks(2).map(|pair| (pair[0].as_str().unwrap_or_default(), &pair[1]));
    pairs
        .filter(|(it, _)| it.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str().unwrap_or_default().to_owned())
        .collect()
}
