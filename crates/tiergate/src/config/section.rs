//! Tables of the file as declarations: each key once, with its kind, default, meaning and reason. What is
//! read, the schema for editors and the reference page all come from there.
//!
//! Reading goes on after a fault, so that all faults of a file are reported at once. Deserialisation by
//! serde ends at the first fault and forgets where values were; hence this.

use super::elsewhere::home;
use super::error::instead;
use super::place::{At, Place, wrong};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use toml::de::{DeTable, DeValue};

/// A table of the file with known keys; made by [`section!`].
pub(super) trait Section: Sized {
    /// Its name in the schema and in the marks of the reference page.
    const NAME: &'static str;
    /// What it is, in lines.
    const ABOUT: &'static [&'static str];
    /// The names of its keys.
    const KEYS: &'static [&'static str];

    /// Reads each key of the table at `place`.
    fn read(entries: &DeTable<'_>, place: &Place) -> Self;

    /// Its keys for schema and reference page.
    fn describe(definitions: &mut Definitions) -> Vec<KeyDoc>;
}

/// Name of the table that is all of a policy.
const POLICY: &str = "Root";

/// Reports keys of a table that are unknown.
fn check_keys<T: Section>(entries: &DeTable<'_>, place: &Place) {
    for key in entries.keys() {
        let name: &str = key.get_ref();
        if !T::KEYS.contains(&name) {
            let is_top = place.key.is_empty();
            // All of another file than a policy has no table that a key could be of.
            let home = if is_top && T::NAME != POLICY { None } else { home(name, is_top) };
            let instead = home.unwrap_or_else(|| instead(name, T::KEYS.iter().copied()));
            place.key_at(name, key.span().start).fault(format!("unknown key{instead}"));
        }
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
            properties.insert(key.name.to_owned(), key.schema.clone());
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

    /// A key that may be left out; `default` says what holds then, for the reference page.
    fn optional(self, default: &'static str) -> Key<Self, Option<Self::Value>> {
        Key { kind: self, absent: Absent::Optional(default), becomes: |read| read }
    }

    /// The same of a list, which is then empty.
    fn or_none(self, default: &'static str) -> Key<Self, Self::Value>
    where
        Self::Value: Default,
    {
        Key { kind: self, absent: Absent::Optional(default), becomes: Option::unwrap_or_default }
    }

    /// A key with a default, as it would be written.
    fn or(self, default: impl Into<Json>) -> Key<Self, Self::Value> {
        let becomes = |read: Option<_>| read.expect("a default is of its kind and in its bounds");
        Key { kind: self, absent: Absent::Default(default.into()), becomes }
    }

    /// A key that must be given; `how` says what to write.
    fn required(self, how: &'static str) -> Key<Self, Option<Self::Value>> {
        Key { kind: self, absent: Absent::Required(how), becomes: |read| read }
    }

    /// The same with an empty value after a fault.
    fn needed(self, how: &'static str) -> Key<Self, Self::Value>
    where
        Self::Value: Default,
    {
        Key { kind: self, absent: Absent::Required(how), becomes: Option::unwrap_or_default }
    }

    /// The value together with its place.
    fn placed(self) -> Mapped<Self, At<Self::Value>> {
        Mapped { kind: self, map: |value, place| At { value, place: place.clone() } }
    }
}

/// A key of a table, read as `V`.
pub(super) struct Key<K: Kind, V> {
    kind: K,
    absent: Absent,
    /// `None` after a fault, or if it is optional and left out.
    becomes: fn(Option<K::Value>) -> V,
}

/// What holds where a key is left out.
enum Absent {
    /// Nothing; in words.
    Optional(&'static str),
    /// This value.
    Default(Json),
    /// A fault; what to write.
    Required(&'static str),
}

impl<K: Kind, V> Key<K, V> {
    /// Reads the key called `name` of a table.
    pub(super) fn read(&self, entries: &DeTable<'_>, table: &Place, name: &str) -> V {
        let value = entries.get(name);
        let given = value.and_then(|value| {
            let place = table.key_at(name, value.span().start).of_value(value.get_ref());
            self.kind.read(value.get_ref(), &place)
        });
        (self.becomes)(match &self.absent {
            Absent::Default(default) if given.is_none() => {
                // Texts, numbers, truth values and empty tables are written alike in JSON and TOML.
                let written = default.to_string();
                let value = DeValue::parse(&written).expect("a default is a TOML value");
                self.kind.read(value.get_ref(), &table.key(name))
            }
            Absent::Required(how) if value.is_none() => {
                table.missing(name, how);
                None
            }
            _ => given,
        })
    }

    /// What schema and reference page say of it; in its comment's lines, those from `Why:` on are the
    /// reason for its default.
    pub(super) fn describe(
        &self,
        name: &'static str,
        lines: &[&str],
        definitions: &mut Definitions,
    ) -> KeyDoc {
        let text = joined(lines);
        let (meaning, why) = text.split_once(" Why: ").unwrap_or((&text, ""));
        let mut schema = self.kind.schema(definitions);
        let default = match &self.absent {
            Absent::Optional(default) => Some((*default).to_owned()),
            Absent::Default(Json::Object(_)) => Some("every default".to_owned()),
            Absent::Default(default) => {
                schema["default"] = default.clone();
                Some(format!("`{default}`"))
            }
            Absent::Required(_) => None,
        };
        schema["description"] = meaning.into();
        let (meaning, why) = (meaning.to_owned(), why.to_owned());
        KeyDoc { name, meaning, why, schema, range: self.kind.range(), default }
    }
}

/// A table that is the same left out or empty.
pub(super) fn defaults<T: Section>() -> Key<Mapped<TableOf<T>, At<T>>, At<T>> {
    table().placed().or(Map::new())
}

/// A kind whose values are read as others.
pub(super) struct Mapped<K: Kind, V> {
    pub(super) kind: K,
    pub(super) map: fn(K::Value, &Place) -> V,
}

impl<K: Kind, V> Kind for Mapped<K, V> {
    type Value = V;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<V> {
        self.kind.read(value, place).map(|value| (self.map)(value, place))
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        self.kind.schema(definitions)
    }

    fn range(&self) -> Option<String> {
        self.kind.range()
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
            DeValue::Table(entries) => {
                check_keys::<T>(entries, place);
                Some(T::read(entries, place))
            }
            DeValue::Array(all)
                if !place.key.contains('[') && all.iter().any(|it| it.get_ref().is_table()) =>
            {
                let how = format!("a table (write [{}] in single brackets)", place.key);
                wrong(value, place, how)
            }
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
        $(#[derive($($derive:ident),*)])?
        $vis:vis struct $Name:ident {
            $( $(#[doc = $doc:literal])* $field:ident: $Type:ty = $key:expr; )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug)]
        $(#[derive($($derive),*)])?
        $vis struct $Name {
            $( $(#[doc = $doc])* $vis $field: $Type, )*
        }

        impl $crate::config::section::Section for $Name {
            const NAME: &'static str = $crate::config::section::table_name(stringify!($Name));
            const ABOUT: &'static [&'static str] = &[$($about),*];
            const KEYS: &'static [&'static str] =
                &[$( $crate::config::section::plain(stringify!($field)) ),*];

            fn read(entries: &toml::de::DeTable<'_>, place: &$crate::config::place::Place) -> Self {
                use $crate::config::section::plain;
                $Name { $( $field: $key.read(entries, place, plain(stringify!($field))), )* }
            }

            fn describe(
                definitions: &mut $crate::config::section::Definitions,
            ) -> Vec<$crate::config::section::KeyDoc> {
                vec![$( {
                    use $crate::config::section::{Key, Kind};
                    fn key() -> Key<impl Kind, $Type> { $key }
                    let name = $crate::config::section::plain(stringify!($field));
                    key().describe(name, &[$($doc),*], definitions)
                } ),*]
            }
        }
    };
}
pub(super) use section;
