//! Keys of maps that programs share, as their C has them.

use crate::fault::{Fault, io_error};
use ipnet::IpNet;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::net::{IpAddr, SocketAddr};

/// Writes a map.
pub(crate) fn update(
    map: &MapHandle,
    name: &'static str,
    key: &[u8],
    value: &[u8],
) -> Result<(), Fault> {
    let written = map.update(key, value, MapFlags::ANY);
    written.map_err(|error| Fault::Map { map: name, error: io_error(error) })
}

/// An address as programs have it, IPv4 as `::ffff:a.b.c.d`.
pub(crate) fn bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// `struct tg_service`.
pub(crate) fn service_key(generation: u32, local: SocketAddr) -> [u8; 24] {
    let mut key = [0; 24];
    key[..4].copy_from_slice(&generation.to_ne_bytes());
    key[4..20].copy_from_slice(&bytes(local.ip()));
    key[20..22].copy_from_slice(&local.port().to_be_bytes());
    key
}

/// Bits of a client's address behind the 32 of a number.
const NUMBER_BITS: u32 = 32;

/// A network of clients under a number, for tries of longest prefixes: one for IPv4 and one for IPv6.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkKey {
    bytes: [u8; 24],
    is_v4: bool,
}

impl NetworkKey {
    pub(crate) fn new(number: u32, network: IpNet) -> Self {
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&(NUMBER_BITS + u32::from(network.prefix_len())).to_ne_bytes());
        bytes[4..8].copy_from_slice(&number.to_be_bytes());
        match network.network() {
            IpAddr::V4(v4) => bytes[8..12].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => bytes[8..].copy_from_slice(&v6.octets()),
        }
        NetworkKey { bytes, is_v4: matches!(network, IpNet::V4(_)) }
    }

    /// The trie that has it, of the two, and its key there.
    pub(crate) fn of<'a>(
        &'a self,
        v4: &'a MapHandle,
        v6: &'a MapHandle,
    ) -> (&'a MapHandle, &'a [u8]) {
        if self.is_v4 { (v4, &self.bytes[..12]) } else { (v6, self.v6()) }
    }

    /// Its key in the trie of IPv6, if it is of that.
    pub(crate) fn v6(&self) -> &[u8] {
        &self.bytes
    }
}
