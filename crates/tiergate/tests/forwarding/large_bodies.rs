//! Large bodies both ways, in every protocol, compared byte by byte; in bounded memory.

use crate::support;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use support::echo::{fill, gateway, values};
use support::gateway::{Gateway, Policy};
use support::process::curl;
use support::servers::{self, Server};
use support::{pattern, pattern_bytes};

/// Bytes of the large bodies.
const LARGE: usize = 64 << 20;
/// How much the gateway's memory may grow while they pass.
const GROWTH_MAX: u64 = 32 << 20;

fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().expect("coreutils");
    String::from_utf8_lossy(&output.stdout)[..64].to_owned()
}

fn large_file(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("large.bin");
    fs::write(&path, pattern_bytes(0, LARGE)).expect("room for it");
    path
}

#[test]
fn curl_is_served_in_all_its_ways() {
    let Some(server) = servers::node() else { return };
    let gateway = gateway(&server);
    let url = |path: &str| format!("http://{}{path}", gateway.address);
    let Some(text) = curl(&["-w", "%{num_connects} ", &url("/a"), &url("/b"), &url("/c")]) else {
        return;
    };
    assert_eq!(text, "GET /a1 GET /b0 GET /c0 ", "one connection for three");
    let file = large_file(server.folder.path());
    let expected = sha256(&file);
    let path = file.display().to_string();
    for more in [
        &["-H", "Expect: 100-continue"][..],
        &["-H", "Transfer-Encoding: chunked"],
        &["--http1.0"],
        &["-H", "Expect:"],
    ] {
        let seen = curl(&[&["-T", &path, &url("/echo")][..], more].concat()).expect("found before");
        let seen: Value = serde_json::from_str(&seen).expect("JSON");
        assert_eq!((&seen["sha256"], &seen["length"]), (&expected.clone().into(), &LARGE.into()));
    }
    let text = curl(&["--http1.0", &url("/trailers")]).expect("found before");
    assert_eq!(text, "first second");
}

#[test]
fn tls_and_http2_carry_the_same() {
    let (Some(files), Some(node)) = (servers::nginx(), servers::node()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, listener) = support::gateway::certificate(folder.path(), "one");
    let file = large_file(&files.folder.path().join("www"));
    let (path, expected) = (file.display().to_string(), sha256(&file));
    let with_tls = |server: &Server| {
        Gateway::start(&Policy { listener: listener.clone(), ..Policy::of(&[server.server()]) })
    };
    for (tls, version) in
        [(true, "--http2"), (true, "--http1.1"), (false, "--http2-prior-knowledge")]
    {
        let start = |server: &Server| if tls { with_tls(server) } else { gateway(server) };
        let (down, up) = (start(&files), start(&node));
        let scheme = if tls { "https" } else { "http" };
        let url = |gateway: &Gateway, path: &str| {
            format!("{scheme}://example.test:{}{path}", gateway.address.port())
        };
        let copy = folder.path().join("copy.bin").display().to_string();
        let run = |gateway: &Gateway, more: &[&str]| {
            let resolve = format!("example.test:{}:127.0.0.1", gateway.address.port());
            let common = [version, "--cacert", &certificate, "--resolve", &resolve];
            curl(&[&common[..], more].concat())
        };
        let arguments = ["-o", &copy, "-w", "%{http_version}", &url(&down, "/large.bin")];
        let Some(spoken) = run(&down, &arguments) else { return };
        assert_eq!(spoken, if version == "--http1.1" { "1.1" } else { "2" });
        assert_eq!(sha256(Path::new(&copy)), expected, "{version}");
        let seen = run(&up, &["-T", &path, &url(&up, "/echo?a=b")]).expect("found before");
        let seen: Value = serde_json::from_str(&seen).expect("JSON");
        assert_eq!((&seen["sha256"], &seen["length"]), (&expected.clone().into(), &LARGE.into()));
        assert_eq!((&seen["method"], &seen["url"]), (&"PUT".into(), &"/echo?a=b".into()));
        assert_eq!(values(&seen, "x-forwarded-proto"), [scheme]);
        for gateway in [&down, &up] {
            let peak = gateway.process.memory("VmHWM");
            println!("{version}: VmHWM {} KiB", peak / 1024);
            assert!(peak < 2 * GROWTH_MAX, "{peak}");
            gateway.assert_conserved();
        }
    }
}

#[test]
fn large_bodies_pass_unchanged_in_bounded_memory() {
    for (server, name) in [(servers::nginx(), "nginx"), (servers::apache(), "apache")] {
        let Some(server) = server else { return };
        let file = large_file(&server.folder.path().join("www"));
        let gateway = gateway(&server);
        assert_eq!(gateway.get("/").status, 200);
        let before = gateway.process.memory("VmHWM");
        let mut client = gateway.client();
        client.send("GET /large.bin HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(
            client.try_head().expect("a head").field("content-length"),
            Some(&*LARGE.to_string())
        );
        let mut at = 0;
        while at < LARGE {
            let piece = client.bytes((LARGE - at).min(1 << 20));
            let same = piece.iter().zip(at as u64..).all(|(&byte, at)| byte == pattern(at));
            assert!(same, "{name}: not the same around byte {at}");
            at += piece.len();
        }
        assert_eq!(client.get("/").status, 200);
        if name == "nginx" {
            let url = format!("http://{}/up/copy.bin", gateway.address);
            curl(&["-T", &file.display().to_string(), &url]).expect("curl");
            let copy = server.folder.path().join("www/up/copy.bin");
            assert_eq!(sha256(&copy), sha256(&file));
        }
        let grown = gateway.process.memory("VmHWM") - before;
        println!("{name}: {} MiB each way, VmHWM +{} KiB", LARGE >> 20, grown / 1024);
        assert!(grown < GROWTH_MAX, "{grown}");
        gateway.assert_conserved();
    }
}

#[test]
fn an_origin_on_a_unix_socket_is_as_good() {
    let Some(server) = servers::nginx() else { return };
    fill(&server);
    let socket = server.folder.path().join("nginx.sock");
    let gateway = Gateway::start(&Policy::of(&[format!("unix:{}", socket.display())]));
    let mut client = gateway.client();
    for _ in 0..20 {
        let answer = client.get("/data.bin");
        assert_eq!((answer.status, answer.body), (200, pattern_bytes(0, 10_000)));
    }
    assert_eq!(gateway.number("/origin/0/connects"), 1, "the connection is kept");
    let file = large_file(server.folder.path());
    let url = format!("http://{}/up/copy.bin", gateway.address);
    if curl(&["-T", &file.display().to_string(), &url]).is_some() {
        assert_eq!(sha256(&server.folder.path().join("www/up/copy.bin")), sha256(&file));
    }
}
