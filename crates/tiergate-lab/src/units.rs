//! Durations as written on a command line and as shown to people.

use std::time::Duration;

/// Reads "40ms", "1.5s", "20us", "2m" or "0".
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "" if number == "0" => 1.0,
        _ => return Err(format!("expected a time such as 40ms or 1.5s, got {text:?}")),
    };
    let number: f64 = number.parse().map_err(|_| format!("not a number: {number:?}"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|e| format!("{text:?}: {e}"))
}

/// A duration as [`parse_duration`] reads it: "40ms". Microseconds are the finest.
pub(crate) fn written(time: Duration) -> String {
    match time.as_micros() {
        0 => "0".into(),
        us if us % 1_000_000 == 0 => format!("{}s", us / 1_000_000),
        us if us % 1000 == 0 => format!("{}ms", us / 1000),
        us => format!("{us}us"),
    }
}

/// Durations in files, in the same words or as seconds; for `#[serde(with = "units::text")]`.
pub(crate) mod text {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use std::time::Duration;

    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a time such as \"40ms\", or seconds")]
    enum Written {
        Seconds(f64),
        Text(String),
    }

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::written(*time))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        match Written::deserialize(from)? {
            Written::Seconds(seconds) => Duration::try_from_secs_f64(seconds)
                .map_err(|error| de::Error::custom(format!("{seconds} seconds: {error}"))),
            Written::Text(text) => super::parse_duration(&text).map_err(de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_units() {
        assert_eq!(parse_duration("40ms"), Ok(Duration::from_millis(40)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("20us"), Ok(Duration::from_micros(20)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "40", "ms", "-1s", "1h", "1 s", "1e999s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong:?} was accepted");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["0", "20us", "40ms", "1500ms", "2s", "120s"] {
            assert_eq!(written(parse_duration(text).unwrap()), text);
        }
    }
}
