//! The UDP side of listeners with HTTP/3: opened and closed with them, a socket for each thread that accepts.
//!
//! A process that takes another's place, and a listener that has HTTP/3 again, find the address taken while QUIC connections
//! of the former still go on: they wait until those have ended. Two that shared it would get each other's packets.

use super::orders::{Of, OpenQuic, Order, Work};
use crate::client::alt_svc::AltSvc;
use crate::config::meant::Listener;
use crate::listen::Settings;
use crate::quic::{self, Group};
use crate::shared::{Present, Shared};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// How often a taken address is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// The sockets of a listener; or they are bound once the address is free.
#[derive(Debug)]
pub(super) enum Bound {
    Now(Vec<UdpSocket>),
    Later,
}

/// Binds as many sockets as there are threads. `may_wait`: what has the address now goes away.
///
/// # Errors
/// What the system says.
pub(super) fn bind(listener: &Listener, threads: usize, may_wait: bool) -> io::Result<Bound> {
    match quic::bind(listener.address, threads, listener.only_v6) {
        Ok(sockets) => Ok(Bound::Now(sockets)),
        Err(error) if may_wait && quic::is_taken(&error) => Ok(Bound::Later),
        Err(error) => Err(error),
    }
}

/// The UDP side of a listener. Dropped, it takes no new connections.
#[derive(Debug)]
pub(super) struct Quic {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    pub(super) alt_svc: Arc<AltSvc>,
}

impl Quic {
    pub(super) fn new(address: SocketAddr) -> Self {
        let alt_svc = Arc::new(AltSvc::new(address.port()));
        Quic { address, stop: watch::Sender::new(false), alt_svc }
    }

    /// Has the threads take connections.
    pub(super) fn start(
        &self,
        bound: Bound,
        settings: &Settings,
        threads: &[mpsc::UnboundedSender<Order>],
        shared: &Arc<Shared>,
    ) {
        let of = Of {
            address: self.address,
            settings: settings.clone(),
            alt_svc: self.alt_svc.clone(),
            stop: self.stop.subscribe(),
            shared: shared.clone(),
        };
        match bound {
            Bound::Now(sockets) => of.serve(sockets, threads),
            Bound::Later => {
                tracing::info!(
                    address = %self.address,
                    "HTTP/3 waits until the QUIC connections of before have ended"
                );
                let work = Work::Bind(threads.to_vec());
                // A thread is gone only when the process ends.
                let _ = threads[0].send(Order::Quic(Box::new(OpenQuic { work, of })));
            }
        }
    }
}

impl Of {
    fn serve(&self, sockets: Vec<UdpSocket>, threads: &[mpsc::UnboundedSender<Order>]) {
        tracing::info!(address = %self.address, "listening for HTTP/3");
        let (count, group) = (sockets.len(), Group::first());
        for (place, (thread, socket)) in threads.iter().zip(sockets).enumerate() {
            let work = Work::Serve(socket, (place, count), group.clone());
            let _ = thread.send(Order::Quic(Box::new(OpenQuic { work, of: self.clone() })));
        }
    }
}

/// Carries an order out, on the thread that it was sent to.
pub(super) async fn carry_out(order: OpenQuic) {
    let OpenQuic { work, of } = order;
    match work {
        Work::Serve(socket, place, mut group) => {
            let present = Present::listener(&of.shared);
            // It keeps its place among the others even if it cannot be used.
            let kept = socket.try_clone();
            let listener =
                quic::Listener { socket, place, settings: of.settings, alt_svc: of.alt_svc };
            match quic::accept(listener, present, of.stop).await {
                Ok(endpoint) => quic::leave(endpoint, group).await,
                Err(error) => {
                    tracing::error!(%error, "a listener could not be used for HTTP/3");
                    group.leave().await;
                }
            }
            drop(kept);
        }
        Work::Bind(threads) => {
            let bound = async {
                loop {
                    tokio::time::sleep(AGAIN).await;
                    let only_v6 = of.settings.load().listener.only_v6;
                    match quic::bind(of.address, threads.len(), only_v6) {
                        Ok(sockets) => return of.serve(sockets, &threads),
                        Err(error) if quic::is_taken(&error) => {}
                        Err(error) => {
                            tracing::error!(%error, address = %of.address, "no HTTP/3");
                            return;
                        }
                    }
                }
            };
            let mut stop = of.stop.clone();
            tokio::select! {
                () = bound => {}
                // The sender is dropped with the listener.
                _ = stop.wait_for(|&stop| stop) => {}
                () = of.shared.draining() => {}
            }
        }
    }
}
