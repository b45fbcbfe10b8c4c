//! TLS of the run: a certificate made for it, and clients that trust this one only.

use crate::process::{self, Program};
use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsConnector;

/// The name in the certificate.
const NAME: &str = "chaos.test";

/// Makes a certificate and its key in a folder.
pub(super) async fn certificate(folder: &Path) -> Result<[PathBuf; 2]> {
    let [certificate, key] = [folder.join("chaos.pem"), folder.join("chaos.key")];
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    let program = Program::new("openssl", "openssl")
        .args(words.split(' '))
        .args(["-subj", &format!("/CN={NAME}"), "-addext", &format!("subjectAltName=DNS:{NAME}")])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args([Path::new("-keyout"), &key, Path::new("-out"), &certificate]);
    process::output(program, Duration::from_secs(10)).await?;
    Ok([certificate, key])
}

/// What clients connect with; `http2`: they want HTTP/2.
pub(super) fn connector(certificate: &Path, http2: bool) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(certificate).context("openssl's own file")?;
    roots.add(certificate)?;
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![if http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The server name that clients ask for.
pub(super) fn name() -> ServerName<'static> {
    ServerName::try_from(NAME).expect("a good name")
}
