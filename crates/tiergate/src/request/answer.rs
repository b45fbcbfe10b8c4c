//! Answers as they are handed to the client's side: the origin's heads, and refusals of ours.

use super::facts::RequestFacts;
use super::quality::{CACHE_CONTROL, CDN_CACHE_CONTROL, Quality};
use crate::config::meant::{Policy, RefusalConnection};
use crate::rate_limit::RateLimit;
use crate::respond::{Advice, Template};
use crate::trace::ids::ToldId;
use tiergate_wire::http1::{FieldTable, ResponseHead};

/// The head of an origin's answer, and what is added to it.
pub(crate) struct AnswerHead<'a, 'b> {
    /// The policy in force for the request.
    pub(crate) policy: &'a Policy,
    /// The request.
    pub(crate) facts: &'a RequestFacts,
    /// The head as the origin sent it.
    pub(crate) bytes: &'b [u8],
    /// The same, parsed.
    pub(crate) head: &'a ResponseHead<'b>,
    /// Its fields.
    pub(crate) fields: &'a FieldTable<'b>,
    /// The value of a cookie to set.
    pub(crate) cookie: Option<String>,
    /// The quality of the answer, if it may be less than full.
    pub(crate) quality: Option<Quality<'a>>,
    /// What `Location` says, where the origin's leads to where clients cannot go.
    pub(crate) location: Option<Vec<u8>>,
    /// What the client is told of its rate.
    pub(crate) limit: Option<RateLimit<'a>>,
    /// The gateway is on its way out: the connection closes after the answer.
    pub(crate) draining: bool,
}

impl AnswerHead<'_, '_> {
    /// Whether it is the final head by HTTP: no other follows, and the protocol stays.
    pub(crate) fn is_final(&self) -> bool {
        is_final(self.head)
    }

    /// What caches are to be told beside what the origin says: by name.
    pub(crate) fn cache_control(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let is_less = self.is_final() && self.quality.is_some_and(|it| it.is_less());
        let says = |name: &str| {
            let mut fields = self.fields.fields().iter();
            fields.any(|field| field.name.eq_ignore_ascii_case(name.as_bytes()))
        };
        let for_all = is_less.then_some(("cache-control", CACHE_CONTROL));
        let for_cdn = is_less && says(CDN_CACHE_CONTROL);
        let for_cdn = for_cdn.then_some((CDN_CACHE_CONTROL, "no-store"));
        for_all.into_iter().chain(for_cdn)
    }

    /// The request's id, which the client is told with the final head.
    pub(crate) fn id(&self) -> Option<ToldId<'_>> {
        let is_last = self.is_final() || self.head.upgrade;
        self.facts.told_id(self.policy).filter(|_| is_last)
    }

    /// Whether a date is to be added: a recipient that forwards a final answer without one does so
    /// (RFC 9110 §6.6.1).
    pub(crate) fn lacks_date(&self) -> bool {
        self.is_final() && !self.head.has_date
    }
}

/// Whether no other head follows, and the protocol stays.
pub(crate) fn is_final(head: &ResponseHead<'_>) -> bool {
    !head.is_interim() && !head.upgrade
}

/// A refusal on its way to the client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefusalAnswer<'a> {
    /// The request.
    pub(crate) facts: &'a RequestFacts,
    /// The answer but for its numbers.
    pub(crate) template: &'a Template,
    /// Its numbers.
    pub(crate) advice: Advice<'a>,
    /// What it does with the connection. [`RefusalConnection::Reset`]: there is no answer.
    pub(crate) connection: RefusalConnection,
    /// It concerns the whole connection, however many requests that carries.
    pub(crate) ends_connection: bool,
    /// The gateway is on its way out: the connection closes after the answer.
    pub(crate) draining: bool,
}

/// Why a request ends without the rest of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abort {
    /// The client has left.
    ClientGone,
    /// The client took or sent nothing for too long.
    ClientSlow,
    /// The rest of the answer will not come.
    Truncated,
    /// The same, where an orderly close would look like the answer's end.
    Unended,
}
