//! What stands around the bytes of an answer on the wire.

/// Payload of a full packet, with what TLS and HTTP/2 put around it.
pub(super) const SEGMENT: u64 = 1400;
/// Heads of Ethernet, IPv4 and TCP with a time stamp; what they have more by IPv6; and those of a record of TLS and a frame of HTTP/2.
const TCP: u64 = 66;
const IPV6: u64 = 20;
const WRAPPED: u64 = 31;

/// The heads of each packet of an answer, in bytes, as a shaper counts them: without what Ethernet leaves between frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads(u64);

impl Heads {
    /// Those of most answers: they decide how much goes into a packet.
    pub(super) const USUAL: Self = Heads(TCP + WRAPPED);
    /// The most that there are: nobody is called who could not have his packet then.
    pub(super) const MOST: Self = Heads(TCP + WRAPPED + IPV6);

    /// Of an answer in packets of IPv6, or IPv4; wrapped in TLS or HTTP/2, or not.
    pub fn of(is_by_v6: bool, is_wrapped: bool) -> Self {
        let wrapped = if is_wrapped { WRAPPED } else { 0 };
        Heads(TCP + wrapped + if is_by_v6 { IPV6 } else { 0 })
    }

    /// Bytes on the wire of so many that are written at once.
    pub(super) fn on_wire(self, bytes: u64) -> f64 {
        bytes as f64 + (self.0 * bytes.div_ceil(SEGMENT)) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_has_its_heads() {
        assert_eq!(Heads::of(false, false).on_wire(2801), 2801.0 + 3.0 * 66.0);
        assert_eq!(Heads::of(true, false).on_wire(1), 87.0);
        assert_eq!(Heads::of(false, true), Heads::USUAL);
        assert_eq!(Heads::of(true, true), Heads::MOST);
    }
}
