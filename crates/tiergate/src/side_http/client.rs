//! One request on a connection of its own.

use super::addresses::Addresses;
use anyhow::{Context, Result, anyhow, bail};
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::body::{Body, Bytes};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
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
    let request = Request::get(path).body(Empty::new())?;
    send(server, request, headers, len_max, patience).await
}

/// Posts something to a path of a server within that time. Dropped, it closes the connection.
///
/// # Errors
/// As [`get`].
pub(crate) async fn post(
    server: &Addresses,
    path: &str,
    headers: HeaderMap,
    body: Bytes,
    len_max: usize,
    patience: Duration,
) -> Result<(StatusCode, Bytes)> {
    let request = Request::post(path).body(Full::new(body))?;
    send(server, request, headers, len_max, patience).await
}

async fn send<B>(
    server: &Addresses,
    request: Request<B>,
    headers: HeaderMap,
    len_max: usize,
    patience: Duration,
) -> Result<(StatusCode, Bytes)>
where
    B: Body<Data = Bytes, Error = Infallible> + 'static,
{
    let until = Instant::now() + patience;
    let stream = server.connect(until).await?;
    let exchange = exchange(stream, server.authority(), request, headers, len_max);
    match timeout_at(until, exchange).await {
        Ok(answer) => answer,
        Err(_) => bail!("does not answer within {patience:?}"),
    }
}

async fn exchange<B>(
    stream: TcpStream,
    authority: &str,
    mut request: Request<B>,
    headers: HeaderMap,
    len_max: usize,
) -> Result<(StatusCode, Bytes)>
where
    B: Body<Data = Bytes, Error = Infallible> + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
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
