//! Client addresses: which of many networks contain one.

use super::facts::NONE;
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr};

/// Networks, with what each stands for.
///
/// The address space is cut at the networks' borders; each piece knows the smallest network that
/// holds it, and each network the next larger one. A look-up is a binary search and a walk outwards:
/// O(log networks + nesting).
#[derive(Clone, Debug, Default)]
pub(super) struct Networks {
    v4: Pieces<u32>,
    v6: Pieces<u128>,
    /// For IPv4, where the pieces of each first byte begin: takes eight steps off the search.
    v4_first_byte: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
struct Pieces<A> {
    /// First address of each piece, ascending.
    starts: Vec<A>,
    /// The smallest network of each piece, or [`NONE`].
    inner: Vec<u32>,
    /// Entry of each network, and the next larger network or [`NONE`].
    networks: Vec<(u32, u32)>,
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
    pub(super) fn new(networks: &[(&IpNet, u32)]) -> Self {
        let mut v4 = Vec::new();
        let mut v6 = Vec::new();
        for (network, entry) in networks {
            match network {
                IpNet::V4(net) => {
                    v4.push((u32::from(net.network()), u32::from(net.broadcast()), *entry));
                }
                IpNet::V6(net) => {
                    v6.push((u128::from(net.network()), u128::from(net.broadcast()), *entry));
                }
            }
        }
        let v4 = Pieces::new(v4, |address| address.checked_add(1));
        let v4_first_byte = (0..=256u64)
            .map(|byte| v4.starts.partition_point(|start| u64::from(*start) < byte << 24) as u32)
            .collect();
        Networks { v4, v6: Pieces::new(v6, |address| address.checked_add(1)), v4_first_byte }
    }

    /// Calls `emit` for every network that contains the address.
    #[inline]
    pub(super) fn find(&self, address: IpAddr, emit: impl FnMut(u32)) {
        match address {
            IpAddr::V4(address) => self.find_v4(address, emit),
            IpAddr::V6(address) => match address.to_ipv4_mapped() {
                Some(address) => self.find_v4(address, emit),
                None => {
                    let address = u128::from(address);
                    let after = self.v6.starts.partition_point(|start| *start <= address);
                    self.v6.outwards(after, emit);
                }
            },
        }
    }

    fn find_v4(&self, address: Ipv4Addr, emit: impl FnMut(u32)) {
        let address = u32::from(address);
        let byte = (address >> 24) as usize;
        let [from, to] = [byte, byte + 1].map(|byte| self.v4_first_byte[byte] as usize);
        let after = from + self.v4.starts[from..to].partition_point(|start| *start <= address);
        self.v4.outwards(after, emit);
    }
}

impl<A: Copy + Ord> Pieces<A> {
    /// `networks`: first address, last address, entry.
    fn new(mut networks: Vec<(A, A, u32)>, next: impl Fn(A) -> Option<A>) -> Self {
        // Larger networks before those inside them.
        networks.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        let mut pieces = Pieces {
            starts: Vec::new(),
            inner: Vec::new(),
            networks: Vec::with_capacity(networks.len()),
        };
        let mut around: Vec<(A, u32)> = Vec::new();
        for (first, last, entry) in networks {
            pieces.close(&mut around, Some(first), &next);
            let outer = around.last().map_or(NONE, |(_, index)| *index);
            let index = pieces.networks.len() as u32;
            pieces.networks.push((entry, outer));
            pieces.cut(first, index);
            around.push((last, index));
        }
        pieces.close(&mut around, None, &next);
        pieces
    }

    /// Ends the networks that lie wholly before `until`.
    fn close(
        &mut self,
        around: &mut Vec<(A, u32)>,
        until: Option<A>,
        next: &impl Fn(A) -> Option<A>,
    ) {
        while let Some((last, _)) = around.last().copied()
            && until.is_none_or(|until| last < until)
        {
            around.pop();
            if let Some(after) = next(last) {
                self.cut(after, around.last().map_or(NONE, |(_, index)| *index));
            }
        }
    }

    fn cut(&mut self, start: A, inner: u32) {
        if self.starts.last() == Some(&start) {
            *self.inner.last_mut().expect("one for each start") = inner;
        } else {
            self.starts.push(start);
            self.inner.push(inner);
        }
    }

    /// Emits the network of the piece before `after` and all around it.
    fn outwards(&self, after: usize, mut emit: impl FnMut(u32)) {
        let Some(piece) = after.checked_sub(1) else {
            return;
        };
        let mut index = self.inner[piece];
        while index != NONE {
            let (entry, outer) = self.networks[index as usize];
            emit(entry);
            index = outer;
        }
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
        let refs: Vec<_> = networks.iter().map(|(network, entry)| (network, *entry)).collect();
        let all = Networks::new(&refs);
        let some = Networks::new(&refs[1..5]);
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
