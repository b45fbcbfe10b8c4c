//! A SYN as a frame of Ethernet. Pure.

use std::net::{Ipv4Addr, SocketAddrV4};

/// Where the parts of a frame begin.
const IP: usize = 14;
const TCP: usize = IP + 20;
const LENGTH: usize = TCP + 20;

/// A SYN to one address, from whomever.
#[derive(Clone, Debug)]
pub(super) struct Syn([u8; LENGTH]);

impl Syn {
    /// A frame between two hardware addresses.
    pub(super) fn new(from: [u8; 6], to: [u8; 6], target: SocketAddrV4) -> Self {
        let mut frame = [0; LENGTH];
        frame[..6].copy_from_slice(&to);
        frame[6..12].copy_from_slice(&from);
        frame[12..IP].copy_from_slice(&[8, 0]);
        // Version and length of the head; length of all, 40; do not fragment; 64 hops; TCP.
        frame[IP..IP + 10].copy_from_slice(&[0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6]);
        frame[IP + 16..TCP].copy_from_slice(&target.ip().octets());
        frame[TCP + 2..TCP + 4].copy_from_slice(&target.port().to_be_bytes());
        // Length of the head; SYN; the window.
        frame[TCP + 12..TCP + 16].copy_from_slice(&[0x50, 2, 0xff, 0xff]);
        Self(frame)
    }

    /// The frame from that address and port, with right checksums: a wrong one costs the receiver next to nothing.
    pub(super) fn from(&mut self, sender: Ipv4Addr, port: u16, sequence: u32) -> &[u8] {
        let frame = &mut self.0;
        frame[IP + 12..IP + 16].copy_from_slice(&sender.octets());
        frame[TCP..TCP + 2].copy_from_slice(&port.to_be_bytes());
        frame[TCP + 4..TCP + 8].copy_from_slice(&sequence.to_be_bytes());
        for place in [IP + 10, TCP + 16] {
            frame[place..place + 2].fill(0);
        }
        let ip = checksum(sum(&frame[IP..TCP]));
        frame[IP + 10..IP + 12].copy_from_slice(&ip.to_be_bytes());
        // Of the segment and what TCP takes of the other head: addresses, protocol, length.
        let tcp = checksum(sum(&frame[IP + 12..]) + 6 + 20);
        frame[TCP + 16..TCP + 18].copy_from_slice(&tcp.to_be_bytes());
        frame
    }
}

/// The sum of the words. Of so few that it needs no carrying.
fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum()
}

/// Source: RFC 1071.
fn checksum(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    !((once & 0xffff) + (once >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_says_what_it_is_to_say() {
        let mut syn = Syn::new([1; 6], [2; 6], "10.77.0.1:8080".parse().unwrap());
        let frame = syn.from("198.18.1.2".parse().unwrap(), 0x1234, 0xdead_beef);
        assert_eq!(
            (&frame[..6], &frame[6..12], &frame[12..14]),
            (&[2; 6][..], &[1; 6][..], &[8, 0][..])
        );
        assert_eq!(frame[26..34], [198, 18, 1, 2, 10, 77, 0, 1]);
        assert_eq!(frame[34..38], [0x12, 0x34, 0x1f, 0x90]);
        assert_eq!((frame[38..42].to_vec(), frame[47]), (vec![0xde, 0xad, 0xbe, 0xef], 2));
    }

    #[test]
    fn the_checksum_is_that_of_a_known_head() {
        // An often cited example of an IPv4 head, whose checksum is 0xb861.
        let head = [
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0,
            0xc7,
        ];
        assert_eq!(checksum(sum(&head)), 0xb861);
    }

    #[test]
    fn what_is_sent_sums_up_to_nothing() {
        let mut syn = Syn::new([0; 6], [0; 6], "10.77.0.1:8080".parse().unwrap());
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..1000 {
            let sender = Ipv4Addr::from(random.u32(..));
            let frame = syn.from(sender, random.u16(..), random.u32(..)).to_vec();
            assert_eq!(checksum(sum(&frame[IP..TCP])), 0, "{frame:?}");
            assert_eq!(checksum(sum(&frame[IP + 12..]) + 6 + 20), 0, "{frame:?}");
        }
    }
}
