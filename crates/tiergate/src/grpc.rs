//! gRPC over HTTP: what a call's deadline is, and errors and refusals in its terms.
//!
//! Source: <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>, and for statuses
//! <https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md>, from which 504 departs: the origin took too long, and
//! a call that is retried because of that would make it worse.

use std::time::Duration;
use tiergate_core::request::Field;

/// `UNAVAILABLE`: the call may be tried again.
pub const UNAVAILABLE: u8 = 14;

/// Most digits of a time-out.
const DIGITS_MAX: usize = 8;

/// Whether the type of a message's content is gRPC's, or gRPC-Web's.
pub fn is_grpc(fields: &[Field<'_>]) -> bool {
    let kind = fields.iter().find(|field| field.name.eq_ignore_ascii_case(b"content-type"));
    kind.is_some_and(|kind| is_type(kind.value))
}

/// Whether it is the type of gRPC's messages.
pub fn is_type(value: &[u8]) -> bool {
    let prefix = b"application/grpc";
    value.split_at_checked(prefix.len()).is_some_and(|(kind, rest)| {
        kind.eq_ignore_ascii_case(prefix)
            && matches!(rest.first(), None | Some(b';' | b'+' | b'-' | b' ' | b'\t'))
    })
}

/// The status of a call in the header, or the trailers, of its answer.
pub fn status<'f>(fields: impl IntoIterator<Item = &'f Field<'f>>) -> Option<u32> {
    let mut found = fields.into_iter().filter(|it| it.name.eq_ignore_ascii_case(b"grpc-status"));
    std::str::from_utf8(found.next()?.value).ok()?.parse().ok()
}

/// How long the client waits for a call; `None`: it does not say, or not as it should.
pub fn timeout(fields: &[Field<'_>]) -> Option<Duration> {
    let mut found = fields.iter().filter(|it| it.name.eq_ignore_ascii_case(b"grpc-timeout"));
    let (field, None) = (found.next()?, found.next()) else { return None };
    let (unit, digits) = field.value.split_last()?;
    if !(1..=DIGITS_MAX).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |sum: u64, digit| sum * 10 + u64::from(digit - b'0'));
    Some(match unit {
        b'H' => Duration::from_secs(number * 3600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

/// The status of a call that gets an answer of ours with this status of HTTP.
pub const fn status_of(http: u16) -> u8 {
    match http {
        // INTERNAL, UNAUTHENTICATED, PERMISSION_DENIED, UNIMPLEMENTED
        400 => 13,
        401 => 16,
        403 | 451 => 7,
        404 | 405 | 410 | 501 => 12,
        // DEADLINE_EXCEEDED
        408 | 504 => 4,
        // RESOURCE_EXHAUSTED
        413 | 414 | 431 => 8,
        429 | 502 | 503 => UNAVAILABLE,
        // UNKNOWN
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_eight_digits_and_a_unit() {
        let of = |values: &[&str]| {
            let name = b"grpc-timeout";
            let fields: Vec<Field<'_>> =
                values.iter().map(|value| Field { name, value: value.as_bytes() }).collect();
            timeout(&fields)
        };
        for (value, expected) in [
            ("2H", Duration::from_secs(7200)),
            ("3M", Duration::from_secs(180)),
            ("7S", Duration::from_secs(7)),
            ("250m", Duration::from_millis(250)),
            ("99999999u", Duration::from_micros(99_999_999)),
            ("5n", Duration::from_nanos(5)),
        ] {
            assert_eq!(of(&[value]), Some(expected), "{value}");
        }
        for wrong in
            [&[][..], &[""], &["S"], &["5"], &["5s"], &["123456789S"], &["-1S"], &["1S", "1S"]]
        {
            assert_eq!(of(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn types_are_told_apart() {
        for grpc in ["application/grpc", "Application/gRPC+proto", "application/grpc-web;a=b"] {
            assert!(is_type(grpc.as_bytes()), "{grpc}");
        }
        for other in ["", "application/grpcs", "application/json"] {
            assert!(!is_type(other.as_bytes()), "{other}");
        }
    }
}
