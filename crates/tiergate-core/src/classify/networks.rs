//! Addresses: which of many networks contain one.

use super::numbers::Numbers;
use ipnet::IpNet;
use std::net::IpAddr;

/// Networks, each with the number of the fact that it establishes: ranges of the addresses of either kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Networks {
    v4: Numbers,
    v6: Numbers,
}

/// The network with IPv4 addresses written as IPv6 (`::ffff:192.0.2.0/120`) turned back, and host
/// bits cleared: the form in which networks are compared.
pub(super) fn canonical(network: IpNet) -> IpNet {
    if let IpNet::V6(v6) = network
        && v6.prefix_len() >= 96
        && let Some(v4) = v6.addr().to_ipv4_mapped()
    {
        let len = v6.prefix_len() - 96;
        return IpNet::new(IpAddr::V4(v4), len)
            .expect("96 to 128 less 96 is an IPv4 length")
            .trunc();
    }
    network.trunc()
}

impl Networks {
    /// A set of distinct canonical networks and their entries.
    pub(super) fn new(networks: impl IntoIterator<Item = (IpNet, u32)>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (network, entry) in networks {
            let family = if network.addr().is_ipv4() { &mut v4 } else { &mut v6 };
            family.push((bits(network.network()), bits(network.broadcast()), entry));
        }
        Networks { v4: Numbers::new(v4), v6: Numbers::new(v6) }
    }

    /// Calls `emit` for every network that contains the address, the smallest first.
    #[inline]
    pub(super) fn find(&self, address: IpAddr, emit: impl FnMut(u32)) {
        let address = address.to_canonical();
        let family = if address.is_ipv4() { &self.v4 } else { &self.v6 };
        family.find(bits(address), emit);
    }
}

#[inline]
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_network_around_an_address() {
        let texts = [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.1.0.0/16",
            "10.1.0.0/24",
            "10.1.0.0/32",
            "10.1.1.0/24",
            "255.255.255.255/32",
            "224.0.0.0/3",
            "11.0.0.0/8",
            "::/0",
            "2001:db8::/32",
            "2001:db8::1/128",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
            "2001:db8:8000::/33",
        ];
        let networks: Vec<(IpNet, u32)> =
            texts.iter().zip(0..).map(|(text, entry)| (text.parse().unwrap(), entry)).collect();
        let all = Networks::new(networks.iter().copied());
        let some = Networks::new(networks[1..5].iter().copied());
        let mut addresses: Vec<IpAddr> = Vec::new();
        for (network, _) in &networks {
            addresses.extend([network.network(), network.broadcast()]);
        }
        for text in [
            "9.255.255.255",
            "10.1.0.1",
            "10.1.2.0",
            "12.0.0.0",
            "0.0.0.0",
            "::",
            "1::",
            "2001:db8::2",
            "2001:db9::",
            "::ffff:10.1.0.0",
            "::ffff:12.0.0.1",
        ] {
            addresses.push(text.parse().unwrap());
        }
        for address in addresses {
            for (compiled, networks) in [(&all, &networks[..]), (&some, &networks[1..5])] {
                let mut found = Vec::new();
                compiled.find(address, |entry| found.push(entry));
                found.sort_unstable();
                let expected: Vec<u32> = networks
                    .iter()
                    .filter(|(network, _)| network.contains(&address.to_canonical()))
                    .map(|(_, entry)| *entry)
                    .collect();
                assert_eq!(found, expected, "{address}");
            }
        }
    }

    #[test]
    fn mapped_networks_are_ipv4_networks() {
        let mapped: IpNet = "::ffff:192.0.2.77/120".parse().unwrap();
        assert_eq!(canonical(mapped), "192.0.2.0/24".parse::<IpNet>().unwrap());
        let wide: IpNet = "::/64".parse().unwrap();
        assert_eq!(canonical(wide), wide);
    }
}
