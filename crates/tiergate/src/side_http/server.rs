//! A listener: accepts a bounded number of connections, each for a bounded time.

use super::content::Content;
use super::course::{Answered, Watched};
use super::guests::{Guests, Seat};
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
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

/// Connections at once. Scrapers and people need a handful.
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
    /// People and programs of the operator's: who finds it full takes the place of one that is silent.
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
    let guests = Guests::default();
    let mut failing = false;
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                failing = false;
                let (admitted, patience) = match crowd {
                    Crowd::Operators => {
                        (Some(guests.admit_any(peer.ip(), CONNECTIONS_MAX)), HEAD_PATIENCE)
                    }
                    Crowd::Strangers => {
                        (guests.admit(peer.ip(), CONNECTIONS_MAX), STRANGER_PATIENCE)
                    }
                };
                let Some((seat, ended)) = admitted else { continue };
                let answer = answer.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        () = converse(stream, peer, patience, answer, &seat) => {}
                        _ = ended => {}
                    }
                });
                // What it has sent is read, and one that makes room is closed, before the next comes.
                yield_now().await;
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

/// Answers the requests of a connection, whose place is told what happens.
async fn converse<F, R>(
    stream: TcpStream,
    peer: SocketAddr,
    head_patience: Duration,
    answer: F,
    seat: &Seat,
) where
    F: Fn(Request<Incoming>, SocketAddr) -> R,
    R: Future<Output = Answer>,
{
    let course = seat.course();
    let hang_up = HangUp::default();
    let cut = hang_up.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(cut.clone());
        let answering = course.begins();
        let answer = answer(request, peer);
        async move {
            let answer = answer.await;
            if answer.extensions().get::<Known>().is_some() {
                seat.is_known();
            }
            let answer = answer.map(|content| Answered { content, _answering: answering });
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_patience)
        .max_buf_size(HEAD_LEN_MAX)
        .max_headers(FIELDS_MAX)
        .serve_connection(TokioIo::new(Watched { stream, course: course.clone() }), service);
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// More than the system holds for a client that reads nothing.
    const LONG: usize = 32 << 20;

    #[tokio::test]
    async fn one_that_takes_its_answer_slowly_keeps_its_place_before_those_that_ask_nothing() {
        let listener = bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let answer = |_, _| async { plain(StatusCode::OK, vec![b'x'; LONG]) };
        tokio::spawn(serve(listener, "a test", Crowd::Operators, answer));
        let mut reader = TcpStream::connect(address).await.expect("connected");
        let head = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        reader.write_all(head.as_bytes()).await.expect("sent");
        let mut first = [0; 16];
        reader.read_exact(&mut first).await.expect("it is answered");
        let mut silent = Vec::new();
        for _ in 0..2 * CONNECTIONS_MAX {
            silent.push(TcpStream::connect(address).await.expect("connected"));
        }
        // The last has come when those before have made room.
        let mut is_gone = async |place: usize| {
            let read = timeout(Duration::from_secs(5), silent[place].read(&mut first)).await;
            read.is_ok_and(|read| !matches!(read, Ok(1..)))
        };
        assert!(is_gone(CONNECTIONS_MAX).await, "the place was the youngest's but 63");
        assert!(is_gone(0).await);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).await.expect("it is not cut");
        assert!(first.len() + rest.len() > LONG, "all of it has come");
    }
}
