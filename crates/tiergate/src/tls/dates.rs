//! Certificates that have expired or are not valid yet. They are used all the same, since an old one is better than none; but the operator is
//! told, and a reload puts none in the place of one that is valid.

use super::files;
use crate::config::meant::{OriginTls, Policy, Tls};
use crate::startable::subject::{Subject, pool_tls};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use x509_parser::prelude::{FromDer, Validity, X509Certificate};

/// When the certificates that a policy names are valid. One that cannot be read is left out: a gateway does not start with it.
#[derive(Clone, Debug, Default)]
pub struct Dates(Vec<(Subject, Dated)>);

/// When a certificate is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Dated {
    /// What it is, such as `certificate of listener 127.0.0.1:443`.
    what: String,
    /// Which of several with that name.
    index: usize,
    file: PathBuf,
    /// Seconds of UNIX time, and how they are shown.
    begin: (i64, String),
    end: (i64, String),
    /// Whether handshakes fail without it: of an authority, only the certificates that it signs are looked at.
    is_own: bool,
}

impl Dates {
    /// Those of a policy's listeners and origins. Blocks on files.
    pub fn of(policy: &Policy) -> Self {
        let mut all = Vec::new();
        for (index, listener) in policy.listeners.iter().enumerate() {
            let Some(tls) = &listener.tls else { continue };
            let dates = of_listener(tls, &format!("listener {}", listener.shown()));
            all.extend(dates.into_iter().map(|it| (Subject::ListenerTls(index), it)));
        }
        let names = policy.plan.pools.iter().map(|pool| format!("pool {}", pool.name));
        let names = std::iter::once("origin".to_owned()).chain(names);
        let origins = std::iter::once(&policy.origin).chain(&policy.pools);
        for (index, (name, origin)) in names.zip(origins).enumerate() {
            let Some(tls) = &origin.tls else { continue };
            all.extend(of_origin(tls, &name).into_iter().map(|it| (pool_tls(index), it)));
        }
        Dates(all)
    }

    /// What is to be said now of those that are not valid.
    pub fn warnings(&self) -> Vec<String> {
        let now = now();
        let all = self.0.iter();
        all.filter_map(|(_, it)| Some(format!("{}: renew it", it.fault(now)?))).collect()
    }

    /// The first certificate that is not valid, in the place of one of the `former` policy that is.
    ///
    /// # Errors
    /// Which it is, and what to do about it.
    pub(crate) fn follow(&self, former: &Dates) -> Result<(), (Subject, String)> {
        let now = now();
        let former = || former.0.iter().map(|(_, it)| it);
        for (subject, it) in &self.0 {
            if !it.is_own || former().any(|old| old == it) {
                continue;
            }
            let replaces = |old: &&Dated| {
                old.what == it.what && (old.index == it.index || old.file == it.file)
            };
            let had_valid = former().filter(replaces).any(|old| old.fault(now).is_none());
            if let Some(fault) = it.fault(now).filter(|_| had_valid) {
                let message = format!("{fault}, and the one in force is valid: renew it");
                return Err((*subject, message));
            }
        }
        Ok(())
    }
}

impl Dated {
    /// Why it is not valid.
    fn fault(&self, now: i64) -> Option<String> {
        let (file, what) = (self.file.display(), &self.what);
        if self.end.0 < now {
            return Some(format!("{file}: the {what} expired on {}", self.end.1));
        }
        let is_early = self.begin.0 > now;
        is_early.then(|| format!("{file}: the {what} is not valid before {}", self.begin.1))
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn of_listener(tls: &Tls, whose: &str) -> Vec<Dated> {
    let chains = tls.certificates.iter().enumerate();
    let own = chains
        .filter_map(|(index, (chain, _))| own(chain, format!("certificate of {whose}"), index));
    let chains = tls.certificates.iter().enumerate();
    let further = chains.flat_map(|(index, (chain, _))| further(chain, whose, index));
    let ca = tls.client.iter().map(|it| &it.ca);
    let ca = ca.filter_map(|it| authority(it, format!("authority for clients of {whose}")));
    own.chain(further).chain(ca).collect()
}

fn of_origin(tls: &OriginTls, name: &str) -> Vec<Dated> {
    let identity = tls.identity.iter();
    let own = identity.filter_map(|(chain, _)| own(chain, format!("certificate for {name}"), 0));
    let further = tls.identity.iter().flat_map(|(chain, _)| further(chain, name, 0));
    let ca = tls.ca.iter();
    let ca = ca.filter_map(|it| authority(it, format!("authority for servers of {name}")));
    own.chain(further).chain(ca).collect()
}

/// The first of a chain, the own one.
fn own(file: &Path, what: String, index: usize) -> Option<Dated> {
    dated(file, what, index, true, |all| all.into_iter().next())
}

/// Those of a chain behind the own one: clients that need them take none that has expired.
fn further(file: &Path, whose: &str, index: usize) -> Vec<Dated> {
    let count = files::certificates(file).map_or(0, |it| it.len());
    let one = |place: usize| {
        let what = format!("authority of {whose} (certificate {} in its chain)", place + 1);
        dated(file, what, index, false, |all| all.into_iter().nth(place))
    };
    (1..count).filter_map(one).collect()
}

/// Of several authorities, the one that expires last.
fn authority(file: &Path, what: String) -> Option<Dated> {
    dated(file, what, 0, false, |all| all.into_iter().max_by_key(|it| it.not_after.timestamp()))
}

fn dated(
    file: &Path,
    what: String,
    index: usize,
    is_own: bool,
    pick: impl FnOnce(Vec<Validity>) -> Option<Validity>,
) -> Option<Dated> {
    let certificates = files::certificates(file).ok()?;
    let validity = |der: &[u8]| Some(X509Certificate::from_der(der).ok()?.1.validity().clone());
    let picked = pick(certificates.iter().filter_map(|it| validity(it)).collect())?;
    let shown = |at: x509_parser::time::ASN1Time| (at.timestamp(), at.to_string());
    let (begin, end) = (shown(picked.not_before), shown(picked.not_after));
    Some(Dated { what, index, file: file.to_owned(), begin, end, is_own })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dated(file: &str, index: usize, begin: i64, end: i64) -> Dated {
        let shown = |at: i64| (at, at.to_string());
        let what = "certificate of listener a".to_owned();
        let (file, is_own) = (file.into(), true);
        Dated { what, index, file, begin: shown(begin), end: shown(end), is_own }
    }

    #[test]
    fn a_chain_is_as_old_as_its_authorities() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("chain.pem");
        let pem = |end: i32| {
            let mut params = rcgen::CertificateParams::new(["a.test".to_owned()]).expect("a name");
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(end, 1, 1);
            let key = rcgen::KeyPair::generate().expect("a key");
            params.self_signed(&key).expect("good settings").pem()
        };
        std::fs::write(&file, [pem(4000), pem(4000), pem(2002)].concat()).expect("our own folder");
        let tls = Tls { certificates: vec![(file, "a.key".into())], client: None };
        let all = of_listener(&tls, "listener a");
        assert_eq!(all.len(), 3);
        let said: Vec<String> = all.iter().filter_map(|it| it.fault(now())).collect();
        let [said] = &said[..] else { panic!("{said:?}") };
        let words =
            "chain.pem: the authority of listener a (certificate 3 in its chain) expired on Jan  1";
        assert!(said.contains(words), "{said}");
    }

    #[test]
    fn no_expired_certificate_takes_the_place_of_a_valid_one() {
        let (valid, late) = (dated("a.pem", 0, 0, i64::MAX), dated("a.pem", 0, 0, 7));
        let early = dated("b.pem", 0, i64::MAX, i64::MAX);
        let subject = Subject::ListenerTls(0);
        let dates = |all: &[&Dated]| Dates(all.iter().map(|it| (subject, (*it).clone())).collect());
        let follows = |new: &[&Dated], old: &[&Dated]| dates(new).follow(&dates(old));
        assert_eq!(follows(&[&valid], &[&late]), Ok(()));
        assert_eq!(
            follows(&[&late], &[&valid]),
            Err((subject, "a.pem: the certificate of listener a expired on 7, and the one in force is valid: renew it".to_owned()))
        );
        assert!(follows(&[&early], &[&valid]).is_err(), "by its place");
        let moved = Dated { index: 3, ..late.clone() };
        assert!(follows(&[&valid, &moved], &[&valid]).is_err(), "by its file");
        // It has expired meanwhile, and a reload must remain possible.
        assert_eq!(follows(&[&late], &[&late]), Ok(()));
        assert_eq!(follows(&[&early], &[&late]), Ok(()));
        // A listener that is new has nothing better.
        assert_eq!(follows(&[&late], &[]), Ok(()));
        let authority = Dated { is_own: false, ..late.clone() };
        assert_eq!(follows(&[&authority], &[&Dated { is_own: false, ..valid }]), Ok(()));
        assert_eq!(
            dates(&[&late]).warnings(),
            ["a.pem: the certificate of listener a expired on 7: renew it"]
        );
    }
}
