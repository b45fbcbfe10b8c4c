//! A copy of an answer.

use super::context::Context;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tiergate_core::request::Field;
use tiergate_core::stored::{Held, Instead, Terms, selects};
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
    /// A request is on its way to replace it.
    pub(super) refreshing: AtomicBool,
}

/// A request is on its way to replace a copy; dropped, it is not any more.
#[derive(Debug)]
pub(crate) struct Refresh(Arc<Copy>);

impl Refresh {
    /// `None`: another request is on its way.
    pub(super) fn begin(copy: &Arc<Copy>) -> Option<Self> {
        let before = copy.refreshing.swap(true, Ordering::Relaxed);
        (!before).then(|| Refresh(copy.clone()))
    }
}

impl Drop for Refresh {
    fn drop(&mut self) {
        self.0.refreshing.store(false, Ordering::Relaxed);
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
