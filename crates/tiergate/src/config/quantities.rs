//! Numbers with their units: times, sizes, rates.

use super::kind::Parsed;
use std::time::Duration;
use tiergate_core::admit::bucket::Rate;

/// A number without sign or exponent.
pub(super) fn decimal(text: &str) -> Option<f64> {
    let plain = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let shaped = text.bytes().all(plain)
        && text.starts_with(|first: char| first.is_ascii_digit())
        && text.ends_with(|last: char| last.is_ascii_digit());
    shaped.then(|| text.parse().ok()).flatten()
}

/// A time, to the microsecond.
pub(crate) fn time(text: &str) -> Option<Duration> {
    let unit_at = text.find(|letter: char| letter.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    // To the microsecond: 250ms is 250 ms, not 249.999999.
    let micros = (decimal(number)? * seconds * 1e6).round();
    (micros <= 1e15).then(|| Duration::from_micros(micros as u64))
}

/// A rate with at most three decimals: what is finer would be lost.
pub(super) fn rate(text: &str) -> Parsed<Rate> {
    let (number, unit) = text.split_once('/').or_else(|| text.split_once(" per ")).ok_or(None)?;
    let seconds = match unit.trim_matches(' ') {
        "s" | "second" => 1,
        "m" | "minute" => 60,
        "h" | "hour" => 3600,
        "d" | "day" => 86_400,
        _ => return Err(None),
    };
    let number = number.trim_end_matches(' ');
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let number = decimal(number).filter(|_| decimals <= 3).ok_or(None)?;
    let thousandths = (number * 1000.0).round();
    let per_second = number / seconds as f64;
    if thousandths == 0.0 {
        return Err(Some("must be more than 0".to_owned()));
    }
    if per_second > Rate::MAX.tokens_per_second() {
        return Err(Some("must be at most 1000000000/s".to_owned()));
    }
    Ok(Rate::of_thousandths(thousandths as u64, seconds))
}

/// A number of bytes.
pub(crate) fn size(text: &str) -> Option<u64> {
    let unit_at = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit_at);
    let unit: u64 = match unit.trim_start() {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        assert_eq!(rate("60/s"), Ok(Rate::per_second(60)));
        assert_eq!(rate("10 per minute"), Ok(Rate::per_minute(10)));
        assert_eq!(rate("10 / m"), Ok(Rate::per_minute(10)));
        assert_eq!(rate("1.5/h"), Ok(Rate::of_thousandths(1500, 3600)));
        assert_eq!(rate("1 per day"), Ok(Rate::of_thousandths(1000, 86_400)));
        for wrong in ["", "60", "/s", "60/", "60/x", "-1/s", "1.0001/s", "1e3/s", "60 s", "6 0/s"] {
            assert_eq!(rate(wrong), Err(None), "{wrong}");
        }
        assert_eq!(rate("0/s"), Err(Some("must be more than 0".to_owned())));
        assert!(rate("1000000001/s").is_err() && rate("99999999999999999999/d").is_err());
    }
}
