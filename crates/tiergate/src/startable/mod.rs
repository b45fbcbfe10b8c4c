//! What a start opens, and a reload: certificates, keys, the access log, addresses. What is said where that fails is said here, with its
//! line in the policy: by the start, by the reload, and by `tiergate check` beforehand.

mod address;
mod holder;
mod log_file;

use crate::config::meant::{Listener, Policy};
use crate::config::{Errors, Fault, Sources, Step, place_of};
use crate::kernel;
use crate::origin::pools::OriginFault;
use crate::tls;
use crate::workers::program;
pub(crate) use address::cannot_listen;
use address::{Verdict, judge};
pub(crate) use holder::Protocol;
pub(crate) use log_file::cannot_log;
use log_file::unwritable;

/// What of a policy cannot be opened. The numbers are places in the policy's lists, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The certificates and keys of a listener.
    ListenerTls(usize),
    /// The files for TLS to the servers of the default pool.
    OriginTls,
    /// The same of another pool.
    PoolTls(usize),
    /// The address of a listener.
    Listener(usize),
    /// The address of metrics and status.
    Admin,
    /// The file of the access log.
    AccessLog,
}

impl Subject {
    /// The keys that lead to it.
    fn steps(self) -> Vec<Step> {
        let of = |list, index, key| vec![Step::Key(list), Step::Element(index), Step::Key(key)];
        match self {
            Subject::ListenerTls(index) => of("listener", index, "tls"),
            Subject::OriginTls => vec![Step::Key("origin"), Step::Key("tls")],
            Subject::PoolTls(index) => of("pool", index, "tls"),
            Subject::Listener(index) => of("listener", index, "address"),
            Subject::Admin => vec![Step::Key("admin")],
            Subject::AccessLog => vec![Step::Key("access_log"), Step::Key("path")],
        }
    }
}

/// What is said of a policy that cannot be put in force because of one thing in it; without file and line if it is of no file.
pub(crate) fn wrong(sources: &Sources, what: Subject, message: String) -> String {
    let Some(first) = sources.files.first() else { return message };
    let fault = place_of(sources, &what.steps()).fault(message);
    Errors { file: first.name.to_string(), faults: vec![fault], more: 0 }.to_string()
}

/// The same of servers that cannot be used.
pub(crate) fn wrong_origin(sources: &Sources, fault: &OriginFault) -> String {
    match fault {
        OriginFault::Tls { index, error } => wrong(sources, pool_tls(*index), error.to_string()),
        OriginFault::Servers(_) => fault.to_string(),
    }
}

/// What a start would end with, and what it may end with: faults and warnings.
pub(crate) fn look(policy: &Policy) -> (Vec<Fault>, Vec<String>) {
    let mut faults = Vec::new();
    let at = |what: Subject, message| place_of(&policy.sources, &what.steps()).fault(message);
    for (index, listener) in policy.listeners.iter().enumerate() {
        let Some(settings) = &listener.tls else { continue };
        if let Err(fault) = tls::server_config(settings, listener.http2) {
            faults.push(at(Subject::ListenerTls(index), fault.to_string()));
        }
    }
    for (index, origin) in std::iter::once(&policy.origin).chain(&policy.pools).enumerate() {
        let Some(settings) = &origin.tls else { continue };
        if let Err(fault) = tls::origin::client_config(settings, &[]) {
            faults.push(at(pool_tls(index), fault.to_string()));
        }
    }
    let log = policy.access_log.as_ref().and_then(|log| log.path.as_ref());
    if let Some(fault) = log.and_then(|path| unwritable(path)) {
        faults.push(at(Subject::AccessLog, fault));
    }
    let mut warnings = Vec::new();
    for (what, verdict) in addresses(policy) {
        match verdict {
            Verdict::Fault(fault) => faults.push(at(what, fault)),
            Verdict::Warning(why) => warnings.push(wrong(&policy.sources, what, why)),
        }
    }
    warnings.extend(policy.kernel.iter().flat_map(kernel::carried_words));
    faults.extend(program::faults(policy, None));
    (faults, warnings)
}

/// The files for TLS to servers; `index`: 0 is the default pool, the others are behind it.
fn pool_tls(index: usize) -> Subject {
    index.checked_sub(1).map_or(Subject::OriginTls, Subject::PoolTls)
}

/// What is to be said of the addresses at which this user's gateway listens on this machine.
fn addresses(policy: &Policy) -> Vec<(Subject, Verdict)> {
    let of_listener = |(index, it): (usize, &Listener)| {
        let tcp = judge(it.address, Protocol::Tcp, it.only_v6, it.share_port);
        let udp = || it.http3.then(|| judge(it.address, Protocol::Udp, it.only_v6, false))?;
        Some((Subject::Listener(index), tcp.or_else(udp)?))
    };
    let admin = |address| Some((Subject::Admin, judge(address, Protocol::Tcp, false, false)?));
    let listeners = policy.listeners.iter().enumerate().filter_map(of_listener);
    listeners.chain(policy.admin.and_then(admin)).collect()
}
