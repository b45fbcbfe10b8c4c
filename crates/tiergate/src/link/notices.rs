//! What the kernel tells of queues that change, unasked: a shaper's new rate need not wait until it is read again.

use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use std::io;
use std::ops::RangeInclusive;
use tokio::net::UdpSocket;

/// The group that is told of queues and classes: `RTNLGRP_TC`, the fourth.
const QUEUES: u32 = 1 << 3;
/// Notices that are forgotten at once; a socket holds fewer.
const CLEARED_MAX: usize = 10_000;

/// Bytes of a notice that say what it is of: a message's head, of 16 bytes, with its kind after the first four, and the interface's number as
/// the second word after it. Where one queue takes the place of another, two messages come at once, of the same interface.
const BEGINNING: usize = 24;

/// Kinds of messages on queues and classes: `RTM_NEWQDISC` to `RTM_GETTCLASS`. The others are on filters.
const OF_QUEUES: RangeInclusive<u16> = 36..=42;

/// The number of the interface of whose queues a notice is.
fn interface_of(notice: &[u8]) -> Option<u32> {
    let kind = notice.get(4..6)?.try_into().ok().map(u16::from_ne_bytes)?;
    let interface = notice.get(20..BEGINNING)?.try_into().ok().map(u32::from_ne_bytes);
    interface.filter(|_| OF_QUEUES.contains(&kind))
}

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

    /// Waits until a queue of that interface has changed, or of one that is not there any more.
    pub(super) async fn changed(&self, interface: &str) {
        let mut notice = [0; BEGINNING];
        loop {
            // An error means that there were more than the socket holds.
            let Ok(len) = self.socket.recv(&mut notice).await else { return };
            let index = self.index_of(interface);
            if index.is_none() || interface_of(&notice[..len]) == index {
                return;
            }
        }
    }

    fn index_of(&self, interface: &str) -> Option<u32> {
        name_to_index(&self.socket, interface).ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_notice_says_of_the_queues_of_which_interface_it_is() {
        // RTM_NEWTCLASS, of the interface 7: a message of 200 bytes, without flags.
        let mut notice = [[200, 0, 0, 0], [40, 0, 0, 0], [0; 4], [0; 4], [0; 4], [0; 4]].concat();
        notice[20..].copy_from_slice(&7_u32.to_ne_bytes());
        assert_eq!(interface_of(&notice), Some(7));
        assert_eq!(interface_of(&notice[..20]), None);
        assert_eq!(interface_of(&[]), None);
        // RTM_NEWTFILTER.
        notice[4] = 44;
        assert_eq!(interface_of(&notice), None);
        let notices = Notices::subscribe().expect("it needs no right");
        assert_eq!(notices.index_of("lo"), Some(1));
        assert_eq!(notices.index_of("away"), None);
    }
}
