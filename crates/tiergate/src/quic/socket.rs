//! UDP sockets that share an address.

use super::steer;
use crate::demux;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Bytes that may wait in the kernel for a thread: some ten milliseconds of a busy link. The system bounds it by
/// `net.core.rmem_max`.
const RECEIVE_BUFFER: usize = 2 << 20;

/// As many UDP sockets as asked for on `address`, of which the kernel picks one for each packet by the connection's id. It is an
/// error if another process has one there. `only_v6`: none of IPv4.
///
/// # Errors
/// What the system says.
pub fn bind(address: SocketAddr, count: usize, only_v6: bool) -> io::Result<Vec<UdpSocket>> {
    let mut sockets: Vec<UdpSocket> = Vec::with_capacity(count);
    for place in 0..count {
        // An address with port 0 is that of the first.
        let address = sockets.first().map_or(Ok(address), UdpSocket::local_addr)?;
        sockets.push(bind_one(address, place > 0, only_v6)?);
    }
    if let [first, _, ..] = &sockets[..] {
        demux::attach(first, &steer::program(count))?;
    }
    Ok(sockets)
}

fn bind_one(address: SocketAddr, share: bool, only_v6: bool) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if only_v6 {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_port(share)?;
    socket.set_nonblocking(true)?;
    // The default will do where the system allows no more.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    socket.bind(&address.into())?;
    // The port is ours now; the other threads may share it.
    socket.set_reuse_port(true)?;
    Ok(socket.into())
}

/// Whether an address could not be bound because another socket has it.
pub fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrInUse
}
