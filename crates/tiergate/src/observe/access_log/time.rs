//! Times of day in log lines, in UTC.

use std::io::Write;
use std::time::SystemTime;
use time::OffsetDateTime;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `2026-11-20T18:23:51.042Z`.
pub(crate) fn rfc3339(at: SystemTime) -> String {
    let mut text = Vec::with_capacity(24);
    let utc = OffsetDateTime::from(at);
    push_rfc3339_second(&mut text, utc);
    push_millis(&mut text, utc.millisecond());
    String::from_utf8(text).expect("digits and punctuation")
}

/// Caches the text of the latest second: lines come in bursts of the same second, and computing the
/// calendar date costs more than the rest of a line.
#[derive(Debug, Default)]
pub(super) struct Clock {
    second: Option<i64>,
    rfc3339: Vec<u8>,
    combined: Vec<u8>,
}

impl Clock {
    /// Appends `2026-11-20T18:23:51.042Z`.
    pub(super) fn push_rfc3339(&mut self, line: &mut Vec<u8>, at: SystemTime) {
        let millis = self.turn_to(at);
        line.extend_from_slice(&self.rfc3339);
        push_millis(line, millis);
    }

    /// Appends `20/Nov/2026:18:23:51 +0000`.
    pub(super) fn push_combined(&mut self, line: &mut Vec<u8>, at: SystemTime) {
        self.turn_to(at);
        line.extend_from_slice(&self.combined);
    }

    fn turn_to(&mut self, at: SystemTime) -> u16 {
        // Before 1970 the split below would round the wrong way; no log line is from then.
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let second = since.as_secs() as i64;
        if self.second != Some(second) {
            let utc =
                OffsetDateTime::from_unix_timestamp(second).unwrap_or(OffsetDateTime::UNIX_EPOCH);
            self.second = Some(second);
            self.rfc3339.clear();
            push_rfc3339_second(&mut self.rfc3339, utc);
            self.combined.clear();
            push_combined(&mut self.combined, utc);
        }
        since.subsec_millis() as u16
    }
}

fn push_rfc3339_second(text: &mut Vec<u8>, utc: OffsetDateTime) {
    let (year, month, day) = utc.to_calendar_date();
    let (hour, minute, second) = utc.to_hms();
    let month = u8::from(month);
    write!(text, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
        .expect("a vector takes every write");
}

fn push_combined(text: &mut Vec<u8>, utc: OffsetDateTime) {
    let (year, month, day) = utc.to_calendar_date();
    let (hour, minute, second) = utc.to_hms();
    let month = MONTHS[usize::from(u8::from(month)) - 1];
    write!(text, "{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000")
        .expect("a vector takes every write");
}

fn push_millis(text: &mut Vec<u8>, millis: u16) {
    write!(text, ".{millis:03}Z").expect("a vector takes every write");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn both_forms_and_the_kept_second() {
        let mut clock = Clock::default();
        // `date -u -d @1795199031`
        for (millis, rfc3339, combined) in [
            (1_795_199_031_042, "2026-11-20T18:23:51.042Z", "20/Nov/2026:18:23:51 +0000"),
            (1_795_199_031_999, "2026-11-20T18:23:51.999Z", "20/Nov/2026:18:23:51 +0000"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z", "29/Feb/2000:00:00:00 +0000"),
        ] {
            let at = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
            let (mut first, mut second) = (Vec::new(), Vec::new());
            clock.push_rfc3339(&mut first, at);
            clock.push_combined(&mut second, at);
            assert_eq!(String::from_utf8(first).expect("ASCII"), rfc3339);
            assert_eq!(String::from_utf8(second).expect("ASCII"), combined);
            assert_eq!(super::rfc3339(at), rfc3339);
        }
    }

    #[test]
    fn times_out_of_range_do_no_harm() {
        let mut line = Vec::new();
        let mut clock = Clock::default();
        clock.push_rfc3339(&mut line, SystemTime::UNIX_EPOCH - Duration::from_secs(9));
        assert_eq!(line, b"1970-01-01T00:00:00.000Z");
    }
}
