//! What a connection knows of its streams' tasks.
//!
//! | state | who writes | who reads |
//! |---|---|---|
//! | live | each stream's task | the connection's |
//! | resets | each stream's task | the connection's |
//! | headless, closing | a stream's task | the connection's |
//! | label | each stream's task | each stream's task |
//!
//! All tasks of a connection are on one thread: the atomics only say so to the compiler.

use super::parking::Parking;
use crate::shared::Config;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use tiergate_core::gate::Delivered;
use tiergate_core::mark::{Label, Mark, Marks};
use tiergate_core::transmit::{Carried, Sending};

/// What a connection knows of its streams' tasks.
#[derive(Debug)]
pub(in crate::client) struct Tally {
    live: AtomicUsize,
    /// Those of them whose body is read before they ask for a slot.
    gathering: AtomicUsize,
    /// Streams that the client reset, less those that the origin answered.
    resets: AtomicU32,
    /// Streams that ended before they were requests.
    headless: AtomicU32,
    closing: AtomicBool,
    /// Uploads that may stand still.
    pub(in crate::client) parking: Parking,
    /// Bytes that the connection has delivered.
    meter: Meter,
    /// Streams whose answers wait for turns on the link.
    in_turns: AtomicUsize,
    /// What it took of the link.
    carried: Mutex<Carried>,
    /// Its label.
    marking: Mutex<Marking>,
}

/// What the connection's packets bear, and why.
#[derive(Debug, Default)]
struct Marking {
    marks: Marks,
    /// The label that they bear.
    label: Label,
}

/// Asks the system for the bytes that a connection has delivered, as far as it tells.
pub(in crate::client) struct Meter {
    ask: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    set_label: Box<dyn Fn(Label) -> io::Result<()> + Send + Sync>,
    limit_unsent: Box<dyn Fn(bool) + Send + Sync>,
    sending: Box<dyn Fn() -> Option<Sending> + Send + Sync>,
    asks_for_room: Box<dyn Fn(bool) + Send + Sync>,
}

impl Meter {
    /// `ask` says the bytes, `set_label` has its packets bear a label, `limit_unsent` has the system hold little that is unsent, or as much as it likes,
    /// `sending` says what was sent, and what may be, `asks_for_room` has the system ask the client for room, or not any more.
    pub(in crate::client) fn new(
        ask: impl Fn() -> Option<u64> + Send + Sync + 'static,
        set_label: impl Fn(Label) -> io::Result<()> + Send + Sync + 'static,
        limit_unsent: impl Fn(bool) + Send + Sync + 'static,
        sending: impl Fn() -> Option<Sending> + Send + Sync + 'static,
        asks_for_room: impl Fn(bool) + Send + Sync + 'static,
    ) -> Self {
        let (ask, set_label) = (Box::new(ask), Box::new(set_label));
        let (limit_unsent, sending) = (Box::new(limit_unsent), Box::new(sending));
        let asks_for_room = Box::new(asks_for_room);
        Meter { ask, set_label, limit_unsent, sending, asks_for_room }
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meter")
    }
}

/// How a stream's task has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::client) enum Ended {
    /// The client reset the stream, or left: wasted work.
    Reset,
    /// The origin's answer was passed on.
    Answered,
    /// By an answer of ours, or by us. It pays for no reset: answers of ours are to be had for nothing.
    #[default]
    Otherwise,
}

impl Tally {
    pub(in crate::client) fn new(meter: Meter) -> Self {
        Tally {
            live: AtomicUsize::default(),
            gathering: AtomicUsize::default(),
            resets: AtomicU32::default(),
            headless: AtomicU32::default(),
            closing: AtomicBool::default(),
            parking: Parking::default(),
            meter,
            in_turns: AtomicUsize::default(),
            carried: Mutex::default(),
            marking: Mutex::default(),
        }
    }

    /// What the connection has delivered to all of its streams.
    pub(in crate::client) fn delivered(&self) -> Option<Delivered> {
        let requests = u32::try_from(self.live()).unwrap_or(u32::MAX).max(1);
        Some(Delivered { bytes: (self.meter.ask)()?, requests })
    }

    /// A stream's answer begins: whether the connection's label had to be changed.
    ///
    /// # Errors
    /// What the system says.
    pub(in crate::client) fn mark(&self, mark: Mark) -> io::Result<bool> {
        let mut marking = self.marking();
        let label = marking.marks.begin(mark);
        self.set_label(&mut marking, label)
    }

    /// A stream's answer of this rank has ended.
    pub(in crate::client) fn unmark(&self, rank: u16) {
        let mut marking = self.marking();
        if let Some(label) = marking.marks.end(rank) {
            // What fails here fails for the next answer that begins, which says so.
            let _ = self.set_label(&mut marking, label);
        }
    }

    /// A stream's answer begins to wait for turns on the link, or does not any more: while one does, the system holds little of the connection that is unsent.
    pub(in crate::client) fn sends_in_turns(&self, does: bool) {
        let others = match does {
            true => self.in_turns.fetch_add(1, Ordering::Relaxed),
            false => self.in_turns.fetch_sub(1, Ordering::Relaxed) - 1,
        };
        if others == 0 {
            (self.meter.limit_unsent)(does);
        }
    }

    /// Hands on what the connection has sent and may send, and what of that was charged to the link; `None`: that is not known.
    pub(in crate::client) fn with_carried<T>(
        &self,
        then: impl FnOnce(&mut Carried, &Sending) -> T,
    ) -> Option<T> {
        let sending = (self.meter.sending)()?;
        Some(then(&mut self.carried(), &sending))
    }

    /// Has the system ask the client for room, or not any more.
    pub(in crate::client) fn asks_for_room(&self, does: bool) {
        (self.meter.asks_for_room)(does);
    }

    /// So many bytes on the wire were charged to the link.
    pub(in crate::client) fn charged(&self, on_wire: f64) {
        self.carried().pays(on_wire);
    }

    fn carried(&self) -> MutexGuard<'_, Carried> {
        self.carried.lock().expect("no code panics while it holds it")
    }

    fn set_label(&self, marking: &mut Marking, label: Label) -> io::Result<bool> {
        let changes = marking.label != label;
        if changes {
            marking.label = label;
            (self.meter.set_label)(label)?;
        }
        Ok(changes)
    }

    fn marking(&self) -> MutexGuard<'_, Marking> {
        self.marking.lock().expect("no code panics while it holds the marks")
    }

    /// A stream's task begins.
    pub(in crate::client) fn begin(&self) {
        self.live.fetch_add(1, Ordering::Relaxed);
    }

    /// A stream's task has ended.
    pub(in crate::client) fn end(&self, ended: Ended) {
        self.live.fetch_sub(1, Ordering::Relaxed);
        let resets = self.resets.load(Ordering::Relaxed);
        let resets = match ended {
            Ended::Reset => resets.saturating_add(1),
            Ended::Answered => resets.saturating_sub(1),
            Ended::Otherwise => resets,
        };
        self.resets.store(resets, Ordering::Relaxed);
    }

    /// A stream ended before it was a request, of which something is kept until the connection ends: after many, that does.
    pub(in crate::client) fn ends_headless(&self) {
        if self.headless.fetch_add(1, Ordering::Relaxed) >= HEADLESS_MAX {
            self.close();
        }
    }

    /// The connection shall end after the streams that are open.
    pub(in crate::client) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// A stream's task begins to read its body before it asks for a slot, or that is over. Wakes the connection's task.
    pub(in crate::client) fn gathers(&self, begins: bool) {
        match begins {
            true => self.gathering.fetch_add(1, Ordering::Relaxed),
            false => self.gathering.fetch_sub(1, Ordering::Relaxed),
        };
        self.parking.wake();
    }

    /// Tasks that have a slot or wait for one, or are about to.
    pub(in crate::client) fn asking(&self) -> usize {
        self.live().saturating_sub(self.gathering.load(Ordering::Relaxed))
    }

    /// Tasks that live.
    pub(in crate::client) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Resets that are not made up for by answers.
    pub(in crate::client) fn resets(&self) -> u32 {
        self.resets.load(Ordering::Relaxed)
    }

    /// Whether a stream wants the connection to end.
    pub(in crate::client) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }
}

/// Streams that a client may begin and reset, beyond those that were answered. Each was wasted work, at
/// the origin too: a browser that leaves a page resets what is open, an attack goes on.
pub(in crate::client) fn resets_max(config: &Config) -> u32 {
    config.policy.limits.http2_streams_max.saturating_mul(2).max(RESETS_MAX_LEAST)
}

/// Streams without a head after which a connection ends.
const HEADLESS_MAX: u32 = 1000;

/// At least so many, where the policy allows only a few streams.
const RESETS_MAX_LEAST: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_label_is_set_only_where_it_changes_and_a_refusal_of_the_system_is_said_once() {
        let set: Arc<Mutex<Vec<u8>>> = Arc::default();
        let told = set.clone();
        let meter = Meter::new(
            || None,
            move |label| {
                told.lock().unwrap().push(label.dscp);
                if label.dscp == 46 { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
            },
            |_| {},
            || None,
            |_| {},
        );
        let tally = Tally::new(meter);
        let mark = |rank, dscp| tally.mark(Mark { rank, label: Label { dscp, priority: 0 } }).ok();
        assert_eq!([mark(1, 8), mark(1, 8), mark(2, 1)], [Some(true), Some(false), Some(false)]);
        assert_eq!([mark(0, 46), mark(0, 46)], [None, Some(false)]);
        [0, 0, 1, 1, 2].into_iter().for_each(|rank| tally.unmark(rank));
        assert_eq!(*set.lock().unwrap(), [8, 46, 8, 1]);
    }
}
