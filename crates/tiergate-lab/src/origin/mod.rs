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
use http::{StatusCode, Uri};
use http1::plain;
use settings::ANSWER_BYTES_MAX;
use std::sync::Arc;
use worker::Workers;

/// Serves until SIGTERM or Ctrl-C, then prints one line: what was served, and for whom.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    settings.check()?;
    let workers = Arc::new(Workers::start(&settings));
    let (counts, capacity) = (Arc::clone(&workers.counts), settings.capacity());
    let answer = Arc::new(Answer::new(settings.bytes));
    let respond = move |uri: Uri| {
        let (workers, answer) = (Arc::clone(&workers), Arc::clone(&answer));
        async move {
            let body = match answer.to(uri.path()) {
                Ok(body) => body,
                Err(status) => return plain(status, "/bytes/N: N up to 16777216\n".into()),
            };
            match workers.serve(uri).await {
                Ok(()) => plain(StatusCode::OK, body),
                Err(()) => plain(StatusCode::INTERNAL_SERVER_ERROR, Bytes::new()),
            }
        }
    };
    let Settings { listen, accept_queue, connections_max, .. } = settings;
    let greeting = format!("origin on {listen}, capacity {capacity:.0} requests/s");
    http1::run(listen, accept_queue, connections_max, &greeting, &counts, respond).await
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
