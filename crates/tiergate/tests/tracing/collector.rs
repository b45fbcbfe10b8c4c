//! A collector of spans.

use crate::support::origin::{Accepted, Origin};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// What it was sent.
type Exports = Arc<Mutex<Vec<ExportTraceServiceRequest>>>;

/// A collector that takes spans.
pub(crate) struct Collector {
    pub(crate) origin: Origin,
    exports: Exports,
}

impl Collector {
    /// One that answers as it should.
    pub(crate) fn start() -> Self {
        Self::answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())
    }

    /// One that answers the export of this number in some other way.
    pub(crate) fn answering(answer: impl Fn(usize) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::serving(move |connection, number| connection.send(answer(number)))
    }

    /// One that does with each connection what it is told, after the export of this number has come.
    pub(crate) fn serving(serve: impl Fn(&mut Accepted, usize) + Send + Sync + 'static) -> Self {
        let exports = Exports::default();
        let seen = exports.clone();
        let origin = Origin::start(move |mut connection| {
            while let Some(request) = connection.request() {
                assert_eq!(request.method, "POST");
                assert_eq!(request.target, "/v1/traces");
                assert_eq!(request.values("content-type"), ["application/x-protobuf"]);
                let export = ExportTraceServiceRequest::decode(&request.body[..]).expect("OTLP");
                let number = {
                    let mut seen = seen.lock().expect("no panic");
                    seen.push(export);
                    seen.len() - 1
                };
                serve(&mut connection, number);
            }
        });
        Collector { origin, exports }
    }

    /// `[tracing]` for it; `keys` follow.
    pub(crate) fn section(&self, keys: &str) -> String {
        section_at(self.origin.address, keys)
    }

    /// All spans so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let exports = self.exports.lock().expect("no panic");
        let of_resources = exports.iter().flat_map(|it| &it.resource_spans);
        of_resources.flat_map(|it| &it.scope_spans).flat_map(|it| it.spans.clone()).collect()
    }

    /// The `service.name` of every export.
    pub(crate) fn services(&self) -> Vec<String> {
        let exports = self.exports.lock().expect("no panic");
        let resources = exports.iter().flat_map(|it| &it.resource_spans);
        let resources = resources.filter_map(|it| it.resource.as_ref());
        let attributes = resources.flat_map(|it| &it.attributes);
        attributes
            .filter(|it| it.key == "service.name")
            .filter_map(|it| match it.value.as_ref()?.value.as_ref()? {
                Value::StringValue(text) => Some(text.clone()),
                _ => None,
            })
            .collect()
    }
}

/// `[tracing]` for a collector at that address; `keys` follow.
pub(crate) fn section_at(address: SocketAddr, keys: &str) -> String {
    format!("[tracing]\nendpoint = \"http://{address}\"\ninterval = \"50ms\"\n{keys}\n")
}

/// A span's attribute, as text.
pub(crate) fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|it| it.key == key)?;
    Some(match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

/// An id in hexadecimal digits.
pub(crate) fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
