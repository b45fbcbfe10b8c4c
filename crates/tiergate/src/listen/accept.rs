//! From the listen queue to a task of the connection's own: on this thread, or in the lane that is its place.

use super::class::class_at_accept;
use super::connection::connection;
use super::in_force::{InForce, Settings};
use super::socket::{BACKLOG, Program, Wanted, demultiplex, want};
use crate::lanes::LanePlace;
use crate::shared::{Present, Shared};
use crate::{clock, demux, saved_syn};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tiergate_core::request::RequestView;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// How long accepting pauses when it failed for want of resources.
const PAUSE: Duration = Duration::from_millis(20);

/// How many idle connections make room then.
const ROOM: usize = 8;

/// How often the log says that accepting fails, however many threads and sockets it fails on.
const COMPLAINT: Duration = Duration::from_secs(5);

/// Accepts connections and serves each in a task of its own, until `stop` or the drain. `present`
/// counts the socket: once it is gone, no connection is accepted any more.
///
/// # Errors
/// The socket could not be used with the runtime.
pub async fn accept(
    listener: TcpListener,
    settings: Settings,
    present: Present,
    mut wanted: watch::Receiver<Wanted>,
    mut program: Option<watch::Receiver<Program>>,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let shared = &present.shared;
    let mut dscp = want(&listener, *wanted.borrow_and_update());
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut ending = std::pin::pin!(async {
        tokio::select! {
            () = stop => {}
            () = shared.draining() => {}
        }
    });
    loop {
        let accepted = tokio::select! {
            biased;
            Some(program) = next(&mut program) => {
                demultiplex(&listener, program.as_deref());
                continue;
            }
            accepted = listener.accept() => accepted,
            () = &mut ending => break,
            Ok(()) = wanted.changed() => {
                dscp = want(&listener, *wanted.borrow_and_update());
                continue;
            }
        };
        admit(accepted, dscp, &settings, shared).await;
    }
    // Those that listen on, in this process or another, are not to get connections by places that are no more.
    // A successor has the same sockets, and has put its own program there.
    if program.is_some() && !shared.has_succeeded() {
        demux::detach(&listener);
    }
    // Connections that are in the listen queue now would be reset when it closes. The system is asked, not the
    // runtime, which may not have heard of the last ones yet. More than the queue holds can come only
    // while another process listens on the same socket, and those it takes.
    let listener = listener.into_std()?;
    for _ in 0..BACKLOG {
        let Ok((stream, from)) = listener.accept() else {
            break;
        };
        stream.set_nonblocking(true)?;
        let stream = TcpStream::from_std(stream)?;
        admit(Ok((stream, from)), dscp, &settings, shared).await;
    }
    Ok(())
}

/// The next program of this socket's address, if it is the socket whose task is to follow.
async fn next(program: &mut Option<watch::Receiver<Program>>) -> Option<Program> {
    let program = program.as_mut()?;
    program.changed().await.ok()?;
    Some(program.borrow_and_update().clone())
}

async fn admit(
    accepted: io::Result<(TcpStream, SocketAddr)>,
    dscp: bool,
    settings: &Settings,
    shared: &Arc<Shared>,
) {
    let (stream, from) = match accepted {
        Ok(accepted) => accepted,
        // It was reset in the queue.
        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => return,
        Err(error) => {
            // There are too many open files, or no memory is left.
            shared.tally().connections_not_accepted.one();
            let evicted = shared.connections.evict(ROOM, shared.config.load().bounds.last());
            shared.tally().connections_evicted.add(evicted as u64);
            if shared.complaint.is_due(clock::now(), COMPLAINT) {
                tracing::warn!(%error, "connections cannot be accepted: see limits.connections_max and ulimit -n");
            }
            tokio::time::sleep(PAUSE).await;
            return;
        }
    };
    let dscp = code_point(&stream, dscp);
    let (settings, shared) = (settings.load_full(), shared.clone());
    let Some(lanes) = shared.lanes.get() else {
        return enter(stream, from, dscp, settings, shared, None).await;
    };
    let local = || stream.local_addr().ok().map(|local| local.ip());
    let class = class_at_accept(local, from, dscp, &settings.listener, &shared);
    // Before others make room for it.
    let Some(place) = lanes.place(class) else { return };
    let mut entering = Box::pin(enter(stream, from, dscp, settings, shared.clone(), Some(place)));
    tokio::select! {
        biased;
        () = &mut entering => return,
        () = std::future::ready(()) => {}
    }
    match lanes.may_wait() {
        None => entering.await,
        // Those behind it, for which others may make room, are not to wait for it.
        Some(waits) => {
            // Until it is counted, the drain waits for it as for a socket.
            let present = Present::listener(&shared);
            tokio::spawn(async move {
                entering.await;
                drop((waits, present));
            });
        }
    }
}

/// Waits for room for a connection, and has it served: here, or in the place that it has with lanes.
async fn enter(
    stream: TcpStream,
    from: SocketAddr,
    dscp: u8,
    settings: Arc<InForce>,
    shared: Arc<Shared>,
    place: Option<LanePlace>,
) {
    let bounds = shared.config.load().bounds;
    let local = || stream.local_addr().ok().map(|local| local.ip());
    let class = || class_at_accept(local, from, dscp, &settings.listener, &shared);
    let level = || class().map(|class| shared.config.load().level_of(class));
    let entered = shared.connections.enter(from.ip(), bounds, level).await;
    if entered.evicted > 0 {
        shared.tally().connections_evicted.add(entered.evicted as u64);
        shared.connections_report.closed(clock::now(), bounds, entered.evicted);
    }
    let Some(open) = entered.connection else {
        shared.tally().connections_turned_away.one();
        shared.connections_report.turned_away(clock::now(), bounds);
        return;
    };
    let Some((lanes, place)) = shared.lanes.get().zip(place) else {
        tokio::spawn(connection(stream, from, dscp, settings, open, shared));
        return;
    };
    let place = match lanes.stays(place) {
        Err(place) => place,
        Ok(in_lane) => {
            tokio::spawn(async move {
                let _in_lane = in_lane;
                connection(stream, from, dscp, settings, open, shared).await;
            });
            return;
        }
    };
    // It leaves this thread's runtime; fails only if the client has gone already.
    let Ok(stream) = stream.into_std() else { return };
    let serving = shared.clone();
    let is_handed_over = lanes.hand_over(place, move |in_lane| {
        let Ok(stream) = TcpStream::from_std(stream) else { return };
        tokio::spawn(async move {
            let _in_lane = in_lane;
            connection(stream, from, dscp, settings, open, serving).await;
        });
    });
    if !is_handed_over {
        shared.tally().connections_turned_away.one();
    }
}

/// The code point of the connection's SYN, if the system kept that.
fn code_point(stream: &TcpStream, kept: bool) -> u8 {
    let dscp = kept.then(|| saved_syn::dscp_of(stream)).flatten();
    dscp.unwrap_or(RequestView::DSCP_UNKNOWN)
}
