//! The request line in formats of text.

use super::entry::Entry;

/// The request line; `-`, as Apache and nginx have it, of what never became a request.
pub(super) fn push_request(line: &mut Vec<u8>, entry: &Entry<'_>, push: fn(&mut Vec<u8>, &[u8])) {
    let Some(protocol) = entry.protocol.filter(|_| !entry.is_stray()) else {
        return line.push(b'-');
    };
    push(line, entry.method);
    line.push(b' ');
    push(line, entry.target);
    line.push(b' ');
    line.extend_from_slice(protocol.name().as_bytes());
}
