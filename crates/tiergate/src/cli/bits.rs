//! Rates of links on the command line.

/// Bits a second: `100mbit`, `2.5gbit`, or a number.
pub(super) fn bits(text: &str) -> Result<u64, String> {
    let at = text.find(|it: char| it.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" | "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => f64::NAN,
    };
    let number = number.trim().parse::<f64>().map(|number| number * unit).ok();
    let fine = number.filter(|it| (1e3..=1e12).contains(it));
    fine.map(|it| it as u64).ok_or_else(|| {
        "must be a number of bits a second such as 100mbit or 1gbit, at least 1kbit".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_units() {
        assert_eq!(
            ["100mbit", "2.5Gbit", "64000"].map(bits),
            [Ok(100_000_000), Ok(2_500_000_000), Ok(64_000)]
        );
        assert!(["", "fast", "-1mbit", "1tbit", "10", "nan"].iter().all(|it| bits(it).is_err()));
    }
}
