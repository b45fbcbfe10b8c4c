//! Numbers and states in words.

use super::super::context::Phase;
use crate::observe::access_log::rfc3339;
use crate::observe::words::harmless;
use std::time::{Duration, SystemTime};

pub(super) fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Starting => "starting",
        Phase::Serving => "serving",
        Phase::Leaving => "leaving",
        Phase::Draining => "draining",
    }
}

/// A time that does not change every second: the page is sent anew for it.
pub(super) fn coarse(seconds: f64) -> String {
    match seconds / 60.0 {
        minutes if minutes < 1.0 => "less than a minute".to_owned(),
        _ => crate::observe::words::span((seconds / 60.0).floor() * 60.0),
    }
}

/// A share as a percentage that is 0 or 100 only if it is nothing or all.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p <= 0.0 => "0 %".to_owned(),
        p if p < 1.0 => "<1 %".to_owned(),
        p if p >= 100.0 => "100 %".to_owned(),
        p if p >= 99.0 => format!("{:.1} %", (p * 10.0).floor() / 10.0),
        p => format!("{p:.0} %"),
    }
}

/// A buffer: how much more load, or how much too much.
pub(super) fn buffer(buffer: f64) -> String {
    match buffer {
        b if b >= 98.0 => "×100 or more".to_owned(),
        b if b >= 1.0 => format!("×{:.1}", b + 1.0),
        b if b > 0.005 => format!("+{:.0} %", b * 100.0),
        b if b < -0.005 => format!("none: {:.0} % too much", -b * 100.0),
        _ => "none".to_owned(),
    }
}

pub(super) fn bytes(bytes: f64) -> String {
    match bytes {
        b if b < 1024.0 => format!("{b:.0} B"),
        b if b < 1024.0 * 1024.0 => format!("{:.0} KiB", b / 1024.0),
        b if b < 1024.0 * 1024.0 * 1024.0 => format!("{:.0} MiB", b / 1024.0 / 1024.0),
        b => format!("{:.1} GiB", b / 1024.0 / 1024.0 / 1024.0),
    }
}

/// Hours, minutes and seconds of a UNIX time, in UTC.
pub(super) fn clock(at_seconds: u64) -> String {
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(at_seconds);
    rfc3339(at).get(11..19).unwrap_or_default().to_owned()
}

/// The date of a UNIX time.
pub(super) fn date(at_seconds: i64) -> String {
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(at_seconds.max(0).cast_unsigned());
    rfc3339(at).get(..10).unwrap_or_default().to_owned()
}

/// A reason, with spaces.
pub(super) fn reason(name: &str) -> String {
    harmless(name).replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well_at_their_bounds() {
        let shares = [0.0, 0.001, 0.5, 0.996, 0.9999, 1.0].map(percent);
        assert_eq!(shares, ["0 %", "<1 %", "50 %", "99.6 %", "99.9 %", "100 %"]);
        let buffers = [99.0, 8.0, 0.25, 0.0, -0.5].map(buffer);
        assert_eq!(buffers, ["×100 or more", "×9.0", "+25 %", "none", "none: 50 % too much"]);
        assert_eq!(clock(3_661), "01:01:01");
        assert_eq!(date(86_400), "1970-01-02");
        assert_eq!(coarse(59.0), "less than a minute");
    }
}
