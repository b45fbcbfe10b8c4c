//! A stream from its first byte to the last acknowledgement: its head is awaited, its request served, its answer delivered.

use super::body::Body;
use super::frames::bare_answer;
use super::line::{Line, Stopped};
use super::side::Http3;
use super::transport::{Stream, Transport};
use crate::client::peer::Peer;
use crate::client::streams::counted::Counted;
use crate::client::streams::head::Head;
use crate::client::streams::incoming::Incoming;
use crate::client::streams::tally::{Ended, Tally};
use crate::client::streams::upload::Upload;
use crate::client::streams::window;
use crate::clock;
use crate::observe::counters::Protocol;
use crate::request;
use crate::request::stray::Stray;
use crate::shared::Shared;
use crate::timers::{TICK, Timer};
use bytes::Bytes;
use h3::error::{Code, StreamError};
use h3::server::{RequestResolver, RequestStream};
use http::header::{CONTENT_LENGTH, HeaderMap};
use http::request::Parts;
use http::{Method, Request};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

/// A request as `h3` has it, and the way its answer goes.
type Resolved = (Request<()>, RequestStream<Stream, Bytes>);

const HEAD_TOO_LONG: &str = "the request's head is too long";

/// How often `timeouts.write` may pass until all of an answer has arrived that QUIC has taken: once for each 64 KiB of it,
/// as long as the client acknowledges some.
pub(super) const DELIVERIES_MAX: u32 = 1 + (window::SENT / (64 * 1024)) as u32;

/// The stream is no request yet, or not known to be whole: its connection makes room for others like one without.
struct Gathers<'t>(&'t Tally);

impl<'t> Gathers<'t> {
    fn begin(tally: &'t Tally) -> Self {
        tally.gathers(true);
        Gathers(tally)
    }
}

impl Drop for Gathers<'_> {
    fn drop(&mut self) {
        self.0.gathers(false);
    }
}

/// Serves one stream.
pub(super) async fn run(
    request: RequestResolver<Transport, Bytes>,
    line: Arc<Line>,
    peer: Arc<Peer>,
    quic: quinn::Connection,
    shared: Arc<Shared>,
    mut counted: Counted,
) {
    let tally = counted.tally();
    let stopped = pin!(line.stopped());
    let mut stopped = Stopped { future: stopped, is_over: false };
    let timer = Timer::new();
    let ended = match resolve(request, &line, &timer, &peer, &shared, tally).await {
        Ok((request, stream)) => {
            let (parts, ()) = request.into_parts();
            let (respond, receive) = stream.split();
            let mut body = Body::new(receive, content_length(&parts.headers));
            begin_body(&mut body, &parts, &timer, tally).await;
            let mut side = Http3 {
                peer: &peer,
                tally,
                timer,
                head: Head::new(parts, body.is_ended()),
                upload: Upload::new(body),
                parked: None,
                respond,
                line: &line,
                stopped: &mut stopped,
                response: None,
                writing: None,
                is_over: false,
                ended: Ended::default(),
            };
            request::serve::serve(&mut side, &shared).await;
            side.ended
        }
        Err(ended) => {
            tally.ends_headless();
            ended
        }
    };
    counted.ended = ended;
    let write = shared.config.load().policy.timeouts.write;
    deliver(&line, &mut stopped, &quic, write).await;
}

/// Takes in what has come together with the head. That nothing follows may come a packet later: without a moment's patience,
/// chance would say whether an origin gets a GET as one with a body.
async fn begin_body(body: &mut Body, parts: &Parts, timer: &Timer, tally: &Tally) {
    let has_come = poll_fn(|context| Poll::Ready(body.poll_early(context).is_ready())).await;
    let bodiless = [Method::GET, Method::HEAD, Method::DELETE, Method::OPTIONS, Method::TRACE];
    if has_come || !bodiless.contains(&parts.method) || parts.headers.contains_key(CONTENT_LENGTH) {
        return;
    }
    let _gathers = Gathers::begin(tally);
    timer.arm(TICK);
    // Without any of it, there is a body.
    let _ = timer.bound(|context| body.poll_early(context).map(Ok)).await;
}

/// Hands over what is left, and waits until the client has it: a connection that closes before loses it.
async fn deliver(line: &Line, stopped: &mut Stopped<'_>, quic: &quinn::Connection, time: Duration) {
    let timer = Timer::new();
    for _ in 0..DELIVERIES_MAX {
        let acknowledged = quic.stats().frame_rx.acks;
        timer.arm(time);
        let arrived = timer.bound(|context| {
            if !line.is_reset() && !stopped.is_over && ready!(line.poll_flush(context)).is_ok() {
                line.finish();
                ready!(stopped.poll(context));
            }
            Poll::Ready(io::Result::Ok(()))
        });
        if arrived.await.is_ok() {
            return;
        }
        if quic.stats().frame_rx.acks == acknowledged {
            break;
        }
    }
    line.reset(Code::H3_REQUEST_CANCELLED.value());
}

/// Awaits the request's head. Answers one that cannot be served.
async fn resolve(
    request: RequestResolver<Transport, Bytes>,
    line: &Line,
    timer: &Timer,
    peer: &Peer,
    shared: &Shared,
    tally: &Tally,
) -> Result<Resolved, Ended> {
    timer.arm(shared.config.load().policy.timeouts.request_head);
    let (since, client) = (clock::recent(), peer.address.ip());
    let mut resolving = pin!(request.resolve_request());
    let mut gathers = None;
    let resolved = timer.bound(|context| {
        let polled = resolving.as_mut().poll(context);
        if polled.is_pending() {
            gathers.get_or_insert_with(|| Gathers::begin(tally));
        }
        polled.map(io::Result::Ok)
    });
    let resolved = resolved.await;
    drop(gathers);
    let config = shared.config.load();
    let stray = Stray { shared, config: &config, since };
    let answered = |status, why| stray.answered(client, Protocol::Http3, status, why);
    match resolved {
        Ok(Ok(resolved)) => Ok(resolved),
        // `h3` has answered it, but not counted.
        Ok(Err(StreamError::HeaderTooBig { .. })) => {
            answered(431, HEAD_TOO_LONG);
            Err(Ended::Otherwise)
        }
        Ok(Err(_)) if line.head_is_too_long() => {
            answered(431, HEAD_TOO_LONG);
            line.put(&bare_answer(431)[..]);
            Err(Ended::Otherwise)
        }
        // By its code alone: the rest has what the client sent.
        Ok(Err(StreamError::StreamError { code, .. })) => {
            stray.broke(client, Protocol::Http3, &code);
            Err(Ended::Reset)
        }
        Ok(Err(_)) => {
            line.reset(Code::H3_REQUEST_INCOMPLETE.value());
            Err(Ended::Reset)
        }
        Err(_) => {
            answered(408, "the request's head took too long");
            line.put(&bare_answer(408)[..]);
            Err(Ended::Otherwise)
        }
    }
}

/// The length that a request says its body has; one that makes no sense is found with the rest of the head.
///
/// Read as the head is that goes to the origin, without the white space that HTTP/3 does not forbid `h3` to take: what is read otherwise here is not
/// counted, and the origin would take the rest for a request of its own.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    let digits = headers.get(CONTENT_LENGTH)?.as_bytes().trim_ascii();
    std::str::from_utf8(digits).ok()?.parse().ok()
}
