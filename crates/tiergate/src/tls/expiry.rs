//! When certificates expire.

use super::files;
use crate::admin::CertificateStatus;
use crate::config::meant;
use std::path::Path;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The certificates of listeners, each file once, the one that expires first before the others. One that cannot be read is left out:
/// the listener does not start with it. Blocks on files.
pub(crate) fn expiries<'a>(
    listeners: impl Iterator<Item = &'a meant::Tls>,
) -> Vec<CertificateStatus> {
    let mut all: Vec<CertificateStatus> = Vec::new();
    for (chain, _) in listeners.flat_map(|it| &it.certificates) {
        let file = chain.display().to_string();
        if !all.iter().any(|it| it.file == file) {
            all.extend(expiry(chain, file));
        }
    }
    all.sort_by_key(|it| it.expires_at_seconds);
    all
}

/// Of the first of a chain, the listener's own.
fn expiry(chain: &Path, file: String) -> Option<CertificateStatus> {
    let chain = files::certificates(chain).ok()?;
    let (_, certificate) = X509Certificate::from_der(chain.first()?).ok()?;
    let names = certificate.subject_alternative_name().ok().flatten();
    let name = names.and_then(|it| {
        it.value.general_names.iter().find_map(|it| match it {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
    });
    Some(CertificateStatus {
        file,
        name: name.unwrap_or_else(|| certificate.subject().to_string()),
        expires_at_seconds: certificate.validity().not_after.timestamp(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_that_of_the_first_certificate_with_its_first_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("chain.pem");
        let made =
            rcgen::generate_simple_self_signed(["shop.test".to_owned(), "b.test".to_owned()])
                .expect("good names");
        std::fs::write(&path, made.cert.pem()).expect("our own folder");
        let found = expiry(&path, "chain.pem".to_owned()).expect("a certificate");
        assert_eq!((found.name.as_str(), found.file.as_str()), ("shop.test", "chain.pem"));
        // What rcgen gives one for which no time is asked: until the begin of the year 4096.
        assert_eq!(found.expires_at_seconds, 67_090_118_400, "{found:?}");
        assert_eq!(expiry(&folder.path().join("none"), String::new()), None);
    }
}
