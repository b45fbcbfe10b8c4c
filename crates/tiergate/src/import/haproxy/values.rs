//! Times, and other words for a place.

use super::super::draft::From;

/// A time as policies write it; without a unit, HAProxy's are milliseconds.
pub(super) fn time(text: &str) -> Option<String> {
    let digits = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok().filter(|it| *it > 0)?;
    match unit {
        "" | "ms" => Some(format!("{number}ms")),
        "s" | "m" | "h" => Some(format!("{number}{unit}")),
        "d" => Some(format!("{}h", number.checked_mul(24)?)),
        _ => None,
    }
}

/// The milliseconds of a time.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    let time = time(text)?;
    let digits = time.find(|it: char| !it.is_ascii_digit())?;
    let number: u64 = time[..digits].parse().ok()?;
    let factor = match &time[digits..] {
        "ms" => 1,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 1_000,
    };
    number.checked_mul(factor)
}

/// Where something comes from, in other words.
pub(super) fn as_text(from: &From, text: &str) -> From {
    From { text: text.to_owned(), ..from.clone() }
}
