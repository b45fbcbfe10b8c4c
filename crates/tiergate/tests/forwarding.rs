//! What the origin is told of the client, and what a client cannot make it believe.

mod support;

use support::echo::{BROWSER, echoed, values};
use support::gateway::{Gateway, Policy};
use support::servers;

#[test]
fn the_origin_sees_what_the_client_sent_and_nothing_of_its_connection() {
    let Some(server) = servers::node() else { return };
    let mut policy = Policy::of(&[server.server()]);
    policy.tables = "[forwarding]\nvia = true\n".into();
    let gateway = Gateway::start(&policy);
    let mut client = gateway.client();
    let seen = echoed(
        &mut client,
        format!(
            "GET /echo?a=%2F&b HTTP/1.1\r\n{BROWSER}X-Twice: 1\r\nX-Twice: 2\r\nKeep-Alive: 5\r\n\
             Proxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\nX-Hop: gone\r\n\
             X-Forwarded-For: 6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\n\
             X-Forwarded-Proto: https\r\nX_Forwarded_For: 6.6.6.6\r\nX-Tiergate-Class: high\r\n\
             Proxy: evil\r\nConnection: x-hop\r\nVia: 1.1 before\r\n\r\n"
        ),
    );
    assert_eq!((&seen["method"], &seen["url"]), (&"GET".into(), &"/echo?a=%2F&b".into()));
    for (name, expected) in [
        ("host", vec!["example.test"]),
        ("x-twice", vec!["1", "2"]),
        ("accept-language", vec!["de,en-US;q=0.7,en;q=0.3"]),
        ("te", vec!["trailers"]),
        ("connection", vec!["TE"]),
        ("x-forwarded-for", vec!["127.0.0.1"]),
        ("x-forwarded-proto", vec!["http"]),
        ("x-forwarded-host", vec!["example.test"]),
        ("via", vec!["1.1 before", "1.1 tiergate"]),
    ] {
        assert_eq!(values(&seen, name), expected, "{name}: {seen:#}");
    }
    for name in [
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "x-hop",
        "x-real-ip",
        "forwarded",
        "x_forwarded_for",
        "x-tiergate-class",
        "proxy",
    ] {
        assert_eq!(values(&seen, name), [""; 0], "{name} must not pass: {seen:#}");
    }
    // Cookies byte by byte.
    assert!(values(&seen, "cookie")[0].starts_with("session=abc; theme=\"dark\"; empty=; long="));
    // And back: what the origin says of its own connection stays here.
    let answer = client.get("/hop");
    assert_eq!((answer.field("x-private"), answer.field("proxy-authenticate")), (None, None));
    assert_eq!((answer.field("x-public"), answer.text().as_str()), (Some("kept"), "hop"));
    // The last hop's request is answered here.
    client.send("OPTIONS /echo HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n");
    assert_eq!(client.answer().status, 501);
    let seen = echoed(
        &mut gateway.client(),
        "OPTIONS /echo HTTP/1.1\r\nHost: x\r\nMax-Forwards: 2\r\n\r\n",
    );
    assert_eq!(values(&seen, "max-forwards"), ["1"]);
    // An absolute target's host counts, not the field's.
    let seen = echoed(
        &mut gateway.client(),
        "GET http://Real.test:81/echo HTTP/1.1\r\nHost: other.test\r\n\r\n",
    );
    assert_eq!(
        (values(&seen, "host"), &seen["url"]),
        (vec!["Real.test:81".into()], &"/echo".into())
    );
}

#[test]
fn forwarding_fields_are_as_configured_and_continued_for_trusted_peers() {
    let Some(server) = servers::node() else { return };
    let mut policy = Policy::of(&[server.server()]);
    policy.top = "trusted = [\"127.0.0.0/8\"]".into();
    policy.tables = "[forwarding]\nx_forwarded = true\nforwarded = true\nvia = false\n\
                     [[class]]\nname = \"far\"\n[[class]]\nname = \"near\"\n\
                     [[rule]]\nclient = \"192.0.2.0/24\"\nclass = \"far\"\n"
        .into();
    let gateway = Gateway::start(&policy);
    let seen = echoed(
        &mut gateway.client(),
        "GET /echo HTTP/1.1\r\nHost: x.test\r\nX-Forwarded-For: 192.0.2.7\r\n\
         X-Forwarded-Proto: https\r\nX-Forwarded-Host: y.test\r\nForwarded: for=192.0.2.7\r\n\r\n",
    );
    assert_eq!(values(&seen, "x-forwarded-for"), ["192.0.2.7, 127.0.0.1"]);
    assert_eq!(values(&seen, "x-forwarded-proto"), ["https"]);
    assert_eq!(values(&seen, "x-forwarded-host"), ["y.test"]);
    let forwarded = "for=192.0.2.7, for=127.0.0.1;host=\"x.test\";proto=http";
    assert_eq!(values(&seen, "forwarded"), [forwarded]);
    assert_eq!(values(&seen, "via"), [""; 0]);
    // The client that a trusted peer names is the one that rules see.
    assert_eq!(gateway.number("/classes/0/arrived"), 1, "{:#}", gateway.status()["classes"]);
    assert_eq!(gateway.number("/classes/1/arrived"), 0);
}

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
