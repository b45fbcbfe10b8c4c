//! Certificates and keys from PEM files.

use super::error::TlsError;
use crate::files::{self, Streams};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error as RustlsError, InconsistentKeys};
use std::io::{ErrorKind, Read};
use std::path::Path;
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

/// Loads a certificate chain and its key, and checks that they belong together.
pub(super) fn load(
    chain_file: &Path,
    key_file: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(chain_file)?;
    let key = provider.key_provider.load_private_key(private_key(key_file)?).map_err(|error| {
        let what = format!(
            "this key cannot be used ({error}); make an ECDSA (P-256, P-384), Ed25519 or RSA key"
        );
        TlsError::of(key_file, what)
    })?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) | Err(RustlsError::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(RustlsError::InconsistentKeys(_)) => {
            let what = format!(
                "not the key of the first certificate in {}; the server's own certificate comes \
                 first, then the one that signed it",
                chain_file.display()
            );
            Err(TlsError::of(key_file, what))
        }
        Err(_) if is_of_old_version(&certified) => {
            let what = "the first certificate is of version 1 of X.509, and TLS needs one of version 3: have it made anew with the server's names in it \
                        (subjectAltName), as `openssl req -x509 -addext subjectAltName=DNS:…` does";
            Err(TlsError::of(chain_file, what))
        }
        Err(error) => {
            let what = format!(
                "the first certificate cannot be used ({error}); the server's own comes first, \
                 then the one that signed it"
            );
            Err(TlsError::of(chain_file, what))
        }
    }
}

/// Whether the server's certificate is of a version before the one that has names (RFC 5280 §4.1.2.1).
fn is_of_old_version(certified: &CertifiedKey) -> bool {
    let parsed = certified.cert.first().and_then(|it| X509Certificate::from_der(it).ok());
    parsed.is_some_and(|(_, it)| it.version() != X509Version::V3)
}

/// The bytes of a file.
pub(super) fn contents(file: &Path) -> Result<Vec<u8>, TlsError> {
    read(file)
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    let mut content = Vec::new();
    let opened = files::open(file, Streams::Refused);
    let read = opened.and_then(|mut it| it.read_to_end(&mut content));
    read.map(|_| content).map_err(|error| match error.kind() {
        ErrorKind::NotFound => TlsError::of(file, "not found; check the path"),
        ErrorKind::PermissionDenied => {
            TlsError::of(file, "permission denied; let this user read it")
        }
        _ => TlsError::of(file, format!("cannot be read: {error}")),
    })
}

/// All items of one kind in a PEM file, and its text.
pub(super) fn items<T: PemObject>(file: &Path) -> Result<(Vec<T>, Vec<u8>), TlsError> {
    let text = read(file)?;
    let items = T::pem_slice_iter(&text).collect::<Result<_, _>>();
    Ok((items.map_err(|error| malformed(file, &error))?, text))
}

fn malformed(file: &Path, error: &pem::Error) -> TlsError {
    let what = match error {
        pem::Error::MissingSectionEnd { .. } => {
            "not whole: its last part has no -----END line; copy it once more".to_owned()
        }
        _ => format!("not a PEM file ({error}); convert it, for example with openssl"),
    };
    TlsError::of(file, what)
}

pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let (chain, text) = items(file)?;
    match chain.is_empty() {
        false => Ok(chain),
        true if PrivateKeyDer::from_pem_slice(&text).is_ok() => {
            let what = "a private key where the certificate should be; are the two swapped?";
            Err(TlsError::of(file, what))
        }
        true => {
            let what = "no certificate in it; expected -----BEGIN CERTIFICATE-----";
            Err(TlsError::of(file, what))
        }
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(file)?;
    let what = match PrivateKeyDer::from_pem_slice(&text) {
        // The old form of encryption keeps the usual name and says so in a line below it, where
        // base64 is expected.
        _ if is_encrypted(&text) => {
            "the key is encrypted, and there is no way to enter its passphrase; decrypt it with \
             `openssl pkey -in … -out …`"
        }
        Ok(key) => return Ok(key),
        Err(pem::Error::NoItemsFound) if CertificateDer::from_pem_slice(&text).is_ok() => {
            "a certificate where the private key should be; are the two swapped?"
        }
        Err(pem::Error::NoItemsFound) => {
            "no private key in it; expected -----BEGIN PRIVATE KEY-----"
        }
        Err(error) => return Err(malformed(file, &error)),
    };
    Err(TlsError::of(file, what))
}

fn is_encrypted(text: &[u8]) -> bool {
    let contains = |words: &[u8]| memchr::memmem::find(text, words).is_some();
    contains(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || contains(b"Proc-Type: 4,ENCRYPTED")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::aws_lc_rs;
    use std::fs;

    /// Of version 1, as `openssl x509 -req -signkey` makes them without extensions; used nowhere else.
    const OF_VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBHTCBxQIURqC9cd2XNpa+3cLSzPnF3snl6V0wCgYIKoZIzj0EAwIwETEPMA0G
A1UEAwwGYS50ZXN0MCAXDTI2MTEyOTE5NDEzMFoYDzIxMDkwMTE4MTk0MTMwWjAR
MQ8wDQYDVQQDDAZhLnRlc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARFmM2r
ORwIE28veVRkVmXDKwv4EsEbh/D/gi7ZWSzBMLbby73MdZO9Yxt1ctgWpYJ+FF09
Ey1YwLyTaoLKchV4MAoGCCqGSM49BAMCA0cAMEQCIDQlB962FQDaxFsTq9wkKYh6
Fhq9es1Xf/WTVVMYGUovAiBq+53+0UhKrS3pdKdm0LkTmv50vuYgfrtxdIYy3yZD
Lg==
-----END CERTIFICATE-----
";
    const ITS_KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgVKvCRdEI45Do8s1D
AoQGGeBKhpE3yLMzn6Lxo7oKVAqhRANCAARFmM2rORwIE28veVRkVmXDKwv4EsEb
h/D/gi7ZWSzBMLbby73MdZO9Yxt1ctgWpYJ+FF09Ey1YwLyTaoLKchV4
-----END PRIVATE KEY-----
";

    #[test]
    fn a_certificate_of_version_1_is_called_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let [chain, key] = ["v1.pem", "v1.key"].map(|name| folder.path().join(name));
        fs::write(&chain, OF_VERSION_1).expect("our own folder");
        fs::write(&key, ITS_KEY).expect("our own folder");
        let fault = load(&chain, &key, &aws_lc_rs::default_provider()).expect_err("of version 1");
        let said = fault.to_string();
        assert!(said.contains("v1.pem: the first certificate is of version 1 of X.509"), "{said}");
    }
}
