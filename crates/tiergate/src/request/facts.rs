//! What is kept of a request's head once its bytes may move.

use crate::config::meant::Policy;
use crate::observe::counters::Protocol;
use crate::observed::ObservedRequest;
use crate::rate_limit::RateLimitState;
use crate::respond::Format;
use crate::session::SessionGuard;
use crate::trace::ids::{RequestIds, ToldId};
use std::net::IpAddr;
use tiergate_core::gate::Arrival;
use tiergate_wire::http1::{Framing, RequestHead, TrailerNames};

/// What is kept of a request's head.
#[derive(Debug)]
pub(crate) struct RequestFacts {
    /// Bytes of the head, as far as they are known ([`RequestHead::len`]).
    pub(crate) head_len: usize,
    /// How the body is framed on its way to the origin.
    pub(crate) body: Framing,
    /// What the client speaks.
    pub(crate) protocol: Protocol,
    /// Whether the client wants the connection to stay open.
    pub(crate) keep: bool,
    /// HEAD: the answer has no body.
    pub(crate) head_only: bool,
    /// The client asks for another protocol, and the origin may agree.
    pub(crate) upgrade: bool,
    /// `Expect: 100-continue`, and the client still waits for it.
    pub(crate) expects: bool,
    /// Doing it twice is as good as once (RFC 9110 §9.2.2).
    pub(crate) idempotent: bool,
    /// It may be preempted while it is in service, and the format of the refusal then: the policy allows
    /// it, and nothing is lost by a retry.
    pub(crate) preemptible: Option<Format>,
    /// The client, by the connection or by a trusted peer's word.
    pub(crate) client: IpAddr,
    /// How it was classified.
    pub(crate) arrival: Arrival,
    /// Its part in a session, where the policy knows any; boxed, because most policies do not.
    pub(crate) session: Option<Box<SessionGuard>>,
    /// What a policy that is observed makes of it; boxed, because there is mostly none.
    pub(crate) observed: Option<Box<ObservedRequest>>,
    /// If it succeeds, copies of its target are no longer true; there may be some.
    pub(crate) changes: bool,
    /// What it is known by, where the policy wants that; boxed, because it is long.
    pub(crate) ids: Option<Box<RequestIds>>,
    /// The names that no trailer of its body may have, if that is in chunks.
    pub(crate) left_out: TrailerNames,
    /// What it has left of a policer whose clients are told; boxed, because few are.
    pub(crate) limit: Option<Box<RateLimitState>>,
}

impl RequestFacts {
    /// The id that the client is told.
    pub(crate) fn told_id<'a>(&'a self, policy: &'a Policy) -> Option<ToldId<'a>> {
        self.ids.as_ref()?.told(policy.request_id.as_ref())
    }
}

/// Whether repeating a request with this method is as good as doing it once (RFC 9110 §9.2.2).
pub(crate) fn is_idempotent(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"PUT" | b"DELETE" | b"OPTIONS" | b"TRACE")
}

/// Whether nothing is lost if such a request is preempted: it changes nothing and has no body.
pub(crate) fn is_safe_to_preempt(head: &RequestHead<'_>) -> bool {
    matches!(head.method, b"GET" | b"HEAD") && head.body.is_empty()
}
