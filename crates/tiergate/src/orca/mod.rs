//! Reports of load that an origin sends with its answers (ORCA, Open Request Cost Aggregation).
//!
//! Source: the report is `xds.data.orca.v3.OrcaLoadReport` (<https://github.com/cncf/xds>), its forms in a header are those of Envoy and
//! gRPC (<https://github.com/envoyproxy/envoy/issues/6614>, gRFC A51):
//!
//! ```text
//! endpoint-load-metrics: TEXT cpu_utilization=0.3, named_metrics.queue=12     (`:` for `=`; without the word, the same)
//! endpoint-load-metrics: JSON {"cpu_utilization": 0.3, "named_metrics": {"queue": 12}}
//! endpoint-load-metrics: BIN CQAAAAAAANA/                                     (the message as base64)
//! endpoint-load-metrics-bin: CQAAAAAAANA/
//! ```
//!
//! Each form is looked through for one metric; nothing is kept and nothing allocated, but for what a JSON parser has to say of text
//! that is none.

mod binary;
mod json;
mod metric;
#[cfg(test)]
mod tests;
mod text;
mod unreadable;

pub use metric::Metric;
pub use unreadable::{LEN_MAX, Unreadable};

use tiergate_wire::http1::LoadReport;

/// The value of a metric in a report; `None`: the report does not have it. Linear in the report's length.
///
/// # Errors
/// If the report cannot be read, or the metric's value is no finite number.
pub fn value(report: LoadReport<'_>, metric: &Metric) -> Result<Option<f64>, Unreadable> {
    let value = match report {
        LoadReport::None => return Ok(None),
        LoadReport::Several => return Err(Unreadable::Ambiguous),
        LoadReport::Text(value) | LoadReport::Binary(value) if value.len() > LEN_MAX => {
            return Err(Unreadable::TooLong);
        }
        LoadReport::Binary(value) => binary::value(value, metric),
        LoadReport::Text(value) => {
            let (form, rest) = match value.iter().position(|byte| *byte == b' ') {
                Some(at) => (&value[..at], &value[at + 1..]),
                None => (&value[..0], value),
            };
            match form {
                b"TEXT" => text::value(rest, metric),
                b"JSON" => json::value(rest, metric),
                b"BIN" => binary::value(rest, metric),
                _ => text::value(value, metric),
            }
        }
    }?;
    match value {
        Some(value) if !value.is_finite() => Err(Unreadable::NoNumber),
        value => Ok(value),
    }
}
