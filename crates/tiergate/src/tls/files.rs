//! Certificates and keys from PEM files.

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error as RustlsError, InconsistentKeys};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why there is no TLS configuration. Says what to do.
#[derive(Debug)]
pub enum TlsError {
    /// The policy names no certificate.
    NoCertificates,
    /// A file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// A file is not PEM.
    Malformed(PathBuf, pem::Error),
    /// There is no certificate in the file; `true`: but a key.
    NoCertificate(PathBuf, bool),
    /// There is no key in the file; `true`: but a certificate.
    NoKey(PathBuf, bool),
    /// The key is protected by a passphrase.
    Encrypted(PathBuf),
    /// The key is of a kind that is not supported.
    KeyRejected(PathBuf, RustlsError),
    /// The first certificate of the file cannot be used.
    CertificateRejected(PathBuf, String),
    /// The first certificate of the first file is not for the key in the second.
    Mismatch(PathBuf, PathBuf),
    /// A certificate of the file cannot be an authority for clients.
    AuthorityRejected(PathBuf, String),
    /// There is no revocation list in the file.
    NoRevocationList(PathBuf),
    /// A revocation list of the file cannot be used.
    RevocationListRejected(PathBuf, String),
    /// A revocation list of the file has run out; since when.
    RevocationListExpired(PathBuf, String),
    /// The system gives no randomness for the keys of tickets.
    Tickets(RustlsError),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::NoCertificates => f.write_str("name at least one certificate and its key"),
            TlsError::Unreadable(file, error) => {
                let file = file.display();
                match error.kind() {
                    io::ErrorKind::NotFound => {
                        write!(f, "{file}: not found; check the path")
                    }
                    io::ErrorKind::PermissionDenied => {
                        write!(f, "{file}: may not be read; let this user read it")
                    }
                    _ => write!(f, "{file}: cannot be read: {error}"),
                }
            }
            TlsError::Malformed(file, error) => write!(
                f,
                "{}: not a PEM file ({error}); convert it, for example with openssl",
                file.display()
            ),
            TlsError::NoCertificate(file, false) => write!(
                f,
                "{}: no certificate in it; expected -----BEGIN CERTIFICATE-----",
                file.display()
            ),
            TlsError::NoCertificate(file, true) => write!(
                f,
                "{}: a private key where the certificate should be; are the two swapped?",
                file.display()
            ),
            TlsError::NoKey(file, false) => write!(
                f,
                "{}: no private key in it; expected -----BEGIN PRIVATE KEY-----",
                file.display()
            ),
            TlsError::NoKey(file, true) => write!(
                f,
                "{}: a certificate where the private key should be; are the two swapped?",
                file.display()
            ),
            TlsError::Encrypted(file) => write!(
                f,
                "{}: the key is encrypted and nobody is there to type the passphrase; \
                 decrypt it with `openssl pkey -in … -out …`",
                file.display()
            ),
            TlsError::KeyRejected(file, error) => write!(
                f,
                "{}: this key cannot be used ({error}); make an ECDSA (P-256, P-384), Ed25519 or \
                 RSA key",
                file.display()
            ),
            TlsError::CertificateRejected(file, error) => write!(
                f,
                "{}: the first certificate cannot be used ({error}); the server's own comes first, \
                 then what signed it",
                file.display()
            ),
            TlsError::Mismatch(chain, key) => write!(
                f,
                "{}: not the key of the first certificate in {}; the server's own certificate \
                 comes first, then what signed it",
                key.display(),
                chain.display()
            ),
            TlsError::AuthorityRejected(file, error) => write!(
                f,
                "{}: an authority for clients cannot be used ({error}); expected the certificates \
                 that sign those of the clients",
                file.display()
            ),
            TlsError::NoRevocationList(file) => write!(
                f,
                "{}: no revocation list in it; expected -----BEGIN X509 CRL-----, which \
                 `openssl crl -inform DER -in … -out …` makes of a binary one",
                file.display()
            ),
            TlsError::RevocationListRejected(file, error) => write!(
                f,
                "{}: this revocation list cannot be used ({error}); get it anew from the authority \
                 that signs the clients' certificates",
                file.display()
            ),
            TlsError::RevocationListExpired(file, since) => write!(
                f,
                "{}: this revocation list has run out ({since}), so that no client could be let in; \
                 get the next one from its authority",
                file.display()
            ),
            TlsError::Tickets(error) => write!(f, "no keys for session tickets: {error}"),
        }
    }
}

impl std::error::Error for TlsError {}

/// Loads a certificate chain and its key, and checks that they belong together.
pub(super) fn load(
    chain_file: &Path,
    key_file: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(chain_file)?;
    let key = private_key(key_file)?;
    let key = provider
        .key_provider
        .load_private_key(key)
        .map_err(|error| TlsError::KeyRejected(key_file.to_owned(), error))?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) | Err(RustlsError::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(RustlsError::InconsistentKeys(_)) => {
            Err(TlsError::Mismatch(chain_file.to_owned(), key_file.to_owned()))
        }
        Err(error) => Err(TlsError::CertificateRejected(chain_file.to_owned(), error.to_string())),
    }
}

pub(super) fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(file).map_err(|error| TlsError::Unreadable(file.to_owned(), error))
}

pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(file)?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsError::Malformed(file.to_owned(), error))?;
    if chain.is_empty() {
        let has_key = PrivateKeyDer::from_pem_slice(&text).is_ok();
        return Err(TlsError::NoCertificate(file.to_owned(), has_key));
    }
    Ok(chain)
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(file)?;
    match PrivateKeyDer::from_pem_slice(&text) {
        // The old form of encryption keeps the usual name and says so in a line below it, where
        // base64 is expected.
        _ if is_encrypted(&text) => Err(TlsError::Encrypted(file.to_owned())),
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) => {
            let has_certificate = CertificateDer::from_pem_slice(&text).is_ok();
            Err(TlsError::NoKey(file.to_owned(), has_certificate))
        }
        Err(error) => Err(TlsError::Malformed(file.to_owned(), error)),
    }
}

fn is_encrypted(text: &[u8]) -> bool {
    let says = |words: &[u8]| memchr::memmem::find(text, words).is_some();
    says(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || says(b"Proc-Type: 4,ENCRYPTED")
}
