//! Clients that never stop asking while something else goes on, and count every answer.

use super::client::Client;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// What one client, or all, have seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Answers by status.
    pub answers: BTreeMap<u16, u64>,
    /// Requests that were sent and got no answer or half of one, with why.
    pub lost: Vec<String>,
    /// Kept connections that were found closed before a request got anywhere, without a word.
    pub closed_idle: u64,
    /// Connections that could not be made.
    pub unconnected: Vec<String>,
    /// Connections made.
    pub connections: u64,
    /// Answers that did not belong to the request.
    pub wrong: Vec<String>,
}

impl Seen {
    pub fn total(&self) -> u64 {
        self.answers.values().sum()
    }

    fn add(&mut self, other: Seen) {
        for (status, count) in other.answers {
            *self.answers.entry(status).or_default() += count;
        }
        self.lost.extend(other.lost);
        self.unconnected.extend(other.unconnected);
        self.wrong.extend(other.wrong);
        self.closed_idle += other.closed_idle;
        self.connections += other.connections;
    }

    /// Asserts that every request was answered, rightly, by one of these statuses.
    pub fn assert_all(&self, allowed: &[u16]) {
        let only = self.answers.keys().all(|status| allowed.contains(status));
        let whole = self.lost.is_empty() && self.unconnected.is_empty() && self.wrong.is_empty();
        assert!(only && whole && self.total() > 0, "{self:#?}");
    }
}

/// Clients at work.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Seen>>,
}

/// How a client treats its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Keeps it until it is told otherwise.
    Keep,
    /// A new one for each request.
    Fresh,
}

/// Most complaints that a client collects: the first few tell everything.
const COMPLAINTS_MAX: usize = 20;

impl Load {
    /// Starts `count` clients against an origin that echoes method and target.
    pub fn start(address: SocketAddr, count: usize, habit: Habit) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let clients = (0..count).map(|number| {
            let stop = stop.clone();
            thread::spawn(move || ask(address, number, habit, &stop))
        });
        Load { clients: clients.collect(), stop }
    }

    pub fn stop(self) -> Seen {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Seen::default();
        for client in self.clients {
            all.add(client.join().expect("a client does not panic"));
        }
        all
    }
}

fn ask(address: SocketAddr, client: usize, habit: Habit, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut connection: Option<Client> = None;
    let mut turn = 0_u64;
    while !stop.load(Ordering::SeqCst) {
        if seen.lost.len() + seen.wrong.len() + seen.unconnected.len() > COMPLAINTS_MAX {
            break;
        }
        let reused = connection.is_some();
        let mut link = match connection.take().map_or_else(|| Client::try_connect(address), Ok) {
            Ok(link) => link,
            Err(error) => {
                seen.unconnected.push(error.to_string());
                continue;
            }
        };
        seen.connections += u64::from(!reused);
        turn += 1;
        let target = format!("/class-{}/{client}/{turn}", turn % 4);
        let close = if habit == Habit::Fresh { "Connection: close\r\n" } else { "" };
        let request = format!("GET {target} HTTP/1.1\r\nHost: example.test\r\n{close}\r\n");
        link.send_anyway(request.as_bytes());
        match link.try_answer(false) {
            Ok(answer) => {
                *seen.answers.entry(answer.status).or_default() += 1;
                if answer.status == 200 && answer.text() != format!("GET {target}") {
                    seen.wrong.push(format!("{target} got {}", answer.text()));
                }
                if !answer.closes() {
                    connection = Some(link);
                }
            }
            // RFC 9112 §9.3.1: closed between two requests; a client just sends it again.
            Err(_) if reused && link.buffer.is_empty() => seen.closed_idle += 1,
            Err(error) => {
                let got = String::from_utf8_lossy(&link.buffer).into_owned();
                seen.lost.push(format!("{target} turn {turn}: {error}, after {got:?}"));
            }
        }
    }
    seen
}
