//! Tiergate with a feature switched off: the same configuration, less something.
//!
//! A promise that holds all the same proves nothing.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use toml::{Table, Value};

/// More requests at once than any experiment has: a limit that never binds.
const UNLIMITED: i64 = 100_000;

/// What is changed in a configuration to switch a feature off.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Off {
    /// Keys that are left out, as `session` or `rule.cookie`; in a list of tables, of each.
    #[serde(default)]
    remove: Vec<String>,
    /// Keys that get another value.
    #[serde(default)]
    set: Table,
}

impl Default for Off {
    /// No limit: every request is forwarded at once, so that none waits, and no order, deadline or class matters.
    fn default() -> Self {
        let origin = Table::from_iter([("slots".to_owned(), Value::Integer(UNLIMITED))]);
        Self { remove: Vec::new(), set: Table::from_iter([("origin".to_owned(), origin.into())]) }
    }
}

impl Off {
    /// The configuration without the feature. A key to remove that is not there is an error: then nothing
    /// would be switched off.
    pub(crate) fn applied(&self, configuration: &str) -> Result<String> {
        let mut table: Table = configuration.parse().context("the configuration is no TOML")?;
        for key in &self.remove {
            let path: Vec<&str> = key.split('.').collect();
            if !remove(&mut table, &path) {
                bail!("off.remove: the configuration has no {key}");
            }
        }
        merge(&mut table, &self.set);
        Ok(toml::to_string(&table)?)
    }

    /// What it changes, in a few words.
    pub(crate) fn words(&self) -> String {
        let removed = self.remove.iter().map(|key| format!("without {key}"));
        let mut set = Vec::new();
        leaves(&self.set, "", &mut set);
        removed.chain(set).collect::<Vec<_>>().join(", ")
    }
}

/// Removes what is at the path, in every table of a list; whether there was something.
fn remove(table: &mut Table, path: &[&str]) -> bool {
    match path {
        [] => false,
        [last] => table.remove(*last).is_some(),
        [first, rest @ ..] => match table.get_mut(*first) {
            Some(Value::Table(inner)) => remove(inner, rest),
            Some(Value::Array(list)) => {
                let tables = list.iter_mut().filter_map(Value::as_table_mut);
                // In every one of them, so no `any`.
                tables.filter_map(|inner| remove(inner, rest).then_some(())).count() > 0
            }
            _ => false,
        },
    }
}

fn merge(table: &mut Table, changes: &Table) {
    for (key, change) in changes {
        match (table.get_mut(key), change) {
            (Some(Value::Table(inner)), Value::Table(change)) => merge(inner, change),
            _ => {
                table.insert(key.clone(), change.clone());
            }
        }
    }
}

fn leaves(table: &Table, before: &str, out: &mut Vec<String>) {
    for (key, value) in table {
        match value {
            Value::Table(inner) => leaves(inner, &format!("{before}{key}."), out),
            value => out.push(format!("{before}{key} = {value}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "threads = 1\n[origin]\nservers = [\"a\"]\n[session]\nown = true\n\
                        [[rule]]\nimportance = 9\n[[rule]]\npath = \"/\"\n";

    fn off(text: &str) -> Off {
        toml::from_str(text).expect("it is right")
    }

    #[test]
    fn without_a_limit_all_else_stays() {
        let table: Table = Off::default().applied(TEXT).unwrap().parse().unwrap();
        assert_eq!(table["origin"]["slots"].as_integer(), Some(UNLIMITED));
        assert_eq!(table["origin"]["servers"][0].as_str(), Some("a"));
        assert_eq!(table["session"]["own"].as_bool(), Some(true));
        assert_eq!(Off::default().words(), "origin.slots = 100000");
    }

    #[test]
    fn keys_are_removed_from_every_table_of_a_list() {
        let some = off("remove = [\"session\", \"rule.importance\"]\nset = { a.b = 1 }");
        let table: Table = some.applied(TEXT).unwrap().parse().unwrap();
        assert!(!table.contains_key("session"));
        assert_eq!(table["rule"].as_array().map(Vec::len), Some(2));
        assert!(table["rule"][0].get("importance").is_none());
        assert_eq!(table["a"]["b"].as_integer(), Some(1));
        assert_eq!(some.words(), "without session, without rule.importance, a.b = 1");
    }

    #[test]
    fn what_is_not_there_cannot_be_switched_off() {
        let error = off("remove = [\"sesion\"]").applied(TEXT).unwrap_err();
        assert!(error.to_string().contains("no sesion"), "{error}");
        assert!(off("remove = [\"rule.class\"]").applied(TEXT).is_err());
    }
}
