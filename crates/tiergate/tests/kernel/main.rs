//! The kernel's part of the gate, with the gateway in a network namespace: overload begins policing and its end ends it, blocked clients are kept out, those in a session let in, and nothing is left
//! behind. Needs root's rights; without them it says so and tests nothing.

mod attach;
mod flood;
#[allow(dead_code, reason = "this test uses a part of it")]
#[path = "../../../tiergate-kernel/tests/network/mod.rs"]
mod network;
mod nft;
#[path = "../support/mod.rs"]
mod support;

use network::held::{Held, orphans};
use network::{INTERFACE, Network, SERVER};
use rustix::process::Signal;
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::client::Client;
use support::eventually;
use support::origin::Origin;
use support::process::Process;
use tempfile::TempDir;

const ADMIN: &str = "127.0.0.1:8434";
const TO: (IpAddr, u16) = (IpAddr::V4(SERVER), 80);
/// The client that is policed, and one that is not.
const POLICED: &str = "10.78.0.1";
const OTHER: &str = "10.79.0.1";
/// Long enough on a busy machine, too short for a second SYN.
const SOON: Duration = Duration::from_millis(700);

/// A gateway on the server's side of a network.
struct Gateway<'n> {
    network: &'n Network,
    process: Process,
    policy: PathBuf,
    folder: TempDir,
    origin: Origin,
}

impl<'n> Gateway<'n> {
    fn start(network: &'n Network, tables: &str) -> Self {
        Self::with_rights(network, tables, "+all")
    }

    /// One that has these rights, as `setpriv` reads them.
    fn with_rights(network: &'n Network, tables: &str, rights: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let policy = folder.path().join("policy.toml");
        let origin = network.on_server(Origin::echo);
        std::fs::write(&policy, text(&origin, tables)).expect("a folder of our own");
        let mut command = network.server_command(Path::new("setpriv"));
        command.arg(format!("--bounding-set={rights}")).arg(env!("CARGO_BIN_EXE_tiergate"));
        command.arg("run").arg(&policy).stdin(Stdio::null());
        let log = std::fs::File::create(folder.path().join("log")).expect("a folder of our own");
        command.stderr(log);
        let process = Process::start(&mut command);
        let gateway = Gateway { network, process, policy, folder, origin };
        eventually("it serves", || {
            network.on_server(|| Client::try_connect(ADMIN.parse().expect("an address")).is_ok())
        });
        gateway
    }

    fn kernel(&self) -> Value {
        self.status()["kernel"].clone()
    }

    fn status(&self) -> Value {
        let status = self.network.on_server(|| {
            Client::connect(ADMIN.parse().expect("an address")).get_local("/status").text()
        });
        serde_json::from_str(&status).expect("JSON")
    }

    fn metrics(&self) -> String {
        self.network.on_server(|| {
            Client::connect(ADMIN.parse().expect("an address")).get_local("/metrics").text()
        })
    }

    /// What it has logged.
    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).expect("it is there")
    }

    fn reload(&self, tables: &str) {
        std::fs::write(&self.policy, text(&self.origin, tables)).expect("a folder of our own");
        self.process.signal(Signal::HUP);
    }

    fn way(&self) -> Value {
        self.kernel()["interfaces"][0]["way"].clone()
    }

    /// The status of an answer on a new connection from an address; `None`: there is no connection.
    fn get(&self, from: &str, head: &str) -> Option<u16> {
        self.ask(from, &format!("GET / HTTP/1.1\r\nHost: x\r\n{head}\r\n")).map(|it| it.0)
    }

    /// The same of a request as it is written, with the head of the answer.
    fn ask(&self, from: &str, request: &str) -> Option<(u16, String)> {
        self.network.on_client(|| ask(from, &[request], SOON))
    }
}

/// The policy; of the tables the first line may be `trusted = …` or `police = …`, which belongs to none.
fn text(origin: &Origin, tables: &str) -> String {
    let has_top = !tables.starts_with('[');
    let (top, tables) = tables.split_once('\n').filter(|_| has_top).unwrap_or(("", tables));
    format!(
        "admin = \"{ADMIN}\"\nthreads = 1\n{top}\n[[listener]]\naddress = \"0.0.0.0:80\"\n[origin]\nservers = [\"{}\"]\nslots = 100\n{tables}",
        origin.server()
    )
}

/// Sends a request in these parts, on a new connection from an address: the status, and the head of the answer.
fn ask(from: &str, parts: &[&str], patience: Duration) -> Option<(u16, String)> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let from = SocketAddr::new(from.parse().expect("an address"), 0);
    socket.bind(&from.into()).expect("an address of the client");
    socket.connect_timeout(&SocketAddr::from(TO).into(), patience).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    socket.set_linger(Some(Duration::ZERO)).expect("set");
    socket.set_tcp_nodelay(true).expect("set");
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            std::thread::sleep(Duration::from_millis(30));
        }
        (&socket).write_all(part.as_bytes()).ok()?;
    }
    let (mut got, mut part) = (Vec::new(), [0; 4096]);
    while !got.windows(4).any(|it| it == b"\r\n\r\n") {
        match (&socket).read(&mut part).ok()? {
            0 => return None,
            len => got.extend(&part[..len]),
        }
    }
    let text = String::from_utf8_lossy(&got).into_owned();
    Some((text.get(9..12)?.parse().ok()?, text))
}

/// Ask again and again on new connections until told to stop; counts answers by whether they are refusals.
fn storm(from: &str, stop: &AtomicBool, [served, refused]: [&AtomicU64; 2]) {
    while !stop.load(Ordering::Relaxed) {
        match ask(from, &["GET / HTTP/1.1\r\nHost: x\r\n\r\n"], Duration::from_millis(30)) {
            Some((200, _)) => served.fetch_add(1, Ordering::Relaxed),
            Some(_) => refused.fetch_add(1, Ordering::Relaxed),
            None => 0,
        };
    }
}

const POLICY: &str = "[[rule]]\nclient = \"10.78.0.1\"\npolice = { rate = \"5/s\", burst = 5 }\n\
    [kernel]\ninterfaces = [\"in\"]\n";

#[test]
fn overload_begins_policing_and_its_end_ends_it() {
    let Some(network) = Network::start() else { return };
    let gateway = Gateway::start(&network, POLICY);
    eventually("it is attached", || gateway.way() == "native");
    let kernel = gateway.kernel();
    assert_eq!((&kernel["policing"], &kernel["fault"]), (&false.into(), &Value::Null));
    // No overload: the gateway refuses, and says why.
    let answers: Vec<_> = (0..20).map(|_| gateway.get(POLICED, "")).collect();
    assert!(answers.contains(&Some(429)) && !answers.contains(&None), "{answers:?}");
    let (stop, served, refused) = Default::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| network.on_client(|| storm(POLICED, &stop, [&served, &refused])));
        }
        let policing = || gateway.kernel()["policing"] == true;
        let until = Instant::now() + Duration::from_secs(60);
        while !policing() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
        let has_begun = policing();
        // What is refused from now on is what the kernel lets through, which is what the gateway would.
        let before = refused.load(Ordering::Relaxed);
        let others: Vec<_> = (0..100).map(|_| gateway.get(OTHER, "")).collect();
        std::thread::sleep(Duration::from_secs(3));
        let after = refused.load(Ordering::Relaxed);
        stop.store(true, Ordering::Relaxed);
        assert!(has_begun, "{}", gateway.kernel());
        assert!(others.iter().all(|it| *it == Some(200)), "{others:?}");
        assert!(
            before > 100 && after - before < before / 2,
            "{before} refused before, {after} after"
        );
    });
    let policer = gateway.kernel()["policers"][0].clone();
    assert_eq!(policer["policer"], "rule.1", "{policer}");
    assert!(policer["dropped"].as_u64() > Some(100), "{policer}");
    for line in
        ["tiergate_kernel_policing 1", "tiergate_kernel_interface_in_force{interface=\"in\"} 1"]
    {
        assert!(gateway.metrics().lines().any(|it| it == line), "{line}");
    }
    eventually("it is over", || gateway.kernel()["policing"] == false);
    // A policy that asks for nothing of it.
    gateway.reload("");
    eventually("it is gone", || gateway.kernel() == Value::Null);
    gateway.reload(POLICY);
    eventually("it is back", || gateway.way() == "native");
    let held = Held::by(gateway.process.id());
    assert!(held.is_some_of_each(), "{held:?}");
    drop(gateway);
    held.assert_gone();
}

#[test]
fn interfaces_that_go_and_come_and_those_that_are_missing() {
    let Some(network) = Network::start() else { return };
    let gateway = Gateway::start(&network, &POLICY.replace("\"in\"", "\"in\", \"later\""));
    eventually("one of two", || gateway.way() == "native");
    let fault = gateway.kernel()["fault"].clone();
    assert_eq!(fault, "there is no interface \"later\" in this network namespace");
    assert_eq!(gateway.get(POLICED, ""), Some(200), "it serves all the same");
    let ip = |words: &str| {
        let mut command = network.server_command(Path::new("ip"));
        assert!(command.args(words.split(' ')).status().expect("ip runs").success(), "{words}");
    };
    ip("link add later type veth peer name earlier");
    let later = || gateway.kernel()["interfaces"][1]["way"].clone();
    eventually("it has come", || later() == "native" && gateway.kernel()["fault"] == Value::Null);
    ip("link del later");
    eventually("it has gone", || later() == Value::Null);
    ip("link add later type veth peer name earlier");
    eventually("it has come again", || later() == "native");
    assert_eq!(gateway.kernel()["interfaces"][0]["name"], INTERFACE);
}

#[test]
fn blocked_clients_are_kept_out_and_those_in_a_session_let_in() {
    let Some(network) = Network::start() else { return };
    let tables = "[session]\nown = true\n\
        [[rule]]\nmethod = \"POST\"\npolice = { rate = \"1/m\", burst = 1 }\n\
        [[rule]]\nheader.x-no = \"*\"\npolice = { rate = \"1/m\", burst = 1 }\n\
        [refusal]\nblock = { after = 5, within = \"10s\", for = \"20s\" }\n\
        [kernel]\ninterfaces = [\"in\"]\nblock = \"all\"\nlet_in = \"60s\"\n";
    let gateway = Gateway::start(&network, tables);
    eventually("it is attached", || gateway.way() == "native");
    let blocked = |from: &str| {
        let answers: Vec<_> = (0..12).map(|_| gateway.get(from, "X-No: 1\r\n")).collect();
        std::thread::sleep(Duration::from_millis(300));
        answers
    };
    // The client of a session: what it asks for next is let in, although the gate blocks it.
    let (_, head) = gateway.ask(OTHER, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").expect("an answer");
    let cookie = head
        .lines()
        .find_map(|line| line.to_lowercase().starts_with("set-cookie: ").then(|| &line[12..]));
    let cookie = cookie.and_then(|it| it.split(';').next()).expect("a session");
    assert_eq!(gateway.get(OTHER, &format!("Cookie: {cookie}\r\n")), Some(200));
    std::thread::sleep(Duration::from_millis(300));
    let answers = blocked(POLICED);
    assert!(answers.contains(&Some(429)), "{answers:?}");
    eventually("its SYNs are dropped", || gateway.get(POLICED, "").is_none());
    let answers = blocked(OTHER);
    assert!(answers.contains(&Some(429)) && !answers.contains(&None), "{answers:?}");
    let next = gateway.get(OTHER, "");
    assert_eq!(next, Some(429), "the gateway says that it is blocked");
    let is_counted = |what: &str| gateway.kernel()[what].as_u64() > Some(0);
    eventually("both are counted", || is_counted("blocked") && is_counted("let_in"));
    // A policy without blocks ends them.
    gateway.reload("[kernel]\ninterfaces = [\"in\"]\n");
    eventually("it gets in", || gateway.get(POLICED, "") == Some(200));
}

#[test]
fn a_trusted_proxy_is_never_kept_out_with_its_clients() {
    let Some(network) = Network::start() else { return };
    let tables = "[[rule]]\nheader.x-no = \"*\"\npolice = { rate = \"1/m\", burst = 1 }\n\
        [refusal]\nblock = { after = 5, within = \"10s\", for = \"20s\" }\n\
        [kernel]\ninterfaces = [\"in\"]\nblock = \"all\"\n";
    let gateway = Gateway::start(&network, &format!("trusted = [\"{OTHER}/32\"]\n{tables}"));
    eventually("it is attached", || gateway.way() == "native");
    // Without a field that names a client: it is blocked itself, and its connections are the gateway's to refuse.
    for (from, kept_out) in [(OTHER, false), (POLICED, true)] {
        let answers: Vec<_> = (0..12).map(|_| gateway.get(from, "X-No: 1\r\n")).collect();
        std::thread::sleep(Duration::from_millis(300));
        assert!(answers.contains(&Some(429)), "{answers:?}");
        let next = || gateway.get(from, "X-Forwarded-For: 192.0.2.7\r\n");
        if kept_out {
            eventually("its SYNs are dropped", || next().is_none());
        } else {
            assert!(next().is_some(), "{from}");
        }
    }
    assert_eq!(gateway.get(OTHER, "X-Forwarded-For: 192.0.2.7\r\n"), Some(200), "its clients");
}

/// A reload begins and ends that connections are accepted with their first data only: with `requests`, and rules that the kernel judges.
#[test]
fn only_where_first_requests_are_judged_are_connections_accepted_with_them() {
    let Some(network) = Network::start() else { return };
    let judging = "[[rule]]\npath = \"/cgi/*\"\npolice = { rate = \"1/m\", burst = 20 }\n\
        [kernel]\ninterfaces = [\"in\"]\nrequests = \"answer\"\n";
    let others = "[[rule]]\npath = \"*/cgi/*\"\npolice = { rate = \"1/m\", burst = 20 }\n\
        [kernel]\ninterfaces = [\"in\"]\nrequests = \"answer\"\n";
    let gateway = Gateway::start(&network, judging);
    let accepted = || -> u64 {
        let metrics = gateway.metrics();
        let name = "tiergate_connections_accepted_total ";
        let value = metrics.lines().find_map(|line| line.strip_prefix(name));
        value.expect("it is there").parse().expect("a number")
    };
    // Whether a connection that sends nothing is accepted at once.
    let is_accepted = || {
        let before = accepted();
        let silent = network.on_client(|| {
            TcpStream::connect_timeout(&SocketAddr::from(TO), SOON).expect("it listens")
        });
        std::thread::sleep(Duration::from_millis(300));
        let is_accepted = accepted() > before;
        // Its end is accepted as data is: not to be taken for the next one.
        drop(silent);
        std::thread::sleep(Duration::from_millis(300));
        is_accepted
    };
    eventually("deferred", || !is_accepted());
    for (tables, wanted) in [
        (String::new(), true),
        (judging.into(), false),
        (others.into(), true),
        (judging.into(), false),
        (format!("trusted = [\"{OTHER}/32\"]\n{judging}"), true),
    ] {
        gateway.reload(&tables);
        eventually(&format!("after a reload: {tables}"), || is_accepted() == wanted);
    }
}

#[test]
fn the_doctor_tries_each_program_and_says_which_right_is_missing() {
    let Some(_network) = Network::start() else { return };
    let before = orphans();
    let found = |without: &str| {
        let mut command = Command::new("setpriv");
        command.arg(format!("--bounding-set={without}")).arg(env!("CARGO_BIN_EXE_tiergate"));
        let output = command.args(["doctor", "--json"]).output().expect("setpriv runs");
        let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        ["kernel-syn", "kernel-http", "kernel-steer"].map(|name| {
            let mut machine = all["machine"].as_array().expect("a list").iter();
            let it = machine.find(|it| it["name"] == name).expect("it is tried");
            it["missing"].as_str().unwrap_or("nothing").to_owned()
        })
    };
    assert_eq!(found("+all"), ["nothing"; 3]);
    for without in ["-bpf,-sys_admin", "-net_admin,-sys_admin"] {
        for missing in found(without) {
            assert!(
                missing.ends_with("it needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"),
                "{missing}"
            );
        }
    }
    eventually("nothing is left", || orphans().is_subset(&before));
}

/// Every way round the rules for paths that the kernel does not judge: it passes, and the gateway finds the same rule after it has normalised the path, or takes the request for none.
#[test]
fn what_the_kernel_cannot_judge_the_gateway_refuses() {
    let Some(network) = Network::start() else { return };
    let tables = "police = \"all\"\n[[policer]]\nname = \"all\"\nrate = \"10000/s\"\nburst = 500\n\
        [[rule]]\npath = \"/cgi/*\"\npolice = { rate = \"1/m\", burst = 20 }\n\
        [[rule]]\npath = \"/cgi/admin*\"\nrefuse = 404\n\
        [kernel]\ninterfaces = [\"in\"]\nrequests = \"answer\"\n";
    let gateway = Gateway::start(&network, tables);
    eventually("it is attached", || gateway.kernel()["interfaces"][0]["ingress"] == true);
    let plain = "GET /cgi/x HTTP/1.1\r\nHost: x\r\n\r\n";
    let (stop, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            network.on_client(|| {
                while !stop.load(Ordering::Relaxed) {
                    let answer = ask(POLICED, &[plain], SOON);
                    // What the gateway says has a body.
                    let by_kernel = answer.is_some_and(|(status, it)| {
                        status == 429 && it.contains("\r\nContent-Length: 0\r\n")
                    });
                    seen.fetch_add(u64::from(by_kernel), Ordering::Relaxed);
                }
            });
        });
        let until = Instant::now() + Duration::from_secs(60);
        while seen.load(Ordering::Relaxed) < 50 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        let is_policed = seen.load(Ordering::Relaxed) >= 50;
        let refused = || gateway.kernel()["requests"][0]["refused"].as_u64();
        let table: &[(&str, &[&str])] = &[
            ("split within the path", &["GET /cg", "i/x HTTP/1.1\r\nHost: x\r\n\r\n"]),
            ("split within the method", &["G", "ET /cgi/x HTTP/1.1\r\nHost: x\r\n\r\n"]),
            ("absolute", &["GET http://x/cgi/x HTTP/1.1\r\nHost: x\r\n\r\n"]),
            ("absolute, other case", &["GET HTTP://x/cgi/x HTTP/1.1\r\nHost: x\r\n\r\n"]),
            ("encoded letter", &["GET /c%67i/x HTTP/1.1\r\nHost: x\r\n\r\n"]),
            ("encoded slash", &["GET /cgi%2fx HTTP/1.1\r\nHost: x\r\n\r\n"]),
            ("two slashes", &["GET //cgi/x HTTP/1.1\r\nHost: x\r\n\r\n"]),
            ("two slashes within", &["GET /cgi//x HTTP/1.1\r\nHost: x\r\n\r\n"]),
            ("a dot", &["GET /./cgi/x HTTP/1.1\r\nHost: x\r\n\r\n"]),
            ("two dots", &["GET /a/../cgi/x HTTP/1.1\r\nHost: x\r\n\r\n"]),
            ("an encoded dot", &["GET /%2e/cgi/x HTTP/1.1\r\nHost: x\r\n\r\n"]),
            ("a backslash", &["GET /cgi/\\x HTTP/1.1\r\nHost: x\r\n\r\n"]),
            ("another method", &["PUT /cgi/x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"]),
            ("a method in lower case", &["get /cgi/x HTTP/1.1\r\nHost: x\r\n\r\n"]),
            ("an empty line before", &["\r\nGET /cgi/x HTTP/1.1\r\nHost: x\r\n\r\n"]),
            ("two spaces", &["GET  /cgi/x HTTP/1.1\r\nHost: x\r\n\r\n"]),
            ("a tab", &["GET\t/cgi/x HTTP/1.1\r\nHost: x\r\n\r\n"]),
        ];
        let found: Vec<_> = table
            .iter()
            .map(|(name, parts)| (*name, network.on_client(|| ask(OTHER, parts, SOON))))
            .collect();
        let by_rule = gateway.ask(OTHER, "GET /cgi/admin/x HTTP/1.1\r\nHost: x\r\n\r\n");
        // The second of two in one packet, and of a kept connection: the first has no rule.
        let first = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        let second = network.on_client(|| second(first, plain));
        let until = Instant::now() + Duration::from_secs(5);
        // It is shown once a second.
        while refused() < Some(50) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
        let by_kernel = refused();
        stop.store(true, Ordering::Relaxed);
        assert!(is_policed, "{}", gateway.kernel());
        assert!(by_kernel >= Some(50), "{by_kernel:?}");
        for (name, answer) in &found {
            let (status, text) = answer.as_ref().unwrap_or_else(|| panic!("{name}: no answer"));
            assert!([400, 429].contains(status), "{name}: {text}");
        }
        assert_eq!(by_rule.map(|it| it.0), Some(404), "what the rule says, not the kernel");
        let policed = found.iter().filter(|it| it.1.as_ref().is_some_and(|it| it.0 == 429)).count();
        assert!(policed >= 10, "{found:?}");
        assert_eq!(second, [[200, 429]; 2]);
    });
    // What the rule does not mean is not touched.
    assert_eq!(gateway.get(OTHER, ""), Some(200));
    // The controls of rates know what was asked for: that of the rule, and that of all requests, whose tokens the connections have taken.
    eventually("they know", || {
        let status = gateway.status();
        let refused = &status["kernel"]["requests"][0]["refused"];
        let early = |name: &str| {
            let mut all = status["policers"].as_array().expect("a list").iter();
            all.find(|it| it["name"] == name).map(|it| &it["early"])
        };
        refused.as_u64() >= Some(50)
            && early("rule.1") == Some(refused)
            && early("all") == Some(refused)
    });
}

/// The answers to two requests, together and one after the other, on a connection.
fn second(one: &str, other: &str) -> [[u16; 2]; 2] {
    [true, false].map(|together| {
        let mut client = Client::connect(SocketAddr::from(TO));
        if together {
            client.send(format!("{one}{other}"));
            return [client.answer().status, client.answer().status];
        }
        client.send(one);
        let first = client.answer().status;
        client.send(other);
        [first, client.answer().status]
    })
}
