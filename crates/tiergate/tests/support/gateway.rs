//! The built gateway as a process, with a policy file in a folder of its own.

use super::client::Client;
use super::process::Process;
use super::{PATIENCE, eventually};
use rustix::process::Signal;
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::fmt::Write as _;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// A port that nobody else gets while this lives: bound, not listening, so that whoever sets
/// SO_REUSEADDR may still listen there.
#[derive(Debug)]
pub struct Port {
    pub address: SocketAddr,
    _held: Socket,
}

impl Port {
    pub fn reserve() -> Self {
        Self::reserve_on(Ipv4Addr::LOCALHOST.into())
    }

    pub fn reserve_on(address: IpAddr) -> Self {
        let any = SocketAddr::from((address, 0));
        let socket = Socket::new(Domain::for_address(any), Type::STREAM, None).expect("a socket");
        socket.set_reuse_address(true).expect("an option every socket has");
        socket.set_reuse_port(true).expect("an option every socket has");
        socket.bind(&any.into()).expect("a free port");
        let address = socket.local_addr().expect("bound").as_socket().expect("an address");
        Port { address, _held: socket }
    }
}

/// A policy in parts, so that a test says only what it is about.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Addresses, or tables as they are written.
    pub servers: Vec<String>,
    /// Keys of the top level.
    pub top: String,
    /// Keys of `[origin]` besides `servers`.
    pub origin: String,
    /// Keys of the listener.
    pub listener: String,
    /// Further tables.
    pub tables: String,
}

impl Policy {
    /// A policy with enough slots that nothing waits.
    pub fn of(servers: &[String]) -> Self {
        Policy { servers: servers.to_vec(), origin: "slots = 1000".into(), ..Policy::default() }
    }

    pub fn text(&self, listen: &[SocketAddr], admin: SocketAddr) -> String {
        let mut text = format!("admin = \"{admin}\"\n");
        if !self.top.contains("threads") {
            text += "threads = 2\n";
        }
        let _ = writeln!(text, "{}", self.top);
        for address in listen {
            let keys = &self.listener;
            let _ = writeln!(text, "[[listener]]\naddress = \"{address}\"\n{keys}");
        }
        let server = |it: &String| if it.starts_with('{') { it.clone() } else { format!("{it:?}") };
        let servers: Vec<String> = self.servers.iter().map(server).collect();
        let _ = writeln!(text, "[origin]\nservers = [{}]\n{}", servers.join(", "), self.origin);
        text + &self.tables + "\n"
    }
}

/// Writes a certificate for `example.test` and its key, called `name`: the certificate's path, and the
/// keys of a listener that uses them.
pub fn certificate(folder: &Path, name: &str) -> (String, String) {
    let made =
        rcgen::generate_simple_self_signed(["example.test".to_owned()]).expect("a good name");
    let path = |end: &str| folder.join(format!("{name}.{end}")).display().to_string();
    let (certificate, key) = (path("pem"), path("key"));
    std::fs::write(&certificate, made.cert.pem()).expect("a folder of our own");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a folder of our own");
    let keys = format!("tls = {{ certificate = {certificate:?}, key = {key:?} }}");
    (certificate, keys)
}

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    pub process: Process,
    pub address: SocketAddr,
    pub admin: SocketAddr,
    pub policy_path: PathBuf,
    log: PathBuf,
    _ports: Vec<Port>,
    _folder: Option<TempDir>,
}

impl Gateway {
    /// Starts it with a policy and waits until it serves.
    pub fn start(policy: &Policy) -> Self {
        Self::start_with(policy, &[])
    }

    /// The same with further arguments.
    pub fn start_with(policy: &Policy, arguments: &[&str]) -> Self {
        let (listen, admin) = (Port::reserve(), Port::reserve());
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("policy.toml");
        let text = policy.text(&[listen.address], admin.address);
        std::fs::write(&path, text).expect("a folder of our own");
        let log = folder.path().join("log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
        command.arg("run").arg(&path).args(arguments).stdin(Stdio::null());
        let process = Process::start(logging(&mut command, &log));
        let gateway = Gateway {
            process,
            address: listen.address,
            admin: admin.address,
            policy_path: path,
            log,
            _ports: vec![listen, admin],
            _folder: Some(folder),
        };
        gateway.await_ready()
    }

    /// Starts it with a standard error that is read by nobody but the caller.
    pub fn start_logging_to(policy: &Policy, folder: &Path, stderr: Stdio) -> Self {
        let (listen, admin) = (Port::reserve(), Port::reserve());
        let (path, log) = fresh_paths(folder);
        std::fs::write(&path, policy.text(&[listen.address], admin.address))
            .expect("our own folder");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
        command.arg("run").arg(&path).stdin(Stdio::null());
        let process = Process::start(logging(&mut command, &log).stderr(stderr));
        let gateway = Gateway {
            process,
            address: listen.address,
            admin: admin.address,
            policy_path: path,
            log,
            _ports: vec![listen, admin],
            _folder: None,
        };
        gateway.await_ready()
    }

    /// Starts it under the limits that a shell sets by `limits`.
    pub fn start_under(limits: &str, policy: &Policy, folder: &Path) -> Self {
        let (listen, admin) = (Port::reserve(), Port::reserve());
        let (path, log) = fresh_paths(folder);
        std::fs::write(&path, policy.text(&[listen.address], admin.address))
            .expect("our own folder");
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg(format!(r#"{limits} && exec "$0" run "$1""#))
            .arg(env!("CARGO_BIN_EXE_tiergate"))
            .arg(&path)
            .stdin(Stdio::null());
        let process = Process::start(logging(&mut command, &log));
        let gateway = Gateway {
            process,
            address: listen.address,
            admin: admin.address,
            policy_path: path,
            log,
            _ports: vec![listen, admin],
            _folder: None,
        };
        gateway.await_ready()
    }

    /// Starts it on a listening socket that the caller holds, as systemd passes one.
    pub fn start_on(listener: &TcpListener, policy: &Policy, folder: &Path) -> Self {
        let admin = Port::reserve();
        let address = listener.local_addr().expect("a listening socket");
        let passed: OwnedFd = listener.try_clone().expect("descriptors are left").into();
        let (path, log) = fresh_paths(folder);
        std::fs::write(&path, policy.text(&[address], admin.address)).expect("our own folder");
        // The shell puts the socket where LISTEN_FDS says it is; `exec` keeps the process id.
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg(r#"LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" run "$1" 3<&0 0</dev/null"#)
            .arg(env!("CARGO_BIN_EXE_tiergate"))
            .arg(&path)
            .stdin(Stdio::from(passed));
        let process = Process::start(logging(&mut command, &log));
        let gateway = Gateway {
            process,
            address,
            admin: admin.address,
            policy_path: path,
            log,
            _ports: vec![admin],
            _folder: None,
        };
        gateway.await_ready()
    }

    /// Starts another one beside `port`'s former; the policy shares the port by SO_REUSEPORT.
    pub fn start_beside(port: &Port, policy: &Policy, folder: &Path) -> Self {
        let admin = Port::reserve();
        let (path, log) = fresh_paths(folder);
        std::fs::write(&path, policy.text(&[port.address], admin.address)).expect("our own folder");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
        command.arg("run").arg(&path).stdin(Stdio::null());
        let process = Process::start(logging(&mut command, &log));
        let gateway = Gateway {
            process,
            address: port.address,
            admin: admin.address,
            policy_path: path,
            log,
            _ports: vec![admin],
            _folder: None,
        };
        gateway.await_ready()
    }

    fn await_ready(mut self) -> Self {
        eventually("the gateway serves", || {
            if let Some(status) = self.process.has_ended() {
                panic!("the gateway has ended with {status}:\n{}", self.log());
            }
            let Ok(mut admin) = Client::try_connect(self.admin) else { return false };
            admin.send_anyway(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
            admin.try_answer(false).is_ok_and(|answer| answer.status == 200)
        });
        self
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    pub fn get(&self, path: &str) -> super::answer::Answer {
        self.client().get(path)
    }

    /// `/status` of the admin listener.
    pub fn status(&self) -> Value {
        let answer = Client::connect(self.admin).get_local("/status");
        assert_eq!(answer.status, 200, "{}", answer.text());
        serde_json::from_slice(&answer.body).expect("/status is JSON")
    }

    /// A number in `/status`, by its path.
    pub fn number(&self, pointer: &str) -> u64 {
        let status = self.status();
        let value = status.pointer(pointer).and_then(Value::as_u64);
        value.unwrap_or_else(|| panic!("no number at {pointer} in {status:#}"))
    }

    /// Asks for a reload by the admin listener; the answer's status and text.
    pub fn reload(&self) -> (u16, String) {
        let mut admin = Client::connect(self.admin);
        admin.send("POST /reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
        let answer = admin.answer();
        (answer.status, answer.text())
    }

    pub fn write_policy(&self, text: &str) {
        // Written beside and renamed: nobody ever reads half a policy.
        let beside = self.policy_path.with_extension("new");
        std::fs::write(&beside, text).expect("our own folder");
        std::fs::rename(&beside, &self.policy_path).expect("the same folder");
    }

    /// SIGTERM, and the drain's end.
    pub fn drain(&mut self) {
        self.process.signal(Signal::TERM);
        let status = self.process.wait(PATIENCE + Duration::from_secs(20));
        assert!(status.success(), "{status}:\n{}", self.log());
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Asserts that nothing is held, and that every request that came has an end, counted once.
    pub fn assert_conserved(&self) {
        eventually("every slot and request comes back", || {
            let status = self.status();
            let limit = &status["limit"];
            let mut servers = status["origin"].as_array().expect("a list").iter();
            let idle = servers.all(|server| server["outstanding"] == 0);
            // A request at a server that a reload has taken away is in service, and holds no slot.
            let mut classes = status["classes"].as_array().expect("a list").iter();
            let ended = classes.all(|class| class["in_service"] == 0);
            idle && ended && limit["running"] == 0 && limit["waiting"] == 0
        });
        let status = self.status();
        for class in status["classes"].as_array().expect("a list") {
            let sum = |key: &str| -> u64 {
                class[key].as_object().expect("by name").values().filter_map(Value::as_u64).sum()
            };
            let number = |key: &str| class[key].as_u64().expect("a number");
            let stored = sum("stored") - class["stored"]["failure"].as_u64().expect("a number");
            let ended = sum("refused") + sum("finished") + stored + number("cancelled_waiting");
            assert_eq!(number("arrived"), ended, "arrived = ended: {class:#}");
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail = log.len().saturating_sub(4000);
            eprintln!("the gateway's log:\n{}", log.get(tail..).unwrap_or(&log));
        }
    }
}

impl Client {
    /// A GET to the admin listener, which answers to local names only.
    pub fn get_local(&mut self, path: &str) -> super::answer::Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        self.answer()
    }
}

fn logging<'c>(command: &'c mut Command, log: &Path) -> &'c mut Command {
    let file = File::create(log).expect("a folder of our own");
    let again = file.try_clone().expect("descriptors are left");
    command.stdout(Stdio::from(again)).stderr(Stdio::from(file))
}

fn fresh_paths(folder: &Path) -> (PathBuf, PathBuf) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    (folder.join(format!("policy-{number}.toml")), folder.join(format!("log-{number}")))
}
