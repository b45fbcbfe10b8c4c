//! What a client would rather read.

use crate::grpc;
use tiergate_core::request::Field;

/// What a client would rather read, by its `Accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Anything else.
    Plain,
    /// Browsers.
    Html,
    /// Programs.
    Json,
    /// Calls by gRPC.
    Grpc,
}

impl Format {
    /// gRPC's for its calls; else the first of HTML and JSON that the client names; plain text if neither.
    ///
    /// Weights are not read: a client that accepts only one of them names only one.
    pub fn accepted(fields: &[Field<'_>]) -> Self {
        if grpc::is_grpc(fields) {
            return Format::Grpc;
        }
        let accepts =
            fields.iter().filter(|field| field.name.eq_ignore_ascii_case(b"accept")).take(4);
        for kind in accepts.flat_map(|field| field.value.split(|&byte| byte == b',')) {
            let kind = kind.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
            if kind.eq_ignore_ascii_case(b"text/html") {
                return Format::Html;
            }
            if kind.eq_ignore_ascii_case(b"application/json")
                || kind.to_ascii_lowercase().ends_with(b"+json")
            {
                return Format::Json;
            }
        }
        Format::Plain
    }
}
