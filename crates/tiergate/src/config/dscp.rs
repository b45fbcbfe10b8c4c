//! Code points of packets: their names and numbers.

use super::kind::{Parsed, Scalar};
use serde_json::json;
use toml::de::DeValue;

/// Highest code point: it has six bits (RFC 2474 §3).
const MAX: u8 = 63;

/// Names of code points: RFC 2474 §4.2.2 (class selectors), RFC 2597 §6 (assured forwarding), RFC 3246 §2.7 (expedited
/// forwarding), RFC 5865 (voice admit), RFC 8622 (lower effort); RFC 4594 says what each is for.
const NAMES: [(&str, u8); 23] = [
    ("cs0", 0),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("va", 44),
    ("ef", 46),
    ("le", 1),
];

/// A code point: a name or a number.
pub(super) const MARK: Scalar<u8> = Scalar {
    expected: "a code point such as \"af41\", \"ef\", \"cs1\" or \"le\", or a number from 0 to 63",
    bounds: (),
    parse: |value, ()| parse(value),
    schema: |()| {
        let names = NAMES.map(|(name, _)| name);
        json!({ "anyOf": [{ "enum": names }, { "type": "integer", "minimum": 0, "maximum": MAX }] })
    },
    range: |()| None,
};

fn parse(value: &DeValue<'_>) -> Parsed<u8> {
    match value {
        DeValue::String(text) => {
            let name = |(name, _): &&(&str, u8)| text.eq_ignore_ascii_case(name);
            NAMES.iter().find(name).map(|(_, dscp)| *dscp).ok_or(None)
        }
        DeValue::Integer(number) if number.radix() == 10 => {
            let dscp = number.as_str().parse().ok().filter(|dscp| *dscp <= MAX);
            dscp.ok_or(None)
        }
        _ => Err(None),
    }
}

/// The name of a code point, or else its number.
pub(super) fn shown(dscp: u8) -> String {
    match NAMES.iter().find(|(_, named)| *named == dscp) {
        Some((name, _)) => format!("{name} ({dscp})"),
        None => dscp.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_that_made_them() {
        for (name, dscp) in NAMES {
            let digits: Vec<u8> =
                name.bytes().filter(u8::is_ascii_digit).map(|it| it - b'0').collect();
            let expected = match (&name[..2], &digits[..]) {
                ("cs", [class]) => 8 * class,
                // RFC 2597 §6: the class, then the drop precedence.
                ("af", [class, drop]) => 8 * class + 2 * drop,
                ("ef", _) => 0b10_1110,
                ("va", _) => 0b10_1100,
                ("le", _) => 1,
                _ => panic!("{name}"),
            };
            assert_eq!(dscp, expected, "{name}");
        }
        assert_eq!(
            [shown(34), shown(46), shown(0), shown(3)],
            ["af41 (34)", "ef (46)", "cs0 (0)", "3"]
        );
    }
}
