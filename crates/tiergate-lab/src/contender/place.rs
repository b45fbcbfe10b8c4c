//! Where a contender stands.

use super::off::Off;
use std::net::SocketAddr;
use std::path::Path;

/// Where a contender is to stand, and what its operator knows.
pub(crate) struct Place<'a> {
    /// A directory for its files; the caller removes it.
    pub(crate) scratch: &'a Path,
    /// Where clients find it. [`Contender::None`] listens nowhere.
    pub(crate) listen: SocketAddr,
    /// Where it tells its state, if it does.
    pub(crate) admin: SocketAddr,
    /// Whom it forwards to.
    pub(crate) origin: SocketAddr,
    /// Requests that the origin works on at once. Tiergate is not told.
    pub(crate) slots: u32,
    /// Requests a second that the origin can serve. Tiergate is not told.
    pub(crate) rate: f64,
    /// The network namespace that it runs in; `None`: ours.
    pub(crate) namespace: Option<&'a str>,
    /// The processors that it may use, in the words of `taskset`; `None`: all.
    pub(crate) processors: Option<&'a str>,
    /// Its program; `None`: the one that is installed, for the gateway `tiergate` beside this one.
    pub(crate) program: Option<&'a Path>,
    /// Another configuration than the usual one, for an experiment with a policy of its own.
    pub(crate) template: Option<&'a str>,
    /// What is switched off for [`Contender::Off`](super::Contender::Off); `None`: the limit.
    pub(crate) off: Option<&'a Off>,
    /// What may be filled in besides, by name.
    pub(crate) values: &'a [(&'a str, String)],
}

impl<'a> Place<'a> {
    /// Here, on every processor, with the usual program and configuration, which is told nothing of
    /// the origin.
    pub(crate) fn new(
        scratch: &'a Path,
        [listen, admin, origin]: [SocketAddr; 3],
        program: Option<&'a Path>,
    ) -> Self {
        Self {
            scratch,
            listen,
            admin,
            origin,
            slots: 0,
            rate: 0.0,
            namespace: None,
            processors: None,
            program,
            template: None,
            off: None,
            values: &[],
        }
    }
}
