//! The proxies that are compared, each as a good operator would set it, with one thread.

use super::matrix::REFUSED_PATH;
use crate::cpu::Processes;
use crate::process::{Program, Running, find, free_address, output};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A kind of proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// What is built here.
    Tiergate,
    /// HAProxy.
    Haproxy,
    /// nginx.
    Nginx,
}

impl Kind {
    /// All of them, in the order of the result.
    pub(super) const ALL: [Self; 3] = [Self::Tiergate, Self::Haproxy, Self::Nginx];

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tiergate => "tiergate",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
        }
    }

    /// Its configuration, with `@…@` where addresses and paths belong.
    fn template(self) -> &'static str {
        match self {
            Self::Tiergate => include_str!("../../peers/tiergate.toml"),
            Self::Haproxy => include_str!("../../peers/haproxy.cfg"),
            Self::Nginx => include_str!("../../peers/nginx.conf"),
        }
    }

    fn args(self, file: &Path) -> Vec<OsString> {
        let words: &[&str] = match self {
            Self::Tiergate => &["run"],
            Self::Haproxy => &["-db", "-f"],
            // Errors before the configuration is read go to standard error instead of /var/log.
            Self::Nginx => &["-e", "stderr", "-c"],
        };
        words.iter().map(Into::into).chain([file.into()]).collect()
    }

    fn version_args(self) -> [&'static str; 1] {
        match self {
            Self::Tiergate => ["--version"],
            Self::Haproxy => ["-v"],
            Self::Nginx => ["-v"],
        }
    }
}

/// Where everything is.
pub(super) struct Places<'a> {
    /// A directory that is removed in the end.
    pub(super) scratch: &'a Path,
    /// Whom the proxies forward to.
    pub(super) origin: SocketAddr,
    /// Where the proxies run, in the words of `taskset`.
    pub(super) processors: Option<&'a str>,
}

/// A proxy under way.
pub(super) struct Peer {
    /// What it is.
    pub(super) kind: Kind,
    /// What it says its version is.
    pub(super) version: String,
    /// Where it takes HTTP.
    pub(super) plain: SocketAddr,
    /// Where it takes HTTPS.
    pub(super) tls: SocketAddr,
    /// Whose processor time counts.
    pub(super) processes: Processes,
    running: Running,
}

impl Peer {
    /// Writes its configuration and starts it. An error is a reason why it is left out.
    pub(super) async fn start(
        kind: Kind,
        program: Option<&Path>,
        places: &Places<'_>,
    ) -> Result<Self> {
        let program = match program {
            Some(given) => given.to_path_buf(),
            None => find(kind.name()).context("not installed")?,
        };
        let version = version(kind, &program).await?;
        let (plain, tls, admin) = (free_address()?, free_address()?, free_address()?);
        let dir = places.scratch.join(kind.name());
        std::fs::create_dir_all(&dir)?;
        let file = dir.join("configuration");
        let text = render(kind, [plain, tls, admin, places.origin], places.scratch, &dir);
        std::fs::write(&file, text)?;
        let mut running = Program::new(kind.name(), &program)
            .args(kind.args(&file))
            .processors(places.processors)
            .start(&dir.join("log"))?;
        running.ready(plain).await?;
        running.ready(tls).await?;
        let processes = Processes::of(running.pid());
        Ok(Self { kind, version, plain, tls, processes, running })
    }

    /// Why it is no longer there; `None` while it runs.
    pub(super) fn ended(&mut self) -> Option<String> {
        self.running.ended()
    }
}

/// A configuration with its addresses and paths filled in.
fn render(kind: Kind, addresses: [SocketAddr; 4], scratch: &Path, dir: &Path) -> String {
    let [plain, tls, admin, origin] = addresses.map(|address| address.to_string());
    let file = |name: &str| scratch.join(name).display().to_string();
    kind.template()
        .replace("@PLAIN@", &plain)
        .replace("@TLS@", &tls)
        .replace("@ADMIN@", &admin)
        .replace("@ORIGIN@", &origin)
        .replace("@REFUSED@", REFUSED_PATH)
        .replace("@CERTIFICATE@", &file(CERTIFICATE))
        .replace("@KEY@", &file(KEY))
        .replace("@BOTH@", &file(BOTH))
        .replace("@DIR@", &dir.display().to_string())
}

/// The first version number in what the program says about itself.
async fn version(kind: Kind, program: &Path) -> Result<String> {
    // nginx tells it on standard error.
    let said = Program::new(kind.name(), "sh")
        .args(["-c", "exec \"$0\" \"$@\" 2>&1"])
        .args([program])
        .args(kind.version_args());
    let text = output(said, Duration::from_secs(10)).await?;
    Ok(version_in(&text).unwrap_or("unknown").to_owned())
}

fn version_in(text: &str) -> Option<&str> {
    let words = text.split(|c: char| c.is_whitespace() || c == '/');
    let mut versions =
        words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'));
    versions.next()
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
        let addresses = [address(1001), address(1002), address(1003), address(1004)];
        for kind in Kind::ALL {
            let text = render(kind, addresses, Path::new("/scratch"), Path::new("/scratch/x"));
            assert!(!text.contains('@'), "{}: {text}", kind.name());
            for needed in ["127.0.0.1:1001", "127.0.0.1:1002", "127.0.0.1:1004", "/refused"] {
                assert!(text.contains(needed), "{} lacks {needed}", kind.name());
            }
        }
    }

    #[test]
    fn tiergate_has_what_the_comparison_promises() {
        let template = Kind::Tiergate.template();
        let count = |what| template.lines().filter(|line| line.starts_with(what)).count();
        assert_eq!((count("[[class]]"), count("[[rule]]")), (2, 20));
        assert!(template.contains("slots = \"adaptive\"") && template.contains("@ADMIN@"));
    }

    #[test]
    fn versions_are_found() {
        assert_eq!(version_in("nginx version: nginx/1.22.1"), Some("1.22.1"));
        assert_eq!(
            version_in("HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https"),
            Some("2.6.12-1+deb12u4")
        );
        assert_eq!(version_in("tiergate 0.1.0"), Some("0.1.0"));
    }
}
