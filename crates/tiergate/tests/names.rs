//! Names of clients in a running gateway: no request waits for one, whatever the DNS server does.
//!
//! The policy is told to want names, as a rule with `domain` makes it.

mod support;

use std::sync::Arc;
use std::thread::JoinHandle;
use support::client::Client;
use support::dns::{DnsServer, Zone};
use support::eventually;
use support::gateway::Port;
use support::origin::Origin;
use tiergate::config::parse;
use tiergate::names::Ended;
use tiergate::run::{Process, run};
use tokio::sync::oneshot;

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
             [names]\nservers = [\"{}\"]\n{more}\n",
            port.address,
            origin.server(),
            dns.address
        );
        let source = Arc::new(move || {
            let mut policy = parse(&text, "p.toml").map_err(|fault| fault.to_string())?;
            policy.wanted.names = true;
            Ok(policy)
        });
        let (end, ended) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let once = |process: Arc<Process>| async move {
                tell.send(process).expect("the test waits for it");
                let _ = ended.await;
                Ok(())
            };
            run(source, once).expect("a good policy");
        });
        let process = told.recv().expect("it starts");
        Running { port, process, end: Some(end), thread: Some(thread) }
    }

    /// Asks on a connection of the test's, as a client with the address `from`.
    fn get(client: &mut Client, from: &str) {
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {from}\r\n\r\n"));
        assert_eq!(client.answer().status, 200);
    }

    fn ended(&self, ended: Ended) -> u64 {
        self.process.shared.counters.names.ended()[ended as usize]
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
    assert_eq!(gateway.process.shared.counters.names.ended(), [0; 4]);
    assert_eq!(gateway.process.shared.counters.names.known(), 50);
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
        let found = [Ended::Confirmed, Ended::Unconfirmed, Ended::Nameless];
        found.map(|ended| gateway.ended(ended)) == [1, 1, 1]
    });
    let name = || {
        let config = gateway.process.shared.config.load_full();
        let names = config.names.clone().expect("wanted");
        names.of([192, 0, 2, 1].into(), tiergate::clock::now())
    };
    assert_eq!(name().as_deref(), Some("crawl.bots.test"));
    let asked = dns.asked();
    gateway.process.reload().expect("the same policy");
    assert_eq!(name().as_deref(), Some("crawl.bots.test"));
    Running::get(&mut client, "192.0.2.1");
    assert_eq!(dns.asked(), asked);
    // Look-ups go on after the reload.
    Running::get(&mut client, "192.0.2.4");
    eventually("a fourth look-up ends", || gateway.ended(Ended::Nameless) == 2);
}
