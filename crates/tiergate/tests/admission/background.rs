//! Background classes in one gateway: a crawl beside a site is not felt, uses what is idle, and is seen where operators look.

use crate::support;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use support::client::Client;
use support::eventually;
use support::gateway::{Gateway, Policy};
use support::origin::{Origin, ok};

/// How long a page takes, and how many the origin works on at once.
const PAGE: Duration = Duration::from_millis(30);
const WORKERS: usize = 4;

/// An origin of so many workers.
#[derive(Default)]
struct Workers {
    busy: AtomicUsize,
    /// Most pages of the crawl that were in progress or waited at the origin.
    crawled_most: AtomicUsize,
    crawled_now: AtomicUsize,
}

impl Workers {
    fn serve(&self, target: &str) {
        let is_crawl = target.starts_with("/crawl");
        if is_crawl {
            let now = self.crawled_now.fetch_add(1, Ordering::SeqCst) + 1;
            self.crawled_most.fetch_max(now, Ordering::SeqCst);
        }
        while self
            .busy
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |busy| {
                (busy < WORKERS).then_some(busy + 1)
            })
            .is_err()
        {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(PAGE);
        self.busy.fetch_sub(1, Ordering::SeqCst);
        if is_crawl {
            self.crawled_now.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn origin(workers: &Arc<Workers>) -> Origin {
    let workers = workers.clone();
    Origin::answering(move |request| {
        workers.serve(&request.target);
        ok(&request.target)
    })
}

/// A crawl: so many connections, each as fast as it gets answers.
struct Crawl {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Crawl {
    fn start(address: SocketAddr, count: usize) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let crawl = |_| {
            let (stop, answered) = (stop.clone(), answered.clone());
            thread::spawn(move || {
                let mut client = Client::connect(address);
                while !stop.load(Ordering::SeqCst) {
                    assert_eq!(client.get("/crawl").status, 200);
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        Crawl { threads: (0..count).map(crawl).collect(), stop, answered }
    }

    fn answered(&self) -> u64 {
        self.answered.load(Ordering::SeqCst)
    }

    fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.into_iter().for_each(|it| it.join().expect("each answer is right"));
    }
}

fn policy(server: &str, slots: &str, is_background: bool) -> Policy {
    let background = if is_background { "background = true" } else { "deadline = \"10m\"" };
    let tables = format!(
        "[[class]]\nname = \"site\"\n\
         [[class]]\nname = \"crawl\"\n{background}\nlearn_patience = false\n\
         [[rule]]\npath = \"/crawl\"\nclass = \"crawl\"\n"
    );
    Policy { tables, origin: format!("slots = {slots}"), ..Policy::of(&[server.to_owned()]) }
}

/// The times of so many pages, one after another with as long a pause, the shortest first.
fn pages(gateway: &Gateway, count: usize) -> Vec<Duration> {
    let mut client = gateway.client();
    let page = |_| {
        let began = Instant::now();
        assert_eq!(client.get("/page").status, 200);
        let took = began.elapsed();
        thread::sleep(PAGE / 2);
        took
    };
    let mut times: Vec<Duration> = (0..count).map(page).collect();
    times.sort();
    times
}

#[test]
fn a_site_does_not_feel_a_crawl_that_uses_what_is_idle() {
    for slots in ["4", "\"adaptive\""] {
        let workers = Arc::new(Workers::default());
        let origin = origin(&workers);
        let gateway = Gateway::start(&policy(&origin.server(), slots, true));
        let alone = pages(&gateway, 40);
        let crawl = Crawl::start(gateway.address, 30);
        eventually("the crawl waits", || gateway.number("/classes/1/waiting") > 10);
        // What else the machine does is felt, too: once more if it was.
        let mut felt = Vec::new();
        let is_free = (0..2).any(|_| {
            let beside = pages(&gateway, 100)[50];
            felt.push((beside, alone[20]));
            beside.as_secs_f64() < 1.35 * alone[20].as_secs_f64()
        });
        assert!(is_free, "{slots}: {felt:?}");
        // Nobody else is there: now it has all slots but the one that is kept free.
        let quiet = crawl.answered();
        eventually("nobody else is there", || gateway.status()["background"][0]["quiet"] == true);
        eventually("it goes on", || crawl.answered() > quiet + 100);
        crawl.stop();
        gateway.assert_conserved();
    }
}

#[test]
fn a_class_of_less_importance_is_felt_where_a_background_class_is_not() {
    let time = |is_background| {
        let workers = Arc::new(Workers::default());
        let origin = origin(&workers);
        let gateway = Gateway::start(&policy(&origin.server(), "4", is_background));
        let crawl = Crawl::start(gateway.address, 30);
        eventually("the crawl waits", || gateway.number("/classes/1/waiting") > 10);
        let times = pages(&gateway, 60);
        crawl.stop();
        // Without the slowest tenth: that may be what else the machine does.
        times[..54].iter().sum::<Duration>().as_secs_f64()
    };
    let (plain, background) = (time(false), time(true));
    // A page waits for the first of four slots that comes free, about a quarter of a page's time and more.
    assert!(background < 0.95 * plain, "{background} s, without {plain} s");
}

#[test]
fn it_is_seen_where_operators_look() {
    let workers = Arc::new(Workers::default());
    let origin = origin(&workers);
    let gateway = Gateway::start(&policy(&origin.server(), "\"adaptive\"", true));
    assert_eq!(gateway.client().get("/page").status, 200);
    let metrics = Client::connect(gateway.admin).get_local("/metrics").text();
    for name in ["slots", "running", "felt_ratio", "felt_error"] {
        let row = format!("tiergate_background_{name} ");
        assert!(metrics.lines().any(|line| line.starts_with(&row)), "{name}: {metrics}");
    }
    assert!(gateway.number("/background/0/running") == 0);
}
