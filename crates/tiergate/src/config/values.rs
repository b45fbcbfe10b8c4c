//! The kinds of values that several tables have: numbers, times, sizes, shares, addresses, names, files.

use super::kind::{Parsed, Scalar, Text};
use super::place::{Place, wrong};
use super::quantities::{decimal, rate, size, time};
use super::section::{Definitions, Kind, Mapped};
use super::show;
use crate::secrets::NamedFile;
use ipnet::IpNet;
use serde_json::{Value as Json, json};
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

/// The number if it is within its bounds.
fn within<T: TryFrom<u64>>(
    number: Option<u64>,
    bounds: &RangeInclusive<u64>,
    show: impl Fn(u64) -> String,
) -> Parsed<T> {
    let number = number.ok_or(None)?;
    let (min, max) = (*bounds.start(), *bounds.end());
    if number < min {
        return Err(Some(format!("must be at least {}, got {}", show(min), show(number))));
    }
    if number > max {
        return Err(Some(format!("must be at most {}, got {}", show(max), show(number))));
    }
    T::try_from(number).map_err(|_| None)
}

/// A whole number within bounds.
pub(super) fn whole<T: TryFrom<u64>>(
    bounds: RangeInclusive<u64>,
) -> Scalar<T, RangeInclusive<u64>> {
    Scalar {
        expected: "a whole number, 0 or more",
        bounds,
        parse: |value, bounds| within(integer(value), bounds, |number| number.to_string()),
        schema: |bounds| json!({ "type": "integer", "minimum": bounds.start(), "maximum": bounds.end() }),
        range: |bounds| Some(format!("{} to {}", bounds.start(), bounds.end())),
    }
}

/// Bytes within bounds: `"16KiB"`, or a number.
pub(super) fn bytes<T: TryFrom<u64>>(
    bounds: RangeInclusive<u64>,
) -> Scalar<T, RangeInclusive<u64>> {
    Scalar {
        expected: "a size such as \"16KiB\" or \"1GiB\", or a number of bytes",
        bounds,
        parse: |value, bounds| {
            let number = value.as_str().map_or_else(|| integer(value), size);
            within(number, bounds, show::bytes)
        },
        schema: |bounds| {
            json!({
                "type": ["string", "integer"],
                "minimum": bounds.start(),
                "pattern": "^[0-9]+(B|KiB|MiB|GiB|kB|MB|GB)$",
                "examples": ["16KiB", "1GiB"],
            })
        },
        range: |bounds| match (*bounds.start(), *bounds.end()) {
            (0, u64::MAX) => None,
            (0, max) => Some(format!("at most {}", show::bytes(max))),
            (min, max) => Some(format!("{} to {}", show::bytes(min), show::bytes(max))),
        },
    }
}

/// A time of more than 0, at most a day.
pub(super) const TIME: Scalar<Duration, (Duration, Duration)> = Scalar {
    expected: "a time such as \"250ms\", \"2s\" or \"1m\"",
    bounds: (Duration::ZERO, TIME_MAX),
    parse: |value, &(min, max)| {
        let read = value.as_str().and_then(time).ok_or(None)?;
        let [least, most, got] = [min, max, read].map(show::time);
        if read.is_zero() {
            return Err(Some("must be more than 0".to_owned()));
        }
        if read < min {
            return Err(Some(format!("must be at least \"{least}\"")));
        }
        if read > max {
            return Err(Some(format!("must be at most \"{most}\", got \"{got}\"")));
        }
        Ok(read)
    },
    schema: |_| {
        let pattern = "^[0-9]+(\\.[0-9]+)?(ms|s|m|h)$";
        json!({ "type": "string", "pattern": pattern, "examples": ["250ms", "2s", "1m"] })
    },
    range: |(_, max)| (*max < TIME_MAX).then(|| format!("at most `\"{}\"`", show::time(*max))),
};

/// A time of at least a millisecond, at most a day.
pub(super) const TIME_IN_MS: Scalar<Duration, (Duration, Duration)> =
    Scalar { bounds: (Duration::from_millis(1), TIME_MAX), ..TIME };

/// A time of more than 0 and at most so many seconds.
pub(super) const fn time_up_to(seconds: u64) -> Scalar<Duration, (Duration, Duration)> {
    Scalar { bounds: (Duration::ZERO, Duration::from_secs(seconds)), ..TIME }
}

/// `true` or `false`.
pub(super) const FLAG: Scalar<bool> = Scalar {
    expected: "true or false",
    bounds: (),
    parse: |value, ()| value.as_bool().ok_or(None),
    schema: |()| json!({ "type": "boolean" }),
    range: |()| None,
};

/// A priority, a factor, a score or a weight.
pub(super) const POINTS: Scalar<Points> = Scalar {
    expected: "a number from 0 to 1000 with at most three decimals",
    bounds: (),
    parse: |value, ()| {
        let points = match value {
            DeValue::Integer(number) if number.radix() == 10 => Points::parse(number.as_str()),
            // As it is written: through binary fractions it would not be what was meant.
            DeValue::Float(number) => Points::parse(number.as_str()),
            _ => None,
        };
        points.ok_or(None)
    },
    schema: |()| json!({ "type": ["number", "integer"], "minimum": 0, "maximum": 1000 }),
    range: |()| Some("0 to 1000, with at most three decimals".to_owned()),
};

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
pub(super) const FILE_TO_READ: Mapped<FileName, NamedFile> = Mapped {
    kind: FileName,
    map: |path, place| NamedFile { path, key: place.key.clone(), at: place.at },
};

/// Any text.
pub(super) const TEXT: Text<String> =
    Text { expected: "a text in quotes", schema: || json!({}), parse: |text| Ok(text.to_owned()) };

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
pub(super) const NETWORK: Network = Network;

/// The same of peers that are believed.
pub(super) const TRUSTED: Trusted = Trusted;

/// The same as a text.
pub(super) const NETWORK_TEXT: Text<IpNet> = Text {
    expected: "an address or a network such as \"10.0.0.0/8\"",
    schema: || json!({ "examples": ["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"] }),
    parse: |text| {
        let one = || text.parse::<IpAddr>().ok().map(IpNet::from);
        text.parse().ok().or_else(one).ok_or(None)
    },
};

/// An address or a network. Host bits, which mean nothing, are told.
pub(super) struct Network;

impl Kind for Network {
    type Value = IpNet;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<IpNet> {
        let network = NETWORK_TEXT.read(value, place)?;
        let whole = network.trunc();
        if whole.addr() != network.addr() {
            let one = IpNet::from(network.addr());
            let key = &place.key;
            place.warn(format!(
                "{key}: {network} stands for all of {whole}: write that if it is meant, or \"{}\" for this address alone",
                one.addr()
            ));
        }
        Some(network)
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        NETWORK_TEXT.schema(definitions)
    }
}

/// The network of peers that are believed. One that has every address in it is told.
pub(super) struct Trusted;

impl Kind for Trusted {
    type Value = IpNet;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<IpNet> {
        let network = NETWORK.read(value, place)?;
        if network.prefix_len() == 0 {
            let key = &place.key;
            place.warn(format!(
                "{key}: {network} is everyone: any client can forge its address by X-Forwarded-For; name the networks of your proxies"
            ));
        }
        Some(network)
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        NETWORK.schema(definitions)
    }
}

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
