//! From a request's head to its verdict, and to the head that the origin gets.

use crate::buffers;
use crate::decide::{self, Asked, Entry, Judged, Peer};
use crate::door::Answer;
use crate::gather;
use crate::http1::{self, FieldRoom, FieldTable, ForwardInfo, Framing, HeadError, RequestHead};
use crate::identity::Who;
use crate::rate_limit::Left;
use crate::respond::Format;
use crate::session::SessionGuard;
use crate::shared::{Config, Shared};
use http::header::{COOKIE, HeaderMap};
use http::request::Parts;
use std::net::IpAddr;
use std::task::Context;
use tiergate_core::classify::path;
use tiergate_core::gate::{Arrival, Refused};
use tiergate_core::request::{Field, RequestView};

/// What is kept of a request's head.
#[derive(Debug)]
pub(super) struct Facts {
    /// How its body goes to the origin.
    pub(super) body: Framing,
    /// The client waits to be told that its body is wanted.
    pub(super) expects: bool,
    /// HEAD: the answer has no body.
    pub(super) head_only: bool,
    /// Doing it twice is as good as once.
    pub(super) idempotent: bool,
    /// It may be preempted while it is in service, and how it is told then.
    pub(super) may_be_broken_off: Option<Format>,
    /// The client, by the connection or by a trusted peer's word.
    pub(super) client: IpAddr,
    /// How it was classified.
    pub(super) arrival: Arrival,
    /// Its part in a session, where the policy knows any.
    pub(super) visit: Option<Box<SessionGuard>>,
    /// What it has left of a policer whose clients are told; boxed, because few are.
    pub(super) left: Option<Box<Left>>,
}

/// What is to be done about a request.
#[derive(Debug)]
pub(super) enum Decision<'d> {
    /// Answer with an error.
    Bad(HeadError),
    /// Read the body, then decide anew: nothing has been counted yet.
    Gather(Facts),
    /// Answer with a refusal.
    Refuse(Facts, Refused, Format),
    /// Forward `head`, once the slot is there.
    Go { facts: Facts, head: Vec<u8>, entry: Entry<'d>, format: Format },
}

/// Decides. `context` is the stream's task: it is woken when a wait ends. `ends`: no body follows.
/// `ready`: of a body that follows, as much is there as shall be; `body_len`: how much that is.
pub(super) fn decide<'d>(
    shared: &'d Shared,
    config: &Config,
    peer: &Peer,
    parts: &Parts,
    (ends, ready, body_len): (bool, bool, usize),
    context: &mut Context<'_>,
) -> Decision<'d> {
    let cookies = joined_cookies(&parts.headers);
    let mut table = FieldTable::new();
    let mut head = match look(config, parts, ends, cookies.as_deref(), &mut table) {
        Ok(head) => head,
        Err(error) => return Decision::Bad(error),
    };
    head.expect_continue &= !ready;
    let expects = head.expect_continue;
    let gather = !ready && gather::is_wanted(&config.policy, head.body, expects);
    let fields = table.fields();
    let client = decide::client_of(config, peer, fields);
    let mut claims = Vec::new();
    let who = Who::of(shared, config, client, fields, &mut claims);
    let trusted = decide::is_trusted(config, peer.address.ip());
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
    let bytes = decide::held_bytes(body_len + head_len(fields));
    let asked = Asked { view: &view, peer, trusted, bytes, gather };
    let Judged { arrival, visit, left, answer } = decide::judge(shared, config, &asked, context);
    let facts = Facts {
        body: head.body,
        expects,
        head_only: head.method == b"HEAD",
        idempotent: decide::is_idempotent(head.method),
        may_be_broken_off: decide::may_be_broken_off(config, &arrival, head.method, head.body)
            .then(|| Format::accepted(fields)),
        client: view.client,
        arrival,
        visit,
        left,
    };
    let (entry, format) = match answer {
        Answer::Refused(refused) => {
            return Decision::Refuse(facts, refused, Format::accepted(fields));
        }
        Answer::Later => return Decision::Gather(facts),
        // Only a request that waits may still be refused.
        Answer::Admitted(held) => (Entry::Now(held), Format::Plain),
        Answer::Wait(waiting) => (Entry::Later(waiting), Format::accepted(fields)),
    };
    Decision::Go { facts, head: origin_head(config, peer, &head, &table), entry, format }
}

/// Fills `table` from the request's fields, which stay where they are, and checks all.
fn look<'b>(
    config: &Config,
    parts: &'b Parts,
    ends: bool,
    cookies: Option<&'b [u8]>,
    table: &mut FieldTable<'b>,
) -> Result<RequestHead<'b>, HeadError> {
    let limits = &config.policy.limits;
    let mut cookies_pushed = false;
    for (name, value) in &parts.headers {
        let mut value = value.as_bytes();
        if let Some(cookies) = cookies
            && name == COOKIE
        {
            if cookies_pushed {
                continue;
            }
            cookies_pushed = true;
            value = cookies;
        }
        if table.fields().len() == limits.fields_max {
            return Err(HeadError { status: 431, why: "too many fields" });
        }
        table.push(Field { name: name.as_str().as_bytes(), value: value.trim_ascii() })?;
    }
    let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
    if target.len() > limits.target_len_max {
        return Err(HeadError { status: 414, why: "target too long" });
    }
    let authority = parts.uri.authority().map(|host| host.as_str().as_bytes());
    let method = parts.method.as_str().as_bytes();
    let head = http1::request_from_parts(method, target.as_bytes(), authority, ends, table)?;
    if head.max_forwards == Some(0) {
        return Err(HeadError { status: 501, why: decide::NO_FURTHER });
    }
    let body_max = limits.request_body_max;
    if body_max > 0 && matches!(head.body, Framing::Length(len) if len > body_max) {
        return Err(HeadError { status: 413, why: "the body is larger than this site takes" });
    }
    Ok(head)
}

/// Bytes of the fields, about as HTTP/1.1 would write them.
fn head_len(fields: &[Field<'_>]) -> usize {
    fields.iter().map(|field| field.name.len() + field.value.len() + 4).sum()
}

/// Several cookie fields as the one that HTTP/1.1 has (RFC 9113 §8.2.3); `None` if there is at most
/// one.
fn joined_cookies(headers: &HeaderMap) -> Option<Vec<u8>> {
    let mut crumbs = headers.get_all(COOKIE).iter();
    let (first, second) = (crumbs.next()?, crumbs.next()?);
    let mut joined = first.as_bytes().to_vec();
    for crumb in [second].into_iter().chain(crumbs) {
        joined.extend_from_slice(b"; ");
        joined.extend_from_slice(crumb.as_bytes());
    }
    Some(joined)
}

fn origin_head(
    config: &Config,
    peer: &Peer,
    head: &RequestHead<'_>,
    table: &FieldTable<'_>,
) -> Vec<u8> {
    let mut add = config.policy.forwarding;
    // The writer would say that the request came by HTTP/1.1.
    let via = [Field { name: b"Via", value: b"2.0 tiergate" }];
    let extra = if add.via { &via[..] } else { &[] };
    add.via = false;
    let forward = ForwardInfo {
        peer: peer.text,
        peer_trusted: decide::is_trusted(config, peer.address.ip()),
        https: peer.secure,
        add,
        listener_host: b"",
    };
    let mut out = buffers::text();
    http1::write_request_head(&mut out, head, table, &forward, extra);
    out
}
