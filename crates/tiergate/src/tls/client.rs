//! Certificates of clients: how they are verified, and the name in them.

use super::error::TlsError;
use super::files;
use super::revocation;
use crate::config::meant::{ClientAuthority, ClientCertificate};
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use std::sync::Arc;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Longest name that rules see; a longer one is left out.
const NAME_LEN_MAX: usize = 256;

/// What checks clients' certificates. Reads files.
///
/// With revocation lists, a certificate of a client's chain does not verify if it is on a list, or if its
/// authority has no list or only an expired one (RFC 5280 §6.3.3, "UNDETERMINED").
///
/// # Errors
/// If the authorities or the lists cannot be used.
pub(super) fn verifier(
    authority: &ClientAuthority,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let rejected = |error: String| {
        let what = format!(
            "an authority for clients cannot be used ({error}); expected the certificates that sign \
             those of the clients"
        );
        TlsError::of(&authority.ca, what)
    };
    let mut roots = RootCertStore::empty();
    for certificate in files::certificates(&authority.ca)? {
        roots.add(certificate).map_err(|error| rejected(error.to_string()))?;
    }
    let lists = revocation::load(&authority.revoked)?;
    let mut builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    if !lists.is_empty() {
        builder = builder.with_crls(lists).enforce_revocation_expiration();
    }
    let builder = match authority.certificate {
        ClientCertificate::Optional => builder.allow_unauthenticated(),
        ClientCertificate::Required => builder,
    };
    builder.build().map_err(|error| rejected(error.to_string()))
}

/// The name in a certificate that was verified: of its alternative names the first DNS name, else the
/// first email address, else the first URI; without any, the last common name of its subject. DNS names
/// in lower case. `None`: it has none, or none that could stand in a policy.
pub(super) fn name(certificate: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let alternative = certificate.subject_alternative_name().ok()?;
    let names = alternative.map_or(&[][..], |names| &names.value.general_names);
    // Of several with the least rank, `min_by_key` gives the first.
    let ranked = names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((0, name.to_ascii_lowercase())),
        GeneralName::RFC822Name(name) => Some((1, (*name).to_owned())),
        GeneralName::URI(name) => Some((2, (*name).to_owned())),
        _ => None,
    });
    let name = ranked.min_by_key(|(rank, _)| *rank).map(|(_, name)| name).or_else(|| {
        let last = certificate.subject().iter_common_name().last()?;
        last.as_str().ok().map(ToOwned::to_owned)
    });
    name.filter(|name| {
        !name.is_empty() && name.len() <= NAME_LEN_MAX && !name.chars().any(char::is_control)
    })
}
