//! Values as they would be written in a policy file.

use std::time::Duration;
use tiergate_core::admit::bucket::Rate;

/// A number of bytes, in the largest unit that says it exactly.
pub(crate) fn bytes(number: u64) -> String {
    for (unit, name) in [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if number >= unit && number.is_multiple_of(unit) {
            return format!("{}{name}", number / unit);
        }
    }
    format!("{number}B")
}

/// A time, in the largest unit that says it exactly.
pub(crate) fn time(time: Duration) -> String {
    let millis = time.as_millis();
    for (unit, name) in [(3_600_000, "h"), (60_000, "m"), (1000, "s")] {
        if millis >= unit
            && millis.is_multiple_of(unit)
            && time.subsec_nanos().is_multiple_of(1_000_000)
        {
            return format!("{}{name}", millis / unit);
        }
    }
    format!("{}ms", time.as_secs_f64() * 1000.0)
}

/// A share, 0.0 to 1.0, as a percentage with at most one decimal.
pub(crate) fn share(share: f64) -> String {
    format!("{}%", (share * 1000.0).round() / 10.0)
}

/// A rate, in the shortest unit that says it exactly.
pub(crate) fn rate(rate: Rate) -> String {
    let exact = |seconds: u64| {
        let thousandths = (rate.tokens_per_second() * seconds as f64 * 1000.0).round();
        let same = Rate::of_thousandths(thousandths as u64, seconds) == rate;
        // Below one, the next unit reads better.
        (same && thousandths >= 1000.0).then_some(thousandths / 1000.0)
    };
    for (seconds, name) in [(1, "s"), (60, "m"), (3600, "h")] {
        if let Some(number) = exact(seconds) {
            return format!("{number}/{name}");
        }
    }
    format!("{}/d", rate.tokens_per_second() * 86_400.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_they_are_written() {
        assert_eq!(
            [bytes(16 << 10), bytes(1 << 30), bytes(1500), bytes(0)],
            ["16KiB", "1GiB", "1500B", "0B"]
        );
        let millis = |millis| time(Duration::from_millis(millis));
        assert_eq!(
            [millis(250), millis(2000), millis(90_000), millis(7_200_000)],
            ["250ms", "2s", "90s", "2h"]
        );
        assert_eq!(time(Duration::from_micros(1500)), "1.5ms");
        let rates = [Rate::per_second(60), Rate::per_minute(10), Rate::of_thousandths(1500, 3600)];
        assert_eq!(rates.map(rate), ["60/s", "10/m", "1.5/h"]);
        assert_eq!([share(0.1), share(0.125), share(1.0 / 3.0)], ["10%", "12.5%", "33.3%"]);
    }
}
