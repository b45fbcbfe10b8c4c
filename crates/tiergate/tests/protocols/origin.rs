//! A server to stand behind the gateway, of another make than the gateway: hyper, HTTP/1.1.

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, SET_COOKIE, TRAILER};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::net::TcpListener;
use tokio::sync::Notify;

type Out = BoxBody<Bytes, io::Error>;

/// What the server saw, and what tells it to go on.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Requests begun.
    pub(crate) requests: AtomicUsize,
    /// Connections accepted.
    pub(crate) connections: AtomicUsize,
    /// Lets one `/wait` answer.
    pub(crate) go_on: Notify,
}

/// So many bytes of a body that is made up come again and again.
const PERIOD: usize = 1 << 24;

/// Byte `at` of every body that is made up.
pub(crate) fn byte(at: usize) -> u8 {
    (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[2]
}

/// The first `len` bytes of every body that is made up.
pub(crate) fn made_up(len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len.min(PERIOD)).map(byte).collect();
    // By the byte, tens of MiB would hold up all that the test's one thread serves: for seconds, without optimisation.
    while bytes.len() < len {
        bytes.extend_from_within(..bytes.len().min(len - bytes.len()));
    }
    bytes
}

/// Starts the server.
pub(crate) async fn start() -> (SocketAddr, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(Seen::default());
    let shared = seen.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            shared.connections.fetch_add(1, Ordering::Relaxed);
            let seen = shared.clone();
            let service = service_fn(move |request| answer(request, seen.clone()));
            tokio::spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    (address, seen)
}

async fn answer(request: Request<Incoming>, seen: Arc<Seen>) -> io::Result<Response<Out>> {
    seen.requests.fetch_add(1, Ordering::Relaxed);
    let path = request.uri().path().to_owned();
    let (what, rest) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
    let len: usize = rest.parse().unwrap_or(0);
    Ok(match what {
        "len" => Response::new(full(made_up(len))),
        "chunked" => Response::new(stream(Made { at: 0, len, end: End::Whole })),
        "trailers" => {
            let mut response = Response::new(stream(Made { at: 0, len, end: End::Trailers }));
            response.headers_mut().insert(TRAILER, HeaderValue::from_static("x-sum"));
            response
        }
        "breaks" => Response::new(stream(Made { at: 0, len, end: End::Breaks })),
        "events" | "calls" => {
            let kind = if what == "events" { "text/event-stream" } else { "application/grpc" };
            let mut response =
                Response::new(stream(Made { at: 0, len: len.max(1), end: End::Hangs }));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            response
        }
        "hangs" => Response::new(stream(Made { at: 0, len, end: End::Hangs })),
        "wait" => {
            seen.go_on.notified().await;
            Response::new(full(b"waited".to_vec()))
        }
        "close" => {
            let mut response = Response::new(stream(Made { at: 0, len, end: End::Whole }));
            *response.version_mut() = hyper::Version::HTTP_10;
            response
        }
        "echo" => echo(request),
        "sum" => sum(request).await?,
        "head" => Response::new(full(told(&request).into_bytes())),
        "status" => {
            let mut response = Response::new(Empty::new().map_err(|never| match never {}).boxed());
            *response.status_mut() = rest.parse().unwrap();
            response
        }
        "cookies" => {
            let mut response = Response::new(full(b"two".to_vec()));
            let headers = response.headers_mut();
            headers.append(SET_COOKIE, HeaderValue::from_static("a=1"));
            headers.append(SET_COOKIE, HeaderValue::from_static("b=2"));
            headers.insert("x-odd", HeaderValue::from_bytes(b"caf\xe9").unwrap());
            headers.insert("keep-alive", HeaderValue::from_static("timeout=5"));
            headers.insert("connection", HeaderValue::from_static("x-hop"));
            headers.insert("x-hop", HeaderValue::from_static("1"));
            response
        }
        _ => panic!("no such path: {path}"),
    })
}

/// The head as the server got it.
fn told(request: &Request<Incoming>) -> String {
    let mut text = format!("{} {}\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        text.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())));
    }
    text
}

fn full(bytes: Vec<u8>) -> Out {
    Full::new(Bytes::from(bytes)).map_err(|never| match never {}).boxed()
}

fn echo(request: Request<Incoming>) -> Response<Out> {
    let (parts, body) = request.into_parts();
    let mut response = Response::new(body.map_err(io::Error::other).boxed());
    for name in [CONTENT_LENGTH, CONTENT_TYPE, TRAILER] {
        if let Some(value) = parts.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

/// Reads the body and answers with its length and trailers.
async fn sum(request: Request<Incoming>) -> io::Result<Response<Out>> {
    let collected = request.into_body().collect().await.map_err(io::Error::other)?;
    let trailers = collected.trailers().cloned().unwrap_or_default();
    let len = collected.to_bytes().len();
    let trailers: Vec<String> = trailers
        .iter()
        .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
        .collect();
    Ok(Response::new(full(format!("{len} {}", trailers.join(",")).into_bytes())))
}

/// How a body that is made up ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    Trailers,
    /// The connection breaks instead.
    Breaks,
    /// Nothing more comes.
    Hangs,
}

/// A body that comes in frames of uneven length.
struct Made {
    at: usize,
    len: usize,
    end: End,
}

fn stream(made: Made) -> Out {
    Frames(made, false).boxed()
}

struct Frames(Made, bool);

impl Body for Frames {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Frames(made, ended) = &mut *self;
        if made.at < made.len {
            let len = (1 + made.at % 30_011).min(made.len - made.at);
            let bytes: Vec<u8> = (made.at..made.at + len).map(byte).collect();
            made.at += len;
            return Poll::Ready(Some(Ok(Frame::data(bytes.into()))));
        }
        match made.end {
            End::Whole => Poll::Ready(None),
            End::Trailers if *ended => Poll::Ready(None),
            End::Trailers => {
                *ended = true;
                let mut trailers = HeaderMap::new();
                trailers.insert("x-sum", HeaderValue::from(made.len));
                Poll::Ready(Some(Ok(Frame::trailers(trailers))))
            }
            End::Breaks => Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into()))),
            End::Hangs => Poll::Pending,
        }
    }
}
