//! The slots over the hour, and what happened.

use super::super::incident::Incident;
use super::super::status::Status;
use super::chart::{Chart, Layer, Mark, axis};
use super::classes::{by_column, columns_in, points_a_column};
use super::words;
use crate::observe::hour::{Event, HourPoint, POINT_INTERVAL};
use crate::observe::words::cause;
use maud::{Markup, html};

/// Events that are listed, and marked in the chart if they are of the last hour.
const EVENTS_SHOWN: usize = 12;

pub(super) fn slots(status: &Status, incident: &Incident) -> Markup {
    let limit = &status.limit;
    let latest: Vec<&Event> = incident.events.iter().rev().take(EVENTS_SHOWN).collect();
    html! {
        p {
            b { (limit.running) } " of " b { (limit.slots) } " slots in use (" (limit.kind()) ") · "
            b { (limit.waiting) } " waiting"
            @if let Some(change) = &limit.last_change {
                " · last change: " (change.what()) ", " (cause(&change.cause))
            }
        }
        (chart(incident, &latest))
        @if latest.is_empty() {
            p.soft { "Nothing of note has happened: no large change of the limit, no server that went, no reload." }
        } @else {
            ol.events {
                @for (place, event) in latest.iter().enumerate() {
                    li { span.number { (place + 1) } " " time { (words::clock(event.at_seconds)) } " " (event.what) }
                }
            }
            p.soft { "Latest first. Times are UTC." }
        }
    }
}

fn chart(incident: &Incident, latest: &[&Event]) -> Markup {
    let columns: Vec<Option<&[HourPoint]>> = by_column(&incident.hour).collect();
    let most = |of: fn(&HourPoint) -> f64| -> Vec<Option<f64>> {
        let of_column = |points: &[HourPoint]| points.iter().map(of).fold(0.0, f64::max);
        columns.iter().map(|it| it.map(of_column)).collect()
    };
    let slots = most(|it| f64::from(it.slots));
    let running = most(|it| f64::from(it.running));
    let waiting = most(|it| it.waiting as f64);
    let highest = |values: &[Option<f64>]| values.iter().flatten().copied().fold(0.0, f64::max);
    let max = highest(&slots).max(highest(&running)) * 1.05;
    let label = format!(
        "lately: at most {:.0} slots, {:.0} in use, {:.0} requests waiting",
        highest(&slots),
        highest(&running),
        highest(&waiting)
    );
    let shown = running.into_iter().map(|it| it.unwrap_or_default()).collect();
    let stack = vec![Layer { style: "running", values: shown }];
    let lines = vec![("slots", slots)];
    let marks = marks(&incident.hour, latest);
    let waiting_max = highest(&waiting);
    let waits = Chart {
        columns: columns.len(),
        label: format!("lately: at most {waiting_max:.0} requests waiting"),
        stack: vec![Layer {
            style: "queued",
            values: waiting.into_iter().map(|it| it.unwrap_or_default()).collect(),
        }],
        lines: Vec::new(),
        marks: Vec::new(),
        max: waiting_max,
        size: "short",
    };
    let chart = Chart { columns: columns.len(), label, stack, lines, marks, max, size: "tall" };
    html! {
        p.legend {
            span { i.key-slots {} "slots" }
            span { i.key-running {} "in use" }
            span { i.key-queued {} "waiting (below)" }
            span { b { "1 2 …" } " what happened" }
        }
        div.plot { (chart.draw()) span.scale { (format!("{:.0} slots", max / 1.05)) } }
        div.plot { (waits.draw()) span.scale { (format!("{waiting_max:.0}")) } }
        (axis(columns.len(), points_a_column(&incident.hour)))
    }
}

/// Where the events are in the chart.
fn marks(hour: &[HourPoint], latest: &[&Event]) -> Vec<Mark> {
    let Some(last) = hour.last() else { return Vec::new() };
    let width = (points_a_column(hour) as u64 * POINT_INTERVAL.as_secs()) as f64;
    let end = (last.at_seconds as f64 / width).floor() + 1.0;
    let columns = columns_in(hour) as f64;
    let mark = |(place, event): (usize, &&Event)| {
        let column = event.at_seconds as f64 / width - end + columns;
        let number = place + 1;
        (column >= 0.0).then_some(Mark { column: column.min(columns - 0.5), number })
    };
    latest.iter().enumerate().filter_map(mark).collect()
}
