//! IPv4 networks of which the smallest counts, as a trie that is read four bits at a time.
//!
//! The kernel's own trie compares an address with one network after the other, one more with each doubling of the rules: sixteen of fifty thousand. This one looks up a word for each four bits of an address that any network
//! tells apart, behind the first eight: three for a /16, five for a /24, seven at most, however many networks there are. What holds around a smaller network is written into its nodes, so that nothing is looked up again.
//!
//! It is for IPv4: by four bits, each network of IPv6 could take 28 nodes of its own.

use ipnet::Ipv4Net;
use std::net::Ipv4Addr;

/// Words of a node, each of 32 bits.
pub const WORDS: usize = 16;
/// Nodes at the beginning: the first four bits of an address pick one of them, and the next four a word of it.
pub const ROOTS: usize = 16;
/// Bit of a word that says which node is next, by its place, and not what is found.
pub const NEXT: u32 = 1 << 31;
/// Bits of an address that the first look-up takes, and each other one.
const FIRST_BITS: u32 = 8;
const BITS: u32 = 4;

/// Values below [`NEXT`] by networks; 0 is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trie {
    words: Vec<u32>,
}

impl Trie {
    /// That of these networks; of one that comes twice the last value counts. [`ROOTS`] nodes, and at most six for each network. O(networks × log networks).
    pub fn of(networks: impl IntoIterator<Item = (Ipv4Net, u32)>) -> Trie {
        let mut networks: Vec<(Ipv4Net, u32)> = networks.into_iter().collect();
        // What is around another one first: then a network never covers nodes of a smaller one.
        networks.sort_by_key(|(network, _)| network.prefix_len());
        let mut trie = Trie { words: vec![0; ROOTS * WORDS] };
        networks.into_iter().for_each(|(network, value)| trie.insert(network, value & !NEXT));
        trie
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.words.len() / WORDS
    }

    /// All words, node after node, for a table in which the first node has the place `first`.
    pub fn words_at(&self, first: u32) -> impl Iterator<Item = u32> {
        self.words.iter().map(move |word| if word & NEXT == 0 { *word } else { word + first })
    }

    /// What is said of an address. As the kernel reads it.
    pub fn find(&self, client: Ipv4Addr) -> u32 {
        let client = client.to_bits();
        let mut word = self.words[(client >> (32 - FIRST_BITS)) as usize];
        let mut shift = 32 - FIRST_BITS;
        while word & NEXT != 0 {
            shift -= BITS;
            word = self.words[node(word) + (client >> shift) as usize % WORDS];
        }
        word
    }

    fn insert(&mut self, network: Ipv4Net, value: u32) {
        let client = network.network().to_bits();
        let (mut first, mut bits, mut left) = (0, FIRST_BITS, u32::from(network.prefix_len()));
        let mut shift = 32;
        loop {
            shift -= bits;
            let at = first + ((client >> shift) as usize & ((1 << bits) - 1));
            if left <= bits {
                return self.words[at..at + (1 << (bits - left))].fill(value);
            }
            if self.words[at] & NEXT == 0 {
                let around = self.words[at];
                self.words[at] = NEXT | self.nodes() as u32;
                self.words.extend([around; WORDS]);
            }
            (first, left, bits) = (node(self.words[at]), left - bits, BITS);
        }
    }
}

/// Where a node's words begin.
fn node(word: u32) -> usize {
    (word & !NEXT) as usize * WORDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(networks: &[(&str, u32)]) -> Trie {
        Trie::of(networks.iter().map(|(it, value)| (it.parse().expect("a network"), *value)))
    }

    fn found(trie: &Trie, client: &str) -> u32 {
        trie.find(client.parse().expect("an address"))
    }

    #[test]
    fn the_smallest_network_counts_in_whatever_order_they_come() {
        let networks = [
            ("10.1.2.3/32", 5),
            ("0.0.0.0/0", 1),
            ("10.1.2.0/25", 4),
            ("10.0.0.0/8", 2),
            ("10.1.0.0/17", 3),
        ];
        let trie = of(&networks);
        for (client, value) in [
            ("9.255.255.255", 1),
            ("10.2.0.1", 2),
            ("10.1.128.0", 2),
            ("10.1.127.255", 3),
            ("10.1.2.127", 4),
            ("10.1.2.128", 3),
            ("10.1.2.3", 5),
            ("255.255.255.255", 1),
        ] {
            assert_eq!(found(&trie, client), value, "{client}");
        }
    }

    #[test]
    fn of_no_network_nothing_is_said() {
        assert_eq!(found(&of(&[]), "192.0.2.1"), 0);
        assert_eq!(found(&of(&[("192.0.2.0/24", 1)]), "192.0.3.1"), 0);
    }

    #[test]
    fn nodes_are_as_few_as_the_bits_that_networks_tell_apart() {
        for (network, nodes) in [
            ("0.0.0.0/0", 0),
            ("10.0.0.0/8", 0),
            ("10.64.0.0/10", 1),
            ("10.1.0.0/16", 2),
            ("10.1.2.0/24", 4),
            ("10.1.2.3/32", 6),
        ] {
            assert_eq!(of(&[(network, 1)]).nodes(), ROOTS + nodes, "{network}");
        }
    }

    #[test]
    fn nodes_are_found_where_the_table_has_them() {
        let trie = of(&[("10.1.2.0/24", 7)]);
        let words: Vec<u32> = trie.words_at(100).collect();
        assert_eq!(words.iter().filter(|word| *word & NEXT != 0).count(), 4);
        assert_eq!(words[10], NEXT | (100 + ROOTS as u32));
        assert!(words.contains(&7), "what is found stays as it is");
    }

    proptest! {
        #[test]
        fn it_says_what_the_smallest_network_around_says(
            networks in prop::collection::vec((any::<[bool; 4]>(), any::<u8>(), 0..=32_u8, 1..1000_u32), 0..60),
            clients in prop::collection::vec((any::<[bool; 4]>(), any::<u8>()), 60),
        ) {
            // Few different bytes, so that networks are nested.
            let address = |bits: [bool; 4], last: u8| {
                let byte = |bit| if bit { 0x81 } else { 0x0a };
                Ipv4Addr::new(byte(bits[0]), byte(bits[1]), byte(bits[2]), last)
            };
            let mut all: Vec<(Ipv4Net, u32)> = Vec::new();
            for (bits, last, len, value) in networks {
                let network = Ipv4Net::new(address(bits, last), len).expect("it is short").trunc();
                if all.iter().all(|(known, _)| *known != network) {
                    all.push((network, value));
                }
            }
            let trie = Trie::of(all.clone());
            for (bits, last) in clients {
                let client = address(bits, last);
                let around = all.iter().filter(|(network, _)| network.contains(&client));
                let wanted = around.max_by_key(|(network, _)| network.prefix_len());
                prop_assert_eq!(trie.find(client), wanted.map_or(0, |(_, value)| *value));
            }
        }
    }
}
