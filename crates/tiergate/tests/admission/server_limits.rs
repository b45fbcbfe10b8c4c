//! Servers with a limit each: no server works on more than it may, whatever fails, and a request whose server cannot be reached goes
//! to another with its slot.

use crate::support;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use support::client::Client;
use support::gateway::{Gateway, Policy, Port};
use support::load::{Habit, Load};
use support::origin::{Origin, ok};
use support::{eventually, eventually_is};

const CAP: usize = 3;

/// A server that counts what it works on at once, and that may die and come back.
struct Server {
    origin: Option<Origin>,
    /// Also while it is dead.
    port: Port,
    most: Arc<AtomicUsize>,
    served: Arc<AtomicUsize>,
    is_dead: Arc<AtomicBool>,
    takes: Duration,
}

impl Server {
    fn start(takes_ms: u64) -> Self {
        let port = Port::reserve();
        let listener = TcpListener::bind(port.address).expect("a port of our own");
        let mut server = Server {
            origin: None,
            port,
            most: Arc::default(),
            served: Arc::default(),
            is_dead: Arc::default(),
            takes: Duration::from_millis(takes_ms),
        };
        server.listen(listener);
        server
    }

    fn listen(&mut self, listener: TcpListener) {
        let (most, served, takes) = (self.most.clone(), self.served.clone(), self.takes);
        self.is_dead = Arc::default();
        let (is_dead, now) = (self.is_dead.clone(), AtomicUsize::new(0));
        self.origin = Some(Origin::start_on(listener, move |mut connection| {
            while let Some(request) = connection.request()
                && !is_dead.load(Ordering::SeqCst)
            {
                let count = now.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(count, Ordering::SeqCst);
                thread::sleep(takes);
                now.fetch_sub(1, Ordering::SeqCst);
                served.fetch_add(1, Ordering::SeqCst);
                connection.send(ok(format!("{} {}", request.method, request.target)));
            }
        }));
    }

    fn name(&self) -> String {
        self.port.address.to_string()
    }

    fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    fn forget_most(&self) {
        self.most.store(0, Ordering::SeqCst);
    }

    /// Nobody listens any more; what is in progress is answered.
    fn dies(&mut self) {
        self.is_dead.store(true, Ordering::SeqCst);
        self.origin = None;
        eventually("it is gone", || Client::try_connect(self.port.address).is_err());
    }

    fn is_back(&mut self) {
        let mut listener = TcpListener::bind(self.port.address);
        eventually("its port is free", || {
            if listener.is_err() {
                listener = TcpListener::bind(self.port.address);
            }
            listener.is_ok()
        });
        self.listen(listener.expect("just looked"));
    }
}

fn policy(servers: &[&Server], keys: &str) -> Policy {
    let servers: Vec<String> = servers.iter().map(|server| server.name()).collect();
    let class = "[[class]]\nname = \"default\"\ndeadline = \"60s\"\nlearn_patience = false\n";
    Policy { tables: class.into(), origin: keys.into(), ..Policy::of(&servers) }
}

/// A server with a number of slots of its own, as a policy has it.
fn with_slots(server: &Server, slots: usize) -> String {
    format!("{{ address = \"{}\", slots = {slots} }}", server.name())
}

fn per_server(slots: usize) -> String {
    format!("slots = {slots}\nslots_per_server = true")
}

#[test]
fn each_server_has_its_limit_and_all_of_it() {
    let (one, two) = (Server::start(10), Server::start(10));
    let gateway = Gateway::start(&policy(&[&one, &two], &per_server(CAP)));
    let load = Load::start(gateway.address, 20, Habit::Keep);
    eventually("both work", || one.served() > 100 && two.served() > 100);
    let status = gateway.status();
    assert_eq!(status["limit"]["slots"], 2 * CAP);
    assert_eq!(status["origin"][0]["slots"], CAP);
    let metrics = Client::connect(gateway.admin).get_local("/metrics").text();
    let line = format!("tiergate_origin_slots{{server=\"{}\"}} {CAP}", one.name());
    assert!(metrics.contains(&line), "{metrics}");
    load.stop().assert_all(&[200]);
    assert_eq!((one.most(), two.most()), (CAP, CAP), "as many as may be, and no more");
    gateway.assert_conserved();
}

#[test]
fn a_server_that_dies_and_comes_back_costs_hardly_a_request_and_no_other_its_limit() {
    let (mut one, two) = (Server::start(5), Server::start(5));
    let keys = per_server(CAP) + "\nretry_budget = \"100%\"";
    let policy = policy(&[&one, &two], &keys);
    let gateway = Gateway::start(&policy);
    let load = Load::start(gateway.address, 20, Habit::Keep);
    for _ in 0..2 {
        eventually("both work", || one.served() > 50 && two.served() > 50);
        one.dies();
        eventually("the gateway knows", || gateway.status()["origin"][0]["health"] != "up");
        eventually_is("its slots count no more", Some(CAP as u64), || {
            gateway.status()["limit"]["slots"].as_u64()
        });
        // Also for a policy that comes in force, and knows it from before.
        gateway.write_policy(&policy.text(&[gateway.address], gateway.admin));
        assert_eq!(gateway.reload().0, 200);
        let before = two.served();
        eventually("the other serves all", || two.served() > before + 100);
        let before = one.served();
        one.is_back();
        eventually("it serves again", || one.served() > before + 50);
    }
    let seen = load.stop();
    seen.assert_all(&[200, 502]);
    // A server that is dying may take a request that is sent again for the last time.
    let lost = seen.answers.get(&502).copied().unwrap_or(0);
    assert!(lost <= 2, "{lost} of two deaths");
    assert_eq!((one.most(), two.most()), (CAP, CAP));
    gateway.assert_conserved();
}

#[test]
fn servers_come_and_go_by_reloads_and_so_do_their_limits_without_a_loss() {
    let servers = [Server::start(5), Server::start(5), Server::start(5)];
    let [one, two, three] = &servers;
    let first = policy(&[one, two], &per_server(CAP));
    let gateway = Gateway::start(&first);
    let load = Load::start(gateway.address, 20, Habit::Keep);
    let reload = |policy: &Policy| {
        gateway.write_policy(&policy.text(&[gateway.address], gateway.admin));
        let (status, text) = gateway.reload();
        assert_eq!(status, 200, "{text}");
    };
    let other = policy(&[two, three], &per_server(CAP));
    for _ in 0..3 {
        for (policy, server) in [(&other, three), (&first, one)] {
            let before = server.served();
            reload(policy);
            eventually("the one that is new works", || server.served() > before + 30);
        }
    }
    assert_eq!([one, two, three].map(Server::most), [CAP; 3]);
    // What is in progress when servers come to have limits counts for none of them.
    for _ in 0..3 {
        reload(&policy(&[one, two], "slots = 3"));
        eventually_is("they share three", 3, || gateway.number("/limit/running"));
        let before = one.served();
        reload(&first);
        eventually("the first works", || one.served() > before + 30);
        eventually_is("each has three", 6, || gateway.number("/limit/running"));
    }
    load.stop().assert_all(&[200]);
    gateway.assert_conserved();
}

#[test]
fn a_request_that_no_other_server_has_room_for_is_told_so() {
    let (mut one, two) = (Server::start(5), Server::start(3_000));
    let class = "[[class]]\nname = \"default\"\ndeadline = \"300ms\"\nlearn_patience = false\n";
    let gateway = Gateway::start(&Policy {
        tables: class.into(),
        ..policy(&[&one, &two], &(per_server(1) + "\nretry_budget_min = 1000"))
    });
    // The second is held; the first is next, and is not there.
    let mut clients = Vec::new();
    eventually("the second is held", || {
        let mut client = gateway.client();
        client.send(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
        clients.push(client);
        // All that came before have their answers, so that it is the last of them.
        let of_the_first = || gateway.number("/classes/0/finished/served");
        let of_the_second = || gateway.number("/origin/1/outstanding");
        let all = clients.len() as u64;
        eventually_is("it is somewhere", all, || of_the_first() + of_the_second());
        of_the_second() == 1
    });
    one.dies();
    let finished = || gateway.status()["classes"][0]["finished"].clone();
    let preempted = || finished()["preempted"].as_u64().expect("a number");
    eventually_is("only one is in progress", 1, || gateway.number("/limit/running"));
    let before = preempted();
    let answer = gateway.get("/y");
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.field("retry-after").is_some(), "it is a refusal as any other");
    assert_eq!(preempted(), before + 1, "{:#}", finished());
    drop(clients);
    eventually_is("nothing is held", 0, || gateway.number("/limit/waiting"));
}

#[test]
fn each_server_has_its_own_number_and_a_reload_moves_one_at_once() {
    let servers = [Server::start(5), Server::start(5), Server::start(5)];
    let [one, two, three] = &servers;
    let with = |slots| Policy {
        servers: vec![with_slots(one, 2), with_slots(two, slots), three.name()],
        ..policy(&[], "slots = 3\nslots_per_server = true")
    };
    let gateway = Gateway::start(&with(5));
    let load = Load::start(gateway.address, 30, Habit::Keep);
    eventually("all work", || servers.iter().all(|it| it.served() > 100));
    let slots = |status: &serde_json::Value| -> Vec<(u64, String)> {
        let of = |it: &serde_json::Value| {
            (
                it["slots"].as_u64().expect("it has some"),
                it["slots_from"].as_str().expect("of it").into(),
            )
        };
        status["origin"].as_array().expect("a list").iter().map(of).collect()
    };
    let status = gateway.status();
    let expected = [(2, "server"), (5, "server"), (3, "pool")].map(|(it, of)| (it, of.to_owned()));
    assert_eq!(slots(&status), expected);
    assert_eq!(status["limit"]["slots"], 10);
    let metrics = Client::connect(gateway.admin).get_local("/metrics").text();
    for line in [
        format!("tiergate_origin_slots{{server=\"{}\"}} 5", two.name()),
        format!("tiergate_origin_slots_info{{server=\"{}\",source=\"server\"}} 1", two.name()),
        format!("tiergate_origin_slots_info{{server=\"{}\",source=\"pool\"}} 1", three.name()),
    ] {
        assert!(metrics.contains(&line), "{line} is missing in\n{metrics}");
    }
    assert_eq!(servers.each_ref().map(Server::most), [2, 5, 3], "as many as may be, and no more");
    let reload = |slots| {
        gateway.write_policy(&with(slots).text(&[gateway.address], gateway.admin));
        let (status, text) = gateway.reload();
        assert_eq!(status, 200, "{text}");
    };
    reload(8);
    let change = gateway.status()["limit"]["last_change"].clone();
    assert_eq!((&change["server"], &change["cause"]), (&two.name().into(), &"reload".into()));
    assert_eq!((&change["server_slots"], &change["slots"]), (&8.into(), &13.into()), "{change:#}");
    eventually("it gets more", || two.most() == 8);
    reload(1);
    // What is in progress ends.
    eventually_is("it has no more than one", 1, || gateway.number("/origin/1/outstanding"));
    two.forget_most();
    let before = two.served();
    eventually("it works", || two.served() > before + 20);
    load.stop().assert_all(&[200]);
    assert_eq!(servers.each_ref().map(Server::most), [2, 1, 3]);
    gateway.assert_conserved();
}
