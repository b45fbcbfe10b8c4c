//! Several pools of servers in one gateway: each keeps its cap, none delays another, reloads lose nothing, and a
//! fallback takes what a pool without servers cannot serve.

use crate::support;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use support::client::Client;
use support::gateway::{Gateway, Policy, Port};
use support::origin::{Accepted, Origin, ok};
use support::{eventually, eventually_is};

/// Slots of the pool of reports.
const CAP: usize = 5;
/// How long a report takes.
const REPORT: Duration = Duration::from_millis(20);

const RULES: &str = "[[rule]]\nname = \"reports\"\npath = \"/reports/**\"\npool = \"reports\"\n";

fn pool(name: &str, server: &str, keys: &str) -> String {
    format!("[[pool]]\nname = \"{name}\"\nservers = [\"{server}\"]\n{keys}\n")
}

/// An origin that counts the reports that it works on, and the most that it ever did.
struct Counting {
    origin: Origin,
    most: Arc<AtomicUsize>,
}

impl Counting {
    fn start() -> Self {
        let (now, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
        let seen = most.clone();
        let origin = Origin::answering(move |request| {
            if request.target.starts_with("/reports/") {
                let count = now.fetch_add(1, Ordering::SeqCst) + 1;
                seen.fetch_max(count, Ordering::SeqCst);
                thread::sleep(REPORT);
                now.fetch_sub(1, Ordering::SeqCst);
            }
            ok(&request.target)
        });
        Counting { origin, most }
    }
}

/// Clients that ask for the same thing, each on a connection of its own, as fast as they get answers.
struct Askers {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Askers {
    fn start(address: SocketAddr, count: usize, path: &'static str) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let ask = |_| {
            let (stop, answered) = (stop.clone(), answered.clone());
            thread::spawn(move || {
                let mut client = Client::connect(address);
                while !stop.load(Ordering::SeqCst) {
                    let answer = client.get(path);
                    assert_eq!((answer.status, answer.text()), (200, path.to_owned()));
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        let threads = (0..count).map(ask).collect();
        Askers { stop, answered, threads }
    }

    fn answered(&self) -> u64 {
        self.answered.load(Ordering::SeqCst)
    }

    /// How many answers they got.
    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.into_iter().for_each(|it| it.join().expect("each answer is right"));
        self.answered.load(Ordering::SeqCst)
    }
}

fn metrics(gateway: &Gateway) -> String {
    Client::connect(gateway.admin).get_local("/metrics").text()
}

/// A class's number in the default pool, or in the pool at a place, all classes together.
fn sum(gateway: &Gateway, classes: &str, key: &str) -> u64 {
    let status = gateway.status();
    let classes = status.pointer(classes).and_then(|it| it.as_array());
    let numbers = classes.into_iter().flatten().map(|class| match &class[key] {
        serde_json::Value::Object(by_name) => by_name.values().filter_map(|it| it.as_u64()).sum(),
        number => number.as_u64().expect("a number"),
    });
    numbers.sum()
}

fn reload(gateway: &Gateway, policy: &Policy) {
    gateway.write_policy(&policy.text(&[gateway.address], gateway.admin));
    let (status, text) = gateway.reload();
    assert_eq!(status, 200, "{text}");
}

#[test]
fn a_saturated_pool_holds_its_cap_and_delays_no_other() {
    let counting = Counting::start();
    let server = counting.origin.server();
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.json");
    let policy = Policy {
        tables: pool("reports", &server, &format!("slots = {CAP}"))
            + RULES
            + &format!("[access_log]\npath = {log:?}\n"),
        origin: "slots = 50".into(),
        ..Policy::of(&[server])
    };
    let mut gateway = Gateway::start(&policy);
    let reports = Askers::start(gateway.address, 30, "/reports/x");
    eventually("reports wait", || gateway.number("/pools/0/limit/waiting") > 0);
    // Whatever waits there, other requests get their slots at once: they are the same class.
    let mut client = gateway.client();
    for _ in 0..500 {
        assert_eq!(client.get("/page").status, 200);
    }
    assert_eq!(sum(&gateway, "/classes", "admitted_at_once"), 500);
    assert_eq!(sum(&gateway, "/classes", "queued"), 0);
    assert!(sum(&gateway, "/pools/0/classes", "queued") > 0);
    let text = metrics(&gateway);
    for line in [
        "tiergate_slots 50",
        "tiergate_slots{pool=\"reports\"} 5",
        "tiergate_slots_running{pool=\"reports\"} 5",
        "tiergate_requests_arrived_total{class=\"default\"} 500",
        "tiergate_requests_queued_total{class=\"default\"} 0",
        "tiergate_rule_unmatched_total ",
    ] {
        assert!(text.lines().any(|it| it.starts_with(line)), "{line} is missing in\n{text}");
    }
    let count = reports.stop();
    assert_eq!(counting.most.load(Ordering::SeqCst), CAP, "of {count} reports");
    assert_eq!(sum(&gateway, "/pools/0/classes", "arrived"), count);
    assert_eq!(sum(&gateway, "/pools/0/classes", "finished"), count);
    gateway.assert_conserved();
    gateway.drain();
    let lines = std::fs::read_to_string(&log).expect("the log");
    let by_pool = |wanted: bool| {
        let lines = lines.lines().filter(|line| line.contains("\"pool\":\"reports\"") == wanted);
        lines.count() as u64
    };
    assert_eq!((by_pool(true), by_pool(false)), (count, 500));
}

#[test]
fn reloads_that_add_and_remove_pools_lose_no_request() {
    let counting = Counting::start();
    let server = counting.origin.server();
    let capped = pool("reports", &server, &format!("slots = {CAP}"));
    let media = pool("media", &server, "slots = 3\nfallback = \"default\"");
    let policy = |tables: String| Policy { tables, ..Policy::of(std::slice::from_ref(&server)) };
    let rule = "[[rule]]\npath = \"/media/**\"\npool = \"media\"\n";
    let class = "[[class]]\nname = \"default\"\ndeadline = \"60s\"\nlearn_patience = false\n";
    let policies = [
        policy(format!("{class}{capped}{RULES}")),
        policy(format!("{class}{media}{rule}")),
        policy(format!("{class}{media}{capped}{rule}{RULES}")),
        policy(class.to_owned()),
    ];
    let gateway = Gateway::start(&policies[0]);
    let clients = [("/reports/x", 20), ("/media/x", 10), ("/page", 4)];
    let clients = clients.map(|(path, count)| Askers::start(gateway.address, count, path));
    for turn in 1..200 {
        reload(&gateway, &policies[turn % policies.len()]);
        thread::sleep(Duration::from_millis(5));
    }
    // All pools are in the last policy, so that all that was counted is shown.
    reload(&gateway, &policies[2]);
    let before = clients[0].answered();
    eventually("reports go on", || clients[0].answered() > before + 50);
    let count: u64 = clients.map(Askers::stop).iter().sum();
    eventually("every slot comes back", || {
        ["/limit", "/pools/0/limit", "/pools/1/limit"].iter().all(|limit| {
            gateway.number(&format!("{limit}/running")) == 0
                && gateway.number(&format!("{limit}/waiting")) == 0
        })
    });
    let all = |key| {
        let of = ["/classes", "/pools/0/classes", "/pools/1/classes"];
        of.map(|classes| sum(&gateway, classes, key))
    };
    let (arrived, finished, refused) = (all("arrived"), all("finished"), all("refused"));
    assert_eq!((arrived, refused), (finished, [0; 3]));
    assert_eq!(arrived.iter().sum::<u64>(), count, "{arrived:?}");
    assert!(arrived.iter().all(|count| *count > 0), "{arrived:?}");
}

/// Says who it is, and counts nothing.
fn saying(who: &'static str) -> impl Fn(Accepted) + Send + Sync + 'static {
    move |mut connection| {
        while connection.request().is_some() {
            connection.ok(who);
        }
    }
}

#[test]
fn a_fallback_takes_the_requests_of_a_pool_without_usable_servers_but_not_of_a_full_one() {
    let port = Port::reserve();
    let server = port.address.to_string();
    let origin = Origin::start(saying("origin"));
    let health = "[pool.health]\npath = \"/\"\ninterval = \"20ms\"\nfall = 1\nrise = 1\n";
    let keys = format!("slots = 1\nfallback = \"spare\"\n{health}");
    let spare = Port::reserve();
    let spare =
        pool("spare", &spare.address.to_string(), &format!("fallback = \"default\"\n{health}"));
    let tables = pool("reports", &server, &keys)
        + &spare
        + &pool("alone", &server, health)
        + RULES
        + "[[class]]\nname = \"alone\"\npool = \"alone\"\n[[class]]\nname = \"default\"\nqueue = 0\n\
           [[rule]]\npath = \"/alone\"\nclass = \"alone\"\n\
           [[rule]]\npath = \"/own\"\nclass = \"alone\"\n\
           [[rule]]\npath = \"/own\"\npool = \"default\"\n[refusal]\nreason_header = \"x-reason\"\n";
    let gateway = Gateway::start(&Policy { tables, ..Policy::of(&[origin.server()]) });
    let health = |gateway: &Gateway| {
        let status = gateway.status();
        let servers = status["origin"].as_array().expect("a list").clone();
        let words = servers.iter().map(|it| {
            let pool = it["pool"].as_str().unwrap_or_default();
            format!("{pool} {}", it["health"].as_str().expect("a word"))
        });
        words.collect::<Vec<_>>()
    };
    let down = [" up", "reports down", "spare down", "alone down"].map(str::to_owned).to_vec();
    eventually_is("the checks fail", down, || health(&gateway));
    let answer = |path: &str| {
        let answer = gateway.get(path);
        let reason = answer.field("x-reason").unwrap_or_default().to_owned();
        let text = if answer.status == 200 { answer.text() } else { String::new() };
        (answer.status, reason, text)
    };
    let served = |who: &str| (200, String::new(), who.to_owned());
    assert_eq!(answer("/reports/x"), served("origin"), "by way of another that is down");
    assert_eq!(answer("/alone"), (503, "origin_down".to_owned(), String::new()));
    assert_eq!(answer("/own"), served("origin"), "a rule's pool wins over its class's");
    // The server comes up, and its requests go to it; while it is full, they are refused.
    let listener = TcpListener::bind(port.address).expect("its port is held for it");
    let busy = Arc::new(AtomicBool::new(false));
    let is_busy = busy.clone();
    let _reports = Origin::start_on(listener, move |mut connection| {
        while let Some(request) = connection.request() {
            while request.target == "/reports/long" && is_busy.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            connection.ok("reports");
        }
    });
    eventually_is("it is up", served("reports"), || answer("/reports/x"));
    busy.store(true, Ordering::SeqCst);
    let address = gateway.address;
    let long = thread::spawn(move || Client::connect(address).get("/reports/long").text());
    eventually("the slot is taken", || gateway.number("/pools/0/limit/running") == 1);
    assert_eq!(answer("/reports/x"), (503, "queue_full".to_owned(), String::new()));
    // The same server, in another pool, which checks it itself.
    eventually_is("it is up there, too", served("reports"), || answer("/alone"));
    busy.store(false, Ordering::SeqCst);
    assert_eq!(long.join().expect("an answer"), "reports");
    gateway.assert_conserved();
}

#[test]
fn clients_are_split_over_pools_by_weight_and_stay_there() {
    let naming = |name: &'static str| Origin::answering(move |_| ok(name));
    let (stable, canary) = (naming("stable"), naming("canary"));
    let policy = |weight: u32, server: &str| Policy {
        top: "flow = \"header:x-user\"".into(),
        tables: pool(
            "canary",
            server,
            "fallback = \"default\"\nfailures_max = 1\nretry_after = \"1h\"",
        ) + &format!(
            "[[class]]\nname = \"a\"\npool = {{ default = {}, canary = {weight} }}\n",
            100 - weight
        ),
        ..Policy::of(&[stable.server()])
    };
    let gateway = Gateway::start(&policy(20, &canary.server()));
    let answers = || {
        let ask = |user: u32| {
            // Of its own: an error closes it.
            let mut client = gateway.client();
            client.send(format!("GET / HTTP/1.1\r\nhost: a\r\nx-user: {user}\r\n\r\n"));
            client.answer().text() == "canary"
        };
        (0..500).map(ask).collect::<Vec<bool>>()
    };
    let first = answers();
    let count = |answers: &[bool]| answers.iter().filter(|is_canary| **is_canary).count();
    assert!((50..150).contains(&count(&first)), "{}", count(&first));
    assert_eq!(answers(), first);
    reload(&gateway, &policy(20, &canary.server()));
    assert_eq!(answers(), first, "a reload moves nobody");
    reload(&gateway, &policy(40, &canary.server()));
    let more = answers();
    assert!((120..280).contains(&count(&more)), "{}", count(&more));
    assert!(first.iter().zip(&more).all(|(before, after)| *after || !*before));
    reload(&gateway, &policy(0, &canary.server()));
    assert_eq!(count(&answers()), 0);
    // Where the canary is down, its clients are served as before, but for the one that finds out.
    let nobody = Port::reserve();
    reload(&gateway, &policy(40, &nobody.address.to_string()));
    answers();
    assert_eq!(count(&answers()), 0);
    assert_eq!(gateway.get("/").text(), "stable");
}

#[test]
fn a_pools_health_checks_go_on_while_reloads_change_another() {
    // It accepts, and says nothing.
    let hung = TcpListener::bind("127.0.0.1:0").expect("a port");
    let other = Origin::echo();
    let mut policy = Policy::of(&[hung.local_addr().expect("bound").to_string()]);
    policy.origin =
        "slots = 5\nhealth = { path = \"/\", interval = \"300ms\", timeout = \"300ms\" }".into();
    let with = |failures: u32| {
        pool("z", &other.server(), &format!("health = false\nfailures_max = {failures}"))
    };
    policy.tables = with(1);
    let gateway = Gateway::start(&policy);
    let mut failures = 1;
    eventually("the server that says nothing is found out", || {
        failures = failures % 100 + 1;
        policy.tables = with(failures);
        reload(&gateway, &policy);
        thread::sleep(Duration::from_millis(100));
        gateway.status()["origin"][0]["health"] == "down"
    });
}
