//! Networks of which the smallest counts, as ranges that do not overlap: for tables that do not look for the longest prefix, as those of nftables.
//!
//! Two networks are nested or disjoint, so one pass in order of their beginnings does: what is open is a stack, and the innermost says what holds.

use super::Entry;
use ipnet::IpNet;
use std::net::IpAddr;

/// Addresses from the first to the last, both included, and what is said of them. IPv4 addresses are numbers of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range<T> {
    /// The first.
    pub first: u128,
    /// The last.
    pub last: u128,
    /// What is said of them.
    pub value: T,
}

/// What entries say of each address of a version of IP, in order; neighbours of which the same is said are one range. At most two for each entry, less one. O(entries × log entries).
pub fn ranges<T: Copy + PartialEq>(
    entries: &[Entry],
    is_v4: bool,
    say: impl Fn(&Entry) -> T,
) -> Vec<Range<T>> {
    let own = entries.iter().filter(|entry| entry.network.addr().is_ipv4() == is_v4);
    let mut all: Vec<Range<T>> = own
        .map(|entry| {
            let (first, last) = bounds(entry.network);
            Range { first, last, value: say(entry) }
        })
        .collect();
    // Of those that begin together the largest first.
    all.sort_by_key(|it| (it.first, std::cmp::Reverse(it.last)));
    let mut making = Making { found: Vec::with_capacity(all.len()), at: Some(0) };
    let mut open: Vec<Range<T>> = Vec::new();
    for range in all {
        while open.last().is_some_and(|it| it.last < range.first) {
            making.until(open.pop());
        }
        if let (Some(around), Some(before)) = (open.last(), range.first.checked_sub(1)) {
            making.until(Some(Range { last: before, ..*around }));
        }
        making.at = Some(range.first);
        open.push(range);
    }
    while let Some(range) = open.pop() {
        making.until(Some(range));
    }
    making.found
}

fn bounds(network: IpNet) -> (u128, u128) {
    let number = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    (number(network.network()), number(network.broadcast()))
}

struct Making<T> {
    found: Vec<Range<T>>,
    /// What nothing has been said of yet begins here; `None`: behind the last address.
    at: Option<u128>,
}

impl<T: Copy + PartialEq> Making<T> {
    /// What a range says holds from where it has not been said until its last address.
    fn until(&mut self, range: Option<Range<T>>) {
        let Some(Range { last, value, .. }) = range else { return };
        let Some(first) = self.at.filter(|at| *at <= last) else { return };
        self.at = last.checked_add(1);
        match self.found.last_mut() {
            Some(before) if before.value == value && before.last.checked_add(1) == Some(first) => {
                before.last = last;
            }
            _ => self.found.push(Range { first, last, value }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::early::Early;
    use ipnet::{Ipv4Net, Ipv6Net};
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn entry((network, bucket): (IpNet, Option<u16>)) -> Entry {
        Entry { network, bucket, partition: None, may_be_spared: false, is_trusted: false }
    }

    fn of(networks: &[(&str, u16)], is_v4: bool) -> Vec<(u128, u128, u16)> {
        let all: Vec<Entry> = networks
            .iter()
            .map(|(network, bucket)| entry((network.parse().expect("one"), Some(*bucket))))
            .collect();
        let found = ranges(&all, is_v4, |it| it.bucket.unwrap_or(0));
        found.into_iter().map(|it| (it.first, it.last, it.value)).collect()
    }

    #[test]
    fn the_smallest_network_counts_and_neighbours_are_joined() {
        let networks = [
            ("0.0.0.0/0", 1),
            ("0.0.0.0/8", 2),
            ("0.0.1.0/24", 3),
            ("255.255.255.255/32", 4),
            ("::/0", 5),
        ];
        let all = [
            (0, 0xff, 2),
            (0x100, 0x1ff, 3),
            (0x200, 0xff_ffff, 2),
            (0x100_0000, 0xffff_fffe, 1),
            (0xffff_ffff, 0xffff_ffff, 4),
        ];
        assert_eq!(of(&networks, true), all);
        assert_eq!(of(&networks, false), [(0, u128::MAX, 5)]);
        let halves = [("ffff::/16", 1), ("ffff:8000::/17", 1), ("fffe::/16", 1)];
        assert_eq!(of(&halves, false), [(0xfffe << 112, u128::MAX, 1)]);
        // Nothing is said of what lies between.
        assert_eq!(
            of(&[("10.0.0.0/32", 1), ("10.0.0.2/32", 1)], true),
            [(0xa00_0000, 0xa00_0000, 1), (0xa00_0002, 0xa00_0002, 1)]
        );
    }

    fn network() -> impl Strategy<Value = IpNet> {
        let v4 = (any::<u8>(), 0_u8..=8).prop_map(|(bits, len)| {
            let address = Ipv4Addr::from_bits(u32::from(bits) << 24);
            IpNet::from(Ipv4Net::new(address, len).expect("a length")).trunc()
        });
        let v6 = (any::<u8>(), 0_u8..=8).prop_map(|(bits, len)| {
            let address = Ipv6Addr::from_bits(u128::from(bits) << 120);
            IpNet::from(Ipv6Net::new(address, len).expect("a length")).trunc()
        });
        prop_oneof![v4, v6]
    }

    proptest! {
        /// Each address is in the range that says what the smallest network around it does, or in none.
        #[test]
        fn ranges_say_what_the_longest_prefix_does(
            networks in prop::collection::hash_map(network(), prop::option::of(0_u16..4), 0..20),
        ) {
            let entries: Vec<Entry> = networks.into_iter().map(entry).collect();
            let early = Early { listeners: vec![entries.clone()], ..Early::default() };
            for is_v4 in [true, false] {
                let found = ranges(&entries, is_v4, |it| it.bucket);
                prop_assert!(found.len() < (2 * entries.len()).max(1));
                prop_assert!(found.windows(2).all(|it| it[0].last < it[1].first));
                for bits in 0..=255_u8 {
                    let (number, address) = match is_v4 {
                        true => (u128::from(bits) << 24, IpAddr::from([bits, 0, 0, 0])),
                        false => {
                            let number = u128::from(bits) << 120;
                            (number, IpAddr::from(number.to_be_bytes()))
                        }
                    };
                    let wanted = early.entry(0, address).map(|it| it.bucket);
                    let around = found.iter().find(|it| it.first <= number && number <= it.last);
                    prop_assert_eq!(around.map(|it| it.value), wanted);
                }
            }
        }
    }
}
