//! Writes metrics, one family at a time.
//!
//! Source: Prometheus "Exposition formats", text format 0.0.4; OpenMetrics 1.0.

use super::protobuf::{self, Kind, MetricFamily};
use std::fmt::{Debug, Display, Write};
use tiergate_core::admit::session::Lengths;
use tiergate_core::histogram::Histogram;
use tiergate_core::native_histogram::{Exponential, FineHistogram};

/// Upper bound of the lowest histogram bucket that is shown, in seconds: 2^6 µs. Lower ones are added to
/// it.
const BUCKET_FIRST: f64 = 64e-6;
/// Upper bound of the highest one, in seconds: 2^27 µs. Higher ones are in `+Inf` only.
const BUCKET_LAST: f64 = 134.3;
const INFALLIBLE: &str = "a string takes every write";

/// A format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus text format 0.0.4, which every scraper reads.
    Prometheus,
    /// Protobuf, with native histograms beside the classic ones.
    Protobuf,
}

impl Format {
    /// The format for an `Accept` header: protobuf if it is asked for by name and no text is preferred to it; else OpenMetrics if that is
    /// asked for by name.
    pub fn accepted(accept: &str) -> Self {
        let best = |matches: fn(&str) -> bool| {
            accept.split(',').filter(|range| matches(range)).map(quality).fold(0.0, f64::max)
        };
        let protobuf = best(|range| {
            let mut parts = range.split(';').map(str::trim);
            parts.next() == Some("application/vnd.google.protobuf")
                && parts.clone().any(|it| it == "proto=io.prometheus.client.MetricFamily")
                && parts.any(|it| it == "encoding=delimited")
        });
        let text = best(|range| {
            let media = range.split(';').next().unwrap_or_default().trim();
            ["application/openmetrics-text", "text/plain"].contains(&media)
        });
        if protobuf > 0.0 && protobuf >= text {
            return Format::Protobuf;
        }
        match accept.contains("application/openmetrics-text") {
            true => Format::OpenMetrics,
            false => Format::Prometheus,
        }
    }

    /// The media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                 encoding=delimited"
            }
        }
    }
}

/// How much a media range is wanted, 0 to 1 (RFC 9110 §12.4.2).
fn quality(range: &str) -> f64 {
    let weight = range.split(';').find_map(|it| it.trim().strip_prefix("q="));
    weight.map_or(1.0, |it| it.trim().parse().unwrap_or(0.0))
}

/// What was written so far: text, or in protobuf the families.
pub(super) struct Page {
    text: String,
    families: Vec<MetricFamily>,
    format: Format,
}

impl Page {
    pub(super) fn new(format: Format) -> Self {
        let len = if format == Format::Protobuf { 0 } else { 64 * 1024 };
        Page { text: String::with_capacity(len), families: Vec::new(), format }
    }

    /// A counter; its name ends in `_total`. As all names it gets the prefix `tiergate_`, unless it begins
    /// with `process_`.
    pub(super) fn counter(&mut self, name: &str, help: &str) -> Family<'_> {
        debug_assert!(name.ends_with("_total"), "{name}");
        self.family(name, help, Kind::Counter)
    }

    /// A gauge.
    pub(super) fn gauge(&mut self, name: &str, help: &str) -> Family<'_> {
        self.family(name, help, Kind::Gauge)
    }

    /// A histogram.
    pub(super) fn histogram(&mut self, name: &str, help: &str) -> Family<'_> {
        self.family(name, help, Kind::Histogram)
    }

    fn family(&mut self, name: &str, help: &str, kind: Kind) -> Family<'_> {
        let prefix = if name.starts_with("process_") { "" } else { "tiergate_" };
        let name = format!("{prefix}{name}");
        if self.format == Format::Protobuf {
            self.families.push(MetricFamily::new(&name, help, kind, unit(&name)));
            return Family { page: self, name };
        }
        let open_metrics = self.format == Format::OpenMetrics;
        // A family of OpenMetrics is called without the suffix of its samples.
        let family = if open_metrics { name.trim_end_matches("_total") } else { &name };
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        writeln!(self.text, "# HELP {family} {help}\n# TYPE {family} {kind}").expect(INFALLIBLE);
        if let Some(unit) = unit(family).filter(|_| open_metrics) {
            writeln!(self.text, "# UNIT {family} {unit}").expect(INFALLIBLE);
        }
        Family { page: self, name }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        match self.format {
            Format::Protobuf => return protobuf::delimited(&self.families),
            Format::OpenMetrics => self.text.push_str("# EOF\n"),
            Format::Prometheus => {}
        }
        self.text.into_bytes()
    }
}

/// The unit that a family's name ends in.
fn unit(family: &str) -> Option<&'static str> {
    ["seconds", "bytes"].into_iter().find(|unit| family.ends_with(unit))
}

/// Samples with so many labels.
pub(super) trait Rows<'a, V, const N: usize>:
    Iterator<Item = ([(&'static str, &'a str); N], V)>
{
}

impl<'a, V, const N: usize, I> Rows<'a, V, N> for I where
    I: Iterator<Item = ([(&'static str, &'a str); N], V)>
{
}

/// A family whose samples follow.
pub(super) struct Family<'p> {
    page: &'p mut Page,
    name: String,
}

impl Family<'_> {
    /// The only sample, without labels.
    pub(super) fn value(mut self, value: impl Debug) {
        self.single::<&str>(&[], value);
    }

    /// A sample for each row of labels and value.
    pub(super) fn each<L: Display, V: Debug, const N: usize>(
        mut self,
        rows: impl IntoIterator<Item = ([(&'static str, L); N], V)>,
    ) {
        for (labels, value) in rows {
            self.single(&labels, value);
        }
    }

    /// A histogram of durations for each row.
    pub(super) fn durations<'h, L: Display, const N: usize>(
        mut self,
        rows: impl IntoIterator<Item = ([(&'static str, L); N], &'h Histogram)>,
    ) {
        for (labels, histogram) in rows {
            self.histogram(&labels, histogram, None);
        }
    }

    /// A histogram of durations for each row, in protobuf as a native one, too.
    pub(super) fn native_durations<'h, L: Display, const N: usize>(
        mut self,
        rows: impl IntoIterator<Item = ([(&'static str, L); N], &'h FineHistogram)>,
    ) {
        let is_native = self.page.format == Format::Protobuf;
        for (labels, histogram) in rows {
            let native = is_native.then(|| histogram.exponential());
            self.histogram(&labels, &histogram.coarse(), native.as_ref());
        }
    }

    /// A histogram of whole numbers for each row.
    pub(super) fn lengths<'h, L: Display, const N: usize>(
        mut self,
        rows: impl IntoIterator<Item = ([(&'static str, L); N], &'h Lengths)>,
    ) {
        for (labels, lengths) in rows {
            let finite = |(upper, count): (Option<u32>, _)| upper.map(|it| (f64::from(it), count));
            let buckets = lengths.buckets().filter_map(finite);
            self.buckets(&labels, buckets, (lengths.sum as f64, lengths.count()), None);
        }
    }

    /// The only value of labels.
    fn single<L: Display>(&mut self, labels: &[(&str, L)], value: impl Debug) {
        match self.page.families.last_mut() {
            Some(family) => {
                // As the text has it: every value is a number.
                let value = format!("{value:?}").parse().expect("values are numbers");
                family.push_value(labels, value);
            }
            None => self.sample("", None, labels, value),
        }
    }

    fn histogram<L: Display>(
        &mut self,
        labels: &[(&str, L)],
        histogram: &Histogram,
        native: Option<&Exponential>,
    ) {
        let sum_and_count = (histogram.sum_seconds(), histogram.count());
        self.buckets(labels, buckets(histogram), sum_and_count, native);
    }

    /// The samples of one histogram; `buckets` are those below `+Inf`, each with its own count.
    fn buckets<L: Display>(
        &mut self,
        labels: &[(&str, L)],
        buckets: impl IntoIterator<Item = (f64, u64)>,
        (sum, count): (f64, u64),
        native: Option<&Exponential>,
    ) {
        if let Some(family) = self.page.families.last_mut() {
            let classic = protobuf::Histogram::classic(buckets.into_iter(), sum, count);
            let whole = match native {
                Some(native) => classic.with_native(native),
                None => classic,
            };
            return family.push_histogram(labels, whole);
        }
        let mut below = 0;
        for (bound, own) in buckets {
            below += own;
            // Never with an exponent, which `Debug` gives small numbers.
            let whole = if bound.fract() == 0.0 { ".0" } else { "" };
            self.sample("_bucket", Some(format!("{bound}{whole}")), labels, below);
        }
        self.sample("_bucket", Some("+Inf".to_owned()), labels, count);
        self.sample("_sum", None, labels, sum);
        self.sample("_count", None, labels, count);
    }

    fn sample<L: Display>(
        &mut self,
        suffix: &str,
        bound: Option<String>,
        labels: &[(&str, L)],
        value: impl Debug,
    ) {
        let text = &mut self.page.text;
        text.push_str(&self.name);
        text.push_str(suffix);
        let mut open = '{';
        let mut label = |text: &mut String, name: &str, value: &str| {
            write!(text, "{open}{name}=\"").expect(INFALLIBLE);
            open = ',';
            push_escaped(text, value);
            text.push('"');
        };
        if let Some(bound) = bound {
            label(text, "le", &bound);
        }
        for (name, value) in labels {
            let value = value.to_string();
            // To Prometheus an empty label is the same as none. So the series of the default pool are those of a
            // policy without pools.
            if !value.is_empty() {
                label(text, name, &value);
            }
        }
        if open == ',' {
            text.push('}');
        }
        writeln!(text, " {value:?}").expect(INFALLIBLE);
    }
}

fn push_escaped(text: &mut String, value: &str) {
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

/// The histogram's octaves from [`BUCKET_FIRST`] to [`BUCKET_LAST`], each with its own count. Durations are
/// counted in whole µs, so that one that equals a bound is in the bucket above it.
fn buckets(histogram: &Histogram) -> impl Iterator<Item = (f64, u64)> {
    let mut below = 0;
    let shown = histogram.octaves().take_while(|(bound, _)| *bound <= BUCKET_LAST);
    shown.filter_map(move |(bound, count)| {
        below += count;
        (bound >= BUCKET_FIRST).then(|| (bound, std::mem::take(&mut below)))
    })
}
