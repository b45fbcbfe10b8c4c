//! The gateway between a client and a server, all in one thread.

use crate::origin::{self, Seen};
use crate::side::Side;
use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, Response};
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tiergate::client::peer::Peer;
use tiergate::client::{http1, http2};
use tiergate::config::meant::{Policy, Server};
use tiergate::observe::counters::Counters;
use tiergate::shared::{Config, Shared};
use tiergate::timers::{self, Timer};
use tiergate::{clock, memory, ticks, tls};
use tiergate_core::admit::connections::Bounds;
use tiergate_core::control::Slots;
use tiergate_core::outcome::End;
use tiergate_core::plan::Spec;
use tokio::net::{TcpListener, TcpStream};

/// The gateway, and the server behind it.
pub(crate) struct World {
    pub(crate) shared: Arc<Shared>,
    /// Where it takes HTTP/2.
    pub(crate) address: SocketAddr,
    /// Where it takes HTTP/1.1.
    address_http1: SocketAddr,
    pub(crate) seen: Arc<Seen>,
}

/// Changes the plan of a policy.
pub(crate) fn replan(policy: &mut Policy, change: impl FnOnce(&mut Spec)) {
    let mut spec = (*policy.plan).clone();
    change(&mut spec);
    policy.plan = spec.build().expect("a valid plan");
}

/// Builds both; `change` sees the default policy first.
pub(crate) async fn build(change: impl FnOnce(&mut Policy)) -> World {
    build_with(None, change).await
}

/// The same with one slot, for which requests wait for a long time.
pub(crate) async fn narrow(change: impl FnOnce(&mut Policy)) -> World {
    build(|policy| {
        replan(policy, |plan| plan.slots = Slots::Fixed(1));
        replan(policy, |plan| plan.classes[0].deadline = Duration::from_secs(20));
        change(policy);
    })
    .await
}

/// The same with the policy of a text, whose `[origin]` names any server.
pub(crate) async fn by(text: &str) -> World {
    build(|policy| {
        let servers = std::mem::take(&mut policy.origin.servers);
        *policy = tiergate::config::parse(text, "p.toml").unwrap();
        policy.origin.servers = servers;
    })
    .await
}

/// A server as a policy names it.
pub(crate) fn server(address: SocketAddr) -> Server {
    Server::Tcp(address.ip().to_string(), address.port())
}

pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

/// The same with TLS.
pub(crate) async fn build_with(
    tls: Option<Arc<ServerConfig>>,
    change: impl FnOnce(&mut Policy),
) -> World {
    clock::now();
    let (origin, seen) = origin::start().await;
    let mut policy = Policy::for_origin("http://127.0.0.1:1", None, None).unwrap();
    policy.origin.servers = vec![server(origin)];
    change(&mut policy);
    let counters = Counters::new(1);
    let config = Config::new(policy, 1, None, &counters).expect("few servers");
    let shared = Arc::new(Shared::new(config, counters));
    let ticking = shared.clone();
    tokio::spawn(timers::run(move || ticking.is_draining()));
    let ticking = shared.clone();
    tokio::spawn(async move { ticks::run(&ticking.door).await });
    let address = listen(Side::Http2, tls, &shared).await;
    let address_http1 = listen(Side::Http1, None, &shared).await;
    World { shared, address, address_http1, seen }
}

/// The worlds are of requests: connections are not bounded there.
const UNBOUNDED: Bounds = Bounds { max: usize::MAX, levels: 1 };

async fn listen(side: Side, tls: Option<Arc<ServerConfig>>, shared: &Arc<Shared>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shared = shared.clone();
    tokio::spawn(async move {
        while let Ok((stream, from)) = listener.accept().await {
            tokio::spawn(connection(side, stream, from, tls.clone(), shared.clone()));
        }
    });
    address
}

async fn connection(
    side: Side,
    stream: TcpStream,
    from: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
    shared: Arc<Shared>,
) {
    let entered = shared.connections.enter(from.ip(), UNBOUNDED, || None).await;
    let open = entered.connection.expect("there is room");
    stream.set_nodelay(true).unwrap();
    let local = stream.local_addr().unwrap();
    let peer = Box::new(Peer::new(from, local, local, tls.is_some()));
    let timer = Timer::new();
    timer.arm(shared.config.load().policy.timeouts.request_head);
    match (tls, side) {
        (None, Side::Http1) => http1::serve(stream, peer, None, timer, &open, &shared).await,
        (None, Side::Http2) => http2::serve(stream, peer, None, timer, &open, &shared).await,
        (Some(config), _) => {
            let stream = tls::handshake(stream, None, config, &timer).await.unwrap();
            assert!(tls::is_http2(&stream));
            http2::serve(stream, peer, None, timer, &open, &shared).await;
        }
    }
}

impl World {
    /// Where it takes a protocol.
    pub(crate) fn address_of(&self, side: Side) -> SocketAddr {
        match side {
            Side::Http1 => self.address_http1,
            Side::Http2 => self.address,
        }
    }

    /// A client's connection by prior knowledge.
    pub(crate) async fn client(&self) -> SendRequest<Bytes> {
        self.client_with(&mut h2::client::Builder::new()).await
    }

    pub(crate) async fn client_with(
        &self,
        builder: &mut h2::client::Builder,
    ) -> SendRequest<Bytes> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (client, connection) = builder.handshake(stream).await.unwrap();
        tokio::spawn(connection);
        client.ready().await.unwrap()
    }

    /// A client's connection over HTTP/1.1 that holds so many bytes each way, and no more.
    pub(crate) fn client_in_memory(&self, room: usize) -> memory::End {
        let (ours, theirs) = memory::pair(room);
        let shared = self.shared.clone();
        let from = SocketAddr::from(([127, 0, 0, 1], 1));
        tokio::spawn(async move {
            let entered = shared.connections.enter(from.ip(), UNBOUNDED, || None).await;
            let open = entered.connection.expect("there is room");
            let peer = Box::new(Peer::new(from, from, from, false));
            let timer = Timer::new();
            timer.arm(shared.config.load().policy.timeouts.request_head);
            http1::serve(theirs, peer, None, timer, &open, &shared).await;
        });
        ours
    }

    /// Requests that wait, and requests in progress.
    pub(crate) fn load(&self) -> (u32, u32) {
        let gate = self.shared.door.gate();
        let state = gate.states().next().expect("there is one class");
        (state.waiting, state.running)
    }

    /// Waits until the gate has so many waiting and running.
    pub(crate) async fn until_load(&self, waiting: u32, running: u32) {
        for _ in 0..500 {
            if self.load() == (waiting, running) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{:?} instead of {:?}", self.load(), (waiting, running));
    }

    /// How many slots came back so.
    pub(crate) fn finished(&self, end: End) -> u64 {
        let gate = self.shared.door.gate();
        gate.account().classes[0].finished[end.index()]
    }

    /// What is kept of bodies for slow clients. Bytes.
    pub(crate) fn buffered(&self) -> usize {
        self.shared.counters.buffered.used()
    }

    /// Requests that were read, over whichever protocol.
    pub(crate) fn read(&self) -> u64 {
        self.shared.counters.sums(|it| &it.requests).iter().sum()
    }

    /// Waits until no slot and no memory is held.
    pub(crate) async fn until_all_is_given_back(&self) {
        self.until_load(0, 0).await;
        eventually("all memory is given back", || self.buffered() == 0).await;
    }

    /// Requests that reached the server.
    pub(crate) fn requests(&self) -> usize {
        self.seen.requests.load(Ordering::Relaxed)
    }
}

/// A GET.
pub(crate) fn get(path: &str) -> Request<()> {
    Request::get(format!("http://gate.test{path}")).body(()).unwrap()
}

/// Sends a request without a body and reads the whole answer.
pub(crate) async fn fetch(
    client: &mut SendRequest<Bytes>,
    request: Request<()>,
) -> Result<(Response<()>, Vec<u8>, Option<HeaderMap>), h2::Error> {
    let mut ready = client.clone().ready().await?;
    let (answer, _) = ready.send_request(request, true)?;
    read(answer.await?).await
}

/// Reads the rest of an answer.
pub(crate) async fn read(
    answer: Response<RecvStream>,
) -> Result<(Response<()>, Vec<u8>, Option<HeaderMap>), h2::Error> {
    let (parts, mut body) = answer.into_parts();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        bytes.extend_from_slice(&data);
        body.flow_control().release_capacity(data.len())?;
    }
    let trailers = body.trailers().await?;
    Ok((Response::from_parts(parts, ()), bytes, trailers))
}

/// The code that a stream or a connection was ended with.
pub(crate) fn code(error: &h2::Error) -> Option<Reason> {
    error.reason()
}

/// Sends `body` in pieces as the gateway takes them.
pub(crate) async fn send_body(
    sending: &mut h2::SendStream<Bytes>,
    mut body: Bytes,
    trailers: Option<HeaderMap>,
) -> io::Result<()> {
    while !body.is_empty() {
        sending.reserve_capacity(body.len());
        let room = std::future::poll_fn(|context| sending.poll_capacity(context))
            .await
            .ok_or(io::ErrorKind::BrokenPipe)?
            .map_err(io::Error::other)?;
        let piece = body.split_to(room.min(body.len()));
        let last = body.is_empty() && trailers.is_none();
        sending.send_data(piece, last).map_err(io::Error::other)?;
    }
    if let Some(trailers) = trailers {
        sending.send_trailers(trailers).map_err(io::Error::other)?;
    }
    Ok(())
}
