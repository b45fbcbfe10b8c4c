//! The listener, on a thread of its own.

use super::context::Context;
use super::live;
use super::routes::{Admin, answer};
use crate::observe::history::SAMPLE_INTERVAL;
use crate::side_http::{self, Crowd};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use tokio::time::{MissedTickBehavior, interval};

/// Binds the admin listener, for [`serve`] or [`spawn`].
///
/// # Errors
/// If the address cannot be bound.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    side_http::bind(address)
}

/// Serves on a thread of its own, so that writing metrics never delays a request. The thread lives
/// as long as the process.
///
/// # Errors
/// If the thread or its runtime cannot be started.
pub fn spawn(
    listener: TcpListener,
    context: Arc<Context>,
    until: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("admin".to_owned()).spawn(move || {
        let serving = async {
            tokio::select! {
                ended = serve(listener, context) => ended,
                () = until => Ok(()),
            }
        };
        if let Err(fault) = runtime.block_on(serving) {
            tracing::error!(error = %fault, "the admin listener has ended");
        }
    })?;
    Ok(())
}

/// Serves until dropped. Must run within a tokio runtime with I/O and time.
///
/// # Errors
/// If the socket cannot be used with the runtime.
pub async fn serve(listener: TcpListener, context: Arc<Context>) -> io::Result<()> {
    let local = listener.local_addr()?.ip().to_canonical().is_loopback();
    let admin = Arc::new(Admin::new(context, local));
    let sampled = Arc::clone(&admin);
    let sampling = async move {
        let mut ticks = interval(SAMPLE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            sampled.sample();
        }
    };
    let watched = Arc::clone(&admin);
    let refreshing = async move {
        let mut ticks = interval(live::INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            watched.refresh();
        }
    };
    let answering =
        side_http::serve(listener, "the admin listener", Crowd::Operators, move |request, _| {
            let admin = Arc::clone(&admin);
            async move { answer(&admin, request).await }
        });
    tokio::select! {
        ended = answering => ended,
        () = sampling => Ok(()),
        () = refreshing => Ok(()),
    }
}
