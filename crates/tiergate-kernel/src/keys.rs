//! Keys of maps that programs share, as their C has them.

use crate::fault::{Fault, io_error};
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
