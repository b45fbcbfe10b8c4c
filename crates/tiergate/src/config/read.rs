//! Reads TOML values into types, and goes on after a mistake, so that all of them are told at once.
//!
//! Deserialisation by serde ends at the first mistake and forgets where values stood; hence this.

use super::error::{Faults, Place, instead, shortened};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use std::borrow::Cow;
use toml::Spanned;
use toml::de::DeValue;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub value: T,
    pub place: Place,
}

/// What a value in the file can be read as.
pub(super) trait Read: Sized {
    /// The value, or `None` and what is wrong with it.
    fn read(value: &DeValue<'_>, place: &Place, faults: &mut Faults) -> Option<Self>;
}

/// Reads a value together with its place.
pub(super) fn read_at<T: Read>(
    value: &Spanned<DeValue<'_>>,
    place: Place,
    faults: &mut Faults,
) -> Option<At<T>> {
    let value = T::read(value.get_ref(), &place, faults)?;
    Some(At { value, place })
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

/// Says that a value is of the wrong kind; always `None`.
pub(super) fn wrong<T>(
    value: &DeValue<'_>,
    place: &Place,
    expected: &str,
    faults: &mut Faults,
) -> Option<T> {
    faults.add(place, format!("must be {expected}, got {}", found(value)));
    None
}

/// Says that a key is unknown, and which one may have been meant.
pub(super) fn unknown(place: &Place, key: &str, known: &[&str], faults: &mut Faults) {
    let instead = instead(key, known.iter().copied());
    faults.add(place, format!("unknown key{instead}"));
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl Read for String {
    fn read(value: &DeValue<'_>, place: &Place, faults: &mut Faults) -> Option<Self> {
        match value {
            DeValue::String(text) => Some(text.as_ref().to_owned()),
            _ => wrong(value, place, "a text in quotes", faults),
        }
    }
}

impl Read for bool {
    fn read(value: &DeValue<'_>, place: &Place, faults: &mut Faults) -> Option<Self> {
        match value {
            DeValue::Boolean(value) => Some(*value),
            _ => wrong(value, place, "true or false", faults),
        }
    }
}

impl Read for u64 {
    fn read(value: &DeValue<'_>, place: &Place, faults: &mut Faults) -> Option<Self> {
        let number = match value {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        number.or_else(|| wrong(value, place, "a whole number, 0 or more", faults))
    }
}

impl<T: Read> Read for Vec<At<T>> {
    fn read(value: &DeValue<'_>, place: &Place, faults: &mut Faults) -> Option<Self> {
        let DeValue::Array(elements) = value else {
            let expected = match value {
                DeValue::Table(_) => format!("a list (write [[{}]] in double brackets)", place.key),
                _ => "a list".to_owned(),
            };
            return wrong(value, place, &expected, faults);
        };
        let read = |(index, element): (usize, &Spanned<DeValue<'_>>)| {
            read_at(element, place.of_element(index, element.span()), faults)
        };
        Some(elements.iter().enumerate().filter_map(read).collect())
    }
}

/// One value, or a list of them.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged, inline)]
pub(super) enum OneOrMany<T> {
    /// One.
    One(T),
    /// Several; one is enough.
    Many(#[schemars(length(min = 1))] Vec<At<T>>),
}

impl<T: Read> Read for OneOrMany<T> {
    fn read(value: &DeValue<'_>, place: &Place, faults: &mut Faults) -> Option<Self> {
        match value {
            DeValue::Array(elements) if elements.is_empty() => {
                faults.add(place, "must not be empty, or nothing ever matches");
                None
            }
            DeValue::Array(_) => Read::read(value, place, faults).map(OneOrMany::Many),
            _ => Read::read(value, place, faults).map(OneOrMany::One),
        }
    }
}

impl<T> OneOrMany<T> {
    /// All of them.
    pub(super) fn into_vec(self) -> Vec<T> {
        match self {
            OneOrMany::One(one) => vec![one],
            OneOrMany::Many(many) => many.into_iter().map(|element| element.value).collect(),
        }
    }
}

/// A table whose keys are names of the user's choice.
#[derive(Clone, Debug)]
pub(super) struct Named<T>(pub Vec<(String, At<T>)>);

impl<T: Read> Read for Named<T> {
    fn read(value: &DeValue<'_>, place: &Place, faults: &mut Faults) -> Option<Self> {
        let DeValue::Table(table) = value else {
            return wrong(value, place, "a table of names", faults);
        };
        let mut named = Vec::new();
        for (key, value) in table {
            let place = place.of_key(key.get_ref(), key.span());
            named.extend(read_at(value, place, faults).map(|at| (key.get_ref().to_string(), at)));
        }
        Some(Named(named))
    }
}

impl<T: JsonSchema> JsonSchema for Named<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("named_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        std::collections::BTreeMap::<String, T>::json_schema(generator)
    }
}

/// A key's name: `r#for` is `for`.
pub(super) fn plain(field: &'static str) -> &'static str {
    field.strip_prefix("r#").unwrap_or(field)
}

/// Defines a table of the file: its keys, how to read it, and its part of the schema. `and`:
/// what reads all other keys, `not yet`: keys that are refused until something reads them.
macro_rules! table {
    (
        $(#[$about:meta])*
        struct $Name:ident {
            $( $(#[$field_about:meta])* $field:ident: $Type:ty, )*
        }
        $( and $others:ident: $Others:ty, )?
        $( not yet $( $later:literal ),* )?
    ) => {
        #[derive(Clone, Debug, Default, schemars::JsonSchema)]
        #[schemars(deny_unknown_fields)]
        $(#[$about])*
        pub(super) struct $Name {
            $( $(#[$field_about])* pub $field: Option<At<$Type>>, )*
            $(
                /// What the other keys say.
                #[schemars(skip)]
                pub $others: $Others,
            )?
        }

        impl Read for $Name {
            fn read(
                value: &toml::de::DeValue<'_>,
                place: &Place,
                faults: &mut Faults,
            ) -> Option<Self> {
                let toml::de::DeValue::Table(table) = value else {
                    return wrong(value, place, "a table", faults);
                };
                let mut read = $Name::default();
                for (key, value) in table {
                    match key.get_ref().as_ref() {
                        $( known if known == super::read::plain(stringify!($field)) => {
                            let place = place.of_key(known, value.span());
                            read.$field = read_at(value, place, faults);
                        } )*
                        $($( $later => {
                            let place = place.of_key($later, key.span());
                            faults.add(&place, "is not supported yet; leave it out".to_owned());
                        } )*)?
                        other => {
                            $(
                                let at = place.of_key(other, value.span());
                                if read.$others.read_key(other, value.get_ref(), &at, faults) {
                                    continue;
                                }
                            )?
                            let place = place.of_key(other, key.span());
                            let known = [$( super::read::plain(stringify!($field)) ),*].into_iter();
                            $( let known = known.chain(<$Others>::keys()); )?
                            unknown(&place, other, &known.collect::<Vec<_>>(), faults);
                        }
                    }
                }
                Some(read)
            }
        }
    };
}
pub(super) use table;
