//! Header fields: what each that a rule asks for is looked at for.

use super::condition::PURPOSES;
use super::head::{self, MediaType};
use super::names::Names;
use super::numbers::Numbers;
use super::search::{Rules, Search};
use super::texts::Texts;
use super::{Part, cookie};
use crate::request::Field;
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// What is asked for of the fields.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    uses: Names<FieldUse>,
    cookies: Part<Names<Texts>>,
    content_types: Texts,
    content_lengths: Numbers,
    prefetch: Option<u32>,
    urgencies: Option<Numbers>,
}

/// Values asked for, by name.
pub(super) type ByName = Vec<(Box<[u8]>, Texts)>;

/// What a field of some name is looked at for.
#[derive(Clone, Debug, Default)]
struct FieldUse {
    values: Option<Texts>,
    grammar: Option<Grammar>,
}

/// A field that is more than a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grammar {
    Cookie,
    ContentType,
    ContentLength,
    Purpose,
    Priority,
}

impl Fields {
    /// `headers`, by name in lower case; the rest as far as any rule asks for it.
    pub(super) fn new(
        headers: ByName,
        (cookies, cookies_first): (ByName, Rules),
        content_types: Option<Texts>,
        content_lengths: Option<Numbers>,
        prefetch: Option<u32>,
        urgencies: Option<Numbers>,
    ) -> Self {
        let mut uses: HashMap<Box<[u8]>, FieldUse, FixedState> = HashMap::default();
        for (name, values) in headers {
            uses.entry(name).or_default().values = Some(values);
        }
        let mut read = |name: &[u8], grammar, asked: bool| {
            if asked {
                uses.entry(name.into()).or_default().grammar = Some(grammar);
            }
        };
        read(b"cookie", Grammar::Cookie, !cookies.is_empty());
        read(b"content-type", Grammar::ContentType, content_types.is_some());
        read(b"content-length", Grammar::ContentLength, content_lengths.is_some());
        read(b"priority", Grammar::Priority, urgencies.is_some());
        for name in PURPOSES {
            read(name, Grammar::Purpose, prefetch.is_some());
        }
        Fields {
            uses: Names::new(uses.into_iter().collect(), true),
            cookies: Part { first: cookies_first, of: Names::new(cookies, false) },
            content_types: content_types.unwrap_or_default(),
            content_lengths: content_lengths.unwrap_or_default(),
            prefetch,
            urgencies,
        }
    }

    /// Tells the search every fact about the fields.
    #[inline]
    pub(super) fn find(&self, fields: &[Field<'_>], search: &mut Search<'_>) {
        let mut said = Said::default();
        for field in fields {
            if let Some(uses) = self.uses.find(field.name) {
                if let Some(values) = &uses.values {
                    values.find(field.value, |fact| search.hold(fact));
                }
                match uses.grammar {
                    None => {}
                    Some(Grammar::Cookie) => self.find_cookies(field.value, search),
                    Some(grammar) => self.read(grammar, field.value, &mut said, search),
                }
            }
        }
        if let Some(urgencies) = &self.urgencies {
            let urgency = said.urgency.unwrap_or(head::URGENCY_DEFAULT);
            urgencies.find(urgency.into(), |fact| search.hold(fact));
        }
    }

    fn find_cookies(&self, value: &[u8], search: &mut Search<'_>) {
        if search.wants(&self.cookies.first) {
            for (name, value) in cookie::pairs(value) {
                if let Some(values) = self.cookies.of.find(name) {
                    values.find(value, |fact| search.hold(fact));
                }
            }
        }
    }

    fn read(&self, grammar: Grammar, value: &[u8], said: &mut Said, search: &mut Search<'_>) {
        match grammar {
            Grammar::Cookie => {}
            Grammar::ContentType => {
                if let Some(media) = MediaType::of(value) {
                    self.content_types.find(media.as_bytes(), |fact| search.hold(fact));
                }
            }
            // Of several that are numbers the first counts; the parser lets none through that differ.
            Grammar::ContentLength if !said.content_length => {
                if let Some(len) = head::content_length(value) {
                    said.content_length = true;
                    self.content_lengths.find(len, |fact| search.hold(fact));
                }
            }
            Grammar::ContentLength => {}
            Grammar::Purpose => {
                if let Some(fact) = self.prefetch.filter(|_| head::is_prefetch(value)) {
                    search.hold(fact);
                }
            }
            Grammar::Priority => said.urgency = head::urgency(value).or(said.urgency),
        }
    }
}

/// What fields said that several may say.
#[derive(Default)]
struct Said {
    content_length: bool,
    urgency: Option<u8>,
}
