//! `adaptation.cost`: what requests take of what a sensor measures.

use super::kind::{Parsed, Text};
use super::place::Place;
use super::quantities::decimal;
use super::section::{Kind, section};
use serde_json::json;
use tiergate_core::adapt::Costs;

section! {
    /// What requests take of the server, as times of all that the sensor measures: at `"2ms"`, 500 a second take all of
    /// it.
    pub(super) struct CostKeys {
        /// A request of full quality, apart from the bytes of its answer.
        request: Option<f64> = COST.required("write request = \"2ms\"; `/status` has what was measured");
        /// A MiB of answers.
        mebibyte: Option<f64> = COST.optional("nothing");
        /// A refusal.
        /// Why: a gateway's refusals take nothing of an origin's processors.
        refusal: Option<f64> = COST.optional("nothing");
    }
}

/// Seconds.
const COST: Text<f64> = Text {
    expected: "a time such as \"1.6ms\" or \"40us\"",
    schema: || json!({ "pattern": "^[0-9]+(\\.[0-9]+)?(us|ms|s)$", "examples": ["1.6ms", "40us"] }),
    parse: cost,
};

fn cost(text: &str) -> Parsed<f64> {
    let unit_at = text.find(|letter: char| letter.is_ascii_alphabetic()).ok_or(None)?;
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(None),
    };
    let value = decimal(number).ok_or(None)? * seconds;
    match value <= COST_MAX {
        true => Ok(value),
        false => Err(Some("must be at most \"1000s\"".to_owned())),
    }
}

const COST_MAX: f64 = 1000.0;

/// What requests cost. Reports costs that are nothing.
pub(super) fn costs(raw: &CostKeys, place: &Place) -> Option<Costs> {
    let costs = Costs {
        request: raw.request?,
        mebibyte: raw.mebibyte.unwrap_or_default(),
        refusal: raw.refusal.unwrap_or_default(),
    };
    if let Err(fault) = costs.check() {
        place.fault(fault);
        return None;
    }
    Some(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_times() {
        assert_eq!(cost("1.6ms"), Ok(1.6e-3));
        assert_eq!(cost("0ms"), Ok(0.0));
        for wrong in ["", "1", "ms", "1m", "-1ms", "1.ms", ".5ms"] {
            assert_eq!(cost(wrong), Err(None), "{wrong}");
        }
    }
}
