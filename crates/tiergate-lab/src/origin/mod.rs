//! An HTTP server of known capacity: `workers / service` requests a second.
//!
//! Requests of all connections wait in one queue, first come first served, for one of the workers.
//! A worker serves what it has taken even if the client has left: that is what PHP-FPM, mod_wsgi
//! and most application servers do, and it is why an overloaded server does work that nobody
//! waits for. Such work is counted apart and told at the end.

pub(crate) mod app;
mod counts;
mod http1;
mod service;
mod settings;
mod timeline;
mod work;
mod worker;

pub(crate) use service::Spread;
pub(crate) use settings::{Kind, Settings};

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use http1::plain;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use settings::ANSWER_BYTES_MAX;
use std::sync::Arc;
use worker::Workers;

/// Serves until SIGTERM or Ctrl-C, then prints one line: what was served, and for whom.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    let mut interruption = crate::Interruption::catch()?;
    settings.check()?;
    let listener = http1::listen(settings.listen, settings.accept_queue)?;
    let workers = Arc::new(Workers::start(&settings));
    println!("origin on {}, capacity {:.0} requests/s", settings.listen, settings.capacity());
    let counts = Arc::clone(&workers.counts);
    let answer = Arc::new(Answer::new(settings.bytes));
    let respond = move |request| {
        let (workers, answer) = (Arc::clone(&workers), Arc::clone(&answer));
        async move { respond(request, &workers, &answer).await }
    };
    tokio::select! {
        () = http1::serve(listener, settings.connections_max, respond) => {}
        () = interruption.happens() => {}
    }
    println!("{}", counts.line());
    Ok(())
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
    let (head, mut upload) = request.into_parts();
    // An upload is read to its end, as an application would.
    while let Some(frame) = upload.frame().await {
        if frame.is_err() {
            return plain(StatusCode::BAD_REQUEST, Bytes::new());
        }
    }
    if workers.serve(head.uri).await.is_err() {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, Bytes::new());
    }
    plain(StatusCode::OK, body)
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
