//! Which rights the programs need: loaded and attached by an unprivileged user with some of them. Needs root's rights to take them away.

#[allow(dead_code, reason = "each test uses a part of it")]
mod network;

use network::{INTERFACE, Network};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tiergate_kernel::{Fault, HttpGate, SteerGate, SynGate};

/// Not a test: what the next one runs with fewer rights. Prints a line for each program.
#[test]
#[ignore = "the next test runs it"]
fn child_with_fewer_rights() {
    let said = |done: Result<(), Fault>| {
        done.map_or_else(|fault| fault.to_string(), |()| "works".to_owned())
    };
    println!("syn: {}", said(SynGate::load().and_then(|mut it| it.attach(INTERFACE)).map(drop)));
    println!("http: {}", said(HttpGate::load().and_then(|mut it| it.attach(INTERFACE)).map(drop)));
    println!("steer: {}", said(SteerGate::load().and_then(|mut it| it.attach())));
}

/// What the programs say to a user without any other right.
fn with_rights(network: &Network, program: &Path, rights: &[&str]) -> [String; 3] {
    let some = rights.iter().map(|right| format!(",+{right}")).collect::<String>();
    let mut command = network.server_command(Path::new("setpriv"));
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    for set in ["--bounding-set", "--inh-caps", "--ambient-caps"] {
        command.arg(format!("{set}=-all{some}"));
    }
    command.arg(program);
    command.args(["--exact", "child_with_fewer_rights", "--ignored", "--nocapture"]);
    let output = command.output().expect("setpriv runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |name: &str| {
        let line = text.lines().find_map(|line| line.split_once(name));
        let error = String::from_utf8_lossy(&output.stderr);
        line.unwrap_or_else(|| panic!("{text}{error}")).1.to_owned()
    };
    ["syn: ", "http: ", "steer: "].map(line)
}

/// This program, where any user can run it.
fn for_all(folder: &Path) -> PathBuf {
    let program = folder.join("rights");
    std::fs::copy(std::env::current_exe().expect("it runs"), &program).expect("our own folder");
    for path in [folder, &program] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("it is ours");
    }
    program
}

#[test]
fn three_rights_suffice_and_what_is_missing_is_said() {
    let Some(network) = Network::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = for_all(folder.path());
    let all = ["bpf", "net_admin", "perfmon", "net_bind_service"];
    assert_eq!(with_rights(&network, &program, &all), ["works"; 3]);
    for missing in ["bpf", "net_admin", "perfmon"] {
        let rest: Vec<&str> = all.into_iter().filter(|it| *it != missing).collect();
        let [syn, http, steer] = with_rights(&network, &program, &rest);
        let needs =
            |said: &String| said.contains("it needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON");
        assert!(needs(&syn) && needs(&http), "{missing}: {syn}; {http}");
        // It measures no time and reads nothing of the kernel's own.
        assert_eq!(needs(&steer), missing != "perfmon", "{missing}: {steer}");
    }
}
