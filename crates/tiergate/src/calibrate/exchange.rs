//! One connection to the origin, one GET at a time.

use super::target::Target;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

/// Bytes of an answer's body; a longer one is no page, and may have no end.
const ANSWER_LEN_MAX: u64 = 64 << 20;

/// How requests are sent.
#[derive(Clone, Debug)]
pub(crate) struct Sending {
    /// Longest time for a complete answer.
    pub(crate) timeout: Duration,
    /// Fields beside those that every request has; they replace them.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

/// A complete answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// Of its body.
    pub(crate) bytes: u64,
    /// From the request to the first byte.
    pub(crate) first_byte: Duration,
    /// From the request to the last byte.
    pub(crate) whole: Duration,
}

/// The origin closed the connection before the first byte of an answer.
#[derive(Debug)]
struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no answer")
    }
}

/// How an exchange ended.
pub(super) enum Ended {
    Answered(Answer),
    /// 429 or 503.
    Refused,
    /// Why, in words.
    Failed(String),
}

/// An open connection; closed when dropped.
pub(super) struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    driver: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        // A request is one small write: waiting to fill a packet would only delay it.
        let _ = stream.set_nodelay(true);
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(async move {
            // The exchange says what went wrong.
            let _ = connection.await;
        });
        Ok(Connection { sender, driver: driver.abort_handle() })
    }

    /// Whether another request may be sent on it.
    pub(super) async fn is_ready(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    /// Sends a GET, and reads the answer to its end.
    pub(super) async fn get(&mut self, target: &Target, sending: &Sending) -> Result<Answer> {
        let request = request(target, sending)?;
        let begun = Instant::now();
        let answer = self.sender.send_request(request).await;
        let answer = answer.map_err(|fault| {
            let is_closed = !fault.is_parse();
            let fault = anyhow::Error::new(fault);
            if is_closed { fault.context(Closed) } else { fault.context("no answer") }
        })?;
        let first_byte = begun.elapsed();
        let (status, mut body) = (answer.status(), answer.into_body());
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            let frame = frame.context("the answer broke off")?;
            bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            if bytes > ANSWER_LEN_MAX {
                bail!("the answer is longer than {} MiB", ANSWER_LEN_MAX >> 20);
            }
        }
        Ok(Answer { status, bytes, first_byte, whole: begun.elapsed() })
    }
}

fn request(target: &Target, sending: &Sending) -> Result<Request<Empty<Bytes>>> {
    let mut request = Request::get(&target.path).body(Empty::new())?;
    let headers = request.headers_mut();
    headers.insert(header::HOST, HeaderValue::try_from(&target.authority)?);
    const AGENT: &str = concat!("tiergate-calibrate/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
    headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    for (name, value) in &sending.headers {
        headers.insert(name, value.clone());
    }
    Ok(request)
}

/// An exchange on the connection of before, or on a new one. It is kept for the next unless the exchange failed.
///
/// An origin may close an idle connection at any time: then the request is sent again, once, on a new one, if `again` says that
/// there is one left, and after how long. An answer that broke off is a failure, and is not asked for again.
pub(super) async fn exchange(
    kept: &mut Option<Connection>,
    target: &Target,
    sending: &Sending,
    again: impl FnOnce() -> Option<Duration>,
) -> Ended {
    let result = tokio::time::timeout(sending.timeout, async {
        if let Some(mut connection) = kept.take()
            && connection.is_ready().await
        {
            match connection.get(target, sending).await {
                Ok(answer) => return Ok((connection, answer)),
                Err(fault) if fault.is::<Closed>() => match again() {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => return Err(fault),
                },
                Err(fault) => return Err(fault),
            }
        }
        let mut connection = Connection::open(target.address).await?;
        let answer = connection.get(target, sending).await?;
        anyhow::Ok((connection, answer))
    });
    match result.await {
        Err(_) => Ended::Failed(format!("no complete answer within {:?}", sending.timeout)),
        Ok(Err(fault)) => Ended::Failed(format!("{fault:#}")),
        Ok(Ok((connection, answer))) => {
            *kept = Some(connection);
            match answer.status.as_u16() {
                200..300 => Ended::Answered(answer),
                429 | 503 => Ended::Refused,
                _ => Ended::Failed(format!("answers {}", answer.status)),
            }
        }
    }
}
