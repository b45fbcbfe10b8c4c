//! The listener: accepts a bounded number of connections, each for a bounded time.

use super::context::Context;
use super::routes::{Admin, answer};
use crate::observe::history::SAMPLE_INTERVAL;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// Connections at once; further ones wait in the listen queue. Scrapers and people need a handful.
const CONNECTIONS_MAX: usize = 64;
/// From a connection's first byte to the end of a request's head, and between two requests.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a request head.
const HEAD_LEN_MAX: usize = 16 * 1024;
/// Header fields of a request.
const FIELDS_MAX: usize = 64;
/// Longest life of a connection: one that does not read its responses gives its place back.
const CONNECTION_LIFE_MAX: Duration = Duration::from_secs(120);
/// How long a connection may finish its response when its time is over.
const FAREWELL: Duration = Duration::from_secs(5);
/// Pause after an accept that failed (no descriptors left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Binds the admin listener, for [`serve`] or [`spawn`].
///
/// # Errors
/// If the address cannot be bound.
pub fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves on a thread of its own, so that writing metrics never delays a request. The thread lives
/// as long as the process.
///
/// # Errors
/// If the thread or its runtime cannot be started.
pub fn spawn(listener: std::net::TcpListener, context: Arc<Context>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("admin".to_owned()).spawn(move || {
        if let Err(fault) = runtime.block_on(serve(listener, context)) {
            tracing::error!(error = %fault, "the admin listener has ended");
        }
    })?;
    Ok(())
}

/// Serves until dropped. Must run within a tokio runtime with I/O and time.
///
/// # Errors
/// If the socket cannot be used with the runtime.
pub async fn serve(listener: std::net::TcpListener, context: Arc<Context>) -> io::Result<()> {
    let local = listener.local_addr()?.ip().to_canonical().is_loopback();
    let listener = TcpListener::from_std(listener)?;
    let admin = Arc::new(Admin::new(context, local));
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut sampling = interval(SAMPLE_INTERVAL);
    sampling.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            let place = place.expect("the semaphore is never closed");
            listener.accept().await.map(|(stream, _)| (stream, place))
        };
        tokio::select! {
            _ = sampling.tick() => admin.sample(),
            accepted = accepted => match accepted {
                Ok((stream, place)) => {
                    failing = false;
                    let admin = Arc::clone(&admin);
                    tokio::spawn(async move {
                        converse(stream, admin).await;
                        drop(place);
                    });
                }
                Err(fault) => {
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(error = %fault, "the admin listener cannot accept");
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

async fn converse(stream: TcpStream, admin: Arc<Admin>) {
    let service = service_fn(move |request| {
        let admin = Arc::clone(&admin);
        async move { Ok::<_, std::convert::Infallible>(answer(&admin, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(HEAD_LEN_MAX)
        .max_headers(FIELDS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // A client's errors here are neither logged nor answered.
    if timeout(CONNECTION_LIFE_MAX, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ended = timeout(FAREWELL, connection).await;
    }
}
