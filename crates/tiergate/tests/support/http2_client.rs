//! A client that speaks HTTP/2 in cleartext, by prior knowledge.

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

/// Runs what a client does, for as long as tests wait.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let within = Duration::from_secs(20);
        tokio::time::timeout(within, future).await.expect("it does not hang")
    })
}

/// A connection; and its settings have come.
pub async fn connect(address: SocketAddr) -> SendRequest<Bytes> {
    let stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
    stream.set_nodelay(true).expect("a socket");
    let mut builder = h2::client::Builder::new();
    builder.initial_max_send_streams(0);
    let (send, connection) = builder.handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    while send.current_max_send_streams() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    send
}

/// A call by gRPC, begun.
pub fn call(
    send: &mut SendRequest<Bytes>,
    path: &str,
    fields: &[(&str, &str)],
) -> (h2::client::ResponseFuture, SendStream<Bytes>) {
    let mut request = Request::post(format!("http://a.test{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    send.send_request(request.body(()).expect("good"), false).expect("a stream")
}

/// A message as gRPC frames it.
pub fn message(text: &str) -> Bytes {
    let mut bytes = vec![0];
    bytes.extend_from_slice(&u32::try_from(text.len()).expect("short").to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes.into()
}

/// The rest of an answer: its bytes and trailers.
///
/// # Errors
/// The stream's.
pub async fn rest(body: &mut RecvStream) -> Result<(Vec<u8>, HeaderMap), h2::Error> {
    let mut all = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        let _ = body.flow_control().release_capacity(piece.len());
        all.extend_from_slice(&piece);
    }
    Ok((all, body.trailers().await?.unwrap_or_default()))
}

/// A whole call with one message: the answer, its bytes and trailers.
///
/// # Errors
/// The stream's.
pub async fn unary(
    send: &mut SendRequest<Bytes>,
    path: &str,
    fields: &[(&str, &str)],
) -> Result<(Response<()>, Vec<u8>, HeaderMap), h2::Error> {
    let (response, mut sending) = call(send, path, fields);
    sending.send_data(message("hello"), true)?;
    let (head, mut body) = response.await?.into_parts();
    let (bytes, trailers) = rest(&mut body).await?;
    Ok((Response::from_parts(head, ()), bytes, trailers))
}
