//! Reports of load: whatever a server sends gives a finite number, none, or a reason; never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tiergate::orca::{Metric, value};
use tiergate_wire::http1::LoadReport;

const METRICS: [&str; 5] =
    ["cpu_utilization", "rps_fractional", "utilization.gpu", "named_metrics.queue", "named_metrics.a.b"];

fuzz_target!(|report: &[u8]| {
    for name in METRICS {
        let metric = Metric::called(name).expect("a metric");
        for report in [LoadReport::Text(report), LoadReport::Binary(report)] {
            if let Ok(Some(value)) = value(report, &metric) {
                assert!(value.is_finite());
            }
        }
    }
});
