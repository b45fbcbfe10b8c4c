//! A stream from its first byte to the last acknowledgement: its head is awaited, its request served, its answer delivered.

use super::body::Body;
use super::frames::bare_answer;
use super::line::{Line, Stopped};
use super::side::Http3;
use super::transport::{Stream, Transport};
use crate::client::peer::Peer;
use crate::client::streams::head::Head;
use crate::client::streams::incoming::Incoming;
use crate::client::streams::tally::{Ended, Tally};
use crate::client::streams::upload::Upload;
use crate::clock;
use crate::observe::counters::Protocol;
use crate::request;
use crate::request::stray::Stray;
use crate::shared::Shared;
use crate::timers::Timer;
use bytes::Bytes;
use h3::error::{Code, StreamError};
use h3::server::{RequestResolver, RequestStream};
use http::Request;
use http::header::{CONTENT_LENGTH, HeaderMap};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};

/// A request as `h3` has it, and the way its answer goes.
type Resolved = (Request<()>, RequestStream<Stream, Bytes>);

const HEAD_TOO_LONG: &str = "the request's head is too long";

/// Serves one stream.
pub(super) async fn run(
    request: RequestResolver<Transport, Bytes>,
    line: Arc<Line>,
    peer: Arc<Peer>,
    shared: Arc<Shared>,
    tally: Arc<Tally>,
) {
    let stopped = pin!(line.stopped());
    let mut stopped = Stopped { future: stopped, is_over: false };
    let timer = Timer::new();
    let ended = match resolve(request, &line, &timer, &peer, &shared, &tally).await {
        Ok((request, stream)) => {
            let (parts, ()) = request.into_parts();
            let (respond, receive) = stream.split();
            let mut body = Body::new(receive, content_length(&parts.headers));
            poll_fn(|context| {
                body.poll_early(context);
                Poll::Ready(())
            })
            .await;
            let mut side = Http3 {
                peer: &peer,
                tally: &tally,
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
        Err(ended) => ended,
    };
    // What is still to be handed over, and then acknowledged: a connection that closes before loses it.
    let timer = Timer::armed(shared.config.load().policy.timeouts.write);
    let arrived = timer.bound(|context| {
        if !stopped.is_over && ready!(line.poll_flush(context)).is_ok() {
            line.finish();
            ready!(stopped.poll(context));
        }
        Poll::Ready(io::Result::Ok(()))
    });
    if arrived.await.is_err() {
        line.reset(Code::H3_REQUEST_CANCELLED.value());
    }
    tally.end(ended);
    tally.parking.wake();
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
    let mut waits = false;
    let resolved = timer.bound(|context| {
        let polled = resolving.as_mut().poll(context);
        if polled.is_pending() && !waits {
            // It is no request yet: the connection makes room for others like one without.
            waits = true;
            tally.gathers(true);
        }
        polled.map(io::Result::Ok)
    });
    let resolved = resolved.await;
    if waits {
        tally.gathers(false);
    }
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
        Ok(Err(error @ StreamError::StreamError { .. })) => {
            shared.tally().bad_request(400);
            stray.failed(client, "HTTP/3", &error);
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
fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
