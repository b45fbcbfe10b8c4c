//! What a start opens, and a reload: certificates, keys, the access log, addresses. What is said where that fails is said here, with its
//! line in the policy: by the start, by the reload, and by `tiergate check` beforehand.

mod address;
mod holder;
mod log_file;
mod own_server;
pub(crate) mod subject;
mod unix_servers;

use crate::config::meant::{Listener, Policy};
use crate::config::{Errors, Fault, Sources, place_of};
use crate::kernel;
use crate::origin::pools::OriginFault;
use crate::tls;
use crate::workers::program;
pub(crate) use address::cannot_listen;
use address::{Verdict, Wanted, judge};
pub(crate) use holder::Protocol;
pub(crate) use log_file::cannot_log;
use log_file::unwritable;
use own_server::own_servers;
use std::path::Path;
pub(crate) use subject::Subject;
use subject::pool_tls;

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

/// Refuses a policy of which the only listener would get the requests for a server; of one of several, it warns.
///
/// # Errors
/// What is wrong, with its line.
pub(crate) fn not_itself(policy: &Policy) -> Result<(), String> {
    let found = own_servers(policy).into_iter();
    let mut said = found.map(|(what, message)| wrong(&policy.sources, what, message));
    if policy.listeners.len() == 1 {
        return said.next().map_or(Ok(()), Err);
    }
    said.for_each(|it| tracing::warn!("{it}"));
    Ok(())
}

/// What a start would end with, and what it may end with: faults and warnings.
pub(crate) fn look(policy: &Policy) -> (Vec<Fault>, Vec<String>) {
    let (mut faults, mut warnings) = (Vec::new(), Vec::new());
    let at = |what: Subject, message| place_of(&policy.sources, &what.steps()).fault(message);
    for (index, listener) in policy.listeners.iter().enumerate() {
        let Some(settings) = &listener.tls else { continue };
        if let Err(fault) = tls::server_config(settings, listener.http2) {
            faults.push(at(Subject::ListenerTls(index), fault.to_string()));
        }
        let of_chains = tls::chains::warnings(settings).into_iter();
        let what = Subject::ListenerTls(index);
        warnings.extend(of_chains.map(|it| wrong(&policy.sources, what, it)));
    }
    for (index, origin) in std::iter::once(&policy.origin).chain(&policy.pools).enumerate() {
        let Some(settings) = &origin.tls else { continue };
        if let Err(fault) = tls::origin::client_config(settings, &[]) {
            faults.push(at(pool_tls(index), fault.to_string()));
        }
        let own = settings.identity.as_ref().and_then(|(chain, _)| tls::chains::unsigned(chain));
        warnings.extend(own.map(|it| wrong(&policy.sources, pool_tls(index), it)));
    }
    let log = policy.access_log.as_ref().and_then(|log| log.path.as_ref());
    if let Some(fault) = log.and_then(|path| unwritable(path)) {
        faults.push(at(Subject::AccessLog, fault));
    }
    // One of several listeners may be where it belongs: requests of the others.
    let is_wrong = policy.listeners.len() == 1;
    for (what, message) in own_servers(policy) {
        match is_wrong {
            true => faults.push(at(what, message)),
            false => warnings.push(wrong(&policy.sources, what, message)),
        }
    }
    for (what, verdict) in addresses(policy) {
        match verdict {
            Verdict::Fault(fault) => faults.push(at(what, fault)),
            Verdict::Warning(why) => warnings.push(wrong(&policy.sources, what, why)),
        }
    }
    warnings.extend(policy.kernel.iter().flat_map(kernel::missing_words));
    warnings.extend(unix_servers::warnings(policy));
    warnings.extend(policy.kernel.iter().flat_map(kernel::carried_words));
    faults.extend(program::faults(policy, None));
    (faults, warnings)
}

/// What is to be said of the addresses at which this user's gateway listens on this machine.
fn addresses(policy: &Policy) -> Vec<(Subject, Verdict)> {
    let file = policy.sources.files.first().map(|it| Path::new(&*it.name));
    let judged = |address, protocol, only_v6, share| {
        judge(Wanted { address, protocol, only_v6, share }, file)
    };
    let of_listener = |(index, it): (usize, &Listener)| {
        let tcp = judged(it.address, Protocol::Tcp, it.only_v6, it.share_port);
        let udp = || it.http3.then(|| judged(it.address, Protocol::Udp, it.only_v6, false))?;
        Some((Subject::Listener(index), tcp.or_else(udp)?))
    };
    let admin = |address| Some((Subject::Admin, judged(address, Protocol::Tcp, false, false)?));
    let listeners = policy.listeners.iter().enumerate().filter_map(of_listener);
    listeners.chain(policy.admin.and_then(admin)).collect()
}
