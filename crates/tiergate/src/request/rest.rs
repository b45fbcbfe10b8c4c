//! What is left of an answer when its client has left.

use super::body::AnswerBody;
use crate::buffers::Buffer;

/// What is left of an answer.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// Bytes of it that are here.
    pub(super) held: Option<Buffer>,
    /// What follows of its body; `None`: its head has not been seen.
    pub(super) body: Option<AnswerBody>,
}
