//! Reloads that find something wrong: what they refuse, what they say, and how a watched policy that was not there comes back.

use crate::support;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::eventually;
use support::gateway::{Gateway, Policy, Port};
use support::origin::Origin;

fn check(policy: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
    command.arg("check").arg(policy).stdin(Stdio::null());
    let output = command.output().expect("it starts");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Writes a certificate that is valid between the first days of two years, and its key.
fn certificate(folder: &Path, [from, until]: [i32; 2]) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec!["example.test".to_owned()]).expect("a name");
    params.not_before = date_time_ymd(from, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    let made = params.self_signed(&key).expect("signed");
    fs::write(folder.join("own.pem"), made.pem()).expect("our own folder");
    fs::write(folder.join("own.key"), key.serialize_pem()).expect("our own folder");
}

#[test]
fn no_expired_certificate_takes_the_place_of_a_valid_one() {
    let (origin, folder) = (Origin::echo(), tempfile::tempdir().expect("a folder"));
    let folder = folder.path();
    let secure = Port::reserve();
    let (own, key) = (folder.join("own.pem"), folder.join("own.key"));
    let listener = format!(
        "[[listener]]\naddress = \"{}\"\ntls = {{ certificate = {own:?}, key = {key:?}, client_ca = {own:?} }}\n",
        secure.address
    );
    let policy = Policy { tables: listener, ..Policy::of(&[origin.server()]) };
    // It is used at a start, since there is none that is better, and said.
    certificate(folder, [2001, 2002]);
    let gateway = Gateway::start(&policy);
    let expired =
        format!("own.pem: the certificate of listener {} expired on Jan  1", secure.address);
    let authority =
        format!("own.pem: the authority for clients of listener {} expired on", secure.address);
    for said in [&expired, &authority] {
        assert!(gateway.log().contains(said), "{}", gateway.log());
        assert!(check(&gateway.policy_path).contains(said), "{}", check(&gateway.policy_path));
    }
    let (status, answer) = gateway.reload();
    assert!(status == 200 && answer.contains(&expired), "it has been so before: {answer}");
    certificate(folder, [2001, 4000]);
    let (status, answer) = gateway.reload();
    assert!(status == 200 && !answer.contains("expired"), "{answer}");
    let generation = gateway.number("/config/generation");
    for (years, said) in
        [([2001, 2002], "expired on Jan  1"), ([3000, 4000], "is not valid before Jan  1")]
    {
        certificate(folder, years);
        let (status, answer) = gateway.reload();
        assert!(status != 200 && answer.contains(said), "{answer}");
        assert!(answer.contains("and the one in force is valid: renew it"), "{answer}");
        assert!(answer.contains(": listener[2].tls: /"), "{answer}");
        assert_eq!(gateway.number("/config/generation"), generation);
    }
}

#[test]
fn no_command_that_cannot_be_started_takes_the_place_of_one_that_runs() {
    let (origin, port) = (Origin::echo(), Port::reserve());
    let policy = |command: &str| {
        let tables = format!(
            "[[pool]]\nname = \"p\"\nservers = [\"{}\"]\n[pool.workers]\ncommand = {command}\nready = \"alive\"\n[[rule]]\npath = \"/p\"\npool = \"p\"\n",
            port.address
        );
        Policy { tables, ..Policy::of(&[origin.server()]) }
    };
    let gateway = Gateway::start(&policy("[\"sleep\", \"600\", \"{nr}\"]"));
    let said = "pool[1].workers.command: {nr} is passed on as it is; the words that stand for something are {n}, {port} and {address}";
    assert!(check(&gateway.policy_path).contains(said), "{}", check(&gateway.policy_path));
    for (command, said) in [
        (
            "[\"/no/such/program\"]",
            "pool[1].workers.command: /no/such/program cannot be started: No such file",
        ),
        ("[\"no-such-program\"]", "pool[1].workers.command: no program no-such-program is in PATH"),
    ] {
        gateway.write_policy(&policy(command).text(&[gateway.address], gateway.admin));
        let (status, answer) = gateway.reload();
        assert!(status != 200 && answer.contains(said), "{answer}");
        assert!(check(&gateway.policy_path).contains(said), "{}", check(&gateway.policy_path));
    }
    assert_eq!(gateway.number("/config/generation"), 1);
}

#[test]
fn a_folder_that_is_replaced_is_still_watched() {
    let (origin, folder) = (Origin::echo(), tempfile::tempdir().expect("a folder"));
    let at = |name: &str| folder.path().join(name);
    let class = |folder: &str, name: &str| {
        fs::create_dir_all(at(folder)).expect("our own folder");
        let text = format!("[[class]]\nname = \"{name}\"\n");
        fs::write(at(folder).join("a.toml"), text).expect("our own folder");
    };
    class("conf.d", "one");
    class("release-1", "other");
    std::os::unix::fs::symlink("release-1", at("release")).expect("our own folder");
    let top = format!("include = [{:?}, {:?}]", at("conf.d/*.toml"), at("release/*.toml"));
    let gateway =
        Gateway::start_with(&Policy { top, ..Policy::of(&[origin.server()]) }, &["--watch"]);
    let classes = || {
        let status = gateway.status();
        let classes = status["classes"].as_array().expect("a list").clone();
        classes.iter().map(|it| it["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(classes(), ["one", "other"]);
    // What the gateway logs beside its policy is a change there, at which it looks at everything: not in what follows.
    let quiet = || std::thread::sleep(Duration::from_millis(700));
    quiet();
    // Another folder under its name.
    class("new", "two");
    fs::rename(at("conf.d"), at("old")).expect("our own folder");
    fs::rename(at("new"), at("conf.d")).expect("our own folder");
    eventually("it is seen", || classes() == ["two", "other"]);
    quiet();
    class("conf.d", "three");
    eventually("it is watched", || classes() == ["three", "other"]);
    quiet();
    // Gone for a while.
    fs::remove_dir_all(at("conf.d")).expect("our own folder");
    eventually("it is reported", || gateway.log().contains("reload rejected"));
    quiet();
    class("conf.d", "four");
    eventually("it is seen", || classes() == ["four", "other"]);
    quiet();
    // A link that leads elsewhere.
    class("release-2", "another");
    std::os::unix::fs::symlink("release-2", at("link")).expect("our own folder");
    fs::rename(at("link"), at("release")).expect("our own folder");
    eventually("it is seen", || classes() == ["four", "another"]);
    quiet();
    class("release-2", "last");
    eventually("it is watched", || classes() == ["four", "last"]);
}

#[test]
fn a_watched_policy_that_cannot_be_read_is_reported() {
    let origin = Origin::echo();
    let gateway = Gateway::start_with(&Policy::of(&[origin.server()]), &["--watch"]);
    let text = fs::read(&gateway.policy_path).expect("it is there");
    let rejected = || gateway.log().matches("reload rejected").count();
    let mut latin = text.clone();
    latin.extend(b"# caf\xe9\n");
    fs::write(&gateway.policy_path, latin).expect("our own folder");
    eventually("it is no UTF-8", || rejected() == 1);
    fs::remove_file(&gateway.policy_path).expect("it is there");
    eventually("it is gone", || rejected() == 2);
    assert!(gateway.log().contains("No such file"), "{}", gateway.log());
    assert_eq!(gateway.number("/config/generation"), 1);
    fs::write(&gateway.policy_path, text).expect("our own folder");
    eventually("it is back", || gateway.number("/config/generation") == 2);
}
