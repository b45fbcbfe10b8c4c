//! The kinds of values that several tables have: numbers, times, sizes, shares, addresses, names, files.

use super::kind::Text;
use super::place::{Place, wrong};
use super::quantities::{decimal, rate, size, time};
use super::section::{Definitions, Kind};
use super::show;
use crate::secrets::NamedFile;
use ipnet::IpNet;
use serde_json::{Value as Json, json};
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use tiergate_core::admit::bucket::Rate;
use tiergate_core::classify::score::Points;
use toml::de::DeValue;

/// Longest time: a longer one is a mistake in the unit.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// Longest name: it is in every line of the log and in every metric.
const NAME_LEN_MAX: usize = 64;

/// A whole number.
fn integer(value: &DeValue<'_>) -> Option<u64> {
    match value {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    }
}

/// The number if it is within its bounds; else `None`, and the fault is reported.
fn within(
    number: u64,
    (min, max): (u64, u64),
    place: &Place,
    show: impl Fn(u64) -> String,
) -> Option<u64> {
    if number < min {
        place.fault(format!("must be at least {}, got {}", show(min), show(number)));
    } else if number > max {
        place.fault(format!("must be at most {}, got {}", show(max), show(number)));
    } else {
        return Some(number);
    }
    None
}

/// A whole number within bounds.
pub(super) struct Whole<T>(u64, u64, PhantomData<T>);

/// A whole number within bounds.
pub(super) fn whole<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> Whole<T> {
    Whole(*range.start(), *range.end(), PhantomData)
}

impl<T: TryFrom<u64>> Kind for Whole<T> {
    type Value = T;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<T> {
        let Some(number) = integer(value) else {
            return wrong(value, place, "a whole number, 0 or more");
        };
        let number = within(number, (self.0, self.1), place, |number| number.to_string())?;
        T::try_from(number).ok()
    }

    fn schema(&self, _: &mut Definitions) -> Json {
        json!({ "type": "integer", "minimum": self.0, "maximum": self.1 })
    }

    fn range(&self) -> Option<String> {
        Some(format!("{} to {}", self.0, self.1))
    }
}

/// Bytes: `"16KiB"`, or a number.
pub(super) struct Size<T>(u64, u64, PhantomData<T>);

/// Bytes within bounds.
pub(super) fn bytes<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> Size<T> {
    Size(*range.start(), *range.end(), PhantomData)
}

impl<T: TryFrom<u64>> Kind for Size<T> {
    type Value = T;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<T> {
        let number = match value {
            DeValue::String(text) => size(text),
            _ => integer(value),
        };
        let Some(number) = number else {
            let expected = "a size such as \"16KiB\" or \"1GiB\", or a number of bytes";
            return wrong(value, place, expected);
        };
        T::try_from(within(number, (self.0, self.1), place, show::bytes)?).ok()
    }

    fn schema(&self, _: &mut Definitions) -> Json {
        json!({
            "type": ["string", "integer"],
            "minimum": self.0,
            "pattern": "^[0-9]+(B|KiB|MiB|GiB|kB|MB|GB)$",
            "examples": ["16KiB", "1GiB"],
        })
    }

    fn range(&self) -> Option<String> {
        match (self.0, self.1) {
            (0, u64::MAX) => None,
            (0, max) => Some(format!("at most {}", show::bytes(max))),
            (min, max) => Some(format!("{} to {}", show::bytes(min), show::bytes(max))),
        }
    }
}

/// A time: more than 0, at most a day.
pub(super) struct Time(Duration, Duration);

/// A time of more than 0, at most a day.
pub(super) const TIME: Time = Time(Duration::ZERO, TIME_MAX);

/// A time of at least a millisecond, at most a day.
pub(super) const TIME_IN_MS: Time = Time(Duration::from_millis(1), TIME_MAX);

impl Time {
    /// The same with a closer bound, in seconds.
    pub(super) const fn up_to(self, seconds: u64) -> Self {
        Time(self.0, Duration::from_secs(seconds))
    }
}

impl Kind for Time {
    type Value = Duration;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Duration> {
        let read = value.as_str().and_then(time);
        let Some(time) = read else {
            return wrong(value, place, "a time such as \"250ms\", \"2s\" or \"1m\"");
        };
        let [min, max, got] = [self.0, self.1, time].map(show::time);
        if time.is_zero() {
            place.fault("must be more than 0");
        } else if time < self.0 {
            place.fault(format!("must be at least \"{min}\""));
        } else if time > self.1 {
            place.fault(format!("must be at most \"{max}\", got \"{got}\""));
        } else {
            return Some(time);
        }
        None
    }

    fn schema(&self, _: &mut Definitions) -> Json {
        let pattern = "^[0-9]+(\\.[0-9]+)?(ms|s|m|h)$";
        json!({ "type": "string", "pattern": pattern, "examples": ["250ms", "2s", "1m"] })
    }

    fn range(&self) -> Option<String> {
        (self.1 < TIME_MAX).then(|| format!("at most `\"{}\"`", show::time(self.1)))
    }
}

/// `true` or `false`.
pub(super) struct Flag;

impl Kind for Flag {
    type Value = bool;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<bool> {
        value.as_bool().or_else(|| wrong(value, place, "true or false"))
    }

    fn schema(&self, _: &mut Definitions) -> Json {
        json!({ "type": "boolean" })
    }
}

/// A priority, a factor, a score or a weight.
pub(super) struct PointsNumber;

impl Kind for PointsNumber {
    type Value = Points;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Points> {
        let points = match value {
            DeValue::Integer(number) if number.radix() == 10 => Points::parse(number.as_str()),
            // As it is written: through binary fractions it would not be what was meant.
            DeValue::Float(number) => Points::parse(number.as_str()),
            _ => None,
        };
        points
            .or_else(|| wrong(value, place, "a number from 0 to 1000 with at most three decimals"))
    }

    fn schema(&self, _: &mut Definitions) -> Json {
        json!({ "type": ["number", "integer"], "minimum": 0, "maximum": 1000 })
    }

    fn range(&self) -> Option<String> {
        Some("0 to 1000, with at most three decimals".to_owned())
    }
}

/// Points as a number.
pub(super) fn points(points: Points) -> f64 {
    f64::from(points.thousandths()) / 1000.0
}

/// An address, or `false` for none.
pub(super) struct AddressOrFalse;

impl Kind for AddressOrFalse {
    type Value = Option<SocketAddr>;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Option<SocketAddr>> {
        match value {
            DeValue::Boolean(false) => Some(None),
            DeValue::String(_) => ADDRESS.read(value, place).map(Some),
            _ => wrong(value, place, "an address and port, or false"),
        }
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        json!({ "oneOf": [{ "const": false }, ADDRESS.schema(definitions)] })
    }
}

/// The name of a class, a site, a policer, a listener or a resource.
pub(super) struct Name;

impl Kind for Name {
    type Value = String;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<String> {
        let DeValue::String(name) = value else {
            return wrong(value, place, "a text in quotes");
        };
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > NAME_LEN_MAX || !name.bytes().all(letter) {
            let expected = format!("1 to {NAME_LEN_MAX} letters, digits, `-`, `_` or `.`");
            wrong::<String>(value, place, expected);
        }
        // What refers to it is checked by this name all the same.
        Some(name.to_string())
    }

    fn schema(&self, _: &mut Definitions) -> Json {
        json!({ "type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$" })
    }

    fn range(&self) -> Option<String> {
        Some("1 to 64 letters, digits, `-`, `_`, `.`".to_owned())
    }
}

/// Reports a name that another of the same kind has already.
pub(super) fn check_unique<'n>(
    what: &str,
    name: &str,
    mut before: impl Iterator<Item = &'n str>,
    place: &Place,
) {
    if before.any(|other| other == name) {
        place.fault(format!("another {what} is called {name:?} already"));
    }
}

/// A file; relative names begin at the policy file's directory.
pub(super) struct FileName;

impl Kind for FileName {
    type Value = PathBuf;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<PathBuf> {
        match value.as_str() {
            Some(name) if !name.is_empty() && !name.contains('\0') => Some(place.file(name)),
            _ => wrong(value, place, "the name of a file"),
        }
    }

    fn schema(&self, _: &mut Definitions) -> Json {
        json!({ "type": "string", "minLength": 1 })
    }
}

/// A file that is read with the policy.
pub(super) struct FileToRead;

impl Kind for FileToRead {
    type Value = NamedFile;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<NamedFile> {
        let path = FileName.read(value, place)?;
        Some(NamedFile { path, key: place.key.clone(), at: place.at })
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        FileName.schema(definitions)
    }
}

/// Any text.
pub(super) const TEXT: Text<String> =
    Text { expected: "a text in quotes", schema: || json!({}), parse: |text| Ok(text.to_owned()) };

/// The name of a header.
pub(super) const HEADER: Text<String> = Text {
    expected: "the name of a header",
    schema: || json!({ "examples": ["X-Api-Key"] }),
    parse: |text| is_token(text).then(|| text.to_owned()).ok_or(None),
};

/// The name of a cookie.
pub(super) const COOKIE: Text<String> = Text {
    expected: "the name of a cookie",
    schema: || json!({ "examples": ["JSESSIONID"] }),
    parse: |text| is_token(text).then(|| text.to_owned()).ok_or(None),
};

/// `127.0.0.1:8080`, `[::]:443`.
pub(super) const ADDRESS: Text<SocketAddr> = Text {
    expected: "an address and port such as \"0.0.0.0:80\" or \"[::]:443\"",
    schema: || json!({ "pattern": "^.+:[0-9]{1,5}$", "examples": ["0.0.0.0:80", "[::]:443"] }),
    parse: |text| text.parse().map_err(|_| None),
};

/// `10.0.0.0/8`, `192.0.2.7`, `2001:db8::/32`.
pub(super) const NETWORK: Text<IpNet> = Text {
    expected: "an address or a network such as \"10.0.0.0/8\"",
    schema: || json!({ "examples": ["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"] }),
    parse: |text| {
        let one = || text.parse::<IpAddr>().ok().map(IpNet::from);
        text.parse().ok().or_else(one).ok_or(None)
    },
};

/// A share, 0.0 to 1.0.
pub(super) const SHARE: Text<f64> = Text {
    expected: "a share from \"0%\" to \"100%\"",
    schema: || json!({ "pattern": "^[0-9]+(\\.[0-9]+)?%$", "examples": ["10%"] }),
    parse: |text| {
        let number = text.strip_suffix('%').and_then(decimal);
        number.filter(|number| *number <= 100.0).map(|number| number / 100.0).ok_or(None)
    },
};

/// A rate: `60/s`, `1.5/h`, `10 per minute`.
pub(super) const RATE: Text<Rate> = Text {
    expected: "a rate such as \"60/s\", \"10/m\" or \"10 per minute\"",
    schema: || {
        let pattern = "^[0-9]+(\\.[0-9]{1,3})? *(/|per ) *(s|second|m|minute|h|hour|d|day)$";
        json!({ "pattern": pattern, "examples": ["60/s", "10/m", "10 per minute"] })
    },
    parse: rate,
};

/// Whether a text can be the name of a header, a method or a cookie (RFC 9110 §5.6.2).
pub(super) fn is_token(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.len() <= 256 && text.bytes().all(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes() {
        assert_eq!(time("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(time("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(time("2m"), Some(Duration::from_secs(120)));
        assert_eq!(time("1h"), Some(Duration::from_secs(3600)));
        for wrong in
            ["", "s", "2", "2 s", "-2s", "1e3s", ".5s", "5.s", "2S", "1.2.3s", "9999999999999h"]
        {
            assert_eq!(time(wrong), None, "{wrong}");
        }
        assert_eq!(size("16KiB"), Some(16384));
        assert_eq!(size("2MB"), Some(2_000_000));
        for wrong in ["", "KiB", "16", "1.5KiB", "16kib", "99999999999GiB", "-1B"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }
}
