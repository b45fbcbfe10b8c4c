//! The interface that frames leave by.

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, bind, send, setsockopt, socket, sockopt,
};
use std::os::fd::{AsRawFd, OwnedFd};

/// More than a receiver lets wait: frames count as ours until it has looked at them.
const UNDER_WAY_BYTES: usize = 8 << 20;

/// An interface of this network namespace.
pub(super) struct Wire {
    socket: OwnedFd,
    hardware: [u8; 6],
}

impl Wire {
    /// Opens it.
    ///
    /// # Errors
    /// There is none of that name, or no right (`CAP_NET_RAW`, `CAP_NET_ADMIN`).
    pub(super) fn open(name: &str) -> Result<Self> {
        let all = getifaddrs().context("cannot list the network interfaces")?;
        let mut addresses = all.filter(|it| it.interface_name == name);
        let link = addresses.find_map(|it| it.address?.as_link_addr().copied());
        let link = link.with_context(|| format!("there is no interface {name}"))?;
        let hardware = link.addr().with_context(|| format!("{name} has no hardware address"))?;
        // Without a protocol it receives nothing.
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)
            .context("cannot open a packet socket; run it as root")?;
        bind(socket.as_raw_fd(), &link).with_context(|| format!("cannot send by {name}"))?;
        setsockopt(&socket, sockopt::SndBufForce, &UNDER_WAY_BYTES)?;
        Ok(Self { socket, hardware })
    }

    /// Its hardware address.
    pub(super) fn hardware(&self) -> [u8; 6] {
        self.hardware
    }

    /// Sends a frame. Cost: a system call. One that finds the receiver's queue full is lost, as on a wire.
    pub(super) fn send(&self, frame: &[u8]) -> Result<()> {
        match send(self.socket.as_raw_fd(), frame, MsgFlags::MSG_DONTWAIT) {
            Ok(_) | Err(Errno::ENOBUFS | Errno::EAGAIN | Errno::EINTR) => Ok(()),
            Err(error) => Err(error).context("cannot send"),
        }
    }
}
