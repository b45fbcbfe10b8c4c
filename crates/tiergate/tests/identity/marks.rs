//! The code points of answers, as packets have them that leave the gateway: seen by a packet socket on loopback, which needs
//! the right to open one.

use crate::support;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::HashMap;
use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use support::client::Client;
use support::eventually_is;
use support::gateway::{Gateway, Policy, Port, certificate};
use support::origin::Origin;
use support::process::program;

/// All protocols, in the order of the network.
const ETH_P_ALL: u16 = 3;

/// The code points of packets with data, in order, each once until the next: by the port at their other end.
type Seen = Arc<Mutex<HashMap<u16, Vec<u8>>>>;

/// Sees the packets that leave a port, or those that go to one.
struct Sniffer {
    seen: Seen,
    over: Arc<AtomicBool>,
}

impl Sniffer {
    /// What leaves these ports. `None`, and says so, without the right to see packets.
    fn start(from: &[u16]) -> Option<Self> {
        Self::start_at(from, |from, to| (from, to))
    }

    /// What goes to this port.
    fn start_to(port: u16) -> Option<Self> {
        Self::start_at(&[port], |from, to| (to, from))
    }

    /// `ends`: of the ports that a packet comes from and goes to, the one that is asked for, and the other.
    fn start_at(ports: &[u16], ends: fn(u16, u16) -> (u16, u16)) -> Option<Self> {
        let protocol = Protocol::from(i32::from(ETH_P_ALL.to_be()));
        let socket = match Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol)) {
            Ok(socket) => socket,
            Err(error) => {
                eprintln!("not tested: no packet socket ({error}); it needs root or CAP_NET_RAW");
                return None;
            }
        };
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("not zero");
        let (seen, over) = (Seen::default(), Arc::new(AtomicBool::new(false)));
        let (ports, of_all, until) = (ports.to_vec(), seen.clone(), over.clone());
        thread::spawn(move || {
            let mut packet = [0; 256];
            while !until.load(Ordering::Relaxed) {
                let len = (&socket).read(&mut packet).unwrap_or_default();
                let Some((from, to, dscp)) = with_data(&packet[..len]) else { continue };
                let (port, other) = ends(from, to);
                if ports.contains(&port) {
                    let mut seen = of_all.lock().expect("nobody panics with it");
                    let points = seen.entry(other).or_default();
                    if points.last() != Some(&dscp) {
                        points.push(dscp);
                    }
                }
            }
        });
        Some(Sniffer { seen, over })
    }

    fn to(&self, port: u16) -> Vec<u8> {
        self.seen.lock().expect("nobody panics with it").get(&port).cloned().unwrap_or_default()
    }

    /// Those of every connection.
    fn all(&self) -> Vec<Vec<u8>> {
        self.seen.lock().expect("nobody panics with it").values().cloned().collect()
    }
}

impl Drop for Sniffer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Both ports and the code point of a TCP packet that has data. Cut packets will do.
fn with_data(packet: &[u8]) -> Option<(u16, u16, u8)> {
    let word = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
    let (field, tcp, rest) = match packet.first()? >> 4 {
        4 if *packet.get(9)? == 6 => {
            let len = usize::from(packet[0] & 15) * 4;
            (packet[1], len, usize::from(word(2)?).checked_sub(len)?)
        }
        6 if *packet.get(6)? == 6 => ((word(0)? >> 4) as u8, 40, usize::from(word(4)?)),
        _ => return None,
    };
    let head = usize::from(packet.get(tcp + 12)? >> 4) * 4;
    (rest > head).then_some((word(tcp)?, word(tcp + 2)?, field >> 2))
}

const CLASSES: &str = "[[class]]\nname = \"gold\"\ndscp = \"af41\"\n\
     [[class]]\nname = \"plain\"\n\
     [[class]]\nname = \"bulk\"\ndscp = 1\n\
     [[rule]]\npath = \"/gold\"\nclass = \"gold\"\n\
     [[rule]]\npath = \"/bulk\"\nclass = \"bulk\"\n\
     [[rule]]\npath = \"/no\"\nclass = \"bulk\"\nrefuse = true\n\
     [[rule]]\npath = \"/**\"\nclass = \"plain\"\n";

fn changes(gateway: &Gateway) -> u64 {
    let metrics = Client::connect(gateway.admin).get_local("/metrics").text();
    let line = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().parse().ok()).expect("a number")
    };
    assert_eq!(line("tiergate_answer_marks_failed_total"), 0);
    line("tiergate_answer_marks_changed_total")
}

#[test]
fn packets_bear_the_code_point_of_their_answer_s_class_over_both_versions_of_ip() {
    let origin = Origin::echo();
    let (v6, both) = (
        Port::reserve_on(Ipv6Addr::LOCALHOST.into()),
        Port::reserve_on(Ipv6Addr::UNSPECIFIED.into()),
    );
    let listeners = format!(
        "[[listener]]\naddress = \"{}\"\n[[listener]]\naddress = \"{}\"\n",
        v6.address, both.address
    );
    let tables = listeners + CLASSES;
    let gateway = Gateway::start(&Policy { tables, ..Policy::of(&[origin.server()]) });
    let mapped = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), both.address.port());
    let all = [gateway.address, v6.address, mapped];
    let Some(sniffer) = Sniffer::start(&all.map(|address| address.port())) else { return };
    let mut expected = 0;
    for address in all {
        let mut client = Client::connect(address);
        let port = client.stream.local_addr().expect("connected").port();
        for (path, status) in [
            ("/first", 200),
            ("/gold", 200),
            ("/gold", 200),
            ("/bulk", 200),
            ("/no", 403),
            ("/last", 200),
            ("/gold", 200),
        ] {
            assert_eq!(client.get(path).status, status, "{path} at {address}");
        }
        eventually_is("code points", vec![0, 34, 1, 0, 34], || sniffer.to(port));
        // One change for each that differs from the one before.
        expected += 4;
        assert_eq!(changes(&gateway), expected, "{address}");
        let mut other = Client::connect(address);
        let port = other.stream.local_addr().expect("connected").port();
        assert_eq!(other.get("/no").status, 403);
        eventually_is("a refusal", vec![1], || sniffer.to(port));
        expected += 1;
        assert_eq!(changes(&gateway), expected, "{address}");
    }
}

#[test]
fn through_tls_and_http2_too() {
    let Some(curl) = program("curl") else { return };
    let origin = Origin::echo();
    let folder = tempfile::tempdir().expect("a folder");
    let (_, listener) = certificate(folder.path(), "server");
    let tables = CLASSES.to_owned();
    let gateway = Gateway::start(&Policy { listener, tables, ..Policy::of(&[origin.server()]) });
    let Some(sniffer) = Sniffer::start(&[gateway.address.port()]) else { return };
    for version in ["--http1.1", "--http2"] {
        let url = format!("https://{}/gold", gateway.address);
        let out =
            Command::new(&curl).args(["-sk", version, "-w", "%{http_version}", &url]).output();
        let out = out.expect("it runs");
        assert!(out.status.success(), "{out:?}");
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(said.ends_with(if version == "--http2" { "2" } else { "1.1" }), "{said}");
    }
    // The handshakes are not of any class.
    eventually_is("code points", vec![vec![0, 34]; 2], || sniffer.all());
    assert_eq!(changes(&gateway), 2);
}

#[test]
fn nothing_is_marked_unless_a_class_says_so_and_reloads_begin_and_end_it() {
    let origin = Origin::echo();
    let without = Policy { tables: CLASSES.replace("dscp", "#"), ..Policy::of(&[origin.server()]) };
    let with = Policy { tables: CLASSES.into(), ..without.clone() };
    let gateway = Gateway::start(&without);
    let Some(sniffer) = Sniffer::start(&[gateway.address.port()]) else { return };
    let mut client = gateway.client();
    let port = client.stream.local_addr().expect("connected").port();
    assert_eq!(client.get("/gold").status, 200);
    for (policy, points) in [(&with, vec![0, 34]), (&without, vec![0, 34, 0])] {
        gateway.write_policy(&policy.text(&[gateway.address], gateway.admin));
        assert_eq!(gateway.reload().0, 200);
        assert_eq!(client.get("/gold").status, 200);
        eventually_is("code points", points, || sniffer.to(port));
    }
    assert_eq!(changes(&gateway), 2);
}

#[test]
fn the_background_is_marked_on_both_sides_if_the_link_says_so() {
    let origin = Origin::echo();
    let port = origin.address.port();
    let tables = "[[class]]\nname = \"gold\"\ndscp = \"af41\"\n[[class]]\nname = \"plain\"\n\
         [[class]]\nname = \"bulk\"\nbackground = true\n\
         [[rule]]\npath = \"/gold\"\nclass = \"gold\"\n\
         [[rule]]\npath = \"/bulk\"\nclass = \"bulk\"\n\
         [[rule]]\npath = \"/**\"\nclass = \"plain\"\n";
    // Idle connections are a thread's own.
    let top = "threads = 1".to_owned();
    let without = Policy { tables: tables.into(), top, ..Policy::of(&[origin.server()]) };
    let with = Policy { tables: format!("[link]\nmark = true\n{tables}"), ..without.clone() };
    let gateway = Gateway::start(&without);
    let (Some(answers), Some(requests)) =
        (Sniffer::start(&[gateway.address.port()]), Sniffer::start_to(port))
    else {
        return;
    };
    let mut client = gateway.client();
    let client_port = client.stream.local_addr().expect("connected").port();
    let mut get = |path: &str| assert_eq!(client.get(path).status, 200, "{path}");
    ["/gold", "/bulk", "/plain"].into_iter().for_each(&mut get);
    eventually_is("answers", vec![34, 0], || answers.to(client_port));
    eventually_is("requests, none marked", vec![vec![0]], || requests.all());
    gateway.write_policy(&with.text(&[gateway.address], gateway.admin));
    assert_eq!(gateway.reload().0, 200);
    ["/bulk", "/gold", "/plain", "/bulk", "/plain"].into_iter().for_each(&mut get);
    eventually_is("answers", vec![34, 0, 1, 34, 0, 1, 0], || answers.to(client_port));
    // One connection, which each request leaves to the next.
    eventually_is("requests", vec![vec![0, 1, 34, 0, 1, 0]], || requests.all());
    gateway.write_policy(&without.text(&[gateway.address], gateway.admin));
    assert_eq!(gateway.reload().0, 200);
    get("/gold");
    eventually_is("answers", vec![34, 0, 1, 34, 0, 1, 0, 34], || answers.to(client_port));
    assert_eq!(requests.all(), [[0, 1, 34, 0, 1, 0]], "as before");
}
