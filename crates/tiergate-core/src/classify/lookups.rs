//! What rules ask for, part by part: where each part of a request is looked up.
//!
//! The parts that most policies ask for, and that often decide, come first and each by itself; then
//! the header fields, in one walk; then the rest. What no remaining rule asks for is not looked at.
//! A new part needs nothing here: it is one of the fields' or one of the rest.

use super::index::Index;
use super::names::Names;
use super::networks::Networks;
use super::regexes::RegexCaches;
use super::rule::Rules;
use super::search::Search;
use super::texts::{Hosts, Texts};
use crate::request::{Field, Part, RequestView, Value, cookie, parameters};

/// Something that rules ask for, and the first rule that does, for each output.
#[derive(Clone, Debug)]
pub(super) struct Asked<T> {
    pub(super) first: Rules,
    pub(super) of: T,
}

/// All that rules ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct Lookups {
    pub(super) path: Asked<Texts>,
    pub(super) method: Asked<Names<u32>>,
    pub(super) client: Asked<Networks>,
    pub(super) host: Asked<Hosts>,
    pub(super) fields: Asked<Fields>,
    pub(super) late: Asked<Late>,
}

/// Indexes of values, by the name of their header, cookie or parameter.
pub(super) type ByName = Names<Vec<Index>>;

/// What is asked for of the header fields.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    pub(super) uses: Names<Vec<FieldUse>>,
    pub(super) cookies: Asked<ByName>,
    /// The parts that are read from fields by a grammar of their own, at most [`FIELD_PARTS_MAX`].
    pub(super) parts: Vec<(Part, Vec<Index>)>,
}

/// Room for what fields say of the parts that are read from them: more than there are.
pub(super) const FIELD_PARTS_MAX: usize = 8;

/// What a field of some name is looked at for.
#[expect(clippy::large_enum_variant, reason = "nearly all are values, and are found in place")]
#[derive(Clone, Debug)]
pub(super) enum FieldUse {
    /// Its value as it is.
    Value(Index),
    /// A part that is read from it, as a place in [`Fields::parts`].
    Part(usize),
    /// The cookies in it.
    Cookies,
}

/// The parts that few policies ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct Late {
    pub(super) parts: Vec<(Part, Index)>,
    pub(super) parameters: ByName,
}

/// What looking up keeps between requests.
#[derive(Clone, Debug, Default)]
pub(super) struct LookupScratch {
    buffer: Vec<u8>,
    regexes: RegexCaches,
}

impl Lookups {
    /// Tells the search every fact that it may want.
    #[inline]
    pub(super) fn find(
        &self,
        view: &RequestView<'_>,
        scratch: &mut LookupScratch,
        search: &mut Search<'_>,
    ) {
        if search.wants(&self.path.first) {
            self.path.of.find(view.path, |fact| search.hold(fact));
        }
        if search.wants(&self.method.first)
            && let Some(fact) = self.method.of.find(view.method)
        {
            search.hold(*fact);
        }
        if search.wants(&self.client.first) {
            self.client.of.find(view.client, |fact| search.hold(fact));
        }
        if search.wants(&self.host.first) {
            self.host.of.find(view.host, |fact| search.hold(fact));
        }
        if search.wants(&self.fields.first) {
            self.fields.of.find(view.fields, scratch, search);
        }
        if search.wants(&self.late.first) {
            self.late.of.find(view, scratch, search);
        }
    }
}

/// Tells the search the facts of a value in all indexes of its name.
#[inline]
fn find_all(
    indexes: &[Index],
    value: Value<'_>,
    regexes: &mut RegexCaches,
    search: &mut Search<'_>,
) {
    for index in indexes {
        find_in(index, value, regexes, search);
    }
}

/// Tells the search the facts of a value. What nearly all indexes of names are needs no call.
#[inline]
fn find_in(index: &Index, value: Value<'_>, regexes: &mut RegexCaches, search: &mut Search<'_>) {
    match (index, value) {
        (Index::Patterns(texts), Value::Text(text)) => texts.find(text, |fact| search.hold(fact)),
        _ => find_other(index, value, regexes, search),
    }
}

#[inline(never)]
fn find_other(index: &Index, value: Value<'_>, regexes: &mut RegexCaches, search: &mut Search<'_>) {
    index.find(value, regexes, search);
}

impl Fields {
    #[inline]
    fn find(&self, fields: &[Field<'_>], scratch: &mut LookupScratch, search: &mut Search<'_>) {
        let LookupScratch { buffer, regexes } = scratch;
        let mut numbers = [None; FIELD_PARTS_MAX];
        for field in fields {
            let Some(uses) = self.uses.find(field.name) else {
                continue;
            };
            for use_ in uses {
                match use_ {
                    FieldUse::Value(index) => {
                        find_in(index, Value::Text(field.value), regexes, search);
                    }
                    FieldUse::Part(place) => {
                        let (part, indexes) = &self.parts[*place];
                        match part.read(field.value, buffer) {
                            Some(Value::Number(said)) => {
                                numbers[*place] = part.settle(numbers[*place], said);
                            }
                            Some(value) => find_all(indexes, value, regexes, search),
                            None => {}
                        }
                    }
                    FieldUse::Cookies if search.wants(&self.cookies.first) => {
                        for (name, value) in cookie::pairs(field.value) {
                            if let Some(indexes) = self.cookies.of.find(name) {
                                find_all(indexes, Value::Text(value), regexes, search);
                            }
                        }
                    }
                    FieldUse::Cookies => {}
                }
            }
        }
        for (place, (part, indexes)) in self.parts.iter().enumerate() {
            if let Some(number) = numbers[place].or(part.unsaid()) {
                find_all(indexes, Value::Number(number), regexes, search);
            }
        }
    }
}

impl Late {
    fn find(&self, view: &RequestView<'_>, scratch: &mut LookupScratch, search: &mut Search<'_>) {
        let LookupScratch { buffer, regexes } = scratch;
        for (part, index) in &self.parts {
            if let Some(value) = part.of(view) {
                index.find(value, regexes, search);
            }
        }
        if !self.parameters.is_empty() && !view.query.is_empty() {
            parameters(view.query, buffer, |name, value| {
                if let Some(indexes) = self.parameters.find(name) {
                    find_all(indexes, Value::Text(value), regexes, search);
                }
            });
        }
    }
}
