//! The message as JSON.

use super::metric::Metric;
use super::unreadable::Unreadable;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::fmt;

/// The metric's value in it.
pub(super) fn value(json: &[u8], metric: &Metric) -> Result<Option<f64>, Unreadable> {
    let (snake, camel, _) = metric.field();
    let key = metric.key();
    let inner;
    let member = match &key {
        None => Member { names: [snake, camel], inner: None },
        Some(key) => {
            inner = [*key; 2];
            Member { names: [snake, camel], inner: Some(inner) }
        }
    };
    let mut parser = serde_json::Deserializer::from_slice(json);
    let found = member.deserialize(&mut parser).map_err(|_| Unreadable::Malformed)?;
    parser.end().map_err(|_| Unreadable::Malformed)?;
    match found {
        Found::No => Ok(None),
        Found::Number(value) => Ok(Some(value)),
        Found::NoNumber => Err(Unreadable::NoNumber),
        Found::Several => Err(Unreadable::Ambiguous),
    }
}

/// What an object has under a name.
#[derive(Clone, Copy, Debug)]
enum Found {
    No,
    Number(f64),
    NoNumber,
    Several,
}

/// Looks for the member of an object that has one of these names; within that, if it is an object itself, for the inner one.
#[derive(Clone, Copy)]
struct Member<'m> {
    names: [&'m str; 2],
    inner: Option<[&'m str; 2]>,
}

impl<'de> DeserializeSeed<'de> for Member<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Found, D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    /// `null` is as if it were not there.
    fn visit_unit<E: Error>(self) -> Result<Found, E> {
        Ok(Found::No)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Found, A::Error> {
        let mut found = Found::No;
        while let Some(is_it) = members.next_key_seed(IsOneOf(self.names))? {
            let one = match (is_it, self.inner) {
                (false, _) => {
                    members.next_value::<IgnoredAny>()?;
                    continue;
                }
                (true, None) => members.next_value_seed(Number)?,
                (true, Some(names)) => members.next_value_seed(Member { names, inner: None })?,
            };
            found = match (found, one) {
                (Found::No, one) => one,
                (found, Found::No) => found,
                _ => Found::Several,
            };
        }
        Ok(found)
    }
}

/// Whether a name is one of these.
struct IsOneOf<'m>([&'m str; 2]);

impl<'de> DeserializeSeed<'de> for IsOneOf<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<bool, D::Error> {
        parser.deserialize_str(self)
    }
}

impl Visitor<'_> for IsOneOf<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<bool, E> {
        Ok(self.0.contains(&name))
    }
}

/// A number, which JSON of protocol buffers may have in quotes.
struct Number;

impl<'de> DeserializeSeed<'de> for Number {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Found, D::Error> {
        parser.deserialize_any(self)
    }
}

impl Visitor<'_> for Number {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Found, E> {
        Ok(Found::Number(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Found, E> {
        Ok(Found::Number(number as f64))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Found, E> {
        Ok(Found::Number(number as f64))
    }

    fn visit_str<E: Error>(self, number: &str) -> Result<Found, E> {
        Ok(number.parse().map_or(Found::NoNumber, Found::Number))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Found, E> {
        Ok(Found::NoNumber)
    }

    /// `null` is as if it were not there.
    fn visit_unit<E: Error>(self) -> Result<Found, E> {
        Ok(Found::No)
    }
}
