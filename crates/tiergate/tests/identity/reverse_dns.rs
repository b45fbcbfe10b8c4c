//! Names of clients in a running gateway: no request waits for one, whatever the DNS server does.
//!
//! Rules put whoever is named below `bots.test` into a class of its own.

use crate::support;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use support::client::Client;
use support::dns::{DnsServer, Zone};
use support::gateway::{Gateway, Policy, Port};
use support::origin::Origin;
use support::{eventually, eventually_is};
use tiergate::config::parse_with;
use tiergate::reverse_dns::LookupResult;
use tiergate::run::{Process, run};
use tiergate_core::names::Names;
use tokio::sync::oneshot;

const RULES: &str = "[[class]]\nname = \"partner\"\n[[class]]\nname = \"public\"\n\
    [[rule]]\ndomain = \"bots.test\"\nclass = \"partner\"\n";

/// A gateway in threads of the test's, so that what it counts can be seen at once.
struct Running {
    port: Port,
    process: Arc<Process>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(origin: &Origin, dns: &DnsServer, more: &str) -> Self {
        let port = Port::reserve();
        let text = format!(
            "admin = false\nthreads = 1\ntrusted = [\"127.0.0.1\"]\n\
             [[listener]]\naddress = \"{}\"\n[origin]\nservers = [\"{}\"]\nslots = 100\n\
             {RULES}[reverse_dns]\nservers = [\"{}\"]\n{more}\n",
            port.address,
            origin.server(),
            dns.address
        );
        let source = Arc::new(move |names: &mut Names| {
            parse_with(&text, "p.toml", names).map_err(|fault| fault.to_string())
        });
        let (end, ended) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let once = |process: Arc<Process>| async move {
                tell.send(process).expect("the test waits for it");
                let _ = ended.await;
                Ok(())
            };
            run(source, None, once).expect("a good policy");
        });
        let process = told.recv().expect("it starts");
        Running { port, process, end: Some(end), thread: Some(thread) }
    }

    /// Asks on a connection of the test's, as a client with the address `from`.
    fn get(client: &mut Client, from: &str) {
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {from}\r\n\r\n"));
        assert_eq!(client.answer().status, 200);
    }

    fn ended(&self, ended: LookupResult) -> u64 {
        self.process.shared.counters.reverse_dns.results()[ended as usize]
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.end.take());
        let ended = self.thread.take().expect("taken here only").join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

#[test]
fn no_request_waits_while_look_ups_hang() {
    let (origin, dns) = (Origin::echo(), DnsServer::start(Zone::default()));
    dns.mute(true);
    // Each look-up hangs for ten seconds, and one by one.
    let gateway = Running::start(&origin, &dns, "timeout = \"10s\"\nlookups_max = 1");
    let mut client = Client::connect(gateway.port.address);
    for number in 0..500 {
        Running::get(&mut client, &format!("192.0.2.{}", number % 50));
    }
    // All of them were answered before the first look-up ended.
    assert_eq!(gateway.process.shared.counters.reverse_dns.results(), [0; 4]);
    assert_eq!(gateway.process.shared.counters.reverse_dns.entries(), 50);
    assert_eq!(dns.subjects(), 1);
}

#[test]
fn a_name_is_known_after_the_first_request_and_a_reload_keeps_it() {
    let zone = Zone::default()
        .says("192.0.2.1", "crawl.bots.test.", 300)
        .has("crawl.bots.test.", "192.0.2.1", 300)
        .says("192.0.2.2", "crawl.bots.test.", 300);
    let (origin, dns) = (Origin::echo(), DnsServer::start(zone));
    let gateway = Running::start(&origin, &dns, "");
    let mut client = Client::connect(gateway.port.address);
    for _ in 0..3 {
        for from in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
            Running::get(&mut client, from);
        }
    }
    eventually("three look-ups end", || {
        let found = [LookupResult::Confirmed, LookupResult::Unconfirmed, LookupResult::NoName];
        found.map(|ended| gateway.ended(ended)) == [1, 1, 1]
    });
    let name = || {
        let config = gateway.process.shared.config.load_full();
        let names = config.reverse_dns.clone().expect("wanted");
        names.name_of([192, 0, 2, 1].into(), tiergate::clock::now())
    };
    assert_eq!(name().as_deref(), Some("crawl.bots.test"));
    let asked = dns.asked();
    gateway.process.reload().expect("the same policy");
    assert_eq!(name().as_deref(), Some("crawl.bots.test"));
    Running::get(&mut client, "192.0.2.1");
    assert_eq!(dns.asked(), asked);
    // Look-ups go on after the reload.
    Running::get(&mut client, "192.0.2.4");
    eventually("a fourth look-up ends", || gateway.ended(LookupResult::NoName) == 2);
}

/// A gateway with these rules and these settings of `[reverse_dns]`, as a process.
fn gateway(origin: &Origin, dns: SocketAddr, settings: &str) -> Gateway {
    Gateway::start(&Policy {
        top: "trusted = [\"127.0.0.1\"]".into(),
        tables: format!("{RULES}[reverse_dns]\nservers = [\"{dns}\"]\n{settings}\n"),
        ..Policy::of(&[origin.server()])
    })
}

/// Requests so far of the classes `partner` and `public`.
fn classes(gateway: &Gateway) -> [u64; 2] {
    [0, 1].map(|class| gateway.number(&format!("/classes/{class}/arrived")))
}

/// Look-ups that ended so, by [`LookupResult::ALL`].
fn ended(gateway: &Gateway) -> [u64; 4] {
    let page = Client::connect(gateway.admin).get_local("/metrics").text();
    LookupResult::ALL.map(|ended| {
        let series = format!("tiergate_reverse_dns_lookups_total{{result=\"{}\"}} ", ended.name());
        let count = page.lines().find_map(|line| line.strip_prefix(&series));
        count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{series}in\n{page}"))
    })
}

#[test]
fn a_domain_rule_takes_those_who_are_confirmed_to_be_below_it() {
    let names = [
        ("192.0.2.1", "crawl.bots.test."),
        ("192.0.2.2", "bots.test."),
        ("2001:db8::1", "a.crawl6.Bots.Test."),
        // Theirs, and not below it.
        ("192.0.2.3", "evilbots.test."),
        ("192.0.2.4", "bots.test.evil.test."),
        ("2001:db8::2", "bots.test6."),
    ];
    let zone = names.into_iter().fold(Zone::default(), |zone, (address, name)| {
        zone.says(address, name, 300).has(name, address, 300)
    });
    // Liars: a name that is another's, one that nobody has, and one that has the other kind of address.
    let zone = zone
        .says("192.0.2.5", "crawl.bots.test.", 300)
        .says("192.0.2.6", "nobody.bots.test.", 300)
        .says("2001:db8::3", "crawl.bots.test.", 300);
    let mut clients: Vec<&str> = names.iter().map(|(address, _)| *address).collect();
    clients.extend(["192.0.2.5", "192.0.2.6", "2001:db8::3", "192.0.2.7"]);
    let (origin, dns) = (Origin::echo(), DnsServer::start(zone));
    let gateway = gateway(&origin, dns.address, "");
    let mut client = gateway.client();
    let mut round = || clients.iter().for_each(|from| Running::get(&mut client, from));
    round();
    assert_eq!(classes(&gateway), [0, 10], "nobody's name is known yet");
    eventually_is("all are looked up", [6, 1, 3, 0], || ended(&gateway));
    round();
    assert_eq!(classes(&gateway), [3, 17]);
}

/// Addresses that a server which answered in time would have named.
const NAMED: [&str; 3] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];

fn named() -> Zone {
    NAMED.into_iter().zip(["a", "b", "c"]).fold(Zone::default(), |zone, (address, name)| {
        let name = format!("{name}.bots.test.");
        zone.says(address, &name, 300).has(&name, address, 300)
    })
}

#[test]
fn with_a_dead_server_requests_go_on_and_nobody_gains_a_class() {
    // A port where nobody is.
    let dead = {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.local_addr().expect("bound")
    };
    let origin = Origin::echo();
    let gateway = gateway(&origin, dead, "timeout = \"1s\"");
    let mut client = gateway.client();
    let mut round = || NAMED.iter().for_each(|from| Running::get(&mut client, from));
    round();
    eventually_is("each has failed", [0, 0, 0, 3], || ended(&gateway));
    round();
    assert_eq!(classes(&gateway), [0, 6]);
}

#[test]
fn with_a_slow_server_requests_go_on_and_nobody_gains_a_class() {
    let (origin, dns) = (Origin::echo(), DnsServer::start(named()));
    dns.delay(Duration::from_secs(10));
    let gateway = gateway(&origin, dns.address, "");
    let mut client = gateway.client();
    let mut round = || NAMED.iter().for_each(|from| Running::get(&mut client, from));
    (0..30).for_each(|_| round());
    // Each was answered, and the first answer of the server is still to come.
    assert_eq!([dns.answered(), ended(&gateway).iter().sum::<u64>() as usize], [0, 0]);
    eventually_is("each look-up is given up", [0, 0, 0, 3], || ended(&gateway));
    round();
    assert_eq!(classes(&gateway), [0, 93]);
}

#[test]
fn an_answer_that_comes_too_late_gives_nobody_a_class() {
    let (origin, dns) = (Origin::echo(), DnsServer::start(named()));
    dns.delay(Duration::from_secs(3));
    let gateway = gateway(&origin, dns.address, "timeout = \"1s\"");
    let mut client = gateway.client();
    let mut round = || NAMED.iter().for_each(|from| Running::get(&mut client, from));
    round();
    eventually_is("each look-up is given up", [0, 0, 0, 3], || ended(&gateway));
    eventually("the server has answered all the same", || dns.answered() >= NAMED.len());
    round();
    assert_eq!(classes(&gateway), [0, 6]);
    assert_eq!(ended(&gateway), [0, 0, 0, 3]);
}
