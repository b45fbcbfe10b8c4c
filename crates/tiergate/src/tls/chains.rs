//! Chains that are served and are of no use to some clients, or are never served.

use super::files;
use super::names::ByName;
use crate::config::meant::Tls;
use rustls::crypto::aws_lc_rs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use x509_parser::prelude::{FromDer, ParsedExtension, X509Certificate};

/// What is to be said of a listener's certificates; nothing if they cannot be loaded, which is said elsewhere. Blocks on files.
pub(crate) fn warnings(settings: &Tls) -> Vec<String> {
    let provider = aws_lc_rs::default_provider();
    let load =
        |(chain, key): &(PathBuf, PathBuf)| files::load(chain, key, &provider).ok().map(Arc::new);
    let loaded = settings.certificates.iter().map(load).collect::<Option<Vec<_>>>();
    let Some(names) = loaded.and_then(ByName::new) else { return Vec::new() };
    let chains = || settings.certificates.iter().map(|(chain, _)| chain);
    let mut warnings: Vec<String> = chains().filter_map(|it| unsigned(it)).collect();
    warnings.extend(names.unserved().into_iter().filter_map(|place| {
        let (file, _) = settings.certificates.get(place)?;
        Some(format!(
            "{}: this certificate is never served: those before it have its names, and keys of the same kind; leave it out",
            file.display()
        ))
    }));
    warnings
}

/// Says which certificate of a chain signed none of those before it.
///
/// Source: RFC 8446 §4.4.2, "each following certificate SHOULD directly certify the one immediately preceding it".
pub(crate) fn unsigned(file: &Path) -> Option<String> {
    let chain = files::certificates(file).ok()?;
    let parsed = chain.iter().map(|it| Some(X509Certificate::from_der(it).ok()?.1));
    let parsed = parsed.collect::<Option<Vec<_>>>()?;
    // One that signed another than the last is there for clients that know another authority.
    let place = (1..parsed.len()).find(|at| {
        let before = &parsed[..*at];
        !before.iter().any(|it| may_have_signed(&parsed[*at], it))
    })?;
    let subject = parsed[place].subject();
    Some(format!(
        "{}: certificate {} in it ({subject}) did not sign the one before, and some clients refuse such a chain: put the server's own first, then the \
         one that signed it, and so on",
        file.display(),
        place + 1
    ))
}

/// Whether a certificate says of itself that it signed another one; the signature is not looked at.
///
/// Source: RFC 5280 §4.1.2.4 and §4.2.1.1.
fn may_have_signed(authority: &X509Certificate<'_>, signed: &X509Certificate<'_>) -> bool {
    let (subject, issuer) = (authority.subject(), signed.issuer());
    let is_named = subject.as_raw() == issuer.as_raw()
        // Names that are written in another way may be the same.
        || subject.to_string().eq_ignore_ascii_case(&issuer.to_string());
    let own_key = authority.extensions().iter().find_map(|it| match it.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(key) => Some(key.0),
        _ => None,
    });
    let asked_key = signed.extensions().iter().find_map(|it| match it.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(it) => Some(it.key_identifier.as_ref()?.0),
        _ => None,
    });
    let is_key = own_key.zip(asked_key).is_none_or(|(own, asked)| own == asked);
    is_named && is_key
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    use std::fs;

    /// An authority, signed by another one or by itself.
    fn authority(
        name: &str,
        by: Option<&Issuer<'_, KeyPair>>,
    ) -> (Certificate, Issuer<'static, KeyPair>) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([]).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.use_authority_key_identifier_extension = by.is_some();
        let made = match by {
            Some(by) => params.signed_by(&key, by),
            None => params.self_signed(&key),
        };
        (made.expect("good settings"), Issuer::new(params, key))
    }

    fn leaf(names: &[&str], by: &Issuer<'_, KeyPair>) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(|&it| it.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("good names");
        params.use_authority_key_identifier_extension = true;
        (params.signed_by(&key, by).expect("good settings"), key)
    }

    #[test]
    fn each_certificate_signed_the_one_before() {
        let (root, by_root) = authority("root", None);
        let (middle, by_middle) = authority("middle", Some(&by_root));
        let (crossed, _) = authority("crossed", None);
        // The same name and another key: one of before a renewal.
        let (former, _) = authority("middle", Some(&by_root));
        let (own, _) = leaf(&["a.test"], &by_middle);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("chain.pem");
        for (chain, expected) in [
            (&[&own][..], ""),
            (&[&own, &middle], ""),
            (&[&own, &middle, &root], ""),
            (&[&own, &middle, &middle], ""),
            (&[&own, &root, &middle], "certificate 2 in it (CN=root)"),
            (&[&own, &middle, &crossed], "certificate 3 in it (CN=crossed)"),
            (&[&own, &former], "certificate 2 in it (CN=middle)"),
        ] {
            let text: String = chain.iter().map(|it| it.pem()).collect();
            fs::write(&file, text).expect("our own folder");
            let said = unsigned(&file).unwrap_or_default();
            assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{said}");
        }
    }

    #[test]
    fn a_certificate_whose_names_others_have_is_never_served() {
        let (_, by) = authority("root", None);
        let folder = tempfile::tempdir().expect("a folder");
        let write =
            |(certificate, key): (Certificate, KeyPair), name: &str| -> (PathBuf, PathBuf) {
                let files = ["pem", "key"].map(|it| folder.path().join(name).with_extension(it));
                fs::write(&files[0], certificate.pem()).expect("our own folder");
                fs::write(&files[1], key.serialize_pem()).expect("our own folder");
                let [chain, key] = files;
                (chain, key)
            };
        let said = |certificates: &[&(PathBuf, PathBuf)]| {
            let certificates = certificates.iter().map(|it| (*it).clone()).collect();
            warnings(&Tls { certificates, client: None })
        };
        let both = write(leaf(&["a.test", "*.b.test"], &by), "both");
        let former = write(leaf(&["*.B.test", "a.test"], &by), "former");
        let one = write(leaf(&["a.test"], &by), "one");
        let below = write(leaf(&["x.b.test"], &by), "below");
        let further = write(leaf(&["a.test", "c.test"], &by), "further");
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).expect("a key");
        let names = CertificateParams::new(["a.test".to_owned()]).expect("good names");
        let made = names.signed_by(&key, &by).expect("good settings");
        let another_kind = write((made, key), "another_kind");
        for certificates in [
            &[&both][..],
            &[&one, &both],
            &[&both, &below, &further, &another_kind],
            &[&another_kind, &one],
        ] {
            assert_eq!(said(certificates), [""; 0]);
        }
        for (certificates, names) in [
            (&[&both, &former][..], &["/former.pem: this"][..]),
            (&[&both, &below, &one], &["/one.pem: this"]),
            (&[&one, &below, &both, &former, &one], &["/former.pem: this", "/one.pem: this"]),
        ] {
            let said = said(certificates);
            assert_eq!(said.len(), names.len(), "{said:?}");
            assert!(said.iter().zip(names).all(|(it, name)| it.contains(name)), "{said:?}");
        }
    }
}
