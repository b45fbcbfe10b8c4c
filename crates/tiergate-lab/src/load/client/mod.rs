//! A client of one population: an HTTP/1.1 exchange on a connection, whose speed in both directions
//! can be bounded, which full clients do not offer.

mod answer;
mod connection;
mod jar;
mod pace;
mod pool;

pub(super) use connection::Connection;
pub(super) use jar::Jar;
pub(super) use pool::Pool;

use super::population::{Population, Upload};
use answer::{Answer, Broken, Take};
use pace::Pace;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::TcpSocket;

/// Body bytes are taken from here.
static BODY: [u8; 16 << 10] = [b'x'; 16 << 10];
/// Bounds of the receive buffer of a client that reads slowly, in bytes. The system's own would
/// take megabytes from the server at once.
const RECEIVE_BUFFER: (u64, u64) = (4 << 10, 64 << 10);

/// Asks as the clients of one population do.
pub(super) struct Client {
    target: SocketAddr,
    pub(super) population: Population,
    /// Heads of the requests, by path.
    heads: Vec<Box<[u8]>>,
    to_head: bool,
    /// Connections opened, to take the addresses in turn.
    opened: AtomicUsize,
    /// Is told how many bytes of answers come, when they come.
    received: Received,
}

/// Who is told of bytes of answers that have come, heads included.
type Received = Box<dyn Fn(usize) + Send + Sync>;

impl Client {
    pub(super) fn new(target: SocketAddr, population: Population, received: Received) -> Self {
        let tail = tail(target, &population);
        let method = match population.method.as_str() {
            "GET" if population.upload.is_some() => "POST",
            method => method,
        };
        let head = |path: &String| format!("{method} {path} {tail}").into_bytes().into();
        Self {
            target,
            heads: population.paths.iter().map(head).collect(),
            to_head: method == "HEAD",
            opened: AtomicUsize::new(0),
            received,
            population,
        }
    }

    /// Asks for a path (by rank) with the cookies of the jar and reads the whole answer, on an idle
    /// connection or a new one; returns the connection too if it can be used again. An idle one that
    /// the server has closed is replaced once, as browsers do. Cancel safe: dropped, the connection
    /// is closed.
    pub(super) async fn exchange(
        &self,
        idle: Option<Connection>,
        path: usize,
        jar: &mut Jar,
    ) -> Result<(Answer, Option<Connection>), ()> {
        if let Some(connection) = idle.filter(Connection::is_idle) {
            match self.exchange_on(connection, path, jar).await {
                Err(Broken { early: true }) => {}
                ended => return ended.map_err(|_| ()),
            }
        }
        let connection = self.connect().await.map_err(|_| ())?;
        self.exchange_on(connection, path, jar).await.map_err(|_| ())
    }

    async fn connect(&self) -> std::io::Result<Connection> {
        let v4 = self.target.is_ipv4();
        let socket = if v4 { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Every close is a reset. After an orderly one the port would be taken for a minute
        // (TIME_WAIT), and thousands of clients a second would soon have none left.
        socket.set_zero_linger()?;
        socket.set_nodelay(true)?;
        if let Some(rate) = self.population.read_bytes_per_second {
            // Before connecting, since it bounds the window that is offered.
            let bytes = (rate / 4).clamp(RECEIVE_BUFFER.0, RECEIVE_BUFFER.1);
            socket.set_recv_buffer_size(bytes as u32)?;
        }
        let addresses = &self.population.addresses;
        if !addresses.is_empty() {
            let turn = self.opened.fetch_add(1, Ordering::Relaxed) % addresses.len();
            socket.bind(SocketAddr::new(addresses[turn], 0))?;
        }
        Ok(Connection(socket.connect(self.target).await?))
    }

    async fn exchange_on(
        &self,
        mut connection: Connection,
        path: usize,
        jar: &mut Jar,
    ) -> Result<(Answer, Option<Connection>), Broken> {
        let head = with_cookies(&self.heads[path], jar);
        let take = Take {
            pace: Pace::new(self.population.read_bytes_per_second),
            received: &self.received,
        };
        let stream = &mut connection.0;
        let answer = match self.population.upload {
            None => {
                stream.write_all(&head).await.map_err(|_| Broken { early: true })?;
                answer::read(stream, take, self.to_head, jar).await?
            }
            Some(upload) => {
                let (from, to) = stream.split();
                let mut answer = std::pin::pin!(answer::read(from, take, self.to_head, jar));
                tokio::select! {
                    biased;
                    // Answered before everything was sent: the rest is not sent any more.
                    early = &mut answer => Answer { kept: false, ..early? },
                    // What could not be sent may have been answered all the same.
                    _ = send(to, &head, upload) => answer.await?,
                }
            }
        };
        let kept = (answer.kept && self.population.keep_alive).then_some(connection);
        Ok((answer, kept))
    }
}

/// A request's head, with the cookies of the jar before its end.
fn with_cookies<'h>(head: &'h [u8], jar: &Jar) -> Cow<'h, [u8]> {
    if jar.line().is_empty() {
        return Cow::Borrowed(head);
    }
    let (fields, end) = head.split_at(head.len() - 2);
    Cow::Owned([fields, jar.line(), end].concat())
}

/// Sends a request and its body at its speed.
async fn send<W: AsyncWrite + Unpin>(
    mut to: W,
    head: &[u8],
    upload: Upload,
) -> std::io::Result<()> {
    to.write_all(head).await?;
    let mut pace = Pace::new(Some(upload.bytes_per_second));
    let mut left = upload.bytes;
    while left > 0 {
        let slice = pace.slice().await.min(BODY.len());
        let slice = slice.min(usize::try_from(left).unwrap_or(usize::MAX));
        to.write_all(&BODY[..slice]).await?;
        pace.moved(slice);
        left -= slice as u64;
    }
    Ok(())
}

/// A request's head after its path.
fn tail(target: SocketAddr, population: &Population) -> String {
    let mut tail = "HTTP/1.1\r\n".to_owned();
    if !population.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        tail += &format!("Host: {target}\r\n");
    }
    for (name, value) in &population.headers {
        tail += &format!("{name}: {value}\r\n");
    }
    if let Some(upload) = population.upload {
        tail += &format!("Content-Length: {}\r\n", upload.bytes);
    }
    if !population.keep_alive {
        tail += "Connection: close\r\n";
    }
    tail + "\r\n"
}
