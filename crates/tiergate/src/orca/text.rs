//! The form `cpu_utilization=0.3, named_metrics.queue=12`.

use super::metric::Metric;
use super::unreadable::Unreadable;

/// The metric's value in it.
pub(super) fn value(list: &[u8], metric: &Metric) -> Result<Option<f64>, Unreadable> {
    let mut found = None;
    for entry in list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
        if entry.is_empty() {
            continue;
        }
        let at = entry.iter().position(|byte| matches!(byte, b'=' | b':'));
        let (name, value) = entry.split_at(at.ok_or(Unreadable::Malformed)?);
        if !metric.is_called(name.trim_ascii()) {
            continue;
        }
        let value = std::str::from_utf8(value[1..].trim_ascii()).ok();
        let value = value.and_then(|value| value.parse().ok()).ok_or(Unreadable::NoNumber)?;
        if found.replace(value).is_some() {
            return Err(Unreadable::Ambiguous);
        }
    }
    Ok(found)
}
