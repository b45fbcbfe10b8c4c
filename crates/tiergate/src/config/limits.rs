//! `[limits]`: bounds on sizes and numbers.

use super::forwarding::{Buffering, Spooling};
use super::place::At;
use super::section::{Kind, section};
use super::show;
use super::values::{SHARE, bytes, whole};
use tiergate_wire::http1::FIELDS_CAPACITY;

section! {
    /// Bounds on sizes and numbers.
    #[derive(Copy, PartialEq)]
    pub struct Limits {
        /// Size of a request's head (request line and header fields); beyond it 431.
        /// Why: as in nginx (4 buffers of 8 KiB); browsers stay below it with all their cookies.
        request_head_max: usize = bytes(1 << 10..=1 << 20).or("32KiB");
        /// Length of a request's target, at most `request_head_max`; beyond it 414.
        /// Why: RFC 9112 §3 asks for at least 8,000.
        target_len_max: usize = bytes(256..=1 << 20).or("8KiB");
        /// Number of header fields of a message; beyond it 431, in a response of the origin 502.
        /// Why: as in Apache (100) and HAProxy (101).
        fields_max: usize = whole(1..=FIELDS_CAPACITY as u64).or(100);
        /// Size of the head of an origin's response; beyond it 502.
        /// Why: origins set more and longer cookies than clients return at once.
        response_head_max: usize = bytes(1 << 10..=1 << 20).or("64KiB");
        /// Size of a request's body; 0: unlimited; beyond it 413.
        /// Why: long bodies take no memory, so a limit is the origin's to set.
        request_body_max: u64 = bytes(0..=u64::MAX).or(0);
        /// Number of client connections. Beyond it, idle ones, and those whose request is not whole and has no slot, make
        /// room; an eighth is kept for what is above the least important class: see
        /// [connections at their bound](#connections-at-their-bound).
        /// Why: each may need a second descriptor towards the origin, and 16,000 fit below the common hard
        /// limit of 20,000 open files. It is lowered at start if the process may open fewer.
        connections_max: usize = whole(1..=10_000_000).or(8000);
        /// Concurrent streams of a connection over HTTP/2 or HTTP/3. Waiting requests count too, so raise it if clients are
        /// proxies.
        /// Why: the least that RFC 9113 §6.5.2 recommends; also the default of nginx and Apache.
        http2_streams_max: u32 = whole(1..=10_000).or(100);
        /// Number of tunnels, that is upgraded connections (WebSocket); further ones get 503. Where the key is left out, at most half of
        /// `connections_max`.
        /// Why: half of `connections_max`, so that idle tunnels cannot use up all connections.
        tunnels_max: usize = whole(0..=10_000_000).or(4000);
        /// Total memory for slow clients: what `buffer_request` and `buffer_response` of `[forwarding]` use
        /// for all requests together. Beyond it bodies are streamed, and slow clients hold slots. Also bounds
        /// what clients may send over HTTP/2 and HTTP/3 so that uploads that wait for a slot do not block other streams
        /// of their connection (beyond 1 MiB a connection), and what clients have still to take of finished responses.
        /// Why: enough for a thousand slow readers or thousands of slow uploads; affordable on the smallest
        /// servers.
        buffers_max: usize = bytes(0..=u64::MAX).or("256MiB");
        /// Total size of the files in `forwarding.spool_directory`. Beyond it uploads are streamed, and slow
        /// clients hold slots. There are at most `connections_max` files, and each costs a descriptor.
        /// Why: 16 uploads of the longest that are spooled by default; fits on nearly every disk.
        spool_max: usize = bytes(0..=u64::MAX).or("1GiB");
        /// Total memory of [stored copies](#stored-copies): three quarters for copies, a quarter for those that are being made. Beyond it the
        /// copies that are asked for least make room. Nothing is used without a rule with `stored`.
        /// Why: hundreds of pages; affordable on the smallest servers.
        stored_max: usize = bytes(64 << 10..=1 << 40).or("64MiB");
        /// Size of the body of an answer that is kept as a copy, and of its head; a longer one is not kept.
        /// Why: pages are shorter; what is longer is rarely made by a program.
        stored_body_max: usize = bytes(1 << 10..=1 << 30).or("1MiB");
        /// Bytes a second that a client at least sends of its request, or takes of its response, while it holds a
        /// slot and the origin waits for nothing else; below it the client is slow. 0: none is.
        /// Why: a tenth of the slowest links that browsers are tested with.
        client_rate_min: u64 = bytes(0..=1 << 30).or("2KiB");
        /// Share of the slots that slow clients may hold while others wait, together with requests whose clients have left
        /// and that likely never end. Beyond it such requests are ended: the least important class first, and of that
        /// those whose clients have left, then who has been slow for longest.
        /// Why: a few slow clients are usual, and take nothing from anybody while slots are free.
        slow_slots_max: f64 = SHARE.or("25%");
    }
}

/// The limits, checked together.
pub(super) fn limits(At { value: mut limits, place }: At<Limits>) -> Limits {
    if limits.target_len_max > limits.request_head_max {
        let [max, got] =
            [limits.request_head_max, limits.target_len_max].map(|bytes| show::bytes(bytes as u64));
        place.fault_at(
            "target_len_max",
            format!("must be at most request_head_max, {max}, got {got}"),
        );
    }
    let (tunnels, connections) = (limits.tunnels_max, limits.connections_max);
    if !place.has("tunnels_max") {
        limits.tunnels_max = tunnels.min(connections / 2);
    } else if tunnels > connections {
        place.warn(format!(
            "limits.tunnels_max, {tunnels}, is never reached: there are at most connections_max, {connections}, connections, and tunnels may take them all"
        ));
    }
    limits
}

impl Limits {
    /// For `tiergate check`.
    pub(crate) fn words(
        &self,
        buffering: Buffering,
        spooling: Option<&Spooling>,
        threads: usize,
    ) -> Vec<String> {
        let body = match self.request_body_max {
            0 => "unbounded".to_owned(),
            max => show::bytes(max),
        };
        let size = |bytes: usize| show::bytes(bytes as u64);
        let mut lines = vec![
            format!(
                "request: head {}, target {}, {} fields, body {body}",
                size(self.request_head_max),
                size(self.target_len_max),
                self.fields_max
            ),
            format!("response: head {}", size(self.response_head_max)),
            format!(
                "buffered for slow clients: {} of a request's body, {} of a response, {} in total",
                size(buffering.request_max),
                size(buffering.response_max),
                size(self.buffers_max)
            ),
            format!(
                "{} client connections, {} HTTP/2 streams each, {} tunnels; {threads} threads",
                self.connections_max, self.http2_streams_max, self.tunnels_max
            ),
        ];
        lines.extend(spooling.map(|spooling| {
            format!(
                "spooled in {}: {} of a request's body, {} in total",
                spooling.directory.path.display(),
                show::bytes(spooling.request_max),
                size(self.spool_max)
            )
        }));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::super::elsewhere::LIMITS;
    use super::super::section::Section;
    use super::Limits;

    #[test]
    fn its_keys_are_known_where_they_stand_elsewhere() {
        assert_eq!(Limits::KEYS, LIMITS);
    }
}
