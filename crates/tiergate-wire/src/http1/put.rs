//! Appends the parts that requests and responses have in common.

use super::fields::FieldTable;
use super::kind::Kind;
use super::message::Version;

/// Appends the fields: those that can be copied in one piece as they are, from `verbatim_from` on, of the
/// others those whose kind `passes_on`.
#[inline]
pub(super) fn put_fields(
    out: &mut Vec<u8>,
    fields: &FieldTable<'_>,
    mut verbatim_from: usize,
    passes_on: impl Fn(Kind) -> bool,
) {
    for (field, line) in fields.fields.iter().zip(&fields.lines) {
        if line.kind == Kind::Verbatim {
            continue;
        }
        out.extend_from_slice(&fields.head[verbatim_from..line.start as usize]);
        verbatim_from = line.end as usize;
        if passes_on(line.kind) {
            put(out, field.name, field.value);
        }
    }
    out.extend_from_slice(&fields.head[verbatim_from..fields.fields_end]);
}

/// Appends `Via`, with the version that the message came by (RFC 9110 §7.6.3).
pub(super) fn put_via(out: &mut Vec<u8>, version: Version) {
    out.extend_from_slice(match version {
        Version::Http11 => b"Via: 1.1 tiergate\r\n",
        Version::Http10 => b"Via: 1.0 tiergate\r\n",
    });
}

/// Appends one field line.
#[inline]
pub(super) fn put(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn put_length(out: &mut Vec<u8>, len: u64) {
    put_number(out, b"Content-Length", len);
}

pub(super) fn put_number(out: &mut Vec<u8>, name: &[u8], number: u64) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    put_decimal(out, number);
    out.extend_from_slice(b"\r\n");
}

/// Appends a number in decimal digits.
#[inline]
pub fn put_decimal(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}
