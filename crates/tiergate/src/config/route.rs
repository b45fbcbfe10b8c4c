//! Where a rule or a class sends its requests: the value of `pool`.

use super::kind::Named;
use super::place::{At, Place, wrong};
use super::pool::Pools;
use super::section::{Definitions, Kind};
use super::values::whole;
use serde_json::{Value as Json, json};
use tiergate_core::names::{PoolId, Route};
use tiergate_core::plan::{Plan, Split};
use toml::de::DeValue;

/// Greatest weight.
const WEIGHT_MAX: u64 = 1_000_000;

/// As written: one pool, or several with their weights.
#[derive(Clone, Debug)]
pub(super) enum To {
    One(String),
    Several(Vec<(String, At<u32>)>),
}

/// The name of a pool, or `{ name = weight, … }`.
pub(super) struct ToKind;

impl Kind for ToKind {
    type Value = To;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<To> {
        match value {
            DeValue::String(name) => Some(To::One(name.to_string())),
            DeValue::Table(table) => {
                let read = Named(whole(0..=WEIGHT_MAX)).read(value, place)?;
                // One that is wrong has been reported.
                (read.len() == table.len()).then_some(To::Several(read))
            }
            _ => wrong(value, place, "a pool, or pools with weights: { stable = 95, canary = 5 }"),
        }
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        let several = Named(whole::<u32>(0..=WEIGHT_MAX)).schema(definitions);
        json!({ "oneOf": [{ "type": "string" }, several] })
    }
}

/// The route as meant; reports pools that do not exist, and weights that are none.
pub(super) fn route(to: &To, pools: &Pools, place: &Place) -> Option<Route> {
    let several = match to {
        To::One(name) => return pools.named(name, place).map(Route::Pool),
        To::Several(several) => several,
    };
    if several.is_empty() || several.len() > Split::PARTS_MAX {
        let (most, got) = (Split::PARTS_MAX, several.len());
        place.fault(format!("must name 1 to {most} pools, got {got}"));
        return None;
    }
    let part = |(name, weight): &(String, At<u32>)| {
        pools.named(name, &weight.place).map(|pool| (pool, weight.value))
    };
    let mut parts: Vec<_> = several.iter().filter_map(part).collect();
    if parts.len() < several.len() {
        return None;
    }
    if parts.iter().all(|(_, weight)| *weight == 0) {
        place.fault("must have a weight of more than 0");
        return None;
    }
    // The order makes no difference, so that equal ones are one.
    parts.sort_unstable();
    pools.splits.route(Split { parts }, place)
}

/// A route in words: `reports`, or `stable 95 %, canary 5 %`.
pub(crate) fn words(route: Route, plan: &Plan) -> String {
    let name = |pool| plan.pool_name(pool).unwrap_or_default();
    match route {
        Route::Pool(pool) => name(pool).to_owned(),
        Route::Split(split) => {
            let parts = plan.split(split).map_or(&[][..], |split| &split.parts);
            let all: u64 = parts.iter().map(|(_, weight)| u64::from(*weight)).sum();
            let percent = |weight: u32| {
                let percent = 100.0 * f64::from(weight) / all.max(1) as f64;
                // No more digits than say something.
                format!("{percent:.2}").trim_end_matches('0').trim_end_matches('.').to_owned()
            };
            let part =
                |(pool, weight): &(PoolId, u32)| format!("{} {} %", name(*pool), percent(*weight));
            parts.iter().map(part).collect::<Vec<_>>().join(", ")
        }
    }
}
