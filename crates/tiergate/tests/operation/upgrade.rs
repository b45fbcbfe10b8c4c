//! Upgrades (SIGUSR2) and stops behind something that asks whether a gateway is ready, under load: no request is lost.

use crate::support;
use rustix::process::{Pid, Signal, kill_process};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::client::Client;
use support::eventually;
use support::gateway::{Gateway, Policy, Port};
use support::load::{Habit, Load};
use support::origin::{Origin, ok};
use support::unanswering::Unanswering;

/// How often each of them happens: in CI less often than what the project promises, which `make upgrades` shows.
fn times() -> usize {
    std::env::var("UPGRADES").ok().and_then(|it| it.parse().ok()).unwrap_or(8)
}

/// The processes that have taken over, as the log names them.
fn successors(gateway: &Gateway) -> Vec<i32> {
    let log = gateway.log();
    let named = log.split("successor=").skip(1);
    let number = |text: &str| text.split(|it: char| !it.is_ascii_digit()).next()?.parse().ok();
    named.filter_map(number).collect()
}

fn send(process: i32, signal: Signal) {
    let process = Pid::from_raw(process).expect("no process has the number 0");
    kill_process(process, signal).expect("it is there");
}

/// Whether a process does nothing any more; its parent may not have asked how it ended.
fn has_gone(process: i32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat"));
    stat.map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")))
}

/// The last of several processes, ended with the test.
struct Last(i32);

impl Drop for Last {
    fn drop(&mut self) {
        if let Some(process) = Pid::from_raw(self.0).filter(|_| !has_gone(self.0)) {
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

/// Has the gateway hand over to a successor, and returns that.
fn upgrade(gateway: &Gateway, process: i32) -> i32 {
    let before = successors(gateway).len();
    send(process, Signal::USR2);
    eventually("a successor serves", || successors(gateway).len() > before);
    eventually("the former has gone", || has_gone(process));
    *successors(gateway).last().expect("there is one")
}

#[test]
fn upgrades_lose_no_request() {
    for threads in [1, 2] {
        for habit in [Habit::Keep, Habit::Fresh] {
            let origin = Origin::echo();
            let top = format!("threads = {threads}");
            let gateway = Gateway::start(&Policy { top, ..Policy::of(&[origin.server()]) });
            let load = Load::start(gateway.address, 8, habit);
            let mut last = Last(gateway.process.id() as i32);
            for _ in 0..times().div_ceil(4) {
                last.0 = upgrade(&gateway, last.0);
                assert!(!gateway.log().contains("connections cut"), "{}", gateway.log());
            }
            let seen = load.stop();
            seen.assert_all(&[200]);
            assert_eq!(seen.closed_idle, 0, "{seen:#?}");
            // The admin listener went with it.
            gateway.assert_conserved();
            send(last.0, Signal::TERM);
            eventually("the last ends when it is asked to", || has_gone(last.0));
        }
    }
}

/// A class whose connections have a thread of their own: the kernel says by a program of its packet filter which socket gets them, and
/// both processes have the same sockets.
#[test]
fn an_upgrade_with_lanes_loses_no_request_and_keeps_them() {
    const PREFERRED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
    let origin = Origin::echo();
    let tables = "[[class]]\nname = \"preferred\"\n[[class]]\nname = \"standard\"\n\
                  [[rule]]\nclient = \"127.0.0.2\"\nclass = \"preferred\"\n\
                  [[lane]]\nname = \"fast\"\nclasses = [\"preferred\"]\n";
    let policy = Policy { tables: tables.to_owned(), ..Policy::of(&[origin.server()]) };
    let gateway = Gateway::start(&policy);
    let others = Load::start(gateway.address, 4, Habit::Fresh);
    let stop = AtomicBool::new(false);
    let mut last = Last(gateway.process.id() as i32);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(Client::connect_from(PREFERRED, gateway.address).get("/x").status, 200);
            }
        });
        for _ in 0..times().div_ceil(4) {
            last.0 = upgrade(&gateway, last.0);
        }
        stop.store(true, Ordering::Relaxed);
    });
    others.stop().assert_all(&[200]);
    let lane = |key: &str| gateway.status()["lanes"][0][key].as_u64().expect("a number");
    let before = lane("handed_over");
    let held: Vec<Client> =
        (0..20).map(|_| Client::connect_from(PREFERRED, gateway.address)).collect();
    eventually("they are in the lane", || lane("connections") == 20);
    assert_eq!(lane("handed_over"), before, "the kernel knows whose they are");
    drop(held);
    send(last.0, Signal::TERM);
    eventually("the last ends when it is asked to", || has_gone(last.0));
}

/// A certificate may be renewed, and logs moved, after the successor has read and opened them; what says so goes to the process that everybody knows.
#[test]
fn what_is_asked_for_during_an_upgrade_is_done_by_the_successor() {
    let origin = Origin::echo();
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    let marked = |mark: &str| {
        let tables = format!(
            "[[rule]]\npath = \"/refused\"\nrefuse = true\n[refusal]\nreason_header = \"{mark}\"\n\
             [access_log]\npath = {log:?}\n"
        );
        Policy { tables, ..Policy::of(&[origin.server()]) }
    };
    let gateway = Gateway::start(&marked("x-one"));
    let text = |mark| marked(mark).text(&[gateway.address], gateway.admin);
    // The successor starts for as long as nobody writes the policy.
    let policy = Unanswering::at(&gateway.policy_path);
    let process = gateway.process.id() as i32;
    send(process, Signal::USR2);
    eventually("the successor reads it", || policy.is_read());
    std::fs::remove_file(&log).expect("our own folder");
    send(process, Signal::HUP);
    // Nobody else opens it before the policy has been read.
    eventually("the former has taken the signal", || log.exists());
    gateway.write_policy(&text("x-three"));
    policy.answer(&text("x-two"));
    eventually("it serves", || !successors(&gateway).is_empty());
    let last = Last(successors(&gateway)[0]);
    eventually("it has reloaded", || gateway.get("/refused").field("x-three").is_some());
    eventually("the former has gone", || has_gone(process));
    send(last.0, Signal::TERM);
    eventually("it ends", || has_gone(last.0));
}

/// Who is told that a policy is in force must not see the former one come back.
#[test]
fn a_reload_by_the_admin_listener_during_an_upgrade_holds() {
    let origin = Origin::echo();
    let marked = |mark: &str| {
        let tables = format!(
            "[[rule]]\npath = \"/refused\"\nrefuse = true\n[refusal]\nreason_header = \"{mark}\"\n"
        );
        Policy { tables, ..Policy::of(&[origin.server()]) }
    };
    for is_under_way in [false, true] {
        let gateway = Gateway::start(&marked("x-one"));
        let text = |mark| marked(mark).text(&[gateway.address], gateway.admin);
        let policy = Unanswering::at(&gateway.policy_path);
        let process = gateway.process.id() as i32;
        send(process, Signal::USR2);
        eventually("the successor reads it", || policy.is_read());
        let mut admin = Client::connect(gateway.admin);
        let reload = "POST /reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
        if is_under_way {
            let other = Unanswering::at(&gateway.policy_path);
            admin.send(reload);
            eventually("the former reads it", || other.is_read());
            gateway.write_policy(&text("x-three"));
            policy.answer(&text("x-two"));
            eventually("it serves", || !successors(&gateway).is_empty());
            drop(other);
        } else {
            gateway.write_policy(&text("x-three"));
            admin.send(reload);
            assert_eq!(admin.answer().status, 200);
            assert!(gateway.get("/refused").field("x-three").is_some());
            policy.answer(&text("x-two"));
            eventually("it serves", || !successors(&gateway).is_empty());
        }
        let last = Last(successors(&gateway)[0]);
        eventually("the former has gone", || has_gone(process));
        eventually("it has reloaded", || gateway.get("/refused").field("x-three").is_some());
        send(last.0, Signal::TERM);
        eventually("it ends", || has_gone(last.0));
    }
}

/// A successor has the former's sockets, which take the IP versions that they were opened with.
#[test]
fn an_upgrade_says_which_ip_versions_a_socket_keeps() {
    let origin = Origin::echo();
    let policy = Policy::of(&[origin.server()]);
    let gateway = Gateway::start(&policy);
    let port = Port::reserve();
    let second = port.address;
    let all = (Ipv6Addr::UNSPECIFIED, second.port()).into();
    let write = |more: &[SocketAddr]| {
        let listen = [&[gateway.address], more].concat();
        gateway.write_policy(&policy.text(&listen, gateway.admin));
    };
    write(&[second, all]);
    assert_eq!(gateway.reload().0, 200);
    write(&[all]);
    let last = Last(upgrade(&gateway, gateway.process.id() as i32));
    let kept = format!("`{all}` keeps to IPv6 until a restart");
    assert!(gateway.log().contains(&kept), "{}", gateway.log());
    eventually("nobody has IPv4", || TcpStream::connect(second).is_err());
    let (status, answer) = gateway.reload();
    assert!(status == 200 && answer.contains(&kept), "{answer}");
    write(&[all, second]);
    let (status, answer) = gateway.reload();
    assert!(status == 200 && !answer.contains("until a restart"), "{answer}");
    send(last.0, Signal::TERM);
    eventually("it ends", || has_gone(last.0));
}

#[test]
fn a_successor_that_cannot_start_changes_nothing() {
    let origin = Origin::echo();
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    let sound = std::fs::read_to_string(&gateway.policy_path).expect("it was written");
    gateway.write_policy("nonsense = 1\n");
    let process = gateway.process.id() as i32;
    send(process, Signal::USR2);
    eventually("it says why", || gateway.log().contains("no upgrade, this process goes on"));
    assert!(gateway.log().contains("nonsense: unknown key"), "{}", gateway.log());
    assert_eq!(gateway.get("/x").status, 200);
    assert!(successors(&gateway).is_empty());
    // Another listener is the successor's own matter.
    gateway.write_policy(&sound);
    let last = Last(upgrade(&gateway, process));
    assert_eq!(gateway.get("/x").status, 200);
    send(last.0, Signal::TERM);
    eventually("it ends", || has_gone(last.0));
}

/// The signal is that of an operator who has just mended the policy.
#[test]
fn an_upgrade_that_is_asked_for_during_one_that_fails_is_tried() {
    let origin = Origin::echo();
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    let sound = std::fs::read_to_string(&gateway.policy_path).expect("it was written");
    let policy = Unanswering::at(&gateway.policy_path);
    let process = gateway.process.id() as i32;
    send(process, Signal::USR2);
    eventually("a successor reads it", || policy.is_read());
    gateway.write_policy(&sound);
    send(process, Signal::USR2);
    policy.answer("nonsense = 1\n");
    eventually("the first fails", || gateway.log().contains("no upgrade, this process goes on"));
    eventually("the second serves", || !successors(&gateway).is_empty());
    let last = Last(successors(&gateway)[0]);
    eventually("the former has gone", || has_gone(process));
    assert_eq!(gateway.get("/x").status, 200);
    send(last.0, Signal::TERM);
    eventually("it ends", || has_gone(last.0));
}

/// A successor takes clients a moment before it has said that it serves.
#[test]
fn a_stop_during_an_upgrade_cuts_no_client_of_the_successor() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let origin = Origin::answering(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_secs(1));
        ok("late")
    });
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    let sound = std::fs::read_to_string(&gateway.policy_path).expect("it was written");
    let policy = Unanswering::at(&gateway.policy_path);
    let process = gateway.process.id() as i32;
    send(process, Signal::USR2);
    eventually("the successor reads it", || policy.is_read());
    // Only the successor takes clients now, and nobody hears that it serves.
    send(process, Signal::STOP);
    let stands = |thread: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat"));
        stat.is_ok_and(|it| it.rsplit(") ").next().is_some_and(|it| it.starts_with('T')))
    };
    eventually("the former stands still", || {
        std::fs::read_dir(format!("/proc/{process}/task"))
            .is_ok_and(|threads| threads.flatten().all(stands))
    });
    policy.answer(&sound);
    let mut client = gateway.client();
    client.send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("it is in progress", || asked.load(Ordering::SeqCst) == 1);
    send(process, Signal::TERM);
    send(process, Signal::CONT);
    assert_eq!(client.answer().status, 200);
    eventually("the former has gone", || has_gone(process));
    let is_closed = || TcpStream::connect(gateway.address).is_err();
    eventually("so has the successor", is_closed);
}

/// `mv tiergate tiergate.old`, and the new program in its place, is how programs are installed that are not in a package.
#[test]
fn a_program_that_was_started_by_its_name_is_looked_up_where_it_was() {
    let (origin, folder) = (Origin::echo(), tempfile::tempdir().expect("a folder"));
    let at = |name: &str| folder.path().join(name);
    let program = Path::new(env!("CARGO_BIN_EXE_tiergate"));
    std::fs::hard_link(program, at("tiergate"))
        .or_else(|_| std::fs::copy(program, at("tiergate")).map(drop))
        .expect("our own folder");
    let start =
        format!("PATH=\"{}:$PATH\" exec tiergate run \"$1\"; true", folder.path().display());
    let gateway = Gateway::start_under(&start, &Policy::of(&[origin.server()]), folder.path());
    let mut last = Last(gateway.process.id() as i32);
    let install = |turn: usize| {
        let new =
            format!("#!/bin/sh\ntouch {:?}\nexec {program:?} \"$@\"\n", at(&format!("new-{turn}")));
        std::fs::rename(at("tiergate"), at(&format!("old-{turn}"))).expect("our own folder");
        std::fs::write(at("beside"), new).expect("our own folder");
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(at("beside"), permissions).expect("our own folder");
        std::fs::rename(at("beside"), at("tiergate")).expect("our own folder");
    };
    install(0);
    last.0 = upgrade(&gateway, last.0);
    assert!(at("new-0").exists(), "the program that had been renamed was started");
    assert_eq!(gateway.get("/x").status, 200);
    send(last.0, Signal::TERM);
    eventually("it ends", || has_gone(last.0));
}

/// Of two processes that share a log, the one that leaves speaks of no mistake, and sends nobody to start what runs.
#[test]
fn a_process_that_has_a_successor_leaves_policies_and_upgrades_to_it() {
    let origin = Origin::answering(|_| {
        std::thread::sleep(Duration::from_secs(2));
        ok("late")
    });
    let policy = Policy::of(&[origin.server()]);
    let gateway = Gateway::start_with(&policy, &["--watch"]);
    let mut client = gateway.client();
    client.send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("it is in progress", || gateway.number("/limit/running") == 1);
    let process = gateway.process.id() as i32;
    send(process, Signal::USR2);
    eventually("a successor serves", || !successors(&gateway).is_empty());
    let last = Last(successors(&gateway)[0]);
    // Sent to the old process, as by a script that knows only its number.
    send(process, Signal::USR2);
    eventually("it says who does it", || gateway.log().contains("send it to that"));
    let other = Policy { tables: "[[class]]\nname = \"other\"\n".to_owned(), ..policy };
    gateway.write_policy(&other.text(&[gateway.address], gateway.admin));
    let reloads = || gateway.log().matches("configuration reloaded").count();
    eventually("the successor has read it", || reloads() == 1);
    send(process, Signal::HUP);
    eventually("it is passed on", || reloads() == 2);
    assert!(!has_gone(process), "it still has a request");
    assert_eq!(client.answer().status, 200);
    eventually("the former has gone", || has_gone(process));
    assert!(!gateway.log().contains("reload rejected"), "{}", gateway.log());
    send(last.0, Signal::TERM);
    eventually("it ends", || has_gone(last.0));
}

/// What is left when the first process of a container ends, is ended by the kernel.
#[test]
fn the_first_process_of_a_container_starts_no_successor() {
    let isolated = "unshare --user --map-root-user --pid --fork --kill-child";
    let tried = Command::new("/bin/sh").arg("-c").arg(format!("{isolated} true")).status();
    if !tried.is_ok_and(|it| it.success()) {
        eprintln!("not tried: no namespace can be had here");
        return;
    }
    let (origin, folder) = (Origin::echo(), tempfile::tempdir().expect("a folder"));
    let start = format!("exec {isolated} \"$0\" run \"$1\"; true");
    let gateway = Gateway::start_under(&start, &Policy::of(&[origin.server()]), folder.path());
    let first = child(gateway.process.id() as i32);
    assert_refuses_to_upgrade(&gateway, first, "the first process of its container");
    // The same beneath an init that ends with it, as with `docker run --init`.
    let start = format!("exec {isolated} /bin/sh -c '\"$0\" run \"$1\"; exit' \"$0\" \"$1\"; true");
    let gateway = Gateway::start_under(&start, &Policy::of(&[origin.server()]), folder.path());
    let second = child(child(gateway.process.id() as i32));
    assert_refuses_to_upgrade(&gateway, second, "child of the first process of its container");
}

/// What is left of a unit when its main process ends is ended by systemd, unless that is told another.
#[test]
fn a_unit_that_does_not_hear_of_successors_gets_none() {
    let (origin, folder) = (Origin::echo(), tempfile::tempdir().expect("a folder"));
    let start = "unset NOTIFY_SOCKET; export INVOCATION_ID=1 SYSTEMD_EXEC_PID=$$";
    let gateway = Gateway::start_under(start, &Policy::of(&[origin.server()]), folder.path());
    let process = gateway.process.id() as i32;
    assert_refuses_to_upgrade(&gateway, process, "Type=notify");
}

/// The only child of a process.
fn child(of: i32) -> i32 {
    let children = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"));
    children.expect("Linux").trim().parse().expect("there is one")
}

/// Asks for an upgrade, and then for the end.
fn assert_refuses_to_upgrade(gateway: &Gateway, process: i32, why: &str) {
    send(process, Signal::USR2);
    eventually("it says why not", || gateway.log().contains("no upgrade, this process goes on"));
    assert!(gateway.log().contains(why), "{}", gateway.log());
    assert_eq!(gateway.get("/x").status, 200);
    send(process, Signal::TERM);
    eventually("it ends when it is asked to", || has_gone(process));
}

fn lame(origin: &Origin, duck: &str) -> Policy {
    let tables = format!("[timeouts]\nlame_duck = \"{duck}\"\n");
    Policy { tables, ..Policy::of(&[origin.server()]) }
}

fn is_ready(gateway: &Gateway) -> bool {
    // One that ends in the midst of its answer is not.
    support::client::Client::try_connect(gateway.admin).is_ok_and(|mut client| {
        client.send("GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.try_answer(false).is_ok_and(|answer| answer.status == 200)
    })
}

#[test]
fn a_lame_duck_says_so_and_serves_until_it_drains() {
    let origin = Origin::echo();
    let mut gateway = Gateway::start(&lame(&origin, "1h"));
    assert!(is_ready(&gateway));
    gateway.process.signal(Signal::TERM);
    eventually("it is not ready", || !is_ready(&gateway));
    let mut kept = gateway.client();
    for _ in 0..3 {
        let answer = kept.get("/x");
        assert!(answer.status == 200 && !answer.closes(), "{}", answer.head);
        assert_eq!(gateway.get("/fresh").status, 200);
    }
    drop(kept);
    // A second signal ends the wait.
    gateway.drain();
    // And it ends by itself.
    let mut gateway = Gateway::start(&lame(&origin, "500ms"));
    let began = Instant::now();
    gateway.drain();
    assert!(began.elapsed() >= Duration::from_millis(500));
}

/// An operator who reloads then would else believe that the policy is in force.
#[test]
fn signals_that_a_leaving_gateway_does_not_follow_are_said() {
    let origin = Origin::echo();
    let mut gateway = Gateway::start(&lame(&origin, "1h"));
    gateway.process.signal(Signal::TERM);
    eventually("it is not ready", || !is_ready(&gateway));
    let on_its_way = "this process is on its way out, and";
    gateway.process.signal(Signal::HUP);
    let reload = format!("SIGHUP reopens the access log only: {on_its_way} loads no policy");
    eventually("it says so", || gateway.log().contains(&reload));
    gateway.process.signal(Signal::USR2);
    let upgrade = format!("SIGUSR2 is ignored: {on_its_way} starts no successor");
    eventually("it says so", || gateway.log().contains(&upgrade));
    // The same while it drains.
    let idle = gateway.client();
    let said = gateway.log().len();
    gateway.process.signal(Signal::TERM);
    eventually("it drains", || gateway.log().contains("draining, at most"));
    gateway.process.signal(Signal::HUP);
    let again = |log: &str| log[said..].contains(&reload) || log.ends_with("drained\n");
    eventually("it says so again", || again(&gateway.log()));
    drop(idle);
    gateway.drain();
}

/// A client that asks which of two gateways is ready, as a load balancer does, and sends its requests there.
#[test]
fn stops_lose_nothing_of_a_client_that_follows_readiness() {
    let origin = Origin::echo();
    let policy = lame(&origin, "300ms");
    let mut pair = [Gateway::start(&policy), Gateway::start(&policy)];
    for turn in 0..times() {
        pair[turn % 2].process.signal(Signal::TERM);
        let end = Instant::now() + Duration::from_millis(600);
        while Instant::now() < end {
            let ready = pair.iter().find(|it| is_ready(it)).expect("one of them stays");
            assert_eq!(ready.get("/x").status, 200);
        }
        let status = pair[turn % 2].process.wait(support::PATIENCE);
        assert!(status.success(), "{status}");
        pair[turn % 2] = Gateway::start(&policy);
    }
}
