//! Of `tiergate check`: what a start opens, and what has to be right then: certificates, keys, the access log, addresses.

use crate::config::meant::Policy;
use crate::config::{Fault, Step, place_of};
use crate::tls;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

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
    faults
}

/// Addresses on which no gateway can listen on this machine.
fn unbindable(policy: &Policy) -> Vec<(Vec<Step>, String)> {
    let listeners = policy.listeners.iter().enumerate().map(|(index, it)| {
        let steps = vec![Step::Key("listener"), Step::Element(index), Step::Key("address")];
        (steps, it.address)
    });
    let all = listeners.chain(policy.admin.map(|address| (vec![Step::Key("admin")], address)));
    let foreign = all.filter(|(_, address)| is_foreign(*address));
    let fault = |(steps, address): (_, SocketAddr)| {
        let ip = address.ip();
        (steps, format!("{ip} is none of this machine's addresses; `ip address` lists them"))
    };
    foreign.map(fault).collect()
}

/// Whether it is an address of another machine.
fn is_foreign(mut address: SocketAddr) -> bool {
    address.set_port(0);
    UdpSocket::bind(address).is_err_and(|fault| fault.kind() == ErrorKind::AddrNotAvailable)
}

/// Why nothing can be appended to a file, which need not be there yet.
fn unwritable(path: &Path) -> Option<String> {
    let shown = path.display();
    if path.is_dir() {
        return Some(format!("{shown} is a directory: name a file in it"));
    }
    if path.metadata().is_ok_and(|it| it.file_type().is_socket()) {
        return Some(format!("{shown} is a socket: name a file"));
    }
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (what, flags) = match path.exists() {
        true => (path, Access::WRITE_OK),
        false => (folder, Access::WRITE_OK | Access::EXEC_OK),
    };
    let fault = access(what, flags).err()?;
    let how = match fault {
        Errno::NOENT | Errno::NOTDIR => "make this directory",
        _ => "let this user write there",
    };
    Some(format!(
        "{shown} cannot be written: {}: {}; {how}",
        what.display(),
        std::io::Error::from(fault)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_needs_a_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let said = |name: &str| unwritable(&folder.path().join(name)).unwrap_or_default();
        assert_eq!(said("new.log"), "");
        assert!(!folder.path().join("new.log").exists(), "looking makes nothing");
        assert!(
            said("missing/new.log").ends_with("make this directory"),
            "{}",
            said("missing/new.log")
        );
        assert!(said("").contains("is a directory"));
    }
}
