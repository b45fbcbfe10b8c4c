//! An origin whose only slot can be held, with answers of every kind.

use super::support::answer::Answer;
use super::support::eventually_is;
use super::support::gateway::{Gateway, Policy};
use super::support::origin::{Accepted, Origin, Request};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// An origin whose only slot can be held, and that says how often it was asked.
pub(super) struct House {
    origin: Origin,
    held: Arc<AtomicBool>,
    /// Every answer but that of `/hold` is a failure: 1 is no answer, others are a status.
    pub(super) fails: Arc<AtomicUsize>,
    count: Arc<AtomicUsize>,
}

impl House {
    pub(super) fn new() -> Self {
        let (held, fails, count): (Arc<AtomicBool>, Arc<AtomicUsize>, Arc<AtomicUsize>) =
            Default::default();
        let state = (held.clone(), fails.clone(), count.clone());
        let origin = Origin::start(move |mut connection| {
            let (held, fails, count) = &state;
            while let Some(request) = connection.request() {
                if request.target == "/ready" {
                    connection.ok("ready");
                    continue;
                }
                if request.target == "/hold" {
                    while held.load(Ordering::SeqCst) {
                        thread::sleep(Duration::from_millis(2));
                    }
                    connection.ok("held");
                    continue;
                }
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                match fails.load(Ordering::SeqCst) {
                    0 if !answer(&mut connection, &request, number) => return,
                    0 => {}
                    1 => return,
                    status => connection
                        .send(format!("HTTP/1.1 {status} Bad\r\nContent-Length: 5\r\n\r\nerror")),
                }
            }
        });
        House { origin, held, fails, count }
    }

    /// One slot; `class` are keys of the only class, `rule` of the only rule, for `/c/*`.
    pub(super) fn policy(&self, class: &str, rule: &str) -> Policy {
        Policy {
            origin: "slots = 1\nretry_after = \"200ms\"".into(),
            tables: format!(
                "[limits]\nstored_body_max = \"64KiB\"\n[[class]]\nname = \"all\"\n{class}\n\
                 [[rule]]\npath = \"/c/**\"\n{rule}\n"
            ),
            ..Policy::of(&[self.origin.server()])
        }
    }

    /// Nothing may wait.
    pub(super) fn gateway(&self) -> Gateway {
        Gateway::start(&self.policy("queue = 0", "stored = { max_age = \"5m\" }"))
    }

    /// Asked so often, for anything but `/hold`.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Holds the slot while `act` acts.
    pub(super) fn overloaded<R>(&self, gateway: &Gateway, act: impl FnOnce() -> R) -> R {
        // A server that has failed is left out for a moment.
        eventually_is("the server is up", 200, || get(gateway, "/ready").status);
        self.held.store(true, Ordering::SeqCst);
        let mut client = gateway.client();
        client.send("GET /hold HTTP/1.1\r\nHost: shop.test\r\n\r\n");
        eventually_is("the slot is held", 1, || gateway.number("/limit/running"));
        let result = act();
        self.held.store(false, Ordering::SeqCst);
        assert_eq!(client.answer().status, 200);
        eventually_is("the slot is free", 0, || gateway.number("/limit/running"));
        result
    }
}

/// Answers as the path says; `false`: the connection is over.
fn answer(connection: &mut Accepted, request: &Request, number: usize) -> bool {
    let said = &request.target;
    let body = format!("{number} {said} {}", request.values("accept-language").join("+"));
    let head = |fields: &str, length: usize| {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: x-hop\r\nX-Hop: 1\r\nAge: 7\r\n{fields}Content-Length: {length}\r\n\r\n"
        )
    };
    let plain = |fields: &str| head(fields, body.len()) + &body;
    let chunked = |trailer: &str| {
        let (first, second) = body.split_at(3);
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n{trailer}\r\n",
            second.len()
        )
    };
    let said = said.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    connection.send(match said {
        "public" => plain("Cache-Control: public\r\n"),
        "private" => plain("Cache-Control: private\r\n"),
        "no-store" => plain("Cache-Control: no-store\r\n"),
        "set-cookie" => plain("Set-Cookie: a=b\r\n"),
        "vary" => plain("Vary: Accept-Language\r\n"),
        "vary-all" => plain("Vary: *\r\n"),
        "chunked" => chunked(""),
        "trailers" => chunked("X-Sum: 1\r\n"),
        "long" => head("", 100_000) + &"x".repeat(100_000),
        "big" => head("", 60_000) + &"y".repeat(60_000),
        "empty" => head("", 0),
        "truncated" => {
            connection.send(head("", 1000) + &body);
            return false;
        }
        "close" => {
            connection.send(format!("HTTP/1.1 200 OK\r\n\r\n{body}"));
            return false;
        }
        _ => plain(""),
    });
    true
}

pub(super) fn ask(gateway: &Gateway, method: &str, path: &str, fields: &str) -> Answer {
    let mut client = gateway.client();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: shop.test\r\n{fields}\r\n"));
    client.try_answer(method == "HEAD").unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

pub(super) fn get(gateway: &Gateway, path: &str) -> Answer {
    ask(gateway, "GET", path, "")
}

pub(super) fn stored(gateway: &Gateway, instead: &str) -> u64 {
    gateway.number(&format!("/classes/0/stored/{instead}"))
}

pub(super) fn is_copy(answer: &Answer) -> bool {
    answer.head.to_ascii_lowercase().contains("\r\ncache-status: tiergate")
}
