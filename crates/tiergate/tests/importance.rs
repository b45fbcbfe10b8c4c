//! Importance at the built gateway, by `policies/voigt-c.toml` as it comes along: while a crowd
//! overloads the origin, connections that matter least are closed, whoever is important comes to the
//! end, over a connection lost on the way too, and nobody is important by saying so.
//!
//! An origin that answers two requests at once in 20 ms each; a crowd of sessions of two requests, which
//! comes back soon after it was turned away; visitors whose basket is full from the second request on.

mod support;

use bytes::Bytes;
use h2::client::SendRequest;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use support::client::Client;
use support::gateway::{Gateway, Policy};
use support::origin::{Origin, ok};
use support::{PATIENCE, eventually};

/// Clients of the crowd.
const CROWD: usize = 30;
/// How long they stay away when they were turned away.
const AWAY: Duration = Duration::from_millis(100);
/// Requests of a visitor's session.
const REQUESTS: usize = 6;
/// What a visitor thinks between two of them.
const THINK: Duration = Duration::from_millis(60);

fn origin() -> Origin {
    Origin::answering(|_| {
        thread::sleep(Duration::from_millis(20));
        ok("ok")
    })
}

/// A gateway with the policy of the paper; `close`: what becomes of connections; `top`: further keys.
fn gateway(origin: &Origin, close: &str, top: &str) -> Gateway {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies/voigt-c.toml");
    let text = std::fs::read_to_string(path).expect("it comes along");
    let tables = &text[text.find("[timeouts]").expect("what follows the origin")..];
    let asked = "close = \"close\"";
    assert!(tables.contains(asked), "{tables}");
    let tables = tables.replace(asked, &format!("close = \"{close}\""));
    Gateway::start(&Policy {
        servers: vec![origin.server()],
        origin: "slots = 2".into(),
        top: top.into(),
        tables: format!("{tables}\n[refusal]\nreason_header = \"X-Reason\"\n"),
        ..Policy::default()
    })
}

fn fraction(gateway: &Gateway) -> f64 {
    gateway.status()["shedding"]["fraction"].as_f64().expect("the policy sheds")
}

fn until_shedding(gateway: &Gateway) {
    eventually("requests are shed", || fraction(gateway) > 0.3);
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Got {
    Served,
    /// Told that it is shed; the connection is closed.
    Shed,
    /// The same without a word.
    Reset,
    /// Told that it is shed, on a connection that stays.
    Kept,
    Refused,
}

/// Each request says that it is another client's: believed of a trusted peer only.
fn ask(client: &mut Client, cookie: &str) -> Got {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let [_, a, b, c] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let mut head = format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 10.{a}.{b}.{c}\r\n");
    if !cookie.is_empty() {
        head += &format!("Cookie: {cookie}\r\n");
    }
    client.send_anyway((head + "\r\n").as_bytes());
    match client.try_answer(false) {
        Ok(answer) if answer.status == 200 => Got::Served,
        Ok(answer) if answer.field("x-reason") == Some("shed") => {
            assert_eq!(answer.status, 503);
            assert!(answer.field("retry-after").is_some(), "{}", answer.head);
            if !answer.closes() {
                return Got::Kept;
            }
            assert_eq!(client.rest(), b"");
            Got::Shed
        }
        Ok(_) => Got::Refused,
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Got::Reset,
        Err(error) => panic!("neither an answer nor a reset: {error}"),
    }
}

/// What a crowd got.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    served: u64,
    shed: u64,
    reset: u64,
    kept: u64,
    refused: u64,
}

impl Count {
    fn add(&mut self, got: Got) {
        match got {
            Got::Served => self.served += 1,
            Got::Shed => self.shed += 1,
            Got::Reset => self.reset += 1,
            Got::Kept => self.kept += 1,
            Got::Refused => self.refused += 1,
        }
    }

    /// The share of requests whose connection was closed.
    fn share(&self) -> f64 {
        let closed = self.shed + self.reset;
        closed as f64 / (self.served + self.refused + closed).max(1) as f64
    }
}

/// Clients that go on until they are stopped.
struct Crowd {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Count>>,
}

impl Crowd {
    fn start(gateway: &Gateway, clients: usize, cookie: &'static str) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let address = gateway.address;
        let clients = (0..clients).map(|_| {
            let stop = stop.clone();
            thread::spawn(move || sessions_of_two(address, cookie, &stop))
        });
        Crowd { clients: clients.collect(), stop }
    }

    fn stop(self) -> Count {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Count::default();
        for client in self.clients {
            let count = client.join().expect("a client does not panic");
            all.served += count.served;
            all.shed += count.shed;
            all.reset += count.reset;
            all.kept += count.kept;
            all.refused += count.refused;
        }
        all
    }
}

fn sessions_of_two(address: SocketAddr, cookie: &str, stop: &AtomicBool) -> Count {
    let mut count = Count::default();
    while !stop.load(Ordering::SeqCst) {
        let mut client = Client::connect(address);
        for _ in 0..2 {
            let got = ask(&mut client, cookie);
            count.add(got);
            if got != Got::Served {
                thread::sleep(AWAY);
                break;
            }
        }
    }
    count
}

/// A visitor's session from the first request that is answered on: whether all others are, too. The
/// basket is full after the first, and the connection is lost after the third.
fn completes(address: SocketAddr, name: &str) -> bool {
    let session = format!("PHPSESSID={name}");
    let until = Instant::now() + PATIENCE;
    let mut client = loop {
        let mut client = Client::connect(address);
        if ask(&mut client, &session) == Got::Served {
            break client;
        }
        assert!(Instant::now() < until, "{name} never got in");
        thread::sleep(AWAY / 2);
    };
    let cookie = format!("{session}; basket=full");
    for request in 1..REQUESTS {
        thread::sleep(THINK);
        if request == 3 {
            client = Client::connect(address);
        }
        let got = ask(&mut client, &cookie);
        if got != Got::Served {
            eprintln!("{name}: request {request} was not answered: {got:?}");
            return false;
        }
    }
    true
}

#[test]
fn the_important_come_to_the_end_and_back_in_and_others_go() {
    let origin = origin();
    let gateway = gateway(&origin, "close", "");
    let crowd = Crowd::start(&gateway, CROWD, "");
    // Without a session; with one, and a value that the policy does not name.
    let forgers = ["basket=full", "PHPSESSID=known; customer=gold; basket=half"]
        .map(|cookie| Crowd::start(&gateway, 4, cookie));
    until_shedding(&gateway);
    let completed: usize = thread::scope(|scope| {
        let address = gateway.address;
        let visitors = [0, 1, 2].map(|visitor| {
            scope.spawn(move || {
                let sessions = (0..5).map(|turn| format!("visitor-{visitor}-{turn}"));
                sessions.filter(|name| completes(address, name)).count()
            })
        });
        visitors.into_iter().map(|visitor| visitor.join().expect("no panic")).sum()
    });
    assert_eq!(completed, 15, "whoever is important goes last");
    let crowd = crowd.stop();
    let forgers = forgers.map(Crowd::stop);
    println!("crowd {crowd:?}, forgers {forgers:?}");
    assert!(crowd.shed > 30 && crowd.reset + crowd.kept == 0, "{crowd:?}");
    assert!(crowd.served > 0, "as many as the overload asks for and no more: {crowd:?}");
    for forgers in forgers {
        assert!(forgers.share() > 0.4 * crowd.share(), "{forgers:?} beside {crowd:?}");
    }
    let shed = crowd.shed + forgers[0].shed + forgers[1].shed;
    // Those of visitors that had not begun come on top.
    assert!(gateway.number("/classes/0/refused/shed") >= shed);
    gateway.assert_conserved();
    let metrics = Client::connect(gateway.admin).get_local("/metrics").text();
    assert!(metrics.contains("\ntiergate_shed_fraction ") && metrics.contains("_shed_overload "));

    eventually("the overload is over", || fraction(&gateway) == 0.0);
    for _ in 0..10 {
        assert_eq!(ask(&mut gateway.client(), ""), Got::Served);
    }
}

#[test]
fn connections_may_be_reset_instead() {
    let origin = origin();
    let gateway = gateway(&origin, "reset", "");
    let crowd = Crowd::start(&gateway, CROWD, "");
    eventually("many were shed", || gateway.number("/classes/0/refused/shed") > 30);
    let crowd = crowd.stop();
    assert!(crowd.reset > 30 && crowd.shed + crowd.kept == 0, "{crowd:?}");
    gateway.assert_conserved();
}

/// A proxy's connection is many clients': one that is unimportant takes nobody else along, and one
/// that is important lifts nobody else.
#[test]
fn a_trusted_peer_s_connection_is_kept_and_each_request_counts_by_itself() {
    let origin = origin();
    let gateway = gateway(&origin, "close", "trusted = [\"127.0.0.1\"]");
    let mut proxy = gateway.client();
    while ask(&mut proxy, "PHPSESSID=known") != Got::Served {}
    let crowd = Crowd::start(&gateway, CROWD, "");
    until_shedding(&gateway);
    let until = Instant::now() + PATIENCE;
    let mut shed = 0;
    while shed < 5 {
        assert!(Instant::now() < until, "unimportant requests pass behind important ones");
        assert_eq!(ask(&mut proxy, "PHPSESSID=known; basket=full"), Got::Served);
        shed += usize::from(ask(&mut proxy, "") == Got::Kept);
    }
    let crowd = crowd.stop();
    assert!(crowd.kept > 0 && crowd.shed + crowd.reset == 0, "{crowd:?}");
}

/// A connection over HTTP/2, and how it will end.
async fn connect(
    address: SocketAddr,
) -> (SendRequest<Bytes>, tokio::task::JoinHandle<Result<(), h2::Error>>) {
    let stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
    let (client, connection) = h2::client::handshake(stream).await.expect("a preface");
    (client, tokio::spawn(connection))
}

/// The status and the reason of an answer.
async fn fetch(
    client: &SendRequest<Bytes>,
    cookie: &str,
) -> Result<(u16, Option<String>), h2::Error> {
    let mut request = http::Request::get("http://a.test/");
    if !cookie.is_empty() {
        request = request.header("cookie", cookie);
    }
    let mut ready = client.clone().ready().await?;
    let (answer, _) = ready.send_request(request.body(()).expect("a request"), true)?;
    let (parts, mut body) = answer.await?.into_parts();
    while let Some(data) = body.data().await {
        body.flow_control().release_capacity(data?.len())?;
    }
    let reason = parts.headers.get("x-reason").map(|reason| reason.to_str().expect("a name"));
    Ok((parts.status.as_u16(), reason.map(str::to_owned)))
}

/// Asks over connections of its own until one is closed for it; what the request was told.
async fn until_closed(address: SocketAddr) -> Result<(u16, Option<String>), h2::Error> {
    let until = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < until, "no request was shed");
        let (client, connection) = connect(address).await;
        let told = fetch(&client, "").await;
        if matches!(told, Ok((200, _))) {
            continue;
        }
        // GOAWAY without an error: the client knows which of its requests were not looked at.
        let ended = tokio::time::timeout(PATIENCE, connection).await.expect("it ends");
        ended.expect("no panic").expect("in good order");
        return told;
    }
}

#[tokio::test]
async fn over_http2_the_connection_of_a_stream_that_is_shed_goes_away() {
    let origin = origin();
    let gateway = gateway(&origin, "close", "");
    let crowd = Crowd::start(&gateway, CROWD, "");
    until_shedding(&gateway);
    let address = gateway.address;
    let told = until_closed(address).await.expect("an answer");
    assert_eq!(told, (503, Some("shed".to_owned())));

    let until = Instant::now() + PATIENCE;
    let (client, _connection) = loop {
        let (client, connection) = connect(address).await;
        if matches!(fetch(&client, "PHPSESSID=visitor").await, Ok((200, _))) {
            break (client, connection);
        }
        assert!(Instant::now() < until, "the visitor never got in");
        tokio::time::sleep(AWAY / 2).await;
    };
    let cookie = "PHPSESSID=visitor; basket=full";
    for _ in 1..REQUESTS {
        tokio::time::sleep(THINK).await;
        assert_eq!(fetch(&client, cookie).await.expect("an answer"), (200, None));
    }
    // The connection timed out, as it were.
    let (again, _connection) = connect(address).await;
    assert_eq!(fetch(&again, cookie).await.expect("an answer"), (200, None));
    // What follows on it is important without saying so: the connection is.
    assert_eq!(fetch(&again, "").await.expect("an answer"), (200, None));
    assert!(crowd.stop().shed > 0);
}

#[tokio::test]
async fn over_http2_a_stream_may_be_reset_instead() {
    let origin = origin();
    let gateway = gateway(&origin, "reset", "");
    let crowd = Crowd::start(&gateway, CROWD, "");
    until_shedding(&gateway);
    let error = until_closed(gateway.address).await.expect_err("a reset");
    assert_eq!(error.reason(), Some(h2::Reason::REFUSED_STREAM));
    assert!(crowd.stop().reset > 0);
}
