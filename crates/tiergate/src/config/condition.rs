//! Conditions of rules: one entry each, with its key, its documentation, the part of a request that it
//! looks at, and how its value is written.

use super::condition_values::{
    AsnRange, CountryText, DomainText, DscpRange, ExtensionText, HostText, MediaText, MethodText,
    PathText, RegexText, SizeRange, UrgencyRange, Values,
};
use super::error::{Faults, Place, instead, shortened};
use super::meant::Listener;
use super::read::{At, Named, OneOrMany, Read};
use super::values::{Network, is_token};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value as Json;
use std::mem::discriminant;
use tiergate_core::classify::pattern::Pattern;
use tiergate_core::classify::{Condition, Matcher, Span};
use tiergate_core::request::Part;
use toml::de::DeValue;

/// A condition that rules may have.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its key in a rule.
    pub key: &'static str,
    /// What it looks at, in words.
    pub noun: &'static str,
    /// What an editor shows, by lines.
    about: &'static [&'static str],
    /// What it looks at; of a name, where the key is a table of names.
    part: fn(Box<str>) -> Part,
    form: Form,
}

/// How the value of a condition is written.
#[derive(Debug)]
enum Form {
    /// One alternative, or a list of them.
    List(List),
    /// Patterns, or `true` for "present".
    Patterns,
    /// The same by name. `Some`: what the name must be the name of.
    Named(Option<&'static str>),
    /// `true` alone.
    Flag,
    /// Names or addresses of listeners.
    Listeners,
}

type ReadList = fn(&DeValue<'_>, &Place, &mut Faults) -> Option<Vec<Matcher>>;

/// How a list of one kind of alternatives is read, and its part of the schema.
#[derive(Debug)]
struct List {
    read: ReadList,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

const fn list<T: Read + JsonSchema + Into<Matcher>>() -> Form {
    Form::List(List {
        read: |value, place, faults| {
            let values = OneOrMany::<T>::read(value, place, faults)?.into_vec();
            Some(values.into_iter().map(Into::into).collect())
        },
        schema: OneOrMany::<T>::json_schema,
    })
}

/// Lists conditions: the documentation, the key, the noun, what they look at, how they are written.
macro_rules! conditions {
    ($( $(#[doc = $about:literal])+ $key:ident $noun:literal $part:expr, $form:expr; )*) => {
        /// Every condition, in the order in which those of a rule are told.
        pub(crate) static CONDITIONS: &[Entry] = &[$(
            Entry {
                key: stringify!($key),
                noun: $noun,
                about: &[$( $about ),+],
                part: $part,
                form: $form,
            },
        )*];
    };
}

conditions! {
    /// The client's address or network.
    client "client" |_| Part::Client, list::<Network>();
    /// The client's verified name is this or in this domain.
    domain "domain" |_| Part::ClientName, list::<DomainText>();
    /// The client's country, such as "DE".
    country "country" |_| Part::Country, list::<CountryText>();
    /// The client's autonomous system: 64500, "64500..64510".
    asn "AS" |_| Part::Asn, list::<AsnRange>();
    /// The name in the client's verified certificate: a pattern, a list of patterns, or true for "present".
    certificate "certificate" |_| Part::Certificate, Form::Patterns;
    /// The verified subject of a token or key: a pattern, a list of patterns, or true for "present".
    subject "subject" |_| Part::Subject, Form::Patterns;
    /// The code point of the client's packets, 0 to 63: 46, "8..15".
    dscp "DSCP" |_| Part::Dscp, list::<DscpRange>();
    /// The listener, by its name or address.
    listener "listener" |_| Part::Listener, Form::Listeners;
    /// The address or network that the client connected to.
    destination "destination" |_| Part::Destination, list::<Network>();
    /// The server name that the client asked for in its TLS handshake.
    sni "sni" |_| Part::Sni, list::<HostText>();
    /// The host, without port: `example.com`, `*.example.com`.
    host "host" |_| Part::Host, list::<HostText>();
    /// The method. Case matters.
    method "method" |_| Part::Method, list::<MethodText>();
    /// The path, without query, normalised. `*` is anything but `/` (at the end: anything),
    /// `**` anything, `?` one character.
    path "path" |_| Part::Path, list::<PathText>();
    /// A regular expression that is found in the normalised path.
    path_regex "path" |_| Part::Path, list::<RegexText>();
    /// The extension of the path's last segment, such as "cgi". Case is ignored.
    extension "extension" |_| Part::Extension, list::<ExtensionText>();
    /// Parameters of the query by name, decoded: a pattern for the value, a list of patterns, or
    /// true for "present".
    query "query" Part::Query, Form::Named(None);
    /// The media type of the body without parameters, such as "application/json", "image/*".
    content_type "content type" |_| Part::ContentType, list::<MediaText>();
    /// Bytes of the body by Content-Length: "1MiB..", "..64KiB", "1KiB..1MiB".
    content_length "content length" |_| Part::ContentLength, list::<SizeRange>();
    /// True: the client fetches ahead of need (`Sec-Purpose`, `Purpose` or `X-Moz`).
    prefetch "prefetch" |_| Part::Prefetch, Form::Flag;
    /// The urgency in `Priority` (RFC 9218), 0 the most urgent to 7: 5, "0..2".
    urgency "urgency" |_| Part::Urgency, list::<UrgencyRange>();
    /// Header fields by name: a pattern for the value, a list of patterns, or true for "present".
    header "header" Part::Header, Form::Named(Some("a header"));
    /// Cookies by name: a pattern for the value, a list of patterns, or true for "present".
    cookie "cookie" Part::Cookie, Form::Named(Some("a cookie"));
}

impl Entry {
    /// The first condition that looks at the part, whatever name it looks for.
    pub(crate) fn of(part: &Part) -> &'static Entry {
        let kind = discriminant(part);
        let found = CONDITIONS.iter().find(|entry| discriminant(&entry.part_of("")) == kind);
        found.expect("every part has an entry, as the tests see")
    }

    fn part_of(&self, name: &str) -> Part {
        (self.part)(name.into())
    }

    /// The condition in words, such as `path /cart/* or /pay`; `alternatives` says what it may be.
    pub(crate) fn words(condition: &Condition, alternatives: &str) -> String {
        let part = condition.part();
        let noun = Entry::of(part).noun;
        let (Part::Header(name) | Part::Cookie(name) | Part::Query(name)) = part else {
            let words = match (&Entry::of(part).form, condition.any_of().first()) {
                (Form::Flag, _) => return noun.to_owned(),
                (Form::Patterns, _) => value_in_words(condition, alternatives),
                (_, Some(Matcher::Regex(_))) => format!("like {alternatives}"),
                (_, Some(Matcher::Network(_))) => format!("in {alternatives}"),
                _ => alternatives.to_owned(),
            };
            return format!("{noun} {words}");
        };
        format!("{noun} {name} {}", value_in_words(condition, alternatives))
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        match &self.form {
            Form::List(list) => (list.schema)(generator),
            Form::Patterns => Values::json_schema(generator),
            Form::Named(_) => Named::<Values>::json_schema(generator),
            Form::Flag => bool::json_schema(generator),
            Form::Listeners => OneOrMany::<String>::json_schema(generator),
        }
    }
}

fn value_in_words(condition: &Condition, alternatives: &str) -> String {
    match condition.any_of().contains(&Matcher::Pattern(Pattern::Any)) {
        true => "present".to_owned(),
        false => format!("= {alternatives}"),
    }
}

/// The conditions of a rule as written.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    /// Each with the place of its entry.
    read: Vec<(usize, Condition)>,
    /// Listeners are not known before all of the file is read.
    listeners: Option<At<OneOrMany<String>>>,
}

impl Conditions {
    /// The keys of all conditions.
    pub(super) fn keys() -> impl Iterator<Item = &'static str> {
        CONDITIONS.iter().map(|entry| entry.key)
    }

    /// Reads a key of a rule. `false`: it is no condition's.
    pub(super) fn read_key(
        &mut self,
        key: &str,
        value: &DeValue<'_>,
        place: &Place,
        faults: &mut Faults,
    ) -> bool {
        let Some(order) = CONDITIONS.iter().position(|entry| entry.key == key) else {
            return false;
        };
        let entry = &CONDITIONS[order];
        let mut add = |name: &str, any_of: Vec<Matcher>| {
            self.read.push((order, Condition::new(entry.part_of(name), any_of)));
        };
        match &entry.form {
            Form::List(list) => {
                (list.read)(value, place, faults).into_iter().for_each(|any_of| add("", any_of));
            }
            Form::Patterns => {
                let values = Values::read(value, place, faults);
                values.into_iter().for_each(|values| add("", values.matchers()));
            }
            Form::Named(what) => {
                let named = Named::<Values>::read(value, place, faults);
                for (name, At { value, place }) in named.into_iter().flat_map(|named| named.0) {
                    if let Some(what) = what.filter(|_| !is_token(&name)) {
                        let name = shortened(&name);
                        faults.add(&place, format!("must be the name of {what}, got {name:?}"));
                    }
                    add(&name, value.matchers());
                }
            }
            Form::Flag => match bool::read(value, place, faults) {
                Some(false) => {
                    faults.add(place, "must be true; leave it out for requests of either kind");
                }
                Some(true) => add("", vec![Pattern::Any.into()]),
                None => {}
            },
            Form::Listeners => {
                let listeners = OneOrMany::read(value, place, faults);
                self.listeners = listeners.map(|value| At { value, place: place.clone() });
            }
        }
        true
    }

    /// The conditions as meant, in the order of their entries.
    pub(super) fn resolve(self, listeners: &[Listener], faults: &mut Faults) -> Vec<Condition> {
        let mut all = self.read;
        if let Some(At { value, place }) = self.listeners {
            let texts = match value {
                OneOrMany::One(value) => vec![At { value, place }],
                OneOrMany::Many(texts) => texts,
            };
            let places = texts.iter().filter_map(|text| place_of(text, listeners, faults));
            let condition = Condition::new(Part::Listener, places.map(Span::one));
            let order = CONDITIONS.iter().position(|entry| matches!(entry.form, Form::Listeners));
            all.push((order.expect("there is a condition on listeners"), condition));
        }
        all.sort_by_key(|(order, _)| *order);
        all.into_iter().map(|(_, condition)| condition).collect()
    }
}

/// The place of a listener that is named, or given by its address.
fn place_of(text: &At<String>, listeners: &[Listener], faults: &mut Faults) -> Option<u64> {
    let At { value: text, place } = text;
    let is = |listener: &Listener| {
        listener.name.as_ref() == Some(text) || listener.address.to_string() == *text
    };
    let found = listeners.iter().position(is);
    if found.is_none() {
        let addresses = listeners.iter().map(|listener| listener.address.to_string());
        let names = listeners.iter().filter_map(|listener| listener.name.clone());
        let known: Vec<String> = names.chain(addresses).collect();
        let instead = instead(text, known.iter().map(String::as_str));
        let text = shortened(text);
        faults.add(place, format!("no listener is called {text:?} or has that address{instead}"));
    }
    found.map(|place| place as u64)
}

/// Adds the conditions to the schema of a rule.
pub(super) fn add_schemas(rule: &mut Schema) {
    let mut generator = SchemaGenerator::default();
    let Some(Json::Object(properties)) = rule.get_mut("properties") else {
        unreachable!("a rule is an object that has properties");
    };
    for entry in CONDITIONS {
        let mut schema = entry.schema(&mut generator);
        let lines: Vec<&str> = entry.about.iter().map(|line| line.trim()).collect();
        schema.insert("description".to_owned(), lines.join("\n").into());
        properties.insert(entry.key.to_owned(), schema.to_value());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_is_documented_and_found_by_its_part() {
        let manual = include_str!("../../../../docs/configuration.md");
        for entry in CONDITIONS {
            let key = match entry.form {
                Form::Named(_) => format!("`{}.NAME`", entry.key),
                _ => format!("`{}`", entry.key),
            };
            let row = |line: &str| line.starts_with("| `") && line.contains(&key);
            assert!(manual.lines().any(row), "{key} has no row in docs/configuration.md");
            assert_eq!(Entry::of(&entry.part_of("a")).noun, entry.noun);
        }
    }
}
