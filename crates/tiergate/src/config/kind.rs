//! Kinds of values: how they are written, what they are read as, and what the schema says of them.
//!
//! Reading goes on after a fault, so that all faults of a file are reported at once. Deserialisation by
//! serde ends at the first fault and forgets where values were; hence this.

use super::error::{instead, shortened};
use super::place::{At, Place};
use super::section::{Definitions, Section, Table};
use serde_json::{Value as Json, json};
use std::fmt::Display;
use std::marker::PhantomData;
use toml::Spanned;
use toml::de::DeValue;

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
            super::kind::table().placed().read(value.get_ref(), &place)
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

/// What was found, for a message.
pub(super) fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{:?}", shortened(text)),
        DeValue::Integer(number) => shortened(&number.to_string()),
        DeValue::Float(number) => shortened(&number.to_string()),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(value) => value.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// Reports that a value is of the wrong kind; always `None`.
pub(super) fn wrong<T>(value: &DeValue<'_>, place: &Place, expected: impl Display) -> Option<T> {
    place.fault(format!("must be {expected}, got {}", found(value)));
    None
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

/// A table with known keys.
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

/// A list.
pub(super) struct List<K> {
    of: K,
    len_max: usize,
    /// What its elements are called.
    what: &'static str,
    /// What is said of an empty one.
    empty: &'static str,
    /// Whether a single value may stand for a list of one.
    or_one: bool,
}

/// A list of 1 to `len_max` values; `what`: what they are called.
pub(super) fn list<K: Kind>(of: K, len_max: usize, what: &'static str) -> List<K> {
    let empty = "must not be empty; leave it out for the default";
    List { of, len_max, what, empty, or_one: false }
}

/// One value, or a list of them as by [`list`].
pub(super) fn one_or_many<K: Kind>(of: K, len_max: usize, what: &'static str) -> List<K> {
    List { or_one: true, ..list(of, len_max, what) }
}

impl<K> List<K> {
    /// The same with another message for an empty list.
    pub(super) fn or_else(self, empty: &'static str) -> Self {
        List { empty, ..self }
    }
}

impl<K: Kind> Kind for List<K> {
    type Value = Vec<At<K::Value>>;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Self::Value> {
        let elements = match value {
            DeValue::Array(elements) => elements,
            _ if self.or_one => {
                let value = self.of.read(value, place)?;
                return Some(vec![At { value, place: place.clone() }]);
            }
            DeValue::Table(_) => {
                let how = format!("a list (write [[{}]] in double brackets)", place.key);
                return wrong(value, place, how);
            }
            _ => return wrong(value, place, "a list"),
        };
        if elements.is_empty() {
            place.fault(self.empty);
        }
        if elements.len() > self.len_max {
            let (max, what, len) = (self.len_max, self.what, elements.len());
            place.fault(format!("must name at most {max} {what}, got {len}"));
        }
        let read = |(index, element): (usize, &Spanned<DeValue<'_>>)| {
            let place = place.element_at(index, element.span().start).of_value(element.get_ref());
            let value = self.of.read(element.get_ref(), &place)?;
            Some(At { value, place })
        };
        Some(elements.iter().enumerate().filter_map(read).collect())
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        let items = self.of.schema(definitions);
        let mut list = json!({ "type": "array", "items": items, "minItems": 1 });
        if self.len_max < usize::MAX {
            list["maxItems"] = self.len_max.into();
        }
        match self.or_one {
            true => json!({ "anyOf": [items, list] }),
            false => list,
        }
    }

    fn range(&self) -> Option<String> {
        let bound = self.len_max < usize::MAX && self.len_max > 1;
        bound.then(|| format!("at most {}", self.len_max))
    }
}

/// The values of a list without their places.
pub(super) fn values<T>(list: Vec<At<T>>) -> Vec<T> {
    list.into_iter().map(|element| element.value).collect()
}

/// A table whose keys are names of the user's choice.
pub(super) struct Named<K>(pub K);

impl<K: Kind> Kind for Named<K> {
    type Value = Vec<(String, At<K::Value>)>;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Self::Value> {
        let DeValue::Table(table) = value else {
            return wrong(value, place, "a table of names");
        };
        let read = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let key: &std::borrow::Cow<'_, str> = key.get_ref();
            let place = place.key_at(key, value.span().start);
            let read = self.0.read(value.get_ref(), &place)?;
            Some((key.to_string(), At { value: read, place }))
        };
        Some(table.iter().filter_map(read).collect())
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        json!({ "type": "object", "additionalProperties": self.0.schema(definitions) })
    }
}

/// One of a closed list of words.
pub(super) struct Choice<T: 'static>(pub &'static [(&'static str, T)]);

impl<T: Copy> Kind for Choice<T> {
    type Value = T;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<T> {
        let DeValue::String(word) = value else {
            return wrong(value, place, "a text in quotes");
        };
        let known = self.0.iter().find(|(known, _)| known == word).map(|(_, value)| *value);
        if known.is_none() {
            let instead = instead(word, self.0.iter().map(|(word, _)| *word));
            place.fault(format!("unknown word {:?}{instead}", shortened(word)));
        }
        known
    }

    fn schema(&self, _: &mut Definitions) -> Json {
        let words: Vec<&str> = self.0.iter().map(|(word, _)| *word).collect();
        json!({ "enum": words })
    }
}

/// What a text is parsed as, or what is wrong with it: `None` if it is not of the kind at all.
pub(super) type Parsed<T> = Result<T, Option<String>>;

/// A value that is written as a text.
pub(super) struct Text<T> {
    /// What is expected, such as `a path such as "/cart/*"`.
    pub(super) expected: &'static str,
    /// More for the schema than that it is a text.
    pub(super) schema: fn() -> Json,
    pub(super) parse: fn(&str) -> Parsed<T>,
}

impl<T> Kind for Text<T> {
    type Value = T;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<T> {
        let DeValue::String(text) = value else {
            return wrong(value, place, self.expected);
        };
        match (self.parse)(text) {
            Ok(parsed) => Some(parsed),
            Err(None) => wrong(value, place, self.expected),
            Err(Some(fault)) => {
                place.fault(format!("{fault}, got {}", found(value)));
                None
            }
        }
    }

    fn schema(&self, _: &mut Definitions) -> Json {
        let mut schema = (self.schema)();
        schema["type"] = "string".into();
        schema
    }
}
