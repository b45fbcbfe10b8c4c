//! Of `tiergate check`: what a start opens, and what has to be right then: certificates, keys, the access log, addresses.

mod log_file;

use crate::config::meant::Policy;
use crate::config::{Fault, Step, place_of};
use crate::tls;
use crate::workers::program;
use log_file::unwritable;
use socket2::{Domain, Socket, Type};
use std::io::ErrorKind;
use std::net::SocketAddr;

/// What a start would end with.
pub(super) fn faults(policy: &Policy) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut report = |steps: &[Step], message: String| {
        faults.push(place_of(&policy.sources, steps).fault(message));
    };
    for (index, listener) in policy.listeners.iter().enumerate() {
        let Some(settings) = &listener.tls else { continue };
        if let Err(fault) = tls::server_config(settings, listener.http2) {
            let steps = [Step::Key("listener"), Step::Element(index), Step::Key("tls")];
            report(&steps, fault.to_string());
        }
    }
    for (index, origin) in std::iter::once(&policy.origin).chain(&policy.pools).enumerate() {
        let Some(settings) = &origin.tls else { continue };
        if let Err(fault) = tls::origin::client_config(settings, &[]) {
            let of_pool =
                [Step::Key("pool"), Step::Element(index.saturating_sub(1)), Step::Key("tls")];
            match index {
                0 => report(&[Step::Key("origin"), Step::Key("tls")], fault.to_string()),
                _ => report(&of_pool, fault.to_string()),
            }
        }
    }
    let log = policy.access_log.as_ref().and_then(|log| log.path.as_ref());
    if let Some(fault) = log.and_then(|path| unwritable(path)) {
        report(&[Step::Key("access_log"), Step::Key("path")], fault);
    }
    for (steps, fault) in unbindable(policy) {
        report(&steps, fault);
    }
    faults.extend(program::faults(policy, None));
    faults
}

/// Addresses on which this user's gateway cannot listen on this machine.
fn unbindable(policy: &Policy) -> Vec<(Vec<Step>, String)> {
    let listeners = policy.listeners.iter().enumerate().map(|(index, it)| {
        let steps = vec![Step::Key("listener"), Step::Element(index), Step::Key("address")];
        (steps, it.address)
    });
    let all = listeners.chain(policy.admin.map(|address| (vec![Step::Key("admin")], address)));
    all.filter_map(|(steps, address)| Some((steps, bind_fault(address)?))).collect()
}

/// Why an address cannot be bound; not that another process has it, which may be the gateway.
fn bind_fault(address: SocketAddr) -> Option<String> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).ok()?;
    socket.set_reuse_address(true).ok()?;
    let fault = socket.bind(&address.into()).err()?;
    let ip = address.ip();
    match fault.kind() {
        ErrorKind::AddrInUse => None,
        ErrorKind::AddrNotAvailable => {
            Some(format!("{ip} is none of this machine's addresses; `ip address` lists them"))
        }
        ErrorKind::PermissionDenied => Some(format!(
            "this user may not listen on port {}: give the gateway CAP_NET_BIND_SERVICE, or a port from 1024; where another user starts it or systemd \
             passes it the socket, check with --other-machine",
            address.port()
        )),
        _ => Some(format!("{ip} cannot be listened on: {fault}")),
    }
}
