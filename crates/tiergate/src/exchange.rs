//! One request and its answer on one connection to the origin, HTTP/1.1 on both sides.
//!
//! ```text
//! send ─▶ head ─┬─ 1xx: pass on, head again
//!               ├─ 101: pass on, tunnel
//!               └─ final: pass on with the body's beginning ─▶ body ─▶ end
//! ```

use crate::account::{self, Record};
use crate::body::AnswerBody;
use crate::buffers::{self, Buffer};
use crate::clock;
use crate::date;
use crate::decide::Facts;
use crate::deliver::{allowance, deliver};
use crate::door::Held;
use crate::forward::{Ended, Journey};
use crate::http1::{self, Delivery, FieldTable, HeadLimits, Parsed, ResponseInfo, Version};
use crate::link::{Fault, Link};
use crate::origin::{Lease, Place};
use crate::rate_limit::RateLimit;
use crate::serve::{Connection, Next};
use crate::shared::{Config, Counted, Shared};
use crate::stream::ClientStream;
use crate::streaming::Streaming;
use crate::tunnel;
use arrayvec::ArrayVec;
use std::future::poll_fn;
use std::task::Poll;
use tiergate_core::outcome::End;
use tiergate_core::request::Field;

/// Interim answers (1xx) to one request that are passed on; an origin that sends more is broken.
pub(crate) const INTERIM_MAX: u32 = 16;

/// How a request failed at a connection.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The connection had been closed while it was idle: nothing came, and all can be sent again.
    Stale,
    /// Before a final answer.
    Unanswered(Fault),
    /// After the answer's head was sent to the client.
    BrokenOff(Fault),
    /// The same, where an orderly close would look like the answer's end.
    Unended(Fault),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Failure::Unanswered(fault)
    }
}

pub(crate) struct Exchange<'j, 'c, 'd, S> {
    journey: &'j mut Journey<'c, 'd>,
    connection: &'j mut Connection<S>,
    place: Place,
    lease: Lease,
}

impl<'j, 'c, 'd, S: ClientStream> Exchange<'j, 'c, 'd, S> {
    pub(crate) fn new(
        journey: &'j mut Journey<'c, 'd>,
        connection: &'j mut Connection<S>,
        place: Place,
        lease: Lease,
    ) -> Self {
        Exchange { journey, connection, place, lease }
    }

    /// Sends the request, passes the answer on. `head` is written over once an answer is there.
    pub(crate) async fn run(self, head: &mut Vec<u8>, may_repeat: bool) -> Result<Ended, Failure> {
        let Exchange { journey, connection, mut place, lease } = self;
        let Journey { shared, config, facts, record, held, upload, sent } = journey;
        let Lease { stream: origin, reused: _ } = lease;
        let timeouts = config.policy.timeouts;
        let allowance = allowance(shared, &config.policy);
        let mut link = Link {
            connection,
            origin,
            head_len: facts.head_len,
            unsent: 0..0,
            upload,
            timeouts,
            allowance,
        };
        match link.send(head, *sent).await {
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                place.broken();
                return Err(Fault::OriginSlow.into());
            }
            Err(_) if may_repeat => return Err(Failure::Stale),
            // It may have answered before it closed: reading tells.
            Err(_) | Ok(()) => {}
        }
        if let Some(held) = held.as_mut().filter(|_| facts.may_be_broken_off.is_some()) {
            poll_fn(|context| held.poll_permit_preemption(context)).await;
        }
        let mut answer: Option<Buffer> = None;
        let mut interims = 0;
        loop {
            let bytes = answer.as_ref().map_or(&[][..], Buffer::content);
            let may_keep = facts.keep && link.is_sent() && !shared.is_draining();
            match look(bytes, head, config, facts, may_keep) {
                Seen::Partial => {
                    let nothing_yet = answer.is_none() && interims == 0;
                    if let Some(buffer) = &mut answer {
                        buffer.make_room(config.policy.limits.response_head_max + 1);
                    }
                    let read = poll_fn(|context| match held {
                        Some(held) if held.is_preempted() => Poll::Ready(Err(Fault::Preempted)),
                        _ => link.poll_read(&mut answer, context),
                    });
                    let fault = match read.await {
                        Ok(count) if count > 0 => continue,
                        Ok(_) => Fault::Origin,
                        Err(fault) => fault,
                    };
                    if matches!(fault, Fault::Origin) && may_repeat && nothing_yet {
                        return Err(Failure::Stale);
                    }
                    if matches!(fault, Fault::Origin | Fault::OriginSlow) {
                        place.broken();
                    }
                    return Err(fault.into());
                }
                Seen::Bad(why) => {
                    place.broken();
                    return Err(Fault::Answer(502, why).into());
                }
                Seen::Interim { len } => {
                    interims += 1;
                    if interims > INTERIM_MAX {
                        place.broken();
                        let why = "the origin sent too many interim answers";
                        return Err(Fault::Answer(502, why).into());
                    }
                    held.iter_mut().for_each(Held::keep);
                    // A client of HTTP/1.0 knows none (RFC 9110 §15.2).
                    if facts.version == Version::Http11 {
                        link.write(head, &[]).await?;
                    }
                    consume(&mut answer, len);
                }
                Seen::Switch { len } => {
                    place.alive();
                    answered(held, record, 101, len);
                    consume(&mut answer, len);
                    let tunnels_max = config.policy.limits.tunnels_max;
                    let Some(_counted) = Counted::below(&shared.tunnels, tunnels_max) else {
                        return Err(Fault::Answer(503, "too many upgraded connections").into());
                    };
                    // The slot is free: what a tunnel costs the origin is not known.
                    if let Some(mut held) = held.take() {
                        held.note(End::Upgraded);
                        record.end = Some(End::Upgraded);
                    }
                    link.write(head, &[]).await.map_err(Failure::BrokenOff)?;
                    account::http1(shared, config, facts, link.connection.received(), record);
                    tunnel(shared, facts.head_len, link, answer).await;
                    return Ok(Ended::Switched);
                }
                Seen::Final { len, status, keep, body } => {
                    place.alive();
                    answered(held, record, status, len);
                    consume(&mut answer, len);
                    deliver(held, record, link, place, head, body, answer).await?;
                    return Ok(Ended::Answered(if keep { Next::Keep } else { Next::Close }));
                }
            }
        }
    }
}

/// What was found at the beginning of what the origin sent.
enum Seen {
    Partial,
    Bad(&'static str),
    Interim { len: usize },
    Switch { len: usize },
    Final { len: usize, status: u16, keep: bool, body: AnswerBody },
}

/// Looks for an answer's head; if it is whole, writes it as it goes to the client over `out`: the
/// request's head, which will not be sent again.
///
/// Apart from [`Exchange::run`] so that the table of fields is not kept across its waits.
fn look(bytes: &[u8], out: &mut Vec<u8>, config: &Config, facts: &Facts, may_keep: bool) -> Seen {
    if bytes.is_empty() {
        return Seen::Partial;
    }
    let limits = HeadLimits {
        head_len_max: config.policy.limits.response_head_max,
        target_len_max: 0,
        fields_max: config.policy.limits.fields_max,
    };
    let mut table = FieldTable::new();
    let response = match http1::parse_response(bytes, &mut table, &limits, facts.head_only) {
        Ok(Parsed::Complete(response)) => response,
        Ok(Parsed::Partial) => return Seen::Partial,
        Err(error) => return Seen::Bad(error.why),
    };
    if response.upgrade && !facts.upgrade {
        return Seen::Bad("the origin switched protocols unasked");
    }
    let (len, status) = (response.len, response.status);
    let last = !response.is_interim() && !response.upgrade;
    out.clear();
    // RFC 9110 §6.6.1: who passes an answer without a date on gives it one.
    let dateless = last && !response.has_date;
    let cookie = match (&facts.visit, &config.policy.session) {
        (Some(visit), Some(session)) if last => visit.answered(session, status, table.fields()),
        _ => None,
    };
    let limit = RateLimit::of(&config.policy, facts.left.as_deref().filter(|_| last));
    let mut values = [Vec::new(), Vec::new()];
    let mut extra = ArrayVec::<Field<'_>, 3>::new();
    if let Some(limit) = &limit {
        values = [buffers::text(), buffers::text()];
        limit.put_policy(&mut values[0]);
        limit.put_state(&mut values[1]);
        extra.push(Field { name: b"RateLimit-Policy", value: &values[0] });
        extra.push(Field { name: b"RateLimit", value: &values[1] });
    }
    if let Some(value) = &cookie {
        extra.push(Field { name: b"Set-Cookie", value: value.as_bytes() });
    }
    let keep = date::with_line(|date_line| {
        let info = ResponseInfo {
            client: facts.version,
            keep_alive: may_keep || !last,
            via: config.policy.forwarding.via,
            date_line: if dateless { date_line } else { b"" },
            extra: &extra,
        };
        http1::write_response_head(out, &response, &table, &info)
    });
    drop(extra);
    if limit.is_some() {
        values.into_iter().for_each(buffers::keep_text);
    }
    match last {
        false if response.upgrade => Seen::Switch { len },
        false => Seen::Interim { len },
        true => {
            let dechunk = http1::delivery(&response, facts.version) == Delivery::Dechunked;
            let mut body = AnswerBody::new(response.body, dechunk, response.keep_alive);
            body.streaming = Streaming::of(table.fields());
            Seen::Final { len, status, keep, body }
        }
    }
}

/// Notes that the final answer has begun.
pub(crate) fn answered(
    held: &mut Option<Held<'_>>,
    record: &mut Record,
    status: u16,
    head_len: usize,
) {
    let held = held.as_mut().expect("held until the origin is done");
    held.keep();
    held.answered(clock::now(), head_len);
    held.note(if status < 500 { End::Served } else { End::Error });
    record.status = status;
    record.first_byte = held.outcome().first_byte;
    record.end = Some(held.outcome().end);
}

/// Forgets the head's bytes; gives the buffer back if no others came with it.
fn consume(answer: &mut Option<Buffer>, count: usize) {
    if let Some(buffer) = answer {
        buffer.consume(count);
        if buffer.is_empty() {
            *answer = None;
        }
    }
}

/// The origin has agreed to another protocol, and the client has been told: the bytes go both ways.
async fn tunnel<S: ClientStream>(
    shared: &Shared,
    head_len: usize,
    link: Link<'_, S>,
    answer: Option<Buffer>,
) {
    shared.tally().tunnels_opened.one();
    let Link { connection, origin, timeouts, .. } = link;
    connection.use_up(head_len);
    let early = connection.input.take();
    let Connection { io, timer, .. } = connection;
    // However a tunnel ends, nothing is left to be said.
    let _ = tunnel::relay(io, origin, early, answer, timer, timeouts.tunnel_idle).await;
    shared.tally().tunnels_closed.one();
}
