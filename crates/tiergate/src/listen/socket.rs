//! Listening sockets, and what a policy wants of them.

use crate::config::meant::Listener;
use crate::{defer_accept, demux, saved_syn};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::Arc;
use tiergate_core::demux::Instruction;

/// Connections that may wait to be accepted; the system bounds it by `somaxconn`.
pub(super) const BACKLOG: i32 = 4096;

/// What a policy wants of a listening socket: it is the reload's to say, and the socket's task to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The code point of clients' packets.
    pub dscp: bool,
    /// Connections with their first data only, because the kernel judges first requests.
    pub deferred: bool,
}

/// What picks one of the sockets of an address for a connection; `None`: the kernel, in its own way. The reload's to say, and one socket's task to follow.
pub type Program = Option<Arc<[Instruction]>>;

/// As many sockets as asked for that listen together where a listener does. If that shares its port, also with those of other
/// processes, which share it as well; otherwise it is an error if any listens there.
///
/// # Errors
/// What the system says.
pub fn bind(listener: &Listener, count: usize) -> io::Result<Vec<TcpListener>> {
    (0..count).map(|place| bind_one(listener, listener.share_port || place > 0)).collect()
}

fn bind_one(listener: &Listener, share: bool) -> io::Result<TcpListener> {
    let address = listener.address;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if listener.only_v6 {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(share)?;
    socket.set_nonblocking(true)?;
    // Accepted connections inherit it.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    // The port is ours now; the other threads may share it.
    socket.set_reuse_port(true)?;
    Ok(socket.into())
}

/// Has the kernel pick the socket of a connection by a program, or in its own way.
pub fn demultiplex(listener: &impl AsFd, program: Option<&[Instruction]>) {
    let Some(program) = program else { return demux::detach(listener) };
    if let Err(error) = demux::attach(listener, program) {
        // Rather none than one of a former policy.
        demux::detach(listener);
        tracing::warn!(
            %error,
            "connections of lanes are accepted by all threads and handed over: the kernel takes no program that picks the thread (net.core.optmem_max bounds its length)"
        );
    }
}

/// Sets a listening socket as it is wanted, whatever it was before: whether the system keeps SYNs.
pub(super) fn want(listener: &impl AsFd, wanted: Wanted) -> bool {
    if let Err(error) = defer_accept::set(listener, wanted.deferred) {
        // Connections are accepted and judged all the same.
        tracing::debug!(%error, "TCP_DEFER_ACCEPT");
    }
    keep_syns(listener, wanted.dscp)
}

/// Has the system keep SYNs if their code points are wanted, and else not: whether it does.
fn keep_syns(listener: &impl AsFd, wanted: bool) -> bool {
    match saved_syn::keep(listener, wanted) {
        Ok(()) => wanted,
        Err(error) => {
            if wanted {
                tracing::warn!(%error, "code points of clients' packets stay unknown");
            }
            false
        }
    }
}
