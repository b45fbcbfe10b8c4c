//! Programs of the kernel's classic packet filter (`struct sock_filter` of linux/filter.h), as far as demultiplexing needs them.

use crate::classify::Span;
use ipnet::{IpNet, Ipv6Net};

/// Most instructions of a program. The kernel takes 4096 (`BPF_MAXINSNS`), but the program as it translates it must fit into `net.core.optmem_max`, which was 20 KiB before
/// Linux 6.8: some 2550 of its own instructions, of which loads of the packet take eight and others one or two.
pub const LEN_MAX: usize = 1650;
/// Most of the part for the packets of one family.
const PART_MAX: usize = LEN_MAX / 2 - 16;

/// Sockets that stand one after the other among those of an address, in the order in which they began to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sockets {
    /// The place of the first.
    pub first: u32,
    /// How many there are, at least one.
    pub count: u32,
}

/// An instruction, as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What it does.
    pub code: u16,
    /// How many instructions to skip if a comparison holds.
    pub jt: u8,
    /// The same if it does not.
    pub jf: u8,
    /// A number that it takes.
    pub k: u32,
}

/// Loads a word, a half word or a byte of the packet; from [`NETWORK`] on, of its IP header.
pub(super) const LOAD_WORD: u16 = 0x20;
pub(super) const LOAD_HALF: u16 = 0x28;
pub(super) const LOAD_BYTE: u16 = 0x30;
/// Stores what was loaded in a place of its own, and loads it from there.
pub(super) const STORE: u16 = 0x02;
pub(super) const LOAD: u16 = 0x60;
pub(super) const ADD: u16 = 0x04;
pub(super) const AND: u16 = 0x54;
pub(super) const SHIFT_RIGHT: u16 = 0x74;
pub(super) const MODULO: u16 = 0x94;
/// Skips as many instructions as it says.
pub(super) const JUMP: u16 = 0x05;
pub(super) const IS_EQUAL: u16 = 0x15;
pub(super) const IS_GREATER: u16 = 0x25;
pub(super) const IS_AT_LEAST: u16 = 0x35;
/// Ends with a number, or with what was loaded.
pub(super) const RETURN: u16 = 0x06;
pub(super) const RETURN_LOADED: u16 = 0x16;

/// `SKF_NET_OFF`: where the IP header begins.
pub(super) const NETWORK: u32 = 0xfff0_0000;
/// `SKF_AD_OFF + SKF_AD_RANDOM`: a random number instead of a part of the packet.
pub(super) const RANDOM: u32 = 0xffff_f000 + 56;

/// The places that a part stores addresses and code point in, of the sixteen that there are.
const CLIENT: u32 = 0;
const DESTINATION: u32 = 4;
const CODE_POINT: u32 = 8;

/// A jump with this number stands for one to where it is known that an alternative of the condition holds.
const TO_FOUND: u32 = u32::MAX;
/// The same, to what comes after the chunk.
const TO_END: u32 = u32::MAX - 1;

/// The version of IP of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    /// Whether an address of it can lie in the network.
    pub(super) fn has(self, network: IpNet) -> bool {
        (self == Family::V4) == matches!(network, IpNet::V4(_))
    }

    /// Where client and destination stand in the header.
    fn addresses(self) -> [u32; 2] {
        match self {
            Family::V4 => [12, 16],
            Family::V6 => [8, 24],
        }
    }
}

/// Instructions that are run from their first to their last, or leave by returning.
#[derive(Debug, Default)]
pub(super) struct Chunk(Vec<Instruction>);

impl Chunk {
    fn add(&mut self, code: u16, k: u32) {
        self.compare(code, k, [0, 0]);
    }

    fn compare(&mut self, code: u16, k: u32, [jt, jf]: [u8; 2]) {
        self.0.push(Instruction { code, jt, jf, k });
    }

    /// Puts what is asked for into the places that the tests take it from. Comes first in the part of the family.
    pub(super) fn load(&mut self, family: Family) {
        let words = if family == Family::V4 { 1 } else { 4 };
        for (at, place) in family.addresses().into_iter().zip([CLIENT, DESTINATION]) {
            for word in 0..words {
                self.add(LOAD_WORD, NETWORK + at + 4 * word);
                self.add(STORE, place + word);
            }
        }
        match family {
            Family::V4 => {
                self.add(LOAD_BYTE, NETWORK + 1);
                self.add(SHIFT_RIGHT, 2);
            }
            // The class stands across the first two bytes, behind the version and before two bits of ECN.
            Family::V6 => {
                self.add(LOAD_HALF, NETWORK);
                self.add(SHIFT_RIGHT, 6);
                self.add(AND, 0x3f);
            }
        }
        self.add(STORE, CODE_POINT);
    }

    /// Whether it cannot fit.
    pub(super) fn is_too_long(&self) -> bool {
        self.0.len() > PART_MAX
    }

    /// An alternative of the condition that is being written: the client's address lies in the network, which is of the family.
    pub(super) fn test_client(&mut self, network: IpNet) {
        self.test(CLIENT, network);
    }

    /// The same of the address that the client connects to.
    pub(super) fn test_destination(&mut self, network: IpNet) {
        self.test(DESTINATION, network);
    }

    fn test(&mut self, at: u32, network: IpNet) {
        let (bits, mask) = match network {
            IpNet::V4(v4) => {
                let [bits, mask] = [v4.network(), v4.netmask()].map(|it| u128::from(it.to_bits()));
                (bits << 96, mask << 96)
            }
            IpNet::V6(v6) => words_of(v6),
        };
        let word = |of: u128, place: u32| (of >> (96 - 32 * place)) as u32;
        // A network of all addresses asks for nothing.
        let places: Vec<u32> = (0..4).filter(|place| word(mask, *place) != 0).collect();
        let len = |place: u32| 2 + u32::from(word(mask, place) != u32::MAX);
        // What is skipped when a word differs: all that follows of this test, the jump at its end included.
        let mut rest: u32 = places.iter().map(|place| len(*place)).sum::<u32>() + 1;
        for place in places {
            rest -= len(place);
            self.add(LOAD, at + place);
            if word(mask, place) != u32::MAX {
                self.add(AND, word(mask, place));
            }
            self.compare(IS_EQUAL, word(bits, place), [0, rest as u8]);
        }
        self.holds();
    }

    /// An alternative: the code point lies in the span.
    pub(super) fn test_dscp(&mut self, span: Span) {
        let [first, last] = [span.first, span.last].map(|it| u32::try_from(it).unwrap_or(u32::MAX));
        self.add(LOAD, CODE_POINT);
        self.compare(IS_AT_LEAST, first, [0, 2]);
        self.compare(IS_GREATER, last, [1, 0]);
        self.holds();
    }

    /// An alternative that always holds.
    pub(super) fn holds(&mut self) {
        self.add(JUMP, TO_FOUND);
    }

    /// The condition has no more alternatives: where none holds, the chunk is left.
    pub(super) fn unless_found(&mut self) {
        self.add(JUMP, TO_END);
        let found = self.0.len();
        for (place, it) in self.0.iter_mut().enumerate() {
            if it.code == JUMP && it.k == TO_FOUND {
                it.k = (found - place - 1) as u32;
            }
        }
    }

    /// Ends with one of the sockets, each as probable as the others.
    pub(super) fn to(&mut self, Sockets { first, count }: Sockets) {
        if count <= 1 {
            return self.add(RETURN, first);
        }
        self.add(LOAD_WORD, RANDOM);
        self.add(MODULO, count);
        self.add(ADD, first);
        self.add(RETURN_LOADED, 0);
    }

    /// Adds what is run next, if it fits into the part of a family.
    pub(super) fn append(&mut self, mut next: Chunk) -> bool {
        if self.0.len() + next.0.len() > PART_MAX {
            return false;
        }
        let end = next.0.len();
        for (place, it) in next.0.iter_mut().enumerate() {
            if it.code == JUMP && it.k == TO_END {
                it.k = (end - place - 1) as u32;
            }
        }
        self.0.append(&mut next.0);
        true
    }

    /// Ends with these sockets where nothing before has ended.
    pub(super) fn or(mut self, sockets: Sockets) -> Chunk {
        self.to(sockets);
        self
    }
}

/// Address and mask of a network as numbers.
fn words_of(network: Ipv6Net) -> (u128, u128) {
    (network.network().to_bits(), network.netmask().to_bits())
}

/// Whole programs.
pub(super) struct Filter;

impl Filter {
    /// The same for all packets.
    pub(super) fn same(sockets: Sockets) -> Vec<Instruction> {
        Chunk::default().or(sockets).0
    }

    /// One part for each version of IP, and what is neither.
    pub(super) fn by_family(v4: Chunk, v6: Chunk, neither: Sockets) -> Vec<Instruction> {
        let mut all = Chunk::default();
        all.add(LOAD_BYTE, NETWORK);
        all.add(SHIFT_RIGHT, 4);
        all.compare(IS_EQUAL, 4, [1, 0]);
        all.add(JUMP, v4.0.len() as u32);
        all.0.extend(v4.0);
        all.compare(IS_EQUAL, 6, [1, 0]);
        all.add(JUMP, v6.0.len() as u32);
        all.0.extend(v6.0);
        all.or(neither).0
    }
}
