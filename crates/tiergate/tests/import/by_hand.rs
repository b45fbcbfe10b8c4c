//! The examples of docs/migrate that are written by hand: Envoy's and that of Apache with mod_qos decide as their policies do.
//! `make migrations` installs both and runs these; the rest of the machines' tests do without them.

use super::{Example, same_verdicts};
use std::fs;
use std::path::Path;
use std::process::Command;

const ENVOY: &str = include_str!("../../../../docs/migrate/envoy/envoy.yaml");
const MOD_QOS: &str = include_str!("../../../../docs/migrate/mod_qos/qos.conf");

#[test]
#[ignore = "needs Envoy: make migrations"]
fn the_envoy_example_decides_as_envoy_does() {
    let envoy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../lab-peers/envoy");
    assert!(envoy.exists(), "scripts/peers.sh installs {}", envoy.display());
    let example = Example {
        // Written as elsewhere, until its addresses are those of this test.
        peer: &ENVOY.replace(", port_value: 8080", ":8080"),
        policy: &|_| include_str!("../../../../docs/migrate/envoy/policy.toml").to_owned(),
        kinds: &[200, 301, 403, 404, 429],
        split: &["app", "beta"],
    };
    same_verdicts(&example, |folder, text| {
        let path = folder.join("envoy.yaml");
        let text = text.replace("address: 127.0.0.1:", "address: 127.0.0.1, port_value: ");
        fs::write(&path, text).expect("our own folder");
        let mut command = Command::new(envoy);
        command.args(["--use-dynamic-base-id", "--concurrency", "1", "-c"]).arg(&path);
        command
    });
}

#[test]
#[ignore = "needs mod_qos: make migrations"]
fn the_mod_qos_example_decides_as_mod_qos_does() {
    let example = Example {
        peer: MOD_QOS,
        policy: &|_| include_str!("../../../../docs/migrate/mod_qos/policy.toml").to_owned(),
        kinds: &[200, 403, 429],
        split: &[],
    };
    same_verdicts(&example, |folder, text| {
        let path = folder.join("apache.conf");
        let module = |name: &&str| {
            format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")
        };
        let modules = ["mpm_event", "authz_core", "setenvif", "proxy", "proxy_http"];
        let mut top = modules.iter().map(module).collect::<String>();
        let folder = folder.display();
        // Debian's mod_qos needs libpcre and does not say so.
        top += &format!(
            "LoadFile /usr/lib/{}-linux-gnu/libpcre.so.3\n{}",
            std::env::consts::ARCH,
            module(&"qos")
        );
        top += &format!(
            "ServerRoot {folder}\nDefaultRuntimeDir {folder}\nPidFile {folder}/pid\nErrorLog {folder}/log\n\
             User www-data\nGroup www-data\nServerName lab\n"
        );
        let port = text.lines().find_map(|it| it.strip_prefix("Listen 127.0.0.1:"));
        let text = text.replace("*:8080", &format!("*:{}", port.expect("the listener")));
        fs::write(&path, top + &text).expect("our own folder");
        let mut command = Command::new("/usr/sbin/apache2");
        // One process: the children of one that is killed would stay.
        command.args(["-X", "-f"]).arg(&path);
        command
    });
}
