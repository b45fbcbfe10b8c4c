//! `tiergate kernel attach` before a real nginx: each class gets its listener, SYNs and first requests are policed, and nothing is left behind. Needs root's rights.

use crate::network::held::Held;
use crate::network::{INTERFACE, Network, SERVER, SERVER_V6, flood};
use crate::nft::tables as tables_of;
use crate::support::eventually;
use crate::support::process::{Process, program};
use rustix::process::Signal;
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PREMIUM: &str = "10.79.0.1";
const STANDARD: &str = "10.78.0.1";
const PREMIUM_V6: &str = "fd79::1";
const STANDARD_V6: &str = "fd78::1";
/// Long enough on a busy machine, too short for a second SYN.
const SOON: Duration = Duration::from_millis(700);
const CLASSES: &str = "[[class]]\nname = \"premium\"\n[[class]]\nname = \"standard\"\n\
    [[rule]]\nclient = [\"10.79.0.0/16\", \"fd79::/64\"]\nclass = \"premium\"\n";
const LISTENERS: [&str; 6] = [
    "--class=premium=127.0.0.1:8081",
    "--class=premium=[::1]:8081",
    "--default=127.0.0.1:8082",
    "--default=[::1]:8082",
    "--listen=:80",
    "--always",
];
/// The port that clients connect to, and listeners for the classes; each answers with its name.
const ITSELF: (&str, &str) = ("80 default_server; listen [::]:80 ipv6only=on", "itself");
const OF_PREMIUM: (&str, &str) = ("127.0.0.1:8081 deferred; listen [::1]:8081", "premium");
const OF_OTHERS: (&str, &str) = ("127.0.0.1:8082; listen [::1]:8082", "others");

/// A server that knows nothing of it.
struct Nginx {
    _process: Process,
    folder: TempDir,
}

impl Nginx {
    /// `None`: it is not installed, which is said.
    fn start(network: &Network, servers: &[(&str, &str)]) -> Option<Nginx> {
        let nginx = program("nginx")?;
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().display();
        let server = |(listen, name): &(&str, &str)| {
            format!("server {{ listen {listen}; location / {{ return 200 \"{name}\"; }} }}\n")
        };
        let servers = servers.iter().map(server).collect::<String>();
        let config = format!(
            "daemon off; master_process off; pid {root}/pid; error_log {root}/error.log;\n\
             events {{ worker_connections 1024; }}\n\
             http {{ access_log {root}/access.log; client_body_temp_path {root}/body;\n\
             proxy_temp_path {root}/proxy; fastcgi_temp_path {root}/fcgi;\n\
             uwsgi_temp_path {root}/uwsgi; scgi_temp_path {root}/scgi;\n{servers}}}\n"
        );
        let path = folder.path().join("nginx.conf");
        fs::write(&path, config).expect("our own folder");
        let mut command = network.server_command(&nginx);
        command.args(["-e", &format!("{root}/error.log"), "-p", &root.to_string(), "-c"]).arg(path);
        let process = Process::start(command.stdin(Stdio::null()));
        let server = Nginx { _process: process, folder };
        eventually("nginx listens", || server.folder.path().join("pid").exists());
        Some(server)
    }

    /// How many requests with this in their path it has answered.
    fn seen(&self, path: &str) -> usize {
        let log = fs::read_to_string(self.folder.path().join("access.log"));
        log.unwrap_or_default().lines().filter(|line| line.contains(path)).count()
    }
}

/// The policy's kernel part before it.
struct Attached {
    process: Process,
    folder: TempDir,
}

impl Attached {
    fn start(network: &Network, tables: &str, arguments: &[&str]) -> Attached {
        let attached = Attached::spawn(network, tables, arguments);
        eventually("it is attached", || attached.has_said("attached to"));
        attached
    }

    fn spawn(network: &Network, tables: &str, arguments: &[&str]) -> Attached {
        let folder = tempfile::tempdir().expect("a folder");
        let (policy, log) = (folder.path().join("policy.toml"), folder.path().join("log"));
        fs::write(&policy, text(tables)).expect("our own folder");
        let mut command = network.server_command(Path::new(env!("CARGO_BIN_EXE_tiergate")));
        command.args(["kernel", "attach", "--interface", INTERFACE]).args(arguments).arg(&policy);
        command.env("TIERGATE_LOG_FORMAT", "json").stdin(Stdio::null());
        command.stderr(File::create(log).expect("our own folder"));
        Attached { process: Process::start(&mut command), folder }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).expect("it has been made")
    }

    fn has_said(&self, what: &str) -> bool {
        self.log().contains(what)
    }

    fn reload(&self, tables: &str) {
        fs::write(self.policy(), text(tables)).expect("our own folder");
        self.process.signal(Signal::HUP);
    }

    fn policy(&self) -> PathBuf {
        self.folder.path().join("policy.toml")
    }

    /// Ends it: what it says of that, a number by a line's message and the value of one of its fields.
    fn end(mut self) -> impl Fn(&str, [&str; 2], &str) -> u64 {
        self.process.signal(Signal::TERM);
        let status = self.process.wait(Duration::from_secs(20));
        let log = self.log();
        assert!(status.success(), "{status}: {log}");
        let lines: Vec<Value> =
            log.lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
        move |message, [key, value], number| {
            let mut of = lines.iter().filter(|it| it["message"] == message && it[key] == value);
            of.next_back().and_then(|it| it[number].as_u64()).unwrap_or_else(|| panic!("{log}"))
        }
    }
}

fn text(tables: &str) -> String {
    format!("[origin]\nservers = [\"127.0.0.1:8082\"]\n{tables}")
}

/// The answer to a request on a new connection: status and body; `None`: there is no connection.
fn get(from: SocketAddr, to: IpAddr, path: &str) -> Option<(u16, String)> {
    let to = SocketAddr::new(to, 80);
    let mut socket = Socket::new(Domain::for_address(to), Type::STREAM, None).expect("a socket");
    socket.set_reuse_address(true).expect("set");
    socket.bind(&from.into()).expect("an address of the client");
    socket.connect_timeout(&to.into(), SOON).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).ok()?;
    let mut got = Vec::new();
    socket.read_to_end(&mut got).ok()?;
    let text = String::from_utf8_lossy(&got).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.get(9..12)?.parse().ok()?, body.to_owned()))
}

/// The name of the listener that a client's connection gets.
fn listener(network: &Network, from: &str) -> String {
    let from = SocketAddr::new(from.parse().expect("an address"), 0);
    let to = if from.is_ipv4() { SERVER.into() } else { SERVER_V6.parse().expect("one") };
    let answer = network.on_client(|| get(from, to, "/"));
    answer.map_or_else(|| "none".to_owned(), |(_, name)| name)
}

fn listeners(network: &Network) -> [String; 4] {
    [PREMIUM, STANDARD, PREMIUM_V6, STANDARD_V6].map(|from| listener(network, from))
}

/// Addresses of another network, by IPv6, too.
fn add_addresses(network: &Network) {
    let ip = |words: &str| Command::new("ip").args(words.split(' ')).status().expect("ip runs");
    let client = network.on_client(|| ip("addr add fd79::1/64 dev out nodad"));
    let server = network.on_server(|| ip("addr add fd79::2/64 dev in nodad"));
    assert!(client.success() && server.success());
}

#[test]
fn each_class_gets_its_listener_and_what_is_missing_falls_back() {
    let Some(network) = Network::start() else { return };
    add_addresses(&network);
    let all = [ITSELF, OF_PREMIUM, OF_OTHERS];
    let Some(nginx) = Nginx::start(&network, &all) else { return };
    assert_eq!(listeners(&network), ["itself"; 4]);
    let attached = Attached::start(&network, CLASSES, &LISTENERS);
    for _ in 0..20 {
        assert_eq!(listeners(&network), ["premium", "others", "premium", "others"]);
    }
    same_port_again(&network);
    with_cookies(&network);
    // The server is started anew, without some listeners and then with all: the same process finds them.
    drop(nginx);
    let nginx = Nginx::start(&network, &[ITSELF, OF_OTHERS]);
    eventually("others", || listeners(&network) == ["others"; 4]);
    drop(nginx);
    let nginx = Nginx::start(&network, &[ITSELF]);
    eventually("itself", || listeners(&network) == ["itself"; 4]);
    drop(nginx);
    let nginx = Nginx::start(&network, &all);
    let wanted = ["premium", "others", "premium", "others"];
    eventually("all again", || listeners(&network) == wanted);
    // Another policy, and a wrong one.
    attached.reload(&CLASSES.replace("10.79.0.0/16", "10.78.0.0/16"));
    eventually("the other network", || {
        listeners(&network) == ["others", "premium", "premium", "others"]
    });
    attached.reload("[[rule]]\nclass = \"nowhere\"\n");
    eventually("it says so", || attached.has_said("the policy stays as it was"));
    assert_eq!(listeners(&network), ["others", "premium", "premium", "others"]);
    let said = attached.end();
    let of = |class: &str, number: &str| said("connections steered", ["class", class], number);
    assert!(of("premium", "own") >= 42 && of("all others", "own") >= 42);
    assert!(of("premium", "others") > 0 && of("premium", "left") > 0);
    assert!(of("all others", "left") > 0);
    assert_eq!(listeners(&network), ["itself"; 4], "it has ended");
    drop(nginx);
}

/// A connection from a port whose last one the server still remembers (TIME_WAIT).
fn same_port_again(network: &Network) {
    let from: SocketAddr = format!("{PREMIUM}:40001").parse().expect("an address");
    let ask = || network.on_client(|| get(from, SERVER.into(), "/")).map(|it| it.1);
    assert_eq!(ask().as_deref(), Some("premium"));
    let remembers = || {
        let table = fs::read_to_string("/proc/thread-self/net/tcp").expect("it is there");
        table.lines().any(|line| line.contains(":9C41 06 "))
    };
    eventually("the server remembers it", || network.on_server(remembers));
    assert_eq!(ask().as_deref(), Some("premium"));
}

/// Connections of which nothing is kept before they are established.
fn with_cookies(network: &Network) {
    let set = |value: &str| {
        network
            .on_server(|| fs::write("/proc/sys/net/ipv4/tcp_syncookies", value).expect("a right"));
    };
    set("2");
    assert_eq!(listeners(network), ["premium", "others", "premium", "others"]);
    set("1");
}

/// Several sockets at a class's address (SO_REUSEPORT), as of a server that starts a new process before it ends the old one: the system picks one, and no connection is refused when one is closed.
#[test]
fn no_connection_is_refused_when_a_process_hands_over_to_another() {
    let Some(network) = Network::start() else { return };
    let listen = || {
        network.on_server(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            socket.set_reuse_port(true).expect("set");
            let address: SocketAddr = "127.0.0.1:8081".parse().expect("an address");
            socket.bind(&address.into()).expect("it is free");
            socket.listen(64).expect("it listens");
            socket.set_nonblocking(true).expect("set");
            TcpListener::from(socket)
        })
    };
    let mut old = listen();
    let arguments = ["--listen=:80", "--class=premium=127.0.0.1:8081"];
    let _attached = Attached::start(&network, CLASSES, &arguments);
    // One connection after the other for a time: how many each socket accepted, and how many were refused.
    let connect = |sockets: &[&TcpListener], lasting: u64| {
        let until = Instant::now() + Duration::from_millis(lasting);
        let (mut accepted, mut refused) = (vec![0; sockets.len()], 0);
        network.on_client(|| {
            while Instant::now() < until {
                let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
                let from: SocketAddr = format!("{PREMIUM}:0").parse().expect("an address");
                socket.bind(&from.into()).expect("an address of the client");
                socket.set_linger(Some(Duration::ZERO)).expect("set");
                let to = SocketAddr::from((SERVER, 80));
                refused += u32::from(socket.connect_timeout(&to.into(), SOON).is_err());
                for (accepted, socket) in accepted.iter_mut().zip(sockets) {
                    *accepted += std::iter::from_fn(|| socket.accept().ok()).count();
                }
            }
        });
        (accepted, refused)
    };
    for _ in 0..2 {
        let new = listen();
        let (accepted, refused) = connect(&[&old, &new], 1200);
        assert!(accepted.iter().all(|it| *it > 20), "{accepted:?}: one of them has none");
        assert_eq!(refused, 0);
        drop(old);
        let (accepted, refused) = connect(&[&new], 400);
        assert!(accepted[0] > 20, "{accepted:?}");
        assert_eq!(refused, 0, "of {accepted:?}");
        old = new;
    }
}

#[test]
fn a_full_listen_queue_keeps_no_other_class_out_and_begins_policing() {
    let Some(network) = Network::start() else { return };
    let listen = |address: &str, backlog| {
        network.on_server(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            let address: SocketAddr = address.parse().expect("an address");
            socket.bind(&address.into()).expect("it is free");
            socket.listen(backlog).expect("it listens");
            socket.set_nonblocking(true).expect("set");
            TcpListener::from(socket)
        })
    };
    let (itself, premium) = (listen("0.0.0.0:80", 4), listen("127.0.0.1:8081", 64));
    let tables = format!(
        "{CLASSES}[[rule]]\nclient = \"10.78.0.0/16\"\npolice = {{ rate = \"1/m\", burst = 1 }}\n"
    );
    let attached =
        Attached::start(&network, &tables, &["--listen=:80", "--class=premium=127.0.0.1:8081"]);
    let connect = |from: &str| {
        let from = SocketAddr::new(from.parse().expect("an address"), 0);
        network.on_client(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            socket.bind(&from.into()).expect("an address of the client");
            let to = SocketAddr::from((SERVER, 80));
            socket.connect_timeout(&to.into(), SOON).ok().map(|()| socket)
        })
    };
    let count = |of: &TcpListener| std::iter::from_fn(|| of.accept().ok()).count();
    // Nobody accepts them: no more than the queue holds.
    let waiting: Vec<_> = (0..5).map(|_| connect(STANDARD).expect("not policed yet")).collect();
    let served: Vec<_> = (0..20).filter_map(|_| connect(PREMIUM)).collect();
    // The last may be on their way.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!((served.len(), count(&premium)), (20, 20));
    eventually("it is an overload", || attached.has_said("overload: a listen queue is 125% full"));
    assert_eq!((waiting.len(), count(&itself)), (5, 5));
    let let_in: Vec<bool> = (0..3).map(|_| connect(STANDARD).is_some()).collect();
    assert_eq!(let_in, [true, false, false], "one token");
    let said = attached.end();
    let of = |number| said("SYNs policed", ["policer", "rule.2"], number);
    assert_eq!((of("passed"), of("dropped")), (1, 2));
    assert_eq!(said("connections steered", ["class", "premium"], "own"), 20);
}

#[test]
fn policing_of_a_foreign_server_is_exact() {
    let Some(network) = Network::start() else { return };
    let Some(nginx) = Nginx::start(&network, &[ITSELF]) else { return };
    let tables =
        "[[rule]]\nclient = \"10.78.0.0/16\"\npolice = { rate = \"500/s\", burst = 250 }\n";
    let attached = Attached::start(&network, tables, &["--listen=:80", "--always"]);
    let (stop, sent) = (AtomicBool::default(), AtomicU64::default());
    let (took, others) = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            network.on_client(|| {
                let begun = Instant::now();
                flood(&[[10, 78]], 80, u64::MAX, &stop, &sent);
                begun.elapsed()
            })
        });
        let begun = Instant::now();
        let others: Vec<String> = (0..10).map(|_| listener(&network, PREMIUM)).collect();
        std::thread::sleep(Duration::from_secs(2).saturating_sub(begun.elapsed()));
        stop.store(true, Ordering::Relaxed);
        (flood.join().expect("it does not panic"), others)
    });
    let said = attached.end();
    let of = |number| said("SYNs policed", ["policer", "rule.1"], number);
    let (passed, wanted) = (of("passed") as f64, 250.0 + 500.0 * took.as_secs_f64());
    // Of the time; what a thread that is kept from its processor for some tens of milliseconds takes it for is in this. The program's own tests are exact.
    assert!((passed / wanted - 1.0).abs() < 0.03, "{passed} of {wanted}");
    let sent = sent.into_inner();
    assert!(sent as f64 > 5.0 * wanted, "{sent}: no flood");
    assert!(of("dropped") + of("passed") <= sent, "{sent}");
    assert!(others.iter().all(|it| it == "itself"), "{others:?}");
    drop(nginx);
}

/// Another program is at the interface: nftables polices until it is gone, and says whose it is.
#[test]
fn nftables_polices_until_the_interface_is_free() {
    let Some(network) = Network::start() else { return };
    let other = network.on_server(|| {
        let mut other = tiergate_kernel::SynGate::load().expect("it loads");
        other.attach(INTERFACE).expect("it is free");
        other
    });
    let tables = "[[rule]]\nclient = \"10.78.0.0/16\"\npolice = { rate = \"1/m\", burst = 2 }\n";
    let attached = Attached::start(&network, tables, &["--listen=:80", "--always"]);
    eventually("nftables", || attached.has_said("in: SYNs are policed (nftables)"));
    let process = format!(" of process {} (", std::process::id());
    let said = attached.log();
    let why = said.lines().find(|it| it.contains("SYNs are policed by nftables: ")).expect(&said);
    assert!(why.contains("the program tg_syn (id ") && why.contains(&process), "{why}");
    drop(other);
    eventually("the program", || tables_of(&network).is_empty() && is_occupied(&network));
    eventually("it says so", || attached.has_said("SYNs are no more policed by nftables"));
    // It has the rules.
    let (stop, sent) = Default::default();
    network.on_client(|| flood(&[[10, 78]], 80, 50, &stop, &sent));
    let said = attached.end();
    let of = |number| said("SYNs policed", ["policer", "rule.1"], number);
    assert_eq!((of("passed"), of("dropped")), (2, 48));
}

#[test]
fn first_requests_are_answered_before_the_server_sees_them() {
    let Some(network) = Network::start() else { return };
    let all = [ITSELF, OF_PREMIUM, OF_OTHERS];
    let Some(nginx) = Nginx::start(&network, &all) else { return };
    let tables =
        format!("{CLASSES}[[rule]]\npath = \"/cgi/*\"\npolice = {{ rate = \"1/m\", burst = 5 }}\n");
    let attached = Attached::start(&network, &tables, &LISTENERS);
    let ask = |from: &str, path: &str| {
        let from = SocketAddr::new(from.parse().expect("an address"), 0);
        network.on_client(|| get(from, SERVER.into(), path)).expect("an answer")
    };
    // A listener that accepts connections with their first data, and one that does not.
    let answers: Vec<_> =
        (0..8).flat_map(|_| [PREMIUM, STANDARD]).map(|from| ask(from, "/cgi/x")).collect();
    let [premium, others] = ["premium", "others"].map(|it| (200, it.to_owned()));
    let (served, refused) = answers.split_at(5);
    let passed = [&premium, &others, &premium, &others, &premium];
    assert!(served.iter().eq(passed), "{answers:?}");
    assert!(refused.iter().all(|it| *it == (429, String::new())), "{answers:?}");
    assert_eq!([ask(PREMIUM, "/"), ask(STANDARD, "/")], [premium, others]);
    let said = attached.end();
    let of = |number| said("first requests policed", ["policer", "rule.2"], number);
    assert_eq!((of("passed"), of("refused")), (5, 11));
    assert_eq!(ask(STANDARD, "/cgi/x").0, 200, "it has ended");
    eventually("it is in the log", || nginx.seen("/cgi/") >= 6);
    assert_eq!(nginx.seen("/cgi/"), 6);
}

/// Whether programs are at the interface.
fn is_occupied(network: &Network) -> bool {
    let bpftool = program("bpftool").expect("it is needed here");
    let output = network.on_server(|| Command::new(&bpftool).args(["net", "show"]).output());
    let text = String::from_utf8_lossy(&output.expect("bpftool runs").stdout).into_owned();
    text.contains(&format!("{INTERFACE}("))
}

#[test]
fn nothing_is_left_when_it_is_killed_and_it_says_which_right_is_missing() {
    let Some(network) = Network::start() else { return };
    let Some(nginx) = Nginx::start(&network, &[ITSELF, OF_PREMIUM, OF_OTHERS]) else { return };
    let tables =
        format!("{CLASSES}[[rule]]\npath = \"/cgi/*\"\npolice = {{ rate = \"1/m\", burst = 5 }}\n");
    let mut attached = Attached::start(&network, &tables, &LISTENERS);
    assert_eq!(listener(&network, PREMIUM), "premium");
    let held = Held::by(attached.process.id());
    assert!(held.is_some_of_each() && is_occupied(&network), "{held:?}");
    attached.process.kill();
    held.assert_gone();
    assert!(!is_occupied(&network));
    assert_eq!([PREMIUM, STANDARD].map(|it| listener(&network, it)), ["itself"; 2]);
    drop(nginx);
    let mut command = network.server_command(Path::new("setpriv"));
    command.arg("--bounding-set=-bpf,-sys_admin").arg(env!("CARGO_BIN_EXE_tiergate"));
    command.args(["kernel", "attach", "--interface", INTERFACE]).args(LISTENERS);
    let output = command.arg(attached.policy()).output().expect("setpriv runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("it needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"), "{error}");
}
