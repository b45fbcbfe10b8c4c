//! Flows: whose request it is, for policers and for fairness.
//!
//! A client is its address; IPv6 clients are their /64, because whoever has one address there has all.
//! The number is a keyed hash (SipHash, with a key of this process), so that nobody can choose whose
//! number they share.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

/// Numbers flows.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    key: RandomState,
}

impl Flows {
    /// The flow of a client: the same for the life of the process. About 15 ns.
    pub fn of(&self, client: IpAddr) -> u64 {
        match client.to_canonical() {
            IpAddr::V4(address) => self.key.hash_one(address.to_bits()),
            IpAddr::V6(address) => self.key.hash_one((address.to_bits() >> 64) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_of_64_bits_and_an_ipv4_address_are_one_client() {
        let flows = Flows::default();
        let of = |address: &str| flows.of(address.parse().expect("an address"));
        assert_eq!(of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff::2"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_ne!(of("192.0.2.1"), Flows::default().of("192.0.2.1".parse().unwrap()));
    }
}
