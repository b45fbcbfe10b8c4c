//! Response heads (RFC 9112 §4).

use super::fields::FieldTable;
use super::framing::ControlFields;
use super::message::{Framing, HeadError, HeadLimits, Parsed, Stop, Version, malformed};
use super::request::parse_version;
use super::scan::value_end;

/// A response head, borrowed from the buffer it was read into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead<'b> {
    /// The status, 100 to 999.
    pub status: u16,
    /// The reason phrase; may be empty.
    pub reason: &'b [u8],
    /// The version as sent.
    pub version: Version,
    /// How the body ends, given the request's method and the status.
    pub body: Framing,
    /// `Content-Length`, even where it announces no body (HEAD, 304).
    pub content_length: Option<u64>,
    /// Whether the origin's connection may be used again once the body is done.
    pub keep_alive: bool,
    /// 101: what follows is no longer HTTP.
    pub upgrade: bool,
    /// The protocols of `Upgrade`; only with 101 and 426.
    pub protocols: Option<&'b [u8]>,
    /// Whether there is a `Date` field; a gateway adds one otherwise (RFC 9110 §6.6.1).
    pub has_date: bool,
    /// Bytes of the head in the buffer.
    pub len: usize,
}

impl ResponseHead<'_> {
    /// Whether another head follows this one: 1xx other than 101.
    #[inline]
    pub fn is_interim(&self) -> bool {
        self.status < 200 && !self.upgrade
    }
}

/// Parses the response head at the start of `buf`, filling `fields`. `to_head`: the request's method
/// was HEAD.
///
/// # Errors
/// Always with status 502: what the origin says cannot be passed on safely.
#[inline]
pub fn parse_response<'b>(
    buf: &'b [u8],
    fields: &mut FieldTable<'b>,
    limits: &HeadLimits,
    to_head: bool,
) -> Result<Parsed<ResponseHead<'b>>, HeadError> {
    let window = &buf[..buf.len().min(limits.head_len_max)];
    match parse_within(window, fields, limits, to_head) {
        Ok(head) => Ok(Parsed::Complete(head)),
        Err(Stop::Partial) if buf.len() >= limits.head_len_max => {
            Err(HeadError::new(502, "head too large"))
        }
        Err(Stop::Partial) => Ok(Parsed::Partial),
        Err(Stop::Error(error)) => Err(HeadError::new(502, error.why)),
    }
}

#[inline]
fn parse_within<'b>(
    buf: &'b [u8],
    fields: &mut FieldTable<'b>,
    limits: &HeadLimits,
    to_head: bool,
) -> Result<ResponseHead<'b>, Stop> {
    let version = parse_version(buf, b" ")?;
    let (status, reason) = parse_status(&buf[9..])?;
    let (fields_at, plain) = match reason {
        Some(reason) => (13 + reason.len() + 2, version == Version::Http11),
        None => (12 + 2, false),
    };
    let len = fields.parse(buf, fields_at, limits.fields_max)?;
    if plain {
        fields.verbatim_from = 0;
    }
    // Checked even where no body follows (RFC 9112 §6.3).
    let body = match fields.control.framing(version)? {
        _ if to_head || status < 200 || matches!(status, 204 | 304) => Framing::None,
        announced => announced.unwrap_or(Framing::UntilClose),
    };
    let control = &fields.control;
    let head = ResponseHead {
        status,
        reason: reason.unwrap_or_default(),
        version,
        body,
        content_length: control.content_length,
        keep_alive: body != Framing::UntilClose
            && !control.close
            && !announces_impossible_body(status, control)
            && (version == Version::Http11 || control.keep_alive),
        upgrade: status == 101,
        protocols: control.upgrade.filter(|_| matches!(status, 101 | 426)),
        has_date: control.has_date,
        len,
    };
    if head.upgrade && (head.protocols.is_none() || !control.upgrade_option) {
        return malformed("101 does not say to which protocol");
    }
    // RFC 9110 §8.6: these have no such field, whatever the origin believes.
    if (status < 200 || status == 204) && fields.length_verbatim {
        fields.drop_length_line();
    }
    Ok(head)
}

/// Whether the origin may believe that a body follows where none can; what it then sends would be
/// taken for the next response.
#[inline]
fn announces_impossible_body(status: u16, control: &ControlFields<'_>) -> bool {
    (status < 200 || status == 204) && (control.chunked || control.content_length.unwrap_or(0) > 0)
}

/// The status, and the reason if there is at least the space before it.
type Status<'b> = (u16, Option<&'b [u8]>);

/// Parses the status, and the reason with the line's end. The reason is `None` if even the space
/// before it is missing: common, against RFC 9112 §4, and unambiguous.
#[inline]
fn parse_status(bytes: &[u8]) -> Result<Status<'_>, Stop> {
    for index in 0..3 {
        match bytes.get(index) {
            None => return Err(Stop::Partial),
            Some(byte) if byte.is_ascii_digit() && (index > 0 || *byte != b'0') => {}
            Some(_) => return malformed("malformed status"),
        }
    }
    let status = bytes[..3].iter().fold(0, |n, b| n * 10 + u16::from(b - b'0'));
    let (reason_at, reason) = match &bytes[3..] {
        [] => return Err(Stop::Partial),
        [b' ', rest @ ..] => (4, Some(&rest[..value_end(rest)])),
        [b'\r', ..] => (3, None),
        _ => return malformed("malformed status"),
    };
    match &bytes[reason_at + reason.map_or(0, <[u8]>::len)..] {
        [] | [b'\r'] => Err(Stop::Partial),
        [b'\r', b'\n', ..] => Ok((status, reason)),
        [b'\n', ..] => malformed("bare LF"),
        [b'\r', ..] => malformed("bare CR"),
        _ => malformed("control byte in the reason"),
    }
}
