//! Reloads under load: all or nothing, and no request lost.

use crate::support;
use std::io::Read;
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};
use support::client::Client;
use support::eventually;
use support::gateway::{Gateway, Policy, Port, certificate};
use support::load::{Habit, Load};
use support::origin::{Origin, ok};
use support::process::curl;
use support::unanswering::Unanswering;

/// Reloads of the long test: what the project promises.
const RELOADS: usize = 20_000;

/// Idle connections kept to each server, by each of two threads.
const IDLE_MAX: usize = 8;

/// Three policies that differ in everything a reload can change.
fn policies(origin: &Origin, other: &Origin) -> [Policy; 3] {
    let class = |name: &str, more: &str| format!("[[class]]\nname = \"{name}\"\n{more}\n");
    let rule =
        |path: &str, class: &str| format!("[[rule]]\npath = \"{path}\"\nclass = \"{class}\"\n");
    let both = [origin.server(), other.server()];
    [
        Policy {
            servers: both[..1].to_vec(),
            origin: format!("slots = 4\nidle_connections_max = {IDLE_MAX}"),
            tables: class("high", "")
                + &class("low", "queue = 500")
                + &rule("/class-0/**", "high")
                + &rule("/class-1/**", "low"),
            ..Policy::default()
        },
        Policy {
            servers: both.to_vec(),
            origin: format!("slots = \"adaptive\"\nidle_connections_max = {IDLE_MAX}"),
            tables: class("low", "")
                + &class("high", "deadline = \"5s\"")
                + &class("middle", "")
                + &rule("/class-2/**", "middle")
                + &rule("/class-0/**", "low")
                + "[refusal]\nreason_header = \"x-reason\"\n",
            ..Policy::default()
        },
        Policy {
            servers: both[1..].to_vec(),
            origin: format!("slots = 6\nidle_connections_max = {IDLE_MAX}"),
            tables: class("only", "") + "[limits]\nfields_max = 50\n[forwarding]\nvia = false\n",
            ..Policy::default()
        },
    ]
}

fn reload_under_load(reloads: usize) {
    let (origin, other) = (Origin::echo(), Origin::echo());
    let policies = policies(&origin, &other);
    let gateway = Gateway::start(&policies[0]);
    let texts = policies.map(|policy| policy.text(&[gateway.address], gateway.admin));
    let load = Load::start(gateway.address, 16, Habit::Keep);
    let start = Instant::now();
    let mut most_open = 0;
    for turn in 0..reloads {
        gateway.write_policy(&texts[(turn + 1) % texts.len()]);
        let (status, text) = gateway.reload();
        assert_eq!(status, 200, "{text}");
        most_open = most_open.max(origin.open() + other.open());
    }
    let took = start.elapsed();
    let seen = load.stop();
    println!(
        "{reloads} reloads in {took:?}: {} answers on {} connections",
        seen.total(),
        seen.connections
    );
    seen.assert_all(&[200]);
    assert_eq!((seen.connections, seen.closed_idle), (16, 0), "no connection was closed");
    assert_eq!(gateway.number("/config/generation"), reloads as u64 + 1);
    assert_eq!(gateway.number("/config/reloads_failed"), 0);
    eventually("every slot comes back", || {
        gateway.number("/limit/running") == 0 && gateway.number("/limit/waiting") == 0
    });
    let answered = gateway.number("/clients/responses/2xx");
    assert_eq!(answered, seen.total(), "each answer is counted once");
    // A server that comes and goes with reloads takes its idle connections along: two threads, two
    // servers, as many again for those that are just being closed, and one for each client.
    println!("at most {most_open} connections to the origins");
    assert!(most_open <= 8 * IDLE_MAX + 16, "{most_open} connections to the origins");
    let memory = gateway.process.memory("VmRSS");
    println!("VmRSS {} KiB", memory / 1024);
    assert!(memory < 100 << 20, "{memory}");
}

#[test]
fn twenty_thousand_reloads_lose_no_request() {
    reload_under_load(RELOADS);
}

#[test]
fn a_broken_policy_is_refused_with_its_place_and_the_old_one_stays() {
    let origin = Origin::echo();
    let policy = Policy::of(&[origin.server()]);
    let gateway = Gateway::start(&policy);
    let good = policy.text(&[gateway.address], gateway.admin);
    let broken = [
        ("[[class]\n", "policy.toml:"),
        ("[[class]]\nnam = \"a\"\n", "name"),
        ("[[rule]]\npath = \"/x\"\nclass = \"nobody\"\n", "nobody"),
        // In the words of `check`, with file, line and key.
        (
            "[[listener]]\naddress = \"192.0.2.1:80\"\n",
            "listener[2].address: cannot listen on 192.0.2.1:80: this machine does not have the address",
        ),
        (
            "[[listener]]\naddress = \"127.0.0.1:9\"\ntls = { certificate = \"missing.pem\", key = \"k\" }\n",
            "missing.pem: not found; check the path",
        ),
        (
            "[[pool]]\nname = \"p\"\nservers = [\"127.0.0.1:9\"]\ntls = { ca = \"missing.pem\" }\n",
            "missing.pem: not found; check the path",
        ),
        (
            "[access_log]\npath = \"/nonexistent/folder/log\"\n",
            "access_log.path: /nonexistent/folder/log cannot be written: /nonexistent/folder: No such file or directory",
        ),
    ];
    for (turn, (wrong, why)) in broken.iter().enumerate() {
        gateway.write_policy(&format!("{good}{wrong}"));
        let (status, text) = gateway.reload();
        assert_eq!(status, 422, "{wrong}: {text}");
        assert!(text.contains(why), "{wrong}: {text}");
        let place = format!("{}:", gateway.policy_path.display());
        assert!(text.starts_with(&place), "{wrong}: {text}");
        assert_eq!(gateway.number("/config/generation"), 1);
        assert_eq!(gateway.number("/config/reloads_failed"), turn as u64 + 1);
        assert_eq!(gateway.get("/x").text(), "GET /x");
    }
    std::fs::remove_file(&gateway.policy_path).expect("it is there");
    assert_eq!(gateway.reload().0, 422);
    gateway.write_policy(&good);
    assert_eq!(gateway.reload().0, 200);
    assert_eq!(gateway.number("/config/generation"), 2);
    assert_eq!(gateway.get("/x").text(), "GET /x");
}

/// The new address takes connections to the open one as well, so that the system lets nobody have both.
#[test]
fn an_address_that_the_gateway_itself_has_is_told_so() {
    let origin = Origin::echo();
    let policy = Policy::of(&[origin.server()]);
    let gateway = Gateway::start(&policy);
    let all = SocketAddr::from(([0, 0, 0, 0], gateway.address.port()));
    let own_admin = format!("admin = \"{}\"", gateway.admin);
    let without_admin = policy.text(&[gateway.admin], gateway.admin);
    for (text, address) in [
        (policy.text(&[all], gateway.admin), all),
        (without_admin.replace(&own_admin, "admin = false"), gateway.admin),
    ] {
        gateway.write_policy(&text);
        let (status, said) = gateway.reload();
        let expected =
            format!("listener[1].address: cannot listen on {address}: this gateway itself has it");
        assert!(status == 422 && said.contains(&expected), "{status} {said}");
        assert!(said.contains("restart it with this policy"), "{said}");
        assert_eq!(gateway.get("/x").text(), "GET /x");
    }
}

/// More servers than a request can remember to have tried must be a fault of the policy.
#[test]
fn a_policy_with_too_many_servers_is_refused_not_fatal() {
    let origin = Origin::echo();
    let policy = Policy::of(&[origin.server()]);
    let gateway = Gateway::start(&policy);
    let many = Policy::of(&(1..=65).map(|n| format!("127.0.0.{n}:9")).collect::<Vec<_>>());
    gateway.write_policy(&many.text(&[gateway.address], gateway.admin));
    assert_eq!(gateway.reload().0, 422);
    gateway.write_policy(&policy.text(&[gateway.address], gateway.admin));
    assert_eq!(gateway.reload().0, 200, "a refused reload leaves nothing locked");
    assert_eq!(gateway.get("/x").status, 200);
}

/// Names are kept for ever once they are in force, up to a bound; those of rejected policies are not.
#[test]
fn rejected_reloads_use_up_no_names() {
    let origin = Origin::echo();
    let policy = Policy::of(&[origin.server()]);
    let gateway = Gateway::start(&policy);
    let good = policy.text(&[gateway.address], gateway.admin);
    let classes = |turn: usize| -> String {
        (0..64).map(|class| format!("[[class]]\nname = \"turn-{turn}-{class}\"\n")).collect()
    };
    let unusable = "[[listener]]\naddress = \"192.0.2.1:80\"\n";
    // 64 turns would name the 4,096 classes that there may be.
    for turn in 0..70 {
        gateway.write_policy(&format!("{good}{}{unusable}", classes(turn)));
        let (status, text) = gateway.reload();
        assert!(status == 422 && text.contains("cannot listen on 192.0.2.1:80"), "{text}");
    }
    gateway.write_policy(&format!("{good}{}", classes(70)));
    assert_eq!(gateway.reload().0, 200);
}

/// Puts another server in force; what waits is answered by it.
fn replaced(servers: [String; 2], running: u64) {
    let [former, other] = servers.map(|server| Policy {
        servers: vec![server],
        origin: "slots = 2".into(),
        ..Policy::default()
    });
    let gateway = Gateway::start(&former);
    let mut clients: Vec<_> = (0..4).map(|_| gateway.client()).collect();
    let ask = |client: &mut Client| client.send("GET /early HTTP/1.1\r\nHost: a\r\n\r\n");
    clients.iter_mut().for_each(ask);
    eventually("two are under way, two wait", || {
        gateway.number("/limit/running") == 2 && gateway.number("/limit/waiting") == 2
    });
    gateway.write_policy(&other.text(&[gateway.address], gateway.admin));
    assert_eq!(gateway.reload().0, 200);
    let mut answered = 0;
    for client in &mut clients {
        client.patience(Duration::from_millis(500));
        answered += u64::from(client.try_answer(false).is_ok_and(|it| it.text() == "GET /early"));
    }
    assert_eq!(answered, 4 - running, "but those that the former server has");
    (0..20).for_each(|_| assert_eq!(gateway.get("/late").text(), "GET /late"));
    drop(clients);
    eventually("nothing is left", || gateway.number("/limit/running") == 0);
    gateway.assert_conserved();
}

/// Servers are replaced because they hang: what hangs there must hold no slot of the new one.
#[test]
fn a_reload_helps_against_a_server_that_hangs() {
    let hanging = Origin::start(|mut accepted| while accepted.more() {});
    let other = Origin::echo();
    replaced([hanging.server(), other.server()], 2);
}

#[test]
fn whoever_waits_for_a_restart_goes_to_the_server_that_a_reload_names() {
    let (nobody, other) = (Port::reserve(), Origin::echo());
    replaced([nobody.address.to_string(), other.server()], 0);
}

fn marked(origin: &Origin, mark: &str) -> Policy {
    let mut policy = Policy::of(&[origin.server()]);
    policy.tables = format!(
        "[[rule]]\npath = \"/refused\"\nrefuse = true\n[refusal]\nreason_header = \"{mark}\"\n"
    );
    policy
}

#[test]
fn sighup_and_a_changed_file_reload() {
    let origin = Origin::echo();
    let gateway = Gateway::start_with(&marked(&origin, "x-one"), &["--watch"]);
    let mut client = gateway.client();
    assert_eq!(client.get("/refused").field("x-one"), Some("rule"));
    // The watch sees the file change without being asked.
    gateway.write_policy(&marked(&origin, "x-two").text(&[gateway.address], gateway.admin));
    eventually("the watch has reloaded", || gateway.number("/config/generation") == 2);
    assert_eq!(client.get("/refused").field("x-two"), Some("rule"));
    // Written in place, too.
    let text = marked(&origin, "x-three").text(&[gateway.address], gateway.admin);
    std::fs::write(&gateway.policy_path, text).expect("our own folder");
    eventually("the watch has reloaded", || gateway.number("/config/generation") == 3);
    assert_eq!(client.get("/refused").field("x-three"), Some("rule"));

    let gateway = Gateway::start(&marked(&origin, "x-one"));
    gateway.write_policy(&marked(&origin, "x-two").text(&[gateway.address], gateway.admin));
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(gateway.number("/config/generation"), 1, "nobody asked for a watch");
    gateway.process.signal(rustix::process::Signal::HUP);
    eventually("SIGHUP has reloaded", || gateway.number("/config/generation") == 2);
    assert_eq!(gateway.get("/refused").field("x-two"), Some("rule"));
}

/// A renewed certificate is in force after a reload, for new connections; a broken one is refused.
#[test]
fn certificates_are_read_anew_by_a_reload() {
    let origin = Origin::echo();
    let folder = tempfile::tempdir().expect("a folder");
    let (first, listener) = certificate(folder.path(), "first");
    let mut policy = Policy::of(&[origin.server()]);
    policy.listener = listener;
    let gateway = Gateway::start(&policy);
    let port = gateway.address.port();
    let ask = |trusted: &str| {
        let resolve = format!("example.test:{port}:127.0.0.1");
        let url = format!("https://example.test:{port}/x");
        curl(&["--cacert", trusted, "--resolve", &resolve, &url])
    };
    let Some(text) = ask(&first) else { return };
    assert_eq!(text, "GET /x");
    let (second, _) = certificate(folder.path(), "second");
    let old = folder.path().join("old.pem").display().to_string();
    std::fs::copy(&first, &old).expect("our own folder");
    for end in ["pem", "key"] {
        let path = |name: &str| folder.path().join(format!("{name}.{end}"));
        std::fs::copy(path("second"), path("first")).expect("our own folder");
    }
    assert_eq!(ask(&old).as_deref(), Some("GET /x"), "nothing has changed before the reload");
    assert_eq!(gateway.reload().0, 200);
    assert_eq!(ask(&second).as_deref(), Some("GET /x"));
    std::fs::write(&first, "no certificate").expect("our own folder");
    let (status, text) = gateway.reload();
    assert_eq!(status, 422, "{text}");
    assert!(text.contains("first.pem"), "{text}");
    assert_eq!(ask(&second).as_deref(), Some("GET /x"));
}

/// What would have a reader wait for ever, or read for ever, is refused at once; so is half a certificate.
#[test]
fn pipes_devices_and_halves_of_certificates_are_refused_by_a_reload() {
    let origin = Origin::echo();
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, listener) = certificate(folder.path(), "site");
    let text = std::fs::read_to_string(&certificate).expect("just written");
    let gateway = Gateway::start(&Policy { listener, ..Policy::of(&[origin.server()]) });
    let refused = |said: &str| {
        let (status, answer) = gateway.reload();
        assert!(status == 422 && answer.contains(said), "{status}: {answer}");
        std::fs::remove_file(&certificate).expect("our own folder");
    };
    std::fs::write(&certificate, &text[..text.len() / 2]).expect("our own folder");
    refused("site.pem: not whole: its last part has no -----END line");
    pipe(&certificate);
    refused("site.pem: cannot be read: it is a pipe, and must be a file");
    std::os::unix::fs::symlink("/dev/zero", &certificate).expect("our own folder");
    refused("site.pem: cannot be read: it is a device, and must be a file");
    std::fs::write(&certificate, &text).expect("our own folder");
    assert_eq!(gateway.reload().0, 200);
}

/// A log or a policy that is a pipe would have a reload wait for ever, and a start, too.
#[test]
fn pipes_that_nobody_uses_hold_up_no_reload() {
    let origin = Origin::echo();
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let gateway = Gateway::start(&marked(&origin, "x-one"));
    let sound = marked(&origin, "x-two").text(&[gateway.address], gateway.admin);
    let logging = format!("{sound}\n[access_log]\npath = {log:?}\n");
    pipe(&log);
    gateway.write_policy(&logging);
    let (status, answer) = gateway.reload();
    assert!(status == 422 && answer.contains("a pipe that nobody reads"), "{status}: {answer}");
    // One that is read does.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let reader = std::fs::File::options().read(true).custom_flags(nonblocking).open(&log);
    assert_eq!(gateway.reload().0, 200);
    assert_eq!(gateway.get("/refused").field("x-two"), Some("rule"));
    let mut line = Vec::new();
    let mut reader = reader.expect("our own pipe");
    eventually("it is logged", || {
        // The end of what is there is an error, as the gateway may write more.
        let _ = reader.read_to_end(&mut line);
        !line.is_empty()
    });
    drop(reader);
    std::fs::remove_file(&gateway.policy_path).expect("our own folder");
    pipe(&gateway.policy_path);
    let (status, answer) = gateway.reload();
    assert!(status == 422 && answer.contains("it is a pipe, and must be a file"), "{answer}");
    std::fs::remove_file(&gateway.policy_path).expect("our own folder");
    gateway.write_policy(&sound);
    assert_eq!(gateway.reload().0, 200);
}

/// The answer, and not only the log.
#[test]
fn the_answer_to_a_reload_says_what_needs_a_start() {
    let origin = Origin::echo();
    let gateway = Gateway::start(&marked(&origin, "x-one"));
    let text = marked(&origin, "x-one").text(&[gateway.address], gateway.admin);
    let admin = format!("admin = \"{}\"", gateway.admin);
    assert!(text.contains(&admin), "{text}");
    gateway.write_policy(&text.replace(&admin, "admin = false"));
    let (status, answer) = gateway.reload();
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer, "configuration 2 is in force\n`admin` takes effect at the next start\n");
}

fn pipe(path: impl AsRef<std::ffi::OsStr>) {
    let made = std::process::Command::new("mkfifo").arg(path).status().expect("coreutils");
    assert!(made.success());
}

#[test]
fn a_reload_that_waits_for_a_file_holds_up_nothing_else() {
    let origin = Origin::echo();
    for is_by_signal in [true, false] {
        let mut gateway = Gateway::start_with(&marked(&origin, "x-one"), &["--watch"]);
        let file = Unanswering::at(&gateway.policy_path);
        let reload = "POST /reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
        let mut admin = Client::connect(gateway.admin);
        match is_by_signal {
            true => gateway.process.signal(rustix::process::Signal::HUP),
            false => admin.send(reload),
        }
        eventually("it is read", || file.is_read());
        // As many as there are threads, and more.
        for _ in 0..20 {
            assert_eq!(gateway.get("/refused").field("x-one"), Some("rule"));
        }
        assert_eq!(gateway.number("/config/generation"), 1);
        gateway.drain();
    }
    // The file answers at last: what was asked for meanwhile is done.
    let gateway = Gateway::start(&marked(&origin, "x-one"));
    let text = |mark| marked(&origin, mark).text(&[gateway.address], gateway.admin);
    let first = Unanswering::at(&gateway.policy_path);
    gateway.process.signal(rustix::process::Signal::HUP);
    eventually("it is read", || first.is_read());
    gateway.process.signal(rustix::process::Signal::HUP);
    let second = Unanswering::at(&gateway.policy_path);
    first.answer(&text("x-two"));
    eventually("the first is done", || gateway.number("/config/generation") == 2);
    eventually("it is read", || second.is_read());
    second.answer(&text("x-three"));
    eventually("the second is done", || gateway.number("/config/generation") == 3);
    assert_eq!(gateway.get("/refused").field("x-three"), Some("rule"));
}

/// As nginx's usual pair `listen 80; listen [::]:80;` is taken over.
#[test]
fn all_addresses_of_ipv6_leave_ipv4_to_another_listener() {
    let origin = Origin::echo();
    let policy = Policy::of(&[origin.server()]);
    let gateway = Gateway::start(&policy);
    let port = Port::reserve();
    let second = port.address;
    let all = (Ipv6Addr::UNSPECIFIED, second.port()).into();
    for pair in [[second, all], [all, second]] {
        gateway.write_policy(&policy.text(&[gateway.address, pair[0], pair[1]], gateway.admin));
        let (status, answer) = gateway.reload();
        assert_eq!(status, 200, "{answer}");
        for address in [second, (Ipv6Addr::LOCALHOST, second.port()).into()] {
            assert_eq!(Client::connect(address).get("/x").status, 200, "{address}");
        }
        gateway.write_policy(&policy.text(&[gateway.address], gateway.admin));
        assert_eq!(gateway.reload().0, 200);
        eventually("they are closed", || TcpStream::connect(second).is_err());
    }
}

/// Which IP versions `[::]` takes is settled when it is opened, and a reload that wants it otherwise says so.
#[test]
fn all_addresses_of_ipv6_keep_the_ip_versions_that_they_were_opened_with() {
    let origin = Origin::echo();
    let policy = Policy::of(&[origin.server()]);
    let gateway = Gateway::start(&policy);
    let port = Port::reserve();
    let second = port.address;
    let all = (Ipv6Addr::UNSPECIFIED, second.port()).into();
    let reload = |more: &[SocketAddr]| {
        let listen = [&[gateway.address], more].concat();
        gateway.write_policy(&policy.text(&listen, gateway.admin));
        gateway.reload()
    };
    let is_v4_open = || TcpStream::connect(second).is_ok();
    assert_eq!(reload(&[second, all]), (200, "configuration 2 is in force\n".to_owned()));
    for generation in 3..5 {
        let kept = format!(
            "configuration {generation} is in force\n`{all}` keeps to IPv6 until a restart: an upgrade hands the socket on as it was opened\n"
        );
        assert_eq!(reload(&[all]), (200, kept));
        eventually("nobody has IPv4", || !is_v4_open());
    }
    assert_eq!(reload(&[all, second]), (200, "configuration 5 is in force\n".to_owned()));
    assert_eq!(Client::connect(second).get("/x").status, 200);
    // Opened anew, it takes both.
    assert_eq!(reload(&[]).0, 200);
    eventually("it is closed", || !is_v4_open());
    assert_eq!(reload(&[all]), (200, "configuration 7 is in force\n".to_owned()));
    assert_eq!(Client::connect(second).get("/x").status, 200);
    for more in [&[all, second][..], &[second]] {
        let (status, answer) = reload(more);
        let why = format!(
            "cannot listen on {second}: `{all}` was opened for IPv4, too, and an open socket keeps that; restart with this policy"
        );
        assert!(status == 422 && answer.contains(&why), "{answer}");
    }
    assert_eq!(Client::connect(second).get("/x").status, 200);
    // One that shares its port can be opened beside it.
    let listener = format!("[[listener]]\naddress = \"{second}\"\nshare_port = true\n[origin]");
    let text = policy.text(&[gateway.address, all], gateway.admin);
    gateway.write_policy(&text.replace("[origin]", &listener));
    let (status, answer) = gateway.reload();
    assert!(status == 200 && answer.contains("takes IPv4 as well until a restart"), "{answer}");
}

#[test]
fn listeners_come_and_go_with_reloads() {
    let origin = Origin::echo();
    let policy = Policy::of(&[origin.server()]);
    let gateway = Gateway::start(&policy);
    let second = Port::reserve();
    let load = Load::start(gateway.address, 4, Habit::Fresh);
    let mut kept = None;
    for turn in 0..10 {
        let listen = [gateway.address, second.address];
        gateway.write_policy(&policy.text(&listen[..2 - turn % 2], gateway.admin));
        assert_eq!(gateway.reload().0, 200);
        if turn % 2 == 0 {
            eventually("the new listener serves", || {
                support::client::Client::try_connect(second.address).is_ok()
            });
            let mut client = support::client::Client::connect(second.address);
            assert_eq!(client.get("/second").text(), "GET /second");
            kept = Some(client);
        } else {
            eventually("the old listener is closed", || {
                support::client::Client::try_connect(second.address).is_err()
            });
            // Its connections stay.
            let client = kept.as_mut().expect("connected a turn ago");
            assert_eq!(client.get("/kept").text(), "GET /kept");
        }
    }
    load.stop().assert_all(&[200]);
}

/// Requests that wait in a class that a reload removes are not lost.
#[test]
fn requests_that_wait_outlive_a_reload() {
    let origin = Origin::answering(|request| {
        std::thread::sleep(Duration::from_millis(150));
        ok(format!("{} {}", request.method, request.target))
    });
    let [mut first, _, mut last] = policies(&origin, &origin);
    first.origin = "slots = 1".into();
    last.origin = "slots = 2".into();
    let gateway = Gateway::start(&first);
    let load = Load::start(gateway.address, 8, Habit::Keep);
    for turn in 0..10 {
        eventually("some wait", || gateway.number("/limit/waiting") >= 4);
        let policy = if turn % 2 == 0 { &last } else { &first };
        gateway.write_policy(&policy.text(&[gateway.address], gateway.admin));
        assert_eq!(gateway.reload().0, 200);
    }
    load.stop().assert_all(&[200]);
    eventually("all is done", || {
        gateway.number("/limit/running") + gateway.number("/limit/waiting") == 0
    });
}
