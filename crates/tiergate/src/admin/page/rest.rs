//! What only some policies have: other pools, resources, sensors, adaptations, an observed policy.

use super::super::adaptation::{AdaptationStatus, GuaranteeStatus, SetPointStatus};
use super::super::control::SourceStatus;
use super::super::observed::ObservedClassStatus;
use super::super::status::{PoolStatus, Quantiles, ResourceStatus, Status};
use crate::observe::words::span;
use maud::{Markup, html};

pub(super) fn rest(status: &Status) -> Markup {
    let clients = &status.clients;
    html! {
        p {
            (clients.connections_active) " client connections, " (clients.tunnels_active)
            " tunnels; " (clients.bad_requests) " bad requests, " (clients.tls_failed)
            " failed TLS handshakes, " (clients.connections_turned_away)
            " connections turned away since the start"
        }
        (pools(status))
        (resources(status))
        (sensors(status))
        (adaptations(status))
        (guarantees(status))
        (observed(status))
    }
}

/// A table that scrolls by itself where the page is narrow.
pub(super) fn table<const N: usize>(
    head: [&str; N],
    rows: impl Iterator<Item = [Markup; N]>,
) -> Markup {
    html! {
        div.wide tabindex="0" {
            table {
                thead { tr { @for name in head { th scope="col" { (name) } } } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (place, cell) in row.iter().enumerate() {
                                @if place == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn titled<const N: usize>(title: &str, head: [&str; N], rows: Vec<[Markup; N]>) -> Markup {
    html! {
        @if !rows.is_empty() {
            h3 { (title) }
            (table(head, rows.into_iter()))
        }
    }
}

fn pools(status: &Status) -> Markup {
    let row = |pool: &PoolStatus| {
        let limit = &pool.limit;
        let arrived: u64 = pool.classes.iter().map(|class| class.arrived).sum();
        let refused: u64 = pool.classes.iter().flat_map(|class| class.refused.values()).sum();
        [
            html! { (pool.name) },
            html! { (limit.running) " of " (limit.slots) " (" (limit.kind()) ")" },
            html! { (limit.waiting) },
            html! { (arrived) },
            html! { (refused) },
        ]
    };
    let head = ["pool", "slots in use", "waiting", "arrived", "refused"];
    titled("Other pools", head, status.pools.iter().map(row).collect())
}

/// What some requests need beside a slot.
fn resources(status: &Status) -> Markup {
    let row = |it: &ResourceStatus| {
        let kind = if it.adaptive { "adaptive" } else { "fixed" };
        let pool = if it.pool.is_empty() { "default" } else { &it.pool };
        [
            html! { (it.name) },
            html! { (pool) },
            html! { (it.running) " of " (it.slots) " (" (kind) ")" },
            html! { (it.waiting) },
        ]
    };
    let head = ["resource", "pool", "slots in use", "waiting"];
    titled("Resources", head, status.resources.iter().map(row).collect())
}

/// The sensors of the policy.
fn sensors(status: &Status) -> Markup {
    let row = |it: &SourceStatus| {
        let why = it.fault.as_deref().unwrap_or_default();
        [
            html! { (it.source) },
            html! { (it.reading()) },
            html! {
                @match (it.stale, &it.fault) {
                    (true, _) => { span.bad { "silent" } " " (why) },
                    (false, Some(_)) => { span.bad { "fails" } " " (why) },
                    (false, None) => "measures",
                }
            },
            html! { (it.measures.as_deref().unwrap_or_default()) },
        ]
    };
    let head = ["sensor", "last reading", "state", "measures"];
    titled("Sensors", head, status.sources.iter().map(row).collect())
}

/// What decides the quality of answers.
fn adaptations(status: &Status) -> Markup {
    let row = |it: &AdaptationStatus| {
        let point = |it: &SetPointStatus| format!("{} {:.2}", it.class, it.set_point);
        let points: Vec<String> = it.set_points.iter().map(point).collect();
        let answered: Vec<String> = it.answered.iter().map(u64::to_string).collect();
        let points = if points.is_empty() { "all full".to_owned() } else { points.join(", ") };
        [
            html! { (it.name) },
            html! {
                @match it.state.as_str() {
                    bad @ ("lowest" | "blind") => span.bad { (bad) },
                    state => (state),
                }
            },
            html! { (it.readings()) },
            html! { (points) " of " (it.levels) },
            html! { (answered.join(" / ")) },
        ]
    };
    let head = ["adaptation", "state", "reading", "level by class", "refused / answered by level"];
    titled("Adaptations", head, status.adaptations.iter().map(row).collect())
}

/// What sites are guaranteed, and use.
fn guarantees(status: &Status) -> Markup {
    let of = |it: &AdaptationStatus| {
        let kept = it.guarantees_kept.unwrap_or(1.0);
        let row = |site: &GuaranteeStatus| {
            let [guaranteed, used] =
                [site.guaranteed, site.used].map(|share| format!("{:.1} %", share * 100.0));
            [
                html! { (site.site) },
                html! { (it.name) },
                html! { (guaranteed) },
                html! { (used) },
                html! {
                    @if kept < 1.0 { span.bad { (format!("{:.0} % of each is kept", kept * 100.0)) } }
                    @else { "kept" }
                },
            ]
        };
        it.guarantees.iter().map(row).collect::<Vec<_>>()
    };
    let head = ["site", "adaptation", "guaranteed", "used", "state"];
    titled("Guarantees", head, status.adaptations.iter().flat_map(of).collect())
}

/// What a policy that is observed would have done.
fn observed(status: &Status) -> Markup {
    let Some(observed) = &status.observed else { return html! {} };
    let row = |it: &ObservedClassStatus| {
        let mut refused: Vec<_> = it.refused.iter().collect();
        refused.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let refused: Vec<String> =
            refused.iter().take(3).map(|(reason, count)| format!("{reason} {count}")).collect();
        [
            html! { (it.name) },
            html! { (it.both_admit) },
            html! { (it.would_refuse) },
            html! { (it.would_admit) },
            html! { (it.both_refuse) },
            html! { (refused.join(", ")) },
            html! { (pair(&it.wait)) },
        ]
    };
    let head = [
        "class",
        "both admit",
        "would refuse",
        "would admit",
        "both refuse",
        "refused for",
        "wait 50 / 99 %",
    ];
    let title = format!("Observed policy {}", observed.policy);
    titled(&title, head, observed.classes.iter().map(row).collect())
}

fn pair(quantiles: &Quantiles) -> String {
    match (quantiles.p50_seconds, quantiles.p99_seconds) {
        (Some(p50), Some(p99)) => format!("{} / {}", span(p50), span(p99)),
        _ => "–".to_owned(),
    }
}
