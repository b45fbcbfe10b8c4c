//! How much of its requests' bodies a client may send ahead, and how much of its answers is sent ahead of it.

/// Bytes of a stream's body that a client may send before the origin has taken any. Sixteen frames:
/// an upload over 50 ms of distance still runs at 5 MB/s.
pub(crate) const STREAM: u32 = 256 * 1024;

/// The same for all streams of a connection. This is what a client can make us hold without its being accounted; uploads that
/// stand still get room out of the memory for slow clients ([`super::parking`]).
pub(crate) const CONNECTION: u32 = 1024 * 1024;

/// Bytes that were sent over QUIC and that the client has not acknowledged, of all streams of a connection: as much as a link
/// of 5 MB/s carries in 50 ms. They are in our memory, not in the kernel's.
pub(crate) const SENT: u64 = 256 * 1024;
