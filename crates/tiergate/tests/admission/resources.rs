//! Resources in one gateway: what waits for one delays no other request, and is seen where operators look.

use crate::support;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use support::client::Client;
use support::gateway::{Gateway, Policy};
use support::origin::{Origin, ok};
use support::{eventually, eventually_is};

/// How long a search takes.
const SEARCH: Duration = Duration::from_millis(40);

/// Counts the searches that are in progress at the origin, and the most that ever were.
#[derive(Default)]
struct Searches {
    now: AtomicUsize,
    most: AtomicUsize,
}

fn origin(searches: &Arc<Searches>) -> Origin {
    let searches = searches.clone();
    Origin::answering(move |request| {
        if request.target.starts_with("/search") {
            let count = searches.now.fetch_add(1, Ordering::SeqCst) + 1;
            searches.most.fetch_max(count, Ordering::SeqCst);
            thread::sleep(SEARCH);
            searches.now.fetch_sub(1, Ordering::SeqCst);
        }
        ok(&request.target)
    })
}

/// Clients that search, each on a connection of its own, as fast as they get answers.
struct Searchers {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Searchers {
    fn start(address: SocketAddr, count: usize) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let search = |_| {
            let (stop, answered) = (stop.clone(), answered.clone());
            thread::spawn(move || {
                let mut client = Client::connect(address);
                while !stop.load(Ordering::SeqCst) {
                    assert_eq!(client.get("/search").status, 200);
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        Searchers { threads: (0..count).map(search).collect(), stop, answered }
    }

    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.into_iter().for_each(|it| it.join().expect("each answer is right"));
        self.answered.load(Ordering::SeqCst)
    }
}

fn policy(server: &str, slots: &str) -> Policy {
    let tables = format!(
        "[[resource]]\nname = \"index\"\nslots = {slots}\n\
         [[class]]\nname = \"searches\"\ndeadline = \"30s\"\nlearn_patience = false\n\
         [[class]]\nname = \"pages\"\n\
         [[rule]]\npath = \"/search\"\nclass = \"searches\"\nresource = \"index\"\n"
    );
    Policy { tables, origin: "slots = 20".into(), ..Policy::of(&[server.to_owned()]) }
}

fn metrics(gateway: &Gateway) -> String {
    Client::connect(gateway.admin).get_local("/metrics").text()
}

#[test]
fn requests_that_wait_for_a_resource_delay_no_other_of_less_importance() {
    let searches = Arc::new(Searches::default());
    let origin = origin(&searches);
    let gateway = Gateway::start(&policy(&origin.server(), "3"));
    let searchers = Searchers::start(gateway.address, 40);
    eventually("searches wait", || gateway.number("/resources/0/waiting") > 20);
    let mut client = gateway.client();
    for _ in 0..300 {
        assert_eq!(client.get("/page").status, 200);
    }
    assert_eq!(gateway.number("/classes/1/admitted_at_once"), 300);
    assert_eq!(gateway.number("/classes/1/queued"), 0);
    let text = metrics(&gateway);
    for line in [
        "tiergate_resource_slots{resource=\"index\"} 3",
        "tiergate_resource_slots_running{resource=\"index\"} 3",
        "tiergate_resource_slots_adaptive{resource=\"index\"} 0",
        "tiergate_resource_waiting{resource=\"index\"} ",
        "tiergate_requests_held_up{class=\"searches\"} ",
        "tiergate_requests_held_up{class=\"pages\"} 0",
        "tiergate_slots 20",
    ] {
        assert!(text.lines().any(|it| it.starts_with(line)), "{line}\n{text}");
    }
    assert!(searchers.stop() > 0);
    assert_eq!(searches.most.load(Ordering::SeqCst), 3, "all of them, and no more");
    eventually_is("all is given back", 0, || gateway.number("/resources/0/running"));
    gateway.assert_conserved();
}

#[test]
fn a_reload_changes_and_removes_a_resource_and_loses_no_request() {
    let searches = Arc::new(Searches::default());
    let origin = origin(&searches);
    let server = origin.server();
    let gateway = Gateway::start(&policy(&server, "2"));
    let searchers = Searchers::start(gateway.address, 12);
    let without = Policy {
        tables: "[[class]]\nname = \"searches\"\ndeadline = \"30s\"\n[[class]]\nname = \"pages\"\n\
                 [[rule]]\npath = \"/search\"\nclass = \"searches\"\n"
            .into(),
        ..policy(&server, "2")
    };
    for next in
        [policy(&server, "5"), without, policy(&server, "\"adaptive\""), policy(&server, "1")]
    {
        let before = searchers.answered.load(Ordering::SeqCst);
        gateway.write_policy(&next.text(&[gateway.address], gateway.admin));
        let (status, text) = gateway.reload();
        assert_eq!(status, 200, "{text}");
        eventually("searches go on", || searchers.answered.load(Ordering::SeqCst) > before + 20);
    }
    // What ran by the former number has ended.
    searches.most.store(0, Ordering::SeqCst);
    let before = searchers.answered.load(Ordering::SeqCst);
    eventually("searches go on", || searchers.answered.load(Ordering::SeqCst) > before + 5);
    assert_eq!(searches.most.load(Ordering::SeqCst), 1);
    searchers.stop();
    eventually_is("all is given back", 0, || gateway.number("/resources/0/running"));
}
