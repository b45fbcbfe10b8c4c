//! `tiergate import nginx` and `haproxy`: whatever the files are, what is written passes `check`; and the examples of docs/migrate decide
//! as the peers do.

#[path = "import/by_hand.rs"]
mod by_hand;
#[path = "import/haproxy_places.rs"]
mod haproxy_places;
#[path = "import/haproxy_rates.rs"]
mod haproxy_rates;
#[path = "import/haproxy.rs"]
mod haproxy_refusals;
#[path = "import/haproxy_said.rs"]
mod haproxy_said;
#[path = "import/haproxy_servers.rs"]
mod haproxy_servers;
#[path = "import/nginx_layouts.rs"]
mod nginx_layouts;
#[path = "import/nginx_refusals.rs"]
mod nginx_refusals;
#[path = "import/nginx_said.rs"]
mod nginx_said;
#[path = "import/safety.rs"]
mod safety;
mod support;

use proptest::prelude::*;
use socket2::{Domain, Socket, Type};
use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::client::Client;
use support::eventually;
use support::gateway::Port;
use support::origin::{Origin, ok};
use support::process::{Process, program};
use tiergate::cli::explain::{Known, Question, explain};
use tiergate::config::{load, parse};
use tiergate::import::{ImportFault, Imported, haproxy, nginx};

const NGINX: &str = include_str!("../../../docs/migrate/nginx/nginx.conf");
const HAPROXY: &str = include_str!("../../../docs/migrate/haproxy/haproxy.cfg");

fn none(_: &str) -> Result<Vec<(String, String)>, String> {
    Err("nothing is included here".to_owned())
}

fn of_nginx(text: &str) -> Result<Imported, ImportFault> {
    nginx::policy(text, "nginx.conf", &none)
}

fn of_haproxy(text: &str) -> Result<Imported, ImportFault> {
    haproxy::policy(text, "haproxy.cfg", &|_| None)
}

/// What `explain` says of a GET by what was imported.
fn explained(made: &Imported, path: &str, known: Known) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("policy.toml");
    fs::write(&file, format!("admin = false\n{}", made.policy)).expect("our own folder");
    let question = Question {
        request: format!("GET {path}"),
        headers: Vec::new(),
        client: Some("192.0.2.1".parse().expect("an address")),
        host: Some("x".to_owned()),
        known,
    };
    explain(&load(&file).expect("it passes check"), "policy.toml", &question).expect("a question")
}

/// With `UPDATE_DOCS=1`, writes the policies of the examples.
#[test]
fn the_examples_are_imported() {
    for (made, file) in
        [(of_nginx(NGINX), "nginx/policy.toml"), (of_haproxy(HAPROXY), "haproxy/policy.toml")]
    {
        let path = format!("{}/../../docs/migrate/{file}", env!("CARGO_MANIFEST_DIR"));
        let policy = made.expect("an example").policy;
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, &policy).expect("the repository can be written");
        }
        assert_eq!(
            fs::read_to_string(&path).unwrap_or_default(),
            policy,
            "{path} is old: run with UPDATE_DOCS=1"
        );
        for line in policy.lines().filter(|it| it.contains(" = ") && !it.starts_with('#')) {
            assert!(line.contains(" # "), "a line that does not say where it comes from: {line}");
        }
        let rules = policy.split("[[rule]]").skip(1).map(|rule| {
            rule.lines().map(|line| line.split(" # ").next().unwrap_or_default().to_owned())
        });
        let mut seen: Vec<Vec<String>> = Vec::new();
        for rule in rules.map(Iterator::collect) {
            assert!(!seen.contains(&rule), "{path}: a rule that never decides: {rule:?}");
            seen.push(rule);
        }
    }
}

#[test]
fn what_does_not_map_is_listed_with_what_to_do() {
    let nginx = of_nginx(
        "http { gzip on; proxy_cache_path /x; server { listen 80; listen unix:/x; location / { \
         if ($x) { return 403; } proxy_pass http://a:1; } location ~ (?=x) { limit_conn c 5; proxy_pass http://a:1; } } \
         limit_conn_zone $binary_remote_addr zone=c:1m; }",
    )
    .expect("it maps");
    let notes = nginx.notes.join("\n");
    for said in [
        "nginx.conf:1: gzip on: nothing is compressed here: let the origin do it",
        "nginx.conf:1: proxy_cache_path /x: no cache: stored = { max_age = … } in a rule",
        "nginx.conf:1: listen unix:/x: no listener on a UNIX socket",
        "nginx.conf:1: if ($x): rules have conditions",
        "nginx.conf:1: limit_conn c 5: connections of each client: fair queueing",
        "nginx.conf:1: location ~ (?=x): not valid here: ",
    ] {
        assert!(notes.contains(said), "`{said}` is missing in\n{notes}");
        let comment = format!("# * {said}");
        assert!(nginx.policy.contains(&comment), "{}", nginx.policy);
    }
    let haproxy = of_haproxy(
        "frontend f\n bind :80\n acl a fe_conn gt 5\n use_backend b if a\n http-request set-path /x\n default_backend b\nbackend b\n server s 10.0.0.1:80 check weight 3\n server t 10.0.0.2:80 backup\n",
    )
    .expect("it maps");
    let notes = haproxy.notes.join("\n");
    for said in [
        "haproxy.cfg:4: use_backend b if a: fe_conn: no condition of rules asks for it",
        "haproxy.cfg:5: http-request set-path /x: requests are not changed",
        "haproxy.cfg:9: server t 10.0.0.2:80 backup: no backup within a pool",
    ] {
        assert!(notes.contains(said), "`{said}` is missing in\n{notes}");
    }
}

#[test]
fn faults_have_file_and_line() {
    for (made, said) in [
        (of_nginx("http {\n server {\n"), "nginx.conf:2: has a { that no } closes"),
        (of_nginx("http { server { root /x; } }"), "nginx.conf:1: has no proxy_pass"),
        (of_haproxy("global\n x 'y\n"), "haproxy.cfg:2: has a quote that is not closed"),
        (
            of_haproxy("frontend f\n bind :80\n default_backend x\n"),
            "haproxy.cfg:1: no backend is called \"x\"",
        ),
    ] {
        let fault = made.expect_err(said).to_string();
        assert!(fault.starts_with(said), "{fault}");
    }
}

/// Pieces of both grammars.
fn soup(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(words), 0..60).prop_map(|it| it.join(" "))
}

const NGINX_WORDS: &[&str] = &[
    "http {",
    "server {",
    "}",
    "location",
    "/",
    "/a*b",
    "= /x",
    "~ \\.(a|b)$",
    "~* (",
    "^~ /s",
    "{",
    ";",
    "proxy_pass http://u;",
    "proxy_pass http://$m;",
    "upstream u {",
    "server 10.0.0.1:80;",
    "server unix:/x weight=2;",
    "listen 80;",
    "listen [::]:443 ssl;",
    "server_name a.b *.c .d _;",
    "return 403;",
    "return 301 /x;",
    "return 200 x;",
    "limit_req zone=z burst=3;",
    "limit_req_zone $binary_remote_addr zone=z:1m rate=5r/s;",
    "limit_conn_zone $server_name zone=c:1m;",
    "limit_conn c 3;",
    "map $http_a $m {",
    "default u;",
    "\"\" x;",
    "'q' y;",
    "allow 10.0.0.0/8;",
    "deny all;",
    "deny x;",
    "keepalive_timeout 0;",
    "client_max_body_size 1g;",
    "proxy_read_timeout 5s;",
    "try_files $uri @n;",
    "location @n {",
    "limit_except GET {",
    "if ($host = a.b) {",
    "a_by_lua_block {",
    "#x\n",
    "\"",
    "\\",
    "${",
    "é",
    "\u{7f}",
];
const HAPROXY_WORDS: &[&str] = &[
    "\nglobal",
    "\ndefaults",
    "\nfrontend f",
    "\nlisten l",
    "\nbackend b",
    "\nbind :80",
    "\nbind 10.0.0.1:443 ssl crt x",
    "\nbind :443 ssl crt y verify required ca-file c",
    "\nbind 127.0.0.2:80",
    "\nbind :::80",
    "\nbind :::80 v6only",
    "\nbind 127.0.0.2:80 accept-proxy",
    "\nbind 127.0.0.1:79-81",
    "\nacl a path_beg /x /y",
    "\nacl a hdr(host) -i a.b",
    "\nacl c src 10.0.0.0/8 x",
    "\nacl d path_reg (",
    "\nuse_backend b if a !c || d",
    "\ndefault_backend b",
    "\nhttp-request deny",
    "\nhttp-request deny deny_status 404 unless a c",
    "\nhttp-request set-priority-class int(-5) if a",
    "\nhttp-request set-priority-class int(99999999999999) if !a !c",
    "\nhttp-request track-sc0 src",
    "\nhttp-request track-sc0 hdr(x) table b if a || !c",
    "\nhttp-request deny if { hdr(host) -m found } || { path -m found }",
    "\nhttp-request deny if { sc_http_req_rate(0) gt 7 } !a",
    "\nstick-table type ip size 1 store http_req_rate(10s)",
    "\nserver s 10.0.0.1:80 maxconn 5",
    "\nserver s x",
    "\nserver s 10.0.0.1:+5 backup",
    "\nserver-template s 3 a:1",
    "\ndefault-server maxconn 30 send-proxy",
    "\nserver s :80",
    "\ntimeout queue 5s",
    "\ntimeout client 0",
    "\nmaxconn 5",
    "\nhttp-request redirect location /x if a",
    "if a",
    "||",
    "!",
    "{",
    "}",
    "\"",
    "'",
    "\\",
    "\\\n",
    "#",
    "é",
];

/// A text with a piece of it replaced.
fn mutated(text: &str, (start, len, with): (usize, usize, String)) -> String {
    let floor = |at: usize| {
        (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
    };
    let (start, end) = (floor(start % text.len()), floor(start % text.len() + len));
    format!("{}{with}{}", &text[..start], &text[end..])
}

fn passes(made: Result<Imported, ImportFault>) {
    match made {
        Ok(it) => {
            parse(&it.policy, "policy.toml")
                .unwrap_or_else(|fault| panic!("{fault}\n{}", it.policy));
        }
        Err(fault) => assert!(fault.line >= 1 && !fault.message.is_empty()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn whatever_is_written_passes_check(
        nginx in soup(NGINX_WORDS),
        haproxy in soup(HAPROXY_WORDS),
        noise in "\\PC{0,80}",
        change in (0usize..10_000, 0usize..40, "[a-z0-9 ;{}\"'\\\\!|/*?$#\n.:-]{0,12}"),
    ) {
        passes(of_nginx(&nginx));
        passes(of_nginx(&format!("http {{ upstream u {{ server a:1; }} {nginx}")));
        passes(of_nginx(&noise));
        passes(of_nginx(&mutated(NGINX, change.clone())));
        passes(of_haproxy(&haproxy));
        passes(of_haproxy(&format!("frontend f\nbind :80\ndefault_backend b\n{haproxy}\nbackend b\nserver s a:1\n")));
        passes(of_haproxy(&noise));
        passes(of_haproxy(&mutated(HAPROXY, change)));
    }
}

/// A request of the recorded log.
#[derive(Clone, Debug)]
struct Recorded {
    host: String,
    client: IpAddr,
    request: String,
    agent: String,
}

fn recorded() -> Vec<Recorded> {
    let log = include_str!("../../../docs/migrate/requests.log");
    let line = |line: &str| {
        let quoted: Vec<&str> = line.split('"').collect();
        let words: Vec<&str> = line.split(' ').collect();
        Recorded {
            host: words[0].split(':').next().expect("a host").to_owned(),
            client: words[1].parse().expect("an address"),
            request: quoted[1].trim_end_matches(" HTTP/1.1").to_owned(),
            agent: quoted[5].to_owned(),
        }
    };
    log.lines().map(line).collect()
}

/// Status, and the server that answered.
type Verdict = (u16, String);

fn ask(address: SocketAddr, it: &Recorded) -> Verdict {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::new(it.client, 0).into()).expect("loopback");
    socket.connect(&address.into()).expect("it listens");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(support::PATIENCE)).expect("not zero");
    let mut client = Client { stream, buffer: Vec::new() };
    let Recorded { host, request, agent, .. } = it;
    client.send(format!(
        "{request} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\nConnection: close\r\n\r\n"
    ));
    let answer = client.try_answer(request.starts_with("HEAD")).expect("an answer");
    let server = answer.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-backend"));
    (answer.status, server.map(|(_, value)| value.clone()).unwrap_or_default())
}

/// The servers of an example: what of its text stands for which.
struct Backends {
    origins: Vec<(&'static str, Origin)>,
}

impl Backends {
    fn start() -> Self {
        let servers = [
            ("10.0.0.11:8080", "app"),
            ("10.0.0.12:8080", "app"),
            ("10.0.0.21:8080", "beta"),
            ("10.0.0.31:8080", "static"),
        ];
        let start = |(address, name): (&'static str, &'static str)| {
            let answer = move |_: &_| {
                let text = String::from_utf8(ok("")).expect("a head");
                text.replacen("\r\n", &format!("\r\nX-Backend: {name}\r\n"), 1).into_bytes()
            };
            (address, Origin::answering(answer))
        };
        Backends { origins: servers.into_iter().map(start).collect() }
    }

    /// The example with its servers and a listener here.
    fn put_into(&self, text: &str, listen: SocketAddr) -> String {
        let mut text = text.replace("0.0.0.0:8080", &listen.to_string());
        for (address, origin) in &self.origins {
            text = text.replace(address, &origin.server());
        }
        text
    }
}

fn await_listening(process: &mut Process, address: SocketAddr) {
    eventually("it listens", || {
        assert!(process.has_ended().is_none(), "it has ended");
        TcpStream::connect(address).is_ok()
    });
}

/// A peer's configuration, and the policy that should decide the same.
struct Example<'e> {
    peer: &'e str,
    /// The policy for a configuration of the peer.
    policy: &'e dyn Fn(&str) -> String,
    /// What the log's requests are answered.
    kinds: &'e [u16],
    /// Pools that each request gets one of by chance.
    split: &'e [&'e str],
}

impl Example<'_> {
    fn known(&self, (status, server): Verdict) -> Verdict {
        match self.split.contains(&server.as_str()) {
            true => (status, self.split[0].to_owned()),
            false => (status, server),
        }
    }
}

/// The peer, and Tiergate with the policy, asked the same; then what `explain` and `simulate` say.
fn same_verdicts(example: &Example<'_>, peer: impl FnOnce(&Path, &str) -> Command) {
    let folder = tempfile::tempdir().expect("a folder");
    let backends = Backends::start();
    let (peer_port, port) = (Port::reserve(), Port::reserve());
    let text = backends.put_into(example.peer, peer_port.address);
    let mut command = peer(folder.path(), &text);
    let mut running =
        Process::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
    await_listening(&mut running, peer_port.address);
    let policy = (example.policy)(&backends.put_into(example.peer, port.address));
    let policy = backends.put_into(&policy, port.address);
    let path = folder.path().join("policy.toml");
    fs::write(&path, format!("admin = false\n{policy}")).expect("our own folder");
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_tiergate"));
    gateway.arg("run").arg(&path).stdin(Stdio::null()).stderr(Stdio::null());
    let mut gateway = Process::start(&mut gateway);
    await_listening(&mut gateway, port.address);
    let requests = recorded();
    assert!(requests.len() > 150);
    let mut denied = BTreeMap::new();
    let loaded = load(&path).expect("it passes check");
    for it in &requests {
        let by_peer = example.known(ask(peer_port.address, it));
        let by_us = example.known(ask(port.address, it));
        assert_eq!(by_us, by_peer, "{it:?}");
        *denied.entry(by_peer.0).or_insert(0usize) += 1;
        let question = Question {
            request: it.request.clone(),
            headers: vec![format!("User-Agent: {}", it.agent)],
            client: Some(it.client),
            host: Some(it.host.clone()),
            known: Known::default(),
        };
        let said = explain(&loaded, "policy.toml", &question).expect("a question");
        // Over a rate is what came before, which explain does not know.
        let refused = !matches!(by_peer.0, 200 | 429);
        assert_eq!(said.contains("It is refused"), refused, "{it:?}\n{said}");
        if by_peer.0 == 200 && by_peer.1 != "app" {
            assert!(said.contains(&format!("pool {}", by_peer.1)), "{it:?}\n{said}");
        }
    }
    // All kinds of verdicts are there.
    assert!(example.kinds.iter().all(|it| denied.contains_key(it)), "{denied:?}");
    // It is killed at the end by its own id: children of it would stay.
    let id = running.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    assert_eq!(children.expect("it runs").trim(), "", "children of the peer");
    simulated(&path, &denied);
}

/// `simulate` of the log refuses as many, and for the same reasons.
fn simulated(policy: &Path, denied: &BTreeMap<u16, usize>) {
    let log: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "../../docs/migrate/requests.log"].iter().collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
    command.arg("simulate").arg(policy).arg("--log").arg(&log).args([
        "--json",
        "--workers",
        "1000",
        "--seed",
        "1",
    ]);
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let report: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{output:?}"));
    let reasons = |name: &str| report["fronts"]["policy"]["all"]["refused"][name].as_u64();
    let over_rate = denied[&429] as u64;
    let refused = denied
        .iter()
        .filter(|(status, _)| !matches!(status, 200 | 429))
        .map(|(_, count)| *count as u64)
        .sum::<u64>();
    assert_eq!((reasons("policed"), reasons("rule")), (Some(over_rate), Some(refused)), "{text}");
}

#[test]
fn the_nginx_example_decides_as_nginx_does() {
    let nginx = program("nginx").expect("nginx is installed by scripts/setup.sh");
    let example = Example {
        peer: NGINX,
        policy: &|text| of_nginx(text).expect("an example").policy,
        kinds: &[200, 301, 403, 404, 410, 429],
        split: &[],
    };
    same_verdicts(&example, |folder, text| run_nginx(&nginx, folder, text));
}

/// nginx with its files in a folder.
fn run_nginx(nginx: &Path, folder: &Path, text: &str) -> Command {
    let path = folder.join("nginx.conf");
    let top = format!(
        "daemon off;\nmaster_process off;\npid {}/pid;\nerror_log {}/log;\n",
        folder.display(),
        folder.display()
    );
    fs::write(&path, top + &text.replace("http {", "http {\naccess_log off;"))
        .expect("our own folder");
    let mut command = Command::new(nginx);
    command.arg("-p").arg(folder).arg("-c").arg(&path);
    command
}

#[test]
fn the_haproxy_example_decides_as_haproxy_does() {
    let haproxy = program("haproxy").expect("haproxy is installed by scripts/setup.sh");
    let example = Example {
        peer: HAPROXY,
        policy: &|text| of_haproxy(text).expect("an example").policy,
        kinds: &[200, 301, 403, 404, 410, 429],
        split: &[],
    };
    same_verdicts(&example, |folder, text| {
        let path = folder.join("haproxy.cfg");
        fs::write(&path, text).expect("our own folder");
        let mut command = Command::new(haproxy);
        command.arg("-db").arg("-f").arg(&path);
        command
    });
}
