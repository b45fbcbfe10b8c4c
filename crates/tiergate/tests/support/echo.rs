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
