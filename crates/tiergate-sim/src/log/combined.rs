//! Lines of the common and the combined format, with what else servers put behind them.

use super::line::{Line, Took};
use super::stamp;
use std::borrow::Cow;

/// Most fields that are looked at behind the size of the answer.
const FIELDS_MAX: usize = 32;

/// A field, and whether it stood in quotes.
type Field<'l> = (Cow<'l, str>, bool);

/// `[host:port] client identity user [time] "request" status bytes "referer" "user agent" …`.
pub(super) fn line(text: &str, took: Took) -> Result<Line<'_>, &'static str> {
    let (who, rest) = text.split_once('[').ok_or("it has no time in brackets")?;
    let (time, rest) = rest.split_once(']').ok_or("it has no time in brackets")?;
    let stamp = stamp::combined(time).ok_or("its time is none")?;
    let mut who = who.split_ascii_whitespace();
    let words = [who.next(), who.next(), who.next(), who.next()];
    let (host, client) = match words {
        // The virtual host first, as `vhost_combined` of Debian has it.
        [Some(host), Some(client), Some(_), Some(_)] => (host, client),
        [Some(client), ..] => ("", client),
        _ => return Err("it has no client"),
    };
    if client == "-" {
        return Err("it has no client");
    }
    let fields = fields(rest);
    let [(request, true), (status, false), rest @ ..] = &fields[..] else {
        return Err("it has no request in quotes and no status behind it");
    };
    let mut words = request.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err("its request is none");
    };
    let token = |byte: u8| byte.is_ascii_alphabetic() || byte == b'-' || byte == b'_';
    if method.is_empty() || !method.bytes().all(token) {
        return Err("its request is none");
    }
    let status: u16 = status.parse().map_err(|_| "its status is none")?;
    let known = |place: usize| match rest.get(place) {
        Some((text, true)) if text != "-" => text.clone(),
        _ => Cow::Borrowed(""),
    };
    let mut line = Line {
        stamp,
        client: Cow::Borrowed(client),
        method: Cow::Owned(method.to_owned()),
        target: Cow::Owned(target.to_owned()),
        host: Cow::Borrowed(host),
        referer: known(1),
        user_agent: known(2),
        bytes: rest.first().and_then(|(bytes, _)| bytes.parse().ok()).unwrap_or(0),
        took_ns: None,
    };
    let more = rest.get(3..).unwrap_or_default();
    line.took_ns = match tiergate(more) {
        Some(own) => {
            line.host = own.0;
            own.1
        }
        None => seconds(more, took).map(|seconds| (seconds * 1e9) as u64),
    };
    line.took_ns = line.took_ns.filter(|took| *took > 0 && (1..500).contains(&status));
    Ok(line)
}

/// What Tiergate's own combined format has behind the user agent: host, and nanoseconds.
fn tiergate<'l>(more: &[Field<'l>]) -> Option<(Cow<'l, str>, Option<u64>)> {
    // "class" rule verdict reason duration queue first_byte "server" slots "host" …
    let verdict = &more.get(2)?.0;
    if !["admitted", "queued", "refused", "bad"].contains(&&**verdict) || !more[0].1 {
        return None;
    }
    let number = |place: usize| more.get(place).and_then(|(text, _)| text.parse::<f64>().ok());
    let host = more.get(9).map(|(host, _)| host.clone()).filter(|host| host != "-");
    // Without a first byte nobody behind the gateway worked on it.
    let took = number(4).zip(number(6)).map(|(all, _)| all - number(5).unwrap_or(0.0));
    Some((host.unwrap_or_default(), took.map(|took| (took.max(0.0) * 1e9) as u64)))
}

/// How long it took, by the numbers behind the user agent.
fn seconds(more: &[Field<'_>], took: Took) -> Option<f64> {
    for (field, _) in more {
        let named = field.strip_prefix("rt=").or_else(|| field.strip_prefix("request_time="));
        if let Some(seconds) = named.and_then(number) {
            return Some(seconds);
        }
    }
    let mut numbers = more.iter().filter_map(|(text, _)| number(text).map(|it| (text, it)));
    let per_second = match took {
        Took::Guess => {
            let (text, first) = numbers.next()?;
            // Two numbers are bytes in and out, or what only its owner knows.
            return match numbers.next() {
                Some(_) => None,
                None if text.contains('.') => Some(first),
                None => Some(first / 1e6),
            };
        }
        Took::Micros => 1e6,
        Took::Millis => 1e3,
        Took::Seconds => 1.0,
        Took::Ignore => return None,
    };
    numbers.next_back().map(|(_, number)| number / per_second)
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| (0.0..1e12).contains(number))
}

/// Fields between blanks; those in quotes may have blanks and escapes.
fn fields(text: &str) -> Vec<Field<'_>> {
    let mut fields = Vec::with_capacity(8);
    let mut rest = text.trim_start();
    while !rest.is_empty() && fields.len() < FIELDS_MAX {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let end = end_of_quoted(quoted);
                let after = quoted.get(end + 1..).unwrap_or_default();
                ((unescaped(&quoted[..end]), true), after)
            }
            None => {
                let end = rest.find(' ').unwrap_or(rest.len());
                ((Cow::Borrowed(&rest[..end]), false), &rest[end..])
            }
        };
        fields.push(field);
        rest = after.trim_start();
    }
    fields
}

fn end_of_quoted(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.unwrap_or(text.len())
}

/// Without the escapes of Apache and nginx: `\"`, `\\`, `\t`, `\n`, `\x16`.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = |byte: u8| char::from(byte).to_digit(16);
        let (byte, left) = match (*first, after) {
            (b'\\', [b'x', high, low, after @ ..]) if hex(*high).and(hex(*low)).is_some() => {
                let digit = |byte| hex(byte).unwrap_or_default() as u8;
                (digit(*high) << 4 | digit(*low), after)
            }
            (b'\\', [b'n', after @ ..]) => (b'\n', after),
            (b'\\', [b't', after @ ..]) => (b'\t', after),
            (b'\\', [b'r', after @ ..]) => (b'\r', after),
            (b'\\', [other, after @ ..]) => (*other, after),
            (byte, after) => (byte, after),
        };
        bytes.push(byte);
        rest = left;
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}
