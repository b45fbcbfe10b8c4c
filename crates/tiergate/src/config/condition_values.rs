//! How the alternatives of conditions are written: paths, hosts, expressions, ranges.

use super::error::{Faults, Place};
use super::quantities::size;
use super::read::{OneOrMany, Read, found, wrong};
use super::values::{Network, Parsed, is_token, text};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use tiergate_core::classify::pattern::{HostPattern, Pattern};
use tiergate_core::classify::{Matcher, PathRegex, Span};
use toml::de::DeValue;

text!(
    /// A pattern for paths.
    PathText(Pattern),
    "a path such as \"/cart/*\"",
    { "type": "string", "pattern": "^[/*]", "examples": ["/cart", "/cart/*", "/media/**.jpg"] },
    |text| Pattern::path(text).map_err(|fault| Some(fault.to_string()))
);

text!(
    /// A pattern for hosts.
    HostText(HostPattern),
    "a host such as \"example.com\" or \"*.example.com\"",
    { "type": "string", "examples": ["example.com", "*.example.com"] },
    |text| HostPattern::parse(text).map_err(|fault| Some(fault.to_string()))
);

text!(
    /// A method.
    MethodText(Matcher),
    "a method such as \"GET\"",
    { "type": "string", "pattern": "^[!-~]+$", "examples": ["GET", "POST"] },
    |text| {
        const KNOWN: [&str; 9] =
            ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
        let upper = text.to_ascii_uppercase();
        if text != upper && KNOWN.contains(&&*upper) {
            return Err(Some(format!("must be {upper:?}, because case matters in methods")));
        }
        is_token(text).then(|| Matcher::Exact(text.into())).ok_or(None)
    }
);

text!(
    /// A pattern for the values of headers and cookies.
    ValueText(Pattern),
    "a pattern such as \"prefetch*\"",
    { "type": "string", "examples": ["prefetch", "text/*", "*bot*"] },
    |text| Pattern::value(text).map_err(|fault| Some(fault.to_string()))
);

text!(
    /// The extension of a file.
    ExtensionText(Matcher),
    "an extension such as \"cgi\"",
    { "type": "string", "pattern": "^[^./]+$", "examples": ["cgi", "jpg"] },
    |text| {
        if let Some(bare) = text.strip_prefix('.').or_else(|| text.strip_prefix("*.")) {
            return Err(Some(format!("must be without the dot, {bare:?}")));
        }
        let usable = !text.is_empty() && text.len() <= 64 && !text.contains(['.', '/']);
        usable.then(|| Matcher::Caseless(text.into())).ok_or(None)
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
    CountryText(Matcher),
    "a country of two letters such as \"DE\"",
    { "type": "string", "pattern": "^[A-Z]{2}$", "examples": ["DE", "US"] },
    |text| match text.as_bytes() {
        [one, two] if one.is_ascii_uppercase() && two.is_ascii_uppercase() => {
            Ok(Matcher::Exact(text.into()))
        }
        [one, two] if one.is_ascii_alphabetic() && two.is_ascii_alphabetic() => {
            Err(Some("must be in capitals".to_owned()))
        }
        _ => Err(None),
    }
);

/// What the value of a header, say, must be: `true` for present, or patterns.
#[derive(Clone, Debug)]
pub(super) struct Values(Vec<Pattern>);

impl Read for Values {
    fn read(value: &DeValue<'_>, place: &Place, faults: &mut Faults) -> Option<Self> {
        match value {
            DeValue::Boolean(true) => Some(Values(vec![Pattern::Any])),
            DeValue::String(_) | DeValue::Array(_) => {
                let texts = OneOrMany::<ValueText>::read(value, place, faults)?.into_vec();
                Some(Values(texts.into_iter().map(|text| text.0).collect()))
            }
            _ => wrong(
                value,
                place,
                "a pattern, a list of patterns, or true for \"present\"",
                faults,
            ),
        }
    }
}

impl Values {
    /// The patterns as alternatives.
    pub(super) fn matchers(self) -> Vec<Matcher> {
        self.0.into_iter().map(Matcher::from).collect()
    }
}

impl JsonSchema for Values {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Values".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let text = ValueText::json_schema(generator);
        json_schema!({ "oneOf": [
            { "const": true },
            text,
            { "type": "array", "items": text, "minItems": 1 },
        ] })
    }
}

/// Makes matchers of what the texts stand for.
macro_rules! matchers {
    ($( $Name:ident ),*) => {
        $( impl From<$Name> for Matcher {
            fn from(alternative: $Name) -> Self {
                alternative.0.into()
            }
        } )*
    };
}

matchers!(
    PathText,
    HostText,
    MethodText,
    ExtensionText,
    RegexText,
    MediaText,
    DomainText,
    CountryText
);
matchers!(Network, SizeRange, UrgencyRange, DscpRange, AsnRange);

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
