//! Origins that speak HTTP/2: by the `h2` crate, as a server does; or frame by frame, as no server should.

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::Request;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

/// What an origin counts.
#[derive(Debug, Default)]
pub struct Counts {
    pub connections: AtomicUsize,
    pub streams: AtomicUsize,
    /// Streams in progress, and the most that there were.
    pub open: AtomicUsize,
    pub open_max: AtomicUsize,
}

/// An origin that speaks HTTP/2.
#[derive(Debug)]
pub struct Http2Origin {
    pub address: SocketAddr,
    pub counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
}

/// What it offers.
#[derive(Clone, Default)]
pub struct Offer {
    pub streams_max: Option<u32>,
    pub window: Option<u32>,
    pub tunnels: bool,
    pub tls: Option<Arc<rustls::ServerConfig>>,
}

impl Http2Origin {
    /// Serves each stream by `serve`, in a task of its own.
    pub fn start<F: Future<Output = ()> + Send + 'static>(
        offer: Offer,
        serve: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> F + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        let origin = Http2Origin {
            address: listener.local_addr().expect("bound"),
            counts: Arc::default(),
            stop: Arc::default(),
        };
        let (counts, stop, serve) = (origin.counts.clone(), origin.stop.clone(), Arc::new(serve));
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                while let Ok((stream, _)) = listener.accept().await {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    counts.connections.fetch_add(1, Ordering::SeqCst);
                    stream.set_nodelay(true).expect("a socket");
                    let (counts, serve, offer) = (counts.clone(), serve.clone(), offer.clone());
                    tokio::spawn(async move {
                        match offer.tls.clone() {
                            None => connection(stream, offer, counts, serve).await,
                            Some(tls) => {
                                if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                                    connection(stream, offer, counts, serve).await;
                                }
                            }
                        }
                    });
                }
            });
        });
        origin
    }

    pub fn server(&self) -> String {
        self.address.to_string()
    }

    pub fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::SeqCst)
    }

    pub fn streams(&self) -> usize {
        self.counts.streams.load(Ordering::SeqCst)
    }
}

impl Drop for Http2Origin {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = std::net::TcpStream::connect(self.address);
    }
}

/// Counts a stream while it is open.
struct Open(Arc<Counts>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn connection<S, F>(
    stream: S,
    offer: Offer,
    counts: Arc<Counts>,
    serve: Arc<impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> F + Send + Sync + 'static>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let mut builder = h2::server::Builder::new();
    if let Some(max) = offer.streams_max {
        builder.max_concurrent_streams(max);
    }
    if let Some(window) = offer.window {
        builder.initial_window_size(window);
    }
    if offer.tunnels {
        builder.enable_connect_protocol();
    }
    let Ok(mut h2) = builder.handshake::<_, Bytes>(stream).await else { return };
    while let Some(Ok((request, respond))) = h2.accept().await {
        counts.streams.fetch_add(1, Ordering::SeqCst);
        let now = counts.open.fetch_add(1, Ordering::SeqCst) + 1;
        counts.open_max.fetch_max(now, Ordering::SeqCst);
        let open = Open(counts.clone());
        let serving = serve(request, respond);
        tokio::spawn(async move {
            serving.await;
            drop(open);
        });
    }
}

/// All of a body, and its trailers.
pub async fn read(mut body: RecvStream) -> Option<(Vec<u8>, http::HeaderMap)> {
    let mut all = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece.ok()?;
        let _ = body.flow_control().release_capacity(piece.len());
        all.extend_from_slice(&piece);
    }
    Some((all, body.trailers().await.ok()?.unwrap_or_default()))
}

/// A response's head.
pub fn head(status: u16, fields: &[(&str, &str)]) -> http::Response<()> {
    let mut head = http::Response::builder().status(status);
    for (name, value) in fields {
        head = head.header(*name, *value);
    }
    head.body(()).expect("good")
}

/// Frames on a connection, one by one.
pub struct Wire(pub std::net::TcpStream);

/// Types of frames.
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RESET: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;

impl Wire {
    /// After the client's preface; `settings`: of ours, as pairs of id and value.
    pub fn begin(mut stream: std::net::TcpStream, settings: &[(u16, u32)]) -> Option<Self> {
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).ok()?;
        let mut wire = Wire(stream);
        let mut payload = Vec::new();
        for (id, value) in settings {
            payload.extend_from_slice(&id.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        wire.send(SETTINGS, 0, 0, &payload);
        Some(wire)
    }

    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let len = u32::try_from(payload.len()).expect("short").to_be_bytes();
        let mut frame = vec![len[1], len[2], len[3], kind, flags];
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        let _ = self.0.write_all(&frame);
    }

    /// The next frame: kind, flags, stream, payload. Answers settings and pings itself.
    pub fn next(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).ok()?;
            let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let mut payload = vec![0; len];
            self.0.read_exact(&mut payload).ok()?;
            match (head[3], head[4]) {
                (SETTINGS, 0) => self.send(SETTINGS, 1, 0, &[]),
                (PING, 0) => self.send(PING, 1, 0, &payload),
                (kind, flags) => return Some((kind, flags, stream, payload)),
            }
        }
    }

    /// The stream of the next request's head.
    pub fn request(&mut self) -> Option<u32> {
        loop {
            if let (HEADERS, _, stream, _) = self.next()? {
                return Some(stream);
            }
        }
    }

    /// A head of `:status: 200` alone; `ends`: and nothing else.
    pub fn ok(&mut self, stream: u32, ends: bool) {
        self.send(HEADERS, 4 | u8::from(ends), stream, &[0x88]);
    }

    /// GOAWAY: the last stream that was looked at, and why.
    pub fn go_away(&mut self, last: u32, code: u32) {
        self.send(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat());
    }
}
