//! What the load generator can do, against a scripted server over loopback.

mod server;

use serde_json::{Value, json};
use server::{Reply, Server};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::process::{Command, Output};
use std::time::Duration;

const LAB: &str = env!("CARGO_BIN_EXE_tiergate-lab");

/// Runs a plan of one population and returns what became of it.
fn load(target: SocketAddr, population: Value) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let (plan, out) = (dir.path().join("plan.json"), dir.path().join("out.json"));
    let text = json!({ "target": target, "seed": 1, "populations": [population] }).to_string();
    std::fs::write(&plan, text).unwrap();
    let Output { status, stdout, stderr } = Command::new(LAB)
        .arg("load")
        .args(["--plan".as_ref(), plan.as_os_str(), "--out".as_ref(), out.as_os_str()])
        .output()
        .expect("the lab was built");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    assert!(stdout.is_empty() && stderr.is_empty(), "nothing is printed");
    let mut report: Value = serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap();
    assert!(report["cpu"].as_f64().unwrap() > 0.0, "{report}");
    report["populations"][0].take()
}

/// A second of constant arrivals.
fn steps(rate: u32) -> Value {
    json!([{ "rate": rate, "lasting": 1.0 }])
}

/// Sent, ok, refused, failed, timed out, attempts.
fn counts(figures: &Value) -> [u64; 6] {
    ["sent", "ok", "refused", "failed", "timed_out", "attempts"]
        .map(|key| figures[key].as_u64().unwrap_or_else(|| panic!("{key}: {figures}")))
}

#[test]
fn a_session_asks_one_after_another_on_a_connection_of_its_own() {
    let server =
        Server::start(|_, _, _| Reply { after: Duration::from_millis(20), ..Reply::status(200) });
    let population = json!({ "steps": steps(10), "arrivals": "constant", "patience": 10,
        "session": { "requests": 4, "think": 0.01 } });
    let report = load(server.address, population);
    assert_eq!(counts(&report["overall"]), [40, 40, 0, 0, 0, 40], "{report}");
    let sessions = &report["sessions_by_step"][0];
    assert_eq!((&sessions["begun"], &sessions["completed"]), (&json!(10), &json!(10)));
    assert!(sessions["p50_ms"].as_f64().unwrap() >= 79.0, "{sessions}");
    let mut by_connection: BTreeMap<usize, Vec<_>> = BTreeMap::new();
    server.seen().into_iter().for_each(|s| by_connection.entry(s.connection).or_default().push(s));
    assert_eq!(by_connection.len(), 10);
    let mut thought = Duration::ZERO;
    for requests in by_connection.values() {
        assert_eq!(requests.len(), 4);
        for pair in requests.windows(2) {
            thought += pair[1].at.checked_duration_since(pair[0].answered).expect("in turn");
        }
    }
    let mean = thought.as_secs_f64() / 30.0;
    assert!(mean > 0.005, "they think 10 ms on average: {mean}");
}

#[test]
fn a_session_without_a_number_goes_on_until_the_last_step_ends() {
    let server = Server::start(|_, _, number| Reply {
        after: Duration::from_millis(20),
        ..Reply::status(if number % 2 == 1 { 503 } else { 200 })
    });
    let steps = json!([{ "rate": 2, "lasting": 1.0 }, { "rate": 0, "lasting": 1.0 }]);
    let population = json!({ "steps": steps, "arrivals": "constant", "patience": 10,
        "session": { "think": 0 } });
    let report = load(server.address, population);
    let [sent, ok, refused, failed, timed_out, _] = counts(&report["overall"]);
    assert_eq!((ok + refused, failed, timed_out), (sent, 0, 0), "{report}");
    // 20 ms each, and 100 ms after one that was refused: at most 14 pairs in two seconds.
    assert!((8..=60).contains(&sent) && refused > 2, "{report}");
    let sessions = &report["sessions_by_step"];
    assert_eq!((&sessions[0]["begun"], &sessions[1]["begun"]), (&json!(2), &json!(0)));
    let received = |step: usize| report["steps"][step]["received_in_it"].as_u64().unwrap();
    let answers = |step: usize| report["steps"][step]["answered_in_it"].as_u64().unwrap();
    assert!(answers(1) > 2 && received(1) > received(0), "by when they came: {report}");
    let series = report["series"].as_array().unwrap();
    let seconds: u64 = series.iter().map(|it| it["received"].as_u64().unwrap()).sum();
    assert!(seconds >= received(0) + received(1) && received(0) > 0, "{report}");
}

#[test]
fn a_session_ends_with_the_first_request_that_does_not_end_well() {
    let server = Server::start(|_, _, number| Reply::status(if number == 1 { 503 } else { 200 }));
    let population = json!({ "steps": steps(10), "arrivals": "constant", "patience": 10,
        "session": { "requests": 4, "think": 0 } });
    let report = load(server.address, population);
    assert_eq!(counts(&report["overall"]), [20, 10, 10, 0, 0, 20], "{report}");
    let sessions = &report["sessions_by_step"][0];
    assert_eq!((&sessions["begun"], &sessions["completed"]), (&json!(10), &json!(0)));
    assert_eq!(sessions["p50_ms"], Value::Null);
}

#[test]
fn a_session_and_a_pool_replace_connections_that_the_server_closes() {
    for (close, hang_up) in [(true, false), (false, true)] {
        let server = Server::start(move |_, _, _| Reply { close, hang_up, ..Reply::status(200) });
        let session = json!({ "steps": steps(5), "arrivals": "constant", "patience": 10,
            "session": { "requests": 3, "think": 0.01 } });
        let report = load(server.address, session);
        assert_eq!(report["sessions_by_step"][0]["completed"], 5, "{report}");
        let single = json!({ "steps": steps(20), "arrivals": "constant", "patience": 10 });
        let report = load(server.address, single);
        assert_eq!(counts(&report["overall"]), [20, 20, 0, 0, 0, 20], "{report}");
    }
}

#[test]
fn a_request_is_asked_again_and_counted_once() {
    // One request after another: each is refused twice, then answered.
    let server = Server::start(|_, all, _| match all % 3 {
        2 => Reply::status(200),
        _ => Reply::status(503),
    });
    let retry = json!({ "attempts": 3, "pause": 0.02 });
    let population = json!({ "steps": steps(5), "arrivals": "constant", "patience": 10,
        "retry": retry });
    let report = load(server.address, population);
    assert_eq!(counts(&report["overall"]), [5, 5, 0, 0, 0, 15], "{report}");
    assert!(report["overall"]["p50_ms"].as_f64().unwrap() >= 20.0, "two pauses of 10 to 30 ms");
    let server = Server::start(|_, _, _| Reply::status(503));
    let population = json!({ "steps": steps(5), "arrivals": "constant", "patience": 10,
        "retry": retry });
    let report = load(server.address, population);
    assert_eq!(counts(&report["overall"]), [5, 0, 5, 0, 0, 15], "{report}");
    assert_eq!(server.seen().len(), 15);
}

#[test]
fn every_attempt_has_its_own_patience_and_whoever_gives_up_resets() {
    let server = Server::start(|_, all, _| match all % 2 {
        0 => Reply { after: Duration::from_millis(600), ..Reply::status(200) },
        _ => Reply { after: Duration::from_millis(20), ..Reply::status(200) },
    });
    // Both attempts together take longer than the patience of one, and are over before the next request comes.
    let population = json!({ "steps": steps(4), "arrivals": "constant", "patience": 0.2,
        "connections_max": 1, "retry": { "attempts": 2, "pause": 0.0 } });
    let report = load(server.address, population);
    assert_eq!(counts(&report["overall"]), [4, 4, 0, 0, 0, 8], "{report}");
    let begun = std::time::Instant::now();
    while server.resets() < 4 && begun.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(server.resets() >= 4, "{} resets", server.resets());
}

#[test]
fn paths_are_asked_for_by_their_popularity() {
    let server = Server::start(|_, _, _| Reply::status(200));
    let population = json!({ "steps": steps(500), "arrivals": "constant", "patience": 10,
        "method": "DELETE", "paths": ["/a", "/b", "/c"], "zipf": 2.0 });
    let report = load(server.address, population);
    assert_eq!(report["overall"]["ok"], 500);
    assert_eq!(report["overall"]["bytes"], 5000);
    let seen = server.seen();
    assert!(seen.iter().all(|s| s.head.starts_with("DELETE /")));
    let share = |path: &str| seen.iter().filter(|s| s.path() == path).count() as f64 / 500.0;
    // 1 : 1/4 : 1/9, which is 0.735 : 0.184 : 0.082; four standard deviations.
    assert!((share("/a") - 0.735).abs() < 0.08, "{}", share("/a"));
    assert!((share("/b") - 0.184).abs() < 0.07, "{}", share("/b"));
    assert!((share("/c") - 0.082).abs() < 0.05, "{}", share("/c"));
}

#[test]
fn a_slow_reader_holds_the_server_up() {
    const BYTES: usize = 12 << 20;
    let server = Server::start(|_, _, _| Reply { bytes: BYTES, ..Reply::status(200) });
    let population = json!({ "steps": steps(1), "arrivals": "constant", "patience": 20,
        "read_bytes_per_second": 6 << 20 });
    let report = load(server.address, population);
    assert_eq!(report["overall"]["bytes"], BYTES, "{report}");
    let took = report["overall"]["p50_ms"].as_f64().unwrap() / 1e3;
    assert!((1.9..7.0).contains(&took), "12 MiB at 6 MiB/s took {took} s");
    // All but what its send buffer takes, at most 4 MiB or so, has to wait for the reader.
    let held_up = server.seen()[0].download;
    assert!(held_up > Duration::from_secs(1), "{held_up:?}");

    // A fast reader of the same.
    let population = json!({ "steps": steps(1), "arrivals": "constant", "patience": 20 });
    let report = load(server.address, population);
    assert!(report["overall"]["p50_ms"].as_f64().unwrap() < 1900.0, "{report}");
}

#[test]
fn a_very_slow_reader_keeps_its_speed() {
    let server = Server::start(|_, _, _| Reply { bytes: 20_000, ..Reply::status(200) });
    let population = json!({ "steps": steps(1), "arrivals": "constant", "patience": 20,
        "read_bytes_per_second": 10_000 });
    let report = load(server.address, population);
    let took = report["overall"]["p50_ms"].as_f64().unwrap() / 1e3;
    assert!((1.9..6.0).contains(&took), "20 kB at 10 kB/s took {took} s");
}

#[test]
fn an_upload_is_sent_at_its_speed() {
    let server = Server::start(|_, _, _| Reply::status(200));
    let population = json!({ "steps": steps(2), "arrivals": "constant", "patience": 20,
        "upload": { "bytes": 100_000, "bytes_per_second": 100_000 } });
    let report = load(server.address, population);
    assert_eq!(counts(&report["overall"]), [2, 2, 0, 0, 0, 2], "{report}");
    for seen in server.seen() {
        assert!(seen.head.starts_with("POST / "), "{}", seen.head);
        assert_eq!(seen.body, 100_000);
        let took = seen.upload.as_secs_f64();
        assert!((0.8..5.0).contains(&took), "100 kB at 100 kB/s took {took} s");
    }
    let population = json!({ "steps": steps(2), "arrivals": "constant", "patience": 20,
        "method": "PUT", "upload": { "bytes": 5_000_000, "bytes_per_second": 0 } });
    let report = load(server.address, population);
    assert!(report["overall"]["p50_ms"].as_f64().unwrap() < 4000.0, "{report}");
    assert!(server.seen().last().unwrap().head.starts_with("PUT / "));
}

#[test]
fn an_answer_before_the_end_of_an_upload_counts_when_it_comes() {
    let server = Server::start(|_, _, _| Reply { early: true, close: true, ..Reply::status(503) });
    let population = json!({ "steps": steps(2), "arrivals": "constant", "patience": 20,
        "upload": { "bytes": 1_000_000, "bytes_per_second": 10_000 } });
    let begun = std::time::Instant::now();
    let report = load(server.address, population);
    assert_eq!(counts(&report["overall"]), [2, 0, 2, 0, 0, 2], "{report}");
    assert!(begun.elapsed() < Duration::from_secs(10), "nobody sends for 100 s");
}

#[test]
fn new_connections_take_the_addresses_in_turn() {
    let server = Server::start(|_, _, _| Reply::status(200));
    let population = json!({ "steps": steps(20), "arrivals": "constant", "patience": 10,
        "keep_alive": false, "addresses": ["127.0.0.2", "127.0.0.3"] });
    let report = load(server.address, population);
    assert_eq!(report["overall"]["ok"], 20, "{report}");
    let seen = server.seen();
    assert_eq!(seen.iter().map(|s| s.connection).collect::<BTreeSet<_>>().len(), 20);
    assert!(seen.iter().all(|s| s.head.contains("\nConnection: close\n")), "{:?}", seen[0]);
    for address in ["127.0.0.2", "127.0.0.3"] {
        let address: std::net::IpAddr = address.parse().unwrap();
        assert_eq!(seen.iter().filter(|s| s.peer == address).count(), 10, "{address}");
    }
}

#[test]
fn connections_are_kept_unless_told_otherwise() {
    let server = Server::start(|_, _, _| Reply::status(200));
    let population = json!({ "steps": steps(20), "arrivals": "constant", "patience": 10,
        "headers": [["Cookie", "a=b"], ["Host", "shop.example"]] });
    load(server.address, population);
    let seen = server.seen();
    let connections = seen.iter().map(|s| s.connection).collect::<BTreeSet<_>>().len();
    assert!(connections < 10, "{connections} connections for 20 requests, 50 ms apart");
    assert!(seen[0].head.contains("\nCookie: a=b\n"), "{}", seen[0].head);
    assert_eq!(seen[0].head.matches("Host:").count(), 1, "{}", seen[0].head);
}

#[test]
fn steps_and_seconds_add_up_to_the_whole() {
    let server = Server::start(|_, all, _| match all % 5 {
        0 => Reply::status(503),
        1 => Reply::status(500),
        2 => Reply { after: Duration::from_millis(400), ..Reply::status(200) },
        _ => Reply::status(200),
    });
    let population = json!({ "steps": [{ "rate": 100, "lasting": 1.2 }, { "rate": 0, "lasting": 0.3 },
        { "rate": 50, "lasting": 1 }], "patience": 0.3 });
    let report = load(server.address, population);
    let whole = counts(&report["overall"]);
    assert_eq!(whole[0], whole[1..5].iter().sum::<u64>(), "{report}");
    assert!(whole[1..5].iter().all(|count| *count > 10), "every outcome occurs: {whole:?}");
    let (steps, series) = (&report["steps"], report["series"].as_array().unwrap());
    assert_eq!((&steps[1]["sent"], &steps[1]["rate"]), (&json!(0), &json!(0.0)));
    assert_eq!(series.len(), 3, "{report}");
    for key in ["sent", "ok", "refused", "failed", "timed_out"] {
        let sum = |parts: &[Value]| parts.iter().map(|p| p[key].as_u64().unwrap()).sum::<u64>();
        assert_eq!(sum(series), report["overall"][key], "{key} by second: {report}");
        assert_eq!(sum(steps.as_array().unwrap()), report["overall"][key], "{key} by step");
    }
    assert!(series.iter().all(|s| s["p50_ms"].as_f64() <= s["p99_ms"].as_f64()), "{report}");
}

#[test]
fn a_plan_and_the_command_line_exclude_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let plan = dir.path().join("plan.json");
    std::fs::write(&plan, r#"{"target": "127.0.0.1:1", "seed": 1, "populations": [{}]}"#).unwrap();
    let error = |more: &[&str]| {
        let output =
            Command::new(LAB).args(["load", "--plan"]).arg(&plan).args(more).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(error(&["--population", "rate=1x1s"]).contains("cannot be used with"));
    assert!(error(&[]).contains("population \"clients\": steps"), "{}", error(&[]));
    std::fs::write(&plan, "{}").unwrap();
    assert!(error(&[]).contains("is no plan"), "{}", error(&[]));
}
