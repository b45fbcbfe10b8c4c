//! The classes: how each fares now, and its last hour.

use super::super::incident::{ClassNow, Incident};
use super::super::status::Status;
use super::chart::{COLUMNS, Chart, Layer, axis, columns as columns_for};
use super::rest::table;
use super::words;
use crate::observe::hour::{ClassPoint, HourPoint, POINT_INTERVAL};
use crate::observe::words::{rate, span};
use maud::{Markup, html};

/// Classes that have a chart; a policy may have 64.
const CHARTS_MAX: usize = 12;
/// Points of a column: one for the first twenty minutes, then three, so that the chart shows an hour.
pub(super) fn points_a_column(hour: &[HourPoint]) -> usize {
    if hour.len() <= COLUMNS { 1 } else { 3 }
}

/// How many columns it takes to show the points, gaps between them included.
pub(super) fn columns_in(hour: &[HourPoint]) -> usize {
    let width = points_a_column(hour) as u64 * POINT_INTERVAL.as_secs();
    let number = |it: Option<&HourPoint>| it.map_or(0, |it| it.at_seconds / width);
    let span = number(hour.last()).saturating_sub(number(hour.first())) + 1;
    columns_for(usize::try_from(span).unwrap_or(usize::MAX))
}

pub(super) fn classes(_status: &Status, incident: &Incident) -> Markup {
    let (charts, others) = incident.classes.split_at(incident.classes.len().min(CHARTS_MAX));
    html! {
        p.legend {
            span { i.key-once {} "at once" }
            span { i.key-queued {} "after a wait" }
            span { i.key-refused {} "refused or left" }
            span { i.key-failed {} "failed" }
            span { i.key-wait {} "wait p99 (right: its deadline)" }
        }
        div.cards {
            @for class in charts { (card(class, &incident.hour)) }
        }
        @if !others.is_empty() {
            details data-key="classes" {
                summary { (others.len()) " more classes" }
                (table(
                    ["class", "served", "arrived/s", "refused/s", "waiting"],
                    others.iter().map(|it| [
                        html! { (it.name) },
                        html! { (served(it)) },
                        html! { (rate(it.arrived_per_second)) },
                        html! { (rate(it.refused_per_second)) },
                        html! { (it.waiting) },
                    ]),
                ))
            }
        }
    }
}

fn served(class: &ClassNow) -> Markup {
    html! {
        @match class.served_share {
            Some(share) if share < 0.99 => { span.bad { (words::percent(share)) " served" } },
            Some(share) => { (words::percent(share)) " served" },
            None => span.soft { "no requests" },
        }
    }
}

fn card(class: &ClassNow, hour: &[HourPoint]) -> Markup {
    html! {
        article {
            h3 { span.name { (class.name) } " " span.share { (served(class)) } }
            p {
                b { (rate(class.arrived_per_second)) } "/s in · "
                @if class.refused_per_second > 0.0 {
                    b.warn { (rate(class.refused_per_second)) "/s refused" }
                    @if let Some(reason) = &class.reason { ", most: " (words::reason(reason)) }
                } @else { "0 refused" }
            }
            p {
                (class.in_service) " in service · " (class.waiting) " waiting · wait p99 "
                @match class.wait_p99_seconds {
                    Some(wait) if wait > class.deadline_seconds / 2.0 =>
                        b.warn { (span(wait)) },
                    Some(wait) => b { (span(wait)) },
                    None => "–",
                }
                " of " (span(class.deadline_seconds))
            }
            p {
                "room until shed: "
                @match class.success_buffer {
                    Some(buffer) if buffer <= 0.0 => b.warn { (words::buffer(buffer)) },
                    Some(buffer) => b { (words::buffer(buffer)) },
                    None => span.soft { "not known" },
                }
            }
            (requests(class, hour))
            (waits(class, hour))
            (axis(columns_in(hour), points_a_column(hour)))
        }
    }
}

/// The points of a class, as many as fit into the chart, by column; columns without points are `None`.
fn columns(class: &ClassNow, hour: &[HourPoint]) -> Vec<Option<Vec<ClassPoint>>> {
    by_column(hour)
        .map(|points| {
            let own: Vec<ClassPoint> = points?.iter().map(|it| it.class(&class.name)).collect();
            Some(own)
        })
        .collect()
}

/// The points of each column, the latest last; `None`: the process was not there, or not for so long.
pub(super) fn by_column(hour: &[HourPoint]) -> impl Iterator<Item = Option<&[HourPoint]>> {
    // Columns are cut at whole multiples of their width, so that a column does not change once it is full.
    let width = points_a_column(hour) as u64 * POINT_INTERVAL.as_secs();
    let last = hour.last().map_or(0, |it| it.at_seconds / width);
    let columns = columns_in(hour) as u64;
    (0..columns).map(move |column| {
        let number = (last + 1 + column).checked_sub(columns)?;
        let from = hour.partition_point(|it| it.at_seconds / width < number);
        let to = hour.partition_point(|it| it.at_seconds / width <= number);
        (from < to).then(|| &hour[from..to])
    })
}

fn requests(class: &ClassNow, hour: &[HourPoint]) -> Markup {
    let columns = columns(class, hour);
    let per_second = |of: fn(&ClassPoint) -> u64| -> Vec<f64> {
        let mean = |points: &Vec<ClassPoint>| {
            let seconds = points.len() as f64 * POINT_INTERVAL.as_secs_f64();
            points.iter().map(of).sum::<u64>() as f64 / seconds
        };
        columns.iter().map(|it| it.as_ref().map_or(0.0, mean)).collect()
    };
    // What failed had a slot: it is drawn instead of its way to it.
    let failed = per_second(|it| it.failed);
    let mut at_once = per_second(|it| it.at_once);
    let mut queued = per_second(|it| it.queued.saturating_sub(it.refused));
    for (column, failed) in failed.iter().enumerate() {
        let from_once = failed.min(at_once[column]);
        at_once[column] -= from_once;
        queued[column] = (queued[column] - (failed - from_once)).max(0.0);
    }
    let refused = per_second(|it| it.refused);
    let all = (0..columns.len()).map(|it| at_once[it] + queued[it] + refused[it] + failed[it]);
    let max = all.fold(0.0, f64::max);
    let total =
        |of: fn(&ClassPoint) -> u64| -> u64 { columns.iter().flatten().flatten().map(of).sum() };
    let label = format!(
        "{}, lately: {} requests, {} refused, {} failed; at most {} a second",
        class.name,
        total(|it| it.arrived),
        total(|it| it.refused),
        total(|it| it.failed),
        rate(max)
    );
    let layer = |style, values| Layer { style, values };
    let stack = vec![
        layer("once", at_once),
        layer("queued", queued),
        layer("refused", refused),
        layer("failed", failed),
    ];
    let chart = Chart {
        columns: columns.len(),
        label,
        stack,
        lines: Vec::new(),
        marks: Vec::new(),
        max,
        size: "tall",
    };
    html! { div.plot { (chart.draw()) span.scale { (rate(max)) "/s" } } }
}

/// The waits against the deadline, which is the top of the chart.
fn waits(class: &ClassNow, hour: &[HourPoint]) -> Markup {
    let columns = columns(class, hour);
    let longest = |points: &Vec<ClassPoint>| {
        points.iter().filter_map(|it| it.wait_p99_seconds).reduce(f64::max)
    };
    let values: Vec<Option<f64>> = columns.iter().map(|it| it.as_ref().and_then(longest)).collect();
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let label = format!(
        "{}, lately: longest wait (p99) {}, deadline {}",
        class.name,
        span(most),
        span(class.deadline_seconds)
    );
    let chart = Chart {
        columns: columns.len(),
        label,
        stack: Vec::new(),
        lines: vec![("wait", values)],
        marks: Vec::new(),
        max: class.deadline_seconds,
        size: "short",
    };
    html! { div.plot { (chart.draw()) span.scale { (span(class.deadline_seconds)) } } }
}
