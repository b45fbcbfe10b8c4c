//! Tables of the file as declarations: each key once, with its kind, default, meaning and reason. What is
//! read, the schema for editors and the reference page all come from there.

use super::error::instead;
use super::kind::Key;
use super::place::Place;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use toml::de::DeTable;

/// A table of the file with known keys; made by [`section!`].
pub(super) trait Section: Sized {
    /// Its name in the schema and in the marks of the reference page.
    const NAME: &'static str;
    /// What it is, in lines.
    const ABOUT: &'static [&'static str];
    /// The names of its keys.
    const KEYS: &'static [&'static str];

    /// Reads each key of the table.
    fn read(table: &Table<'_, '_>) -> Self;

    /// Its keys for schema and reference page.
    fn describe(definitions: &mut Definitions) -> Vec<KeyDoc>;
}

/// A table that is being read.
pub(super) struct Table<'t, 'd> {
    entries: Option<&'t DeTable<'d>>,
    place: &'t Place,
}

impl<'t, 'd> Table<'t, 'd> {
    /// A table of the file; reports keys that are unknown.
    pub(super) fn open<T: Section>(entries: &'t DeTable<'d>, place: &'t Place) -> Self {
        for key in entries.keys() {
            let name: &str = key.get_ref();
            if !T::KEYS.contains(&name) {
                let instead = instead(name, T::KEYS.iter().copied());
                place.key_at(name, key.span().start).fault(format!("unknown key{instead}"));
            }
        }
        Table { entries: Some(entries), place }
    }

    /// A table without keys.
    pub(super) fn empty(place: &'t Place) -> Self {
        Table { entries: None, place }
    }

    /// All of it.
    pub(super) fn read<T: Section>(&self) -> T {
        T::read(self)
    }

    /// One key.
    pub(super) fn key<K: Key>(&self, name: &str, key: &K) -> K::Value {
        key.read(self.entries.and_then(|entries| entries.get(name)), self.place, name)
    }
}

/// What schema and reference page say of a key.
pub(super) struct KeyDoc {
    pub(super) name: &'static str,
    /// What it means.
    pub(super) meaning: String,
    /// Why its default is what it is; may be empty.
    pub(super) why: String,
    pub(super) schema: Json,
    pub(super) range: Option<String>,
    /// `None`: it must be given.
    pub(super) default: Option<String>,
}

impl KeyDoc {
    /// Of a key and the lines above it, of which those from `Why:` on are the reason.
    pub(super) fn of(
        name: &'static str,
        lines: &[&str],
        key: &impl Key,
        definitions: &mut Definitions,
    ) -> Self {
        let text = joined(lines);
        let (meaning, why) = text.split_once(" Why: ").unwrap_or((&text, ""));
        let (meaning, why) = (meaning.to_owned(), why.to_owned());
        let (range, default) = (key.range(), key.default());
        KeyDoc { name, meaning, why, schema: key.schema(definitions), range, default }
    }
}

/// The lines of a comment as one.
pub(super) fn joined(lines: &[&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    lines.join(" ")
}

/// The tables that a schema refers to, by name.
#[derive(Default)]
pub(super) struct Definitions {
    pub(super) schemas: BTreeMap<&'static str, Json>,
    /// Their keys.
    pub(super) keys: BTreeMap<&'static str, Vec<KeyDoc>>,
}

impl Definitions {
    /// A reference to a table, which is defined if it was not yet.
    pub(super) fn reference<T: Section>(&mut self) -> Json {
        if !self.schemas.contains_key(T::NAME) {
            self.schemas.insert(T::NAME, Json::Null);
            let schema = self.define::<T>();
            self.schemas.insert(T::NAME, schema);
        }
        json!({ "$ref": format!("#/$defs/{}", T::NAME) })
    }

    /// The schema of a table.
    pub(super) fn define<T: Section>(&mut self) -> Json {
        let keys = T::describe(self);
        let required: Vec<&str> =
            keys.iter().filter(|key| key.default.is_none()).map(|key| key.name).collect();
        let mut properties = Map::new();
        for key in &keys {
            let mut schema = key.schema.clone();
            schema["description"] = key.meaning.as_str().into();
            properties.insert(key.name.to_owned(), schema);
        }
        self.keys.insert(T::NAME, keys);
        json!({
            "description": joined(T::ABOUT),
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }
}

/// A field's name as a key: `r#for` is `for`.
pub(super) const fn plain(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', ..] => field.split_at(2).1,
        _ => field,
    }
}

/// Declares a table of the file as a struct: each field is a key, with its kind and default behind `=`.
/// The comment above it is its meaning, in schema and reference page too; from `Why:` on, the reason for
/// its default.
macro_rules! section {
    (
        $(#[doc = $about:literal])*
        #[derive($($derive:ident),*)]
        $vis:vis struct $Name:ident {
            $( $(#[doc = $doc:literal])* $field:ident: $Type:ty = $key:expr; )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive($($derive),*)]
        $vis struct $Name {
            $( $(#[doc = $doc])* $vis $field: $Type, )*
        }

        impl $crate::config::section::Section for $Name {
            const NAME: &'static str = stringify!($Name);
            const ABOUT: &'static [&'static str] = &[$($about),*];
            const KEYS: &'static [&'static str] =
                &[$( $crate::config::section::plain(stringify!($field)) ),*];

            fn read(table: &$crate::config::section::Table<'_, '_>) -> Self {
                $Name {
                    $( $field: table.key($crate::config::section::plain(stringify!($field)), &$key), )*
                }
            }

            fn describe(
                definitions: &mut $crate::config::section::Definitions,
            ) -> Vec<$crate::config::section::KeyDoc> {
                use $crate::config::kind::Key;
                vec![$( {
                    fn key() -> impl Key<Value = $Type> { $key }
                    let name = $crate::config::section::plain(stringify!($field));
                    $crate::config::section::KeyDoc::of(name, &[$($doc),*], &key(), definitions)
                } ),*]
            }
        }
    };
}
pub(super) use section;
