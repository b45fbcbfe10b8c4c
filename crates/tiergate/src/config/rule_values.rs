//! What stands behind the keys of rules and scores: extensions, expressions, ranges, flows, priorities.

use super::error::{Faults, Place};
use super::quantities::size;
use super::read::{Read, found, wrong};
use super::values::{Parsed, is_token, text};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::pattern::{HostPattern, Pattern};
use tiergate_core::classify::rule::Number;
use tiergate_core::classify::score::Points;
use tiergate_core::classify::{PathRegex, Span};
use toml::de::DeValue;

text!(
    /// The extension of a file.
    ExtensionText(Box<str>),
    "an extension such as \"cgi\"",
    { "type": "string", "pattern": "^[^./]+$", "examples": ["cgi", "jpg"] },
    |text| {
        if let Some(bare) = text.strip_prefix('.').or_else(|| text.strip_prefix("*.")) {
            return Err(Some(format!("must be without the dot, {bare:?}")));
        }
        let usable = !text.is_empty() && text.len() <= 64 && !text.contains(['.', '/']);
        usable.then(|| text.to_ascii_lowercase().into()).ok_or(None)
    }
);

text!(
    /// A regular expression.
    RegexText(PathRegex),
    "a regular expression such as '^/v[0-9]+/'",
    { "type": "string", "format": "regex", "maxLength": 1024, "examples": ["^/v[0-9]+/"] },
    |text| PathRegex::parse(text).map_err(|fault| Some(fault.to_string()))
);

text!(
    /// A pattern for media types.
    MediaText(Pattern),
    "a media type such as \"application/json\" or \"image/*\"",
    { "type": "string", "examples": ["application/json", "image/*"] },
    |text| {
        if text.contains(';') {
            return Err(Some("must be without parameters, because they are not looked at".to_owned()));
        }
        if !text.contains(['/', '*']) {
            return Err(None);
        }
        Pattern::value(&text.to_ascii_lowercase()).map_err(|fault| Some(fault.to_string()))
    }
);

text!(
    /// A host and all below it.
    DomainText(HostPattern),
    "a domain such as \"example.com\"",
    { "type": "string", "examples": ["example.com", "edu"] },
    |text| HostPattern::domain(text).map_err(|fault| Some(fault.to_string()))
);

text!(
    /// A country.
    CountryText(Span),
    "a country of two letters such as \"DE\"",
    { "type": "string", "pattern": "^[A-Z]{2}$", "examples": ["DE", "US"] },
    |text| match text.as_bytes() {
        [one, two] if one.is_ascii_uppercase() && two.is_ascii_uppercase() => {
            Ok(Span::one(Number::country([*one, *two])))
        }
        [one, two] if one.is_ascii_alphabetic() && two.is_ascii_alphabetic() => {
            Err(Some("must be in capitals".to_owned()))
        }
        _ => Err(None),
    }
);

text!(
    /// What fairness is counted by.
    FlowText(Flow),
    "\"client\", \"client/24\", \"client/24/56\", \"cookie:NAME\", \"header:NAME\" or \"subject\"",
    {
        "type": "string",
        "pattern": "^(client(/[0-9]{1,2}(/[0-9]{1,3})?)?|(cookie|header):.+|subject)$",
        "examples": ["client", "client/24", "cookie:session", "header:x-api-key", "subject"]
    },
    flow
);

fn flow(text: &str) -> Parsed<Flow> {
    let named = |name: &str| is_token(name).then(|| name.into()).ok_or(None);
    match text.split_once(':') {
        Some(("cookie", name)) => return named(name).map(Flow::Cookie),
        Some(("header", name)) => return named(name).map(Flow::Header),
        Some(_) => return Err(None),
        None => {}
    }
    let len = |text: &str, max: u8| match text.parse::<u8>() {
        Ok(len) if len <= max => Ok(len),
        Ok(_) => Err(Some(format!("must name at most {max} bits"))),
        Err(_) => Err(None),
    };
    let parts: Vec<&str> = text.split('/').collect();
    match parts[..] {
        ["client"] => Ok(Flow::CLIENT),
        ["client", v4] => Ok(Flow::Client { v4: len(v4, 32)?, v6: 64 }),
        ["client", v4, v6] => Ok(Flow::Client { v4: len(v4, 32)?, v6: len(v6, 128)? }),
        ["subject"] => Ok(Flow::Subject),
        _ => Err(None),
    }
}

/// Defines a number or a range of numbers, written as a text with both ends included.
macro_rules! range {
    ($(#[$about:meta])* $Name:ident, $most:expr, $expected:literal, $examples:tt, $number:expr) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $Name(pub Span);

        impl Read for $Name {
            fn read(value: &DeValue<'_>, place: &Place, faults: &mut Faults) -> Option<Self> {
                match span(value, $most, $number) {
                    Ok(span) => Some($Name(span)),
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
                json_schema!({ "type": ["string", "integer"], "minimum": 0, "examples": $examples })
            }
        }
    };
}

range!(
    /// Bytes.
    SizeRange, u64::MAX, "a range of sizes such as \"1MiB..\", \"..64KiB\" or \"1KiB..1MiB\"",
    ["1MiB..", "..64KiB", "1KiB..1MiB"],
    |text| size(text).or_else(|| plain(text))
);
range!(
    /// An urgency.
    UrgencyRange, 7, "an urgency from 0 to 7, or a range such as \"0..2\"", [5, "0..2"], plain
);
range!(
    /// A code point.
    DscpRange, 63, "a code point from 0 to 63, or a range such as \"8..15\"", [46, "8..15"], plain
);
range!(
    /// An autonomous system.
    AsnRange, u32::MAX.into(), "a number such as 64500, or a range such as \"64500..64510\"",
    [64500, "64500..64510"],
    |text| plain(text.strip_prefix("AS").unwrap_or(text))
);

fn plain(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn span(value: &DeValue<'_>, most: u64, number: fn(&str) -> Option<u64>) -> Parsed<Span> {
    let text = match value {
        DeValue::String(text) => text.as_ref(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
        _ => return Err(None),
    };
    let (first, last) = match text.split_once("..") {
        Some(("", "")) => return Err(None),
        Some(ends) => ends,
        None => (text, text),
    };
    let end = |text: &str, open: u64| match text.trim() {
        "" => Ok(open),
        text => number(text).ok_or(None),
    };
    let span = Span { first: end(first, 0)?, last: end(last, most)? };
    if span.last > most {
        return Err(Some(format!("must be at most {most}")));
    }
    if span.first > span.last {
        return Err(Some("must begin below its end".to_owned()));
    }
    Ok(span)
}

/// A priority, a factor or a score.
#[derive(Clone, Copy, Debug)]
pub(super) struct PointsNumber(pub Points);

impl Read for PointsNumber {
    fn read(value: &DeValue<'_>, place: &Place, faults: &mut Faults) -> Option<Self> {
        let points = match value {
            DeValue::Integer(number) if number.radix() == 10 => Points::parse(number.as_str()),
            // As it is written: what goes through binary fractions is not what was meant.
            DeValue::Float(number) => Points::parse(number.as_str()),
            _ => None,
        };
        let expected = "a number from 0 to 1000 with at most three decimals";
        points.map(PointsNumber).or_else(|| wrong(value, place, expected, faults))
    }
}

impl JsonSchema for PointsNumber {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Points".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["number", "integer"], "minimum": 0, "maximum": 1000 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_read_as_they_are_written() {
        for text in ["client", "client/24", "client/0/48", "cookie:sid", "header:x-key", "subject"]
        {
            assert_eq!(flow(text).unwrap().to_string(), text);
        }
        assert_eq!(flow("client/32/64"), Ok(Flow::CLIENT));
        for wrong in ["", "ip", "client/", "client/33", "client/24/129", "client/1/2/3", "cookie:"]
        {
            assert!(flow(wrong).is_err(), "{wrong}");
        }
    }
}
