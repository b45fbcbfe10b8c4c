//! A virtual queue before a link: background bytes leave only where the link would be idle anyway.
//!
//! It is a bucket of tokens, a byte on the wire each, that fills a little more slowly than the link carries bytes. The foreground sends
//! at once and is charged all the same, so that the bucket may be in debt; the background sends where there are
//! tokens for it. So the real queue before the link stays empty but for the foreground's own bytes and little more, whatever the background wants. A limit on
//! the background's rate alone would not do: where the foreground has bursts, both together fill the queue.
//!
//! Source: virtual queues as of Gibbens and Kelly (1999) and Kunniyur and Srikant's AVQ (2001); what is to be achieved is Eggert and Heidemann's
//! background service (1999), §4, whose rate limit left the idle part of the link unused.

use crate::time::Moment;
use std::time::Duration;

/// The part of the link that both may use: the rest empties the queue.
const PART: f64 = 0.98;
/// Bytes of payload that go into one packet, with what TLS and HTTP/2 put around them, and what else of it is on the wire: heads of Ethernet,
/// IP, TCP with a time stamp, TLS and HTTP/2.
const SEGMENT: u64 = 1400;
const HEADS: u64 = 97;
/// Who takes turns takes one segment at a time, or as many as the link carries in so long: a wake-up for each packet of a fast link costs more than it
/// gains. While only the background does, others have to wait for no more than that; else they have their turns.
const QUANTUM: Duration = Duration::from_micros(100);
const QUANTUM_OF_ALL: Duration = Duration::from_micros(500);
/// Tokens that are saved up while nobody sends: so many quanta.
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

/// Bytes on the wire of so many that are written at once.
pub(super) fn on_wire(bytes: u64) -> f64 {
    bytes as f64 + (HEADS * bytes.div_ceil(SEGMENT)) as f64
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
        let segments = self.rate * quantum.as_secs_f64() / (SEGMENT + HEADS) as f64;
        self.quantum = SEGMENT * (segments as u64).max(1);
        self.tokens = self.tokens.clamp(-self.debt_max(), self.saved_max());
    }

    /// The foreground writes so many bytes. O(1).
    pub(super) fn charge(&mut self, now: Moment, bytes: u64) {
        self.pass(now);
        self.tokens = (self.tokens - on_wire(bytes)).max(-self.debt_max());
    }

    /// The background wants to write so many bytes, at least 1: how many it may. O(1).
    ///
    /// # Errors
    /// None now, and when to ask again if the foreground sends nothing until then.
    pub(super) fn take(&mut self, now: Moment, wanted: u64) -> Result<u64, Moment> {
        self.pass(now);
        let bytes = wanted.clamp(1, self.quantum);
        let missing = on_wire(bytes) - self.tokens;
        // What is earned in a part of a nanosecond is not waited for.
        if missing <= ROUNDING && now >= self.held_until {
            self.tokens -= on_wire(bytes);
            return Ok(bytes);
        }
        Err((now + Duration::from_secs_f64(missing.max(0.0) / self.rate)).max(self.held_until))
    }

    /// When there will be tokens for as much as is taken at a time, if the foreground sends nothing until then.
    pub(super) fn ready_at(&mut self, now: Moment) -> Moment {
        self.pass(now);
        let missing = (on_wire(self.quantum) - self.tokens).max(0.0);
        (now + Duration::from_secs_f64(missing / self.rate)).max(self.held_until)
    }

    /// Bytes on the wire that it lets through in a second.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// How long what is taken at a time takes on the link.
    pub(super) fn time_of_turn(&self) -> Duration {
        Duration::from_secs_f64(on_wire(self.quantum) / self.rate)
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
    pub(super) fn sound(&mut self, now: Moment, wanted: u64) -> u64 {
        let bytes = wanted.clamp(1, 2 * SEGMENT);
        self.charge(now, bytes);
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

    /// So many bytes that were taken were not written.
    pub(super) fn give_back(&mut self, bytes: u64) {
        self.tokens = (self.tokens + on_wire(bytes)).min(self.saved_max());
    }

    fn saved_max(&self) -> f64 {
        SAVED * on_wire(self.quantum)
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
    /// Bytes a second on the wire.
    const RATE: f64 = PART * LINK as f64 / 8.0;

    /// The background takes what it may for a second; after each millisecond the foreground writes so many bytes. Bytes on the wire.
    fn carried(foreground: u64) -> f64 {
        let mut queue = VirtualQueue::new(Moment::ZERO, LINK);
        let (mut now, end) = (Moment::ZERO, Moment::from_millis(1000));
        let (mut carried, mut next) = (0.0, Moment::from_millis(1));
        while now < end {
            match queue.take(now, u64::MAX) {
                Ok(bytes) => carried += on_wire(bytes),
                Err(at) => now = at.min(next).max(now + Duration::from_nanos(1)),
            }
            if now >= next {
                queue.charge(now, foreground);
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
        // A hundred packets: 149,700 bytes, which take 122.2 ms, and the one to be sent 1.2.
        queue.charge(Moment::ZERO, 140_000);
        let Err(at) = queue.take(Moment::ZERO, 1400) else { panic!("it is in debt") };
        assert_eq!(at.since(Moment::ZERO).as_millis(), 123);
        assert!(queue.take(at - Duration::from_micros(10), 1400).is_err());
        assert_eq!(queue.take(at + Duration::from_micros(10), 1400), Ok(1400));
        // However much was sent, the debt is a second's at most.
        queue.charge(at, u64::MAX / 4);
        assert!(queue.ready_at(at).since(at).as_secs_f64() < 1.01);
        // Also of another link.
        queue.set(at, LINK / 100, false);
        assert!(queue.ready_at(at).since(at).as_secs_f64() < 1.2);
    }

    #[test]
    fn what_is_saved_is_bounded() {
        let mut queue = VirtualQueue::new(Moment::ZERO, LINK);
        let now = Moment::from_millis(100_000);
        assert_eq!([queue.take(now, u64::MAX), queue.take(now, 1000)], [Ok(1400), Ok(1000)]);
        assert!(queue.take(now, 1400).is_err());
    }

    #[test]
    fn a_fast_link_gives_more_at_a_time() {
        let mut queue = VirtualQueue::new(Moment::ZERO, 10_000_000_000);
        let now = Moment::from_millis(1);
        // 81 packets are carried in 100 µs.
        assert_eq!(queue.take(now, u64::MAX), Ok(81 * 1400));
        assert_eq!(queue.take(now, 10), Ok(10));
    }
}
