//! What stands around the bytes of an answer on the wire.

/// Payload of a full packet, with what TLS and HTTP/2 put around it.
pub(super) const SEGMENT: u64 = 1400;
/// Heads of Ethernet, IPv4 and TCP with a time stamp; what they have more by IPv6; and those of a record of TLS and a frame of HTTP/2.
const TCP: u64 = 66;
const IPV6: u64 = 20;
const WRAPPED: u64 = 31;

/// Less than this the least packets of TCP do not carry (Linux, `TCP_MIN_SND_MSS` and options).
const LEAST: u64 = 16;

/// The heads of each packet of an answer, in bytes, as a shaper counts them: without what Ethernet leaves between frames; and how much of the answer is in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    each: u64,
    /// What is put around what is written at once.
    wrapped: u64,
    /// Bytes of the answer in a full packet, at most [`SEGMENT`].
    payload: u64,
}

impl Heads {
    /// Those of most answers: they decide how much goes into a packet.
    pub(super) const USUAL: Self =
        Heads { each: TCP + WRAPPED, wrapped: WRAPPED, payload: SEGMENT };
    /// The most that there are: nobody is called who could not have his packet then.
    pub(super) const MOST: Self = Heads { each: TCP + WRAPPED + IPV6, ..Self::USUAL };

    /// Of an answer in packets of IPv6, or IPv4; wrapped in TLS or HTTP/2, or not.
    pub fn of(is_by_v6: bool, is_wrapped: bool) -> Self {
        let wrapped = if is_wrapped { WRAPPED } else { 0 };
        let each = TCP + wrapped + if is_by_v6 { IPV6 } else { 0 };
        Heads { each, wrapped, payload: SEGMENT }
    }

    /// Of one over a connection whose packets carry no more than so many bytes, as through a tunnel.
    #[must_use]
    pub fn in_packets_of(self, bytes: u64) -> Self {
        Heads { payload: bytes.saturating_sub(self.wrapped).clamp(LEAST, SEGMENT), ..self }
    }

    /// Bytes around what so many packets carry, TLS included there.
    pub(super) fn around(self, packets: u32) -> f64 {
        ((self.each - self.wrapped) * u64::from(packets)) as f64
    }

    /// Bytes on the wire of so many that are written at once.
    pub fn on_wire(self, bytes: u64) -> f64 {
        bytes as f64 + (self.each * bytes.div_ceil(self.payload)) as f64
    }

    /// As many bytes as go into as many whole packets as so many of [`SEGMENT`] do; as many as those have where packets are much shorter, or each would be
    /// a turn.
    pub(super) fn whole(self, bytes: u64) -> u64 {
        if self.payload < SEGMENT / 2 {
            return bytes;
        }
        match bytes / SEGMENT {
            0 => bytes.min(self.payload),
            segments => segments * self.payload,
        }
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

    #[test]
    fn shorter_packets_have_more_heads() {
        let plain = Heads::of(false, false);
        assert_eq!(plain.in_packets_of(1448), plain);
        let tunnel = plain.in_packets_of(1368);
        assert_eq!((tunnel.on_wire(1400), tunnel.on_wire(1368)), (1400.0 + 132.0, 1368.0 + 66.0));
        assert_eq!([700, 1400, 2800].map(|it| tunnel.whole(it)), [700, 1368, 2736]);
        let hostile = plain.in_packets_of(36);
        assert_eq!((hostile.on_wire(1400), hostile.whole(1400)), (1400.0 + 39.0 * 66.0, 1400));
        assert_eq!(Heads::of(false, true).in_packets_of(1400).on_wire(1400), 1400.0 + 2.0 * 97.0);
    }
}
