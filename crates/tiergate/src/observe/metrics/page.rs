//! Writes one metric at a time.

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, EncodeMetric,
    NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Unit;
use std::fmt::Error;
use tiergate_core::admit::session::Lengths;
use tiergate_core::histogram::Histogram;

/// Upper bound of the lowest histogram bucket that is shown, in seconds: 2^6 µs. Those below are
/// added to it.
const BUCKET_FIRST: f64 = 64e-6;
/// Upper bound of the highest one, in seconds: 2^27 µs. Those above are in `+Inf` only.
const BUCKET_LAST: f64 = 134.3;

/// The text in the making: one call a metric.
pub(super) struct Page<'a>(DescriptorEncoder<'a>);

impl<'a> Page<'a> {
    pub(super) fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Page(encoder)
    }

    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) -> Result<(), Error> {
        let metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)
    }

    pub(super) fn counter_of(
        &mut self,
        name: &str,
        unit: &Unit,
        help: &str,
        value: impl EncodeCounterValue,
    ) -> Result<(), Error> {
        let kind = MetricType::Counter;
        let mut metric = self.0.encode_descriptor(name, help, Some(unit), kind)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    pub(super) fn gauge<V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        v: V,
    ) -> Result<(), Error> {
        self.gauge_of(name, None, help, v)
    }

    pub(super) fn gauge_of<V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        v: V,
    ) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        metric.encode_gauge(&v)
    }

    pub(super) fn counters<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (L, u64)>,
    ) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in rows {
            ConstCounter::new(value).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    pub(super) fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (L, V)>,
    ) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in rows {
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// A histogram of whole numbers.
    pub(super) fn lengths<'h, L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (L, &'h Lengths)>,
    ) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, lengths) in rows {
            let bound = |bound: Option<u32>| bound.map_or(f64::INFINITY, f64::from);
            let buckets: Vec<_> =
                lengths.buckets().map(|(upper, count)| (bound(upper), count)).collect();
            metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                lengths.sum as f64,
                lengths.count(),
                &buckets,
                None,
            )?;
        }
        Ok(())
    }

    pub(super) fn histograms<'h, L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (L, &'h Histogram)>,
    ) -> Result<(), Error> {
        let (unit, kind) = (Some(&Unit::Seconds), MetricType::Histogram);
        let mut metric = self.0.encode_descriptor(name, help, unit, kind)?;
        for (labels, histogram) in rows {
            let buckets = buckets(histogram);
            metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                histogram.sum_seconds(),
                histogram.count(),
                &buckets,
                None,
            )?;
        }
        Ok(())
    }
}

/// The histogram's octaves from [`BUCKET_FIRST`] to [`BUCKET_LAST`] and `+Inf`, each with its own
/// count; the library adds them up. Durations are counted in whole µs, so that one that equals a
/// bound exactly stands in the bucket above it.
fn buckets(histogram: &Histogram) -> Vec<(f64, u64)> {
    let mut buckets = Vec::with_capacity(32);
    let (mut below, mut counted) = (0, 0);
    for (bound, count) in histogram.octaves() {
        if bound > BUCKET_LAST {
            break;
        }
        counted += count;
        below += count;
        if bound >= BUCKET_FIRST {
            buckets.push((bound, std::mem::take(&mut below)));
        }
    }
    buckets.push((f64::INFINITY, histogram.count() - counted));
    buckets
}
