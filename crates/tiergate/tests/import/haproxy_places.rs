//! Addresses that HAProxy binds: each connection gets the rules of the frontend that HAProxy has for it, or is refused.

use super::safety::{LESS, STRICTER, lists};
use super::support::client::Client;
use super::support::gateway::Port;
use super::support::origin::{Origin, ok};
use super::support::process::{Process, program};
use super::{Verdict, await_listening, explained, of_haproxy};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use tiergate::cli::explain::Known;
use tiergate::import::Imported;

/// Two backends; their servers are put in by [`both`].
const BACKENDS: &str = "backend b\n server s SERVER-B\nbackend c\n server s SERVER-C\n";
const DEFAULTS: &str =
    "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n";

/// A server whose answers name it.
fn origin(name: &'static str) -> Origin {
    Origin::answering(move |_| {
        let text = String::from_utf8(ok("")).expect("a head");
        text.replacen("\r\n", &format!("\r\nX-Backend: {name}\r\n"), 1).into_bytes()
    })
}

/// Status and server; 0 if nothing listens.
fn verdict(ip: IpAddr, port: u16, path: &str) -> Verdict {
    let Ok(mut client) = Client::try_connect(SocketAddr::new(ip, port)) else {
        return (0, String::new());
    };
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    let answer = client.try_answer(false).expect("an answer");
    let server = answer.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-backend"));
    (answer.status, server.map(|(_, value)| value.clone()).unwrap_or_default())
}

fn started(mut command: Command, file: &Path, at: SocketAddr) -> Process {
    command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = Process::start(&mut command);
    await_listening(&mut process, at);
    process
}

/// What HAProxy and the gateway answer to GET of these paths at these addresses of the port `PORT`. `first`: an address that both listen at.
fn both(text: &str, first: IpAddr, asked: &[(IpAddr, &str)]) -> Vec<[Verdict; 2]> {
    let haproxy = program("haproxy").expect("haproxy is installed by scripts/setup.sh");
    let folder = tempfile::tempdir().expect("a folder");
    let (b, c) = (origin("b"), origin("c"));
    let text = format!("{DEFAULTS}{text}{BACKENDS}");
    let text = text.replace("SERVER-B", &b.server()).replace("SERVER-C", &c.server());
    let held = || Port::reserve_on(Ipv6Addr::UNSPECIFIED.into());
    let (peer_port, port) = (held(), held());
    let ports = [peer_port.address.port(), port.address.port()];
    let [peer_text, text] = ports.map(|it| text.replace("PORT", &it.to_string()));
    let (config, policy) = (folder.path().join("haproxy.cfg"), folder.path().join("policy.toml"));
    let made = of_haproxy(&text).expect("it maps").policy;
    fs::write(&config, peer_text).expect("our own folder");
    fs::write(&policy, format!("admin = false\n{made}")).expect("our own folder");
    let mut command = Command::new(haproxy);
    command.arg("-db").arg("-f");
    let _peer = started(command, &config, SocketAddr::new(first, ports[0]));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
    command.arg("run");
    let _gateway = started(command, &policy, SocketAddr::new(first, ports[1]));
    asked.iter().map(|(ip, path)| ports.map(|port| verdict(*ip, port, path))).collect()
}

fn v4(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// What `explain` says of a request that came to an address, by a listener.
fn at(made: &Imported, listener: &str, destination: &str, path: &str) -> String {
    let known = Known {
        listener: Some(listener.to_owned()),
        destination: Some(destination.parse().expect("an address")),
        ..Known::default()
    };
    explained(made, path, known)
}

#[test]
fn an_address_beside_all_addresses_keeps_its_frontend() {
    let (all, one) = (
        "frontend all\n bind :PORT\n default_backend b\n",
        "frontend one\n bind 127.0.0.2:PORT\n http-request deny if { path_beg /adm }\n http-request deny if { path /d } { dst 127.0.0.1 }\n default_backend c\n",
    );
    for text in [format!("{all}{one}"), format!("{one}{all}")] {
        let asked = [(v4(1), "/adm"), (v4(2), "/adm"), (v4(2), "/x"), (v4(2), "/d")];
        let said = both(&text, v4(1), &asked);
        for (index, (status, server)) in
            [(200, "b"), (403, ""), (200, "c"), (200, "c")].into_iter().enumerate()
        {
            let right = (status, server.to_owned());
            assert_eq!(said[index], [right.clone(), right], "{text}{:?}", asked[index]);
        }
    }
    // Nothing of it is less safe.
    let text = format!("{all}{one}{BACKENDS}").replace("PORT", "80").replace("SERVER-", "s:");
    let made = of_haproxy(&text.replace("s:B", "s:1").replace("s:C", "s:2")).expect("it maps");
    assert_eq!(made.notes, [""; 0], "{}", made.policy);
}

#[test]
fn all_addresses_of_ipv6_are_those_of_ipv4_too() {
    let text = "frontend six\n bind :::PORT\n http-request deny if { src 127.0.0.1 }\n default_backend b\n\
                frontend four\n bind 127.0.0.2:PORT\n default_backend c\n";
    let said = both(text, V6, &[(v4(1), "/"), (v4(2), "/"), (V6, "/")]);
    for (index, (status, server)) in [(403, ""), (200, "c"), (200, "b")].into_iter().enumerate() {
        let right = (status, server.to_owned());
        assert_eq!(said[index], [right.clone(), right], "{index}");
    }
}

#[test]
fn a_listener_of_ipv6_alone_serves_no_client_of_ipv4() {
    let text = "frontend six\n bind :::PORT v6only\n default_backend b\n";
    let said = both(text, V6, &[(v4(1), "/"), (V6, "/")]);
    assert_eq!(said[0], [(0, String::new()), (404, String::new())]);
    assert_eq!(said[1][0], said[1][1]);
    // Beside a listener of IPv4 it takes none of it.
    let text = format!("frontend f\n bind :80\n bind :::80 v6only\n default_backend b\n{BACKENDS}");
    let made = of_haproxy(&text.replace("SERVER-B", "b:1").replace("SERVER-C", "c:1"));
    assert!(!made.expect("it maps").policy.contains("destination"));
}

#[test]
fn clients_certificates_of_one_address_are_not_forgone() {
    let whole = |all: &str, one: &str| {
        of_haproxy(&format!(
            "frontend all\n bind :443{all}\n default_backend b\nfrontend one\n bind 127.0.0.2:443{one}\n default_backend c\n\
             backend b\n server s b:1\nbackend c\n server s c:1\n"
        ))
        .expect("it maps")
    };
    let asks = " ssl crt x.pem verify required ca-file ca.pem";
    for (all, one, is_served) in [
        (" ssl crt x.pem", asks, false),
        ("", " ssl crt x.pem", false),
        (" ssl crt x.pem", "", false),
        (asks, " ssl crt y.pem verify required ca-file ca.pem", true),
        (" ssl crt x.pem", " ssl crt y.pem", true),
        ("", " accept-proxy", false),
    ] {
        let made = whole(all, one);
        assert_eq!(made.policy.matches("[[listener]]").count(), 1, "{}", made.policy);
        let said = at(&made, "0.0.0.0:443", "127.0.0.2", "/");
        assert_eq!(!said.contains("It is refused"), is_served, "{all} {one}\n{}", made.policy);
        assert!(!at(&made, "0.0.0.0:443", "127.0.0.3", "/").contains("It is refused"));
        assert_eq!(made.less_safe, 0, "{}", made.policy);
        match is_served {
            false => lists(&made, STRICTER, "127.0.0.2:443"),
            true => {
                assert!(
                    made.policy.contains(
                        "certificates = [{ certificate = \"x.pem\", key = \"x.pem\" }, { certificate = \"y.pem\""
                    ),
                    "{}",
                    made.policy
                );
                assert!(said.contains("pool c"), "{said}");
            }
        }
    }
}

#[test]
fn connections_that_another_listener_takes_are_listed() {
    for bind in ["localhost:80", "10.0.0.1:79-81", ":80 interface eth0"] {
        let made = of_haproxy(&format!(
            "frontend f\n bind :80\n default_backend b\nfrontend g\n bind {bind}\n default_backend b\nbackend b\n server s a:1\n"
        ))
        .expect("it maps");
        lists(&made, LESS, &format!("bind {bind}: "));
    }
}

#[test]
fn options_of_listeners_are_read_as_such() {
    let bound = |global: &str, bind: &str| {
        of_haproxy(&format!(
            "global\n{global}frontend f\n bind :80\n bind {bind}\n default_backend b\nbackend b\n server s a:1\n"
        ))
        .expect("it maps")
    };
    let made = bound("", ":443 ssl crt a.pem crt b.pem alpn h2 crt a.pem");
    assert!(
        made.policy.contains("certificates = [{ certificate = \"a.pem\", key = \"a.pem\" }, { certificate = \"b.pem\", key = \"b.pem\" }] }"),
        "{}",
        made.policy
    );
    let made = bound(
        " crt-base /etc/c\n ca-base /etc/ca/\n",
        ":443 ssl crt a.pem verify required ca-file ca.pem",
    );
    for said in ["certificate = \"/etc/c/a.pem\"", "client_ca = \"/etc/ca/ca.pem\""] {
        assert!(made.policy.contains(said), "{}", made.policy);
    }
    // A name that reads like an option.
    let made = bound("", ":81 name ssl");
    assert!(made.policy.contains("0.0.0.0:81") && made.notes.is_empty(), "{}", made.policy);
    let made = bound("", ":443 ssl crt /etc/certificates/");
    lists(&made, STRICTER, "bind :443 ssl crt /etc/certificates/: ");
    assert!(!made.policy.contains("0.0.0.0:443"), "{}", made.policy);
    let made = bound("", ":81 maxconn 5");
    assert!(made.notes.join("\n").contains("maxconn of one listener"), "{:?}", made.notes);
    let made = bound("", ":443 ssl crt a.pem ciphers x");
    assert_eq!(made.less_safe, 1, "{:?}", made.notes);
}
