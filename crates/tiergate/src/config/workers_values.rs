//! The kinds of values that only `workers` has: nice values, real-time priorities, places at the disk, quotas.

use super::kind::{Parsed, Scalar, Text};
use super::quantities::decimal;
use serde_json::json;
use tiergate_core::workers::{Io, Scheduling};
use toml::de::DeValue;

/// A nice value.
pub(super) const NICE: Scalar<i8> = Scalar {
    expected: "a whole number from -20 to 19",
    bounds: (),
    parse: |value, ()| {
        let number = match value {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse::<i8>().ok(),
            _ => None,
        };
        number.filter(|number| (-20..=19).contains(number)).ok_or(None)
    },
    schema: |()| json!({ "type": "integer", "minimum": -20, "maximum": 19 }),
    range: |()| Some("-20 to 19".to_owned()),
};

/// `"idle"`, or `"fifo:10"`.
pub(super) const REALTIME: Text<Scheduling> = Text {
    expected: "\"idle\", \"fifo:1\" to \"fifo:99\", or { slice, period, extra }",
    schema: || json!({ "pattern": "^(idle|fifo:[0-9]{1,2})$", "examples": ["idle", "fifo:10"] }),
    parse: |text| match text.split_once(':') {
        None if text == "idle" => Ok(Scheduling::Idle),
        Some(("fifo", priority)) => {
            let priority = digits(priority).filter(|it| (1..=99).contains(it));
            priority.map(Scheduling::Fifo).ok_or(None)
        }
        _ => Err(None),
    },
};

/// `"idle"`, `"best-effort:4"`, `"realtime:0"`.
pub(super) const IO: Text<Io> = Text {
    expected: "\"idle\", or \"best-effort:\" or \"realtime:\" and a number from 0 to 7",
    schema: || json!({ "pattern": "^(idle|(best-effort|realtime):[0-7])$" }),
    parse: io,
};

fn io(text: &str) -> Parsed<Io> {
    if text == "idle" {
        return Ok(Io::Idle);
    }
    let (class, level) = text.split_once(':').ok_or(None)?;
    let level = digits(level).filter(|level| *level <= 7).ok_or(None)?;
    match class {
        "best-effort" => Ok(Io::BestEffort(level)),
        "realtime" => Ok(Io::Realtime(level)),
        _ => Err(None),
    }
}

/// A part of the processors; 1.0 is one of them.
pub(super) const QUOTA: Text<f64> = Text {
    expected: "a part of the processors from \"1%\" to \"100000%\"",
    schema: || json!({ "pattern": "^[0-9]+(\\.[0-9]+)?%$", "examples": ["50%", "200%"] }),
    parse: |text| {
        let number = text.strip_suffix('%').and_then(decimal);
        let number = number.filter(|number| (1.0..=100_000.0).contains(number));
        number.map(|number| number / 100.0).ok_or(None)
    },
};

/// One or two digits as a number.
fn digits(text: &str) -> Option<u8> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}
