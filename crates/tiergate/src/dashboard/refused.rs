//! The latest refusals in as many rows as there is room for.

use crate::observe::refusals::Shown;
use crate::observe::words::harmless;

/// Refusals that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RefusedRow {
    pub(super) count: usize,
    /// Hours, minutes and seconds of the latest one.
    pub(super) last: String,
    pub(super) class: String,
    /// The whole reason.
    pub(super) reason: String,
    /// The client, or how many.
    pub(super) client: String,
    /// The request; the latest and how many others, if there are several.
    pub(super) request: String,
}

/// What refusals have in common that share a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alike {
    Request,
    Client,
    Reason,
}

/// The refusals, newest first, in at most `room` rows if that can be: those alike in class, reason, client and request share a row; or if
/// these are too many, in class, reason and client; or in class and reason. Those that came most often come first.
pub(super) fn rows(refusals: &[Shown], room: usize) -> Vec<RefusedRow> {
    let by = |alike| grouped(refusals, alike);
    let fits = |rows: &Vec<RefusedRow>| rows.len() <= room;
    let rows = Some(by(Alike::Request)).filter(fits);
    let rows = rows.or_else(|| Some(by(Alike::Client)).filter(fits));
    rows.unwrap_or_else(|| by(Alike::Reason))
}

fn grouped(refusals: &[Shown], alike: Alike) -> Vec<RefusedRow> {
    let mut groups: Vec<Vec<&Shown>> = Vec::new();
    for refusal in refusals {
        let same = |group: &&mut Vec<&Shown>| {
            let first = group[0];
            let reason = first.class == refusal.class && first.reason == refusal.reason;
            let client = first.client == refusal.client;
            let request = first.method == refusal.method && first.path == refusal.path;
            match alike {
                Alike::Reason => reason,
                Alike::Client => reason && client,
                Alike::Request => reason && client && request,
            }
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(refusal),
            None => groups.push(vec![refusal]),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    groups.iter().map(|group| row(group)).collect()
}

/// Of refusals of which the first is the latest.
fn row(group: &[&Shown]) -> RefusedRow {
    let latest = group[0];
    let more = if latest.path_cut { "…" } else { "" };
    let request = harmless(&format!("{} {}{more}", latest.method, latest.path));
    let distinct = |key: fn(&Shown) -> String| {
        let mut all: Vec<String> = group.iter().map(|it| key(it)).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    RefusedRow {
        count: group.len(),
        // Hours, minutes and seconds of an RFC 3339 time.
        last: latest.at.get(11..19).unwrap_or_default().to_owned(),
        class: harmless(&latest.class),
        reason: harmless(&latest.reason),
        client: match distinct(|it| it.client.to_string()) {
            1 => latest.client.to_string(),
            clients => format!("{clients} clients"),
        },
        request: match distinct(|it| format!("{} {}", it.method, it.path)) {
            1 => request,
            requests => format!("{request} (+{})", requests - 1),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::reading;
    use super::*;

    /// Of two clients for two reasons: 40 with paths of their own, and 20 of the same.
    fn refusals() -> Vec<Shown> {
        let first = reading(1).refusals[0].clone();
        let one = (0..40).map(|it| Shown { path: format!("/p/{it}"), ..first.clone() });
        let client = "192.0.2.8".parse().expect("an address");
        let reason = "deadline_infeasible".to_owned();
        let other = Shown { client, reason, path: "/same".to_owned(), ..first.clone() };
        one.chain((0..20).map(|_| other.clone())).collect()
    }

    #[test]
    fn rows_are_as_fine_as_there_is_room() {
        let lens = [100, 41, 40, 2, 1].map(|room| rows(&refusals(), room).len());
        assert_eq!(lens, [41, 41, 2, 2, 2]);
        let fine = &rows(&refusals(), 100)[0];
        assert_eq!((fine.count, fine.request.as_str()), (20, "GET /same"));
        let coarse = rows(&refusals(), 5);
        assert_eq!((coarse[0].count, coarse[0].client.as_str()), (40, "192.0.2.7"));
        assert_eq!(coarse[0].request, "GET /p/0 (+39)");
        assert_eq!((coarse[1].count, coarse[1].reason.as_str()), (20, "deadline_infeasible"));
    }

    #[test]
    fn many_clients_of_a_reason_are_counted() {
        let mut many = refusals();
        for (place, refusal) in many.iter_mut().enumerate() {
            refusal.client = [10, 0, 0, place as u8].into();
            refusal.reason = "queue_full".to_owned();
        }
        let rows = rows(&many, 5);
        assert_eq!((rows.len(), rows[0].count, rows[0].client.as_str()), (1, 60, "60 clients"));
        assert!(super::rows(&[], 5).is_empty());
    }
}
