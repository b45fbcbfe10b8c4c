//! Revocation lists: whose certificates count no more.

use super::files::{self, TlsError};
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;
use std::path::{Path, PathBuf};
use x509_parser::prelude::{ASN1Time, CertificateRevocationList, FromDer};

/// The lists in PEM files, of which one may hold several, each read and in force. Whether its authority
/// signed a list is checked when a certificate of that authority is, because intermediate ones are known
/// only then.
///
/// # Errors
/// The first file that cannot be read, has no list, or one that is broken or has run out.
pub(super) fn load(
    files: &[PathBuf],
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let now = ASN1Time::now();
    let mut all = Vec::new();
    for file in files {
        let lists = lists(file)?;
        for list in &lists {
            check(list, now, file)?;
        }
        all.extend(lists);
    }
    Ok(all)
}

fn lists(file: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let text = files::read(file)?;
    let lists: Vec<_> = CertificateRevocationListDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsError::Malformed(file.to_owned(), error))?;
    if lists.is_empty() {
        return Err(TlsError::NoRevocationList(file.to_owned()));
    }
    Ok(lists)
}

/// Whether the list is one that the verifier takes (it refuses, for example, those that say only what has
/// changed), and in force.
fn check(
    list: &CertificateRevocationListDer<'_>,
    now: ASN1Time,
    file: &Path,
) -> Result<(), TlsError> {
    let rejected = |error: String| TlsError::RevocationListRejected(file.to_owned(), error);
    webpki::BorrowedCertRevocationList::from_der(list)
        .map_err(|error| rejected(error.to_string()))?;
    let (_, read) =
        CertificateRevocationList::from_der(list).map_err(|error| rejected(error.to_string()))?;
    match read.next_update() {
        // Without an end it could be withheld for ever (RFC 5280 §5.1.2.5 demands one).
        None => Err(rejected("it does not say until when it counts".to_owned())),
        Some(end) if end <= now => {
            Err(TlsError::RevocationListExpired(file.to_owned(), end.to_string()))
        }
        Some(_) => Ok(()),
    }
}
