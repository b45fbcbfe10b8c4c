//! What `tiergate run` would end with, `tiergate check` finds beforehand; and what `check` finds sound, `run` starts with.

mod support;

use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::gateway::{Port, certificate};

const ORIGIN: &str = "[origin]\nservers = [\"127.0.0.1:1\"]\n";

fn tiergate(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).env("SET", "app.internal");
    command.output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn check_and_run_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    certificate(folder, "one");
    certificate(folder, "two");
    std::fs::write(folder.join("garbage.pem"), "no certificate\n").expect("our own folder");
    let port = Port::reserve();
    let at = port.address;
    let listener = format!("[[listener]]\naddress = \"{at}\"\n");
    let tls = |certificate: &str, key: &str| {
        format!(
            "admin = false\n{ORIGIN}{listener}tls = {{ certificate = {certificate:?}, key = {key:?} }}\n"
        )
    };
    let (one, two) = (files("one"), files("two"));
    let cases = [
        (
            tls("missing.pem", &one.1),
            "policy.toml:6:7: listener[1].tls: missing.pem: not found; check the path",
        ),
        (
            tls(&one.0, "missing.pem"),
            "policy.toml:6:7: listener[1].tls: missing.pem: not found; check the path",
        ),
        (tls("garbage.pem", &one.1), "policy.toml:6:7: listener[1].tls: garbage.pem: "),
        (tls(&one.0, &two.1), "not the key of the first certificate"),
        (tls(&one.1, &one.0), "policy.toml:6:7: listener[1].tls: "),
        (
            format!("admin = false\n{ORIGIN}tls = {{ ca = \"missing.pem\" }}\n{listener}"),
            "policy.toml:4:7: origin.tls: missing.pem: not found; check the path",
        ),
        (
            format!(
                "admin = false\n{ORIGIN}tls = {{ certificate = {:?}, key = {:?} }}\n{listener}",
                one.0, two.1
            ),
            "not the key of the first certificate",
        ),
        (
            format!(
                "admin = false\n{ORIGIN}{listener}[[pool]]\nname = \"p\"\nservers = [\"a:1\"]\ntls = {{ ca = \"garbage.pem\" }}\n"
            ),
            "pool[1].tls: garbage.pem: no certificate in it",
        ),
        (
            format!(
                "admin = false\n{ORIGIN}{listener}[access_log]\npath = \"missing/access.log\"\n"
            ),
            "policy.toml:7:8: access_log.path: missing/access.log cannot be written: missing: No such file or directory (os error 2); make this directory",
        ),
        (
            format!("admin = false\n{ORIGIN}{listener}[access_log]\npath = \".\"\n"),
            "access_log.path: . is a directory: name a file in it",
        ),
        (
            format!("admin = \"{at}\"\n{ORIGIN}{listener}"),
            "policy.toml:1:9: admin: must be another address than that of the listener",
        ),
        (
            format!(
                "admin = false\n{ORIGIN}{listener}[[listener]]\naddress = \"0.0.0.0:{}\"\n",
                at.port()
            ),
            "policy.toml:7:11: listener[2].address: another listener has",
        ),
        (
            format!("admin = false\n[origin]\nservers = [\"{at}\"]\n{listener}"),
            "policy.toml:3:12: origin.servers[1]: is this gateway itself",
        ),
        (
            format!("admin = false\n[origin]\nservers = [\"${{NOBODY_SETS_THIS}}\"]\n{listener}"),
            "policy.toml:3:12: origin.servers[1]: the environment variable NOBODY_SETS_THIS is not set",
        ),
        (
            format!("admin = false\n{ORIGIN}{listener}[[rule]]\npath = \"/a\"\nrefuse = 200\n"),
            "policy.toml:8:10: rule[1].refuse: must be 403, 404, 410, 451, 429 or 503, got 200",
        ),
        (
            format!("admin = false\n{ORIGIN}{listener}[[rule]]\npath = \"/a\"\nrefuse = 302\n"),
            "got 302; with another address: { redirect = \"https://…\" }",
        ),
        (
            format!(
                "admin = false\n{ORIGIN}{listener}[[rule]]\npath = \"/a\"\nrefuse = {{ redirect = \"javascript:x\" }}\n"
            ),
            "rule[1].refuse.redirect: must be an address with http:// or https://",
        ),
        (
            format!(
                "admin = false\n{ORIGIN}{listener}[[rule]]\npath = \"/a\"\nrefuse = {{ page = \"missing.html\" }}\n"
            ),
            "rule[1].refuse.page: missing.html: cannot be read",
        ),
    ];
    for (policy, said) in cases {
        std::fs::write(folder.join("policy.toml"), &policy).expect("our own folder");
        let checked = tiergate(&["check", "policy.toml"], folder);
        let message = text(&checked.stderr);
        assert!(!checked.status.success() && message.contains(said), "{policy}\n{message}");
        assert!(!message.contains("Some("), "{message}");
        let ran = tiergate(&["run", "policy.toml"], folder);
        assert!(!ran.status.success(), "{policy}\n{}", text(&ran.stderr));
    }
}

/// The files that `certificate` makes.
fn files(name: &str) -> (String, String) {
    (format!("{name}.pem"), format!("{name}.key"))
}

#[test]
fn several_files_standard_input_and_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let sound = "[origin]\nservers = [\"${SET}:80\"]\n[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\n[[rule]]\nclass = \"a\"\n";
    std::fs::write(folder.join("sound.toml"), sound).expect("our own folder");
    std::fs::write(folder.join("wrong.toml"), "[origin]\nserver = 1\n").expect("our own folder");
    let both = tiergate(&["check", "sound.toml", "wrong.toml"], folder);
    assert!(!both.status.success());
    assert!(text(&both.stdout).contains("sound.toml is a valid policy"), "{both:?}");
    assert!(text(&both.stderr).contains("wrong.toml:2:1: origin.server: unknown key"), "{both:?}");
    let json = tiergate(&["check", "--json", "sound.toml", "wrong.toml", "missing.toml"], folder);
    assert!(!json.status.success());
    let files: Value = serde_json::from_slice(&json.stdout).expect("it is JSON");
    assert_eq!(files[0]["valid"], true);
    let warning = files[0]["warnings"][0].as_str().expect("a warning");
    assert_eq!(warning, "class b: no rule leads to it", "a rule takes every request");
    let error = &files[1]["errors"][1];
    assert_eq!((error["line"].as_u64(), error["column"].as_u64()), (Some(2), Some(1)), "{files:#}");
    assert_eq!(error["key"], "origin.server");
    assert!(
        files[2]["errors"][0]["message"].as_str().is_some_and(|it| it.contains("cannot be read"))
    );
    // Standard input.
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
    command.args(["check", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).env("SET", "app");
    let mut child = command.spawn().expect("it starts");
    child.stdin.take().expect("piped").write_all(sound.as_bytes()).expect("it reads");
    let read = child.wait_with_output().expect("it ends");
    assert!(read.status.success() && text(&read.stdout).contains("is a valid policy"), "{read:?}");
}

#[test]
fn completions_and_manual_pages_are_of_this_command_line() {
    let folder = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&tiergate(&["completions", shell], folder.path()).stdout);
        assert!(script.contains("simulate") && script.contains("doctor"), "{shell}");
    }
    assert!(text(&tiergate(&["man"], folder.path()).stdout).contains(".TH tiergate 1"));
    assert!(tiergate(&["man", "."], folder.path()).status.success());
    assert!(folder.path().join("tiergate-check.1").exists());
}
