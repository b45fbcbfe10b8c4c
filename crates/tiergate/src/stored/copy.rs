//! A copy of an answer.

use super::context::Context;
use crate::budget::Reserved;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tiergate_core::admit::connections::Level;
use tiergate_core::request::Field;
use tiergate_core::stored::{Held, Instead, Terms, selects, takes_over};
use tiergate_core::time::Moment;

/// A copy of an answer.
#[derive(Debug)]
pub(crate) struct Copy {
    /// Status line and fields, each with its line's end: without those that concerned the connection, length and age.
    pub(super) head: Box<[u8]>,
    /// The body, without chunks.
    pub(crate) body: Box<[u8]>,
    /// What it may be used for.
    pub(super) terms: Terms,
    pub(super) context: Context,
    /// When its head came.
    pub(super) at: Moment,
    /// For how long somebody may get it, from then on.
    pub(super) lifetime: Duration,
    /// Who is on its way to replace it.
    pub(super) mark: Arc<Mark>,
    /// How often it was asked for; half as often as the one before it, to begin with.
    pub(super) hits: AtomicU32,
    /// Its target has changed, or is gone: who found it before may not get it either.
    pub(super) gone: AtomicBool,
    /// Its memory, as long as anyone has it, evicted or not; `None`: it is still being made.
    pub(super) live: Option<Reserved>,
}

/// Who is on its way to replace a copy: how often somebody began to, and the importance of the last that did, or [`Mark::FREE`].
#[derive(Debug)]
pub(super) struct Mark(AtomicU64);

impl Mark {
    const FREE: u64 = 0xffff;
    const IMPORTANCE_BITS: u32 = 16;
}

impl Default for Mark {
    fn default() -> Self {
        Mark(AtomicU64::new(Mark::FREE))
    }
}

/// A request is on its way to replace a copy; dropped, it is not any more. It does not keep the copy.
#[derive(Debug)]
pub(crate) struct Refresh {
    mark: Arc<Mark>,
    own: u64,
}

impl Refresh {
    /// `None`: another request is on its way that is no less important.
    pub(super) fn begin(mark: &Arc<Mark>, importance: Level) -> Option<Self> {
        let next = |before: u64| {
            let other = u8::try_from(before & Mark::FREE).ok();
            let count = (before >> Mark::IMPORTANCE_BITS) + 1;
            takes_over(importance, other)
                .then_some(count << Mark::IMPORTANCE_BITS | u64::from(importance))
        };
        let before = mark.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        let own = next(before).expect("it has just been so");
        Some(Refresh { mark: mark.clone(), own })
    }
}

impl Drop for Refresh {
    fn drop(&mut self) {
        // Unless another one has taken it over.
        let free = self.own | Mark::FREE;
        let order = Ordering::Relaxed;
        let _ = self.mark.0.compare_exchange(self.own, free, order, order);
    }
}

impl Copy {
    /// As it is at a moment, for a policy with copies of at most `age_max`.
    pub(super) fn held(&self, now: Moment, age_max: Duration) -> Held<'_> {
        Held { terms: &self.terms, kept: now.since(self.at), age_max }
    }

    /// Whether a request of this context and with these fields may get it, as far as they go.
    pub(super) fn is_for(&self, context: &Context, fields: &[Field<'_>]) -> bool {
        self.context == *context && selects(&self.terms.vary, fields)
    }

    /// Whether every request that gets it would get the other one.
    pub(super) fn is_replaced_by(&self, other: &Copy) -> bool {
        self.context == other.context && self.terms.vary == other.terms.vary
    }

    /// Nobody gets it any more, not even requests that have found it.
    pub(super) fn drop_for_all(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Whether it is too old for everybody.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        now.since(self.at) > self.lifetime
    }

    /// Bytes that it takes.
    pub(super) fn weight(&self) -> usize {
        let vary = self.terms.vary.iter();
        let vary = vary.map(|(name, value)| 64 + name.len() + value.as_ref().map_or(0, Vec::len));
        size_of::<Copy>()
            + self.head.len()
            + self.body.len()
            + self.context.forwarded.len()
            + vary.sum::<usize>()
    }

    /// Appends the head as an origin would send it now: with its age (RFC 9111 §5.1) and with what became of the request (RFC 9211).
    pub(crate) fn put_head(&self, now: Moment, instead: Instead, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        let age = self.held(now, Duration::MAX).age().as_secs();
        let forwarded = match instead {
            Instead::Wait | Instead::Refusal => "hit",
            Instead::Failure => "fwd=stale",
        };
        write!(
            out,
            "Age: {age}\r\nCache-Status: tiergate; {forwarded}; detail={}\r\nContent-Length: {}\r\n\r\n",
            instead.name(),
            self.body.len()
        )
        .expect("a vector takes every write");
    }
}
