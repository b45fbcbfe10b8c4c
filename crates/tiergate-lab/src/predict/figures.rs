//! What is compared of a class, predicted and found.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A class's figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures {
    /// Good answers a second.
    pub(super) goodput: f64,
    /// 99th percentile of the time in the queue, of the requests that got a slot.
    pub(super) wait_p99_ms: f64,
}

impl Figures {
    /// By the JSON of `tiergate simulate`.
    pub(super) fn predicted(json: &str, class: &str) -> Result<Self> {
        let report: serde_json::Value =
            serde_json::from_str(json).context("no JSON was printed")?;
        let class_of = &report["fronts"]["policy"]["classes"][class];
        let number = |value: &serde_json::Value| {
            value.as_f64().with_context(|| format!("there is no prediction for class {class}"))
        };
        Ok(Self {
            goodput: number(&class_of["goodput_per_second"])?,
            wait_p99_ms: number(&class_of["wait_ms"]["p99"])?,
        })
    }
}

/// A line of the gateway's access log.
#[derive(Deserialize)]
struct Line {
    time: String,
    status: u16,
    duration_seconds: f64,
    queue_seconds: Option<f64>,
    first_byte_seconds: Option<f64>,
    #[serde(default)]
    class: String,
}

/// By the gateway's access log: what was answered within so many seconds of the first request, as the
/// simulator counts.
pub(super) fn of_log(log: &str, classes: &[&str], seconds: f64) -> Result<Vec<Figures>> {
    let lines: Vec<Line> = log
        .lines()
        .map(|line| serde_json::from_str(line).context("a line of the access log is invalid"))
        .collect::<Result<_>>()?;
    let times: Vec<f64> = lines.iter().map(|line| since_1970(&line.time)).collect::<Result<_>>()?;
    let first = times.iter().copied().fold(f64::INFINITY, f64::min);
    ensure!(first.is_finite(), "nothing came through the gateway");
    let figures = |class: &&str| {
        let mut waits = Vec::new();
        let mut good = 0_u32;
        for (line, time) in lines.iter().zip(&times).filter(|(line, _)| line.class == **class) {
            let since = time - first;
            let (true, Some(waited)) = (line.first_byte_seconds.is_some(), line.queue_seconds)
            else {
                continue;
            };
            if since + line.duration_seconds <= seconds {
                good += u32::from(line.status == 200);
                waits.push(waited * 1e3);
            }
        }
        waits.sort_by(f64::total_cmp);
        let p99 = waits.get((waits.len() as f64 * 0.99) as usize).copied();
        Figures { goodput: f64::from(good) / seconds, wait_p99_ms: p99.unwrap_or(f64::NAN) }
    };
    Ok(classes.iter().map(figures).collect())
}

/// Seconds since 1970 of a time such as `2026-11-20T18:23:51.042Z`.
fn since_1970(time: &str) -> Result<f64> {
    let time = OffsetDateTime::parse(time, &Rfc3339)
        .with_context(|| format!("not a time of the access log: {time:?}"))?;
    Ok(time.unix_timestamp_nanos() as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_counted_as_the_simulator_counts() {
        let line = |second: &str, class: &str, status: u16, more: &str| {
            format!(
                r#"{{"time":"2026-11-20T23:59:{second}Z","class":"{class}","status":{status},"duration_seconds":0.5{more}}}"#
            )
        };
        let served = r#","queue_seconds":0.125,"first_byte_seconds":0.1"#;
        let refused = r#","queue_seconds":1.0"#;
        let log = [
            line("50.000", "basic", 200, served),
            line("51.000", "basic", 503, refused),
            line("51.000", "basic", 500, served),
            line("51.900", "basic", 200, served),
            line("50.100", "premium", 200, served),
        ];
        let figures = of_log(&log.join("\n"), &["premium", "basic"], 2.0).unwrap();
        assert_eq!(figures[0], Figures { goodput: 0.5, wait_p99_ms: 125.0 });
        assert_eq!(figures[1], Figures { goodput: 0.5, wait_p99_ms: 125.0 });
        assert!(of_log("", &["basic"], 1.0).is_err() && of_log("x", &["basic"], 1.0).is_err());
    }

    #[test]
    fn a_report_is_read() {
        let json = r#"{"fronts": {"policy": {"classes": {"a": {"goodput_per_second": 12.5, "wait_ms": {"p99": 7}}}}}}"#;
        let expected = Figures { goodput: 12.5, wait_p99_ms: 7.0 };
        assert_eq!(Figures::predicted(json, "a").unwrap(), expected);
        assert!(Figures::predicted(json, "b").is_err());
    }
}
