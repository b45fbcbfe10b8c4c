//! A connection to the server.

use tokio::net::TcpStream;

/// An open connection; dropped, it is closed, even in the middle of an answer.
#[derive(Debug)]
pub(crate) struct Connection(pub(super) TcpStream);

impl Connection {
    /// Whether it can be used again; an idle connection that says anything is at its end.
    pub(super) fn is_idle(&self) -> bool {
        let nothing = self.0.try_read(&mut [0]);
        nothing.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }
}
