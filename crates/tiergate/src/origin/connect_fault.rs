//! Whose fault it is that a connection to a server could not be opened.

use super::http2::failure::{Anothers, NoPlace};
use crate::tls::origin::TlsFailed;
use std::io;

/// What the system says of a connection that could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectFault {
    /// The server's: it refuses, does not answer, is not there.
    Servers(&'static str),
    /// Neither's: the server served others, but its listen queue stayed full.
    Full,
    /// The gateway's: it has as many requests there over HTTP/2 as it may have connections for.
    NoPlace,
    /// The gateway's: it lacks descriptors, ports or memory. Says nothing about the server.
    Ours(&'static str),
}

impl ConnectFault {
    /// What an error means.
    pub fn of(error: &io::Error) -> Self {
        use ConnectFault::{Full, Ours, Servers};
        if is_full(error) {
            return Full;
        }
        let inner = error.get_ref();
        if inner.is_some_and(|inner| inner.is::<NoPlace>()) {
            return ConnectFault::NoPlace;
        }
        if let Some(Anothers(failure)) = inner.and_then(|inner| inner.downcast_ref()) {
            return ConnectFault::of(&failure.error());
        }
        if let Some(TlsFailed(fault)) = inner.and_then(|inner| inner.downcast_ref()) {
            return Servers(fault.why());
        }
        match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => {
                return Ours("the gateway has no file descriptor left");
            }
            Some(libc::EADDRNOTAVAIL) => return Ours("the gateway has no local port left"),
            Some(libc::ENOMEM | libc::ENOBUFS) => return Ours("the gateway has no memory left"),
            Some(libc::EACCES | libc::EPERM) => return Servers("connecting is not permitted"),
            _ => {}
        }
        Servers(match error.kind() {
            io::ErrorKind::ConnectionRefused => "connection refused",
            io::ErrorKind::TimedOut => "connecting timed out",
            io::ErrorKind::NotFound => "no such address, or its name is not resolved",
            io::ErrorKind::ConnectionReset => "connection reset while connecting",
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                "no route to the server"
            }
            _ => "connecting failed",
        })
    }
}

/// Whether it is of a connection that another request had opened: that request reports it.
pub fn is_anothers(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Anothers>())
}

/// Whether the listen queue of a UNIX socket has no room.
pub fn is_full(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EAGAIN)
}

/// Whether it was known at once that nobody listens, as while a server restarts.
pub fn is_refused(error: &io::Error) -> bool {
    let refusals = [libc::ECONNREFUSED, libc::ECONNRESET, libc::ENOENT];
    error.raw_os_error().is_some_and(|errno| refusals.contains(&errno))
}
