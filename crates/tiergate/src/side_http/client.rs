//! One request on a connection of its own.

use super::addresses::Addresses;
use anyhow::{Context, Result, anyhow, bail};
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// Gets a path of a server within that time. Dropped, it closes the connection.
///
/// # Errors
/// If there is no connection, no HTTP, an answer of more than `len_max` bytes, or none in time.
pub(crate) async fn get(
    server: &Addresses,
    path: &str,
    headers: HeaderMap,
    len_max: usize,
    patience: Duration,
) -> Result<(StatusCode, Bytes)> {
    let until = Instant::now() + patience;
    let stream = server.connect(until).await?;
    let exchange = exchange(stream, server.authority(), path, headers, len_max);
    match timeout_at(until, exchange).await {
        Ok(answer) => answer,
        Err(_) => bail!("does not answer within {patience:?}"),
    }
}

async fn exchange(
    stream: TcpStream,
    authority: &str,
    path: &str,
    headers: HeaderMap,
    len_max: usize,
) -> Result<(StatusCode, Bytes)> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut request = Request::get(path).body(Empty::<Bytes>::new())?;
    *request.headers_mut() = headers;
    let host = HeaderValue::from_str(authority).context("not a host and port")?;
    request.headers_mut().insert(header::HOST, host);
    request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    let exchange = async {
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), len_max).collect().await;
        let body = body.map_err(|fault| {
            anyhow!("the answer is cut, or has more than {len_max} bytes: {fault}")
        })?;
        Ok((status, body.to_bytes()))
    };
    let mut exchange = std::pin::pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        // What it has read by then is there for the exchange.
        _ = connection => exchange.await,
    }
}
