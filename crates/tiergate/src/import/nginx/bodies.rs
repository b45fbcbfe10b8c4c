//! `client_max_body_size`: how large a request's body may be.

use super::super::draft::{Draft, From, Item};
use super::grammar::Directive;
use super::named::goes_on;

/// What nginx takes where nothing is said.
const DEFAULT: u64 = 1 << 20;

/// Writes the largest bound of all, because the policy has one for all requests, and lists where nginx has a smaller one.
pub(super) fn limit(list: &[Directive], limits: &mut Item, draft: &mut Draft) {
    let default = From { text: "client_max_body_size 1m by default".to_owned(), ..From::default() };
    let mut found = Vec::new();
    let outer = own(list, draft).unwrap_or((DEFAULT, default));
    for server in list.iter().filter(|it| it.name == "server") {
        within(&server.block, &outer, &mut found, draft);
    }
    let Some((most, from)) = found.iter().max_by_key(|it| it.0).cloned() else { return };
    let written = if most == u64::MAX { 0 } else { most };
    limits.key("request_body_max", written, &from);
    for (_, from) in found.iter().filter(|it| it.0 < most) {
        draft.less_safe(from, "limits.request_body_max holds for all requests, and the largest is there: let the origin refuse what is larger than this");
    }
}

/// The bounds of a server or location and of all within it.
fn within(
    list: &[Directive],
    outer: &(u64, From),
    found: &mut Vec<(u64, From)>,
    draft: &mut Draft,
) {
    let own = own(list, draft).unwrap_or_else(|| outer.clone());
    if list.iter().any(|it| it.name == "proxy_pass" || goes_on(it).is_some()) {
        found.push(own.clone());
    }
    for location in list.iter().filter(|it| it.name == "location") {
        within(&location.block, &own, found, draft);
    }
}

/// What a block says itself. A bound of 0 is none.
fn own(list: &[Directive], draft: &mut Draft) -> Option<(u64, From)> {
    let line = list.iter().rfind(|it| it.name == "client_max_body_size")?;
    match size(line.argument(0)) {
        Some(size) => Some((if size == 0 { u64::MAX } else { size }, line.from.clone())),
        None => {
            draft.less_safe(&line.from, "must be a size such as 10m");
            None
        }
    }
}

/// A size in bytes.
fn size(text: &str) -> Option<u64> {
    let digits = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}
