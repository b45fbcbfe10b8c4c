//! Headers to which a policy gives two meanings.

use super::place::At;
use super::policy::Root;

/// Reports a header of requests' ids that another key names, too: one would be taken for the other.
pub(super) fn check(raw: &Root) {
    let Some(At { value: id, place }) = &raw.request_id else { return };
    let reason = raw.refusal.value.reason_header.as_ref().map(|it| (it, "refusal.reason_header"));
    let keys = raw.key.iter().map(|it| (&it.value.header, "[[key]]"));
    let token = raw.token.iter().map(|it| (&it.value.header, "[token]"));
    let deadlines = raw.rule.iter().filter_map(|it| it.value.deadline_header.as_ref());
    let deadlines = deadlines.map(|it| (it, "deadline_header of a rule"));
    let mut others = reason.into_iter().chain(keys).chain(token).chain(deadlines);
    if let Some((_, whose)) = others.find(|(other, _)| other.eq_ignore_ascii_case(&id.header)) {
        let message = format!("must be another header than that of {whose}, got \"{}\"", id.header);
        place.fault_at("header", message);
    }
}
