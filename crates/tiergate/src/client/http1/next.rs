//! What becomes of a connection after a request.

/// What becomes of the connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The next request.
    Keep,
    /// Close: all that the client sent so far was read.
    Close,
    /// Close; first give the client time to read what was written.
    Linger,
    /// Close at once: there is nothing it could still read, or nothing true.
    Cut,
    /// Close so that the client sees that it was not meant to end here.
    Reset,
}
