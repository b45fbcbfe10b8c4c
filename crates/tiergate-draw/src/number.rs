//! Numbers as people read them.

use std::time::Duration;

/// A number with thousands apart: `12,345`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three significant digits: `1,234`, `123`, `12.3`, `1.23`, `0.012`. The number must not be negative.
pub fn figure(number: f64) -> String {
    match number {
        n if n >= 999.5 => thousands(n.round() as u64),
        n if n >= 99.95 => format!("{n:.0}"),
        n if n >= 9.995 => format!("{n:.1}"),
        n if n >= 0.1 => format!("{n:.2}"),
        n if n >= 0.0005 => format!("{n:.3}"),
        _ => "0".to_owned(),
    }
}

/// A duration given in milliseconds, in the unit that reads best: `12.3ms`, `1.20s`. Below 10 µs: `0`.
pub fn time_ms(ms: f64) -> String {
    match ms {
        ms if ms < 0.01 => "0".to_owned(),
        ms if ms < 1000.0 => format!("{}ms", figure(ms)),
        ms => format!("{}s", figure(ms / 1000.0)),
    }
}

/// A latency in milliseconds, without the unit; `-` for none.
pub fn milliseconds(latency: Option<Duration>) -> String {
    latency.map_or("-".into(), |latency| figure(latency.as_secs_f64() * 1e3))
}

/// A share (0.0 to 1.0) as a percentage. Never `0%` of what is not nothing, nor `100%` of what is not
/// everything.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < 0.1 => "<0.1%".to_owned(),
        percent if percent > 0.0 && percent < 9.95 => format!("{percent:.1}%"),
        percent if percent > 99.0 && percent < 100.0 => {
            format!("{:.1}%", (percent * 10.0 + 1e-6).floor() / 10.0)
        }
        percent => format!("{percent:.0}%"),
    }
}

/// A number without zeros that say nothing: `0.3`, `20`, `1,000`. For marks on an axis.
pub fn short(number: f64) -> String {
    let rounded = (number * 1e6).round() / 1e6;
    if rounded >= 1e3 { thousands(rounded as u64) } else { rounded.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_matter() {
        let shown = [0.0, 0.0004, 0.0123, 0.5, 9.999, 12.345, 99.96, 345.6, 999.6, 12345.6];
        let shown = shown.map(figure);
        let expected = ["0", "0", "0.012", "0.50", "10.0", "12.3", "100", "346", "1,000", "12,346"];
        assert_eq!(shown, expected);
        assert_eq!([0, 999, 1_234_567].map(thousands), ["0", "999", "1,234,567"]);
    }

    #[test]
    fn times_have_the_unit_that_reads_best() {
        let shown = [0.001, 0.25, 12.0, 999.0, 1500.0].map(time_ms);
        assert_eq!(shown, ["0", "0.25ms", "12.0ms", "999ms", "1.50s"]);
        assert_eq!(milliseconds(Some(Duration::from_micros(41_234))), "41.2");
        assert_eq!(milliseconds(None), "-");
    }

    #[test]
    fn shares_never_claim_all_or_nothing() {
        let shown = [0.0, 0.0004, 0.05, 0.5, 0.995, 0.9999, 1.0, 2.19].map(percent);
        assert_eq!(shown, ["0%", "<0.1%", "5.0%", "50%", "99.5%", "99.9%", "100%", "219%"]);
    }

    #[test]
    fn marks_are_short() {
        assert_eq!([0.3, 20.0, 0.1 + 0.2, 5000.0].map(short), ["0.3", "20", "0.3", "5,000"]);
    }
}
