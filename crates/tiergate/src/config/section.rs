//! Tables of the file as declarations: each key once, with its kind, default, meaning and reason. What is
//! read, the schema for editors and the reference page all come from there.
//!
//! Reading goes on after a fault, so that all faults of a file are reported at once. Deserialisation by
//! serde ends at the first fault and forgets where values were; hence this.

use super::error::instead;
use super::place::{At, Place, wrong};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

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

/// A kind of value.
pub(super) trait Kind: Sized {
    /// What it is read as.
    type Value;

    /// The value; `None` after a fault, which has been reported.
    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Self::Value>;

    /// Its part of the schema.
    fn schema(&self, definitions: &mut Definitions) -> Json;

    /// Its bounds as the reference page says them, such as `1 to 64`.
    fn range(&self) -> Option<String> {
        None
    }

    /// A key that may be left out. `default` says what holds then, for the reference page.
    fn optional(self, default: &'static str) -> Optional<Self> {
        Optional(self, default)
    }

    /// A key with a default, as it would be written.
    fn or(self, default: impl Into<Literal>) -> Or<Self> {
        Or(self, default.into())
    }

    /// A key that must be given; `how` says what to write.
    fn required(self, how: &'static str) -> Required<Self> {
        Required(self, how)
    }

    /// The value together with its place.
    fn placed(self) -> Placed<Self> {
        Placed(self)
    }
}

/// What a table does with a key, given or not.
pub(super) trait Key {
    /// What it is read as.
    type Value;

    /// Reads the key; `value` is `None` if the table does not have it.
    fn read(&self, value: Option<&Spanned<DeValue<'_>>>, table: &Place, key: &str) -> Self::Value;

    /// The key's part of the schema.
    fn schema(&self, definitions: &mut Definitions) -> Json;

    /// The bounds of its value.
    fn range(&self) -> Option<String>;

    /// What holds where it is left out; `None`: it must be given.
    fn default(&self) -> Option<String>;
}

/// A key that may be left out.
pub(super) struct Optional<K>(K, &'static str);

impl<K: Kind> Key for Optional<K> {
    type Value = Option<K::Value>;

    fn read(&self, value: Option<&Spanned<DeValue<'_>>>, table: &Place, key: &str) -> Self::Value {
        let value = value?;
        let place = table.key_at(key, value.span().start).of_value(value.get_ref());
        self.0.read(value.get_ref(), &place)
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        self.0.schema(definitions)
    }

    fn range(&self) -> Option<String> {
        self.0.range()
    }

    fn default(&self) -> Option<String> {
        Some(self.1.to_owned())
    }
}

/// A key that must be given.
pub(super) struct Required<K>(K, &'static str);

impl<K: Kind> Key for Required<K> {
    type Value = Option<K::Value>;

    fn read(&self, value: Option<&Spanned<DeValue<'_>>>, table: &Place, key: &str) -> Self::Value {
        let Some(value) = value else {
            table.missing(key, self.1);
            return None;
        };
        let place = table.key_at(key, value.span().start).of_value(value.get_ref());
        self.0.read(value.get_ref(), &place)
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        self.0.schema(definitions)
    }

    fn range(&self) -> Option<String> {
        self.0.range()
    }

    fn default(&self) -> Option<String> {
        None
    }
}

/// A default, as it would be written.
pub(super) struct Literal(Json);

impl From<&str> for Literal {
    fn from(text: &str) -> Self {
        Literal(text.into())
    }
}

impl From<u64> for Literal {
    fn from(number: u64) -> Self {
        Literal(number.into())
    }
}

impl From<bool> for Literal {
    fn from(flag: bool) -> Self {
        Literal(flag.into())
    }
}

/// A key with a default.
pub(super) struct Or<K>(K, Literal);

impl<K: Kind> Key for Or<K> {
    type Value = K::Value;

    fn read(&self, value: Option<&Spanned<DeValue<'_>>>, table: &Place, key: &str) -> Self::Value {
        let read = value
            .and_then(|value| self.0.read(value.get_ref(), &table.key_at(key, value.span().start)));
        read.unwrap_or_else(|| {
            // Texts, numbers and truth values are written alike in JSON and TOML.
            let literal = self.1.0.to_string();
            let value = DeValue::parse(&literal).expect("a default is a TOML value");
            self.0.read(value.get_ref(), &table.key(key)).expect("a default is in its bounds")
        })
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        let mut schema = self.0.schema(definitions);
        schema["default"] = self.1.0.clone();
        schema
    }

    fn range(&self) -> Option<String> {
        self.0.range()
    }

    fn default(&self) -> Option<String> {
        Some(format!("`{}`", self.1.0))
    }
}

/// A table that is the same, left out or empty.
pub(super) struct OrEmpty<T>(PhantomData<T>);

/// A key of a table of which every key may be left out.
pub(super) fn or_empty<T: Section>() -> OrEmpty<T> {
    OrEmpty(PhantomData)
}

impl<T: Section> Key for OrEmpty<T> {
    type Value = At<T>;

    fn read(&self, value: Option<&Spanned<DeValue<'_>>>, table: &Place, key: &str) -> At<T> {
        let given = value.and_then(|value| {
            let place = table.key_at(key, value.span().start).of_value(value.get_ref());
            TableOf(PhantomData).placed().read(value.get_ref(), &place)
        });
        given.unwrap_or_else(|| {
            let place = table.key(key);
            At { value: Table::empty(&place).read(), place }
        })
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        table::<T>().schema(definitions)
    }

    fn range(&self) -> Option<String> {
        None
    }

    fn default(&self) -> Option<String> {
        Some("every default".to_owned())
    }
}

/// A value with its place.
pub(super) struct Placed<K>(K);

impl<K: Kind> Kind for Placed<K> {
    type Value = At<K::Value>;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<At<K::Value>> {
        let value = self.0.read(value, place)?;
        Some(At { value, place: place.clone() })
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        self.0.schema(definitions)
    }

    fn range(&self) -> Option<String> {
        self.0.range()
    }
}

/// The kind of a table.
pub(super) struct TableOf<T>(PhantomData<T>);

/// A table with known keys.
pub(super) fn table<T: Section>() -> TableOf<T> {
    TableOf(PhantomData)
}

impl<T: Section> Kind for TableOf<T> {
    type Value = T;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<T> {
        match value {
            DeValue::Table(entries) => Some(Table::open::<T>(entries, place).read()),
            _ => wrong(value, place, "a table"),
        }
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        definitions.reference::<T>()
    }
}

/// A field's name as a key: `r#for` is `for`.
pub(super) const fn plain(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', ..] => field.split_at(2).1,
        _ => field,
    }
}

/// A struct's name as a table's: `ClassKeys` is `Class`.
pub(super) const fn table_name(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [.., b'K', b'e', b'y', b's'] => name.split_at(name.len() - 4).0,
        _ => name,
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
            const NAME: &'static str = $crate::config::section::table_name(stringify!($Name));
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
                use $crate::config::section::Key;
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
