//! Values of the command line of `tiergate calibrate`.

use crate::config::quantities;
use http::{HeaderName, HeaderValue};
use std::time::Duration;

/// Longest time.
const TIME_MAX: Duration = Duration::from_secs(3600);

/// A time such as `2m`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let fine = |time: &Duration| !time.is_zero() && *time <= TIME_MAX;
    let expected = || "must be a time such as 500ms, 10s or 2m, at most 1h".to_owned();
    quantities::time(text).filter(fine).ok_or_else(expected)
}

/// `Name: value`.
pub(super) fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let read = || {
        let (name, value) = text.split_once(':')?;
        Some((name.trim().parse().ok()?, value.trim().parse().ok()?))
    };
    read().ok_or_else(|| "must be a header field such as 'Cookie: session=1'".to_owned())
}

/// A time as people say it: `2m`, `45s`, `2m 30s`.
pub(super) fn words(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, 0) => format!("{minutes}m"),
        (minutes, seconds) => format!("{minutes}m {seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_units() {
        assert_eq!(time("90s"), Ok(Duration::from_secs(90)));
        assert!(["0s", "2h", "10", ""].iter().all(|it| time(it).is_err()));
        let (name, value) = header("Cookie: a=b:c").expect("a field");
        assert_eq!((name.as_str(), value.as_bytes()), ("cookie", &b"a=b:c"[..]));
        assert!(header("Cookie").is_err() && header("a b: c").is_err());
        let said = [1, 60, 150, 0].map(|it| words(Duration::from_secs(it)));
        assert_eq!(said, ["1s", "1m", "2m 30s", "0s"]);
    }
}
