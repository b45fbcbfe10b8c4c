//! The PROXY protocol: before HTTP of either version, byte by byte, and from trusted peers only.

use crate::support;
use support::echo::{echoed, values};
use support::gateway::{Gateway, Policy};
use support::servers;

/// A version 2 header for a client and a destination over IPv4.
fn proxy_v2(client: [u8; 4], port: u16) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend(client);
    header.extend([198, 51, 100, 1]);
    header.extend(port.to_be_bytes());
    header.extend(443_u16.to_be_bytes());
    header
}

#[test]
fn the_proxy_protocol_is_taken_from_trusted_peers_only() {
    let Some(server) = servers::node() else { return };
    let mut policy = Policy::of(&[server.server()]);
    policy.listener = "proxy_protocol = true".into();
    policy.top = "trusted = [\"127.0.0.1\"]".into();
    let gateway = Gateway::start(&policy);
    let request = b"GET /echo HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n";
    let v1 = b"PROXY TCP4 192.0.2.9 198.51.100.1 4711 443\r\n".to_vec();
    for (header, client_address) in [
        (v1, "192.0.2.9"),
        (proxy_v2([192, 0, 2, 10], 4711), "192.0.2.10"),
        (b"PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n".to_vec(), "2001:db8::1"),
    ] {
        // In one piece and byte by byte; the client it names is not trusted itself.
        let mut client = gateway.client();
        let seen = echoed(&mut client, [&header[..], request].concat());
        assert_eq!(values(&seen, "x-forwarded-for"), [client_address]);
        let seen = echoed(&mut client, request);
        assert_eq!(
            values(&seen, "x-forwarded-for"),
            [client_address],
            "it holds for the connection"
        );
        let mut client = gateway.client();
        for byte in &header {
            client.send([*byte]);
        }
        assert_eq!(values(&echoed(&mut client, request), "x-forwarded-for"), [client_address]);
    }
    // Of a client that the proxy does not know, no word is believed; of the proxy itself, every.
    let v2 = |kind: [u8; 2]| [b"\r\n\r\n\0\r\nQUIT\n", &kind[..], &[0, 0]].concat();
    for (header, forwarded) in [
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (v2([0x21, 0]), "127.0.0.1"),
        (v2([0x20, 0]), "6.6.6.6, 127.0.0.1"),
    ] {
        let seen = echoed(&mut gateway.client(), [&header[..], request].concat());
        assert_eq!(values(&seen, "x-forwarded-for"), [forwarded], "{}", header.escape_ascii());
    }
    for wrong in
        [&request[..], b"PROXY TCP4 nonsense\r\n", b"PROXY TCP4 1.2.3.4", b"\r\n\r\n\0\r\nQUIX"]
    {
        let mut client = gateway.client();
        client.send_anyway(wrong);
        client.finish();
        assert_eq!(client.rest(), b"", "{:?}", String::from_utf8_lossy(wrong));
    }
    policy.top = "trusted = [\"192.0.2.1\"]".into();
    let gateway = Gateway::start(&policy);
    let mut client = gateway.client();
    client.send_anyway(&[&proxy_v2([192, 0, 2, 10], 1)[..], request].concat());
    assert_eq!(client.rest(), b"", "a stranger's word is not taken");
}
