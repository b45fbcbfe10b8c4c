//! Times as logs write them.

use super::Stamp;

/// `17/May/2015:10:05:03 +0000`.
pub(super) fn combined(text: &str) -> Option<Stamp> {
    let (date, zone) = text.split_once(' ')?;
    let mut parts = date.split([':', '/']);
    let day = number(parts.next()?, 1..=31)?;
    let month = parts.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let year = number(parts.next()?, 1970..=9999)?;
    let seconds = of_day(parts.next()?, parts.next()?, parts.next()?)?;
    if parts.next().is_some() {
        return None;
    }
    let local = days(year, month, day) * 86_400 + seconds;
    let ns = (local as i64 - offset(zone)?).try_into().ok().map(|utc: u64| utc * 1_000_000_000)?;
    Some(Stamp { ns, precise: false })
}

/// `2026-11-20T18:23:51.042Z`, or with an offset such as `+01:00`.
pub(super) fn rfc3339(text: &str) -> Option<Stamp> {
    let (date, time) = text.split_once('T')?;
    let mut parts = date.split('-');
    let year = number(parts.next()?, 1970..=9999)?;
    let month = number(parts.next()?, 1..=12)?;
    let day = number(parts.next()?, 1..=31)?;
    let zone_at = time.find(['Z', '+', '-'])?;
    let (time, zone) = time.split_at(zone_at);
    let (time, decimals) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = time.split(':');
    let seconds = of_day(parts.next()?, parts.next()?, parts.next()?)?;
    let fraction: f64 = format!("0.{decimals}0").parse().ok()?;
    let offset = if zone == "Z" { 0 } else { offset(&zone.replace(':', ""))? };
    let utc = u64::try_from((days(year, month, day) * 86_400 + seconds) as i64 - offset).ok()?;
    let ns = utc * 1_000_000_000 + (fraction * 1e9).round() as u64;
    Some(Stamp { ns, precise: !decimals.is_empty() })
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

fn number(text: &str, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
    text.parse().ok().filter(|number| range.contains(number))
}

fn of_day(hours: &str, minutes: &str, seconds: &str) -> Option<u64> {
    // 60: a leap second.
    let seconds = number(seconds, 0..=60)?;
    Some(number(hours, 0..=23)? * 3600 + number(minutes, 0..=59)? * 60 + seconds)
}

/// Seconds that the zone `+hhmm` is ahead.
fn offset(zone: &str) -> Option<i64> {
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = digits.split_at_checked(2)?;
    Some(sign * (number(hours, 0..=23)? * 3600 + number(minutes, 0..=59)? * 60) as i64)
}

/// Days from 1970-01-01 to a day of the Gregorian calendar.
///
/// Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `days_from_civil`.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year / 400;
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_their_zones() {
        let seconds = |stamp: Option<Stamp>| stamp.map(|stamp| (stamp.ns / 1_000_000) as f64 / 1e3);
        assert_eq!(seconds(combined("17/May/2015:10:05:03 +0000")), Some(1_431_857_103.0));
        assert_eq!(seconds(combined("17/May/2015:12:35:03 +0230")), Some(1_431_857_103.0));
        assert_eq!(seconds(combined("29/Feb/2024:00:00:00 -0100")), Some(1_709_168_400.0));
        assert_eq!(seconds(rfc3339("2026-11-20T18:23:51.042Z")), Some(1_795_199_031.042));
        assert_eq!(seconds(rfc3339("2026-11-20T19:23:51+01:00")), Some(1_795_199_031.0));
        for wrong in ["", "17/May/2015", "32/May/2015:10:05:03 +0000", "17/Mai/2015:10:05:03 +0000"]
        {
            assert_eq!(combined(wrong), None, "{wrong}");
        }
        for wrong in
            ["", "2026-11-20", "2026-11-20T18:23:51", "2026-13-20T18:23:51Z", "2026-11-20T1é"]
        {
            assert_eq!(rfc3339(wrong), None, "{wrong}");
        }
    }
}
