//! What QUIC may take of this machine: windows, streams, times.

use super::steer::Ids;
use crate::client::window;
use crate::config::meant::{Policy, Timeouts};
use crate::tls::QuicTls;
use quinn::{EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt};
use std::sync::Arc;
use std::time::Duration;

/// A client's own streams: control and two of QPACK, and room for those that only test whether we ignore them.
const OTHER_STREAMS_MAX: u32 = 8;

/// Connections whose handshake has not been begun, because others are being looked at; more are not answered.
const INCOMING_MAX: usize = 1024;
/// Bytes of packets of those, of one and of all.
const INCOMING_BYTES: (u64, u64) = (16 * 1024, 4 << 20);

/// What a listener's socket is.
pub(super) fn endpoint(place: usize, count: usize) -> EndpointConfig {
    let mut config = EndpointConfig::default();
    let ids = Ids::new(place, count);
    config.cid_generator(move || Box::new(ids));
    // The drafts before it have had their day.
    config.supported_versions(vec![1]);
    config
}

/// What its connections are before any setting of the policy is looked at.
pub(super) fn server(crypto: QuicTls) -> ServerConfig {
    let mut config = ServerConfig::with_crypto(crypto.0);
    config
        .max_incoming(INCOMING_MAX)
        .incoming_buffer_size(INCOMING_BYTES.0)
        .incoming_buffer_size_total(INCOMING_BYTES.1);
    config
}

/// A connection's settings by the policy in force.
pub(super) fn transport(policy: &Policy) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(policy.limits.http2_streams_max.into())
        .max_concurrent_uni_streams(OTHER_STREAMS_MAX.into())
        .stream_receive_window(window::STREAM.into())
        .receive_window(window::CONNECTION.into())
        .send_window(window::SENT)
        .datagram_receive_buffer_size(None)
        .keep_alive_interval(Some(ALIVE))
        .max_idle_timeout(Some(silence(&policy.timeouts)));
    Arc::new(config)
}

/// How often a client that is silent is asked whether it is there: one whose request waits may have nothing to say for longer than any of the policy's
/// time-outs, since a wait for a slot and one for the answer follow one another.
const ALIVE: Duration = Duration::from_secs(10);

/// How long a client may be silent, though it is asked: it is gone. It is the session that closes a connection that is idle.
fn silence(timeouts: &Timeouts) -> IdleTimeout {
    let all =
        [timeouts.idle, timeouts.response_head, timeouts.response_body, timeouts.request_body];
    let longest = all.into_iter().max().expect("there are some") + Duration::from_secs(1);
    let millis = u32::try_from(longest.as_millis()).unwrap_or(u32::MAX);
    IdleTimeout::from(VarInt::from_u32(millis))
}
