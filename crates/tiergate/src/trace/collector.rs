//! Sends spans to a collector by OTLP over HTTP, in protobuf. Source: <https://opentelemetry.io/docs/specs/otlp/>.

use crate::config::meant::Tracing;
use crate::side_http::{self, Addresses};
use anyhow::{Context, Result, bail};
use http::{HeaderMap, HeaderValue, header};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

/// Bytes of the collector's answer.
const ANSWER_LEN_MAX: usize = 64 * 1024;

const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");

/// Sends spans; gives how many of them the collector rejects.
///
/// # Errors
/// Why none was taken, as far as that is known. They are not sent again: the next are waiting.
pub(super) async fn export(
    settings: &Tracing,
    collector: &Addresses,
    spans: Vec<Span>,
) -> Result<u64> {
    let request = ExportTraceServiceRequest { resource_spans: vec![of_gateway(settings, spans)] };
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, PROTOBUF);
    let path = &settings.collector.path;
    let body = request.encode_to_vec().into();
    let answer = side_http::post(collector, path, headers, body, ANSWER_LEN_MAX, settings.timeout);
    let (status, body) = answer.await?;
    if !status.is_success() {
        bail!("it answers {status}");
    }
    let answer = ExportTraceServiceResponse::decode(body)
        .context("its answer is none of OTLP in protobuf")?;
    let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
    Ok(u64::try_from(rejected).unwrap_or(0))
}

fn of_gateway(settings: &Tracing, spans: Vec<Span>) -> ResourceSpans {
    let attribute = |key: &str, value: &str| KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) }),
        ..KeyValue::default()
    };
    let version = env!("CARGO_PKG_VERSION");
    let attributes =
        vec![attribute("service.name", &settings.service), attribute("service.version", version)];
    let scope = InstrumentationScope {
        name: "tiergate".to_owned(),
        version: version.to_owned(),
        ..InstrumentationScope::default()
    };
    ResourceSpans {
        resource: Some(Resource { attributes, ..Resource::default() }),
        scope_spans: vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }],
        ..ResourceSpans::default()
    }
}
