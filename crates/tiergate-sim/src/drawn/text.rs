//! A drawn scenario as a file that can be run by itself.

use super::draw::Drawn;
use crate::client::{Arrivals, Population, Profile};
use crate::scenario::{ClassShape, Scenario};
use crate::server::Shape;
use serde::Serialize;
use toml::{Table, Value};

/// The scenario as TOML, without what is as by default. `right`: the number of slots that is, if there is one.
///
/// # Panics
/// If the scenario is none that can be written: it replays a log.
pub fn toml(drawn: &Drawn, right: Option<u32>) -> String {
    let scenario = Scenario { right, ..drawn.scenario.clone() };
    let mut whole = table(&scenario);
    let default = Scenario { limit: scenario.limit, ..Scenario::default() };
    prune(&mut whole, &table(&default), &["about", "limit", "seconds"]);
    if let Some(Value::Table(server)) = whole.get_mut("server") {
        prune(server, &table(&Shape::default()), &[]);
    }
    let class = ClassShape { name: String::new(), ..scenario.class[0].clone() };
    each(&mut whole, "class", &table(&class), &["name", "deadline_ms", "queue_len_max"]);
    let patience_ms = -1.0;
    let nobody = Population::of("", Arrivals::Poisson { rate: Profile::Flat(0.0) }, patience_ms);
    each(&mut whole, "population", &table(&nobody), &["class"]);
    toml::to_string(&whole).expect("tables of plain values can be written")
}

fn table(of: &impl Serialize) -> Table {
    Table::try_from(of).expect("a scenario is plain values")
}

fn each(whole: &mut Table, list: &str, default: &Table, keep: &[&str]) {
    let Some(Value::Array(all)) = whole.get_mut(list) else { return };
    for entry in all {
        if let Value::Table(entry) = entry {
            prune(entry, default, keep);
        }
    }
}

/// Takes away what is as by default.
fn prune(of: &mut Table, default: &Table, keep: &[&str]) {
    of.retain(|key, value| keep.contains(&key) || default.get(key) != Some(value));
}
