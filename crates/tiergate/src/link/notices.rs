//! What the kernel tells of queues that change, unasked: a shaper's new rate need not wait until it is read again.

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use std::io;
use tokio::net::UdpSocket;

/// The group that is told of queues and classes: `RTNLGRP_TC`, the fourth.
const QUEUES: u32 = 1 << 3;
/// Notices that are forgotten at once; a socket holds fewer.
const CLEARED_MAX: usize = 10_000;

/// Notices of queues that have changed, in the network namespace of the thread that asked for them.
#[derive(Debug)]
pub(super) struct Notices {
    /// Of netlink: the runtime has no type for that, and to be told when something is there to be received, any socket of datagrams does.
    socket: UdpSocket,
}

impl Notices {
    /// Asks for them. Needs no right.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn subscribe() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // The first protocol, that of routes and queues, is none.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, QUEUES))?;
        Ok(Notices { socket: UdpSocket::from_std(socket.into())? })
    }

    /// Waits until a queue has changed, of whichever interface.
    pub(super) async fn changed(&self) {
        // An error means that the program ends.
        let _ = self.socket.readable().await;
    }

    /// Forgets those that have come.
    pub(super) fn clear(&self) {
        let mut beginning = [0; 1];
        for _ in 0..CLEARED_MAX {
            let Err(error) = self.socket.try_recv(&mut beginning) else { continue };
            // There were more than the socket holds: said once.
            if error.raw_os_error() != Some(Errno::NOBUFS.raw_os_error()) {
                break;
            }
        }
    }
}
