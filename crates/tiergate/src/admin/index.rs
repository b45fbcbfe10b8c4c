//! The page at `/`: the state at a glance, and where to look further. No script.

use super::adaptation::{AdaptationStatus, GuaranteeStatus, SetPointStatus};
use super::context::Phase;
use super::control::SourceStatus;
use super::observed::ObservedClassStatus;
use super::status::{ClassStatus, PoolStatus, Quantiles, ResourceStatus, Status};
use crate::observe::server::{Health, ServerStatus};
use crate::observe::words::{self, span};
use std::fmt::Write;

const STYLE: &str = "\
:root{color-scheme:light dark;--line:color-mix(in srgb,currentColor 18%,transparent)}\
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.4rem;margin:0}h2{font-size:1.05rem;margin:1.8rem 0 .4rem}\
p{margin:.3rem 0}table{border-collapse:collapse;width:100%}\
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:right;\
font-variant-numeric:tabular-nums}\
th:first-child,td:first-child{text-align:left}th{font-weight:600}\
.bad{color:#c0392b;font-weight:600}.soft{opacity:.7}pre{white-space:pre-wrap}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1.2rem}dd{margin:0}";

/// What can be read here, and what it is.
pub(super) const ENDPOINTS: [(&str, &str); 8] = [
    ("/", "this page"),
    ("/status", "everything as JSON; <code>tiergate top</code> reads it"),
    ("/metrics", "for Prometheus"),
    ("/refusals", "the latest refusals, with reasons"),
    ("/config", "the configuration in force"),
    ("/settings", "what was changed while running; <code>PATCH</code> changes it"),
    ("/readyz", "200 when requests can be served"),
    ("/healthz", "200 when the process is alive"),
];

/// The page for this state.
pub(super) fn page(status: &Status) -> String {
    let mut page = String::with_capacity(8 * 1024);
    let parts = [
        head(status),
        classes(status),
        pools(status),
        resources(status),
        origin(status),
        sensors(status),
        adaptations(status),
        observed(status),
        config(status),
        endpoints(),
    ];
    page.push_str("<!doctype html><html lang=en><meta charset=utf-8><title>Tiergate</title>");
    page.push_str("<meta name=viewport content=\"width=device-width\">");
    page.push_str("<meta http-equiv=refresh content=5>");
    let _infallible = writeln!(page, "<style>{STYLE}</style><body>{}</html>", parts.concat());
    page
}

fn head(status: &Status) -> String {
    let limit = &status.limit;
    let state = match (&status.unready, status.phase) {
        (Some(why), _) => format!("<span class=bad>{}</span>", escaped(why)),
        (None, Phase::Serving) => "serving".to_owned(),
        (None, phase) => format!("{phase:?}").to_lowercase(),
    };
    let kind = limit.kind();
    let change = limit.last_change.as_ref().map_or(String::new(), |change| {
        format!(
            "; {} {} ago: {}",
            escaped(&change.what()),
            span(change.age_seconds),
            escaped(&words::cause(&change.cause))
        )
    });
    format!(
        "<h1>Tiergate</h1><p class=soft>{} · up {} · {state} · {}</p>\
         <p><b>{}</b> of <b>{}</b> slots in use ({kind}{change}), <b>{}</b> requests waiting, \
         {} connections open</p>",
        escaped(&status.version),
        span(status.uptime_seconds),
        escaped(&status.listeners.join(", ")),
        limit.running,
        limit.slots,
        limit.waiting,
        status.clients.connections_active,
    )
}

fn classes(status: &Status) -> String {
    let row = |class: &ClassStatus| {
        let refused: u64 = class.refused.values().sum();
        let mark = if refused > 0 { " class=bad" } else { "" };
        [
            escaped(&class.name),
            class.arrived.to_string(),
            class.admitted.to_string(),
            class.waiting.to_string(),
            class.running.to_string(),
            format!("<span{mark}>{refused}</span>"),
            class.finished.get("served").copied().unwrap_or(0).to_string(),
            pair(&class.wait.window),
            pair(&class.first_byte.window),
        ]
    };
    let head = [
        "class",
        "arrived",
        "admitted",
        "waiting",
        "running",
        "refused",
        "served",
        "wait p50 / p99",
        "first byte p50 / p99",
    ];
    let table = table("Classes, most important first", head, status.classes.iter().map(row));
    table + "<p class=soft>Counts since the start, times over the last 10 s.</p>"
}

/// The pools beside the default one.
fn pools(status: &Status) -> String {
    if status.pools.is_empty() {
        return String::new();
    }
    let row = |pool: &PoolStatus| {
        let limit = &pool.limit;
        let kind = limit.kind();
        let arrived: u64 = pool.classes.iter().map(|class| class.arrived).sum();
        let refused: u64 = pool.classes.iter().flat_map(|class| class.refused.values()).sum();
        [
            escaped(&pool.name),
            format!("{} of {} ({kind})", limit.running, limit.slots),
            limit.waiting.to_string(),
            arrived.to_string(),
            refused.to_string(),
        ]
    };
    let head = ["pool", "slots in use", "waiting", "arrived", "refused"];
    table("Other pools", head, status.pools.iter().map(row))
}

/// What some requests need beside a slot.
fn resources(status: &Status) -> String {
    if status.resources.is_empty() {
        return String::new();
    }
    let row = |it: &ResourceStatus| {
        let kind = if it.adaptive { "adaptive" } else { "fixed" };
        let pool = if it.pool.is_empty() { "default".to_owned() } else { escaped(&it.pool) };
        let slots = format!("{} of {} ({kind})", it.running, it.slots);
        [escaped(&it.name), pool, slots, it.waiting.to_string()]
    };
    let head = ["resource", "pool", "slots in use", "waiting"];
    table("Resources", head, status.resources.iter().map(row))
}

fn origin(status: &Status) -> String {
    let row = |server: &ServerStatus| {
        let health = match server.health {
            Health::Up => "up".to_owned(),
            other => {
                let detail = escaped(server.detail.as_deref().unwrap_or_default());
                format!("<span class=bad>{}</span> {detail}", other.name())
            }
        };
        [
            match server.pool.as_str() {
                "" => escaped(&server.address),
                pool => format!("{} (pool {})", escaped(&server.address), escaped(pool)),
            },
            health,
            match server.limit_words() {
                Some(limit) => format!("{} ({limit})", server.in_progress()),
                None => server.in_progress(),
            },
            server.connects.to_string(),
            server.reuses.to_string(),
            server.failures.to_string(),
            server.retries.to_string(),
        ]
    };
    let head = ["server", "health", "in progress", "connects", "reuses", "failures", "retries"];
    table("Origin", head, status.origin.iter().map(row))
}

/// The sensors of the policy.
fn sensors(status: &Status) -> String {
    if status.sources.is_empty() {
        return String::new();
    }
    let row = |it: &SourceStatus| {
        let why = escaped(it.fault.as_deref().unwrap_or_default());
        let state = match (it.stale, &it.fault) {
            (true, _) => format!("<span class=bad>silent</span> {why}"),
            (false, Some(_)) => format!("<span class=bad>fails</span> {why}"),
            (false, None) => "measures".to_owned(),
        };
        let measures = escaped(it.measures.as_deref().unwrap_or_default());
        [escaped(&it.source), it.reading(), state, measures]
    };
    table(
        "Sensors",
        ["sensor", "last reading", "state", "measures"],
        status.sources.iter().map(row),
    )
}

/// What decides the quality of answers.
fn adaptations(status: &Status) -> String {
    if status.adaptations.is_empty() {
        return String::new();
    }
    let row = |it: &AdaptationStatus| {
        let state = match it.state.as_str() {
            bad @ ("lowest" | "blind") => format!("<span class=bad>{bad}</span>"),
            state => state.to_owned(),
        };
        let point = |it: &SetPointStatus| format!("{} {:.2}", escaped(&it.class), it.set_point);
        let points: Vec<String> = it.set_points.iter().map(point).collect();
        let answered: Vec<String> = it.answered.iter().map(u64::to_string).collect();
        let points = if points.is_empty() { "all full".to_owned() } else { points.join(", ") };
        let levels = format!("{points} of {}", it.levels);
        [escaped(&it.name), state, escaped(&it.readings()), levels, answered.join(" / ")]
    };
    let adaptations = table(
        "Adaptations",
        ["adaptation", "state", "reading", "level by class", "refused / answered by level"],
        status.adaptations.iter().map(row),
    );
    adaptations + &guarantees(status)
}

/// What sites are guaranteed, and use.
fn guarantees(status: &Status) -> String {
    let of = |it: &AdaptationStatus| {
        let kept = match it.guarantees_kept.unwrap_or(1.0) {
            kept if kept < 1.0 => {
                format!("<span class=bad>{:.0} % of each is kept</span>", kept * 100.0)
            }
            _ => "kept".to_owned(),
        };
        let row = |site: &GuaranteeStatus| {
            let [guaranteed, used] =
                [site.guaranteed, site.used].map(|share| format!("{:.1} %", share * 100.0));
            [escaped(&site.site), escaped(&it.name), guaranteed, used, kept.clone()]
        };
        it.guarantees.iter().map(row).collect::<Vec<_>>()
    };
    let rows: Vec<_> = status.adaptations.iter().flat_map(of).collect();
    match rows.is_empty() {
        true => String::new(),
        false => table(
            "Guarantees",
            ["site", "adaptation", "guaranteed", "used", "state"],
            rows.into_iter(),
        ),
    }
}

/// What a policy that is observed would have done.
fn observed(status: &Status) -> String {
    let Some(observed) = &status.observed else { return String::new() };
    let row = |it: &ObservedClassStatus| {
        let mut refused: Vec<_> = it.refused.iter().collect();
        refused.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let refused: Vec<String> =
            refused.iter().take(3).map(|(reason, count)| format!("{reason} {count}")).collect();
        [
            escaped(&it.name),
            it.both_admit.to_string(),
            it.would_refuse.to_string(),
            it.would_admit.to_string(),
            it.both_refuse.to_string(),
            refused.join(", "),
            pair(&it.wait),
        ]
    };
    let title = format!("Observed policy {}", escaped(&observed.policy));
    let head = [
        "class",
        "both admit",
        "would refuse",
        "would admit",
        "both refuse",
        "refused for",
        "wait 50 / 99 %",
    ];
    table(&title, head, observed.classes.iter().map(row))
}

fn table<const N: usize>(
    title: &str,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let rows: String = rows.map(|row| format!("<tr><td>{}</tr>", row.join("<td>"))).collect();
    format!("<h2>{title}</h2><table><tr><th>{}</tr>{rows}</table>", head.join("<th>"))
}

fn config(status: &Status) -> String {
    let config = &status.config;
    let path = config.path.as_deref().unwrap_or("no file");
    let fault = config.last_fault.as_ref().map_or(String::new(), |fault| {
        format!("<p class=bad>The last reload was rejected:</p><pre>{}</pre>", escaped(fault))
    });
    format!(
        "<h2>Configuration</h2><p>{}, generation {}; {} reloads, {} rejected.</p>{fault}\
         <p class=soft>Reload: <code>curl -X POST http://…/reload</code> or SIGHUP.</p>",
        escaped(path),
        config.generation,
        config.reloads_ok,
        config.reloads_failed,
    )
}

fn endpoints() -> String {
    let row = |(path, what): &(&str, &str)| format!("<dt><a href={path}>{path}</a><dd>{what}");
    let rows: String = ENDPOINTS.iter().map(row).collect();
    format!("<h2>More</h2><dl>{rows}</dl>")
}

fn pair(quantiles: &Quantiles) -> String {
    match (quantiles.p50_seconds, quantiles.p99_seconds) {
        (Some(p50), Some(p99)) => format!("{} / {}", span(p50), span(p99)),
        _ => "-".to_owned(),
    }
}

fn escaped(text: &str) -> String {
    let escapes = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&#39;")];
    escapes.iter().fold(text.to_owned(), |text, (letter, escape)| text.replace(letter, escape))
}
