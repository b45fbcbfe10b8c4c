//! The answer to a WebSocket's handshake.

use aws_lc_rs::digest;
use data_encoding::BASE64;

/// What shows that the key was read. Source: RFC 6455 §4.2.2.
pub(crate) fn accept(key: &[u8]) -> String {
    const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let mut digest = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    digest.update(key);
    digest.update(MAGIC);
    BASE64.encode(digest.finish().as_ref())
}
