//! What is asked for on the command line.

use crate::config::meant::RequestsInKernel;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What is to be put before which server.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The policy file.
    pub policy: PathBuf,
    /// Where clients connect; empty: to the policy's listeners.
    pub listen: Vec<SocketAddr>,
    /// Where their packets come in; empty: as `[kernel]` says.
    pub interfaces: Vec<String>,
    /// Where the server listens for a class.
    pub classes: Vec<(String, SocketAddr)>,
    /// Where it listens for all others; empty: at the port itself.
    pub others: Vec<SocketAddr>,
    /// What becomes of first requests without a token; `None`: as `[kernel]` says, and without it they are answered.
    pub requests: Option<RequestsInKernel>,
    /// How full a listen queue is while SYNs are policed, above 0 and at most 1; `None`: they always are.
    pub queue: Option<f64>,
    /// How often counts are logged; `None`: at the end.
    pub status: Option<Duration>,
}
