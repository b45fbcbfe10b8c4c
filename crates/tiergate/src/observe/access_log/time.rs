//! Times of day in log lines, in UTC.

use std::io::Write;
use std::time::SystemTime;
use time::OffsetDateTime;

const INFALLIBLE: &str = "a vector takes every write";

/// `2026-11-20T18:23:51.042Z`.
pub(crate) fn rfc3339(at: SystemTime) -> String {
    let mut text = Vec::with_capacity(24);
    Clock::default().push_rfc3339(&mut text, at);
    String::from_utf8(text).expect("digits and punctuation")
}

/// Caches the text of the latest second: lines come in bursts of the same second, and computing the
/// calendar date costs more than the rest of a line.
#[derive(Debug, Default)]
pub(super) struct Clock {
    second: Option<u64>,
    rfc3339: Vec<u8>,
    combined: Vec<u8>,
}

impl Clock {
    /// Appends `2026-11-20T18:23:51.042Z`.
    pub(super) fn push_rfc3339(&mut self, line: &mut Vec<u8>, at: SystemTime) {
        let millis = self.turn_to(at);
        line.extend_from_slice(&self.rfc3339);
        write!(line, ".{millis:03}Z").expect(INFALLIBLE);
    }

    /// Appends `20/Nov/2026:18:23:51 +0000`.
    pub(super) fn push_combined(&mut self, line: &mut Vec<u8>, at: SystemTime) {
        self.turn_to(at);
        line.extend_from_slice(&self.combined);
    }

    /// Makes the texts those of the second of `at`; returns its milliseconds.
    fn turn_to(&mut self, at: SystemTime) -> u32 {
        // A time before 1970 counts as 1970; no log line is from then.
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if self.second != Some(since.as_secs()) {
            self.second = Some(since.as_secs());
            self.write(since.as_secs());
        }
        since.subsec_millis()
    }

    fn write(&mut self, unix: u64) {
        let utc = OffsetDateTime::from_unix_timestamp(unix as i64);
        let utc = utc.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let (year, month, day) = utc.to_calendar_date();
        let (hour, minute, second) = utc.to_hms();
        let (number, name) = (u8::from(month), month.to_string());
        let name = &name[..3];
        let time = format!("{hour:02}:{minute:02}:{second:02}");
        self.rfc3339.clear();
        write!(self.rfc3339, "{year:04}-{number:02}-{day:02}T{time}").expect(INFALLIBLE);
        self.combined.clear();
        write!(self.combined, "{day:02}/{name}/{year:04}:{time} +0000").expect(INFALLIBLE);
    }
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
