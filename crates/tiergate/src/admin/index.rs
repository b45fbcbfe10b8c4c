//! The page at `/`: the state at a glance, and where to look further. No script.

use super::context::Phase;
use super::status::{ClassStatus, Quantiles, Status};
use crate::observe::server::{Health, ServerStatus};
use crate::observe::words;
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

/// The endpoints, in the words of the page.
const ENDPOINTS: [(&str, &str); 6] = [
    ("/status", "everything as JSON; <code>tiergate top</code> reads it"),
    ("/metrics", "for Prometheus"),
    ("/refusals", "the latest refusals, with reasons"),
    ("/config", "the configuration in force"),
    ("/readyz", "200 when requests can be served"),
    ("/healthz", "200 when the process is alive"),
];

/// The page for this state.
pub(super) fn page(status: &Status) -> String {
    let mut page = String::with_capacity(8 * 1024);
    let parts = [head(status), classes(status), origin(status), config(status), endpoints()];
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
    let kind = if limit.adaptive { "adaptive" } else { "fixed" };
    let change = limit.last_change.as_ref().map_or(String::new(), |change| {
        format!(
            "; set to {} {} ago: {}",
            change.slots,
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
    let rows: String = status.classes.iter().map(class).collect();
    format!(
        "<h2>Classes, most important first</h2><table><tr><th>class<th>arrived<th>admitted\
         <th>waiting<th>running<th>refused<th>served<th>wait p50 / p99<th>first byte p50 / p99\
         </tr>{rows}</table><p class=soft>Counts since the start, times over the last 10 s.</p>"
    )
}

fn class(class: &ClassStatus) -> String {
    let refused: u64 = class.refused.values().sum();
    let served = class.finished.get("served").copied().unwrap_or(0);
    let mark = if refused > 0 { " class=bad" } else { "" };
    format!(
        "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td{mark}>{refused}<td>{served}<td>{}<td>{}</tr>",
        escaped(&class.name),
        class.arrived,
        class.admitted,
        class.waiting,
        class.running,
        pair(&class.wait.window),
        pair(&class.first_byte.window),
    )
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
        format!(
            "<tr><td>{}<td>{health}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            escaped(&server.address),
            server.outstanding,
            server.connects,
            server.reuses,
            server.failures,
            server.retries,
        )
    };
    let rows: String = status.origin.iter().map(row).collect();
    format!(
        "<h2>Origin</h2><table><tr><th>server<th>health<th>in progress<th>connects<th>reuses\
         <th>failures<th>retries</tr>{rows}</table>"
    )
}

fn config(status: &Status) -> String {
    let config = &status.config;
    let path = config.path.as_deref().unwrap_or("no file");
    let fault = config.last_fault.as_ref().map_or(String::new(), |fault| {
        format!("<p class=bad>The last reload was refused:</p><pre>{}</pre>", escaped(fault))
    });
    format!(
        "<h2>Configuration</h2><p>{}, generation {}; {} reloads, {} refused.</p>{fault}\
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
        _ => "–".to_owned(),
    }
}

fn span(seconds: f64) -> String {
    words::span(seconds)
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
