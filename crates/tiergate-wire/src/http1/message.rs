//! The nouns of a message: limits, version, framing, and why a head is refused.

/// Bounds on a message head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the whole head, its blank line included.
    pub head_len_max: usize,
    /// Bytes of the request target.
    pub target_len_max: usize,
    /// Field lines; [`FIELDS_CAPACITY`] bounds it too.
    pub fields_max: usize,
}

/// What a parser made of the bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<T> {
    /// The whole thing is there.
    Complete(T),
    /// What is there is good; more must come.
    Partial,
}

/// The protocol version of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// How the end of a message's body is found (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// This many bytes follow; may be 0.
    Length(u64),
    /// Chunks follow.
    Chunked,
    /// Everything until the connection closes. Responses only.
    UntilClose,
}

impl Framing {
    /// Whether not one byte of body follows the head.
    #[inline]
    pub fn is_empty(self) -> bool {
        matches!(self, Framing::None | Framing::Length(0))
    }
}

/// Why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadError {
    /// The status to answer with: 400, 414, 417, 431, 501, 505; for an origin's head always 502.
    pub status: u16,
    /// What is wrong, for the log.
    pub why: &'static str,
}

impl std::fmt::Display for HeadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.why, self.status)
    }
}

impl std::error::Error for HeadError {}

impl HeadError {
    #[cold]
    pub(super) fn new(status: u16, why: &'static str) -> Self {
        HeadError { status, why }
    }

    #[cold]
    pub(super) fn bad(why: &'static str) -> Self {
        HeadError { status: 400, why }
    }
}

/// Why bytes other than a head (chunks, a PROXY header) are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What is wrong, for the log.
    pub why: &'static str,
}

impl Malformed {
    #[cold]
    pub(crate) fn because<T>(why: &'static str) -> Result<T, Self> {
        Err(Malformed { why })
    }
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.why)
    }
}

impl std::error::Error for Malformed {}

/// Why a parser has no result: more must come, or the head is refused.
pub(super) enum Stop {
    Partial,
    Error(HeadError),
}

impl From<HeadError> for Stop {
    fn from(error: HeadError) -> Self {
        Stop::Error(error)
    }
}

/// Refuses a malformed head with status 400.
#[cold]
pub(super) fn malformed<T>(why: &'static str) -> Result<T, Stop> {
    Err(Stop::Error(HeadError::bad(why)))
}
