//! The report for machines. The same run gives the same bytes.

use super::compared::Compared;
use crate::report::ClassReport;
use crate::spread::Spread;
use serde_json::{Map, Value, json as value};
use tiergate_core::reason::Reason;

/// The whole report as JSON: keys in order, no time of day, no path but the title's.
pub fn json(it: &Compared) -> String {
    let sums = it.sums();
    let seconds = it.policy().seconds();
    let mut fronts = Map::new();
    for ((front, report), sums) in it.reports.iter().zip(&sums) {
        let all = &sums[it.classes.len()];
        let mut classes = Map::new();
        for (class, name) in it.classes.iter().enumerate() {
            classes.insert(name.clone(), figures(&sums[class], all, seconds));
        }
        let over_time: Map<String, Value> = it
            .classes
            .iter()
            .enumerate()
            .map(|(class, name)| {
                let series = &report.series;
                let series = value!({
                    "goodput_per_second": series.goodput(class).into_iter().map(rounded).collect::<Vec<_>>(),
                    "wait_p99_ms": series.wait_p99_ms(class).into_iter()
                        .map(|ms| ms.map(rounded)).collect::<Vec<_>>(),
                });
                (name.clone(), series)
            })
            .collect();
        let front_value = value!({
            "requests": report.requests,
            "classes": classes,
            "all": figures(all, all, seconds),
            "slots": report.slots.last().map(|(_, slots)| slots),
            "over_time": { "step_seconds": report.series.step_s, "classes": over_time },
        });
        fronts.insert(front.name().to_owned(), front_value);
    }
    let whole = value!({
        "title": it.title,
        "seed": it.policy().seed,
        "seconds": seconds,
        "fronts": fronts,
    });
    serde_json::to_string_pretty(&whole).expect("numbers and texts are JSON") + "\n"
}

fn figures(of: &ClassReport, all: &ClassReport, seconds: f64) -> Value {
    let refused: Map<String, Value> = Reason::ALL
        .into_iter()
        .filter(|reason| of.refused_by[reason.index()] > 0)
        .map(|reason| (reason.name().to_owned(), of.refused_by[reason.index()].into()))
        .collect();
    value!({
        "arrived": of.arrived,
        "good": of.good,
        "goodput_per_second": rounded(of.good as f64 / seconds),
        "refused": refused,
        "left_waiting": of.left_waiting,
        "left_running": of.left_running,
        "failed": of.failed,
        "wait_ms": spread(&of.wait),
        "answer_ms": spread(&of.total),
        "work_seconds": rounded(of.work_s),
        "work_share": rounded(of.work_s / all.work_s.max(1e-9)),
        "wasted_seconds": rounded(of.wasted_s),
    })
}

fn spread(spread: &Spread) -> Value {
    let quantile = |quantile| rounded(spread.quantile_ms(quantile));
    value!({
        "count": spread.count(),
        "mean": rounded(spread.mean_ms()),
        "p50": quantile(0.5),
        "p99": quantile(0.99),
    })
}

/// To a millionth: what is finer says nothing.
fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}
