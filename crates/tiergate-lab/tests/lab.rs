//! The lab itself: a small experiment on real machines, what it leaves behind, and what it keeps.
//! Needs the right to make network namespaces, like the lab.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const LAB: &str = env!("CARGO_BIN_EXE_tiergate-lab");
/// Longer than any run here on a machine that works.
const PATIENCE: Duration = Duration::from_secs(60);

/// Twice what a small origin can do, for two seconds, with nothing in front.
const SMALL: &str = r#"
title = "Twice the capacity"
asks = "What becomes of it."
phases = ["calm 1s", "twice 2s"]

[origin]
kind = "workers"
workers = 4
service = "20ms"

[[clients]]
name = "people"
path = "/browse"
rate = ["0.3x", "2x"]
patience = "400ms"

[[measure]]
name = "calm answered"
what = "answered"
phases = ["calm"]

[[measure]]
name = "answered"
what = "answered"
phases = ["twice"]

[[measure]]
name = "wasted work"
what = "wasted"

[[plot]]
title = "answers a second"
what = "rate"
along = "time"
"#;

/// One lab at a time: each removes what dead ones have left, also what another test looks for.
static ALONE: Mutex<()> = Mutex::new(());

/// Whether network namespaces can be made here; if not, the test says so and is over.
fn allowed() -> bool {
    let name = format!("tglabtest{}", std::process::id());
    let ip = |verb: &str| Command::new("ip").args(["netns", verb, &name]).output();
    let made = ip("add").is_ok_and(|output| output.status.success());
    if made {
        ip("del").expect("just run");
    } else {
        println!("not tested: network namespaces cannot be made here");
    }
    made
}

fn experiment(dir: &Path, text: &str) {
    std::fs::create_dir_all(dir.join("experiments")).unwrap();
    std::fs::write(dir.join("experiments/small.toml"), text).unwrap();
}

fn command(dir: &Path) -> Command {
    let mut command = Command::new(LAB);
    command.args(["lab", "--rounds", "1", "--contenders", "none", "--gateway", "/bin/true"]);
    command.arg("--experiments").arg(dir.join("experiments"));
    command.arg("--store").arg(dir.join("store"));
    command.stdin(Stdio::null());
    command
}

fn run(dir: &Path, more: &[&str]) -> Output {
    command(dir).args(more).output().expect("the lab was built")
}

/// Names of namespaces of the lab with that process number.
fn namespaces_of(pid: u32) -> Vec<String> {
    let names = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&format!("tglab{pid}-"))).collect()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_experiment_is_run_kept_and_shown() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !allowed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    experiment(dir.path(), SMALL);
    let docs = dir.path().join("docs");
    let measured = || {
        let output = run(dir.path(), &["--docs", docs.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let results = std::fs::read(dir.path().join("store/results.json")).unwrap();
        serde_json::from_slice::<Value>(&results).unwrap()
    };
    let round_of =
        |results: &Value| results["experiments"][0]["contenders"][0]["rounds"][0].clone();
    let mut results = measured();
    // It is void where the machine had no time for the load generator.
    for _ in 0..2 {
        if round_of(&results)["void"].is_null() {
            break;
        }
        std::fs::remove_dir_all(dir.path().join("store")).unwrap();
        results = measured();
    }
    let round = &round_of(&results);
    let value = |place: usize| round["values"][place].as_f64().unwrap();
    assert_eq!(results["experiments"][0]["capacity"], 200.0);
    assert!(round["void"].is_null(), "{round}");
    assert!(value(0) > 0.99, "calm: {round}");
    // A queue of two seconds' overload grows past the clients' patience: later ones get nothing.
    assert!((0.2..0.8).contains(&value(1)), "twice: {round}");
    assert!(value(2) > 0.05, "the origin goes on for those who left: {round}");
    let page = std::fs::read_to_string(docs.join("results.md")).unwrap();
    assert!(page.contains("Twice the capacity") && page.contains("results/small.svg"), "{page}");
    assert!(docs.join("results/small.svg").is_file());
    assert!(page.contains("Measured in one sitting: one round, begun from 20"), "{page}");

    // Done once, it is not done again; in another sitting, or changed, it is.
    let again = run(dir.path(), &[]);
    assert!(String::from_utf8_lossy(&again.stdout).contains("(kept)"));
    let file = dir.path().join("store/small.sitting.json");
    let mut sitting: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    sitting["began_s"] = 0.into();
    std::fs::write(&file, sitting.to_string()).unwrap();
    let later = run(dir.path(), &[]);
    assert!(!String::from_utf8_lossy(&later.stdout).contains("(kept)"));
    experiment(dir.path(), &SMALL.replace("2x", "1.9x"));
    let changed = run(dir.path(), &[]);
    assert!(!String::from_utf8_lossy(&changed.stdout).contains("(kept)"));
}

#[test]
fn an_application_is_measured_and_a_missing_one_is_left_out() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !allowed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let origin = "kind = \"workers\"\nworkers = 4\nservice = \"20ms\"";
    let application = |kind: &str| SMALL.replace(origin, &format!("kind = {kind:?}"));
    experiment(dir.path(), &application("node").replace("2x", "1.5x"));
    let output = run(dir.path(), &[]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let results = std::fs::read(dir.path().join("store/results.json")).unwrap();
    let results: Value = serde_json::from_slice(&results).unwrap();
    let experiment_result = &results["experiments"][0];
    assert!(experiment_result["capacity"].as_f64().unwrap() >= 1.0, "{experiment_result}");
    let rounds = experiment_result["contenders"][0]["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 1, "{experiment_result}");

    experiment(dir.path(), &application("gunicorn"));
    let output = command(dir.path()).env("PATH", "/nowhere").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let expected = "small is left out: gunicorn is not installed; run scripts/applications.sh";
    assert!(output.status.success() && said.contains(expected), "{said}");
}

#[test]
fn a_broken_promise_fails_the_check() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !allowed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Of nobody's making: Tiergate takes no part, so that it has no valid run.
    let promise = "\n[[promise]]\nmeasure = \"answered\"\nat_least = 0.9\n";
    experiment(dir.path(), &(SMALL.to_owned() + promise));
    let output = run(dir.path(), &["--check"]);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("promise broken: small: answered: no valid run"), "{said}");
    // Nor has it one with its feature off, which would show what the promise is worth.
    let output = run(dir.path(), &["--check", "--off"]);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stdout);
    let hollow = "proves nothing: small: answered: no valid run (origin.slots = 100000)";
    assert!(said.contains(hollow), "{said}");
}

#[test]
fn mistakes_in_an_experiment_are_named() {
    let dir = tempfile::tempdir().unwrap();
    for (wrong, expected) in [
        (SMALL.replace("phases = [\"calm\"]", "phases = [\"clam\"]"), "no phase \"clam\""),
        (SMALL.replace("[\"0.3x\", \"2x\"]", "[\"0.3x\", \"2x\", \"1x\"]"), "3 rates for 2 phases"),
        (SMALL.replace("0.3x", "much"), "expected 80 or 0.2x"),
        (SMALL.replace("\n[origin]", "beside = \"thrice\"\n\n[origin]"), "no phase \"thrice\""),
        (SMALL.replace("patience", "patients"), "patients"),
        (SMALL.replace("twice 2s", "twice"), "NAME TIME"),
        (
            format!("{SMALL}\n[[promise]]\nmeasure = \"answered\"\nof = \"haproxy\"\n"),
            "`of` needs `times` or `at_most_times`",
        ),
    ] {
        experiment(dir.path(), &wrong);
        let output = run(dir.path(), &["--list"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{expected}: {said}");
    }
}

/// A lab in the middle of a run; killed if the test fails.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn nothing_is_left_behind_whatever_ends_it() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !allowed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    experiment(dir.path(), &SMALL.replace("twice 2s", "twice 30s"));
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let child = command(dir.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut lab = Started(child.expect("the lab was built"));
        let pid = lab.0.id();
        wait_until("the lab has made its machines", || namespaces_of(pid).len() == 3);
        // The load generator is the last to be started.
        let network = format!("/run/netns/{}", namespaces_of(pid)[0]);
        assert!(Path::new(&network).exists());
        std::thread::sleep(Duration::from_millis(300));
        let number = Pid::from_raw(pid as i32).expect("a process has a number");
        kill_process(number, signal).expect("it is ours");
        wait_until("it has ended", || lab.0.try_wait().expect("our child").is_some());
        if signal == Signal::KILL {
            assert_eq!(namespaces_of(pid).len(), 3, "nobody could remove them");
            experiment(dir.path(), SMALL);
            let next = run(dir.path(), &[]);
            let said = String::from_utf8_lossy(&next.stdout);
            assert!(said.contains("removed") && next.status.success(), "{said}");
        }
        assert_eq!(namespaces_of(pid), Vec::<String>::new(), "after {signal:?}");
    }
}
