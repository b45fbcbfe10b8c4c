//! A copy that is being made while its answer passes.

use super::copy::{Copy, Refresh};
use super::lookup::StoredRequest;
use super::store::{Key, Store};
use crate::budget::Reserved;
use crate::clock;
use crate::date;
use std::sync::Arc;
use tiergate_core::request::Field;
use tiergate_core::stored::{Answer, Fate, Terms, keep};
use tiergate_core::time::Moment;
use tiergate_wire::http1::{
    self, ChunkScanner, FIELDS_CAPACITY, FieldTable, Framing, ResponseHead,
};

/// Fields that a copy is served with beyond those that were kept.
const FIELDS_ADDED: usize = 4;

/// A copy that is being made while its answer passes. Dropped, nothing is left of it.
#[derive(Debug)]
pub(crate) struct Making {
    store: Arc<Store>,
    key: Key,
    epoch: u32,
    copy: Copy,
    body: Vec<u8>,
    /// Chunks are still around the data.
    is_chunked: bool,
    /// The memory of `body`.
    reserved: Reserved,
    /// The request was to bring it.
    refresh: Option<Refresh>,
}

/// An answer of the origin, and the request that it answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passing<'a, 'b> {
    /// The head.
    pub(crate) head: &'a ResponseHead<'b>,
    /// Its fields.
    pub(crate) fields: &'a FieldTable<'b>,
    /// The fields of the request.
    pub(crate) request: &'a [Field<'a>],
    /// It is what full quality answers, from the pool that the rules name.
    pub(crate) is_full: bool,
    /// It may last for as long as its client stays.
    pub(crate) is_stream: bool,
    /// Chunks stay around the data.
    pub(crate) keeps_chunks: bool,
}

impl Making {
    /// Begins, if the answer may be kept and there is memory for it; an answer that says that a copy is no longer true makes it go.
    pub(crate) fn begin(of: &StoredRequest, passing: &Passing<'_, '_>) -> Option<Box<Self>> {
        let StoredRequest { store, key, .. } = of;
        let Passing { head, fields, .. } = *passing;
        let answer = Answer {
            status: head.status,
            fields: fields.fields(),
            is_framed: head.body != Framing::UntilClose && !passing.is_stream,
            is_full: passing.is_full,
        };
        let terms = match keep(&of.asked, passing.request, &answer) {
            Fate::Keep(terms) => terms,
            Fate::Pass => return None,
            Fate::Drop => {
                store.drop_copies_for(key, &of.context, passing.request);
                return None;
            }
        };
        let expected = head.content_length.unwrap_or_default();
        let expected =
            usize::try_from(expected).ok().filter(|len| *len <= store.bounds.body_max)?;
        let making_max = store.bounds.bytes_max / 4;
        let reserved = store.counters.making.take(head.len + expected, making_max)?;
        if head.len > store.bounds.body_max
            || fields.fields().len() + FIELDS_ADDED > FIELDS_CAPACITY
        {
            return None;
        }
        Some(Box::new(Making {
            store: store.clone(),
            key: key.clone(),
            epoch: of.epoch,
            copy: copy(of, terms, head, fields, clock::now()),
            body: Vec::with_capacity(expected),
            is_chunked: head.body == Framing::Chunked && passing.keeps_chunks,
            reserved,
            refresh: None,
        }))
    }

    /// The request was to bring a new copy, and is to until this one is there or is given up.
    pub(crate) fn refreshing(&mut self, refresh: Option<Refresh>) {
        self.refresh = refresh;
    }

    /// Adds what passes of the body; `false`: it is too long, or there is no memory left.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        let bounds = self.store.bounds;
        let len = self.body.len() + bytes.len();
        if len > bounds.body_max {
            return false;
        }
        if len > self.body.capacity() {
            let more =
                len.max(self.body.capacity() * 2).min(bounds.body_max) - self.body.capacity();
            if !self.reserved.grow(more, bounds.bytes_max / 4) {
                return false;
            }
            self.body.reserve_exact(self.body.capacity() + more - self.body.len());
        }
        self.body.extend_from_slice(bytes);
        true
    }

    /// The answer is whole: its copy is there from now on. `chunks`: what took the chunks apart, if that was done on the way. An
    /// answer with trailers is not kept.
    pub(crate) fn finish(mut self: Box<Self>, chunks: Option<&ChunkScanner>) {
        let mut own = ChunkScanner::default();
        if self.is_chunked {
            let Some(len) = unchunk(&mut own, &mut self.body) else { return };
            self.body.truncate(len);
        }
        if [Some(&own), chunks].into_iter().flatten().any(|it| it.trailers().next().is_some()) {
            return;
        }
        let Making { store, key, epoch, copy, body, reserved, refresh: _refresh, .. } = *self;
        // The copy takes the memory over.
        drop(reserved);
        store.keep(&key, Copy { body: body.into(), ..copy }, epoch, clock::now());
    }
}

/// Leaves the data alone, in front: its length. `None`: the body has not ended, and is not whole.
fn unchunk(scanner: &mut ChunkScanner, bytes: &mut [u8]) -> Option<usize> {
    let (mut at, mut len) = (0, 0);
    loop {
        let step = scanner.step(&bytes[at..]).ok()?;
        bytes.copy_within(at + step.data.start..at + step.data.end, len);
        len += step.data.len();
        at += step.consumed;
        if step.done || at == bytes.len() {
            return step.done.then_some(len);
        }
    }
}

fn copy(
    of: &StoredRequest,
    terms: Terms,
    head: &ResponseHead<'_>,
    fields: &FieldTable<'_>,
    now: Moment,
) -> Copy {
    let mut out = Vec::with_capacity(head.len + 64);
    out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    for Field { name, value } in http1::response_fields(fields) {
        if !name.eq_ignore_ascii_case(b"age") {
            for part in [name, &b": "[..], value, b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
    }
    if !head.has_date {
        // When it is served, that would be wrong.
        date::with_line(|line| out.extend_from_slice(line));
    }
    let lifetime = of.age_max.min(terms.age_max).saturating_sub(terms.age);
    Copy {
        head: out.into(),
        body: Box::default(),
        terms,
        context: of.context.clone(),
        at: now,
        lifetime,
        mark: Arc::default(),
        hits: 0.into(),
        gone: false.into(),
        live: None,
    }
}
