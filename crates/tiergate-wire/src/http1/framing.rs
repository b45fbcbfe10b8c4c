//! What the fields that govern the message itself say: framing, connection, upgrade.

use super::kind::Kind;
use super::message::{Framing, HeadError, Version};
use super::scan::{is_token, trim};
use arrayvec::ArrayVec;
use tiergate_core::request::Field;

/// Names that `Connection` may list besides `close`, `keep-alive`, `upgrade` and `te`.
pub const CONNECTION_OPTIONS_MAX: usize = 16;

/// A length with more digits than this does not fit `i64`, which some origin may count with.
const LENGTH_DIGITS_MAX: usize = 18;

/// What was learnt from the special fields of one head, field by field.
#[derive(Debug)]
pub(super) struct ControlFields<'b> {
    pub(super) content_length: Option<u64>,
    pub(super) chunked: bool,
    pub(super) host: Option<&'b [u8]>,
    /// `Connection: close`.
    pub(super) close: bool,
    /// `Connection: keep-alive`.
    pub(super) keep_alive: bool,
    /// `Connection: upgrade`.
    pub(super) upgrade_option: bool,
    /// `Connection: te`.
    pub(super) te_option: bool,
    /// The one `Upgrade` field; `None` as well if it was repeated.
    pub(super) upgrade: Option<&'b [u8]>,
    pub(super) upgrade_seen: bool,
    /// `TE` has the member `trailers`.
    pub(super) te_trailers: bool,
    pub(super) expect_continue: bool,
    /// `Expect` asks for something unknown.
    pub(super) expect_other: bool,
    pub(super) max_forwards: Option<u64>,
    pub(super) has_date: bool,
    /// A field exists that tells of the client's address, protocol or host.
    pub(super) has_forwarding: bool,
    /// A field exists that only trusted peers may say ([`Kind::is_guarded`]).
    pub(super) has_guarded: bool,
    /// A field exists in which an origin reports its load.
    pub(super) has_load: bool,
    /// Other names in `Connection`: those fields end here.
    pub(super) named: ArrayVec<&'b [u8], CONNECTION_OPTIONS_MAX>,
}

impl<'b> ControlFields<'b> {
    /// As if no field had been seen.
    // Part of a table that is to be made where it stays.
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self {
            content_length: None,
            chunked: false,
            host: None,
            close: false,
            keep_alive: false,
            upgrade_option: false,
            te_option: false,
            upgrade: None,
            upgrade_seen: false,
            te_trailers: false,
            expect_continue: false,
            expect_other: false,
            max_forwards: None,
            has_date: false,
            has_forwarding: false,
            has_guarded: false,
            has_load: false,
            named: ArrayVec::new(),
        }
    }

    /// Takes note of one special field. The statuses are those of a request.
    pub(super) fn note(&mut self, kind: Kind, field: &Field<'b>) -> Result<(), HeadError> {
        let value = field.value;
        match kind {
            Kind::Host => {
                if self.host.replace(value).is_some() {
                    return Err(HeadError::bad("more than one host field"));
                }
            }
            Kind::ContentLength => {
                // RFC 9110 §8.6 allows to merge identical repetitions. We do not: a sender that
                // repeats it was written by a mistake or by an attacker, and the next recipient
                // may take either one.
                if self.content_length.is_some() {
                    return Err(HeadError::bad("content-length is repeated"));
                }
                self.content_length = Some(content_length(value)?);
            }
            Kind::TransferEncoding => {
                if self.chunked {
                    return Err(HeadError::bad("transfer-encoding is repeated"));
                }
                transfer_encoding(value)?;
                self.chunked = true;
            }
            Kind::Connection => self.note_connection(value)?,
            Kind::Upgrade => {
                self.upgrade = if self.upgrade_seen { None } else { Some(value) };
                self.upgrade_seen = true;
            }
            Kind::Te => {
                self.te_trailers |= value
                    .split(|&b| b == b',')
                    .any(|member| trim(member).eq_ignore_ascii_case(b"trailers"));
            }
            Kind::Expect => {
                if value.eq_ignore_ascii_case(b"100-continue") {
                    self.expect_continue = true;
                } else {
                    self.expect_other = true;
                }
            }
            Kind::MaxForwards => {
                let hops = digits(value).ok_or(HeadError::bad("max-forwards is not a number"))?;
                if self.max_forwards.replace(hops).is_some() {
                    return Err(HeadError::bad("max-forwards is repeated"));
                }
            }
            Kind::Date => self.has_date = true,
            Kind::XForwardedFor
            | Kind::XForwardedProto
            | Kind::XForwardedHost
            | Kind::XForwardedOther
            | Kind::Forwarded => {
                self.has_forwarding = true;
                self.has_guarded = true;
            }
            Kind::Ours | Kind::Level | Kind::Imitation => self.has_guarded = true,
            Kind::Load => self.has_load = true,
            Kind::Verbatim | Kind::Copy | Kind::Location | Kind::Hop => {}
        }
        Ok(())
    }

    /// How the fields say that the body ends; `None`: they do not. A message with both a length and a
    /// coding is refused rather than repaired. Source: RFC 9112 §6.3.
    #[inline]
    pub(super) fn framing(&self, version: Version) -> Result<Option<Framing>, HeadError> {
        match (self.chunked, self.content_length) {
            (false, None) => Ok(None),
            (false, Some(len)) => Ok(Some(Framing::Length(len))),
            (true, Some(_)) => Err(HeadError::bad("both content-length and transfer-encoding")),
            (true, None) if version == Version::Http10 => {
                Err(HeadError::bad("transfer-encoding in HTTP/1.0"))
            }
            (true, None) => Ok(Some(Framing::Chunked)),
        }
    }

    fn note_connection(&mut self, value: &'b [u8]) -> Result<(), HeadError> {
        for option in value.split(|&b| b == b',') {
            let option = trim(option);
            if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                self.upgrade_option = true;
            } else if option.eq_ignore_ascii_case(b"te") {
                self.te_option = true;
            } else if option.is_empty() {
                // Empty list members are allowed (RFC 9110 §5.6.1.2).
            } else if !is_token(option) {
                return Err(HeadError::bad("connection has a member that is not a token"));
            } else if self.named.try_push(option).is_err() {
                return Err(HeadError::bad("connection names too many fields"));
            }
        }
        Ok(())
    }
}

fn content_length(value: &[u8]) -> Result<u64, HeadError> {
    if value.contains(&b',') {
        return Err(HeadError::bad("content-length is a list"));
    }
    digits(value).ok_or(HeadError::bad("content-length is not a number that we can count to"))
}

/// A number of at most [`LENGTH_DIGITS_MAX`] decimal digits and nothing else.
fn digits(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > LENGTH_DIGITS_MAX {
        return None;
    }
    value.iter().try_fold(0, |number: u64, byte| {
        byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0'))
    })
}

/// Accepts `chunked` alone.
///
/// RFC 9112 §6.1 and §6.3: a coding that we do not know gets 501 if `chunked` comes last; a request
/// in which `chunked` does not come last, or comes twice, has no reliable end and gets 400.
fn transfer_encoding(value: &[u8]) -> Result<(), HeadError> {
    if value.eq_ignore_ascii_case(b"chunked") {
        return Ok(());
    }
    let is_chunked = |coding: &[u8]| trim(coding).eq_ignore_ascii_case(b"chunked");
    let mut codings = value.rsplit(|&b| b == b',');
    if !codings.next().is_some_and(is_chunked) {
        return Err(HeadError::bad("transfer-encoding does not end in chunked"));
    }
    for coding in codings {
        if is_chunked(coding) {
            return Err(HeadError::bad("transfer-encoding has chunked twice"));
        }
        if !is_token(trim(coding)) {
            return Err(HeadError::bad("transfer-encoding is malformed"));
        }
    }
    Err(HeadError::new(501, "transfer-encoding other than chunked"))
}
