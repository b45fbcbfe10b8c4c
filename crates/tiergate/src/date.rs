//! The `Date` field, formatted once a second.

use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::time::{Duration, SystemTime};

thread_local! {
    /// The second since 1970 that the line is of, and the line.
    static LINE: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
}

/// Calls `act` with the present date as a field line, CRLF included.
pub fn with_line<R>(act: impl FnOnce(&[u8]) -> R) -> R {
    // That of the kernel's last tick: some milliseconds old, and cheaper to read. A clock before 1970 is wrong anyway.
    let second = u64::try_from(clock_gettime(ClockId::RealtimeCoarse).tv_sec).unwrap_or_default();
    LINE.with_borrow_mut(|(of, line)| {
        if *of != second || line.is_empty() {
            *of = second;
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            *line = format!("Date: {}\r\n", httpdate::fmt_http_date(now));
        }
        act(line.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_of_now_and_stays_for_its_second() {
        let line = with_line(<[u8]>::to_vec);
        let text = std::str::from_utf8(&line).expect("ASCII");
        let date = text.strip_prefix("Date: ").and_then(|rest| rest.strip_suffix("\r\n"));
        let said = httpdate::parse_http_date(date.expect("a field line")).expect("a date");
        let age = SystemTime::now().duration_since(said).expect("not in the future");
        assert!(age.as_secs() < 2, "{age:?}");
    }
}
