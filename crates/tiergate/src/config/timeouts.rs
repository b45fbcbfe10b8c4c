//! `[timeouts]`: bounds on time.

use super::section::{Kind, section};
use super::show;
use super::values::TIME;
use std::time::Duration;

section! {
    /// Bounds on time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Timeouts {
        /// From a request's first byte to the end of its head; then 408.
        /// Why: a head fits a few packets; even with two lost ones on a poor link it takes seconds.
        request_head: Duration = TIME.or("10s");
        /// Between two reads of a request's body; then 408.
        /// Why: slow uploads are allowed, stalled ones are not.
        request_body: Duration = TIME.or("30s");
        /// A kept-alive client connection without a request; then it is closed.
        /// Why: as long as browsers profit from it; an idle connection costs about a KiB.
        idle: Duration = TIME.or("60s");
        /// The handshake of TLS and the PROXY header; then the connection is closed.
        /// Why: two round trips and some arithmetic, on a poor link.
        handshake: Duration = TIME.or("10s");
        /// Connecting to an origin server; then the next server, or 504.
        /// Why: two lost packets: TCP retransmits after 1 s and 3 s.
        connect: Duration = TIME.or("3s");
        /// From the whole request sent to the head of the response; then 504.
        /// Why: as nginx and Apache: reports that take most of a minute exist.
        response_head: Duration = TIME.or("60s");
        /// Between two reads of a response's body; then the connection is cut. Raise it for long polls and
        /// streams of events that are silent for longer.
        /// Why: as nginx.
        response_body: Duration = TIME.or("60s");
        /// A write of at most 64 KiB that the client does not take; then the connection is cut.
        /// Why: a phone in a tunnel comes back within this time, or not at all.
        write: Duration = TIME.or("30s");
        /// An idle connection kept to an origin server.
        /// Why: below the 5 s after which Node.js and Apache close theirs, so that requests seldom meet a
        /// connection that is just being closed.
        origin_idle: Duration = TIME.or("4s");
        /// A tunnel without traffic; then it is closed.
        /// Why: applications that care send pings at least every minute; this only clears away the dead.
        tunnel_idle: Duration = TIME.or("1h");
        /// From SIGTERM to the end, at most.
        /// Why: the patience of Kubernetes; systemd waits for 90 s.
        drain: Duration = TIME.or("30s");
    }
}

impl Timeouts {
    /// For `tiergate check`.
    pub(crate) fn words(&self) -> Vec<String> {
        let times = |named: &[(&str, Duration)]| {
            let named = named.iter().map(|(name, time)| format!("{name} {}", show::time(*time)));
            named.collect::<Vec<_>>().join(", ")
        };
        vec![
            times(&[
                ("client: handshake", self.handshake),
                ("request head", self.request_head),
                ("pause in a request body", self.request_body),
                ("idle", self.idle),
                ("blocked write", self.write),
            ]),
            times(&[
                ("origin: connect", self.connect),
                ("response head", self.response_head),
                ("pause in a response body", self.response_body),
                ("idle", self.origin_idle),
            ]),
            times(&[("tunnel idle", self.tunnel_idle), ("drain", self.drain)]),
        ]
    }
}
