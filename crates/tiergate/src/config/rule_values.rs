//! The values of rules and scores: flows and priorities.

use super::error::{Faults, Place};
use super::read::{Read, found, wrong};
use super::values::{Parsed, is_token, text};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::score::Points;
use toml::de::DeValue;

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
