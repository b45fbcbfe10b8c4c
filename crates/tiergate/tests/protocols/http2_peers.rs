//! Real clients: curl and h2load, where they are installed.

use crate::origin::made_up;
use crate::world::{World, build, build_with};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::process::{Output, Stdio};
use tempfile::TempDir;
use tiergate::config::meant::Tls;
use tiergate::tls;
use tokio::process::Command;

/// Runs a program; `None`, said aloud, if it is not installed.
async fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    match command.output().await {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: {program} is not installed");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

async fn secure(folder: &TempDir) -> World {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (chain, key) = (folder.path().join("chain.pem"), folder.path().join("key.pem"));
    std::fs::write(&chain, cert.pem()).unwrap();
    std::fs::write(&key, signing_key.serialize_pem()).unwrap();
    let settings = Tls { certificates: vec![(chain, key)], client: None };
    let config = tls::server_config(&settings, true).unwrap();
    build_with(Some(config), |_| {}).await
}

#[tokio::test]
async fn curl_downloads_and_uploads() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("upload");
    std::fs::write(&file, made_up(3_000_000)).unwrap();
    let upload = format!("@{}", file.display());
    let worlds = [(build(|_| {}).await, false), (secure(&folder).await, true)];
    for (world, is_secure) in worlds {
        let (scheme, how) = match is_secure {
            true => ("https", ["-k", "--http2"]),
            false => ("http", ["-s", "--http2-prior-knowledge"]),
        };
        let port = world.address.port();
        let url = |path: &str| format!("{scheme}://localhost:{port}{path}");
        let curl = async |arguments: &[&str]| {
            let mut all = vec!["-sS", "--max-time", "20", "-4", "-w", "%{stderr}%{http_version}"];
            all.extend_from_slice(&how);
            all.extend_from_slice(arguments);
            let output = run("curl", &all).await?;
            let version = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "curl: {version}");
            assert_eq!(version, "2");
            Some(output.stdout)
        };
        let Some(body) = curl(&[&url("/len/2000000")]).await else { return };
        assert!(body == made_up(2_000_000));
        let posted = curl(&["--data-binary", &upload, &url("/echo")]).await.unwrap();
        assert!(posted == made_up(3_000_000), "{} bytes came back", posted.len());
        let streamed = curl(&["-T", file.to_str().unwrap(), "-X", "POST", &url("/echo")]).await;
        assert!(streamed.unwrap() == made_up(3_000_000));
        let head = curl(&["--head", &url("/len/77")]).await.unwrap();
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        assert!(head.contains("content-length: 77"), "{head}");
        let told = curl(&[&url("/head")]).await.unwrap();
        let told = String::from_utf8_lossy(&told).into_owned();
        assert!(told.contains(&format!("x-forwarded-proto: {scheme}\n")), "{told}");
    }
}

#[tokio::test]
async fn h2load_loses_nothing() {
    let folder = TempDir::new().unwrap();
    let worlds = [("http", build(|_| {}).await), ("https", secure(&folder).await)];
    for (scheme, world) in worlds {
        for (path, requests) in [("/len/1024", "4000"), ("/chunked/65536", "400")] {
            let url = format!("{scheme}://{}{path}", world.address);
            let arguments = ["-n", requests, "-c", "4", "-m", "16", "-t", "1", &url];
            let Some(output) = run("h2load", &arguments).await else { return };
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.contains(&format!("{requests} succeeded, 0 failed")), "{text}");
            assert!(text.contains(&format!("status codes: {requests} 2xx")), "{text}");
        }
    }
}
