//! What came out, as JSON. Times are in seconds, utilizations 0.0 to 1.0.

use super::result::{Measured, Results};
use serde_json::{Map, Value, json};
use std::time::Duration;
use tiergate_core::adapt::Estimate;
use tiergate_core::calibrate::{End, Resource, Step, Usage};

pub(super) fn of(results: &Results) -> Value {
    let costs = results.costs();
    json!({
        "origin_here": results.origin.is_here,
        "processors": results.origin.processors,
        "origin": results.watched.origin,
        "interface": results.watched.interface,
        "not_measured": results.watched.missing,
        "idle": usage(&results.idle),
        "resources": results.all.iter().map(resource).collect::<Vec<_>>(),
        "cost": costs.origin.map(|fit| json!({
            "request": estimate(fit.request),
            "mebibyte": estimate(fit.mebibyte),
            "off_max": fit.off_max,
            "sizes": costs.sizes,
        })),
        "link_mebibyte": costs.link,
        "fault": results.fault(),
    })
}

fn resource(it: &Measured) -> Value {
    let capacity = it.capacity.as_ref().map(|capacity| {
        json!({
            "rate": estimate(capacity.rate),
            "knee": step(&capacity.knee),
            "usage": usage(&capacity.usage),
            "bytes": capacity.bytes,
            "steady": capacity.is_steady,
            "after": capacity.after,
        })
    });
    json!({
        "url": it.target.to_string(),
        "address": it.target.address.to_string(),
        "bytes": it.answer.bytes,
        "alone": {
            "first_byte": it.answer.first_byte.as_secs_f64(),
            "whole": it.answer.whole.as_secs_f64(),
        },
        "end": it.end.map_or("interrupted", end),
        "elapsed": it.ramp.elapsed().as_secs_f64(),
        "requests": it.ramp.requests(),
        "failure": it.failure,
        "is_capacity": it.is_capacity(),
        "capacity": capacity,
        "bottleneck": it.finding.what.name(),
        "highest": it.finding.highest.map(|(resource, share)| json!({ resource.name(): share })),
        "also": it.finding.also.map(|(resource, share)| json!({ resource.name(): share })),
        "busy_with_others": it.finding.busy_with_others,
        "busy_behind": it.finding.busy_behind,
        "steps": it.ramp.steps().iter().map(step).collect::<Vec<_>>(),
    })
}

fn step(step: &Step) -> Value {
    let latency = |quantile| step.latency(quantile).as_ref().map(Duration::as_secs_f64);
    json!({
        "concurrency": step.concurrency,
        "seconds": step.time.as_secs_f64(),
        "answered": step.answered,
        "refused": step.refused,
        "failed": step.failed,
        "rate": step.rate(),
        "error": step.error(),
        "p50": latency(0.5),
        "p99": latency(0.99),
        "transfer_share": step.transfer_share(),
        "usage": usage(&step.usage),
    })
}

fn usage(usage: &Usage) -> Value {
    let known =
        Resource::ALL.iter().filter_map(|it| Some((it.name().to_owned(), usage.of(*it)?.into())));
    Value::Object(known.collect::<Map<_, _>>())
}

fn estimate(estimate: Estimate) -> Value {
    json!({ "value": estimate.value, "error": estimate.error })
}

const fn end(end: End) -> &'static str {
    match end {
        End::Saturated => "saturated",
        End::Refused => "refused",
        End::Failed => "failed",
        End::Concurrency => "concurrency",
        End::Rate => "rate",
        End::Requests => "requests",
        End::Time => "time",
    }
}
