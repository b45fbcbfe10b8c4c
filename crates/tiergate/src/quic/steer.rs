//! Which of an address's sockets gets a packet: ids of connections say the place of their thread, and a program of the
//! kernel's packet filter reads it.
//!
//! A client's first packets bear an id of its own choice, and go to any one; all that follow bear ours. So a connection stays
//! with its thread when the client's address changes, by a new network or a router that forgets.

use aws_lc_rs::rand;
use quinn::{ConnectionId, ConnectionIdGenerator};
use std::time::Duration;
use tiergate_core::demux::Instruction;

/// Bytes of an id: one says the place, among other things, and none can be guessed.
const ID_LEN: usize = 8;

/// Makes the ids of a thread's connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ids {
    /// The thread's place.
    place: u8,
    /// How many there are; at most 256.
    count: u16,
}

impl Ids {
    pub(super) fn new(place: usize, count: usize) -> Self {
        // Beyond 256 sockets some get no packets of connections, as no byte says their place.
        let count = count.clamp(1, 256);
        Ids { place: (place % count) as u8, count: count as u16 }
    }
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut bytes = [0; ID_LEN];
        rand::fill(&mut bytes).expect("the system has randomness");
        // One of the bytes whose rest by the count is the place: which one, says nothing.
        let (place, count) = (u16::from(self.place), self.count);
        let choices = (255 - place) / count + 1;
        bytes[0] = (u16::from(bytes[0]) % choices * count + place) as u8;
        ConnectionId::new(&bytes)
    }

    fn cid_len(&self) -> usize {
        ID_LEN
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

const LOAD_BYTE: u16 = 0x30;
const JUMP_IF_SET: u16 = 0x45;
const JUMP: u16 = 0x05;
const REST: u16 = 0x94;
const RETURN: u16 = 0x16;
/// Set in the first byte of the packets of a handshake (RFC 9000 §17.2).
const LONG_HEADER: u32 = 0x80;
/// Where the id begins in those, and in all others.
const ID_AT: (u32, u32) = (6, 1);

/// The program that picks one of so many sockets. A packet too short to have an id goes to the first.
pub(super) fn program(count: usize) -> [Instruction; 7] {
    let of = |code, jt, jf, k| Instruction { code, jt, jf, k };
    [
        of(LOAD_BYTE, 0, 0, 0),
        of(JUMP_IF_SET, 2, 0, LONG_HEADER),
        of(LOAD_BYTE, 0, 0, ID_AT.1),
        of(JUMP, 0, 0, 1),
        of(LOAD_BYTE, 0, 0, ID_AT.0),
        of(REST, 0, 0, count.clamp(1, 256) as u32),
        of(RETURN, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn an_id_says_its_place_and_nothing_else() {
        for count in [1, 2, 3, 7, 64, 256] {
            for place in 0..count {
                let mut ids = Ids::new(place, count);
                let made: HashSet<Vec<u8>> = (0..50).map(|_| ids.generate_cid().to_vec()).collect();
                assert_eq!(made.len(), 50);
                assert!(made.iter().all(|id| usize::from(id[0]) % count == place));
            }
        }
    }
}
