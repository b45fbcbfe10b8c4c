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
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Status {
    /// Slots in force: how many requests the origin may work on at once.
    pub(super) slots: Option<u64>,
    /// The classes, most important first.
    classes: Vec<Class>,
}

/// One class at the gate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Class {
    name: String,
    /// Requests in its queue.
    pub(super) waiting: u64,
    /// Slots that it holds.
    pub(super) running: u64,
    /// What all but one in a hundred did not wait longer than, over the last seconds.
    pub(super) wait_p99: Option<Duration>,
}

impl Status {
    /// Asks the gateway; `None` if it does not answer in time or in JSON.
    pub(super) async fn fetch(admin: SocketAddr) -> Option<Self> {
        let body = tokio::time::timeout(PATIENCE, fetch(admin)).await.ok()??;
        Some(Self::read(&serde_json::from_slice(&body).ok()?))
    }

    fn read(document: &Value) -> Self {
        let classes = document["classes"].as_array().map_or(&[][..], Vec::as_slice);
        let class = |class: &Value| {
            let wait = class["wait"]["window"]["p99_seconds"].as_f64();
            Some(Class {
                name: class["name"].as_str()?.to_owned(),
                waiting: class["waiting"].as_u64()?,
                running: class["running"].as_u64()?,
                wait_p99: wait.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            })
        };
        Self {
            slots: document["limit"]["slots"].as_u64(),
            classes: classes.iter().filter_map(class).collect(),
        }
    }

    /// The class of that name.
    pub(super) fn class(&self, name: &str) -> Option<&Class> {
        self.classes.iter().find(|class| class.name == name)
    }
}

async fn fetch(admin: SocketAddr) -> Option<Bytes> {
    let stream = tokio::net::TcpStream::connect(admin).await.ok()?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    let driver = tokio::spawn(connection);
    let request = Request::get("/status").header("host", admin.to_string());
    let request = request.body(Empty::<Bytes>::new()).ok()?;
    let response = sender.send_request(request).await.ok()?;
    let body = Limited::new(response.into_body(), STATUS_BYTES_MAX).collect().await.ok()?;
    driver.abort();
    Some(body.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_shown_is_found_in_the_document() {
        let status = Status::read(&json!({
            "limit": { "adaptive": true, "slots": 17, "running": 9 },
            "classes": [
                { "name": "premium", "waiting": 0, "running": 4, "wait": { "window": {} } },
                { "name": "basic", "waiting": 30, "running": 5,
                  "wait": { "window": { "count": 9, "p99_seconds": 0.25 } } },
            ],
        }));
        assert_eq!(status.slots, Some(17));
        assert_eq!(status.class("premium").unwrap().wait_p99, None);
        let basic = status.class("basic").unwrap();
        assert_eq!((basic.waiting, basic.running), (30, 5));
        assert_eq!(basic.wait_p99, Some(Duration::from_millis(250)));
        assert!(status.class("other").is_none());
    }

    #[test]
    fn a_document_without_what_is_looked_for_is_no_error() {
        assert_eq!(Status::read(&json!({})), Status::default());
        assert_eq!(Status::read(&json!({ "classes": 3, "limit": "x" })), Status::default());
    }
}
