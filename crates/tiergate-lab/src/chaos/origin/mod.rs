//! A server that fails as it is told: `tiergate-lab chaos-origin`, which only `chaos` starts.
//!
//! A second listener takes commands, one a connection: the name of the way in which it answers everything
//! from now on (`ok`: as each request asks).

mod answer;
mod request;

pub(super) use answer::{MODES, Say};

use super::body;
use anyhow::{Context, Result};
use bytes::Bytes;
use request::{Reader, Request};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// Connections served at once.
const CONNECTIONS_MAX: usize = 4000;
/// How late a slow answer is: less than the gateway's patience.
const SLOW: Duration = Duration::from_millis(1200);
/// How long a stalled answer is silent: more than the gateway's patience.
const STALL: Duration = Duration::from_secs(6);
/// Between the pieces of an answer that trickles.
const TRICKLE: Duration = Duration::from_millis(50);
/// Pieces of an answer that trickles.
const PIECES: usize = 10;

/// Command line of `tiergate-lab chaos-origin`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Settings {
    /// Where the gateway connects
    #[arg(long)]
    listen: SocketAddr,
    /// Where commands are taken
    #[arg(long)]
    control: SocketAddr,
    /// Requests that it works on at once
    #[arg(long)]
    workers: usize,
    /// How long it works on one
    #[arg(long, value_parser = crate::units::parse_duration)]
    service: Duration,
}

struct Server {
    workers: Semaphore,
    service: Duration,
    mode: Mutex<Say>,
}

/// Serves until it is stopped.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    let server = Arc::new(Server {
        workers: Semaphore::new(settings.workers),
        service: settings.service,
        mode: Mutex::new(Say::Ok),
    });
    let control = TcpListener::bind(settings.control).await.context("cannot bind")?;
    let listener = TcpListener::bind(settings.listen).await.context("cannot bind")?;
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Ok((stream, _)) = control.accept() => {
                let _ = server.obey(stream).await;
                continue;
            }
        };
        let Ok((stream, _)) = accepted else {
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        let place = Arc::clone(&places).acquire_owned().await.context("never closed")?;
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            // A connection that ends early is what this is about.
            let _ = server.converse(stream).await;
            drop(place);
        });
    }
}

/// Tells a server how to answer from now on.
pub(super) async fn tell(control: SocketAddr, say: Say) -> Result<()> {
    let mut stream = TcpStream::connect(control).await?;
    stream.write_all(say.name().as_bytes()).await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    anyhow::ensure!(answer == "done", "an origin did not obey");
    Ok(())
}

impl Server {
    async fn obey(&self, mut stream: TcpStream) -> Result<()> {
        let mut command = String::new();
        let mut from = (&mut stream).take(100);
        let read = from.read_to_string(&mut command);
        tokio::time::timeout(Duration::from_secs(1), read).await??;
        *self.mode.lock().expect("no code panics with it") = command.parse()?;
        Ok(stream.write_all(b"done").await?)
    }

    async fn converse(&self, mut stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let (from, to) = stream.split();
        if self.requests(&mut Reader::new(from), to).await? == Say::Reset {
            stream.set_zero_linger()?;
        }
        Ok(())
    }

    /// Answers requests until the connection is to end; returns in which way.
    async fn requests<R, W>(&self, reader: &mut Reader<R>, mut to: W) -> Result<Say>
    where
        R: tokio::io::AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        while let Some(request) = reader.head().await? {
            let mode = *self.mode.lock().expect("no code panics with it");
            let say = if mode == Say::Ok { request.say } else { mode };
            if say == Say::Early
                && let Some(unread) = Reader::<R>::unread(&request)
            {
                to.write_all(&proper(&request, &unread, "Connection: close\r\n")).await?;
                sleep(self.service).await;
                return Ok(say);
            }
            let digest = reader.upload(&request).await?;
            if !self.answer(&request, say, &digest, &mut to).await? {
                return Ok(say);
            }
        }
        Ok(Say::Ok)
    }

    /// Whether the connection can take another request.
    async fn answer<W: AsyncWrite + Unpin>(
        &self,
        request: &Request,
        say: Say,
        digest: &str,
        to: &mut W,
    ) -> Result<bool> {
        let whole = proper(request, digest, "");
        match say {
            Say::Ok if request.health => to.write_all(&whole).await?,
            Say::Ok | Say::Early => {
                self.work().await?;
                to.write_all(&whole).await?;
            }
            Say::Slow => {
                sleep(SLOW).await;
                to.write_all(&whole).await?;
            }
            Say::Trickle => {
                for piece in whole.chunks(whole.len().div_ceil(PIECES)) {
                    to.write_all(piece).await?;
                    sleep(TRICKLE).await;
                }
            }
            Say::Interim => {
                to.write_all(b"HTTP/1.1 102 Processing\r\n\r\n").await?;
                self.work().await?;
                to.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n")
                    .await?;
                to.write_all(&whole).await?;
            }
            Say::Surplus => {
                self.work().await?;
                let surplus = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsurplus";
                to.write_all(&[&whole[..], surplus].concat()).await?;
            }
            Say::Unavailable => to.write_all(&short("503 Service Unavailable")).await?,
            Say::TooMany => to.write_all(&short("429 Too Many Requests")).await?,
            Say::Cut => {
                to.write_all(&whole[..whole.len() - whole.len() / 3]).await?;
                return Ok(false);
            }
            Say::Garbage => {
                to.write_all(&body::pattern(&request.id, 200)).await?;
                return Ok(false);
            }
            Say::Stall => {
                to.write_all(b"HTTP/1.1 200 OK\r\nContent-").await?;
                sleep(STALL).await;
                return Ok(false);
            }
            Say::LongHead => {
                let field = "x".repeat(100 << 10);
                to.write_all(format!("HTTP/1.1 200 OK\r\nX: {field}\r\n\r\n").as_bytes()).await?;
                return Ok(false);
            }
            Say::TwoLengths => {
                let two =
                    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n\
                    3\r\ntwo\r\n0\r\n\r\n";
                to.write_all(two).await?;
                return Ok(false);
            }
            Say::Close | Say::Reset => return Ok(false),
        }
        Ok(true)
    }

    async fn work(&self) -> Result<()> {
        let _worker = self.workers.acquire().await?;
        sleep(self.service).await;
        Ok(())
    }
}

/// The answer that the client expects.
fn proper(request: &Request, digest: &str, fields: &str) -> Bytes {
    let body = body::answer(&request.id, digest, request.bytes);
    let mut head = format!("HTTP/1.1 200 OK\r\nX-Id: {}\r\n{fields}", request.id);
    let mut answer = Vec::with_capacity(head.len() + body.len() + 200);
    if request.chunked {
        head += "Transfer-Encoding: chunked\r\n\r\n";
        answer.extend_from_slice(head.as_bytes());
        for part in body.chunks(1 + body.len() / 3) {
            answer.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
            answer.extend_from_slice(part);
            answer.extend_from_slice(b"\r\n");
        }
        answer.extend_from_slice(b"0\r\n\r\n");
    } else {
        let _ = write!(head, "Content-Length: {}\r\n\r\n", body.len());
        answer.extend_from_slice(head.as_bytes());
        answer.extend_from_slice(&body);
    }
    answer.into()
}

fn short(status: &str) -> Bytes {
    format!("HTTP/1.1 {status}\r\nRetry-After: 1\r\nContent-Length: 5\r\n\r\nlater").into()
}
