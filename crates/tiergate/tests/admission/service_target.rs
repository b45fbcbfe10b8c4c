//! A service target in a gateway: it bounds the limit where that makes the origin quicker, and is reported as missed where
//! it does not.

use crate::support;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use support::client::Client;
use support::gateway::{Gateway, Policy};
use support::origin::{Origin, ok};
use support::{eventually, eventually_within};

/// How long a limit may take to change: on a busy machine it learns slowly.
const LEARNING: Duration = Duration::from_secs(60);

/// An origin that does more with more requests at once, each of which then takes longer: no law that goes by throughput alone
/// keeps it at a few.
fn growing() -> Origin {
    let now = AtomicUsize::new(0);
    Origin::answering(move |request| {
        let count = now.fetch_add(1, Ordering::SeqCst) + 1;
        thread::sleep(Duration::from_secs_f64(0.010 * (count as f64).sqrt()));
        now.fetch_sub(1, Ordering::SeqCst);
        ok(&request.target)
    })
}

struct Askers(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Askers {
    fn start(gateway: &Gateway, count: usize) -> Self {
        let (address, stop) = (gateway.address, Arc::new(AtomicBool::new(false)));
        let ask = |_| {
            let stop = stop.clone();
            thread::spawn(move || {
                let mut client = Client::connect(address);
                while !stop.load(Ordering::SeqCst) {
                    assert_eq!(client.get("/page").status, 200);
                }
            })
        };
        let threads = (0..count).map(ask).collect();
        Askers(stop, threads)
    }

    fn stop(self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.into_iter().for_each(|it| it.join().expect("each answer is right"));
    }
}

fn policy(origin: &Origin, class: &str) -> Policy {
    let tables = format!("[[class]]\nname = \"shop\"\ndeadline = \"30s\"\n{class}\n");
    Policy { tables, origin: String::new(), ..Policy::of(&[origin.server()]) }
}

fn metric(gateway: &Gateway, name: &str) -> Option<f64> {
    let text = Client::connect(gateway.admin).get_local("/metrics").text();
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[test]
fn the_limit_comes_down_to_a_target_and_goes_up_without_it() {
    let origin = growing();
    let gateway = Gateway::start(&policy(&origin, ""));
    let askers = Askers::start(&gateway, 60);
    eventually_within(LEARNING, "the limit is high", || gateway.number("/limit/slots") >= 30);
    assert_eq!(metric(&gateway, "tiergate_service_target_seconds"), None);
    // Half of the answers in the time that sixteen at once take.
    let target = policy(&origin, "service_target = { p50 = \"40ms\" }");
    gateway.write_policy(&target.text(&[gateway.address], gateway.admin));
    assert_eq!(gateway.reload().0, 200);
    eventually_within(LEARNING, "the target bounds it", || gateway.number("/limit/slots") <= 20);
    let bound = || metric(&gateway, "tiergate_service_target_slots{class=\"shop\"}");
    eventually("the bound is told", || bound().is_some_and(|it| (1.0..=24.0).contains(&it)));
    let line = "tiergate_service_target_seconds{class=\"shop\",quantile=\"p50\"}";
    assert_eq!(metric(&gateway, line), Some(0.04));
    let status = gateway.status();
    let of = status.pointer("/classes/0/service_target").expect("the class has one");
    assert_eq!((of["quantile"].as_str(), of["missed"].as_bool()), (Some("p50"), Some(false)));
    assert!(of["late"].as_u64() > Some(0) && of["answers"].as_u64() >= of["late"].as_u64());
    gateway.write_policy(&policy(&origin, "").text(&[gateway.address], gateway.admin));
    assert_eq!(gateway.reload().0, 200);
    eventually_within(LEARNING, "the limit is high again", || gateway.number("/limit/slots") >= 30);
    askers.stop();
}

#[test]
fn a_target_that_cannot_be_met_is_reported_and_takes_no_slots() {
    let origin = Origin::answering(|request| {
        thread::sleep(Duration::from_millis(50));
        ok(&request.target)
    });
    let gateway = Gateway::start(&policy(&origin, "service_target = { p99 = \"20ms\" }"));
    let askers = Askers::start(&gateway, 30);
    let missed = || metric(&gateway, "tiergate_service_target_missed{class=\"shop\"}");
    eventually("it is missed", || missed() == Some(1.0));
    eventually("slots are given back", || gateway.number("/limit/slots") >= 20);
    assert_eq!(
        metric(&gateway, "tiergate_service_target_late_total{class=\"shop\"}").map(|it| it > 100.0),
        Some(true)
    );
    eventually("it is logged", || gateway.log().contains("service target missed"));
    askers.stop();
}
