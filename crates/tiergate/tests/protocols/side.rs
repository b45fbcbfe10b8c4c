//! A client over either protocol, as the cases of the table see it: hyper's, which hides what differs.

use crate::support::PATIENCE;
use crate::world::{World, get};
use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderMap, HeaderValue, TE};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// A protocol of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Http1,
    Http2,
}

impl Side {
    /// Lets a request's client take trailers: over HTTP/1.1 that is said of the connection, too.
    pub(crate) fn take_trailers<T>(self, request: &mut Request<T>) {
        request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
        if self == Side::Http1 {
            request.headers_mut().insert(CONNECTION, HeaderValue::from_static("te"));
        }
    }
}

/// A body that comes in pieces, or none at all.
pub(crate) struct Pieces(Option<mpsc::UnboundedReceiver<Frame<Bytes>>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Some(pieces) => pieces.poll_recv(context).map(|piece| piece.map(Ok)),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(0),
        }
    }
}

enum Sender {
    Http1(http1::SendRequest<Pieces>),
    Http2(http2::SendRequest<Pieces>),
}

/// A client's connection; dropped, it ends.
pub(crate) struct Client {
    sender: Sender,
    connection: JoinHandle<hyper::Result<()>>,
}

type Asking = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;

/// A request on its way; dropped, its client leaves.
pub(crate) struct Exchange {
    answer: Asking,
    pieces: Option<mpsc::UnboundedSender<Frame<Bytes>>>,
    pub(crate) client: Client,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: HeaderMap,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    /// A new connection to the gateway.
    pub(crate) async fn connect(world: &World, side: Side) -> Self {
        Self::at(world.address_of(side), side).await
    }

    /// A new connection to any server.
    pub(crate) async fn at(address: SocketAddr, side: Side) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        Self::over_tcp(stream, side, &http2::Builder::new(TokioExecutor::new())).await
    }

    /// One whose windows take little that is not read: that of TCP, and over HTTP/2 those of the stream
    /// and of the connection.
    pub(crate) async fn reluctant(world: &World, side: Side) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let stream = socket.connect(world.address_of(side)).await.unwrap();
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(65_535).initial_connection_window_size(65_535);
        Self::over_tcp(stream, side, &builder).await
    }

    /// One on a slow link: it receives so many bytes, and no more for the time of a `pause`. Its windows over
    /// HTTP/2 are large.
    pub(crate) async fn throttled(
        world: &World,
        side: Side,
        bytes: usize,
        pause: Duration,
    ) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(8 * 1024).unwrap();
        let stream = socket.connect(world.address_of(side)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(1 << 30).initial_connection_window_size(1 << 30);
        let (ours, theirs) = tokio::io::duplex(bytes);
        tokio::spawn(async move {
            let (mut from, mut to) = stream.into_split();
            let (mut back, mut forth) = tokio::io::split(theirs);
            let slowly = async {
                let mut piece = vec![0; bytes];
                while let Ok(count @ 1..) = from.read(&mut piece).await {
                    if forth.write_all(&piece[..count]).await.is_err() {
                        break;
                    }
                    tokio::time::sleep(pause).await;
                }
            };
            tokio::select! {
                () = slowly => {}
                _ = tokio::io::copy(&mut back, &mut to) => {}
            }
        });
        Self::over(ours, side, &builder).await
    }

    async fn over_tcp(
        stream: TcpStream,
        side: Side,
        builder: &http2::Builder<TokioExecutor>,
    ) -> Self {
        stream.set_nodelay(true).unwrap();
        Self::over(stream, side, builder).await
    }

    async fn over<S>(stream: S, side: Side, builder: &http2::Builder<TokioExecutor>) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let io = TokioIo::new(stream);
        match side {
            Side::Http1 => {
                let (sender, connection) = http1::handshake(io).await.unwrap();
                Client { sender: Sender::Http1(sender), connection: tokio::spawn(connection) }
            }
            Side::Http2 => {
                let (sender, connection) = builder.handshake(io).await.unwrap();
                Client { sender: Sender::Http2(sender), connection: tokio::spawn(connection) }
            }
        }
    }

    /// How the connection ends, which the gateway has to end by itself.
    pub(crate) async fn ended(&mut self) -> hyper::Result<()> {
        let ended = tokio::time::timeout(PATIENCE, &mut self.connection).await;
        ended.expect("the connection ends").expect("no panic")
    }

    async fn ask(&mut self, mut request: Request<Pieces>) -> Asking {
        match &mut self.sender {
            Sender::Http1(sender) => {
                let host = request.uri().authority().expect("tests name the host").as_str();
                let host = HeaderValue::try_from(host).unwrap();
                request.headers_mut().insert(HOST, host);
                let target = request.uri().path_and_query().unwrap().as_str().to_owned();
                *request.uri_mut() = target.parse().unwrap();
                let _ = sender.ready().await;
                Box::pin(sender.send_request(request))
            }
            Sender::Http2(sender) => {
                let _ = sender.ready().await;
                Box::pin(sender.send_request(request))
            }
        }
    }

    /// A request without a body, and its whole answer.
    pub(crate) async fn fetch(&mut self, request: Request<()>) -> hyper::Result<Answer> {
        let answer = self.ask(request.map(|()| Pieces(None))).await;
        read(answer.await?).await
    }

    /// Begins a request; with `body`, one that comes by [`Exchange::send`].
    pub(crate) async fn begin(mut self, request: Request<()>, body: bool) -> Exchange {
        let (sender, receiver) = mpsc::unbounded_channel();
        let answer = self.ask(request.map(|()| Pieces(body.then_some(receiver)))).await;
        Exchange { answer, pieces: body.then_some(sender), client: self }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Exchange {
    /// Sends more of the body.
    pub(crate) fn send(&self, bytes: impl Into<Bytes>) {
        let pieces = self.pieces.as_ref().expect("the body has not ended");
        // It fails where the client has given up, which the answer tells.
        let _ = pieces.send(Frame::data(bytes.into()));
    }

    /// Ends the body with trailers.
    pub(crate) fn finish_with(&mut self, trailers: HeaderMap) {
        let pieces = self.pieces.take().expect("the body has not ended");
        let _ = pieces.send(Frame::trailers(trailers));
    }

    /// Ends the body.
    pub(crate) fn finish(&mut self) {
        self.pieces = None;
    }

    /// The head of the answer; the rest is read by [`read`].
    pub(crate) async fn head(&mut self) -> hyper::Result<Response<Incoming>> {
        (&mut self.answer).await
    }

    /// The whole answer.
    pub(crate) async fn answer(mut self) -> hyper::Result<Answer> {
        let answer = self.head().await?;
        read(answer).await
    }
}

/// Reads the rest of an answer.
pub(crate) async fn read(answer: Response<Incoming>) -> hyper::Result<Answer> {
    let (parts, body) = answer.into_parts();
    let body = body.collect().await?;
    let trailers = body.trailers().cloned().unwrap_or_default();
    let body = body.to_bytes().to_vec();
    Ok(Answer { status: parts.status.as_u16(), fields: parts.headers, body, trailers })
}

/// A POST whose body comes in pieces.
pub(crate) fn post(path: &str, length: Option<usize>) -> Request<()> {
    let request = Request::post(format!("http://gate.test{path}"));
    let request = match length {
        Some(len) => request.header("content-length", len),
        None => request,
    };
    request.body(()).unwrap()
}

/// A request on a connection of its own, and the whole answer.
pub(crate) async fn fetch(world: &World, side: Side, path: &str) -> Answer {
    Client::connect(world, side).await.fetch(get(path)).await.unwrap()
}
