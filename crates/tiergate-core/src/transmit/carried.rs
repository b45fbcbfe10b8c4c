//! What a connection's packets took of the link, and whether more would leave at once.
//!
//! Who takes turns is charged in advance, by a guess: so many bytes in full packets. What the system says that it has sent since, in how many packets, puts that right:
//! a client may have room for a part of a packet only, packets that are lost are sent again, and what a client sends is acknowledged. And what a
//! client has no room for is not written, as it would leave later, together with what others have no room for.

use super::heads::Heads;

/// How far a connection of TCP is, as its system says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sending {
    /// Bytes that it has sent, those that it sent again included.
    pub sent: u64,
    /// Packets that it has sent, acknowledgements and those that it sent again included; the counter begins again at its end.
    pub packets: u32,
    /// Bytes that were written and have not been sent.
    pub unsent: u64,
    /// Bytes that are on their way.
    pub in_flight: u64,
    /// Bytes that may be, as the peer has room for them.
    pub window: u64,
    /// Packets that are on their way.
    pub packets_in_flight: u32,
    /// Packets that may be.
    pub packets_max: u32,
    /// Bytes that each carries at most.
    pub packet: u64,
}

impl Sending {
    /// How many of so many bytes, at least 1, would leave at once; 0: the rest of a packet is waited for. O(1).
    pub fn room(&self, wanted: u64) -> u64 {
        let packets = u64::from(self.packets_max.saturating_sub(self.packets_in_flight));
        let by_packets = packets.saturating_mul(self.packet).saturating_sub(self.unsent);
        let by_window = self.window.saturating_sub(self.in_flight + self.unsent);
        let room = by_packets.min(by_window);
        let is_still = self.in_flight == 0 && self.unsent == 0;
        // Small parts of packets would leave again and again where a client frees its room bit by bit.
        let least = if is_still { 1 } else { wanted.min(self.packet / 2).max(1) };
        if room < least { 0 } else { room.min(wanted) }
    }
}

/// What a connection's packets took of the link beyond what was charged for them.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// Bytes and packets when it was looked at last; `None`: what was sent before the next look is not its matter.
    seen: Option<(u64, u32)>,
    /// Bytes on the wire that were charged, and have not been seen to leave.
    paid: f64,
    /// The most that was charged at a time lately.
    most: f64,
}

impl Default for Carried {
    /// Of a connection that has just begun.
    fn default() -> Self {
        Carried { seen: Some((0, 0)), paid: 0.0, most: 0.0 }
    }
}

/// What the most that was charged at a time is worth at each later charge.
const FADES: f64 = 0.9;
/// So many times that may be on its way to the system, which has not been told of it.
const KEPT: f64 = 2.0;

impl Carried {
    /// So many bytes on the wire were charged for what is to be written; less than 0: given back.
    pub fn pays(&mut self, on_wire: f64) {
        self.paid += on_wire;
        self.most = on_wire.max(self.most * FADES);
    }

    /// What was sent until the next look was charged elsewhere.
    pub fn forget(&mut self) {
        self.seen = None;
    }

    /// Bytes on the wire that are to be charged for what has left since the last look. What was charged too much stays for what is unsent, and little more:
    /// what is not used now is not to be had later.
    pub fn settle(&mut self, now: &Sending, heads: Heads) -> f64 {
        let unsent = if now.unsent == 0 { 0.0 } else { heads.on_wire(now.unsent) };
        let Some((bytes, packets)) = self.seen.replace((now.sent, now.packets)) else {
            self.paid = unsent;
            return 0.0;
        };
        let bytes = now.sent.saturating_sub(bytes);
        let left = bytes as f64 + heads.around(now.packets.wrapping_sub(packets));
        self.paid = (self.paid - left).min(unsent + KEPT * self.most);
        let due = (unsent - self.paid).max(0.0);
        self.paid += due;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn heads() -> Heads {
        Heads::of(false, false)
    }

    fn idle() -> Sending {
        Sending { window: 1 << 20, packets_max: 10, packet: 1448, ..Sending::default() }
    }

    #[test]
    fn there_is_room_for_what_leaves_at_once() {
        let wants = |sending: Sending| sending.room(2800);
        assert_eq!(wants(idle()), 2800);
        assert_eq!(wants(Sending { window: 0, ..idle() }), 0);
        assert_eq!(wants(Sending { packets_in_flight: 10, in_flight: 9, ..idle() }), 0);
        assert_eq!(wants(Sending { packets_in_flight: 12, in_flight: 9, ..idle() }), 0);
        assert_eq!(wants(Sending { packets_in_flight: 9, in_flight: 9, ..idle() }), 1448);
        // Of a window that was never larger all is used, and else no small part of a packet.
        assert_eq!(wants(Sending { window: 300, ..idle() }), 300);
        let part = |window| Sending { window, packets_in_flight: 1, in_flight: 1000, ..idle() };
        assert_eq!([1723, 1724, 3000, 9000].map(|it| wants(part(it))), [0, 724, 2000, 2800]);
        assert_eq!(part(1300).room(300), 300, "it is all that is left");
        // What is unsent has its room before.
        let paced = Sending { unsent: 1448, ..idle() };
        assert_eq!((wants(paced), wants(Sending { packets_max: 1, ..paced })), (2800, 0));
    }

    #[test]
    fn what_left_in_more_packets_than_was_thought_is_charged() {
        let mut carried = Carried::default();
        let mut sending = idle();
        assert_eq!(carried.settle(&sending, heads()), 0.0);
        // Paid as one packet, sent as one, and as three.
        for (packets, due) in [(1, 0.0), (3, 2.0 * 66.0)] {
            carried.pays(heads().on_wire(1400));
            (sending.sent, sending.packets) =
                (sending.sent + 1400, sending.packets.wrapping_add(packets));
            assert_eq!(carried.settle(&sending, heads()), due);
        }
        // Sent again; and acknowledgements.
        sending.sent += 1400;
        sending.packets += 1;
        assert_eq!(carried.settle(&sending, heads()), 1466.0);
        sending.packets += 50;
        assert_eq!(carried.settle(&sending, heads()), 3300.0);
        assert_eq!(carried.settle(&sending, heads()), 0.0);
    }

    #[test]
    fn what_is_unsent_stays_paid_and_what_others_were_charged_for_is_no_matter() {
        let mut carried = Carried::default();
        let mut sending = idle();
        carried.settle(&sending, heads());
        carried.pays(heads().on_wire(1400));
        sending.unsent = 1400;
        assert_eq!(carried.settle(&sending, heads()), 0.0);
        (sending.unsent, sending.sent, sending.packets) = (0, 1400, 1);
        assert_eq!(carried.settle(&sending, heads()), 0.0);
        carried.forget();
        (sending.sent, sending.packets) = (1_000_000, 700);
        assert_eq!(carried.settle(&sending, heads()), 0.0);
    }

    proptest! {
        /// Whatever a client does: what leaves is charged, but for what was charged before and not used, of which little is kept.
        #[test]
        fn nothing_leaves_for_nothing(steps in prop::collection::vec((0_u64..5000, 0_u64..9000, 0_u32..9), 1..100)) {
            let (mut carried, mut sending) = (Carried::default(), idle());
            let (mut charged, mut left) = (0.0, 0.0);
            for (written, sent, packets) in steps {
                if written > 0 {
                    // Of what was taken a part is not written, and given back.
                    let taken = written + u64::from(packets) * 100;
                    let rest = heads().on_wire(taken) - heads().on_wire(written);
                    carried.pays(heads().on_wire(taken));
                    carried.pays(-rest);
                    charged += heads().on_wire(taken) - rest;
                    sending.unsent += written;
                }
                let sent = sent.min(sending.unsent);
                sending.unsent -= sent;
                sending.sent += sent;
                sending.packets = sending.packets.wrapping_add(packets);
                left += sent as f64 + f64::from(packets) * 66.0;
                charged += carried.settle(&sending, heads());
                prop_assert!(charged > left - 0.001);
            }
        }
    }
}
