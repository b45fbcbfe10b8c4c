//! What stands behind the keys: times, sizes, shares, addresses, patterns, choices.

use super::error::{Faults, Place, instead};
use super::meant::{ClientCertificate, LogFormat, RefusalConnection, Server};
use super::quantities::{decimal, rate, size, time};
use super::read::{At, Read, found, wrong};
use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use tiergate_core::admit::bucket::Rate;
use toml::de::DeValue;

/// What a text is read as, or what is wrong with it: nothing, if it is simply not what is expected.
pub(super) type Parsed<T> = Result<T, Option<String>>;

/// Defines a value that is written as a text: what is expected, its part of the schema, and how it is
/// read.
macro_rules! text {
    ($(#[$about:meta])* $Name:ident($Inner:ty), $expected:literal, $schema:tt, $parse:expr) => {
        $(#[$about])*
        #[derive(Clone, Debug)]
        pub(super) struct $Name(pub $Inner);

        impl Read for $Name {
            fn read(value: &DeValue<'_>, place: &Place, faults: &mut Faults) -> Option<Self> {
                let DeValue::String(text) = value else {
                    return wrong(value, place, $expected, faults);
                };
                let parse: fn(&str) -> Parsed<$Inner> = $parse;
                match parse(text) {
                    Ok(inner) => Some($Name(inner)),
                    Err(None) => wrong(value, place, $expected, faults),
                    Err(Some(fault)) => {
                        faults.add(place, format!("{fault}, got {}", found(value)));
                        None
                    }
                }
            }
        }

        impl JsonSchema for $Name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($Name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

text!(
    /// `127.0.0.1:8080`, `[::]:443`.
    Address(SocketAddr),
    "an address and port such as \"0.0.0.0:80\" or \"[::]:443\"",
    { "type": "string", "pattern": "^.+:[0-9]{1,5}$", "examples": ["0.0.0.0:80", "[::]:443"] },
    |text| text.parse().map_err(|_| None)
);

text!(
    /// `10.0.0.0/8`, `192.0.2.7`, `2001:db8::/32`.
    Network(IpNet),
    "an address or a network such as \"10.0.0.0/8\"",
    { "type": "string", "examples": ["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"] },
    |text| {
        let one = || text.parse::<IpAddr>().ok().map(IpNet::from);
        text.parse().ok().or_else(one).ok_or(None)
    }
);

text!(
    /// `http://host:port`, `host:port`, `unix:/path`.
    ServerText(Server),
    "a server such as \"127.0.0.1:8080\", \"http://app.internal:8080\" or \"unix:/run/app.sock\"",
    { "type": "string", "examples": ["127.0.0.1:8080", "http://app.internal", "unix:/run/app.sock"] },
    server
);

text!(
    /// A time.
    Time(Duration),
    "a time such as \"250ms\", \"2s\" or \"1m\"",
    { "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(ms|s|m|h)$", "examples": ["250ms", "2s", "1m"] },
    |text| time(text).ok_or(None)
);

text!(
    /// A share, 0.0 to 1.0.
    Share(f64),
    "a share from \"0%\" to \"100%\"",
    { "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?%$", "examples": ["10%"] },
    |text| {
        let number = text.strip_suffix('%').and_then(decimal);
        number.filter(|number| *number <= 100.0).map(|number| number / 100.0).ok_or(None)
    }
);

text!(
    /// A file; relative ones are taken from the policy file's directory.
    File(PathBuf),
    "the name of a file",
    { "type": "string", "minLength": 1 },
    |text| {
        let usable = !text.is_empty() && !text.contains('\0');
        usable.then(|| PathBuf::from(text)).ok_or(None)
    }
);

/// Bytes: `"16KiB"`, or a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size(pub u64);

impl Read for Size {
    fn read(value: &DeValue<'_>, place: &Place, faults: &mut Faults) -> Option<Self> {
        let size = match value {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            DeValue::String(text) => size(text),
            _ => None,
        };
        let expected = "a size such as \"16KiB\" or \"1GiB\", or a number of bytes";
        size.map(Size).or_else(|| wrong(value, place, expected, faults))
    }
}

impl JsonSchema for Size {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "minimum": 0,
            "pattern": "^[0-9]+(B|KiB|MiB|GiB|kB|MB|GB)$",
            "examples": ["16KiB", "1GiB"],
        })
    }
}

/// `"adaptive"`, or how many.
#[derive(Clone, Copy, Debug)]
pub(super) enum SlotsText {
    Adaptive,
    Fixed(u64),
}

impl Read for SlotsText {
    fn read(value: &DeValue<'_>, place: &Place, faults: &mut Faults) -> Option<Self> {
        let slots = match value {
            DeValue::String(text) if text == "adaptive" => Some(SlotsText::Adaptive),
            DeValue::Integer(number) => {
                u64::from_str_radix(number.as_str(), number.radix()).ok().map(SlotsText::Fixed)
            }
            _ => None,
        };
        slots.or_else(|| wrong(value, place, "\"adaptive\" or a number of requests", faults))
    }
}

impl JsonSchema for SlotsText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Slots".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [
            { "const": "adaptive" },
            { "type": "integer", "minimum": 1, "maximum": super::defaults::SLOTS_MAX },
        ] })
    }
}

/// An address, or `false` for nowhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddressOrNowhere(pub Option<SocketAddr>);

impl Read for AddressOrNowhere {
    fn read(value: &DeValue<'_>, place: &Place, faults: &mut Faults) -> Option<Self> {
        match value {
            DeValue::Boolean(false) => Some(AddressOrNowhere(None)),
            DeValue::String(_) => {
                Address::read(value, place, faults).map(|address| AddressOrNowhere(Some(address.0)))
            }
            _ => wrong(value, place, "an address and port, or false", faults),
        }
    }
}

impl JsonSchema for AddressOrNowhere {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AddressOrNowhere".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [ { "const": false }, Address::json_schema(generator) ] })
    }
}

pub(super) use text;

/// Defines how a closed choice is written.
macro_rules! choice {
    ($Name:ident($Inner:ty): $( $text:literal => $value:expr ),*) => {
        /// One of a closed list of words.
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $Name(pub $Inner);

        impl Read for $Name {
            fn read(value: &DeValue<'_>, place: &Place, faults: &mut Faults) -> Option<Self> {
                let text = String::read(value, place, faults)?;
                match text.as_str() {
                    $( $text => Some($Name($value)), )*
                    other => {
                        let instead = instead(other, [$( $text ),*].into_iter());
                        let other = super::error::shortened(other);
                        faults.add(place, format!("unknown word {other:?}{instead}"));
                        None
                    }
                }
            }
        }

        impl JsonSchema for $Name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($Name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "enum": [$( $text ),*] })
            }
        }
    };
}

pub(super) use choice;

text!(
    /// A rate: `60/s`, `1.5/h`, `10 per minute`.
    RateText(Rate),
    "a rate such as \"60/s\", \"10/m\" or \"10 per minute\"",
    {
        "type": "string",
        "pattern": "^[0-9]+(\\.[0-9]{1,3})? *(/|per ) *(s|second|m|minute|h|hour|d|day)$",
        "examples": ["60/s", "10/m", "10 per minute"]
    },
    rate
);

choice!(PerText(PerWhat):
    "rule" => PerWhat::Rule,
    "flow" => PerWhat::Flow);

/// What has a token bucket of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PerWhat {
    Rule,
    Flow,
}

choice!(Connection(RefusalConnection):
    "keep" => RefusalConnection::Keep,
    "close" => RefusalConnection::Close,
    "reset" => RefusalConnection::Reset);

choice!(ShutText(RefusalConnection):
    "close" => RefusalConnection::Close,
    "reset" => RefusalConnection::Reset);

choice!(ClientText(ClientCertificate):
    "optional" => ClientCertificate::Optional,
    "required" => ClientCertificate::Required);

choice!(Format(LogFormat):
    "json" => LogFormat::Json,
    "combined" => LogFormat::Combined);

/// A list of networks.
pub(super) type Networks = Vec<At<Network>>;

/// Whether a text can be the name of a header, a method or a cookie (RFC 9110 §5.6.2).
pub(super) fn is_token(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.len() <= 256 && text.bytes().all(letter)
}

/// Reads the address of an origin server.
pub(super) fn server(text: &str) -> Parsed<Server> {
    let fault = |message: &str| Err(Some(message.to_owned()));
    if let Some(path) = text.strip_prefix("unix:") {
        // The kernel's bound on the name of a UNIX socket, with its final NUL.
        let usable = path.starts_with('/') && path.len() < 108 && !path.contains('\0');
        return match usable {
            true => Ok(Server::Unix(path.into())),
            false => fault("must be \"unix:\" and an absolute path below 108 bytes"),
        };
    }
    if text.starts_with("https://") {
        return fault("must not be https, because origins are spoken to in plain HTTP");
    }
    let (rest, default_port) = match text.strip_prefix("http://") {
        Some(rest) => (rest.strip_suffix('/').unwrap_or(rest), Some(80)),
        None => (text, None),
    };
    if rest.contains('/') {
        return fault("must not have a path");
    }
    // The last colon, unless it is inside the brackets of an IPv6 address.
    let (host, port) = match rest.rfind(':').filter(|colon| rest[*colon..].find(']').is_none()) {
        Some(colon) => (&rest[..colon], rest[colon + 1..].parse::<u16>().ok()),
        None => (rest, default_port),
    };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = match inner {
        Some(address) => address.parse::<std::net::Ipv6Addr>().ok().map(|_| address),
        None => {
            let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            (!host.is_empty() && host.len() <= 253 && host.bytes().all(letter)).then_some(host)
        }
    };
    let port = port.filter(|port| *port > 0);
    host.zip(port).map(|(host, port)| Server::Tcp(host.to_owned(), port)).ok_or(None)
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

    #[test]
    fn servers() {
        let tcp = |host: &str, port| Ok(Server::Tcp(host.to_owned(), port));
        assert_eq!(server("10.0.0.5:8080"), tcp("10.0.0.5", 8080));
        assert_eq!(server("http://app.internal:81/"), tcp("app.internal", 81));
        assert_eq!(server("http://app"), tcp("app", 80));
        assert_eq!(server("[::1]:9000"), tcp("::1", 9000));
        assert_eq!(server("http://[::1]"), tcp("::1", 80));
        assert_eq!(server("unix:/run/a.sock"), Ok(Server::Unix("/run/a.sock".into())));
        for wrong in [
            "",
            "app",
            "app:",
            "app:0",
            "app:99999",
            ":80",
            "::1:80",
            "[::1]",
            "http://a/b",
            "https://a",
            "unix:a.sock",
            "a b:80",
            "[x]:80",
            "ftp://a:1",
        ] {
            assert!(server(wrong).is_err(), "{wrong}");
        }
    }
}
