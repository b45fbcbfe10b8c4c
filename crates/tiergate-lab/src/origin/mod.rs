//! An HTTP server of known capacity: `workers / service` requests a second.
//!
//! Requests of all connections wait in one queue, first come first served, for one of the workers.
//! A worker serves what it has taken even if the client has left: that is what PHP-FPM, mod_wsgi
//! and most application servers do, and it is why an overloaded server does work that nobody
//! waits for. Such work is counted apart and told at the end.

mod worker;

pub(crate) use worker::{Kind, Spread};

use crate::units::parse_duration;
use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use worker::Workers;

/// Largest answer that `/bytes/N` gives.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// A client that does not send a whole head in this time is cut off.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);

/// What kind of server it is.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Settings {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:8081")]
    pub(crate) listen: SocketAddr,
    /// Requests served at once
    #[arg(long, default_value_t = 16)]
    pub(crate) workers: usize,
    /// Mean time that a worker spends on a request; 0 answers at once, without a queue
    #[arg(long, default_value = "40ms", value_parser = parse_duration)]
    pub(crate) service: Duration,
    /// How that time varies
    #[arg(long, value_enum, default_value_t = Spread::Constant)]
    pub(crate) dist: Spread,
    /// Whether a worker waits (io) or computes (cpu)
    #[arg(long, value_enum, default_value_t = Kind::Io)]
    pub(crate) kind: Kind,
    /// Requests that may wait for a worker, whose clients may have left; further ones are not read.
    /// The kernel's listen queue is as long. 511 is the default of Apache, nginx, PHP-FPM and Node
    #[arg(long, default_value_t = 511)]
    pub(crate) accept_queue: u32,
    /// Connections open at once; further ones wait in the listen queue
    #[arg(long, default_value_t = 4096)]
    pub(crate) connections_max: usize,
    /// Bytes of an answer; the path /bytes/N asks for another size
    #[arg(long, default_value_t = 1024)]
    pub(crate) bytes: usize,
    /// Seed of the service times
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Settings {
    /// Requests a second that it can serve; infinite when it answers at once.
    pub(crate) fn capacity(&self) -> f64 {
        self.workers as f64 / self.service.as_secs_f64()
    }
}

/// Serves until SIGTERM or Ctrl-C, then prints one line: what was served, and for whom.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    let mut interruption = crate::Interruption::catch()?;
    anyhow::ensure!(settings.workers > 0, "--workers must be at least 1");
    anyhow::ensure!(settings.bytes <= ANSWER_BYTES_MAX, "--bytes must be at most 16 MiB");
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(settings.listen).with_context(|| format!("cannot bind {}", settings.listen))?;
    let listener = socket.listen(settings.accept_queue)?;
    let workers = Arc::new(Workers::start(&settings));
    println!("origin on {}, capacity {:.0} requests/s", settings.listen, settings.capacity());
    tokio::select! {
        () = accept(listener, &settings, Arc::clone(&workers)) => {}
        () = interruption.happens() => {}
    }
    let served = workers.counts.served.load(Ordering::Relaxed);
    let wasted = workers.counts.wasted.load(Ordering::Relaxed);
    println!("{}", serde_json::json!({ "served": served, "wasted": wasted }));
    Ok(())
}

async fn accept(listener: TcpListener, settings: &Settings, workers: Arc<Workers>) {
    let places = Arc::new(Semaphore::new(settings.connections_max));
    let answer = Arc::new(Answer::new(settings.bytes));
    loop {
        let place = Arc::clone(&places).acquire_owned().await.expect("never closed");
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                // Out of descriptors: wait for some connection to end instead of spinning.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        let (workers, answer) = (Arc::clone(&workers), Arc::clone(&answer));
        tokio::spawn(async move {
            serve(stream, workers, answer).await;
            drop(place);
        });
    }
}

async fn serve(stream: TcpStream, workers: Arc<Workers>, answer: Arc<Answer>) {
    // Without it, an answer of several segments waits for the client's delayed acknowledgement.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let (workers, answer) = (Arc::clone(&workers), Arc::clone(&answer));
        async move { Ok::<_, Infallible>(respond(request, &workers, &answer).await) }
    });
    // A client that goes away ends its connection with an error, which is no news here.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn respond(
    request: Request<Incoming>,
    workers: &Workers,
    answer: &Answer,
) -> Response<Full<Bytes>> {
    let body = match answer.to(request.uri().path()) {
        Ok(body) => body,
        Err(status) => return plain(status, Bytes::from_static(b"/bytes/N: N up to 16777216\n")),
    };
    // An upload is read to its end, as an application would.
    let mut upload = request.into_body();
    while let Some(frame) = upload.frame().await {
        if frame.is_err() {
            return plain(StatusCode::BAD_REQUEST, Bytes::new());
        }
    }
    if workers.serve().await.is_err() {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, Bytes::new());
    }
    plain(StatusCode::OK, body)
}

fn plain(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain"));
    response
}

/// The bodies, made once and shared by reference.
struct Answer {
    all: Bytes,
    usual: usize,
}

impl Answer {
    fn new(usual: usize) -> Self {
        Self { all: Bytes::from(vec![b'x'; usual.max(64 << 10)]), usual }
    }

    fn to(&self, path: &str) -> Result<Bytes, StatusCode> {
        let Some(number) = path.strip_prefix("/bytes/") else {
            return Ok(self.all.slice(..self.usual));
        };
        let len: usize = number.parse().map_err(|_| StatusCode::NOT_FOUND)?;
        match len {
            len if len <= self.all.len() => Ok(self.all.slice(..len)),
            len if len <= ANSWER_BYTES_MAX => Ok(Bytes::from(vec![b'x'; len])),
            _ => Err(StatusCode::NOT_FOUND),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_as_long_as_asked_and_bounded() {
        let answer = Answer::new(1000);
        assert_eq!(answer.to("/x").unwrap().len(), 1000);
        assert_eq!(answer.to("/bytes/65537").unwrap().len(), 65537);
        assert_eq!(answer.to("/bytes/0").unwrap().len(), 0);
        assert!(answer.to("/bytes/16777217").is_err());
        assert!(answer.to("/bytes/-1").is_err());
    }
}
