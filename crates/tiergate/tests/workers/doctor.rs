//! `tiergate doctor` says what works and leaves nothing behind; `tiergate check` refuses what cannot be granted.

use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn tiergate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
    command.args(arguments).stdin(Stdio::null()).output().expect("it runs")
}

fn policy(scheduling: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text = format!(
        "[origin]\nservers = [\"127.0.0.1:1\"]\n[origin.workers]\ncommand = [\"true\"]\n{scheduling}\n"
    );
    std::fs::write(file.path(), text).expect("our own file");
    file
}

fn path(file: &tempfile::NamedTempFile) -> &str {
    file.path().to_str().expect("a name in UTF-8")
}

fn of_group(group: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text = format!(
        "[origin]\nservers = [\"127.0.0.1:1\"]\n[origin.workers]\ncgroup = {group:?}\nnice = 5\n"
    );
    std::fs::write(file.path(), text).expect("our own file");
    file
}

/// Whether the kernel refuses reservations of more than half of each of 64 processors.
fn is_refused() -> bool {
    let bound = std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us");
    let is_bounded = bound.is_ok_and(|it| !it.starts_with('-'));
    is_bounded && crate::house::processors() <= 32
}

/// The groups of gateways and doctors that have ended, where those of this process are.
fn left_behind(pid: u32) -> usize {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own: Vec<&str> = own.lines().filter_map(|line| line.splitn(3, ':').nth(2)).collect();
    let roots = ["", "cpu", "cpu,cpuacct"].map(|it| format!("/sys/fs/cgroup/{it}"));
    let below = |root: &String| {
        let at = |path: &&str| {
            let own = format!("{root}/{}", path.trim_matches('/'));
            [format!("{own}/.."), own]
        };
        [root.clone()].into_iter().chain(own.iter().flat_map(at)).collect::<Vec<_>>()
    };
    let folders = roots.iter().flat_map(below);
    let entries = folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let name = format!("tiergate-{pid}.");
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name)).count()
}

#[test]
fn the_doctor_tries_each_mechanism_and_leaves_nothing_behind() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
    command.args(["doctor", "--json"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.spawn().expect("it runs");
    let pid = child.id();
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let machine = said["machine"].as_array().expect("a list");
    for name in [
        "nice",
        "idle",
        "fifo",
        "deadline",
        "deadline-extra",
        "io",
        "cpu-weight",
        "cpu-quota",
        "htb",
    ] {
        let found = machine.iter().find(|it| it["name"] == name);
        let found = found.unwrap_or_else(|| panic!("{name} is missing in {said:#}"));
        let is_explained = found["missing"].as_str().is_some_and(|it| !it.is_empty());
        assert!(found["works"].as_bool().expect("a truth value") != is_explained, "{found}");
    }
    // These need no right.
    for name in ["nice", "idle", "io"] {
        assert!(machine.iter().any(|it| it["name"] == name && it["works"] == true), "{said:#}");
    }
    assert_eq!(left_behind(pid), 0);
    let text = String::from_utf8(tiergate(&["doctor"]).stdout).expect("text");
    assert!(
        text.lines()
            .any(|line| line.contains("workers: nice, lower priority") && line.contains("works")),
        "{text}"
    );
}

#[test]
fn the_doctor_says_what_of_a_policy_is_in_force() {
    let output = tiergate(&["doctor", path(&policy("nice = 5")), "--json"]);
    assert!(output.status.success());
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let asked = &said["policy"][0];
    assert_eq!(
        (&asked["name"], &asked["works"]),
        (&"default: nice".into(), &true.into()),
        "{said:#}"
    );
    // Each may fit, all do not.
    if is_refused() {
        let many = "count = 64\nscheduling = { slice = \"60ms\", period = \"100ms\" }";
        let output = tiergate(&["doctor", path(&policy(many))]);
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find(|line| line.contains("reservations of all workers"));
        assert!(line.is_some_and(|it| it.contains("missing")), "{text}");
        assert!(!output.status.success());
    }
    let output = tiergate(&["doctor", path(&of_group("/no/such/group")), "--json"]);
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let fault = said["policy"][0]["missing"].as_str().unwrap_or_default();
    assert!(!output.status.success() && fault.contains("there is no control group"), "{said:#}");
}

#[test]
fn check_refuses_reservations_that_the_kernel_cannot_grant_and_says_what_it_can() {
    // 64 workers with a processor each.
    let file = policy("count = 64\nscheduling = { slice = \"99ms\", period = \"100ms\" }");
    let output = tiergate(&["check", path(&file)]);
    let said = String::from_utf8_lossy(&output.stderr);
    if is_refused() {
        assert!(!output.status.success());
        assert!(
            said.contains(":6:14: origin.workers.scheduling: cannot be granted on this machine"),
            "{said}"
        );
        assert!(said.contains("it can grant"), "{said}");
    }
    let output =
        tiergate(&["check", path(&policy("scheduling = { slice = \"1ms\", period = \"100ms\" }"))]);
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && words.contains("default: 1 started by `true`"), "{words}");
}
