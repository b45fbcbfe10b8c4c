//! The content of a line.

use crate::observe::counters::Protocol;
use crate::observed::ObservedVerdict;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};
use tiergate_core::outcome::End;
use tiergate_core::plan::RuleLabel;
use tiergate_core::reason::Reason;
use tiergate_core::stored::Instead;

/// What the gate, or the parser before it, decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It got a slot at once.
    Admitted,
    /// It waited; `reason` says whether it was refused in the end.
    Queued,
    /// It got a copy of an earlier answer.
    Stored,
    /// It was refused on arrival.
    Refused,
    /// It was malformed, too large or too slow, and did not reach the gate.
    Bad,
}

impl Verdict {
    /// The verdict's name in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Admitted => "admitted",
            Verdict::Queued => "queued",
            Verdict::Stored => "stored",
            Verdict::Refused => "refused",
            Verdict::Bad => "bad",
        }
    }
}

/// A request that has ended, borrowed from wherever its parts are. Empty slices and `None` are
/// logged as absent.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// When the request's first byte arrived.
    pub time: SystemTime,
    /// The client's address, after PROXY protocol and trusted forwarded headers.
    pub client: IpAddr,
    /// The method as sent.
    pub method: &'a [u8],
    /// The request target as sent, with its query.
    pub target: &'a [u8],
    /// The protocol; `None`: nothing of the request was understood.
    pub protocol: Option<Protocol>,
    /// The host asked for.
    pub host: &'a [u8],
    /// Status of the final response; 0 if none was sent.
    pub status: u16,
    /// Bytes of the response that were sent; over HTTP/2 without its head.
    pub sent_bytes: u64,
    /// Those of its body.
    pub body_bytes: u64,
    /// Bytes of the request's body that were read.
    pub received_bytes: u64,
    /// From the first byte in to the last byte out.
    pub duration: Duration,
    /// Time in the backlog; `None` if it never got to the gate.
    pub waited: Option<Duration>,
    /// From the grant of the slot to the first byte of the origin's answer.
    pub first_byte: Option<Duration>,
    /// Processor time that the gateway spent on it; `None`: it was not measured.
    pub cpu: Option<Duration>,
    /// The class's name.
    pub class: Option<&'a str>,
    /// The name of the pool that it went to, unless that is the default pool.
    pub pool: Option<&'a str>,
    /// The name of the resource that it needed.
    pub resource: Option<&'a str>,
    /// The level of the answer and the highest there is, `1/2`; `None`: nothing decides about it.
    pub level: Option<&'a str>,
    /// What the policy that is observed made of it.
    pub observed: Option<ObservedVerdict<'a>>,
    /// The rule that decided the class.
    pub rule: Option<RuleLabel<'a>>,
    /// What was decided.
    pub verdict: Verdict,
    /// What it got a stored copy instead of.
    pub stored: Option<Instead>,
    /// Why it was refused.
    pub reason: Option<Reason>,
    /// The name of the policer that had no token for it.
    pub policer: Option<&'a str>,
    /// How its slot came back.
    pub end: Option<End>,
    /// The origin server that it went to, as configured.
    pub server: Option<&'a str>,
    /// What went wrong on the way, in words; empty: nothing.
    pub cause: &'a str,
    /// Slots of its pool in force when it ended.
    pub slots: u32,
    /// `User-Agent`.
    pub user_agent: &'a [u8],
    /// `Referer`.
    pub referer: &'a [u8],
    /// The request's id: by the policy's `[request_id]`, or else what the client sent as `X-Request-Id`.
    pub request_id: &'a [u8],
    /// What a client that is not trusted sent as its request's id, and was not taken.
    pub client_request_id: &'a [u8],
    /// W3C `traceparent`, as the origin gets it.
    pub traceparent: &'a [u8],
}

impl Entry<'_> {
    /// Of something that never became a request, and of which nothing is known.
    pub const EMPTY: Entry<'static> = Entry {
        time: SystemTime::UNIX_EPOCH,
        client: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        method: b"",
        target: b"",
        protocol: None,
        host: b"",
        status: 0,
        sent_bytes: 0,
        body_bytes: 0,
        received_bytes: 0,
        duration: Duration::ZERO,
        waited: None,
        first_byte: None,
        cpu: None,
        class: None,
        pool: None,
        resource: None,
        level: None,
        observed: None,
        rule: None,
        verdict: Verdict::Bad,
        stored: None,
        reason: None,
        policer: None,
        end: None,
        server: None,
        cause: "",
        slots: 0,
        user_agent: b"",
        referer: b"",
        request_id: b"",
        client_request_id: b"",
        traceparent: b"",
    };

    /// Whether it never became a request: it has no class.
    pub fn is_stray(&self) -> bool {
        self.verdict == Verdict::Bad && self.class.is_none()
    }
}
