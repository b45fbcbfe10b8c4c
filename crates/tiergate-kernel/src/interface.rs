//! Interfaces by name.

use crate::fault::Fault;
use std::ffi::CString;

/// The number of an interface of this network namespace.
///
/// # Errors
/// There is none of that name.
pub(crate) fn interface_index(name: &str) -> Result<i32, Fault> {
    let missing = || Fault::NoInterface(name.to_owned());
    let path = CString::new(name).map_err(|_| missing())?;
    nix::net::if_::if_nametoindex(path.as_c_str()).map(|index| index as i32).map_err(|_| missing())
}

/// Kinds of interfaces (`ARPHRD_*` of linux/if_arp.h).
#[cfg(feature = "load")]
const ETHERNET: u16 = 1;
#[cfg(feature = "load")]
const LOOPBACK: u16 = 772;

/// Whether packets at an interface begin with an Ethernet header, as programs read them; those of tunnels (tun, WireGuard, PPP) begin with that of IP, and many of these have no address of
/// the link at all. True where the system does not say.
#[cfg(feature = "load")]
pub(crate) fn has_ethernet_header(index: i32) -> bool {
    let Ok(mut all) = nix::ifaddrs::getifaddrs() else { return true };
    all.any(|it| {
        let address = it.address.as_ref().and_then(|it| it.as_link_addr());
        address.is_some_and(|it| {
            i32::try_from(it.ifindex()) == Ok(index) && matches!(it.hatype(), ETHERNET | LOOPBACK)
        })
    })
}
