//! What contenders and units look like in every plot.

use crate::lab::page::judge::is_latency;
use crate::lab::page::words::unit as unit_of;
use crate::lab::result::Unit;
use tiergate_draw::Scale;
use tiergate_draw::number::short;

/// Room for the labels of a vertical axis, in pixels.
pub(super) const AXIS_WIDTH: f64 = 46.0;

/// A contender's colour: Tiergate is black, thick and never dashed, nothing in front a dashed grey.
pub(super) fn colour(contender: &str) -> usize {
    match contender {
        "tiergate" => 0,
        "none" => 1,
        "haproxy" => 2,
        "nginx" => 3,
        "apache" | "mod_qos" | "mod-qos" | "modqos" => 4,
        "envoy" => 5,
        "failsafe" | "failsafe-go" => 6,
        _ => 7,
    }
}

/// An axis that all these values fit on: latencies by their logarithm, everything else from nothing.
pub(super) fn scale(unit: Unit, values: impl Iterator<Item = f64>) -> Scale {
    let values: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    let largest = values.iter().copied().fold(0.0, f64::max);
    match unit {
        unit if is_latency(unit) => Scale::logarithmic(values.into_iter()),
        Unit::Share if (0.3..1.5).contains(&largest) => Scale::stepped(largest.max(1.0), 0.2),
        _ => Scale::linear(largest),
    }
}

/// What the values are in, as a caption says it.
pub(super) fn caption(scale: &Scale, unit: Unit) -> String {
    let log = if scale.is_logarithmic() { ", logarithmic" } else { "" };
    format!("({}{log})", unit_of(unit))
}

/// A marked value, without its unit.
pub(super) fn label(value: f64, unit: Unit) -> String {
    short(if unit == Unit::Share { value * 100.0 } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_go_to_a_hundred_per_cent() {
        let share = scale(Unit::Share, [0.2, 0.9].into_iter());
        assert_eq!((share.at(0.0), share.at(0.5), share.at(1.0)), (0.0, 0.5, 1.0));
        let labels: Vec<_> = share.ticks.iter().map(|t| label(*t, Unit::Share)).collect();
        assert_eq!(labels, ["0", "20", "40", "60", "80", "100"]);
        let goodput = scale(Unit::Share, [1.04].into_iter());
        assert_eq!((goodput.at(1.04), goodput.ticks.len()), (1.0, 6));
        assert_eq!(scale(Unit::Share, [0.018].into_iter()).ticks.last(), Some(&0.02));
    }
}
