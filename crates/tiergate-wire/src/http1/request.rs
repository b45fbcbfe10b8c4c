//! Request heads (RFC 9112 §3).

use super::fields::FieldTable;
use super::message::{Framing, HeadError, HeadLimits, Parsed, Stop, Version, malformed};
use super::scan::{target_end, token_len};
use super::target::{Target, check_host, host_name, is_same_authority};

/// Bytes of a method; no longer one is implemented anywhere, and it gets 501.
pub const METHOD_LEN_MAX: usize = 32;

/// A request head, borrowed from the buffer it was read into.
///
/// What is passed on follows this structure: a caller that answers `Expect` itself, or will not
/// pass an upgrade on, clears the member before [`super::write_request_head`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead<'b> {
    /// The method, case as sent.
    pub method: &'b [u8],
    /// The target as sent.
    pub target: &'b [u8],
    /// The path as sent: `*` for `OPTIONS *`, otherwise it begins with `/`. See
    /// [`RequestHead::with_path`].
    pub path: &'b [u8],
    /// Whether [`RequestHead::path`] is another than that of the target.
    pub path_is_rewritten: bool,
    /// What follows the first `?`; empty if there is none.
    pub query: &'b [u8],
    /// Whether there is a `?`.
    pub has_query: bool,
    /// Host and port: of an absolute target, else of `Host`; empty if HTTP/1.0 sent none.
    pub host: &'b [u8],
    /// The version as sent.
    pub version: Version,
    /// How the body ends. [`Framing::UntilClose`] never occurs.
    pub body: Framing,
    /// Whether the client's connection may stay open after the answer.
    pub keep_alive: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub expect_continue: bool,
    /// The protocols the client would change to; only if `Connection` names the field and there is
    /// no body. HTTP and TLS are left out: changing to those would hide requests from us.
    pub upgrade: Option<&'b [u8]>,
    /// The client accepts trailers (`TE: trailers`).
    pub te_trailers: bool,
    /// `Max-Forwards` of TRACE and OPTIONS. At 0 the request must be answered, not forwarded
    /// (RFC 9110 §7.6.2).
    pub max_forwards: Option<u64>,
    /// Bytes of the head in the buffer, blank lines included.
    pub len: usize,
}

impl<'b> RequestHead<'b> {
    /// The head with another path, which goes on instead of the one that was sent.
    #[inline]
    pub fn with_path(self, path: &'b [u8]) -> Self {
        RequestHead { path, path_is_rewritten: true, ..self }
    }

    /// The host without its port.
    #[inline]
    pub fn host_name(&self) -> &'b [u8] {
        host_name(self.host)
    }
}

/// Parses the request head at the start of `buf`, filling `fields`.
///
/// At most one empty line before the request line is skipped (RFC 9112 §2.2).
///
/// # Errors
/// 400 for what is malformed or ambiguous, 414 and 431 as soon as a limit is passed, 417 for an
/// unknown expectation, 501 for CONNECT and for transfer codings, 505 for other versions.
#[inline]
pub fn parse_request<'b>(
    buf: &'b [u8],
    fields: &mut FieldTable<'b>,
    limits: &HeadLimits,
) -> Result<Parsed<RequestHead<'b>>, HeadError> {
    let window = &buf[..buf.len().min(limits.head_len_max)];
    match parse_within(window, fields, limits) {
        Ok(head) => Ok(Parsed::Complete(head)),
        Err(Stop::Partial) if buf.len() >= limits.head_len_max => Err(too_long(window)),
        Err(Stop::Partial) => Ok(Parsed::Partial),
        Err(Stop::Error(error)) => Err(error),
    }
}

#[cold]
fn too_long(window: &[u8]) -> HeadError {
    let line = window.strip_prefix(b"\r\n").unwrap_or(window);
    if memchr::memchr(b'\n', line).is_some() {
        HeadError::new(431, "head too large")
    } else {
        HeadError::new(414, "request line too long")
    }
}

#[inline]
fn parse_within<'b>(
    buf: &'b [u8],
    fields: &mut FieldTable<'b>,
    limits: &HeadLimits,
) -> Result<RequestHead<'b>, Stop> {
    let start = match buf {
        [] | [b'\r'] => return Err(Stop::Partial),
        [b'\r', b'\n', ..] => 2,
        _ => 0,
    };
    let method = parse_method(&buf[start..])?;
    let target_at = start + method.len() + 1;
    let target = parse_target(&buf[target_at..], limits.target_len_max)?;
    let version_at = target_at + target.len() + 1;
    let parts = Target::parse(method, target)?;
    let version = parse_version(&buf[version_at..], b"\r\n")?;
    let fields_at = version_at + 10;
    let len = fields.parse(buf, fields_at, limits.fields_max)?;
    if version == Version::Http11 && parts.authority.is_none() {
        fields.verbatim_from = start;
    }
    let head = RequestHead {
        method,
        target,
        path: parts.path,
        path_is_rewritten: false,
        query: parts.query.unwrap_or_default(),
        has_query: parts.query.is_some(),
        host: request_host(version, (target, parts.authority), fields)?,
        version,
        body: fields.control.framing(version)?.unwrap_or(Framing::None),
        keep_alive: false,
        expect_continue: false,
        upgrade: None,
        te_trailers: fields.control.te_trailers && fields.control.te_option,
        max_forwards: None,
        len,
    };
    Ok(finish(head, fields)?)
}

/// What depends on the framing, and on the rarer fields.
#[inline]
pub(super) fn finish<'b>(
    mut head: RequestHead<'b>,
    fields: &FieldTable<'b>,
) -> Result<RequestHead<'b>, HeadError> {
    let control = &fields.control;
    let http11 = head.version == Version::Http11;
    head.keep_alive = !control.close && (http11 || control.keep_alive);
    if control.expect_other && http11 {
        return Err(HeadError::new(417, "unknown expectation"));
    }
    head.expect_continue = control.expect_continue && http11 && !head.body.is_empty();
    if control.upgrade_option && http11 && head.body.is_empty() {
        head.upgrade = control.upgrade.filter(|protocols| may_upgrade(protocols));
    }
    if matches!(head.method, b"TRACE" | b"OPTIONS") {
        head.max_forwards = control.max_forwards;
        if head.method == b"TRACE" && !head.body.is_empty() {
            return Err(HeadError::bad("TRACE with a body"));
        }
    }
    Ok(head)
}

/// Whether a change to any of `protocols` leaves nothing that we would have had to look at.
#[cold]
fn may_upgrade(protocols: &[u8]) -> bool {
    let hides_requests = |protocol: &[u8]| {
        let protocol = super::scan::trim(protocol).to_ascii_lowercase();
        protocol.starts_with(b"h2") || protocol.starts_with(b"http") || protocol.starts_with(b"tls")
    };
    !protocols.is_empty() && !protocols.split(|&b| b == b',').any(hides_requests)
}

#[inline]
fn request_host<'b>(
    version: Version,
    (target, authority): (&[u8], Option<&'b [u8]>),
    fields: &mut FieldTable<'b>,
) -> Result<&'b [u8], HeadError> {
    let host = fields.control.host;
    if let Some(host) = host {
        check_host(host)?;
    } else if version == Version::Http11 {
        return Err(HeadError::bad("no host field"));
    }
    if let Some(authority) = authority {
        // RFC 9112 §3.2.2 has the target's authority replace the field. A client that follows it sends both alike (§3.2); where they differ, some
        // recipient between client and origin would take the other: refused, as HAProxy does.
        if host.is_some_and(|host| !is_same_authority(host, target, authority)) {
            return Err(HeadError::bad("host and the target's authority differ"));
        }
        fields.drop_host_line();
        return Ok(authority);
    }
    Ok(host.unwrap_or_default())
}

#[inline]
fn parse_method(bytes: &[u8]) -> Result<&[u8], Stop> {
    let window = &bytes[..bytes.len().min(METHOD_LEN_MAX + 1)];
    let (len, _) = token_len(window);
    match window.get(len) {
        Some(b' ') if len > 0 => {}
        Some(_) => return malformed("request line does not begin with a method"),
        None if len > METHOD_LEN_MAX => return Err(HeadError::new(501, "method too long").into()),
        None => return Err(Stop::Partial),
    }
    match &window[..len] {
        b"CONNECT" => Err(HeadError::new(501, "CONNECT is not supported").into()),
        method => Ok(method),
    }
}

#[inline]
fn parse_target(bytes: &[u8], len_max: usize) -> Result<&[u8], Stop> {
    let window = &bytes[..bytes.len().min(len_max.saturating_add(1))];
    let len = target_end(window);
    match window[len..] {
        [] if len > len_max => Err(HeadError::new(414, "target too long").into()),
        [] => Err(Stop::Partial),
        [b' ', ..] if len > 0 => Ok(&window[..len]),
        [b'#', ..] => malformed("fragment in the target"),
        [b'\r', ..] if len > 0 => match bytes.get(len + 1) {
            None => Err(Stop::Partial),
            Some(b'\n') => Err(HeadError::new(505, "HTTP/0.9").into()),
            Some(_) => malformed("bare CR"),
        },
        [b'\n', ..] => malformed("bare LF"),
        _ => malformed("byte in the target that is not allowed"),
    }
}

/// Parses `HTTP/1.0` or `HTTP/1.1` and the `end` after it, at the start of `bytes`.
#[inline]
pub(super) fn parse_version(bytes: &[u8], end: &[u8]) -> Result<Version, Stop> {
    if let Some((version, rest)) = bytes.split_first_chunk::<8>()
        && rest.starts_with(end)
    {
        match version {
            b"HTTP/1.1" => return Ok(Version::Http11),
            b"HTTP/1.0" => return Ok(Version::Http10),
            _ => {}
        }
    }
    Err(odd_version(bytes, end))
}

/// Why there is no version: what is partial or wrong, byte by byte.
#[cold]
fn odd_version(bytes: &[u8], end: &[u8]) -> Stop {
    for (index, &expected) in b"HTTP/0.0".iter().enumerate() {
        match bytes.get(index) {
            None => return Stop::Partial,
            Some(found) if expected == b'0' && found.is_ascii_digit() => {}
            Some(&found) if found == expected => {}
            Some(_) => return HeadError::bad("malformed version").into(),
        }
    }
    if !matches!(&bytes[5..8], b"1.0" | b"1.1") {
        return HeadError::new(505, "version other than HTTP/1.0 and HTTP/1.1").into();
    }
    match end.starts_with(&bytes[8..]) {
        true => Stop::Partial,
        false => HeadError::bad("malformed line end after the version").into(),
    }
}
