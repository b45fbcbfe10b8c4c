//! Selects a certificate by the name that the client asks for (SNI).

use rustls::SignatureScheme;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::Arc;

/// What clients can offer of which servers' keys make use.
const SCHEMES: [SignatureScheme; 10] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA512,
];

/// Certificates by the names in them. One lookup by the name, one by the wildcard above it.
#[derive(Debug)]
pub(super) struct ByName {
    /// In the policy's order; never empty.
    certificates: Vec<Arc<CertifiedKey>>,
    /// Places in `certificates`, in the policy's order, by name (`a.test`, `*.test`). A name may have
    /// several, for example ECDSA and RSA.
    names: HashMap<String, Vec<usize>>,
}

impl ByName {
    /// `None` if there are no certificates.
    pub(super) fn new(certificates: Vec<Arc<CertifiedKey>>) -> Option<Self> {
        if certificates.is_empty() {
            return None;
        }
        let mut names: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, certificate) in certificates.iter().enumerate() {
            for name in names_of(certificate) {
                names.entry(name).or_default().push(place);
            }
        }
        Some(ByName { certificates, names })
    }

    /// The places of certificates that no client gets: each of their names has one before them that every client can use which could use them.
    pub(super) fn unserved(&self) -> Vec<usize> {
        let schemes = |place: usize| {
            let key = &self.certificates[place].key;
            SCHEMES.iter().map(|it| key.choose_scheme(&[*it]).is_some()).collect::<Vec<bool>>()
        };
        let schemes: Vec<Vec<bool>> = (0..self.certificates.len()).map(schemes).collect();
        let replaces = |before: usize, place: usize| {
            let mut both = schemes[before].iter().zip(&schemes[place]);
            before < place && both.all(|(before, own)| *before || !own)
        };
        let is_unserved = |place: &usize| {
            let mut own = self.names.values().filter(|places| places.contains(place));
            // Without a name, it is for clients that name none, as is the first.
            (0..*place).any(|before| replaces(before, *place))
                && own.all(|places| places.iter().any(|before| replaces(*before, *place)))
        };
        (0..self.certificates.len()).filter(is_unserved).collect()
    }

    /// The places of the certificates for a name: those that have it exactly come before wildcards.
    fn find<'n>(&'n self, name: &str) -> impl Iterator<Item = usize> + use<'n> {
        // rustls gives the name in lower case, without a dot at the end, and never one with `*`.
        let above = name.split_once('.').map(|(_, parent)| format!("*.{parent}"));
        let wildcard = above.and_then(|above| self.names.get(&above));
        self.names.get(name).into_iter().chain(wildcard).flatten().copied()
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().map(|name| self.find(name));
        let fits = |place: &usize| {
            let key = &self.certificates[*place].key;
            key.choose_scheme(hello.signature_schemes()).is_some()
        };
        // A client that asks for another name gets the first certificate, which tells it more than an
        // alert would.
        let place = named
            .and_then(|mut places| places.find(fits))
            .or_else(|| (0..self.certificates.len()).find(fits))?;
        Some(self.certificates[place].clone())
    }
}

fn names_of(certificate: &CertifiedKey) -> Vec<String> {
    let Ok(end_entity) = certificate.end_entity_cert() else {
        return Vec::new();
    };
    // A certificate without a subject alternative name serves as the default only: its common name
    // has not been looked at by any browser since 2017.
    match webpki::EndEntityCert::try_from(end_entity) {
        Ok(parsed) => parsed.valid_dns_names().map(str::to_ascii_lowercase).collect(),
        Err(_) => Vec::new(),
    }
}
