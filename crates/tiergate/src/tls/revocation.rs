//! Certificate revocation lists.

use super::error::TlsError;
use super::files;
use rustls::pki_types::CertificateRevocationListDer;
use std::path::{Path, PathBuf};
use x509_parser::prelude::{ASN1Time, CertificateRevocationList, FromDer};

/// The lists in PEM files, one or several a file, each parsed and not expired. Whether its authority
/// signed a list is checked together with a certificate of that authority, because intermediate ones are
/// known only then.
///
/// # Errors
/// The first file that cannot be read, has no list, or one that is malformed or expired.
pub(super) fn load(
    files: &[PathBuf],
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let now = ASN1Time::now();
    let mut all = Vec::new();
    for file in files {
        let (lists, _) = files::items(file)?;
        if lists.is_empty() {
            let what = "no revocation list in it; expected -----BEGIN X509 CRL-----, which \
                        `openssl crl -inform DER -in … -out …` makes of a binary one";
            return Err(TlsError::of(file, what));
        }
        for list in &lists {
            check(list, now, file)?;
        }
        all.extend(lists);
    }
    Ok(all)
}

/// Whether the verifier accepts the list (it refuses, for example, delta lists), and it is not expired.
fn check(
    list: &CertificateRevocationListDer<'_>,
    now: ASN1Time,
    file: &Path,
) -> Result<(), TlsError> {
    let rejected = |error: String| {
        let what = format!(
            "this revocation list cannot be used ({error}); get it anew from the authority that \
             signs the clients' certificates"
        );
        TlsError::of(file, what)
    };
    webpki::BorrowedCertRevocationList::from_der(list)
        .map_err(|error| rejected(error.to_string()))?;
    let (_, read) =
        CertificateRevocationList::from_der(list).map_err(|error| rejected(error.to_string()))?;
    match read.next_update() {
        // Without an end it could be withheld for ever (RFC 5280 §5.1.2.5 demands one).
        None => Err(rejected("it has no time of the next update".to_owned())),
        Some(end) if end <= now => {
            let what = format!(
                "this revocation list has expired ({end}), so that all clients would be refused; \
                 get the next one from its authority"
            );
            Err(TlsError::of(file, what))
        }
        Some(_) => Ok(()),
    }
}
