//! One path for rules and origin: no rule is evaded by another spelling of a path, and the origin gets
//! the path that the rules judged.
//!
//! ```text
//! as received ── decode what needs no escape, resolve ──▶ as sent ── decode the rest ──▶ as judged
//! ```

mod ambiguity;
mod handling;
mod spelling;

pub use ambiguity::Ambiguity;
pub use handling::Handling;

/// A path as rules see it and as the origin gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paths<'a> {
    /// What rules see: normalised, and with all escapes decoded but `%2F`, `%25` and `%00`, so that
    /// nothing decodes twice and no path ends before its end.
    pub judged: &'a [u8],
    /// What the origin gets instead of the path as received; `None`: it gets that, byte for byte.
    pub sent: Option<&'a [u8]>,
}

/// A path that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unclear<'a> {
    /// Why.
    pub ambiguity: Ambiguity,
    /// The path as rules would have seen it.
    pub judged: &'a [u8],
}

/// Room for the paths of a request, to be used again for the next.
#[derive(Debug, Default)]
pub struct Buffers {
    sent: Vec<u8>,
    judged: Vec<u8>,
}

/// The normal form of a path without its query, in both spellings.
///
/// Costs one look at each byte when there is nothing to do; otherwise both are written to `buffers`, in
/// linear time. By RFC 3986 §6.2.2, unreserved characters are decoded, other escapes written in upper
/// case, `.` and `..` resolved (`..` above the root stays there); and besides, as most servers do, `//`
/// is made `/`. Reserved characters stay as the client wrote them in what is sent, because a server may
/// tell `;` and `%3B` apart; rules see the character in either case.
///
/// The normal form of what is sent is itself, and is judged the same. What does not begin with `/` (`*`)
/// is returned as it is; nothing at all is `/`.
///
/// Known weakness: an origin that strips path parameters (`/cart;v=1`), ignores case, or drops trailing
/// dots and spaces spells one path in more ways than this undoes.
///
/// # Errors
/// What servers read differently, as far as `handling` refuses it.
#[inline]
pub fn normalise<'a>(
    raw: &'a [u8],
    handling: Handling,
    buffers: &'a mut Buffers,
) -> Result<Paths<'a>, Unclear<'a>> {
    match raw {
        [] => Ok(Paths { judged: b"/", sent: None }),
        [b'/', ..] if spelling::is_suspicious(raw) => spelled(raw, handling, buffers),
        _ => Ok(Paths { judged: raw, sent: None }),
    }
}

/// The same for a path that may be spelled in another way.
fn spelled<'a>(
    raw: &'a [u8],
    handling: Handling,
    buffers: &'a mut Buffers,
) -> Result<Paths<'a>, Unclear<'a>> {
    let Buffers { sent, judged } = buffers;
    let escapes = spelling::simplify(raw, handling == Handling::Decoded, sent);
    let judged = spelling::decode(sent, judged);
    if handling == Handling::AsReceived {
        return Ok(Paths { judged, sent: None });
    }
    match escapes.and_then(|()| ambiguity::check(judged, handling)) {
        Ok(()) => Ok(Paths { judged, sent: (sent != raw).then_some(sent) }),
        Err(ambiguity) => Err(Unclear { ambiguity, judged }),
    }
}

#[cfg(test)]
mod tests;
