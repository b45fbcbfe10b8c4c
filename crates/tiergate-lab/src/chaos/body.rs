//! What answers must contain, so that one meant for another request is recognised.
//!
//! A body begins with the request's id and a digest of what the origin received, and goes on with bytes
//! that depend on the id alone. The client knows all of it beforehand.

/// What an origin that has not read the upload says instead of its digest.
pub(super) const UNREAD: &str = "unread";

/// So many bytes that depend on the id alone.
pub(super) fn pattern(id: &str, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(digest_of(id.as_bytes()));
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

/// The whole body of the answer to a request.
pub(super) fn answer(id: &str, digest: &str, len: usize) -> Vec<u8> {
    let mut body = format!("id={id} upload={digest}\n").into_bytes();
    body.extend_from_slice(&pattern(id, len));
    body
}

/// A digest of an upload, read in parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digest {
    hash: u64,
    len: u64,
}

impl Digest {
    /// Of nothing.
    pub(super) fn new() -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, len: 0 }
    }

    /// Adds bytes. Source: FNV-1a, 64 bits.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.len += bytes.len() as u64;
    }

    /// As it is written in answers.
    pub(super) fn text(self) -> String {
        format!("{}:{:016x}", self.len, self.hash)
    }
}

/// The digest of bytes at hand, as it is written in answers.
pub(super) fn digest(bytes: &[u8]) -> String {
    let mut digest = Digest::new();
    digest.add(bytes);
    digest.text()
}

fn digest_of(bytes: &[u8]) -> u64 {
    let mut digest = Digest::new();
    digest.add(bytes);
    digest.hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_tell_requests_apart() {
        let nothing = digest(b"");
        assert_eq!(answer("p1", &nothing, 100), answer("p1", &nothing, 100));
        assert_ne!(pattern("p1", 100), pattern("p2", 100));
        assert_ne!(digest(b"ab"), digest(b"ba"));
        assert!(answer("p1", &nothing, 5).starts_with(b"id=p1 upload=0:"));
    }

    #[test]
    fn a_digest_in_parts_is_that_of_the_whole() {
        let mut parts = Digest::new();
        parts.add(b"one");
        parts.add(b"two");
        assert_eq!(parts.text(), digest(b"onetwo"));
    }
}
