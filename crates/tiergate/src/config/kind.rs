//! Kinds of values that contain others or are written as a text: lists, tables of names, words, texts.

use super::error::{instead, shortened};
use super::place::{At, Place, found, wrong};
use super::section::{Definitions, Kind, Mapped};
use serde_json::{Value as Json, json};
use std::borrow::Cow;
use toml::Spanned;
use toml::de::DeValue;

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

impl<K: Kind> List<K> {
    /// The same without the places of its values.
    pub(super) fn plain(self) -> Mapped<Self, Vec<K::Value>> {
        Mapped { kind: self, map: |list, _| list.into_iter().map(|one| one.value).collect() }
    }
}

/// A table whose keys are names of the user's choice.
pub(super) struct Named<K>(pub K);

impl<K: Kind> Kind for Named<K> {
    type Value = Vec<(String, At<K::Value>)>;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Self::Value> {
        let DeValue::Table(table) = value else {
            return wrong(value, place, "a table of names");
        };
        let read = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let key: &Cow<'_, str> = name.get_ref();
            // The name is the user's own, and what is mostly wrong.
            let place = place.key_at(key, name.span().start);
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

/// What a value is parsed as, or what is wrong with it: `None` if it is not of the kind at all.
pub(super) type Parsed<T> = Result<T, Option<String>>;

/// The value; reports what is wrong with it.
fn accept<T>(parsed: Parsed<T>, value: &DeValue<'_>, place: &Place, expected: &str) -> Option<T> {
    match parsed {
        Ok(parsed) => Some(parsed),
        Err(None) => wrong(value, place, expected),
        Err(Some(fault)) => {
            place.fault(fault);
            None
        }
    }
}

/// A value that contains no others, with bounds `B`.
pub(super) struct Scalar<T, B = ()> {
    /// What is expected, such as `a whole number, 0 or more`.
    pub(super) expected: &'static str,
    pub(super) bounds: B,
    pub(super) parse: fn(&DeValue<'_>, &B) -> Parsed<T>,
    pub(super) schema: fn(&B) -> Json,
    /// As [`Kind::range`].
    pub(super) range: fn(&B) -> Option<String>,
}

impl<T, B> Kind for Scalar<T, B> {
    type Value = T;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<T> {
        accept((self.parse)(value, &self.bounds), value, place, self.expected)
    }

    fn schema(&self, _: &mut Definitions) -> Json {
        (self.schema)(&self.bounds)
    }

    fn range(&self) -> Option<String> {
        (self.range)(&self.bounds)
    }
}

/// A value that is written as a text.
pub(super) struct Text<T> {
    /// What is expected, such as `a path such as "/cart/*"`.
    pub(super) expected: &'static str,
    /// More for the schema than that it is a text.
    pub(super) schema: fn() -> Json,
    /// What is wrong with it is said without what was found.
    pub(super) parse: fn(&str) -> Parsed<T>,
}

impl<T> Kind for Text<T> {
    type Value = T;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<T> {
        let parsed = value.as_str().map_or(Err(None), self.parse);
        accept(but_got(parsed, value), value, place, self.expected)
    }

    fn schema(&self, _: &mut Definitions) -> Json {
        let mut schema = (self.schema)();
        schema["type"] = "string".into();
        schema
    }
}

/// Adds to what is wrong with a value what was found.
pub(super) fn but_got<T>(parsed: Parsed<T>, value: &DeValue<'_>) -> Parsed<T> {
    parsed.map_err(|fault| fault.map(|fault| format!("{fault}, got {}", found(value))))
}
