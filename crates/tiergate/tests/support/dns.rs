//! A name server on loopback, which can fall silent and be slow.

// Not every crate that has this uses all of it.
#![allow(dead_code, unreachable_pub)]

use hickory_proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, PTR, SOA};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Records by name and type, each with its time in seconds.
#[derive(Debug, Default)]
pub struct Zone(HashMap<(Name, RecordType), Vec<(RData, u32)>>);

impl Zone {
    pub fn with(mut self, name: impl Into<Name>, data: RData, ttl: u32) -> Self {
        self.0.entry((name.into(), data.record_type())).or_default().push((data, ttl));
        self
    }

    /// An address says its name, without the name's consent.
    pub fn says(self, address: &str, name: &str, ttl: u32) -> Self {
        let address: IpAddr = address.parse().expect("an address");
        self.with(Name::from(address), RData::PTR(PTR(dns(name))), ttl)
    }

    /// A name has an address.
    pub fn has(self, name: &str, address: &str, ttl: u32) -> Self {
        let data = match address.parse().expect("an address") {
            IpAddr::V4(address) => RData::A(A(address)),
            IpAddr::V6(address) => RData::AAAA(AAAA(address)),
        };
        self.with(dns(name), data, ttl)
    }
}

fn dns(name: &str) -> Name {
    Name::from_ascii(name).expect("a name")
}

#[derive(Debug, Default)]
struct State {
    asked: AtomicUsize,
    /// What it was asked about.
    subjects: Mutex<HashSet<Name>>,
    mute: AtomicBool,
    delay_ms: AtomicU64,
    answered: AtomicUsize,
    ends: AtomicBool,
}

/// A name server in a thread, until it is dropped.
#[derive(Debug)]
pub struct DnsServer {
    pub address: SocketAddr,
    state: Arc<State>,
}

impl DnsServer {
    pub fn start(zone: Zone) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        // It looks so often whether it is to end.
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("not zero");
        let address = socket.local_addr().expect("bound");
        let server = DnsServer { address, state: Arc::default() };
        let state = server.state.clone();
        std::thread::spawn(move || serve(&socket, &zone, &state));
        server
    }

    /// Whether it hears and says nothing.
    pub fn mute(&self, mute: bool) {
        self.state.mute.store(mute, Ordering::SeqCst);
    }

    /// How long it takes for each answer.
    pub fn delay(&self, delay: Duration) {
        self.state.delay_ms.store(delay.as_millis() as u64, Ordering::SeqCst);
    }

    /// Answers that it has given.
    pub fn answered(&self) -> usize {
        self.state.answered.load(Ordering::SeqCst)
    }

    /// Questions that it has heard.
    pub fn asked(&self) -> usize {
        self.state.asked.load(Ordering::SeqCst)
    }

    /// Names that it has heard questions about.
    pub fn subjects(&self) -> usize {
        self.state.subjects.lock().expect("nothing panics while it is held").len()
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::SeqCst);
    }
}

fn serve(socket: &UdpSocket, zone: &Zone, state: &Arc<State>) {
    let mut buffer = [0; 4096];
    while !state.ends.load(Ordering::SeqCst) {
        let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
        let Ok(query) = Message::from_vec(&buffer[..len]) else { continue };
        state.asked.fetch_add(1, Ordering::SeqCst);
        let subject = query.queries[0].name().clone();
        state.subjects.lock().expect("nothing panics while it is held").insert(subject);
        if !state.mute.load(Ordering::SeqCst) {
            let answer = answer(zone, &query).to_vec().expect("records that can be written");
            let delay = Duration::from_millis(state.delay_ms.load(Ordering::SeqCst));
            let (socket, state) =
                (socket.try_clone().expect("descriptors are left"), state.clone());
            let send = move || {
                std::thread::sleep(delay);
                let _ = socket.send_to(&answer, from);
                state.answered.fetch_add(1, Ordering::SeqCst);
            };
            if delay.is_zero() {
                send();
            } else {
                std::thread::spawn(send);
            }
        }
    }
}

fn answer(zone: &Zone, query: &Message) -> Message {
    let mut answer = Message::new(query.metadata.id, MessageType::Response, OpCode::Query);
    let question = query.queries[0].clone();
    let found = zone.0.get(&(question.name().clone(), question.query_type()));
    for (data, ttl) in found.into_iter().flatten() {
        answer.add_answer(Record::from_rdata(question.name().clone(), *ttl, data.clone()));
    }
    if found.is_none() {
        answer.metadata.response_code = ResponseCode::NXDomain;
        let soa = SOA::new(dns("ns.test."), dns("root.test."), 1, 1, 1, 1, 120);
        answer.add_authority(Record::from_rdata(dns("test."), 120, RData::SOA(soa)));
    }
    answer.add_query(question);
    answer
}
