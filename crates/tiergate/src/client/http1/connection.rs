//! A client connection over HTTP/1.1: one request after the other.

use super::input::Input;
use super::next::Next;
use super::side::Http1;
use crate::buffers::Buffer;
use crate::client::peer::Peer;
use crate::connections::Connection;
use crate::request;
use crate::shared::Shared;
use crate::stream::ClientStream;
use crate::timers::Timer;
use std::sync::Arc;

/// Serves a connection until either side ends it. `early` was read already; `timer` runs for the first
/// request.
pub async fn serve<S: ClientStream>(
    io: S,
    peer: Box<Peer>,
    early: Option<Buffer>,
    timer: Timer,
    open: &Connection,
    shared: &Arc<Shared>,
) {
    let mut side = Http1::new(Input::new(io, peer, timer, early), open);
    let next = loop {
        // Between two requests the connection may be closed, idle for too long, or in others' way.
        if side.input.buffer.is_none() {
            open.idle();
            let Some(Ok(())) = open.unless_evicted(side.input.await_bytes()).await else {
                break Next::Cut;
            };
        }
        open.busy();
        request::serve::serve(&mut side, shared).await;
        match side.next_request() {
            Next::Keep => {}
            next => break next,
        }
        let idle = shared.config.load().policy.timeouts.idle;
        side.input.timer.arm_idle(idle);
    };
    let input = &mut side.input;
    shared.link.ends(input.peer.address, true);
    // It has had its answer: others need not wait until it has gone.
    open.idle();
    match next {
        Next::Close => drop(open.unless_evicted(input.close()).await),
        Next::Keep | Next::Cut => {}
        Next::Linger => drop(open.unless_evicted(input.linger()).await),
        Next::Reset => input.io.reset_at_close(),
    }
}
