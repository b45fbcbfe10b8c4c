//! Connections of the origins: HTTP/1.1, kept open, bounded in number.

use super::counts::Counts;
use anyhow::{Context, Result};
use bytes::Bytes;
use http::Uri;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;

/// What an origin answers.
pub(super) type Answer = Response<Full<Bytes>>;

/// A client that does not send a whole head in this time is cut off.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);

/// Prints the greeting and answers requests until SIGTERM or Ctrl-C, then prints one line: what was
/// served, and for whom. At most `connections_max` connections are open at once, and as many as
/// `accept_queue` wait in the kernel's listen queue.
pub(super) async fn run<R, F>(
    address: SocketAddr,
    accept_queue: u32,
    connections_max: usize,
    greeting: &str,
    counts: &Counts,
    respond: R,
) -> Result<()>
where
    R: Fn(Uri) -> F + Clone + Send + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let mut interruption = crate::Interruption::catch()?;
    let listener = listen(address, accept_queue)?;
    println!("{greeting}");
    let places = Arc::new(Semaphore::new(connections_max));
    let serve = async {
        loop {
            let place = Arc::clone(&places).acquire_owned().await.expect("never closed");
            let Ok((stream, _)) = listener.accept().await else {
                // Out of descriptors: wait for some connection to end instead of spinning.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let respond = respond.clone();
            tokio::spawn(async move {
                converse(stream, respond).await;
                drop(place);
            });
        }
    };
    tokio::select! {
        () = serve => {}
        () = interruption.happens() => {}
    }
    println!("{}", counts.line());
    Ok(())
}

/// Listens with a queue of `backlog` connections in the kernel.
fn listen(address: SocketAddr, backlog: u32) -> Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address).with_context(|| format!("cannot bind {address}"))?;
    Ok(socket.listen(backlog)?)
}

async fn converse<F: Future<Output = Answer>>(stream: TcpStream, respond: impl Fn(Uri) -> F) {
    // Without it, an answer of several segments waits for the client's delayed acknowledgement.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let (head, mut upload) = request.into_parts();
        let answer = respond(head.uri);
        async move {
            // An upload is read to its end, as an application would.
            while let Some(frame) = upload.frame().await {
                if frame.is_err() {
                    return Ok(plain(StatusCode::BAD_REQUEST, Bytes::new()));
                }
            }
            Ok::<_, Infallible>(answer.await)
        }
    });
    // A client that goes away ends its connection with an error, which is no news here.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// An answer of plain text.
pub(super) fn plain(status: StatusCode, body: Bytes) -> Answer {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain"));
    response
}
