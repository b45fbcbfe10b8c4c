//! The id of a request and its place in a trace, from its head to the last line about it.

use crate::config::meant::{Policy, RequestIdHeader};
use arrayvec::ArrayVec;
use fastrand::Rng;
use http::{HeaderMap, HeaderValue};
use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use tiergate_core::request::Field;
use tiergate_core::trace::{REQUEST_ID_LEN_MAX, Trace, is_request_id, place};
use tiergate_wire::http1::{FieldTable, is_alike};
use tiergate_wire::trace_context::{self, TRACEPARENT_LEN, put_hex};

const TRACEPARENT: &[u8] = b"traceparent";
const TRACESTATE: &[u8] = b"tracestate";

/// Digits of an id that is made.
const MADE_LEN: usize = 32;

/// A request's id.
type RequestId = ArrayVec<u8, REQUEST_ID_LEN_MAX>;

/// What a request is known by, as far as the policy wants that.
#[derive(Clone, Debug)]
pub(crate) struct RequestIds {
    request: Option<RequestId>,
    /// Whether the client sent an id that was not taken.
    is_replaced: bool,
    trace: Option<(Trace, [u8; TRACEPARENT_LEN])>,
    /// Whether `tracestate` goes on to the origin.
    keeps_state: bool,
}

impl RequestIds {
    /// Those of a request with these fields, from a peer that is trusted or not. `None`: the policy wants none, which costs two comparisons.
    pub(crate) fn of(policy: &Policy, trusted: bool, fields: &[Field<'_>]) -> Option<Box<Self>> {
        if policy.request_id.is_none() && policy.tracing.is_none() {
            return None;
        }
        let mut ids =
            RequestIds { request: None, is_replaced: false, trace: None, keeps_state: false };
        if let Some(header) = &policy.request_id {
            let given = only(fields, header.text.as_bytes());
            let taken = given.filter(|value| trusted && is_request_id(value));
            ids.is_replaced = taken.is_none() && is_there(fields, header.text.as_bytes());
            ids.request = taken.and_then(|value| RequestId::try_from(value).ok()).or(Some(made()));
        }
        if let Some(tracing) = &policy.tracing {
            let given = only(fields, TRACEPARENT).and_then(trace_context::parse);
            let trace = place(tracing.sampling, given, trusted, random);
            ids.keeps_state =
                trace.parent.is_some() && values(fields, TRACESTATE).all(trace_context::is_state);
            ids.trace = Some((trace, trace_context::write(&trace.told)));
        }
        Some(Box::new(ids))
    }

    /// The id of what cannot be understood as a request; `None`: the policy wants none.
    pub(crate) fn of_none(policy: &Policy) -> Option<Box<Self>> {
        policy.request_id.as_ref()?;
        let request = Some(made());
        Some(Box::new(RequestIds { request, is_replaced: false, trace: None, keeps_state: false }))
    }

    /// Whether the client sent an id that was not taken.
    pub(crate) fn is_replaced(&self) -> bool {
        self.is_replaced
    }

    /// The `traceparent` that the origin gets; empty: the client's, if it has one.
    pub(crate) fn traceparent(&self) -> &[u8] {
        self.trace.as_ref().map_or(&[], |(_, text)| text)
    }

    /// The request's place in a trace, if its spans are to be exported.
    pub(crate) fn sampled(&self) -> Option<&Trace> {
        self.trace.as_ref().map(|(trace, _)| trace).filter(|trace| trace.is_sampled)
    }

    /// The field that the client gets.
    pub(crate) fn told<'a>(&'a self, header: Option<&'a RequestIdHeader>) -> Option<ToldId<'a>> {
        Some(ToldId { header: header?, id: self.request.as_deref()? })
    }

    /// Leaves out of the request's fields what the gateway says itself.
    pub(crate) fn take_place(&self, header: Option<&RequestIdHeader>, table: &mut FieldTable<'_>) {
        if let (Some(header), Some(_)) = (header, &self.request) {
            table.leave_out(header.text.as_bytes());
        }
        if self.trace.is_some() {
            table.leave_out(TRACEPARENT);
            if !self.keeps_state {
                table.leave_out(TRACESTATE);
            }
        }
    }

    /// What the gateway says itself.
    pub(crate) fn fields<'a>(
        &'a self,
        header: Option<&'a RequestIdHeader>,
    ) -> impl Iterator<Item = Field<'a>> {
        let trace = self.trace.as_ref();
        let trace = trace.map(|(_, text)| Field { name: TRACEPARENT, value: &text[..] });
        self.told(header).map(|told| told.field()).into_iter().chain(trace)
    }
}

/// A request's id as its client is told.
#[derive(Clone, Copy, Debug)]
pub struct ToldId<'a> {
    /// The header that carries it.
    pub header: &'a RequestIdHeader,
    /// The id: nothing of it needs to be escaped.
    pub id: &'a [u8],
}

impl<'a> ToldId<'a> {
    /// The field.
    pub fn field(&self) -> Field<'a> {
        Field { name: self.header.text.as_bytes(), value: self.id }
    }

    /// Appends its line.
    pub(crate) fn put_line(&self, out: &mut Vec<u8>) {
        for part in [self.header.text.as_bytes(), b": ", self.id, b"\r\n"] {
            out.extend_from_slice(part);
        }
    }

    /// Puts it among the fields of HTTP/2, in place of another.
    pub(crate) fn put_in(&self, fields: &mut HeaderMap) {
        let value = HeaderValue::from_bytes(self.id).expect("letters, digits and marks");
        fields.insert(&self.header.name, value);
    }
}

thread_local! {
    /// Two, so that ids of 128 bits have 128 bits of state: of gateways that start at one moment none makes the ids of another.
    static RANDOM: RefCell<[Rng; 2]> = RefCell::new([0u8, 1].map(seeded));
}

/// Seeded from the system's randomness, once a thread.
fn seeded(number: u8) -> Rng {
    Rng::with_seed(RandomState::new().hash_one(number))
}

thread_local! {
    /// Others for what is sampled and for traces, since clients are told what the first make.
    static UNTOLD: RefCell<[Rng; 2]> = RefCell::new([2u8, 3].map(seeded));
}

/// Random. Some nanoseconds, no system call.
fn random() -> u64 {
    UNTOLD.with_borrow_mut(|[one, other]| one.u64(..) ^ other.u64(..).rotate_left(32))
}

/// Random, and no secret: who sees some ids can compute the next.
fn made() -> RequestId {
    let number = RANDOM
        .with_borrow_mut(|[one, other]| u128::from(one.u64(..)) << 64 | u128::from(other.u64(..)));
    let mut digits = [0; MADE_LEN];
    put_hex(&mut digits, number);
    digits.iter().copied().collect()
}

fn values<'f>(fields: &'f [Field<'_>], name: &'f [u8]) -> impl Iterator<Item = &'f [u8]> {
    fields.iter().filter(|it| it.name.eq_ignore_ascii_case(name)).map(|it| it.value)
}

/// The value of a field that is there once.
fn only<'f>(fields: &'f [Field<'_>], name: &'f [u8]) -> Option<&'f [u8]> {
    let mut values = values(fields, name);
    values.next().filter(|_| values.next().is_none())
}

fn is_there(fields: &[Field<'_>], name: &[u8]) -> bool {
    fields.iter().any(|it| is_alike(it.name, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_that_are_made_are_acceptable_and_all_different() {
        let threads: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| (0..10_000).map(|_| made()).collect::<Vec<_>>()))
            .collect();
        let ids: Vec<_> = threads.into_iter().flat_map(|it| it.join().expect("no panic")).collect();
        assert!(ids.iter().all(|id| id.len() == MADE_LEN && is_request_id(id)));
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    }
}
