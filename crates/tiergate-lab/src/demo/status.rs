//! What the gateway's admin listener says at `/status`.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;

/// Longest document read.
const STATUS_BYTES_MAX: usize = 1 << 20;
/// A gateway that does not answer in this time is shown without its part.
const PATIENCE: Duration = Duration::from_millis(500);

/// The gateway's own view, as far as the demonstration shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// Slots in force: how many requests the origin may work on at once.
    pub(super) slots: Option<u64>,
    /// By class name: requests that wait, requests that hold a slot.
    pub(super) classes: Vec<(String, u64, u64)>,
}

impl Status {
    /// Asks the gateway; `None` if it does not answer in time or in JSON.
    pub(super) async fn fetch(admin: SocketAddr) -> Option<Self> {
        let body = tokio::time::timeout(PATIENCE, fetch(admin)).await.ok()??;
        Some(Self::read(&serde_json::from_slice(&body).ok()?))
    }

    fn read(document: &Value) -> Self {
        let classes = document["classes"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let class = |class: &Value| {
            let name = class["name"].as_str()?.to_owned();
            Some((name, class["waiting"].as_u64()?, class["running"].as_u64()?))
        };
        let slots = &document["slots"];
        Self {
            slots: slots.as_u64().or_else(|| slots["limit"].as_u64()),
            classes: classes.iter().filter_map(class).collect(),
        }
    }

    /// Requests of that class that wait, and that hold a slot.
    pub(super) fn class(&self, name: &str) -> Option<(u64, u64)> {
        let class = self.classes.iter().find(|class| class.0 == name)?;
        Some((class.1, class.2))
    }
}

async fn fetch(admin: SocketAddr) -> Option<Bytes> {
    let stream = tokio::net::TcpStream::connect(admin).await.ok()?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .ok()?;
    let driver = tokio::spawn(connection);
    let request = Request::get("/status").header("host", admin.to_string());
    let request = request.body(Empty::<Bytes>::new()).ok()?;
    let response = sender.send_request(request).await.ok()?;
    let body = Limited::new(response.into_body(), STATUS_BYTES_MAX)
        .collect()
        .await
        .ok()?;
    driver.abort();
    Some(body.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_document_without_what_is_looked_for_is_no_error() {
        assert_eq!(Status::read(&json!({})), Status::default());
        assert_eq!(
            Status::read(&json!({ "classes": 3, "slots": "x" })),
            Status::default()
        );
    }
}
