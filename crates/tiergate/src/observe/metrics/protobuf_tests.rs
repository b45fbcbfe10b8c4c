//! The protobuf form against the text of the same moment.

use super::Format;
use super::protobuf::{BucketSpan, Kind, MetricFamily};
use super::tests::{bytes, encoded, sample};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};

fn families() -> Vec<MetricFamily> {
    let bytes = bytes(Format::Protobuf);
    let (mut rest, mut families) = (&bytes[..], Vec::new());
    while !rest.is_empty() {
        families.push(MetricFamily::decode_length_delimited(&mut rest).expect("a family"));
    }
    families
}

/// The series of the families as text has them: name and labels, and the value.
fn series(families: &[MetricFamily]) -> BTreeMap<(String, BTreeSet<String>), f64> {
    let mut series = BTreeMap::new();
    for family in families {
        for metric in &family.metrics {
            let labels: BTreeSet<String> = metric
                .labels
                .iter()
                .map(|it| {
                    format!("{}={}", it.name, it.value.replace('\\', "\\\\").replace('"', "\\\""))
                })
                .collect();
            let mut add = |suffix: &str, le: Option<f64>, value: f64| {
                let le = le.map(|le| {
                    format!("le={}", if le.is_infinite() { "+Inf".into() } else { le.to_string() })
                });
                let labels = labels.iter().cloned().chain(le).collect();
                let before = series.insert((format!("{}{suffix}", family.name), labels), value);
                assert_eq!(before, None, "twice in {}", family.name);
            };
            match (family.kind(), &metric.counter, &metric.gauge, &metric.histogram) {
                (Kind::Counter, Some(it), None, None) | (Kind::Gauge, None, Some(it), None) => {
                    add("", None, it.value);
                }
                (Kind::Histogram, None, None, Some(it)) => {
                    add("_sum", None, it.sum);
                    add("_count", None, it.count as f64);
                    for bucket in &it.buckets {
                        add("_bucket", Some(bucket.upper_bound), bucket.cumulative_count as f64);
                    }
                }
                wrong => panic!("{}: {wrong:?}", family.name),
            }
        }
    }
    series
}

#[test]
fn it_has_what_the_text_has() {
    let text = encoded(Format::Prometheus);
    let families = families();
    let mut told = series(&families);
    // What differs from one moment to the next.
    let moves = |name: &str| {
        name.starts_with("process_")
            || ["tiergate_uptime_seconds", "tiergate_slots_last_change_timestamp_seconds"]
                .contains(&name)
    };
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, labels, value) = sample(line);
        let labels = labels.trim_end_matches('}').trim_end_matches('"');
        let labels = labels.split("\",").filter(|it| !it.is_empty()).map(|it| {
            let (name, value) = it.split_once("=\"").expect("a label");
            match name {
                "le" => format!("le={}", value.trim_end_matches(".0")),
                _ => format!("{name}={value}"),
            }
        });
        let labels: BTreeSet<String> = labels.collect();
        let same = told.remove(&(name.to_owned(), labels)).unwrap_or_else(|| panic!("no {line}"));
        assert!(same == value || moves(name), "{line}, and {same}");
    }
    assert!(told.is_empty(), "{told:?}");
    for family in &families {
        let kind = format!("{:?}", family.kind()).to_lowercase();
        assert!(text.contains(&format!("# TYPE {} {kind}\n", family.name)), "{}", family.name);
        assert!(text.contains(&format!("# HELP {} {}\n", family.name, family.help)));
    }
}

#[test]
fn whole_latency_is_native_too_and_nothing_else_is() {
    for family in families() {
        let is_whole = family.name == "tiergate_request_seconds";
        for metric in &family.metrics {
            let Some(histogram) = &metric.histogram else { continue };
            assert_eq!(histogram.zero_threshold > 0.0, is_whole, "{}", family.name);
            if !is_whole || histogram.count == 0 {
                assert!(histogram.positive_spans.is_empty(), "{}", family.name);
                continue;
            }
            // One request of 20 ms: bucket -45 has 18.6 to 20.3 ms.
            assert_eq!((histogram.schema, histogram.count, histogram.zero_count), (3, 1, 0));
            assert_eq!(histogram.positive_spans, [BucketSpan { offset: -45, length: 1 }]);
            assert_eq!((&histogram.positive_deltas[..], histogram.sum), (&[1][..], 0.02));
        }
    }
}

#[test]
fn it_is_given_to_those_who_ask_for_it() {
    const PROTOBUF: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    for (accept, expected) in [
        // Prometheus 2.42 and 3 with native histograms.
        (
            format!(
                "{PROTOBUF},application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
            ),
            Format::Protobuf,
        ),
        (
            format!("{PROTOBUF};q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.2"),
            Format::Protobuf,
        ),
        (PROTOBUF.replace(';', " ; "), Format::Protobuf),
        // Without.
        (
            format!("application/openmetrics-text;version=1.0.0;q=0.6,{PROTOBUF};q=0.5"),
            Format::OpenMetrics,
        ),
        (format!("text/plain,{PROTOBUF};q=0.5"), Format::Prometheus),
        (format!("{PROTOBUF};q=0"), Format::Prometheus),
        (PROTOBUF.replace("delimited", "text"), Format::Prometheus),
        (PROTOBUF.replace("MetricFamily", "Metric"), Format::Prometheus),
        ("application/vnd.google.protobuf".to_owned(), Format::Prometheus),
        ("application/openmetrics-text".to_owned(), Format::OpenMetrics),
        (String::new(), Format::Prometheus),
        ("*/*".to_owned(), Format::Prometheus),
    ] {
        assert_eq!(Format::accepted(&accept), expected, "{accept}");
    }
}
