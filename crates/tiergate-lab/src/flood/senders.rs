//! Forged addresses of a network. Pure.

use ipnet::Ipv4Net;
use std::net::Ipv4Addr;

/// Addresses that packets on a network may come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Senders {
    first: u32,
    last: u32,
}

impl Senders {
    /// Those of a network.
    pub(super) fn of(network: Ipv4Net) -> Self {
        Self { first: network.network().into(), last: network.broadcast().into() }
    }

    /// Any of them. A network that is larger than /8 has addresses that no router passes on, and the lab's own: none of these.
    pub(super) fn next(&self, random: &mut fastrand::Rng) -> Ipv4Addr {
        loop {
            let sender = Ipv4Addr::from(random.u32(self.first..=self.last));
            if self.last - self.first < 1 << 24 || is_of_the_internet(sender) {
                return sender;
            }
        }
    }
}

fn is_of_the_internet(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    !matches!(first, 0 | 10 | 127 | 224..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn some(network: &str) -> Vec<Ipv4Addr> {
        let senders = Senders::of(network.parse().unwrap());
        let mut random = fastrand::Rng::with_seed(1);
        (0..5000).map(|_| senders.next(&mut random)).collect()
    }

    #[test]
    fn they_are_of_their_network_and_not_always_the_same() {
        for network in ["198.18.0.0/15", "10.78.0.0/16", "192.0.2.4/31"] {
            let of: Ipv4Net = network.parse().unwrap();
            let all = some(network);
            assert!(all.iter().all(|it| of.contains(it)), "{network}");
            let different = all.iter().collect::<HashSet<_>>().len();
            assert!(different == 2 || different > 4000, "{network}: {different}");
        }
    }

    #[test]
    fn of_all_addresses_only_those_that_can_be_anybodys() {
        let all = some("0.0.0.0/0");
        assert!(all.iter().all(|it| is_of_the_internet(*it)));
        let firsts = all.iter().map(|it| it.octets()[0]).collect::<HashSet<_>>();
        assert_eq!(firsts.len(), 224 - 3);
    }
}
