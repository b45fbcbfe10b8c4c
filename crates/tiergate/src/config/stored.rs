//! `stored` of a rule: copies of answers, for overload.

use super::place::{Place, wrong};
use super::section::{Definitions, Kind, section, table};
use super::values::TIME;
use serde_json::{Value as Json, json};
use std::time::Duration;
use toml::de::DeValue;

section! {
    /// Copies of answers, served while the server is overloaded.
    pub(super) struct StoredKeys {
        /// How old a copy may be that is served instead of a wait, a refusal or an error of the server. Half as old, it is
        /// replaced also under overload, by one request at a time.
        max_age: Option<Duration> = TIME.required("write max_age = \"5m\", how old an answer may be");
    }
}

/// A table, or `false` for none: read as the age, zero for none.
pub(super) struct StoredOrFalse;

impl Kind for StoredOrFalse {
    type Value = Duration;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Duration> {
        match value {
            DeValue::Boolean(false) => Some(Duration::ZERO),
            DeValue::Table(_) => table::<StoredKeys>().read(value, place)?.max_age,
            _ => wrong(value, place, "{ max_age = \"5m\" }, or false"),
        }
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        let keys = table::<StoredKeys>().schema(definitions);
        json!({ "oneOf": [{ "const": false }, keys] })
    }
}
