//! Bodies in files, seen from outside the process: what a full disk, a lost file and a wrong policy do, and what
//! is left when all is over. What the request path makes of it is in `protocols/spooled.rs`.

use crate::support;
use std::fs::{File, OpenOptions, read_link};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use support::client::Client;
use support::gateway::{Gateway, Policy};
use support::origin::{Origin, ok};
use support::{eventually, pattern_bytes};
use tempfile::TempDir;

const MIB: usize = 1 << 20;

fn policy(origin: &Origin, folder: &TempDir) -> Policy {
    let mut policy = Policy::of(&[origin.server()]);
    policy.origin = "slots = 1".into();
    policy.tables = format!("[forwarding]\nspool_directory = {:?}\n", folder.path());
    policy
}

/// Says whether a body is the beginning of the pattern.
fn checking() -> Origin {
    Origin::answering(|request| {
        ok((request.body == pattern_bytes(0, request.body.len())).to_string())
    })
}

fn begin(gateway: &Gateway, len: usize, sent: usize) -> Client {
    let mut client = gateway.client();
    client.send(format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\n\r\n"));
    client.send(pattern_bytes(0, sent));
    client
}

fn finish(mut client: Client, len: usize, sent: usize) {
    client.send(pattern_bytes(sent as u64, len - sent));
    let answer = client.answer();
    assert_eq!((answer.status, &*answer.text()), (200, "true"));
}

fn metric(gateway: &Gateway, line: &str) -> u64 {
    let page = Client::connect(gateway.admin).get_local("/metrics").text();
    let found = page.lines().find_map(|it| it.strip_prefix(line));
    let found = found.unwrap_or_else(|| panic!("no {line} in {page}"));
    found.trim().parse().expect("a whole number")
}

/// The files that the gateway has open in a folder.
fn files_in(gateway: &Gateway, folder: &TempDir) -> Vec<PathBuf> {
    let descriptors = format!("/proc/{}/fd", gateway.process.id());
    let descriptors = std::fs::read_dir(descriptors).expect("it runs").flatten();
    let is_there = |path: &PathBuf| read_link(path).is_ok_and(|to| to.starts_with(folder.path()));
    descriptors.map(|entry| entry.path()).filter(is_there).collect()
}

#[test]
fn a_file_has_no_name_is_for_no_one_else_and_is_gone_with_its_request() {
    let (origin, folder) = (checking(), TempDir::new().expect("a folder"));
    let gateway = Gateway::start(&policy(&origin, &folder));
    let (finished, left) = (begin(&gateway, 2 * MIB, MIB), begin(&gateway, 2 * MIB, MIB));
    eventually("both are in files", || {
        metric(&gateway, "tiergate_spooled_bytes ") == 2 * MIB as u64
    });
    assert_eq!(gateway.number("/clients/spooled_bytes"), 2 * MIB as u64);
    let files = files_in(&gateway, &folder);
    assert_eq!(files.len(), 2);
    for file in files {
        let about = std::fs::metadata(file).expect("it is open");
        assert_eq!((about.permissions().mode() & 0o777, about.len()), (0o600, MIB as u64));
    }
    assert_eq!(folder.path().read_dir().expect("it is there").count(), 0, "names");
    drop(left);
    finish(finished, 2 * MIB, MIB);
    eventually("all files are closed", || files_in(&gateway, &folder).is_empty());
    eventually("nothing is counted", || metric(&gateway, "tiergate_spooled_bytes ") == 0);
    gateway.assert_conserved();
}

/// As on a full disk: no file may be longer than a MiB.
#[test]
fn on_a_full_disk_the_rest_is_streamed_and_the_log_says_why() {
    let (origin, folder) = (checking(), TempDir::new().expect("a folder"));
    let gateway = Gateway::start_under("ulimit -f 2048", &policy(&origin, &folder), folder.path());
    let faults = "tiergate_spool_faults_total{fault=\"write\"} ";
    assert_eq!(metric(&gateway, faults), 0);
    for turn in 1..=3 {
        let client = begin(&gateway, 4 * MIB, 3 * MIB);
        eventually("it asks for its slot", || gateway.number("/limit/running") == 1);
        assert_eq!(metric(&gateway, faults), turn);
        finish(client, 4 * MIB, 3 * MIB);
    }
    eventually("all files are closed", || metric(&gateway, "tiergate_spooled_bytes ") == 0);
    eventually("the log says why", || gateway.log().contains("bodies cannot be spooled"));
    let log = gateway.log();
    let complaints: Vec<&str> =
        log.lines().filter(|line| line.contains("bodies cannot be spooled")).collect();
    assert!(complaints.len() == 1 && complaints[0].contains("File too large"), "{log}");
    gateway.assert_conserved();
}

/// What was written cannot be read: the request fails, and its client is told.
#[test]
fn a_file_that_is_lost_fails_its_request_only() {
    let origin = Origin::answering(|request| {
        if request.target == "/slow" {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        ok("served")
    });
    let folder = TempDir::new().expect("a folder");
    let gateway = Gateway::start(&policy(&origin, &folder));
    let mut slow = gateway.client();
    slow.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the slot is held", || gateway.number("/limit/running") == 1);
    let mut client = begin(&gateway, MIB, MIB);
    eventually("it is in a file", || files_in(&gateway, &folder).len() == 1);
    eventually("all of it", || metric(&gateway, "tiergate_spooled_bytes ") == MIB as u64);
    eventually("it waits", || gateway.number("/limit/waiting") == 1);
    let file: File = OpenOptions::new()
        .write(true)
        .open(&files_in(&gateway, &folder)[0])
        .expect("a file of a child's");
    file.set_len(10_000).expect("it is writable");
    assert_eq!(slow.answer().text(), "served");
    assert_eq!(client.answer().status, 500);
    assert_eq!(metric(&gateway, "tiergate_spool_faults_total{fault=\"read\"} "), 1);
    assert_eq!(gateway.get("/next").text(), "served");
    eventually("all files are closed", || files_in(&gateway, &folder).is_empty());
    gateway.assert_conserved();
}

#[test]
fn a_directory_that_is_of_no_use_is_an_error_at_start_at_reload_and_in_a_check() {
    let (origin, folder) = (checking(), TempDir::new().expect("a folder"));
    let gateway = Gateway::start(&policy(&origin, &folder));
    let good = std::fs::read_to_string(&gateway.policy_path).expect("it is there");
    let missing = folder.path().join("missing");
    let bad = good.replace(&format!("{:?}", folder.path()), &format!("{missing:?}"));
    gateway.write_policy(&bad);
    let line = 1 + bad.lines().position(|line| line.contains("missing")).expect("it names it");
    let expected = format!(
        "{}:{line}:19: forwarding.spool_directory: cannot create files in {}: No such file or \
         directory",
        gateway.policy_path.display(),
        missing.display()
    );
    let (status, text) = gateway.reload();
    assert!(status == 422 && text.contains(&expected), "{status} {text}, not {expected}");
    finish(begin(&gateway, 2 * MIB, MIB), 2 * MIB, MIB);
    assert_eq!(metric(&gateway, "tiergate_spool_faults_total{fault=\"write\"} "), 0);
    for command in ["check", "run"] {
        let tiergate = Command::new(env!("CARGO_BIN_EXE_tiergate"))
            .arg(command)
            .arg(&gateway.policy_path)
            .output()
            .expect("the program");
        let said = String::from_utf8_lossy(&tiergate.stderr);
        assert!(!tiergate.status.success() && said.contains(&expected), "{command}: {said}");
    }
    // A file is no directory.
    let file = folder.path().join("file");
    File::create(&file).expect("our own folder");
    gateway.write_policy(&good.replace(&format!("{:?}", folder.path()), &format!("{file:?}")));
    let (status, text) = gateway.reload();
    assert!(status == 422 && text.contains("Not a directory"), "{status} {text}");
    // Another one is taken, and so is none.
    let other = TempDir::new().expect("a folder");
    gateway.write_policy(
        &good.replace(&format!("{:?}", folder.path()), &format!("{:?}", other.path())),
    );
    assert_eq!(gateway.reload().0, 200);
    let client = begin(&gateway, 2 * MIB, MIB);
    eventually("it is in the other", || files_in(&gateway, &other).len() == 1);
    gateway.write_policy(&good.replace("spool_directory", "# spool_directory"));
    assert_eq!(gateway.reload().0, 200);
    finish(client, 2 * MIB, MIB);
    let client = begin(&gateway, 2 * MIB, MIB);
    eventually("it holds its slot", || gateway.number("/limit/running") == 1);
    finish(client, 2 * MIB, MIB);
}

/// The bytes of a following request come while the upload, which is whole, waits for its slot, and its trailers with it.
#[test]
fn what_comes_behind_a_body_with_trailers_that_waits_in_a_file_is_the_next_request() {
    const LEN: usize = 200_000;
    let (go_on, waits) = std::sync::mpsc::channel::<()>();
    let waits = std::sync::Mutex::new(waits);
    let origin = Origin::answering(move |request| {
        if request.target == "/hold" {
            let _ = waits.lock().expect("no panic").recv();
        }
        ok(format!("{} {} {:?}", request.target, request.body.len(), request.trailers))
    });
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start(&policy(&origin, &folder));
    let mut holder = gateway.client();
    holder.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the slot is taken", || gateway.number("/limit/running") == 1);
    let mut client = gateway.client();
    let head = "POST /up HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(format!("{head}{LEN:x}\r\n{}\r\n0\r\nx-sum: 1\r\n\r\n", "x".repeat(LEN)));
    eventually("it waits", || gateway.number("/limit/waiting") == 1);
    client.send("GET /next HTTP/1.1\r\nHost: x\r\n\r\n");
    // It is read while the other waits.
    std::thread::sleep(std::time::Duration::from_millis(50));
    go_on.send(()).expect("it waits");
    assert_eq!(holder.answer().text(), "/hold 0 []");
    assert_eq!(client.answer().text(), format!("/up {LEN} [(\"x-sum\", \"1\")]"));
    assert_eq!(client.answer().text(), "/next 0 []");
    gateway.assert_conserved();
}
