//! Listening sockets, and what a connection is before its first request.

use crate::clock;
use crate::config::meant::Listener;
use crate::decide::Peer;
use crate::http1::PeerText;
use crate::serve;
use crate::shared::{Counted, Shared};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// Connections that may wait to be accepted; the system bounds it by `somaxconn`.
const BACKLOG: i32 = 4096;

/// How long accepting pauses when it failed for want of resources, or when there are as many
/// connections as the policy allows.
const PAUSE: Duration = Duration::from_millis(20);

/// A socket that listens on `address`, together with others of this process and its successor.
///
/// # Errors
/// What the system says.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts connections and serves each in a task of its own, until `stop` or the drain.
pub async fn accept(
    listener: TcpListener,
    settings: Arc<Listener>,
    shared: Arc<Shared>,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
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
            accepted = listener.accept() => accepted,
            () = &mut ending => break,
        };
        admit(accepted, &settings, &shared).await;
    }
    // Whoever is in the listen queue now would be reset when it closes.
    while let Some(accepted) = accept_now(&listener).await {
        admit(Ok(accepted), &settings, &shared).await;
    }
    Ok(())
}

async fn accept_now(listener: &tokio::net::TcpListener) -> Option<(TcpStream, SocketAddr)> {
    let mut polled = std::pin::pin!(listener.accept());
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match polled.as_mut().poll(context) {
            std::task::Poll::Ready(accepted) => accepted.ok(),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

async fn admit(
    accepted: io::Result<(TcpStream, SocketAddr)>,
    settings: &Arc<Listener>,
    shared: &Arc<Shared>,
) {
    let (stream, from) = match accepted {
        Ok(accepted) => accepted,
        Err(error) => {
            // The connection was reset in the queue, or there are too many open files.
            tracing::warn!(%error, "a connection was not accepted");
            tokio::time::sleep(PAUSE).await;
            return;
        }
    };
    let max = shared.config.load().policy.limits.connections_max;
    while shared
        .connections
        .load(std::sync::atomic::Ordering::Relaxed)
        >= max
    {
        tokio::time::sleep(PAUSE).await;
    }
    tokio::spawn(connection(stream, from, settings.clone(), shared.clone()));
}

async fn connection(
    stream: TcpStream,
    from: SocketAddr,
    settings: Arc<Listener>,
    shared: Arc<Shared>,
) {
    let _counted = Counted::below(&shared.connections, usize::MAX);
    clock::now();
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let Ok(local) = stream.local_addr() else {
        return;
    };
    let peer = Peer {
        address: from,
        text: PeerText::new(from.ip()),
        local,
        secure: settings.tls.is_some(),
    };
    serve::serve(stream, peer, None, &shared).await;
}
