//! Lanes: the connections of some classes on threads of their own.

use crate::support;
use std::io::Read;
use std::net::Ipv4Addr;
use support::client::Client;
use support::gateway::{Gateway, Policy};
use support::origin::{Origin, ok};
use support::{PATIENCE, eventually, eventually_is};

const PREFERRED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

const LANE: &str = "[[class]]\nname = \"preferred\"\n[[class]]\nname = \"standard\"\n\
                    [[rule]]\nclient = \"127.0.0.2\"\nclass = \"preferred\"\n\
                    [[lane]]\nname = \"fast\"\nclasses = [\"preferred\"]\nnice = -5\n";

fn policy(origin: &Origin, lane: &str) -> Policy {
    Policy { tables: format!("{LANE}{lane}"), ..Policy::of(&[origin.server()]) }
}

/// The names of the gateway's threads, with how long each has run, in nanoseconds, and its nice value.
fn threads(gateway: &Gateway) -> Vec<(String, u64, i32)> {
    let tasks = format!("/proc/{}/task", gateway.process.id());
    let of = |entry: std::fs::DirEntry| {
        let read =
            |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let ran = read("schedstat").split(' ').next().and_then(|it| it.parse().ok());
        let stat = read("stat");
        let nice = stat.rsplit(") ").next().and_then(|it| it.split(' ').nth(16)?.parse().ok());
        (read("comm").trim().to_owned(), ran.unwrap_or(0), nice.unwrap_or(0))
    };
    std::fs::read_dir(tasks).expect("it runs").flatten().map(of).collect()
}

fn ran(gateway: &Gateway, name: &str) -> u64 {
    threads(gateway).iter().filter(|(own, ..)| own.starts_with(name)).map(|it| it.1).sum()
}

#[test]
fn connections_of_a_class_are_served_by_threads_of_its_lane() {
    let origin = Origin::answering(|_| ok("ok"));
    let gateway = Gateway::start(&policy(&origin, ""));
    let lane = |key: &str| gateway.status()["lanes"][0][key].as_i64();
    // Without the right the lane has its thread all the same.
    let usual = rustix::process::getpriority_process(None).expect("our own");
    eventually("the lane's thread has begun, with the priority that status says", || {
        let found = threads(&gateway);
        let own = found.iter().find(|it| it.0 == "lane-fast").map(|it| i64::from(it.2));
        own == Some(lane("nice").unwrap_or(i64::from(usual)))
    });
    assert_eq!(lane("nice_wanted"), Some(-5));
    for address in [PREFERRED, OTHER] {
        let mut client = Client::connect_from(address, gateway.address);
        assert_eq!(client.get("/").status, 200);
        let is_in_lane = address == PREFERRED;
        let wanted = Some(i64::from(is_in_lane));
        eventually_is("it is where it belongs", wanted, || lane("connections"));
        let count = || ["lane-fast", "serve-1", "tiergate"].map(|name| ran(&gateway, name));
        let before = count();
        for _ in 0..300 {
            assert_eq!(client.get("/").status, 200);
        }
        let after = count();
        let [lane, one, other] = [0, 1, 2].map(|place| after[place] - before[place]);
        // The first thread also does what is done once.
        let (busy, still) = if is_in_lane { (lane, one) } else { (one + other, lane) };
        assert!(busy > 4 * still, "{address}: lane {lane} ns, others {one} and {other}");
    }
    eventually_is("it has left the lane", Some(0), || lane("connections"));
    gateway.assert_conserved();
}

/// Opens and closes so many connections from that address; how many of them were handed over to the lane.
fn handed_over(gateway: &Gateway, address: Ipv4Addr, count: usize) -> u64 {
    let seen = || gateway.status()["lanes"][0]["handed_over"].as_u64().expect("a number");
    let before = seen();
    for _ in 0..count {
        assert_eq!(Client::connect_from(address, gateway.address).get("/").status, 200);
    }
    seen() - before
}

#[test]
fn the_kernel_puts_connections_where_they_belong_also_after_a_reload() {
    let origin = Origin::answering(|_| ok("ok"));
    let gateway = Gateway::start(&policy(&origin, ""));
    // Those that came before the threads had begun may have been elsewhere.
    assert_eq!(gateway.get("/").status, 200);
    let lane = || gateway.status()["lanes"][0]["connections"].as_i64();
    assert_eq!(handed_over(&gateway, PREFERRED, 30), 0, "none: by three threads and chance twenty");
    let own = Client::connect_from(PREFERRED, gateway.address);
    eventually_is("it is in the lane", Some(1), lane);
    drop(own);
    handed_over(&gateway, OTHER, 30);
    let handed_on = || gateway.status()["lanes"][0]["handed_on"].as_u64().expect("a number");
    assert_eq!(handed_on(), 0, "its thread gets none of the others");
    // The rule is of another client now.
    let text = std::fs::read_to_string(&gateway.policy_path).expect("it was written");
    let moved = text.replace("client = \"127.0.0.2\"", "client = \"127.0.0.3\"");
    std::fs::write(&gateway.policy_path, moved).expect("a folder of our own");
    assert_eq!(gateway.reload().0, 200);
    eventually("the kernel knows", || handed_over(&gateway, OTHER, 10) == 0);
    let _others = Client::connect_from(PREFERRED, gateway.address);
    let _own = Client::connect_from(OTHER, gateway.address);
    eventually_is("the one that the rule is of is in the lane", Some(1), lane);
    gateway.assert_conserved();
}

#[test]
fn where_the_kernel_cannot_tell_connections_are_handed_over() {
    let origin = Origin::answering(|_| ok("ok"));
    let shared = Policy { listener: "share_port = true".into(), ..policy(&origin, "") };
    let gateway = Gateway::start(&shared);
    // Each has one chance in three to come to the lane's thread at once.
    assert!(handed_over(&gateway, PREFERRED, 40) > 0);
    let own = Client::connect_from(PREFERRED, gateway.address);
    let lane = || gateway.status()["lanes"][0]["connections"].as_i64();
    eventually_is("it is in the lane", Some(1), lane);
    drop(own);
    assert_eq!(handed_over(&gateway, OTHER, 40), 0, "not to the lane");
    let handed_on = gateway.status()["lanes"][0]["handed_on"].as_u64().expect("a number");
    assert!(handed_on > 0, "its thread gets a third of the others, too");
    gateway.assert_conserved();
}

#[test]
fn a_full_lane_closes_connections_as_they_come_and_others_do_not_mind() {
    let origin = Origin::answering(|_| ok("ok"));
    let gateway = Gateway::start(&policy(&origin, "connections_max = 2\n"));
    let mut held: Vec<Client> =
        (0..2).map(|_| Client::connect_from(PREFERRED, gateway.address)).collect();
    held.iter_mut().for_each(|client| assert_eq!(client.get("/").status, 200));
    let mut third = Client::connect_from(PREFERRED, gateway.address);
    third.send_anyway(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(third.stream.read(&mut [0; 10]).unwrap_or(0), 0, "it is closed without an answer");
    assert_eq!(gateway.get("/").status, 200);
    let status = gateway.status();
    assert_eq!(status["lanes"][0]["turned_away"], 1, "{status}");
    held.pop();
    eventually("there is room again", || {
        let mut next = Client::connect_from(PREFERRED, gateway.address);
        next.send_anyway(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        next.stream.read(&mut [0; 10]).unwrap_or(0) > 0
    });
    held.clear();
    gateway.assert_conserved();
}

#[test]
fn a_reload_keeps_the_lanes_and_a_drain_ends_them() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let origin = Origin::answering(move |_| {
        let _ = wait.lock().expect("nobody panics with it").recv_timeout(PATIENCE);
        ok("ok")
    });
    let mut gateway = Gateway::start(&policy(&origin, ""));
    let text = std::fs::read_to_string(&gateway.policy_path).expect("it was written");
    let renamed = text.replace("name = \"fast\"", "name = \"quick\"");
    std::fs::write(&gateway.policy_path, renamed).expect("a folder of our own");
    assert_eq!(gateway.reload().0, 200);
    eventually("it says so", || gateway.log().contains("`lane` takes effect at the next start"));
    assert_eq!(gateway.status()["lanes"][0]["name"], "fast");
    let mut client = Client::connect_from(PREFERRED, gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    eventually("it is under way", || gateway.status()["limit"]["running"] == 1);
    gateway.process.signal(rustix::process::Signal::TERM);
    eventually("it drains", || gateway.log().contains("drain"));
    go.send(()).expect("the origin waits");
    assert_eq!(client.answer().status, 200, "what was begun is answered");
    assert!(gateway.process.wait(PATIENCE).success(), "{}", gateway.log());
}

#[test]
fn a_lane_that_makes_no_sense_is_refused() {
    let check = |tables: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("policy.toml");
        let text = format!("[origin]\nservers = [\"127.0.0.1:1\"]\n{tables}");
        std::fs::write(&file, text).expect("a folder of our own");
        let program = env!("CARGO_BIN_EXE_tiergate");
        let output = std::process::Command::new(program).arg("check").arg(&file).output();
        let output = output.expect("it was built");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(check(LANE).0, "{LANE}");
    for (lane, says) in [
        (
            LANE.replace("client = \"127.0.0.2\"", "path = \"/x\""),
            "no rule gives class \"preferred\"",
        ),
        (LANE.replace("classes = [\"preferred\"]", "classes = [\"none\"]"), "no class is called"),
        (LANE.replace("nice = -5", "nice = 5"), "a whole number from -20 to 0"),
        (
            format!("{LANE}[[lane]]\nname = \"b\"\nclasses = \"preferred\"\n"),
            "has lane \"fast\" already",
        ),
        (format!("{LANE}[[lane]]\nname = \"fast\"\nclasses = []\n"), "lane"),
        // What is refused or policed alone gives no class.
        (
            LANE.replace(
                "class = \"preferred\"\n[[lane]]",
                "police = { rate = \"1/s\", burst = 1 }\n[[lane]]",
            ),
            "no rule gives class",
        ),
    ] {
        let (is_sound, said) = check(&lane);
        assert!(!is_sound && said.contains(says), "{lane}: {said}");
    }
    // A class that is only observed has no lane in force.
    let observed = LANE.replace(
        "name = \"preferred\"\n[[class]]",
        "name = \"preferred\"\nmode = \"observe\"\n[[class]]",
    );
    assert!(check(&observed).0, "{}", check(&observed).1);
}
