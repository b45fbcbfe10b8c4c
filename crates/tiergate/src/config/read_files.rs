//! The files that a policy reads: none of them may be written, as the access log is.

use super::meant::{Measure, Origin, Policy};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a file is to a policy that reads it, by whatever name: a link to one of the policy's is that file, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// The policy's own, or one that it includes.
    Source,
    /// A certificate, a key, a page, or whatever else the policy names.
    Named,
}

/// Whether a policy reads the file, and as what. Blocks on files; of those that are not there, none is it.
pub(super) fn is_read(file: &Path, policy: &Policy) -> Option<Read> {
    let identity = |path: &Path| fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    let asked = identity(file)?;
    let is = |path: &Path| identity(path) == Some(asked);
    if policy.sources.files.iter().any(|it| is(Path::new(&*it.name))) {
        return Some(Read::Source);
    }
    let whole = policy.observed.as_deref();
    let mut all = std::iter::once(policy).chain(whole).flat_map(named);
    all.any(|path| is(&path)).then_some(Read::Named)
}

/// The files that a policy names.
fn named(policy: &Policy) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = policy.redaction.files.clone();
    for tls in policy.listeners.iter().filter_map(|it| it.tls.as_ref()) {
        all.extend(tls.certificates.iter().flat_map(|(chain, key)| [chain.clone(), key.clone()]));
        if let Some(client) = &tls.client {
            all.push(client.ca.clone());
            all.extend(client.revoked.iter().cloned());
        }
    }
    for origin in std::iter::once(&policy.origin).chain(&policy.pools) {
        all.extend(of_origin(origin));
    }
    let identity = &policy.identity;
    let token = identity.token.iter().flat_map(|it| [&it.secrets, &it.public_keys, &it.jwks]);
    let files = identity.keys.iter().map(|it| &it.file).chain(token.flatten());
    let files = files.chain(&identity.geo).chain(&policy.admin_token_file);
    let files = files.chain(policy.session.iter().filter_map(|it| it.secret_file.as_ref()));
    let agents = policy.sensors.iter().filter_map(|it| match &it.measure {
        Measure::Agent(agent) => agent.token_file.as_ref(),
        _ => None,
    });
    let denials = policy.rules.iter().filter_map(|it| it.denial.as_ref()?.page.as_ref());
    all.extend(files.chain(agents).chain(denials).map(|it| it.path.clone()));
    all.extend(policy.refusal_page.clone());
    all
}

fn of_origin(origin: &Origin) -> Vec<PathBuf> {
    let tls = origin.tls.iter();
    let identity = tls.clone().filter_map(|it| it.identity.as_ref());
    let identity = identity.flat_map(|(chain, key)| [chain, key]);
    tls.filter_map(|it| it.ca.as_ref()).chain(identity).cloned().collect()
}
