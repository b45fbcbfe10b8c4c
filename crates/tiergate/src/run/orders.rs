//! What threads are asked to do: to accept connections from sockets.

use crate::client::alt_svc::AltSvc;
use crate::listen::{Program, Settings, Wanted};
use crate::quic::Group;
use crate::shared::{Present, Shared};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Asks a thread to accept connections from a socket.
#[derive(Debug)]
pub(super) struct Listen {
    pub(super) socket: TcpListener,
    pub(super) settings: Settings,
    pub(super) present: Present,
    pub(super) wanted: watch::Receiver<Wanted>,
    /// Of one socket of each address.
    pub(super) program: Option<watch::Receiver<Program>>,
    pub(super) stop: watch::Receiver<bool>,
}

/// What a thread is asked to do.
#[derive(Debug)]
pub(super) enum Order {
    /// To accept connections.
    Listen(Box<Listen>),
    /// The same over QUIC.
    Quic(Box<OpenQuic>),
}

/// Asks a thread to take connections over QUIC.
#[derive(Debug)]
pub(super) struct OpenQuic {
    pub(super) work: Work,
    pub(super) of: Of,
}

#[derive(Debug)]
pub(super) enum Work {
    /// From this socket, of this place among so many.
    Serve(UdpSocket, (usize, usize), Group),
    /// To bind the sockets as soon as the address is free, and hand them to all threads.
    Bind(Vec<mpsc::UnboundedSender<Order>>),
}

/// What the sockets of a listener have in common.
#[derive(Clone, Debug)]
pub(super) struct Of {
    pub(super) address: SocketAddr,
    pub(super) settings: Settings,
    pub(super) alt_svc: Arc<AltSvc>,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) shared: Arc<Shared>,
}
