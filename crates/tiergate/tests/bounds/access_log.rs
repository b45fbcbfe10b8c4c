//! The access log's file: moved by others, and full.

use crate::support::client::Client;
use crate::support::gateway::{Gateway, Policy};
use crate::support::origin::{Origin, ok};
use crate::support::{eventually, eventually_is};
use rustix::process::Signal;
use std::path::Path;
use tempfile::TempDir;

fn policy(origin: &Origin, log: &Path) -> Policy {
    let mut policy = Policy::of(&[origin.server()]);
    policy.tables = format!("[access_log]\npath = {:?}\n", log.display().to_string());
    policy
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

/// What logrotate is told to do for nginx and Apache; and nothing else that it might send ends the process.
#[test]
fn signals_reopen_the_log_and_none_ends_the_process() {
    let origin = Origin::echo();
    let folder = TempDir::new().expect("a folder");
    let (log, old) = (folder.path().join("log.json"), folder.path().join("log.json.1"));
    let gateway = Gateway::start(&policy(&origin, &log));
    for signal in [Signal::WINCH, Signal::XFSZ, Signal::HUP, Signal::WINCH] {
        gateway.process.signal(signal);
        assert_eq!(gateway.get("/before").status, 200);
    }
    eventually_is("four lines", 4, || lines(&log));
    std::fs::rename(&log, &old).expect("our own folder");
    gateway.process.signal(Signal::USR1);
    eventually("it is opened anew", || log.exists());
    let generation = gateway.number("/config/generation");
    assert_eq!(gateway.get("/after").status, 200);
    eventually_is("one line", 1, || lines(&log));
    assert_eq!(lines(&old), 4);
    assert_eq!(gateway.number("/config/generation"), generation, "the log alone");
}

#[test]
fn a_line_is_as_the_operator_writes_it_and_refused_requests_have_fewer() {
    let origin = Origin::echo();
    let folder = TempDir::new().expect("a folder");
    let log = folder.path().join("access.log");
    let mut policy = policy(&origin, &log);
    policy.tables += "line = '$remote_addr \"$request\" %ST $${verdict} $refusals_left_out'\nrefused_one_in = 5\n\
                      [[rule]]\nname = \"closed\"\npath = \"/no\"\nrefuse = true\n";
    let gateway = Gateway::start(&policy);
    let mut client = gateway.client();
    for _ in 0..7 {
        assert_eq!(client.get("/no?token=hush").status, 403);
        assert_eq!(client.get("/yes").status, 200);
    }
    eventually_is("all lines", 9, || lines(&log));
    let text = std::fs::read_to_string(&log).expect("it was written");
    let refused: Vec<&str> = text.lines().filter(|line| line.contains("/no")).collect();
    let line = |left_out| format!("127.0.0.1 \"GET /no HTTP/1.1\" 403 refused {left_out}");
    assert_eq!(refused, [line(0), line(4)]);
    assert_eq!(text.matches("\"GET /yes HTTP/1.1\" 200 admitted 0\n").count(), 7);
    let metrics = Client::connect(gateway.admin).get_local("/metrics").text();
    assert!(metrics.contains("\ntiergate_access_log_refusals_left_out_total 5\n"), "{metrics}");
}

/// The common format has the bytes of the body, of answers of the origin and of our own.
#[test]
fn bytes_are_those_of_the_body() {
    let origin = Origin::answering(|_| ok("seventeen letters"));
    let folder = TempDir::new().expect("a folder");
    let log = folder.path().join("access.log");
    let mut policy = policy(&origin, &log);
    policy.tables += "format = \"common\"\n[[rule]]\npath = \"/no\"\nrefuse = true\n";
    let gateway = Gateway::start(&policy);
    let mut client = gateway.client();
    let bodies: Vec<usize> =
        ["/yes", "/no"].map(|path| client.get(path).body.len()).into_iter().collect();
    client.send("HEAD /no HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(client.try_answer(true).expect("an answer").status, 403);
    drop(origin);
    let error = gateway.get("/gone").body.len();
    eventually_is("all lines", 4, || lines(&log));
    let text = std::fs::read_to_string(&log).expect("it was written");
    let mut found: Vec<(&str, usize)> = text
        .lines()
        .map(|line| {
            let (_, line) = line.split_once('"').expect("the request line");
            let (_, bytes) = line.rsplit_once(' ').expect("bytes");
            let path = line.split(" HTTP").next().expect("it is there");
            (path, bytes.parse().expect("a number"))
        })
        .collect();
    found.sort_unstable();
    let expected =
        [("GET /gone", error), ("GET /no", bodies[1]), ("GET /yes", 17), ("HEAD /no", 0)];
    assert!(found == expected && error > 0 && bodies == [17, bodies[1]], "{found:?} {bodies:?}");
}

/// A file that must not grow any more ends with a whole line, the requests go on, and what comes later goes to
/// the next file.
#[test]
fn a_full_file_ends_with_a_whole_line() {
    let origin = Origin::echo();
    let folder = TempDir::new().expect("a folder");
    let (log, old) = (folder.path().join("log.json"), folder.path().join("log.json.1"));
    let gateway = Gateway::start_under("ulimit -f 8", &policy(&origin, &log), folder.path());
    let mut client = gateway.client();
    for turn in 0..200 {
        assert_eq!(client.get(&format!("/{turn}")).status, 200);
    }
    // While it is tried again every second, half a line stands there for a moment.
    let whole = |path: &Path| {
        let mut read = Vec::new();
        eventually("whole lines", || {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let lines = text.split_inclusive('\n').map(serde_json::from_str);
            let lines: Result<Vec<serde_json::Value>, _> = lines.collect();
            lines.map(|lines| read = lines).is_ok()
        });
        read
    };
    eventually("it cannot be written", || gateway.log().contains("cannot write the access log"));
    let first: Vec<serde_json::Value> = whole(&log);
    assert!((5..100).contains(&first.len()), "{}", first.len());
    std::fs::rename(&log, &old).expect("our own folder");
    gateway.process.signal(Signal::USR1);
    eventually("the next file is written", || lines(&log) > 3);
    let second: Vec<serde_json::Value> = whole(&log);
    let target = |line: &serde_json::Value| line["target"].as_str().expect("a path").to_owned();
    let targets: Vec<String> = first.iter().chain(&second).map(target).collect();
    let expected: Vec<String> = (0..targets.len()).map(|turn| format!("/{turn}")).collect();
    assert_eq!(targets, expected, "no line is missing or there twice");
}
