//! Whether an answer may be kept.

use super::asked::{Asked, Credentials};
use super::directives::{Directives, seconds};
use super::vary::{VARY_VALUE_MAX, names, value};
use crate::request::Field;
use std::time::Duration;

/// The head of a final answer of the origin.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The status.
    pub status: u16,
    /// Its fields.
    pub fields: &'a [Field<'a>],
    /// The length is known, or chunks tell where it ends: that it is whole can be seen. Not so of one that the close of the connection
    /// ends.
    pub is_framed: bool,
    /// It is what full quality answers, from the pool that the rules name.
    pub is_full: bool,
}

/// What becomes of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It may be kept once it is whole.
    Keep(Terms),
    /// It is not kept; a copy that there is stays.
    Pass,
    /// It says that what was kept is no longer true: the copy that its request would have got goes.
    Drop,
}

/// What a copy may be used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The origin says that it is for everybody: requests with credentials may get it.
    pub public: bool,
    /// How old the answer was when it came.
    pub age: Duration,
    /// How old it may get by the origin's word; [`Duration::MAX`] if that says nothing.
    pub age_max: Duration,
    /// The fields that it depends on, in lower case, with the values that its request had.
    pub vary: Vec<(Box<str>, Option<Vec<u8>>)>,
}

/// What becomes of the answer to a request with these fields.
///
/// Source: RFC 9111 §3 and §3.5. Stricter: an answer to a request with a cookie or another credential is kept only if it says
/// `public`; only 200 is kept; `no-cache` and a list of fields count as a whole.
pub fn keep(asked: &Asked, request: &[Field<'_>], answer: &Answer<'_>) -> Fate {
    let said = Directives::of(answer.fields, "cache-control");
    // RFC 9213: what holds for others in front of the origin is not less true here.
    let cdn = Directives::of(answer.fields, "cdn-cache-control");
    let forbids = |it: &Directives| it.no_store || it.no_cache || it.private;
    let forbidden = forbids(&said) || forbids(&cdn);
    // What one user may not see, others may; and what may not be planted may not make copies go.
    let speaks_for_all = asked.credentials == Credentials::None && asked.keeps && answer.is_full;
    match answer.status {
        404 | 410 if speaks_for_all => return Fate::Drop,
        200 if forbidden && speaks_for_all => return Fate::Drop,
        200 if forbidden || !asked.keeps || !answer.is_full || !answer.is_framed => {
            return Fate::Pass;
        }
        200 => {}
        _ => return Fate::Pass,
    }
    let may = asked.credentials == Credentials::None || said.public;
    let has =
        |name: &str| answer.fields.iter().any(|it| it.name.eq_ignore_ascii_case(name.as_bytes()));
    if !may || ["set-cookie", "set-cookie2", "content-range", "trailer"].into_iter().any(has) {
        return Fate::Pass;
    }
    match terms(asked, request, answer.fields, &said) {
        Some(terms) if terms.age < terms.age_max => Fate::Keep(terms),
        _ => Fate::Pass,
    }
}

fn terms(
    asked: &Asked,
    request: &[Field<'_>],
    answer: &[Field<'_>],
    said: &Directives,
) -> Option<Terms> {
    let mut ages = answer.iter().filter(|it| it.name.eq_ignore_ascii_case(b"age"));
    let age = match ages.next() {
        Some(field) => seconds(field.value)?,
        None => Duration::ZERO,
    };
    let mut vary = Vec::new();
    for name in names(answer, asked)? {
        let value = value(&name, request);
        if value.as_ref().is_some_and(|value| value.len() > VARY_VALUE_MAX) {
            return None;
        }
        vary.push((name, value));
    }
    Some(Terms { public: said.public, age, age_max: age_max(said), vary })
}

/// How old a copy may get by the origin's word. Stale answers are what the feature is for, and RFC 9111 §4.2.4 leaves them to
/// the configuration, but not where the origin forbids them: then it is fresh or not served. `Expires` is not read; where it would
/// matter, nothing is fresh.
fn age_max(said: &Directives) -> Duration {
    let fresh = said.s_maxage.or(said.max_age).unwrap_or_default();
    if said.revalidate || said.s_maxage.is_some() {
        fresh
    } else if let Some(stale) = said.stale_if_error {
        fresh + stale
    } else {
        Duration::MAX
    }
}
