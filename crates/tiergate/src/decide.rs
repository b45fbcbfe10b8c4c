//! From a request's head to its verdict: parse → classify → admit, without an await between.

use crate::body::Malformed;
use crate::config::meant::RefusalConnection;
use crate::door::{Answer, Held, Waiting};
use crate::forwarded::client_address;
use crate::http1::{
    self, FieldRoom, FieldTable, ForwardInfo, Framing, HeadLimits, Parsed, PeerText, Version,
};
use crate::identity::Who;
use crate::rate_limit::Left;
use crate::respond::Format;
use crate::session::SessionGuard;
use crate::shared::{Config, Shared};
use crate::standing::{self, Standing};
use crate::{buffers, clock, deadline, gather};
use std::cell::RefCell;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;
use tiergate_core::classify::{Match, Scratch, path};
use tiergate_core::gate::{Arrival, Refused};
use tiergate_core::reason::Reason;
use tiergate_core::request::{Field, RequestView};

/// Who is at the other end of a connection.
#[derive(Debug)]
pub struct Peer {
    /// The client, by the socket or the PROXY protocol.
    pub address: SocketAddr,
    /// The same, as text.
    pub text: PeerText,
    /// Where it connected to.
    pub local: SocketAddr,
    /// Whether by TLS.
    pub secure: bool,
    /// The listener's address, as the policy gives it.
    pub listener: SocketAddr,
    /// The server name that the client asked for in its TLS handshake.
    pub sni: Option<Arc<str>>,
    /// The name in its verified certificate.
    pub certificate: Option<Arc<str>>,
    /// The code point of its packets, or [`RequestView::DSCP_UNKNOWN`].
    pub dscp: u8,
    /// What the connection is worth by what it has brought so far.
    pub standing: Standing,
}

impl Peer {
    /// The code point of a client's packets: that of the connection, unless the peer speaks for another.
    pub fn dscp_of(&self, client: IpAddr) -> u8 {
        match client.to_canonical() == self.address.ip().to_canonical() {
            true => self.dscp,
            false => RequestView::DSCP_UNKNOWN,
        }
    }
}

/// What is kept of a head once its bytes may move.
#[derive(Debug)]
pub struct Facts {
    /// Bytes of the head.
    pub head_len: usize,
    /// How the body is framed.
    pub body: Framing,
    /// The client's version.
    pub version: Version,
    /// Whether the client wants the connection to stay open.
    pub keep: bool,
    /// HEAD: the answer has no body.
    pub head_only: bool,
    /// The client asks for another protocol, and the origin may agree.
    pub upgrade: bool,
    /// `Expect: 100-continue`.
    pub expects: bool,
    /// Doing it twice is as good as once (RFC 9110 §9.2.2).
    pub idempotent: bool,
    /// It may be preempted while it is in service, and how it is told then: so the policy has it, and
    /// nothing is lost by doing it again.
    pub may_be_broken_off: Option<Format>,
    /// Where the method lies in the head.
    pub method: Range<usize>,
    /// Where the target lies in the head.
    pub target: Range<usize>,
    /// The client, by the connection or by a trusted peer's word.
    pub client: IpAddr,
    /// How it was classified.
    pub arrival: Arrival,
    /// Its part in a session, where the policy knows any; boxed, because most policies do not.
    pub visit: Option<Box<SessionGuard>>,
    /// What it has left of a policer whose clients are told; boxed, because few are.
    pub left: Option<Box<Left>>,
}

/// What is to be done about the bytes received so far.
#[derive(Debug)]
pub enum Decision<'d> {
    /// Read more.
    Partial,
    /// Answer with an error and close.
    Bad {
        /// The status.
        status: u16,
        /// What was wrong.
        why: &'static str,
    },
    /// Read the body, then decide anew: nothing has been counted yet.
    Gather(Facts),
    /// Answer with a refusal.
    Refuse(Facts, Refused, Format),
    /// Forward `head`, once the slot is there.
    Go {
        /// What is kept of the head.
        facts: Facts,
        /// The head as it goes to the origin.
        head: Vec<u8>,
        /// The slot, or the wait for it.
        entry: Entry<'d>,
        /// How it would be refused.
        format: Format,
    },
}

/// A slot, or the wait for one.
#[derive(Debug)]
pub enum Entry<'d> {
    /// The slot.
    Now(Held<'d>),
    /// The wait.
    Later(Waiting<'d>),
}

thread_local! {
    /// What classification remembers of a request while it looks at it.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Looks at the bytes received and decides. `gathered`: as much of the body as shall be is among them
/// (see [`Decision::Gather`]), and the client waits for no 100 any more. `context` is the connection's:
/// it is woken when a wait ends.
pub fn decide<'d>(
    shared: &'d Shared,
    config: &Config,
    peer: &Peer,
    bytes: &[u8],
    gathered: bool,
    context: &mut Context<'_>,
) -> Decision<'d> {
    let limits = &config.policy.limits;
    let head_limits = HeadLimits {
        head_len_max: limits.request_head_max,
        target_len_max: limits.target_len_max,
        fields_max: limits.fields_max,
    };
    let mut table = FieldTable::new();
    let mut head = match http1::parse_request(bytes, &mut table, &head_limits) {
        Ok(Parsed::Complete(head)) => head,
        Ok(Parsed::Partial) => return Decision::Partial,
        Err(error) => {
            return Decision::Bad { status: error.status, why: error.why };
        }
    };
    let body_max = limits.request_body_max;
    if body_max > 0 && matches!(head.body, Framing::Length(len) if len > body_max) {
        return Decision::Bad { status: 413, why: "the body is larger than this site takes" };
    }
    if head.max_forwards == Some(0) {
        return Decision::Bad { status: 501, why: NO_FURTHER };
    }
    head.expect_continue &= !gathered;
    let mut gather =
        !gathered && gather::is_wanted(&config.policy, head.body, head.expect_continue);
    if gather {
        match gather::is_whole(head.body, &bytes[head.len..]) {
            Ok(whole) => gather = !whole,
            Err(Malformed) => return Decision::Bad { status: 400, why: "the body is malformed" },
        }
    }
    let fields = table.fields();
    let trusted = is_trusted(config, peer.address.ip());
    let client = client_of(config, peer, fields);
    let mut claims = Vec::new();
    let who = Who::of(shared, config, client, fields, &mut claims);
    let (mut normal, mut room) = (Vec::new(), FieldRoom::new());
    let view = RequestView {
        method: head.method,
        host: head.host_name(),
        path: path::normalise(head.path, &mut normal),
        query: head.query,
        fields: table.believed(trusted, &mut room),
        client,
        listener: config.policy.listener_at(peer.listener),
        local: peer.local.ip(),
        sni: peer.sni.as_deref().unwrap_or_default().as_bytes(),
        client_name: who.name(),
        country: who.place.country,
        asn: who.place.asn,
        certificate: peer.certificate.as_deref().unwrap_or_default().as_bytes(),
        subject: who.subject(),
        dscp: peer.dscp_of(client),
    };
    let asked = Asked { view: &view, peer, trusted, bytes: held_bytes(bytes.len()), gather };
    let Judged { arrival, visit, left, answer } = judge(shared, config, &asked, context);
    let facts = Facts {
        head_len: head.len,
        body: head.body,
        version: head.version,
        keep: head.keep_alive,
        head_only: head.method == b"HEAD",
        upgrade: head.upgrade.is_some(),
        expects: head.expect_continue,
        idempotent: is_idempotent(head.method),
        may_be_broken_off: may_be_broken_off(config, &arrival, head.method, head.body)
            .then(|| Format::accepted(fields)),
        method: range_in(bytes, head.method),
        target: range_in(bytes, head.target),
        client,
        arrival,
        visit,
        left,
    };
    let entry = match answer {
        Answer::Refused(refused) => {
            return Decision::Refuse(facts, refused, Format::accepted(fields));
        }
        Answer::Later => return Decision::Gather(facts),
        Answer::Admitted(held) => Entry::Now(held),
        Answer::Wait(waiting) => Entry::Later(waiting),
    };
    // Only a request that waits may still be refused.
    let format = match entry {
        Entry::Now(_) => Format::Plain,
        Entry::Later(_) => Format::accepted(fields),
    };
    let mut out = buffers::text();
    let mut listener = [0; LISTENER_LEN_MAX];
    let forward = ForwardInfo {
        peer: peer.text,
        peer_trusted: trusted,
        https: peer.secure,
        add: config.policy.forwarding,
        listener_host: match head.host {
            [] => listener_text(peer.local, &mut listener),
            _ => b"",
        },
    };
    http1::write_request_head(&mut out, &head, &table, &forward, &[]);
    Decision::Go { facts, head: out, entry, format }
}

/// What was found out about a request, and what the door says to it.
#[derive(Debug)]
pub struct Judged<'d> {
    /// How it was classified.
    pub arrival: Arrival,
    /// Its part in a session.
    pub visit: Option<Box<SessionGuard>>,
    /// What it has left of a policer whose clients are told.
    pub left: Option<Box<Left>>,
    /// What becomes of it.
    pub answer: Answer<'d>,
}

/// A request as it is judged.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'r> {
    /// What rules see of it.
    pub view: &'r RequestView<'r>,
    /// Whose connection it came by.
    pub peer: &'r Peer,
    /// Whether the peer's word about others is believed.
    pub trusted: bool,
    /// Bytes that are held while it waits.
    pub bytes: u32,
    /// Not to the gate yet, because its body is still to be read; only to be refused if it would be
    /// refused now.
    pub gather: bool,
}

/// Classifies a request and takes it to the gate.
pub fn judge<'d>(
    shared: &'d Shared,
    config: &Config,
    asked: &Asked<'_>,
    context: &mut Context<'_>,
) -> Judged<'d> {
    let Asked { view, peer, gather, .. } = *asked;
    let classifier = &config.policy.classifier;
    let verdict = SCRATCH.with_borrow_mut(|scratch| classifier.classify(view, scratch));
    let open = |settings| {
        Box::new(SessionGuard::open(&shared.sessions, settings, view, verdict.class, peer.secure))
    };
    let visit = config.policy.session.as_ref().map(open);
    let mut arrival = Arrival {
        class: verdict.class,
        rule: config.policy.rule_id(&verdict),
        deadline: deadline_of(config, asked, &verdict),
        policer: verdict.policer,
        flow: verdict.flow,
        running: visit.as_deref().is_some_and(SessionGuard::is_running),
        // A trusted peer's connection is many clients': nothing is known of this one's past. A body that
        // is still to be read asks again.
        goes_on: asked.trusted || peer.standing.goes_on(!gather),
        score: verdict.score,
        slots: verdict.slots.unwrap_or(1),
        bytes: asked.bytes,
        ..Arrival::of(verdict.class)
    };
    if config.policy.plan.shedding.is_some() {
        // Where sessions are known, a value that anybody may send counts only of who was admitted.
        let believed = visit.as_deref().is_none_or(SessionGuard::is_running);
        weigh(&mut arrival, config, peer, verdict.importance.filter(|_| believed));
    }
    let refused = if verdict.refuse {
        Some(Refused::of(Reason::Rule))
    } else if !config.origin.is_usable() {
        // Until a server is tried again.
        let wait = config.policy.origin.retry_after;
        Some(Refused { wait, ..Refused::of(Reason::OriginDown) })
    } else {
        None
    };
    let (answer, left) = match refused {
        Some(refused) => {
            shared.door.refuse(arrival, refused.reason);
            (Answer::Refused(refused), None)
        }
        None if gather => match shared.door.turn_away(arrival) {
            Some(refused) => (Answer::Refused(refused), None),
            None => (Answer::Later, None),
        },
        None => shared.door.arrive(clock::now(), arrival, context),
    };
    Judged { arrival, visit, left: left.map(Box::new), answer }
}

/// How long the request may wait: as its rule or class says, or less if a trusted peer says so. Nobody's
/// word makes it longer than the policy has it.
fn deadline_of(config: &Config, asked: &Asked<'_>, verdict: &Match) -> Option<Duration> {
    let told = match config.policy.deadline_header(verdict) {
        Some(header) if asked.trusted => deadline::told(asked.view, header),
        _ => None,
    };
    let Some(told) = told else {
        return verdict.deadline;
    };
    let class = &config.policy.plan.classes[verdict.class.index()];
    Some(told.min(verdict.deadline.unwrap_or(class.deadline)))
}

/// A number of bytes as the gate counts them.
pub fn held_bytes(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Notes how important the request's connection is and how much it has got; `said`: what rules say of
/// the request.
fn weigh(arrival: &mut Arrival, config: &Config, peer: &Peer, said: Option<u8>) {
    if is_trusted(config, peer.address.ip()) {
        // The connection is many clients': each request is worth what it is worth by itself.
        arrival.importance = said;
        arrival.connection = arrival.flow;
    } else {
        arrival.importance = peer.standing.importance_after(said);
        arrival.requests = peer.standing.answered();
        arrival.connection = standing::hash_of(peer.address);
    }
}

/// Whether a refusal is meant for the connection that its request came by: a client that is shed or
/// blocked is not to continue over it. That of a trusted peer, many clients' connection, is not closed
/// because of one of them.
pub fn is_to_go(config: &Config, peer: &Peer, reason: Reason) -> bool {
    matches!(reason, Reason::Shed | Reason::Blocked) && !is_trusted(config, peer.address.ip())
}

/// What a refusal does with the connection.
pub fn connection_after(config: &Config, peer: &Peer, reason: Reason) -> RefusalConnection {
    let usual = config.policy.refusal.connection;
    match reason {
        Reason::Shed if is_to_go(config, peer, reason) => config.policy.shed,
        Reason::Blocked if is_to_go(config, peer, reason) => match usual {
            RefusalConnection::Keep => RefusalConnection::Close,
            usual => usual,
        },
        _ => usual,
    }
}

/// `Max-Forwards: 0` (RFC 9110 §7.6.2): it is ours to answer, and we neither trace nor have options.
pub(crate) const NO_FURTHER: &str = "the request may not be forwarded any further";

/// Longest text of a socket address.
const LISTENER_LEN_MAX: usize = 64;

fn listener_text(local: SocketAddr, text: &mut [u8; LISTENER_LEN_MAX]) -> &[u8] {
    let mut rest = &mut text[..];
    write!(rest, "{local}").expect("no socket address is longer than LISTENER_LEN_MAX");
    let len = LISTENER_LEN_MAX - rest.len();
    &text[..len]
}

/// The client, by the connection or by a trusted peer's word.
pub fn client_of(config: &Config, peer: &Peer, fields: &[Field<'_>]) -> IpAddr {
    client_address(peer.address.ip(), fields, &config.policy.trusted)
}

/// Whether the peer's word about the client is believed.
pub fn is_trusted(config: &Config, peer: IpAddr) -> bool {
    let peer = peer.to_canonical();
    config.policy.trusted.iter().any(|net| net.contains(&peer))
}

/// Whether such a request may be preempted while it is in service.
pub(crate) fn may_be_broken_off(
    config: &Config,
    arrival: &Arrival,
    method: &[u8],
    body: Framing,
) -> bool {
    config.policy.plan.classes[arrival.class.index()].preemptible
        && matches!(method, b"GET" | b"HEAD")
        && matches!(body, Framing::None | Framing::Length(0))
}

pub(crate) fn is_idempotent(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"PUT" | b"DELETE" | b"OPTIONS" | b"TRACE")
}

/// Where `part`, a slice of `whole`, lies in it.
pub(crate) fn range_in(whole: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}
