//! The message as base64. Of protocol buffers no more is read than this message needs.
//!
//! A number that is 0 is not in the message, so that it cannot be told from one that was not reported. It is taken as not reported, as
//! gRPC does: a server that reports a metric at all is hardly ever at exactly 0.

use super::metric::Metric;
use super::unreadable::{LEN_MAX, Unreadable};
use data_encoding::BASE64_NOPAD;

/// The metric's value in it.
pub(super) fn value(base64: &[u8], metric: &Metric) -> Result<Option<f64>, Unreadable> {
    let base64 = base64.trim_ascii();
    // Some pad it and some do not.
    let padding = base64.iter().rev().take_while(|byte| **byte == b'=').count().min(2);
    let base64 = &base64[..base64.len() - padding];
    let mut room = [0; LEN_MAX / 4 * 3];
    let len = BASE64_NOPAD.decode_len(base64.len()).map_err(|_| Unreadable::Malformed)?;
    let message = room.get_mut(..len).ok_or(Unreadable::TooLong)?;
    BASE64_NOPAD.decode_mut(base64, message).map_err(|_| Unreadable::Malformed)?;
    in_message(message, metric).ok_or(Unreadable::Malformed)
}

/// The same, decoded; `None`: it is no such message. Where a field stands several times, the last one holds.
fn in_message(mut rest: &[u8], metric: &Metric) -> Option<Option<f64>> {
    let (_, _, wanted) = metric.field();
    let mut found = None;
    while !rest.is_empty() {
        let (number, value) = field(&mut rest)?;
        if number != wanted {
            continue;
        }
        match (metric.key(), value) {
            (None, Value::Fixed64(number)) => found = Some(number),
            (Some(key), Value::Bytes(entry)) => found = in_entry(entry, key)?.or(found),
            _ => return None,
        }
    }
    Some(found)
}

/// The value of a map's entry, if it has this key: a message of the key, field 1, and the value, field 2.
fn in_entry(mut rest: &[u8], key: &str) -> Option<Option<f64>> {
    let (mut is_it, mut value) = (false, 0.0);
    while !rest.is_empty() {
        match field(&mut rest)? {
            (1, Value::Bytes(name)) => is_it = name == key.as_bytes(),
            (2, Value::Fixed64(number)) => value = number,
            (1 | 2, _) => return None,
            _ => {}
        }
    }
    Some(is_it.then_some(value))
}

/// A field's value, as far as it matters here.
enum Value<'b> {
    /// A number with a point.
    Fixed64(f64),
    /// A text, or a message.
    Bytes(&'b [u8]),
    /// Of a kind that the fields looked for do not have.
    Other,
}

/// Takes a field off the front: its number and value.
fn field<'b>(rest: &mut &'b [u8]) -> Option<(u64, Value<'b>)> {
    let key = varint(rest)?;
    let value = match key & 7 {
        0 => varint(rest).map(|_| Value::Other),
        1 => take(rest, 8).map(|bytes| {
            Value::Fixed64(f64::from_le_bytes(bytes.try_into().expect("eight were taken")))
        }),
        2 => {
            let len = varint(rest)?;
            take(rest, usize::try_from(len).ok()?).map(Value::Bytes)
        }
        5 => take(rest, 4).map(|_| Value::Other),
        _ => None,
    }?;
    Some((key >> 3, value))
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    // Seven bits a byte: ten bytes have 64.
    for shift in (0..70).step_by(7) {
        let byte = take(rest, 1)?[0];
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn take<'b>(rest: &mut &'b [u8], len: usize) -> Option<&'b [u8]> {
    let (taken, left) = rest.split_at_checked(len)?;
    *rest = left;
    Some(taken)
}
