//! The program's log, which no client can fill.

use crate::support::eventually;
use crate::support::gateway::{Gateway, Policy};
use crate::support::origin::Origin;

/// HTTP/2 with stream 1, 3, …: each is opened and reset at once.
fn resets(streams: u8) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for stream in (1..2 * streams).step_by(2) {
        // HEADERS, at the end of both: GET / of http://x.
        bytes.extend_from_slice(&[0, 0, 6, 1, 5, 0, 0, 0, stream]);
        bytes.extend_from_slice(b"\x82\x86\x84\x41\x01x");
        // RST_STREAM with CANCEL.
        bytes.extend_from_slice(&[0, 0, 4, 3, 0, 0, 0, 0, stream, 0, 0, 0, 8]);
    }
    bytes
}

#[test]
fn a_client_that_resets_its_streams_leaves_no_lines() {
    let origin = Origin::echo();
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    // The lines of its start are written by a thread of their own.
    eventually("its start is logged", || gateway.log().contains("metrics and status on"));
    let before = gateway.log();
    for _ in 0..10 {
        let mut client = gateway.client();
        client.send(resets(100));
        // The gateway gives such a client up.
        client.rest();
    }
    assert_eq!(gateway.get("/").status, 200);
    assert_eq!(gateway.log(), before);
}
