//! The kinds of values that only rules have: patterns, extensions, expressions, ranges, flows.

use super::kind::{List, Parsed, Scalar, Text, but_got, one_or_many};
use super::place::{Place, wrong};
use super::quantities::size;
use super::section::{Definitions, Kind};
use super::values::is_token;
use serde_json::{Value as Json, json};
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::pattern::{HostPattern, Pattern};
use tiergate_core::classify::{Matcher, PathRegex, Span};
use toml::de::DeValue;

/// One value or several, of which one is enough.
pub(super) fn any_of<K: Kind>(kind: K) -> List<K> {
    one_or_many(kind, usize::MAX, "alternatives")
        .or_else("must not be empty, or nothing ever matches")
}

/// A pattern for paths.
pub(super) const PATH: Text<Pattern> = Text {
    expected: "a path such as \"/cart/*\"",
    schema: || json!({ "pattern": "^[/*]", "examples": ["/cart", "/cart/*", "/media/**.jpg"] }),
    parse: |text| Pattern::path(text).map_err(|fault| Some(fault.to_string())),
};

/// A pattern for hosts.
pub(super) const HOST: Text<HostPattern> = Text {
    expected: "a host such as \"example.com\" or \"*.example.com\"",
    schema: || json!({ "examples": ["example.com", "*.example.com"] }),
    parse: |text| HostPattern::parse(text).map_err(|fault| Some(fault.to_string())),
};

/// A method.
pub(super) const METHOD: Text<Matcher> = Text {
    expected: "a method such as \"GET\"",
    schema: || json!({ "pattern": "^[!-~]+$", "examples": ["GET", "POST"] }),
    parse: |text| {
        const KNOWN: [&str; 9] =
            ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
        let upper = text.to_ascii_uppercase();
        if text != upper && KNOWN.contains(&&*upper) {
            return Err(Some(format!("must be {upper:?}, because case matters in methods")));
        }
        let separators = [',', '|', ' '];
        let parts: Vec<&str> = upper.split(separators).filter(|it| !it.is_empty()).collect();
        if parts.len() > 1 && parts.iter().all(|it| KNOWN.contains(it)) {
            return Err(Some(format!("must be one method, or a list of them, {parts:?}")));
        }
        is_token(text).then(|| Matcher::Exact(text.into())).ok_or(None)
    },
};

/// A pattern for the values of headers, cookies and parameters.
const VALUE: Text<Pattern> = Text {
    expected: "a pattern such as \"prefetch*\"",
    schema: || json!({ "examples": ["prefetch", "text/*", "*bot*"] }),
    parse: |text| Pattern::value(text).map_err(|fault| Some(fault.to_string())),
};

/// `true` for "present", or patterns.
pub(super) struct Values;

impl Kind for Values {
    type Value = Vec<Pattern>;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Vec<Pattern>> {
        match value {
            DeValue::Boolean(true) => Some(vec![Pattern::Any]),
            DeValue::String(_) | DeValue::Array(_) => any_of(VALUE).plain().read(value, place),
            _ => wrong(value, place, "a pattern, a list of patterns, or true for \"present\""),
        }
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        let text = VALUE.schema(definitions);
        let list = json!({ "type": "array", "items": text, "minItems": 1 });
        json!({ "oneOf": [{ "const": true }, text, list] })
    }
}

/// The extension of a file.
pub(super) const EXTENSION: Text<Matcher> = Text {
    expected: "an extension such as \"cgi\"",
    schema: || json!({ "pattern": "^[^./]+$", "examples": ["cgi", "jpg"] }),
    parse: |text| {
        if let Some(bare) = text.strip_prefix('.').or_else(|| text.strip_prefix("*.")) {
            return Err(Some(format!("must be without the dot, {bare:?}")));
        }
        let parts: Vec<&str> = text.split([',', '|']).map(str::trim).collect();
        if parts.len() > 1 {
            return Err(Some(format!("must be one extension, or a list of them, {parts:?}")));
        }
        let usable = !text.is_empty() && text.len() <= 64 && !text.contains(['.', '/']);
        usable.then(|| Matcher::Caseless(text.into())).ok_or(None)
    },
};

/// A regular expression.
pub(super) const REGEX: Text<PathRegex> = Text {
    expected: "a regular expression such as '^/v[0-9]+/'",
    schema: || json!({ "format": "regex", "maxLength": 1024, "examples": ["^/v[0-9]+/"] }),
    parse: |text| PathRegex::parse(text).map_err(|fault| Some(fault.to_string())),
};

/// A pattern for media types.
pub(super) const MEDIA_TYPE: Text<Pattern> = Text {
    expected: "a media type such as \"application/json\" or \"image/*\"",
    schema: || json!({ "examples": ["application/json", "image/*"] }),
    parse: |text| {
        if text.contains(';') {
            return Err(Some("must be without parameters, because they are ignored".to_owned()));
        }
        if !text.contains(['/', '*']) {
            return Err(None);
        }
        Pattern::value(&text.to_ascii_lowercase()).map_err(|fault| Some(fault.to_string()))
    },
};

/// A host and all below it.
pub(super) const DOMAIN: Text<HostPattern> = Text {
    expected: "a domain such as \"example.com\"",
    schema: || json!({ "examples": ["example.com", "edu"] }),
    parse: |text| HostPattern::domain(text).map_err(|fault| Some(fault.to_string())),
};

/// A country.
pub(super) const COUNTRY: Text<Matcher> = Text {
    expected: "a country of two letters such as \"DE\"",
    schema: || json!({ "pattern": "^[A-Z]{2}$", "examples": ["DE", "US"] }),
    parse: |text| match text.as_bytes() {
        [one, two] if one.is_ascii_uppercase() && two.is_ascii_uppercase() => {
            Ok(Matcher::Exact(text.into()))
        }
        [one, two] if one.is_ascii_alphabetic() && two.is_ascii_alphabetic() => {
            Err(Some("must be in capitals".to_owned()))
        }
        _ => Err(None),
    },
};

/// What fairness is counted by.
pub(super) const FLOW: Text<Flow> = Text {
    expected: "\"client\", \"client/24\", \"client/24/56\", \"cookie:NAME\", \"header:NAME\" or \"subject\"",
    schema: || {
        json!({
            "pattern": "^(client(/[0-9]{1,2}(/[0-9]{1,3})?)?|(cookie|header):.+|subject)$",
            "examples": ["client", "client/24", "cookie:session", "header:x-api-key", "subject"],
        })
    },
    parse: flow,
};

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

/// A number or a range of numbers up to the bound, written as a text with both ends included.
pub(super) type Range = Scalar<Span, u64>;

const RANGE: Range = Scalar {
    expected: "a number or a range of numbers",
    bounds: u64::MAX,
    parse: |value, most| but_got(span(value, *most, plain), value),
    schema: |_| ranges(&[]),
    range: |_| None,
};

/// Bytes.
pub(super) const SIZES: Range = Scalar {
    expected: "a range of sizes such as \"1MiB..\", \"..64KiB\" or \"1KiB..1MiB\"",
    parse: |value, most| {
        but_got(span(value, *most, |text| size(text).or_else(|| plain(text))), value)
    },
    schema: |_| ranges(&["1MiB..", "..64KiB", "1KiB..1MiB"]),
    ..RANGE
};
/// An urgency.
pub(super) const URGENCY: Range = Scalar {
    expected: "an urgency from 0 to 7, or a range such as \"0..2\"",
    bounds: 7,
    schema: |_| ranges(&["0..2"]),
    ..RANGE
};
/// A code point.
pub(super) const DSCP: Range = Scalar {
    expected: "a code point from 0 to 63, or a range such as \"8..15\"",
    bounds: 63,
    schema: |_| ranges(&["8..15"]),
    ..RANGE
};
/// An autonomous system.
pub(super) const ASN: Range = Scalar {
    expected: "a number such as 64500, or a range such as \"64500..64510\"",
    bounds: u32::MAX as u64,
    parse: |value, most| {
        but_got(span(value, *most, |text| plain(text.strip_prefix("AS").unwrap_or(text))), value)
    },
    schema: |_| ranges(&["64500..64510"]),
    ..RANGE
};

fn ranges(examples: &[&str]) -> Json {
    json!({ "type": ["string", "integer"], "minimum": 0, "examples": examples })
}

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
