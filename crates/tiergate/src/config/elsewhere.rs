//! Keys that stand in the wrong table: those of the top level after a table, which TOML takes for the table's, and those of tables that are easily
//! confused.

use super::limits::Limits;
use super::policy::Root;
use super::section::Section;
use super::timeouts::Timeouts;

/// Keys of the top level that are no tables.
const PLAIN: [&str; 10] = [
    "mode",
    "include",
    "police",
    "default_class",
    "flow",
    "admin",
    "admin_names",
    "admin_token_file",
    "threads",
    "trusted",
];

/// Tables of the top level whose keys are taken for each other's.
const TABLES: [(&str, &[&str]); 2] = [("limits", Limits::KEYS), ("timeouts", Timeouts::KEYS)];

/// Where a key belongs that the table `T` does not know, for a message. `is_top`: the table is all of a file, which may be another than a policy.
pub(super) fn home<T: Section>(key: &str, is_top: bool) -> Option<String> {
    if is_top && T::NAME != Root::NAME {
        return None;
    }
    if !is_top && PLAIN.contains(&key) {
        return Some(format!(
            "; `{key}` is one of the top level: write it before the first [table]"
        ));
    }
    let (name, _) = TABLES.iter().find(|(_, keys)| keys.contains(&key))?;
    Some(format!("; `{key}` is one of [{name}]"))
}
