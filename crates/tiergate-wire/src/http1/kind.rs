//! Which fields are special, and what becomes of each.

use arrayvec::ArrayVec;

/// What becomes of a field when its message is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its line can be copied byte by byte: `Name: value CRLF` and nothing special about it.
    Verbatim,
    /// Passed on, but not byte by byte.
    Copy,
    Host,
    ContentLength,
    TransferEncoding,
    Connection,
    /// Ends here: by its nature or because `Connection` names it.
    Hop,
    Te,
    Upgrade,
    Expect,
    MaxForwards,
    Date,
    /// Passed on, unless a caller has another in its place.
    Location,
    XForwardedFor,
    XForwardedProto,
    XForwardedHost,
    /// `X-Real-IP` and whatever else begins with `X-Forwarded-`.
    XForwardedOther,
    Forwarded,
    /// Only we and trusted peers may say it: `X-Tiergate-…`.
    Ours,
    /// The level of the answer that is wanted, `Tiergate-Level`: the same, and only one where we say it.
    Level,
    /// An origin's report of its load, which ends here.
    Load,
    /// A special field's name with underscores for hyphens, or `Proxy`: a program behind CGI or
    /// WSGI would take it for the real one. Source: <https://httpoxy.org>.
    Imitation,
}

/// Prefix of the fields by which Tiergate and those it trusts talk; a client's are removed.
const OURS: &[u8] = b"x-tiergate-";

/// The name, in lower case, of the field that tells an origin the level of the answer that is wanted.
const LEVEL: &[u8] = b"tiergate-level";

/// The names, in lower case, of the fields in which an origin reports its load: in words, and as base64 of a message.
const LOAD: &[u8] = b"endpoint-load-metrics";
const LOAD_BIN: &[u8] = b"endpoint-load-metrics-bin";

/// Whether the gateway itself reads or writes fields of that name.
pub fn is_special(name: &[u8]) -> bool {
    Kind::of_any(name) != Kind::Copy
}

impl Kind {
    /// The kind of the field called `name`; [`Kind::Copy`] if there is nothing special about it.
    #[inline]
    pub(super) fn of(name: &[u8]) -> Kind {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match name.len() {
            2 if is(b"te") => Kind::Te,
            4 if is(b"host") => Kind::Host,
            4 if is(b"date") => Kind::Date,
            5 if is(b"proxy") => Kind::Imitation,
            6 if is(b"expect") => Kind::Expect,
            7 if is(b"upgrade") => Kind::Upgrade,
            8 if is(b"location") => Kind::Location,
            9 if is(b"forwarded") => Kind::Forwarded,
            9 if is(b"x-real-ip") => Kind::XForwardedOther,
            10 if is(b"connection") => Kind::Connection,
            10 if is(b"keep-alive") => Kind::Hop,
            12 if is(b"max-forwards") => Kind::MaxForwards,
            14 if is(b"content-length") => Kind::ContentLength,
            14 if is(LEVEL) => Kind::Level,
            16 if is(b"proxy-connection") => Kind::Hop,
            17 if is(b"transfer-encoding") => Kind::TransferEncoding,
            18 if is(b"proxy-authenticate") => Kind::Hop,
            19 if is(b"proxy-authorization") => Kind::Hop,
            21 if is(LOAD) => Kind::Load,
            25 if is(LOAD_BIN) => Kind::Load,
            25 if is(b"proxy-authentication-info") => Kind::Hop,
            11.. if matches!(name[0], b'x' | b'X') => Kind::of_extension(name),
            _ => Kind::Copy,
        }
    }

    fn of_extension(name: &[u8]) -> Kind {
        let after = |prefix: &[u8]| {
            let (begin, rest) = name.split_at_checked(prefix.len())?;
            begin.eq_ignore_ascii_case(prefix).then_some(rest)
        };
        if after(OURS).is_some() {
            return Kind::Ours;
        }
        let Some(rest) = after(b"x-forwarded-") else {
            return Kind::Copy;
        };
        match rest {
            rest if rest.eq_ignore_ascii_case(b"for") => Kind::XForwardedFor,
            rest if rest.eq_ignore_ascii_case(b"proto") => Kind::XForwardedProto,
            rest if rest.eq_ignore_ascii_case(b"host") => Kind::XForwardedHost,
            _ => Kind::XForwardedOther,
        }
    }

    /// The kind of a field, whatever its name has in it.
    pub(super) fn of_any(name: &[u8]) -> Kind {
        match name.contains(&b'_') {
            true => Kind::of_underscored(name),
            false => Kind::of(name),
        }
    }

    /// Whether only a trusted peer may say it.
    pub(super) fn is_guarded(self) -> bool {
        matches!(
            self,
            Kind::XForwardedFor
                | Kind::XForwardedProto
                | Kind::XForwardedHost
                | Kind::XForwardedOther
                | Kind::Forwarded
                | Kind::Ours
                | Kind::Level
                | Kind::Imitation
        )
    }

    /// Whether a load report in a field of that name is binary.
    pub(super) fn load_is_binary(name: &[u8]) -> bool {
        name.len() == LOAD_BIN.len()
    }

    /// The kind of a field with an underscore in its name.
    #[cold]
    pub(super) fn of_underscored(name: &[u8]) -> Kind {
        let mut hyphened: ArrayVec<u8, 32> = ArrayVec::new();
        for &byte in name.iter().take(hyphened.capacity()) {
            hyphened.push(if byte == b'_' { b'-' } else { byte });
        }
        match Kind::of(&hyphened) {
            Kind::Copy | Kind::Date | Kind::Location => Kind::Copy,
            // Not read as a report, and not shown to clients either.
            Kind::Load => Kind::Load,
            _ => Kind::Imitation,
        }
    }
}
