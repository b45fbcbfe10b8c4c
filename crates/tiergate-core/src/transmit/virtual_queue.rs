//! A virtual queue before a link: background bytes leave only where the link would be idle anyway.
//!
//! It is a bucket of tokens, a byte on the wire each, that fills a little more slowly than the link carries bytes. The foreground sends
//! at once and is charged all the same, so that the bucket may be in debt; the background sends where there are
//! tokens for it. So the real queue before the link stays empty but for the foreground's own bytes and little more, whatever the background wants. A limit on
//! the background's rate alone would not do: where the foreground has bursts, both together fill the queue.
//!
//! Source: virtual queues as of Gibbens and Kelly (1999) and Kunniyur and Srikant's AVQ (2001); what is to be achieved is Eggert and Heidemann's
//! background service (1999), §4, whose rate limit left the idle part of the link unused.

use super::heads::{Heads, SEGMENT};
use crate::time::Moment;
use std::time::Duration;

/// The part of the link that both may use: the rest empties the queue.
const PART: f64 = 0.98;
/// Who takes turns takes one segment at a time, or as many as the link carries in so long: a wake-up for each packet of a fast link costs more than it
/// gains. While only the background does, others have to wait for no more than that; else they have their turns.
const QUANTUM: Duration = Duration::from_micros(100);
const QUANTUM_OF_ALL: Duration = Duration::from_micros(500);
/// What a packet of the background takes on a slow link, if it can be as short, as others may have to wait for it: there less goes into one. A packet of 1,500 bytes takes
/// 1.2 ms of 10 Mb/s, where an answer of 8 KiB takes 7.
const PACKET: Duration = Duration::from_micros(700);
/// But not less payload than so many bytes: the rest are heads, and what is smaller other systems take for the end of what is sent, and acknowledge late.
const LEAST: u64 = 560;
/// Tokens that are saved up while nobody sends: so many quanta, and so many full packets.
const SAVED: f64 = 2.0;
/// Less than this is missing where a time has been rounded down, in bytes.
const ROUNDING: f64 = 1.0;
/// The debt is never more than what the link carries in so long: a foreground that asks for more than the link can carry would
/// leave one that lasts for long after its own bytes have left.
const DEBT: Duration = Duration::from_secs(1);

/// The virtual queue of a link.
#[derive(Clone, Debug)]
pub(super) struct VirtualQueue {
    /// Bytes a second.
    rate: f64,
    /// In bytes; less than 0: a debt.
    tokens: f64,
    seen: Moment,
    /// The background sends nothing before.
    held_until: Moment,
    /// Bytes of payload that are taken at a time, at most: whole segments.
    quantum: u64,
}

impl VirtualQueue {
    /// Of a link that carries so many bits a second, at least 1, heads included. It is empty.
    pub(super) fn new(now: Moment, capacity: u64) -> Self {
        let mut queue =
            VirtualQueue { rate: 0.0, tokens: 0.0, seen: now, held_until: now, quantum: SEGMENT };
        queue.set(now, capacity, false);
        queue
    }

    /// The link has another capacity from now on, and all that is sent takes turns, or only the background does.
    pub(super) fn set(&mut self, now: Moment, capacity: u64, is_of_all: bool) {
        self.pass(now);
        self.rate = PART * capacity.max(1) as f64 / 8.0;
        let quantum = if is_of_all { QUANTUM_OF_ALL } else { QUANTUM };
        let segment = Heads::USUAL.on_wire(SEGMENT);
        let segments = (self.rate * quantum.as_secs_f64() / segment) as u64;
        let packet = self.rate * PACKET.as_secs_f64() - (segment - SEGMENT as f64);
        self.quantum = match segments {
            0 if !is_of_all => (packet.max(0.0) as u64).clamp(LEAST, SEGMENT),
            _ => SEGMENT * segments.max(1),
        };
        self.tokens = self.tokens.clamp(-self.debt_max(), self.saved_max());
    }

    /// The foreground writes so many bytes. O(1).
    pub(super) fn charge(&mut self, now: Moment, bytes: u64, heads: Heads) {
        self.charge_wire(now, heads.on_wire(bytes));
    }

    /// So many bytes on the wire are written. O(1).
    pub(super) fn charge_wire(&mut self, now: Moment, on_wire: f64) {
        self.pass(now);
        self.tokens = (self.tokens - on_wire).max(-self.debt_max());
    }

    /// The background wants to write so many bytes, at least 1: how many it may. O(1).
    ///
    /// # Errors
    /// None now, and when to ask again if the foreground sends nothing until then.
    pub(super) fn take(&mut self, now: Moment, wanted: u64, heads: Heads) -> Result<u64, Moment> {
        self.pass(now);
        let bytes = wanted.clamp(1, heads.whole(self.quantum));
        // What is more than usual, as in short packets, is paid afterwards: there are never so many tokens.
        let missing = heads.on_wire(bytes).min(self.turn()) - self.tokens;
        // What is earned in a part of a nanosecond is not waited for.
        if missing <= ROUNDING && now >= self.held_until {
            self.tokens -= heads.on_wire(bytes);
            return Ok(bytes);
        }
        Err((now + Duration::from_secs_f64(missing.max(0.0) / self.rate)).max(self.held_until))
    }

    /// So many bytes on the wire that were just taken are not written. O(1).
    pub(super) fn gives_back(&mut self, now: Moment, on_wire: f64) {
        self.pass(now);
        self.tokens = (self.tokens + on_wire).min(self.saved_max());
    }

    /// When there will be tokens for as much as is taken at a time, if the foreground sends nothing until then.
    pub(super) fn ready_at(&mut self, now: Moment) -> Moment {
        self.pass(now);
        let missing = (self.turn() - self.tokens).max(0.0);
        (now + Duration::from_secs_f64(missing / self.rate)).max(self.held_until)
    }

    /// Bytes on the wire that it lets through in a second.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// How long what is taken at a time takes on the link.
    pub(super) fn time_of_turn(&self) -> Duration {
        Duration::from_secs_f64(self.turn() / self.rate)
    }

    /// So many bytes on the wire wait before the link, and are to leave before the background sends more.
    pub(super) fn drain(&mut self, now: Moment, bytes: f64) {
        self.pass(now);
        self.tokens = self.tokens.min(-bytes).max(-self.debt_max());
    }

    /// What is thought to wait before the link, in bytes on the wire.
    pub(super) fn debt(&self) -> f64 {
        (-self.tokens).max(0.0)
    }

    /// So many bytes on the wire less than was thought waited before the link at that time.
    pub(super) fn forgive(&mut self, now: Moment, then: Moment, bytes: f64) {
        self.pass(now);
        // Some of them were thought to leave since.
        let bytes = (bytes - self.rate * now.since(then).as_secs_f64()).max(0.0);
        self.tokens = self.tokens.max((self.tokens + bytes).min(0.0));
    }

    /// The background takes two packets though there is no room.
    pub(super) fn sound(&mut self, now: Moment, wanted: u64, heads: Heads) -> u64 {
        let bytes = wanted.clamp(1, 2 * SEGMENT);
        self.charge(now, bytes, heads);
        bytes
    }

    /// Until when the background sends nothing.
    pub(super) fn held_until(&self) -> Moment {
        self.held_until
    }

    /// The background is to send nothing until then.
    pub(super) fn hold(&mut self, until: Moment) {
        self.held_until = until;
    }

    fn saved_max(&self) -> f64 {
        SAVED * self.turn().max(Heads::MOST.on_wire(SEGMENT))
    }

    /// What is taken at a time, on the wire.
    fn turn(&self) -> f64 {
        Heads::MOST.on_wire(self.quantum)
    }

    fn debt_max(&self) -> f64 {
        self.rate * DEBT.as_secs_f64()
    }

    fn pass(&mut self, now: Moment) {
        let earned = self.rate * now.since(self.seen).as_secs_f64();
        self.seen = self.seen.max(now);
        self.tokens = (self.tokens + earned).min(self.saved_max());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: u64 = 10_000_000;
    const HEADS: Heads = Heads::USUAL;
    /// Bytes a second on the wire.
    const RATE: f64 = PART * LINK as f64 / 8.0;

    /// The background takes what it may for a second; after each millisecond the foreground writes so many bytes. Bytes on the wire.
    fn carried(foreground: u64) -> f64 {
        let mut queue = VirtualQueue::new(Moment::ZERO, LINK);
        let (mut now, end) = (Moment::ZERO, Moment::from_millis(1000));
        let (mut carried, mut next) = (0.0, Moment::from_millis(1));
        while now < end {
            match queue.take(now, u64::MAX, HEADS) {
                Ok(bytes) => carried += HEADS.on_wire(bytes),
                Err(at) => now = at.min(next).max(now + Duration::from_nanos(1)),
            }
            if now >= next {
                queue.charge(now, foreground, HEADS);
                next = next + Duration::from_millis(1);
            }
        }
        carried
    }

    #[test]
    fn the_background_has_what_the_foreground_leaves() {
        assert!((carried(0) / RATE - 1.0).abs() < 0.01, "{}", carried(0));
        // 503 bytes and their heads each millisecond are 600 on the wire.
        let rest = carried(503);
        assert!((rest / (RATE - 600_000.0) - 1.0).abs() < 0.01, "{rest}");
        assert!(carried((RATE / 500.0) as u64) < 0.01 * RATE, "nothing is left");
    }

    #[test]
    fn a_debt_is_paid_before_the_background_sends() {
        let mut queue = VirtualQueue::new(Moment::ZERO, LINK);
        // A hundred packets: 149,700 bytes, which take 122.2 ms, and the one to be sent 0.7.
        queue.charge(Moment::ZERO, 140_000, HEADS);
        let Err(at) = queue.take(Moment::ZERO, 1400, HEADS) else { panic!("it is in debt") };
        assert_eq!(at.since(Moment::ZERO).as_millis(), 122);
        assert!(queue.take(at - Duration::from_micros(10), 1400, HEADS).is_err());
        assert_eq!(queue.take(at + Duration::from_micros(10), 1400, HEADS), Ok(760));
        // However much was sent, the debt is a second's at most.
        queue.charge(at, u64::MAX / 4, HEADS);
        assert!(queue.ready_at(at).since(at).as_secs_f64() < 1.01);
        // Also of another link.
        queue.set(at, LINK / 100, false);
        assert!(queue.ready_at(at).since(at).as_secs_f64() < 1.2);
    }

    #[test]
    fn what_is_given_back_is_there_for_others_at_once() {
        let mut queue = VirtualQueue::new(Moment::ZERO, LINK);
        let now = Moment::from_millis(100_000);
        while queue.take(now, 760, HEADS).is_ok() {}
        queue.gives_back(now, HEADS.on_wire(760));
        assert_eq!(queue.take(now, 760, HEADS), Ok(760));
        assert!(queue.take(now, 760, HEADS).is_err());
        queue.gives_back(now, 1e9);
        let turns = (0..100).take_while(|_| queue.take(now, 760, HEADS).is_ok()).count();
        assert!(turns <= 4, "{turns}: no more than is saved");
    }

    #[test]
    fn what_is_saved_is_bounded() {
        let mut queue = VirtualQueue::new(Moment::ZERO, LINK);
        let now = Moment::from_millis(100_000);
        // As many bytes as two full packets have.
        for wanted in [u64::MAX, 760, 1000] {
            assert_eq!(queue.take(now, wanted, HEADS), Ok(760));
        }
        assert!(queue.take(now, 760, HEADS).is_err());
    }

    #[test]
    fn a_packet_of_the_background_s_is_short_where_the_link_is_slow() {
        let now = Moment::from_millis(100_000);
        for (bits, bytes) in [(20_000_000, 1400), (10_000_000, 760), (100_000, 560)] {
            let mut queue = VirtualQueue::new(Moment::ZERO, bits);
            assert_eq!(queue.take(now, u64::MAX, HEADS), Ok(bytes), "{bits}");
            // Where all have turns, nobody waits for it out of turn.
            queue.set(now, bits, true);
            assert_eq!(queue.take(now + Duration::from_secs(1), u64::MAX, HEADS), Ok(1400));
        }
    }

    #[test]
    fn who_is_called_has_his_turn_whatever_his_heads() {
        for bits in [100_000, 1_000_000, 10_000_000, 1_000_000_000] {
            for heads in [Heads::of(false, false), Heads::of(true, true)] {
                let mut queue = VirtualQueue::new(Moment::ZERO, bits);
                let mut now = Moment::ZERO;
                queue.charge(now, 10_000, heads);
                for _ in 0..20 {
                    now = queue.ready_at(now);
                    assert!(queue.take(now, u64::MAX, heads).is_ok(), "{bits} {heads:?}");
                }
            }
        }
    }

    /// A client may say that it takes no longer ones.
    #[test]
    fn short_packets_take_no_more_of_the_link_than_there_is() {
        let now = Moment::from_millis(100_000);
        for packet in [36, 500, 1368, 1448] {
            let heads = Heads::of(false, false).in_packets_of(packet);
            let mut queue = VirtualQueue::new(now, 10 * LINK);
            let (mut at, mut sent) = (now, 0.0);
            let end = now + Duration::from_secs(1);
            while at < end {
                match queue.take(at, u64::MAX, heads) {
                    Ok(bytes) => sent += heads.on_wire(bytes),
                    Err(again) => at = again,
                }
            }
            let of_link = sent / (10.0 * RATE);
            assert!((of_link - 1.0).abs() < 0.01, "{packet}: {of_link}");
        }
    }

    #[test]
    fn a_fast_link_gives_more_at_a_time() {
        let mut queue = VirtualQueue::new(Moment::ZERO, 10_000_000_000);
        let now = Moment::from_millis(1);
        // 81 packets are carried in 100 µs.
        assert_eq!(queue.take(now, u64::MAX, HEADS), Ok(81 * 1400));
        assert_eq!(queue.take(now, 10, HEADS), Ok(10));
    }
}
