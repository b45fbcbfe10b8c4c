//! Addresses that are taken, or that a user may not have.

use super::support::gateway::{Gateway, Policy, Port, certificate};
use super::support::origin::Origin;
use super::{ORIGIN, files, text, tiergate};
use serde_json::Value;
use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};

/// What both say of a policy that no start survives: a line.
fn agreed(policy: &str, folder: &Path) -> String {
    std::fs::write(folder.join("policy.toml"), policy).expect("our own folder");
    let checked = tiergate(&["check", "policy.toml"], folder);
    let said = text(&checked.stderr);
    assert!(!checked.status.success(), "{policy}\n{checked:?}");
    let ran = text(&tiergate(&["run", "policy.toml"], folder).stderr);
    assert!(ran.contains(said.trim_end()), "{said}\n{ran}");
    said
}

#[test]
fn an_address_of_another_program_is_a_fault_that_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    certificate(folder, "one");
    let (pem, key) = files("one");
    let own = Port::reserve().address;
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let tcp = tcp.local_addr().map(|it| (tcp, it)).expect("bound");
    let by = format!("(process {}) has it; stop that, or name another port", std::process::id());

    let listener = format!("admin = false\n{ORIGIN}[[listener]]\naddress = \"{}\"\n", tcp.1);
    let said = agreed(&listener, folder);
    let place = "policy.toml:5:11: listener[1].address: cannot listen on";
    assert!(said.contains(&format!("{place} {}: ", tcp.1)) && said.contains(&by), "{said}");

    let admin = format!("admin = \"{}\"\n{ORIGIN}[[listener]]\naddress = \"{own}\"\n", tcp.1);
    let said = agreed(&admin, folder);
    let place = "policy.toml:1:9: admin: cannot listen on";
    assert!(said.contains(&format!("{place} {}: ", tcp.1)) && said.contains(&by), "{said}");

    // Of a port that a connection has, TCP would be named first.
    let mut ports = (0..100).map(|_| Port::reserve());
    let (_udp, free) = ports
        .find_map(|it| Some((UdpSocket::bind(it.address).ok()?, it)))
        .expect("a port that both have free");
    let address = free.address;
    let quic = format!(
        "admin = false\n{ORIGIN}[[listener]]\naddress = \"{address}\"\nhttp3 = true\ntls = {{ certificate = {pem:?}, key = {key:?} }}\n"
    );
    let said = agreed(&quic, folder);
    let place = "policy.toml:5:11: listener[1].address: cannot listen on";
    let expected = format!("{place} {address} by UDP, for HTTP/3: ");
    assert!(said.contains(&expected) && said.contains(&by), "{said}");
}

/// It is to load the policy that is checked.
#[test]
fn an_address_of_the_gateway_itself_is_no_fault() {
    let origin = Origin::echo();
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    let checked =
        tiergate(&["check", "--json", &gateway.policy_path.to_string_lossy()], Path::new("."));
    let files: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    assert!(checked.status.success() && files[0]["warnings"] == serde_json::json!([]), "{files}");
}

/// Who starts the gateway is not the policy's to say.
#[test]
fn a_port_that_this_user_may_not_have_is_a_warning() {
    let first = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    if first.ok().and_then(|it| it.trim().parse().ok()) != Some(1024) {
        return;
    }
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-net_bind_service", "--inh-caps=-net_bind_service"]);
    command.args([env!("CARGO_BIN_EXE_tiergate"), "check", "-"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else { return };
    let policy = format!("admin = false\n{ORIGIN}[[listener]]\naddress = \"127.0.0.1:83\"\n");
    // Where there are no rights to give up, it has ended.
    let _ = child.stdin.take().expect("piped").write_all(policy.as_bytes());
    let checked = child.wait_with_output().expect("it ends");
    let (said, fault) = (text(&checked.stdout), text(&checked.stderr));
    if fault.contains("setpriv") {
        return;
    }
    assert!(checked.status.success(), "{fault}");
    let expected = "-:5:11: listener[1].address: cannot listen on 127.0.0.1:83: this user may not listen on port 83; give the gateway CAP_NET_BIND_SERVICE";
    assert!(said.contains(expected) && said.contains("--other-machine"), "{said}");
}
