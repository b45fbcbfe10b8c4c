//! Metrics as protobuf, the exposition format that has native histograms.
//!
//! Source: <https://github.com/prometheus/client_model>, `io/prometheus/client/metrics.proto`, of which this has the messages that are
//! written.

use prost::Message;
use std::fmt::Display;
use tiergate_core::native_histogram::Exponential;

const INFALLIBLE: &str = "a vector takes every write";

/// What a family has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Kind {
    Counter = 0,
    Gauge = 1,
    Histogram = 4,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricFamily {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) help: String,
    #[prost(enumeration = "Kind", tag = "3")]
    pub(super) kind: i32,
    #[prost(message, repeated, tag = "4")]
    pub(super) metrics: Vec<Metric>,
    #[prost(string, tag = "5")]
    pub(super) unit: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric {
    #[prost(message, repeated, tag = "1")]
    pub(super) labels: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    pub(super) gauge: Option<Value>,
    #[prost(message, optional, tag = "3")]
    pub(super) counter: Option<Value>,
    #[prost(message, optional, tag = "7")]
    pub(super) histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LabelPair {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

/// A counter or a gauge.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Value {
    #[prost(double, tag = "1")]
    pub(super) value: f64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Histogram {
    #[prost(uint64, tag = "1")]
    pub(super) count: u64,
    #[prost(double, tag = "2")]
    pub(super) sum: f64,
    #[prost(message, repeated, tag = "3")]
    pub(super) buckets: Vec<Bucket>,
    #[prost(sint32, tag = "5")]
    pub(super) schema: i32,
    #[prost(double, tag = "6")]
    pub(super) zero_threshold: f64,
    #[prost(uint64, tag = "7")]
    pub(super) zero_count: u64,
    #[prost(message, repeated, tag = "12")]
    pub(super) positive_spans: Vec<BucketSpan>,
    #[prost(sint64, repeated, tag = "13")]
    pub(super) positive_deltas: Vec<i64>,
}

/// A classic bucket.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Bucket {
    /// Of this bucket and all below it.
    #[prost(uint64, tag = "1")]
    pub(super) cumulative_count: u64,
    #[prost(double, tag = "2")]
    pub(super) upper_bound: f64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BucketSpan {
    #[prost(sint32, tag = "1")]
    pub(super) offset: i32,
    #[prost(uint32, tag = "2")]
    pub(super) length: u32,
}

impl MetricFamily {
    pub(super) fn new(name: &str, help: &str, kind: Kind, unit: Option<&str>) -> Self {
        MetricFamily {
            name: name.to_owned(),
            help: help.to_owned(),
            kind: kind.into(),
            metrics: Vec::new(),
            unit: unit.unwrap_or_default().to_owned(),
        }
    }

    /// Adds a counter or a gauge.
    pub(super) fn push_value<L: Display>(&mut self, labels: &[(&str, L)], value: f64) {
        let value = Some(Value { value });
        let mut metric = Metric { labels: pairs(labels), ..Metric::default() };
        match self.kind() {
            Kind::Counter => metric.counter = value,
            Kind::Gauge | Kind::Histogram => metric.gauge = value,
        }
        self.metrics.push(metric);
    }

    /// Adds a histogram.
    pub(super) fn push_histogram<L: Display>(
        &mut self,
        labels: &[(&str, L)],
        histogram: Histogram,
    ) {
        let histogram = Some(histogram);
        self.metrics.push(Metric { labels: pairs(labels), histogram, ..Metric::default() });
    }
}

impl Histogram {
    /// A histogram of classic buckets below `+Inf`, each with its upper bound and its own count.
    pub(super) fn classic(buckets: impl Iterator<Item = (f64, u64)>, sum: f64, count: u64) -> Self {
        let mut cumulative_count = 0;
        let buckets = buckets.map(|(upper_bound, own)| {
            cumulative_count += own;
            Bucket { cumulative_count, upper_bound }
        });
        let mut buckets: Vec<_> = buckets.collect();
        buckets.push(Bucket { cumulative_count: count, upper_bound: f64::INFINITY });
        Histogram { count, sum, buckets, ..Histogram::default() }
    }

    /// The same with native buckets, too.
    pub(super) fn with_native(self, native: &Exponential) -> Self {
        let (spans, positive_deltas) = native.spans();
        let spans = spans.iter().map(|it| BucketSpan { offset: it.offset, length: it.length });
        Histogram {
            schema: native.schema,
            zero_threshold: native.zero_threshold,
            zero_count: native.zero_count,
            positive_spans: spans.collect(),
            positive_deltas,
            ..self
        }
    }
}

/// The families as a scraper reads them: each behind its length.
pub(super) fn delimited(families: &[MetricFamily]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64 * 1024);
    for family in families {
        family.encode_length_delimited(&mut bytes).expect(INFALLIBLE);
    }
    bytes
}

/// An empty label is the same as none, as in text.
fn pairs<L: Display>(labels: &[(&str, L)]) -> Vec<LabelPair> {
    let pairs = labels
        .iter()
        .map(|(name, value)| LabelPair { name: (*name).to_owned(), value: value.to_string() });
    pairs.filter(|pair| !pair.value.is_empty()).collect()
}
