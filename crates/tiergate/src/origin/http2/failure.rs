//! Why a request has got no stream.

use crate::tls::origin::TlsFailed;
use std::io;

/// Why a connection could not be opened, to be told to each request that waited for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    System(i32),
    Tls(TlsFailed),
    Kind(io::ErrorKind),
}

/// A connection that another request had opened has failed; that request reports it.
#[derive(Debug, thiserror::Error)]
#[error("a connection that was opened for another request failed")]
pub(crate) struct Anothers(pub(crate) Failure);

/// All places on the connections that there may be to a server are taken.
#[derive(Debug, thiserror::Error)]
#[error("all connections to the server are full")]
pub(crate) struct NoPlace;

impl Failure {
    pub(super) fn of(error: &io::Error) -> Self {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsFailed>());
        match (error.raw_os_error(), tls) {
            (Some(errno), _) => Failure::System(errno),
            (None, Some(fault)) => Failure::Tls(*fault),
            (None, None) => Failure::Kind(error.kind()),
        }
    }

    /// The error of the one that reports it.
    pub(crate) fn error(self) -> io::Error {
        match self {
            Failure::System(errno) => io::Error::from_raw_os_error(errno),
            Failure::Tls(fault) => fault.into(),
            Failure::Kind(kind) => kind.into(),
        }
    }

    /// The error of the others.
    pub(super) fn of_another(self) -> io::Error {
        io::Error::new(self.error().kind(), Anothers(self))
    }
}
