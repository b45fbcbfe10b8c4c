//! A listener: accepts a bounded number of connections, each for a bounded time.

use super::content::Content;
use super::guests::Guests;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{sleep, timeout};

/// Connections at once; further ones wait in the listen queue. Scrapers and people need a handful.
const CONNECTIONS_MAX: usize = 64;
/// From a connection's begin to the end of a request's head, and between two requests.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// The same of strangers, who only need to show a token.
const STRANGER_PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a request head.
const HEAD_LEN_MAX: usize = 16 * 1024;
/// Header fields of a request.
const FIELDS_MAX: usize = 64;
/// Longest life of a connection: one that does not read its responses gives its place back.
pub(crate) const CONNECTION_LIFE_MAX: Duration = Duration::from_secs(120);
/// How long a connection may finish its response when its time is over.
const FAREWELL: Duration = Duration::from_secs(5);
/// Pause after an accept that failed (no descriptors left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Who reaches a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crowd {
    /// People and programs of the operator's: who finds it full waits.
    Operators,
    /// Anybody: who finds it full takes the place of one that has shown no token.
    Strangers,
}

/// In an answer's extensions: it was given to one that has shown a token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known;

/// An answer.
pub(crate) type Answer = Response<Content>;

/// In a request's extensions: ends its connection at once, as that of a reader which is too slow.
#[derive(Clone, Debug, Default)]
pub(crate) struct HangUp(Arc<Notify>);

impl HangUp {
    /// Ends the connection.
    pub(crate) fn now(&self) {
        self.0.notify_one();
    }
}

const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const JSON: &str = "application/json";
pub(crate) const HTML: &str = "text/html; charset=utf-8";

/// An answer in words.
pub(crate) fn plain(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    respond(status, TEXT, text)
}

/// An answer of that media type, which no cache keeps and no web page of others may use.
pub(crate) fn respond(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Content::whole(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    answer
}

/// Binds a listener, for [`serve`].
///
/// # Errors
/// If the address cannot be bound.
pub(crate) fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Answers requests until dropped; `whose`: the listener in the log. Must run within a tokio runtime with I/O and time.
///
/// # Errors
/// If the socket cannot be used with the runtime.
pub(crate) async fn serve<F, R>(
    listener: std::net::TcpListener,
    whose: &'static str,
    crowd: Crowd,
    answer: F,
) -> io::Result<()>
where
    F: Fn(Request<Incoming>, SocketAddr) -> R + Clone + Send + 'static,
    R: Future<Output = Answer> + Send + 'static,
{
    let listener = TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let guests = Guests::default();
    let mut failing = false;
    loop {
        let place = match crowd {
            Crowd::Operators => {
                let place = Arc::clone(&places).acquire_owned().await;
                Some(place.expect("the semaphore is never closed"))
            }
            Crowd::Strangers => None,
        };
        match listener.accept().await {
            Ok((stream, peer)) => {
                failing = false;
                let answer = answer.clone();
                if crowd == Crowd::Operators {
                    tokio::spawn(async move {
                        converse(stream, peer, HEAD_PATIENCE, answer, || {}).await;
                        drop(place);
                    });
                } else if let Some((seat, ended)) = guests.admit(peer.ip(), CONNECTIONS_MAX) {
                    tokio::spawn(async move {
                        let known = || seat.is_known();
                        tokio::select! {
                            () = converse(stream, peer, STRANGER_PATIENCE, answer, known) => {}
                            _ = ended => {}
                        }
                    });
                }
            }
            Err(fault) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(error = %fault, "{whose} cannot accept");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Answers the requests of a connection; `known` is called when one has shown a token.
async fn converse<F, R>(
    stream: TcpStream,
    peer: SocketAddr,
    head_patience: Duration,
    answer: F,
    known: impl Fn(),
) where
    F: Fn(Request<Incoming>, SocketAddr) -> R,
    R: Future<Output = Answer>,
{
    let known = &known;
    let hang_up = HangUp::default();
    let cut = hang_up.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(cut.clone());
        let answer = answer(request, peer);
        async move {
            let answer = answer.await;
            if answer.extensions().get::<Known>().is_some() {
                known();
            }
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_patience)
        .max_buf_size(HEAD_LEN_MAX)
        .max_headers(FIELDS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let conversing = async {
        // A client's errors here are neither logged nor answered.
        if timeout(CONNECTION_LIFE_MAX, connection.as_mut()).await.is_err() {
            connection.as_mut().graceful_shutdown();
            let _ended = timeout(FAREWELL, connection).await;
        }
    };
    tokio::select! {
        () = conversing => {}
        () = hang_up.0.notified() => {}
    }
}
