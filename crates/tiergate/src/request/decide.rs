//! From a request's head to its verdict: parse → classify → admit, without an await between.

use super::facts::{RequestFacts, is_idempotent, is_safe_to_preempt};
use super::fault::{MALFORMED_TEXT, TOO_LARGE_TEXT};
use super::gather;
use super::identity::{ClientIdentity, ProvenSubject};
use super::judge::{Judged, RequestInput, judge};
use super::limits;
use super::quality::Quality;
use crate::buffers;
use crate::client::peer::Peer;
use crate::client::seam::Client;
use crate::clock;
use crate::config::meant::Limits;
use crate::door::Entry;
use crate::grpc;
use crate::respond::Format;
use crate::shared::{Config, Shared, flow_key};
use crate::stored::StoredRequest;
use crate::trace::ids::RequestIds;
use arrayvec::ArrayVec;
use std::cell::RefCell;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::task::Context;
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::path::{Buffers, Paths, normalise};
use tiergate_core::gate::{Arrival, Refused};
use tiergate_core::request::{Field, RequestView};
use tiergate_core::stored::is_unsafe;
use tiergate_wire::http1::{
    self, FieldRoom, FieldTable, ForwardInfo, Framing, HeadError, Parsed, RequestHead, TrailerNames,
};

/// What is to be done about what was received so far.
#[derive(Debug)]
pub(super) enum Decision<'d> {
    /// Read more of the head.
    Partial,
    /// Answer with an error.
    Bad(HeadError),
    /// The same for a request whose head is well-formed, so that it can be logged.
    Unclear(RequestFacts, u16, &'static str),
    /// Read the body, then decide anew: nothing has been counted yet but its credentials.
    Gather(RequestFacts, ProvenSubject),
    /// Answer with a refusal.
    Refuse(RequestFacts, Refused, Format),
    /// Forward the request, once the slot is there.
    Go(Go<'d>),
}

/// A request that is not refused, or not yet.
#[derive(Debug)]
pub(super) struct Go<'d> {
    /// What is kept of the head.
    pub(super) facts: RequestFacts,
    /// The head as it goes to the origin; room for an answer's if the request does not go there.
    pub(super) head: Vec<u8>,
    /// The slot, or the wait for it.
    pub(super) entry: Entry<'d>,
    /// The format of a refusal.
    pub(super) format: Format,
    /// Its part in the store.
    pub(super) stored: Option<Box<StoredRequest>>,
}

thread_local! {
    /// Room for paths that are not in normal form.
    static PATHS: RefCell<Buffers> = RefCell::default();
}

/// Looks at what was received and decides. `gathered`: as much of the body as shall be is there, the client waits for no 100 any
/// more, and the request has the subject that [`Decision::Gather`] brought. The task of `context` is woken when a wait ends.
pub(super) fn decide<'d, C: Client>(
    shared: &'d Shared,
    config: &Config,
    client: &C,
    gathered: Option<&ProvenSubject>,
    context: &Context<'_>,
) -> Decision<'d> {
    PATHS.with_borrow_mut(|paths| decide_in(paths, shared, config, client, gathered, context))
}

fn decide_in<'d, C: Client>(
    paths: &mut Buffers,
    shared: &'d Shared,
    config: &Config,
    client: &C,
    gathered: Option<&ProvenSubject>,
    context: &Context<'_>,
) -> Decision<'d> {
    let mut table = FieldTable::new();
    let mut head = match client.head(&limits::of_request_heads(&config.policy.limits), &mut table) {
        Ok(Parsed::Complete(head)) => head,
        Ok(Parsed::Partial) => return Decision::Partial,
        Err(error) => return Decision::Bad(error),
    };
    // A client that has begun to send its body does not wait to be told.
    head.expect_continue &= gathered.is_none() && client.held_len() <= head.len;
    let (path, ambiguity) = match normalise(head.path, config.policy.paths, paths) {
        Ok(Paths { judged, sent }) => {
            head = sent.map_or(head, |sent| head.with_path(sent));
            (judged, None)
        }
        Err(unclear) => (unclear.judged, Some((400, unclear.ambiguity.why()))),
    };
    let absent = || config.policy.plan.is_in_tree(path).then_some((404, "there is no such path"));
    let mut wrong =
        may_be_forwarded(&config.policy.limits, &head).err().or(ambiguity).or_else(absent);
    // A call's messages may wait for those of the answer.
    let is_call = head.te_trailers && grpc::is_grpc(table.fields());
    let mut gather = false;
    if wrong.is_none() && gathered.is_none() && !is_call {
        match is_to_be_gathered(config, client, &head) {
            Ok(is_wanted) => gather = is_wanted,
            Err(error) => wrong = Some(error),
        }
    }
    let (peer, fields) = (client.peer(), table.fields());
    let (trusted, address) = (peer.is_trusted(config), peer.client(config, fields));
    let mut claims = Vec::new();
    let identity = ClientIdentity::of(shared, config, address, fields, &mut claims, gathered);
    let mut room = FieldRoom::new();
    let believed = table.believed(trusted, &mut room);
    let ids = RequestIds::of(&config.policy, trusted, fields);
    let view = view(config, peer, &head, (path, believed), address, &identity);
    let bytes = u32::try_from(client.held_len()).unwrap_or(u32::MAX);
    let is_sole = client.is_sole();
    let input = RequestInput { view: &view, head: &head, peer, trusted, bytes, gather, is_sole };
    let judged = match wrong {
        None => judge(shared, config, &input, context),
        Some(_) => Judged::not_asked(config, &input),
    };
    let (mut facts, verdict, stored) = facts(config, client, &head, fields, address, judged);
    facts.ids = ids;
    tell_kernel(shared, config, peer, &facts, !matches!(verdict, Ok(Some(Entry::Now(_)))));
    if let Some((status, why)) = wrong {
        return Decision::Unclear(facts, status, why);
    }
    let entry = match verdict {
        Err(refused) => return Decision::Refuse(facts, refused, Format::accepted(fields)),
        Ok(None) => return Decision::Gather(facts, identity.proven(config)),
        Ok(Some(entry)) => entry,
    };
    let format = match entry {
        // Only a request that waits may still be refused.
        Entry::Now(_) | Entry::Stored(_) => Format::Plain,
        Entry::Later(_) => Format::accepted(fields),
    };
    let quality = Quality::of(&config.policy.plan, &facts.arrival);
    if quality.is_some_and(|it| it.is_less()) {
        // A client would put the part together with what it has of the full answer.
        table.leave_out_ranges();
    }
    if let Some(ids) = &facts.ids {
        ids.take_place(config.policy.request_id.as_ref(), &mut table);
    }
    let head = match entry {
        Entry::Stored(_) => buffers::text(),
        _ => {
            let ids = facts.ids.as_deref();
            origin_head::<C>(config, peer, trusted, &head, &table, quality, ids)
        }
    };
    Decision::Go(Go { facts, head, entry, format, stored })
}

/// Says whose request it is, for what the kernel is to let in or keep out: of clients that are known by their own address. Of a trusted proxy nothing is said, also where it names no client: with it all
/// its clients would be kept out.
fn tell_kernel(
    shared: &Shared,
    config: &Config,
    peer: &Peer,
    facts: &RequestFacts,
    may_be_refused: bool,
) {
    let kernel = &shared.kernel;
    if peer.is_stranger || peer.is_trusted(config) {
        return;
    }
    let in_session = facts.arrival.running && kernel.wants_sessions();
    let is_refused = may_be_refused && kernel.wants_flows();
    if !(in_session || is_refused) || facts.client != peer.address.ip().to_canonical() {
        return;
    }
    if in_session {
        kernel.in_session(clock::now(), facts.client);
    }
    if is_refused {
        let view = RequestView { client: facts.client, ..RequestView::EMPTY };
        let flow = facts.arrival.flow;
        if Flow::CLIENT.of(&view, flow_key()) == flow {
            kernel.refused(flow, facts.client);
        }
    }
}

/// A status, and what the client is told.
pub(crate) type Wrong = (u16, &'static str);

/// Whether a request with this head may be forwarded at all.
///
/// # Errors
/// The status with which it is refused otherwise, and why.
pub(crate) fn may_be_forwarded(limits: &Limits, head: &RequestHead<'_>) -> Result<(), Wrong> {
    let body_max = limits.request_body_max;
    if body_max > 0 && matches!(head.body, Framing::Length(len) if len > body_max) {
        return Err((413, TOO_LARGE_TEXT));
    }
    // RFC 9110 §7.6.2: it is ours to answer, and we neither trace nor have options.
    match head.max_forwards {
        Some(0) => Err((501, "the request may not be forwarded any further")),
        _ => Ok(()),
    }
}

/// Whether the request's body is to be gathered before it is decided.
fn is_to_be_gathered<C: Client>(
    config: &Config,
    client: &C,
    head: &RequestHead<'_>,
) -> Result<bool, Wrong> {
    if !gather::is_wanted(&config.policy, head.body, head.expect_continue) {
        return Ok(false);
    }
    client.has_whole_body(head).map(|is_whole| !is_whole).map_err(|_| (400, MALFORMED_TEXT))
}

/// What rules see of a request; path and fields as they are to be shown.
fn view<'r>(
    config: &Config,
    peer: &'r Peer,
    head: &RequestHead<'r>,
    (path, fields): (&'r [u8], &'r [Field<'r>]),
    client: IpAddr,
    identity: &'r ClientIdentity<'_>,
) -> RequestView<'r> {
    RequestView {
        method: head.method,
        host: head.host_name(),
        path,
        query: head.query,
        fields,
        client,
        listener: config.policy.listener_at(peer.listener),
        local: peer.local.ip(),
        sni: peer.sni.as_deref().unwrap_or_default().as_bytes(),
        client_name: identity.name(),
        country: identity.place.country,
        asn: identity.place.asn,
        certificate: peer.certificate.as_deref().unwrap_or_default().as_bytes(),
        subject: identity.subject(),
        dscp: peer.dscp_of(client),
    }
}

/// What is kept of the request.
fn facts<'d, C: Client>(
    config: &Config,
    client: &C,
    head: &RequestHead<'_>,
    fields: &[Field<'_>],
    address: IpAddr,
    judged: Judged<'d>,
) -> (RequestFacts, Result<Option<Entry<'d>>, Refused>, Option<Box<StoredRequest>>) {
    let Judged { arrival, session, observed, stored, left, verdict } = judged;
    let preemptible = is_preemptible(config, &arrival) && is_safe_to_preempt(head);
    let facts = RequestFacts {
        head_len: head.len,
        body: head.body,
        protocol: client.protocol(head),
        keep: head.keep_alive,
        head_only: head.method == b"HEAD",
        upgrade: head.upgrade.is_some(),
        expects: head.expect_continue,
        idempotent: is_idempotent(head.method),
        preemptible: preemptible.then(|| Format::accepted(fields)),
        client: address,
        arrival,
        session,
        observed,
        changes: config.store.is_some() && is_unsafe(head.method),
        ids: None,
        left_out: match head.body {
            Framing::Chunked => config.trailers_left_out.clone(),
            _ => TrailerNames::default(),
        },
        limit: left.map(Box::new),
    };
    (facts, verdict, stored)
}

fn is_preemptible(config: &Config, arrival: &Arrival) -> bool {
    config.policy.plan.class(arrival.class).is_some_and(|class| class.preemptible)
}

/// The head as it goes to the origin.
fn origin_head<C: Client>(
    config: &Config,
    peer: &Peer,
    peer_trusted: bool,
    head: &RequestHead<'_>,
    table: &FieldTable<'_>,
    quality: Option<Quality<'_>>,
    ids: Option<&RequestIds>,
) -> Vec<u8> {
    let path = quality.and_then(|it| it.path(head.path));
    let head = &path.as_ref().map_or(*head, |path| head.with_path(path));
    let level = quality.and_then(|it| it.text());
    let mut out = buffers::text();
    let mut listener = [0; LISTENER_LEN_MAX];
    let mut add = config.policy.forwarding;
    let via = C::VIA.filter(|_| add.via).map(|value| Field { name: b"Via", value });
    let mut extra = ArrayVec::<Field<'_>, 3>::new();
    extra.extend(via);
    if let Some(ids) = ids {
        extra.extend(ids.fields(config.policy.request_id.as_ref()));
    }
    // Else the writer says it by the version.
    add.via &= C::VIA.is_none();
    let forward = ForwardInfo {
        peer: peer.text,
        peer_trusted,
        https: peer.secure,
        add,
        level: level.as_ref().map(|it| it.as_bytes()),
        listener_host: match head.host {
            [] => listener_text(peer.local, &mut listener),
            _ => b"",
        },
    };
    http1::write_request_head(&mut out, head, table, &forward, &extra);
    out
}

/// Longest text of a socket address.
const LISTENER_LEN_MAX: usize = 64;

fn listener_text(local: SocketAddr, text: &mut [u8; LISTENER_LEN_MAX]) -> &[u8] {
    let mut rest = &mut text[..];
    write!(rest, "{local}").expect("no socket address is longer than LISTENER_LEN_MAX");
    let len = LISTENER_LEN_MAX - rest.len();
    &text[..len]
}
