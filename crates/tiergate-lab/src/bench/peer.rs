//! The proxies that are compared, each as a good operator would set it, with one thread.

use super::matrix::REFUSED_PATH;
use crate::contender::{Contender, Front, Place};
use crate::process::{Program, find, free_address, output};
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A proxy that takes part.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its name in the result.
    pub(super) name: &'static str,
    /// What it is.
    pub(super) kind: Contender,
    /// Another program than the installed one.
    pub(super) program: Option<PathBuf>,
}

/// A proxy's configuration for the bench.
fn template(proxy: Contender) -> &'static str {
    match proxy {
        Contender::Haproxy => include_str!("../../peers/haproxy.cfg"),
        Contender::Nginx => include_str!("../../peers/nginx.conf"),
        _ => include_str!("../../peers/tiergate.toml"),
    }
}

/// A proxy under way.
pub(super) struct Peer {
    /// The proxy itself.
    pub(super) front: Front,
    /// Where it takes HTTP.
    pub(super) plain: SocketAddr,
    /// Where it takes HTTPS.
    pub(super) tls: SocketAddr,
}

impl Peer {
    /// Writes its configuration and starts it on those processors (in the words of `taskset`) in
    /// front of the origin. An error is a reason why it is left out.
    pub(super) async fn start(
        entry: &Entry,
        scratch: &Path,
        origin: SocketAddr,
        processors: Option<&str>,
    ) -> Result<Self> {
        let (plain, tls, admin) = (free_address()?, free_address()?, free_address()?);
        let (values, addresses) = (values(tls, scratch), [plain, admin, origin]);
        let scratch = scratch.join(entry.name);
        let place = Place {
            processors,
            template: Some(template(entry.kind)),
            values: &values,
            ..Place::new(&scratch, addresses, entry.program.as_deref())
        };
        let mut front = entry.kind.start(&place).await?;
        front.ready(tls).await?;
        Ok(Self { front, plain, tls })
    }
}

/// What the configurations name besides the usual places.
fn values(tls: SocketAddr, scratch: &Path) -> [(&'static str, String); 5] {
    let file = |name: &str| scratch.join(name).display().to_string();
    [
        ("TLS", tls.to_string()),
        ("REFUSED", REFUSED_PATH.into()),
        ("CERTIFICATE", file(CERTIFICATE)),
        ("KEY", file(KEY)),
        ("BOTH", file(BOTH)),
    ]
}

const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";
/// Both in one file, as haproxy wants them.
const BOTH: &str = "both.pem";

/// Makes a certificate for 127.0.0.1 with an ECDSA key on P-256, what most sites use today.
pub(super) async fn make_certificate(scratch: &Path) -> Result<()> {
    let (certificate, key) = (scratch.join(CERTIFICATE), scratch.join(KEY));
    let openssl = find("openssl").context("openssl is not installed")?;
    let program = Program::new("openssl", openssl)
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
        .args(["-noenc", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args([PathBuf::from("-keyout"), key.clone(), "-out".into(), certificate.clone()]);
    output(program, Duration::from_secs(20)).await?;
    let both = [std::fs::read(certificate)?, std::fs::read(key)?].concat();
    std::fs::write(scratch.join(BOTH), both).context("cannot write the certificate")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_filled_in_whole() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let values = values(address(1002), Path::new("/scratch"));
        for proxy in [Contender::Tiergate, Contender::Haproxy, Contender::Nginx] {
            let place = Place {
                scratch: Path::new("/scratch"),
                listen: address(1001),
                admin: address(1003),
                origin: address(1004),
                slots: 0,
                rate: 0.0,
                namespace: None,
                processors: None,
                program: None,
                template: Some(template(proxy)),
                off: None,
                values: &values,
            };
            let text = place.configuration(template(proxy), Path::new("/scratch/x")).unwrap();
            assert!(!text.contains('@'), "{}: {text}", proxy.name());
            for needed in ["127.0.0.1:1001", "127.0.0.1:1002", "127.0.0.1:1004", "/refused"] {
                assert!(text.contains(needed), "{} lacks {needed}", proxy.name());
            }
        }
    }

    #[test]
    fn tiergate_has_what_the_comparison_promises() {
        let template = template(Contender::Tiergate);
        let count = |what| template.lines().filter(|line| line.starts_with(what)).count();
        assert_eq!((count("[[class]]"), count("[[rule]]")), (2, 20));
        assert!(template.contains("slots = \"adaptive\"") && template.contains("@ADMIN@"));
    }
}
