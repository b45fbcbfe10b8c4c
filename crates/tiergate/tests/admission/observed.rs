//! A policy that is observed beside the one in force: it decides, is counted and logged, and changes nothing.

use crate::support;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;
use support::client::Client;
use support::eventually;
use support::gateway::{Gateway, Policy};
use support::origin::{Origin, ok};

/// A policy of which only rules and classes count.
fn write(path: &Path, tables: &str) {
    let text = format!("[origin]\nservers = [\"127.0.0.1:1\"]\n{tables}");
    fs::write(path, text).expect("a folder of our own");
}

/// What status says of a class of the observed policy.
fn class(gateway: &Gateway, name: &str) -> Value {
    let status = gateway.status();
    let classes = status["observed"]["classes"].as_array().cloned().unwrap_or_default();
    classes.into_iter().find(|it| it["name"] == name).unwrap_or(Value::Null)
}

const NEW: &str = "[[class]]\nname = \"pages\"\n[[class]]\nname = \"search\"\n\
                   [[rule]]\npath = \"/search\"\nclass = \"search\"\npolice = { rate = \"1/m\", burst = 2 }\n\
                   [[rule]]\npath = \"/secret\"\nrefuse = true\nclass = \"pages\"\n\
                   [[rule]]\npath = \"/*\"\nclass = \"pages\"\n";

#[test]
fn it_refuses_nobody_and_says_whom_it_would_have_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (new, log) = (folder.path().join("new.toml"), folder.path().join("access.log"));
    write(&new, NEW);
    let origin = Origin::echo();
    let policy = Policy {
        tables: format!(
            "[access_log]\npath = {:?}\n[[rule]]\npath = \"/old\"\nrefuse = true\n",
            log.display().to_string()
        ),
        ..Policy::of(&[origin.server()])
    };
    let gateway = Gateway::start_with(&policy, &["--observe", &new.display().to_string()]);
    for _ in 0..5 {
        assert_eq!(gateway.get("/search").status, 200, "nothing is done about it");
    }
    assert_eq!(gateway.get("/secret").status, 200);
    assert_eq!(gateway.get("/page").status, 200);
    assert_eq!(gateway.get("/old").status, 403, "the policy in force acts");
    eventually("all are done", || class(&gateway, "search")["both_admit"] == 2);
    let search = class(&gateway, "search");
    assert_eq!((&search["arrived"], &search["would_refuse"]), (&5.into(), &3.into()), "{search}");
    assert_eq!((&search["both_admit"], &search["refused"]["policed"]), (&2.into(), &3.into()));
    let pages = class(&gateway, "pages");
    eventually("the request that was refused would have been served", || {
        class(&gateway, "pages")["would_admit"] == 1
    });
    assert_eq!((&pages["refused"]["rule"], &pages["would_refuse"]), (&1.into(), &1.into()));
    let metrics = Client::connect(gateway.admin).get_local("/metrics").text();
    for line in [
        "tiergate_observed_requests_total{class=\"search\",outcome=\"would_refuse\"} 3",
        "tiergate_observed_requests_total{class=\"search\",outcome=\"both_admit\"} 2",
        "tiergate_observed_refused_total{class=\"search\",reason=\"policed\"} 3",
        "tiergate_observed_untracked_total 0",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line} is missing in\n{metrics}");
    }
    let page = Client::connect(gateway.admin).get_local("/").text();
    assert!(page.contains("Observed policy") && page.contains("policed 3"), "{page}");
    let refused = "\"observed_class\":\"search\",\"observed_verdict\":\"refused\",\"observed_reason\":\"policed\"";
    eventually("the log has both decisions", || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let is_both =
            |line: &&str| line.contains("\"verdict\":\"admitted\"") && line.contains(refused);
        text.lines().filter(is_both).count() == 3
    });

    // A reload reads it anew; what was counted stays, and a bad one replaces nothing.
    write(&new, &NEW.replace("burst = 2", "burst = 0.5"));
    let (status, fault) = gateway.reload();
    assert_ne!(status, 200);
    assert!(fault.contains("the policy to observe: ") && fault.contains("burst"), "{fault}");
    write(&new, &NEW.replace("class = \"search\"\npolice", "class = \"pages\"\npolice"));
    let (status, text) = gateway.reload();
    assert_eq!(status, 200, "{text}");
    assert_eq!(gateway.get("/search").status, 200);
    assert_eq!(class(&gateway, "search")["arrived"], 5);
    assert_eq!(class(&gateway, "pages")["arrived"], 4);
}

#[test]
fn it_waits_for_its_own_slots_and_for_as_long_as_the_server_takes() {
    let folder = tempfile::tempdir().expect("a folder");
    let new = folder.path().join("new.toml");
    write(&new, "slots = 1\n[[class]]\nname = \"all\"\n");
    let origin = Origin::answering(|_| {
        thread::sleep(Duration::from_millis(100));
        ok("done")
    });
    let gateway = Gateway::start_with(
        &Policy::of(&[origin.server()]),
        &["--observe", &new.display().to_string()],
    );
    let address = gateway.address;
    let clients: Vec<_> =
        (0..5).map(|_| thread::spawn(move || support::client::get(address, "/").status)).collect();
    assert!(clients.into_iter().all(|it| it.join().expect("it ends") == 200));
    // One after the other they take half a second.
    eventually("all would have been served", || class(&gateway, "all")["both_admit"] == 5);
    let wait = class(&gateway, "all")["wait"]["p99_seconds"].as_f64().expect("a wait");
    assert!(wait > 0.3, "{wait}");
}

/// A gateway with that many slots in force and observed, before a server that takes so long.
fn beside(folder: &Path, slots: usize, observed: usize, takes: Duration) -> (Gateway, Origin) {
    let new = folder.join("new.toml");
    write(&new, &format!("slots = {observed}\n[[class]]\nname = \"all\"\n"));
    let origin = Origin::answering(move |request| {
        thread::sleep(takes);
        match request.target.as_str() {
            "/events" => {
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n".to_vec()
            }
            _ => ok("done"),
        }
    });
    let policy = Policy { origin: format!("slots = {slots}"), ..Policy::of(&[origin.server()]) };
    let gateway = Gateway::start_with(&policy, &["--observe", &new.display().to_string()]);
    (gateway, origin)
}

#[test]
fn what_waits_in_force_does_not_wait_where_there_are_more_slots() {
    let folder = tempfile::tempdir().expect("a folder");
    let (gateway, _origin) = beside(folder.path(), 1, 4, Duration::from_millis(100));
    let address = gateway.address;
    assert_eq!(gateway.get("/").status, 200, "how long a request takes is known");
    let clients: Vec<_> =
        (0..8).map(|_| thread::spawn(move || support::client::get(address, "/").status)).collect();
    assert!(clients.into_iter().all(|it| it.join().expect("it ends") == 200));
    eventually("all are done", || class(&gateway, "all")["both_admit"] == 9);
    let wait = class(&gateway, "all")["wait"]["p99_seconds"].as_f64().expect("a wait");
    let status = gateway.status();
    let in_force = status["classes"][0]["wait"]["total"]["p99_seconds"].as_f64().expect("a wait");
    assert!(wait < in_force * 0.7, "{wait} beside {in_force} in force");
}

#[test]
fn a_client_that_leaves_the_queue_has_left_both() {
    let folder = tempfile::tempdir().expect("a folder");
    let (gateway, _origin) = beside(folder.path(), 1, 1, Duration::from_secs(4));
    let mut first = gateway.client();
    first.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("it is served", || gateway.status()["limit"]["running"] == 1);
    let mut second = gateway.client();
    second.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("it waits in both", || class(&gateway, "all")["waiting"] == 1);
    // A client that ends its side as soon as it has sent all is taken to wait for its answer.
    thread::sleep(Duration::from_millis(50));
    drop(second);
    eventually("it has left", || class(&gateway, "all")["left"] == 1);
    assert_eq!(class(&gateway, "all")["waiting"], 0);
    assert_eq!(first.answer().status, 200);
    eventually("the other is served", || class(&gateway, "all")["both_admit"] == 1);
}

#[test]
fn one_that_is_wrong_is_told_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let (old, new) = (folder.path().join("old.toml"), folder.path().join("new.toml"));
    write(&old, "");
    write(&new, "[[class]]\nnmae = \"a\"\n");
    let run = Command::new(env!("CARGO_BIN_EXE_tiergate"))
        .arg("run")
        .arg(&old)
        .arg("--observe")
        .arg(&new)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success() && said.contains("the policy to observe: "), "{said}");
    assert!(said.contains("did you mean `name`?"), "{said}");
}
