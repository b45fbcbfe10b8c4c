//! The JSON schema of policy files and the tables of the reference page, from the declarations of the
//! tables.

use super::policy::Root;
use super::section::{Definitions, KeyDoc, Section};
use std::collections::{BTreeMap, BTreeSet};

/// The schema, as a text that ends in a line break. The same for every run of one version.
pub fn schema() -> String {
    let mut definitions = Definitions::default();
    let mut schema = definitions.define::<Root>();
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "Tiergate policy".into();
    schema["$defs"] = definitions.schemas.into_iter().collect();
    let text = serde_json::to_string_pretty(&schema).expect("a JSON value is always written");
    text + "\n"
}

/// The reference page with its tables of keys made anew: what is between `<!-- keys of NAME -->`, or
/// `<!-- keys of NAME: first, second -->` for some keys alone, and `<!-- end -->`.
///
/// # Panics
/// When a mark has no end or names what does not exist, or marks with some keys of a table leave out others.
pub fn reference(page: &str) -> String {
    let definitions = definitions();
    let mut written = String::new();
    let mut rest = page;
    let mut listed: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    while let Some((before, after)) = rest.split_once("<!-- keys of ") {
        let (mark, after) = after.split_once(" -->").expect("a mark is closed");
        let (_, after) = after.split_once("<!-- end -->").expect("a table of keys has an end");
        let (name, only) = mark.split_once(": ").unwrap_or((mark, ""));
        let only: Vec<&str> = only.split(", ").filter(|key| !key.is_empty()).collect();
        let keys = definitions.keys.get(name).expect("a mark names a table");
        let known = |key: &&str| keys.iter().any(|known| known.name == *key);
        assert!(only.iter().all(known), "{name} has not all of {only:?}");
        if !only.is_empty() {
            listed.entry(name).or_default().extend(only.iter().copied());
        }
        let shown = keys.iter().filter(|key| only.is_empty() || only.contains(&key.name));
        let table = rows(&shown.collect::<Vec<_>>());
        written += &format!("{before}<!-- keys of {mark} -->\n{table}<!-- end -->");
        rest = after;
    }
    // Those of the whole file have sections of their own.
    for (name, listed) in listed.into_iter().filter(|(name, _)| *name != Root::NAME) {
        let mut keys = definitions.keys[name].iter().map(|key| key.name);
        let left_out = keys.find(|key| !listed.contains(key));
        assert!(left_out.is_none(), "no mark of {name} has {left_out:?}");
    }
    written + rest
}

/// A table of keys; columns that would be empty are left out.
fn rows(keys: &[&KeyDoc]) -> String {
    let has_default = keys.iter().any(|key| key.default.as_deref() != Some(""));
    let has_why = keys.iter().any(|key| !key.why.is_empty());
    let columns = 2 + usize::from(has_default) + usize::from(has_default && has_why);
    let heads = ["key", "meaning", "default", "why"];
    let line = |cells: &[&str]| format!("| {} |\n", cells[..columns].join(" | "));
    let mut table = line(&heads) + &format!("|{}\n", "---|".repeat(columns));
    for key in keys {
        let name = format!("`{}`", key.name);
        let range = key.range.as_ref().map_or(String::new(), |range| format!(" ({range})"));
        let meaning = key.meaning.trim_end_matches('.').to_owned() + &range;
        let default = key.default.as_deref().unwrap_or("must be given");
        table +=
            &line(&[&name, &meaning.replace('|', "\\|"), default, key.why.trim_end_matches('.')]);
    }
    table
}

/// Every table, with its keys.
fn definitions() -> Definitions {
    let mut definitions = Definitions::default();
    definitions.define::<Root>();
    definitions
}

/// The names of all tables.
pub fn tables() -> Vec<&'static str> {
    let definitions = definitions();
    definitions.keys.keys().copied().filter(|name| *name != Root::NAME).collect()
}
