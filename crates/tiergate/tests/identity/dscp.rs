//! The code point of clients' packets in a running gateway: from real SYNs over loopback.

use crate::support;
use socket2::{Domain, Socket, Type};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use support::client::Client;
use support::gateway::{Gateway, Policy, Port};
use support::origin::Origin;
use support::{PATIENCE, eventually};
use tiergate::saved_syn;

const RULE: &str = "[[rule]]\ndscp = \"46..47\"\nrefuse = true\n";

/// A client whose packets bear a code point from the first one on.
fn marked(address: SocketAddr, dscp: u32) -> Client {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).expect("a socket");
    // The code point is the upper six bits of either field.
    let set = match address {
        SocketAddr::V4(_) => socket.set_tos_v4(dscp << 2),
        SocketAddr::V6(_) => socket.set_tclass_v6(dscp << 2),
    };
    set.expect("anybody may mark their packets");
    socket.connect_timeout(&address.into(), PATIENCE).expect("somebody listens");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
    Client { stream, buffer: Vec::new() }
}

fn status(address: SocketAddr, dscp: u32) -> u16 {
    marked(address, dscp).get("/").status
}

#[test]
fn the_code_point_of_the_syn_reaches_the_rules_by_both_versions_of_ip() {
    let origin = Origin::echo();
    let v6 = Port::reserve_on(Ipv6Addr::LOCALHOST.into());
    let gateway = Gateway::start(&Policy {
        tables: format!("[[listener]]\naddress = \"{}\"\n{RULE}", v6.address),
        ..Policy::of(&[origin.server()])
    });
    for address in [gateway.address, v6.address] {
        for (dscp, expected) in [(46, 403), (47, 403), (45, 200), (48, 200), (0, 200), (63, 200)] {
            assert_eq!(status(address, dscp), expected, "{dscp} at {address}");
        }
        // It is the connection's: every request on it has it.
        let mut client = marked(address, 46);
        assert_eq!([client.get("/").status, client.get("/").status], [403, 403]);
    }
}

#[test]
fn a_client_behind_a_proxy_has_not_the_proxy_s_code_point() {
    let origin = Origin::echo();
    let proxied = Port::reserve();
    let gateway = Gateway::start(&Policy {
        top: "trusted = [\"127.0.0.1\"]".into(),
        tables: format!(
            "[[listener]]\naddress = \"{}\"\nproxy_protocol = true\n{RULE}",
            proxied.address
        ),
        ..Policy::of(&[origin.server()])
    });
    let status = |address, header: &str, field: &str| {
        let mut client = marked(address, 46);
        client.send(format!("{header}GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n"));
        client.answer().status
    };
    let header = "PROXY TCP4 192.0.2.1 198.51.100.2 1 2\r\n";
    assert_eq!(status(proxied.address, header, ""), 200);
    assert_eq!(status(proxied.address, "PROXY UNKNOWN\r\n", ""), 200, "nobody knows whose it is");
    assert_eq!(status(gateway.address, "", ""), 403);
    assert_eq!(status(gateway.address, "", "X-Forwarded-For: 192.0.2.1\r\n"), 200);
    assert_eq!(status(gateway.address, "", "Forwarded: for=192.0.2.1\r\n"), 200);
}

#[test]
fn reloads_begin_and_end_it() {
    let origin = Origin::echo();
    let without = Policy::of(&[origin.server()]);
    let with = Policy { tables: RULE.into(), ..without.clone() };
    let gateway = Gateway::start(&without);
    let reload = |policy: &Policy| {
        gateway.write_policy(&policy.text(&[gateway.address], gateway.admin));
        let (status, said) = gateway.reload();
        assert_eq!(status, 200, "{said}");
    };
    assert_eq!(status(gateway.address, 46), 200);
    reload(&with);
    eventually("all threads see code points", || {
        (0..20).all(|_| status(gateway.address, 46) == 403)
    });
    reload(&without);
    assert_eq!(status(gateway.address, 46), 200);
}

/// What the system still keeps of clients of a listener after the gateway that had it is gone.
fn kept_after(listener: &TcpListener, policy: &Policy) -> Option<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut gateway = Gateway::start_on(listener, policy, folder.path());
    assert_eq!(status(gateway.address, 45), 200);
    gateway.drain();
    listener.set_nonblocking(false).expect("a socket of ours");
    let _client = marked(listener.local_addr().expect("bound"), 45);
    let (stream, _) = listener.accept().expect("a client is there");
    saved_syn::dscp_of(&stream)
}

#[test]
fn nothing_is_asked_of_the_system_unless_a_rule_asks() {
    let origin = Origin::echo();
    let any = SocketAddr::from((IpAddr::from(Ipv4Addr::LOCALHOST), 0));
    let listener = TcpListener::bind(any).expect("a free port");
    let without = Policy {
        tables: "[[rule]]\nurgency = 7\nrefuse = true\n".into(),
        ..Policy::of(&[origin.server()])
    };
    let with = Policy { tables: RULE.into(), ..Policy::of(&[origin.server()]) };
    assert_eq!(kept_after(&listener, &without), None);
    assert_eq!(kept_after(&listener, &with), Some(45));
    assert_eq!(kept_after(&listener, &without), None);
}
