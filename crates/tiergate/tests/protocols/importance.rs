//! Importance at the built gateway, by `policies/voigt-c.toml` as it comes along: while a crowd
//! overloads the origin, connections that matter least are closed, important clients come to the end, over
//! a connection lost on the way too, and no client is important by saying so.
//!
//! An origin that answers two requests at once in 20 ms each; a crowd of sessions of two requests, which
//! comes back soon after it was turned away; visitors whose basket is full from the second request on.

use crate::side::{Client, Side};
use crate::support::PATIENCE;
use crate::support::client;
use crate::support::gateway::{Gateway, Policy};
use crate::support::origin::{Origin, ok};
use crate::world::eventually;
use http::Request;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

over_both! {
    the_important_come_to_the_end_and_back_in_and_others_go
    connections_may_be_reset_instead
    a_trusted_peers_connection_is_kept_and_each_request_counts_by_itself
}

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

async fn until_shedding(gateway: &Gateway) {
    eventually("requests are shed", || fraction(gateway) > 0.3).await;
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Got {
    Served,
    /// Told that it is shed.
    Shed,
    /// The same without a word: over HTTP/1.1 the connection is reset, over HTTP/2 the stream.
    Reset,
    Refused,
}

/// Each request says that it is another client's: believed of a trusted peer only.
async fn ask(client: &mut Client, cookie: &str) -> Got {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let [_, a, b, c] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let mut request =
        Request::get("http://a.test/").header("x-forwarded-for", format!("10.{a}.{b}.{c}"));
    if !cookie.is_empty() {
        request = request.header("cookie", cookie);
    }
    match client.fetch(request.body(()).unwrap()).await {
        Ok(answer) if answer.status == 200 => Got::Served,
        Ok(answer) if answer.fields.get("x-reason").is_some_and(|reason| reason == "shed") => {
            assert_eq!(answer.status, 503);
            assert!(answer.fields.contains_key("retry-after"), "{answer:?}");
            Got::Shed
        }
        Ok(_) => Got::Refused,
        Err(error) if is_reset(&error) => Got::Reset,
        Err(error) => panic!("neither an answer nor a reset: {error:?}"),
    }
}

fn is_reset(error: &(dyn Error + 'static)) -> bool {
    let io = error.downcast_ref::<io::Error>();
    let h2 = error.downcast_ref::<h2::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
        || h2.is_some_and(|error| error.reason() == Some(h2::Reason::REFUSED_STREAM))
        || error.source().is_some_and(is_reset)
}

/// What a crowd got.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    served: u64,
    shed: u64,
    reset: u64,
    refused: u64,
}

impl Count {
    fn add(&mut self, got: Got) {
        match got {
            Got::Served => self.served += 1,
            Got::Shed => self.shed += 1,
            Got::Reset => self.reset += 1,
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
    /// `keeps`: the connection of a request that is shed stays.
    fn start(
        side: Side,
        address: SocketAddr,
        count: usize,
        cookie: &'static str,
        keeps: bool,
    ) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let clients = (0..count).map(|_| {
            let stop = stop.clone();
            tokio::spawn(async move {
                let mut count = Count::default();
                while !stop.load(Ordering::SeqCst) {
                    sessions_of_two(side, address, cookie, keeps, &mut count).await;
                }
                count
            })
        });
        Crowd { clients: clients.collect(), stop }
    }

    async fn stop(self) -> Count {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Count::default();
        for client in self.clients {
            let count = client.await.expect("a client does not panic");
            all.served += count.served;
            all.shed += count.shed;
            all.reset += count.reset;
            all.refused += count.refused;
        }
        all
    }
}

async fn sessions_of_two(
    side: Side,
    address: SocketAddr,
    cookie: &str,
    keeps: bool,
    count: &mut Count,
) {
    let mut client = Client::at(address, side).await;
    for _ in 0..2 {
        let got = ask(&mut client, cookie).await;
        count.add(got);
        if got == Got::Shed && !keeps {
            client.ended().await.expect("in good order");
        }
        if got != Got::Served {
            return sleep(AWAY).await;
        }
    }
}

/// A connection on which the first request is answered.
async fn admitted(side: Side, address: SocketAddr, cookie: &str) -> Client {
    let until = Instant::now() + PATIENCE;
    loop {
        let mut client = Client::at(address, side).await;
        if ask(&mut client, cookie).await == Got::Served {
            return client;
        }
        assert!(Instant::now() < until, "{cookie} never got in");
        sleep(AWAY / 2).await;
    }
}

/// A visitor's session from the first request that is answered on: whether all others are, too. The
/// basket is full after the first, and the connection is lost after the third.
async fn completes(side: Side, address: SocketAddr, name: String) -> bool {
    let session = format!("PHPSESSID={name}");
    let mut client = admitted(side, address, &session).await;
    let cookie = format!("{session}; basket=full");
    for request in 1..REQUESTS {
        sleep(THINK).await;
        if request == 3 {
            client = Client::at(address, side).await;
        }
        // What follows on it is important without saying so: the connection is.
        let cookie = if request == 4 { "" } else { &cookie };
        let got = ask(&mut client, cookie).await;
        if got != Got::Served {
            eprintln!("{name}: request {request} was not answered: {got:?}");
            return false;
        }
    }
    true
}

async fn the_important_come_to_the_end_and_back_in_and_others_go(side: Side) {
    let origin = origin();
    let gateway = gateway(&origin, "close", "");
    let address = gateway.address;
    let crowd = Crowd::start(side, address, CROWD, "", false);
    // Without a session; with one, and a value that the policy does not name.
    let forgers = ["basket=full", "PHPSESSID=known; customer=gold; basket=half"]
        .map(|cookie| Crowd::start(side, address, 4, cookie, false));
    until_shedding(&gateway).await;
    let mut visitors = JoinSet::new();
    for visitor in 0..3 {
        visitors.spawn(async move {
            let mut completed = 0;
            for turn in 0..5 {
                let name = format!("visitor-{visitor}-{turn}");
                completed += usize::from(completes(side, address, name).await);
            }
            completed
        });
    }
    let completed: usize = visitors.join_all().await.into_iter().sum();
    assert_eq!(completed, 15, "important clients go last");
    let crowd = crowd.stop().await;
    let [first, second] = forgers;
    let forgers = [first.stop().await, second.stop().await];
    println!("crowd {crowd:?}, forgers {forgers:?}");
    assert!(crowd.shed > 30 && crowd.reset == 0, "{crowd:?}");
    assert!(crowd.served > 0, "as many as the overload asks for and no more: {crowd:?}");
    for forgers in forgers {
        assert!(forgers.share() > 0.4 * crowd.share(), "{forgers:?} beside {crowd:?}");
    }
    let shed = crowd.shed + forgers[0].shed + forgers[1].shed;
    // Those of visitors that had not begun come on top.
    assert!(gateway.number("/classes/0/refused/shed") >= shed);
    gateway.assert_conserved();
    let metrics = client::Client::connect(gateway.admin).get_local("/metrics").text();
    assert!(metrics.contains("\ntiergate_shed_fraction ") && metrics.contains("_shed_overload "));

    eventually("the overload is over", || fraction(&gateway) == 0.0).await;
    for _ in 0..10 {
        assert_eq!(ask(&mut Client::at(address, side).await, "").await, Got::Served);
    }
}

async fn connections_may_be_reset_instead(side: Side) {
    let origin = origin();
    let gateway = gateway(&origin, "reset", "");
    let crowd = Crowd::start(side, gateway.address, CROWD, "", false);
    eventually("many were shed", || gateway.number("/classes/0/refused/shed") > 30).await;
    let crowd = crowd.stop().await;
    assert!(crowd.reset > 30 && crowd.shed == 0, "{crowd:?}");
    gateway.assert_conserved();
}

/// A proxy's connection is many clients': one that is unimportant takes no other along, and one
/// that is important lifts no other.
async fn a_trusted_peers_connection_is_kept_and_each_request_counts_by_itself(side: Side) {
    let origin = origin();
    let gateway = gateway(&origin, "close", "trusted = [\"127.0.0.1\"]");
    let mut proxy = admitted(side, gateway.address, "PHPSESSID=known").await;
    let crowd = Crowd::start(side, gateway.address, CROWD, "", true);
    until_shedding(&gateway).await;
    let until = Instant::now() + PATIENCE;
    let mut shed = 0;
    while shed < 5 {
        assert!(Instant::now() < until, "unimportant requests pass behind important ones");
        assert_eq!(ask(&mut proxy, "PHPSESSID=known; basket=full").await, Got::Served);
        shed += usize::from(ask(&mut proxy, "").await == Got::Shed);
    }
    let crowd = crowd.stop().await;
    assert!(crowd.shed > 0 && crowd.reset == 0, "{crowd:?}");
}
