//! Writes metrics as text, one family at a time.
//!
//! Source: Prometheus "Exposition formats", text format 0.0.4; OpenMetrics 1.0.

use std::fmt::{Debug, Display, Write};
use tiergate_core::admit::session::Lengths;
use tiergate_core::histogram::Histogram;

/// Upper bound of the lowest histogram bucket that is shown, in seconds: 2^6 µs. Lower ones are added to
/// it.
const BUCKET_FIRST: f64 = 64e-6;
/// Upper bound of the highest one, in seconds: 2^27 µs. Higher ones are in `+Inf` only.
const BUCKET_LAST: f64 = 134.3;
const INFALLIBLE: &str = "a string takes every write";

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus text format 0.0.4, which every scraper reads.
    Prometheus,
}

impl Format {
    /// The format for an `Accept` header: OpenMetrics if it is asked for by name.
    pub fn accepted(accept: &str) -> Self {
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
        }
    }
}

/// The text so far.
pub(super) struct Page {
    text: String,
    format: Format,
}

impl Page {
    pub(super) fn new(format: Format) -> Self {
        Page { text: String::with_capacity(64 * 1024), format }
    }

    /// A counter; its name ends in `_total`. As all names it gets the prefix `tiergate_`, unless it begins
    /// with `process_`.
    pub(super) fn counter(&mut self, name: &str, help: &str) -> Family<'_> {
        debug_assert!(name.ends_with("_total"), "{name}");
        self.family(name, help, "counter")
    }

    /// A gauge.
    pub(super) fn gauge(&mut self, name: &str, help: &str) -> Family<'_> {
        self.family(name, help, "gauge")
    }

    /// A histogram.
    pub(super) fn histogram(&mut self, name: &str, help: &str) -> Family<'_> {
        self.family(name, help, "histogram")
    }

    fn family(&mut self, name: &str, help: &str, kind: &str) -> Family<'_> {
        let prefix = if name.starts_with("process_") { "" } else { "tiergate_" };
        let name = format!("{prefix}{name}");
        let open_metrics = self.format == Format::OpenMetrics;
        // A family of OpenMetrics is called without the suffix of its samples.
        let family = if open_metrics { name.trim_end_matches("_total") } else { &name };
        writeln!(self.text, "# HELP {family} {help}\n# TYPE {family} {kind}").expect(INFALLIBLE);
        let unit = ["seconds", "bytes"].into_iter().find(|unit| family.ends_with(unit));
        if let Some(unit) = unit.filter(|_| open_metrics) {
            writeln!(self.text, "# UNIT {family} {unit}").expect(INFALLIBLE);
        }
        Family { text: &mut self.text, name }
    }

    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
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
    text: &'p mut String,
    name: String,
}

impl Family<'_> {
    /// The only sample, without labels.
    pub(super) fn value(mut self, value: impl Debug) {
        self.sample::<&str>("", None, &[], value);
    }

    /// A sample for each row of labels and value.
    pub(super) fn each<L: Display, V: Debug, const N: usize>(
        mut self,
        rows: impl IntoIterator<Item = ([(&'static str, L); N], V)>,
    ) {
        for (labels, value) in rows {
            self.sample("", None, &labels, value);
        }
    }

    /// A histogram of durations for each row.
    pub(super) fn durations<'h, L: Display, const N: usize>(
        mut self,
        rows: impl IntoIterator<Item = ([(&'static str, L); N], &'h Histogram)>,
    ) {
        for (labels, histogram) in rows {
            let count = histogram.count();
            self.buckets(&labels, buckets(histogram), histogram.sum_seconds(), count);
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
            self.buckets(&labels, buckets, lengths.sum as f64, lengths.count());
        }
    }

    /// The samples of one histogram; `buckets` are those below `+Inf`, each with its own count.
    fn buckets<L: Display>(
        &mut self,
        labels: &[(&str, L)],
        buckets: impl IntoIterator<Item = (f64, u64)>,
        sum: f64,
        count: u64,
    ) {
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
        self.text.push_str(&self.name);
        self.text.push_str(suffix);
        let mut open = '{';
        let mut label = |text: &mut String, name: &str, value: &str| {
            write!(text, "{open}{name}=\"").expect(INFALLIBLE);
            open = ',';
            push_escaped(text, value);
            text.push('"');
        };
        if let Some(bound) = bound {
            label(self.text, "le", &bound);
        }
        for (name, value) in labels {
            let value = value.to_string();
            // To Prometheus an empty label is the same as none. So the series of the default pool are those of a
            // policy without pools.
            if !value.is_empty() {
                label(self.text, name, &value);
            }
        }
        if open == ',' {
            self.text.push('}');
        }
        writeln!(self.text, " {value:?}").expect(INFALLIBLE);
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
