//! One request of a well-behaved client, and whether its answer is the right one.

use super::body;
use super::origin::Say;
use super::secure;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// How long a client waits. A person would not; but here a late answer is not a lost one.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer read.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// What a client asks.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    /// First segment of the path.
    pub(super) class: &'static str,
    pub(super) id: String,
    /// Length of the answer's pattern.
    pub(super) bytes: usize,
    /// Length of the request's body; 0: a GET.
    pub(super) upload: usize,
    pub(super) say: Say,
    /// Whether the origin answers in chunks.
    pub(super) chunked: bool,
}

/// What became of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Outcome {
    /// The whole answer, and the right one.
    Answered,
    /// Another status than 200.
    Status(u16),
    /// No answer, or a part of one.
    Broken(String),
    /// Nothing in time.
    Late,
    /// A whole answer with the wrong content.
    Mixed(String),
}

/// Where clients connect and how.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) address: SocketAddr,
    pub(super) http2: bool,
    pub(super) tls: Option<TlsConnector>,
}

/// A client with at most one connection.
pub(super) struct Client {
    way: Way,
    from: IpAddr,
    kept: Option<Sender>,
}

/// A connection that ended before an answer came.
struct Lost {
    /// Whether nothing of the request was sent.
    unsent: bool,
    why: String,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    pub(super) fn new(way: Way, from: IpAddr) -> Self {
        Self { way, from, kept: None }
    }

    /// Asks, on the connection kept or a new one. As browsers do, a request that was not sent because the
    /// kept connection was closed, and a GET that got no answer there, is sent again on a new one, once.
    pub(super) async fn ask(&mut self, ask: &Ask) -> Outcome {
        let Ok(outcome) = timeout(PATIENCE, self.ask_patiently(ask)).await else {
            self.kept = None;
            return Outcome::Late;
        };
        outcome
    }

    async fn ask_patiently(&mut self, ask: &Ask) -> Outcome {
        if let Some(mut kept) = self.kept.take()
            && kept.is_ready().await
        {
            match self.ask_on(kept, ask).await {
                Err(lost) if lost.unsent || ask.upload == 0 => {}
                ended => return ended.unwrap_or_else(|lost| Outcome::Broken(lost.why)),
            }
        }
        let fresh = match self.connect().await {
            Ok(fresh) => fresh,
            Err(error) => return Outcome::Broken(format!("cannot connect: {error:#}")),
        };
        self.ask_on(fresh, ask).await.unwrap_or_else(|lost| Outcome::Broken(lost.why))
    }

    async fn ask_on(&mut self, mut sender: Sender, ask: &Ask) -> Result<Outcome, Lost> {
        let response = sender.send(self.way.address, ask).await;
        let response =
            response.map_err(|error| Lost { unsent: error.is_canceled(), why: words(&error) })?;
        let (head, body) = response.into_parts();
        let body = match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return Ok(Outcome::Broken(format!("in the body: {error}"))),
        };
        self.kept = Some(sender);
        Ok(judge(ask, head.status, &body))
    }

    async fn connect(&self) -> anyhow::Result<Sender> {
        let stream = connect(self.way.address, self.from).await?;
        match &self.way.tls {
            None => self.begin(stream).await,
            Some(tls) => self.begin(tls.connect(secure::name(), stream).await?).await,
        }
    }

    async fn begin<S>(&self, stream: S) -> anyhow::Result<Sender>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = TokioIo::new(stream);
        if self.way.http2 {
            let (sender, driver) = http2::handshake(TokioExecutor::new(), stream).await?;
            tokio::spawn(driver);
            return Ok(Sender::Http2(sender));
        }
        let (sender, driver) = http1::handshake(stream).await?;
        tokio::spawn(driver);
        Ok(Sender::Http1(sender))
    }
}

impl Sender {
    /// Whether the connection is still open.
    async fn is_ready(&mut self) -> bool {
        match self {
            Sender::Http1(sender) => sender.ready().await.is_ok(),
            Sender::Http2(sender) => sender.ready().await.is_ok(),
        }
    }

    async fn send(&mut self, to: SocketAddr, ask: &Ask) -> hyper::Result<Response<Incoming>> {
        match self {
            Sender::Http1(sender) => sender.send_request(ask.request(to, false)).await,
            Sender::Http2(sender) => sender.send_request(ask.request(to, true)).await,
        }
    }
}

impl Ask {
    /// The target as the access log has it.
    pub(super) fn path(&self) -> String {
        format!("/{}/{}", self.class, self.id)
    }

    /// The target with its query.
    pub(super) fn target(&self) -> String {
        let chunked = if self.chunked { "&chunked=1" } else { "" };
        format!("{}?bytes={}&say={}{chunked}", self.path(), self.bytes, self.say.name())
    }

    fn request(&self, to: SocketAddr, absolute: bool) -> Request<Full<Bytes>> {
        let origin = if absolute { format!("http://{to}") } else { String::new() };
        let upload = if self.upload > 0 { body::pattern(&self.id, self.upload) } else { vec![] };
        let method = if self.upload > 0 { "POST" } else { "GET" };
        let request = Request::builder().method(method).uri(format!("{origin}{}", self.target()));
        let request = if absolute { request } else { request.header("host", to.to_string()) };
        request.body(Full::new(upload.into())).expect("made of what is valid")
    }
}

/// Whether it is the answer to this request and no other.
fn judge(ask: &Ask, status: StatusCode, body: &[u8]) -> Outcome {
    if status != StatusCode::OK {
        return Outcome::Status(status.as_u16());
    }
    if !ask.say.is_proper() {
        // A status of 200 with a body that ends too soon would be an error of the connection.
        return Outcome::Mixed(format!(
            "200 to a request that has no proper answer: {}",
            ask.path()
        ));
    }
    let upload = if ask.upload > 0 { body::pattern(&ask.id, ask.upload) } else { vec![] };
    let digest = body::digest(&upload);
    let digest = if ask.say == Say::Early && ask.upload > 0 { body::UNREAD } else { &digest };
    if body == body::answer(&ask.id, digest, ask.bytes) {
        return Outcome::Answered;
    }
    let got = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
    Outcome::Mixed(format!("{} got {} bytes that begin with {got:?}", ask.path(), body.len()))
}

/// A connection from that address. Closed, it is reset, so that ports do not run out.
pub(super) async fn connect(to: SocketAddr, from: IpAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_zero_linger()?;
    socket.set_nodelay(true)?;
    socket.bind(SocketAddr::new(from, 0))?;
    socket.connect(to).await
}

fn words(error: &hyper::Error) -> String {
    use std::error::Error;
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(id: &str, upload: usize) -> Ask {
        Ask { class: "premium", id: id.into(), bytes: 50, upload, say: Say::Ok, chunked: false }
    }

    fn answer(id: &str, upload: usize) -> Vec<u8> {
        let upload = if upload > 0 { body::pattern(id, upload) } else { vec![] };
        body::answer(id, &body::digest(&upload), 50)
    }

    #[test]
    fn only_the_own_answer_is_right() {
        let status = StatusCode::OK;
        assert_eq!(judge(&ask("a", 0), status, &answer("a", 0)), Outcome::Answered);
        assert_eq!(judge(&ask("a", 9), status, &answer("a", 9)), Outcome::Answered);
        for wrong in [answer("b", 0), answer("a", 9), answer("a", 0)[1..].to_vec(), vec![]] {
            assert!(matches!(judge(&ask("a", 0), status, &wrong), Outcome::Mixed(_)));
        }
        assert_eq!(judge(&ask("a", 0), StatusCode::BAD_GATEWAY, b""), Outcome::Status(502));
    }

    #[test]
    fn a_proper_answer_to_a_request_that_has_none_is_a_mix_up() {
        let cut = Ask { say: Say::Cut, ..ask("a", 0) };
        assert!(matches!(judge(&cut, StatusCode::OK, &answer("a", 0)), Outcome::Mixed(_)));
    }
}
