//! One request on a connection of its own.

use anyhow::{Context, Result, anyhow};
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Gets a path of the server at `authority` (host and port). The caller bounds the time; dropped, it closes the connection.
///
/// # Errors
/// If there is no connection, no HTTP, or an answer of more than `len_max` bytes.
pub(crate) async fn get(
    authority: &str,
    path: &str,
    headers: HeaderMap,
    len_max: usize,
) -> Result<(StatusCode, Bytes)> {
    let stream = TcpStream::connect(authority).await.context("cannot connect")?;
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
