//! `[timeouts]`: bounds on time.

use super::section::{Kind, section};
use super::show;
use super::values::TIME;
use std::time::Duration;

section! {
    /// Bounds on time.
    #[derive(Copy, PartialEq, Eq)]
    pub struct Timeouts {
        /// From a request's first byte to the end of its head; then 408.
        /// Why: a head fits into a few packets; even if two of them are lost on a poor link, it takes
        /// seconds.
        request_head: Duration = TIME.or("10s");
        /// Between two reads of a request's body; then 408.
        /// Why: slow uploads are allowed, stalled ones are not.
        request_body: Duration = TIME.or("30s");
        /// A client connection without a request (keep-alive); then it is closed.
        /// Why: as long as browsers profit from it; an idle connection costs a few KiB.
        idle: Duration = TIME.or("60s");
        /// The TLS handshake and the PROXY header; then the connection is closed.
        /// Why: two round trips on a poor link, and some computing.
        handshake: Duration = TIME.or("10s");
        /// Connecting to an origin server, with the wait for room in the listen queue of a UNIX socket; then the next server,
        /// or 504, or 503 if only the queue was full.
        /// Why: two lost packets: TCP retransmits after 1 s and 3 s.
        connect: Duration = TIME.or("3s");
        /// From the end of the request to the head of the response; then 504.
        /// Why: as in nginx and Apache; some reports take most of a minute.
        response_head: Duration = TIME.or("60s");
        /// Between two reads of a response's body; then the response is aborted. Raise it for event streams
        /// that are silent for longer.
        /// Why: as in nginx.
        response_body: Duration = TIME.or("60s");
        /// A write of at most 64 KiB that the client does not read; then the connection is closed.
        /// Why: a phone in a tunnel comes back within this time, or not at all.
        write: Duration = TIME.or("30s");
        /// An idle connection kept to an origin server.
        /// Why: below the 5 s after which Node.js and Apache close theirs, so that requests seldom meet a
        /// connection that is just being closed.
        origin_idle: Duration = TIME.or("4s");
        /// A tunnel without traffic; then it is closed.
        /// Why: applications that need it send pings at least every minute; this only removes dead tunnels.
        tunnel_idle: Duration = TIME.or("1h");
        /// How long the gateway serves on after SIGTERM, and only says at `/readyz` that it is not ready, before it drains: so that load balancers and
        /// Kubernetes stop sending requests before the listeners close.
        /// Why: behind nothing that asks, it would only delay the end.
        lame_duck: Option<Duration> = TIME.optional("none: it drains at once");
        /// Longest time from SIGTERM, or the end of `lame_duck`, to the end of the process; [workers](#workers-processes-of-a-pool) that the gateway started end after it.
        /// Why: the default grace period of Kubernetes; systemd waits for 90 s.
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
            match self.lame_duck {
                None => times(&[("tunnel idle", self.tunnel_idle), ("drain", self.drain)]),
                Some(time) => times(&[
                    ("tunnel idle", self.tunnel_idle),
                    ("not ready before the drain", time),
                    ("drain", self.drain),
                ]),
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::elsewhere::TIMEOUTS;
    use super::super::section::Section;
    use super::Timeouts;

    #[test]
    fn its_keys_are_known_where_they_stand_elsewhere() {
        assert_eq!(Timeouts::KEYS, TIMEOUTS);
    }
}
