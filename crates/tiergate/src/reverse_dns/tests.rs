//! Against a real DNS server on loopback, and against ones that are dead, slow or lie.

use super::*;
use dns::{DnsServer, Zone};
use hickory_proto::rr::rdata::PTR;
use hickory_proto::rr::{Name as DnsName, RData};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

#[path = "../../tests/support/dns.rs"]
mod dns;

fn settings(server: SocketAddr) -> meant::Names {
    meant::Names {
        servers: vec![server],
        timeout: Duration::from_secs(1),
        entries_max: 1024,
        lookups_max: 4,
        ttl_min: Duration::from_secs(1),
        ttl_max: Duration::from_secs(3600),
    }
}

/// ReverseDns that are looked up by a task of the test's.
fn resolving(settings: meant::Names) -> Arc<ReverseDns> {
    let names = Arc::new(ReverseDns::new(settings, Arc::default()));
    let resolver = names.clone();
    tokio::spawn(async move { resolver.resolve().await });
    names
}

fn of(names: &ReverseDns, address: &str) -> Option<String> {
    names.name_of(address.parse().unwrap(), clock::now()).map(|name| name.to_string())
}

/// Asks until as many lookups as that have ended.
async fn ended(names: &ReverseDns, count: u64) -> [u64; 4] {
    let until = Instant::now() + Duration::from_secs(20);
    while names.counters.results().iter().sum::<u64>() < count {
        assert!(Instant::now() < until, "lookups end: {:?}", names.counters);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    names.counters.results()
}

#[tokio::test]
async fn a_client_has_its_name_after_the_first_request_if_the_name_agrees() {
    let zone = Zone::default()
        .says("192.0.2.1", "Crawl-1.Bots.test.", 300)
        .has("crawl-1.bots.test.", "192.0.2.99", 300)
        .has("crawl-1.bots.test.", "192.0.2.1", 300)
        .says("2001:db8::1", "six.test.", 300)
        .has("six.test.", "2001:db8::1", 300);
    let server = DnsServer::start(zone);
    let names = resolving(settings(server.address));
    for address in ["192.0.2.1", "2001:db8::1", "192.0.2.7"] {
        assert_eq!(of(&names, address), None, "unknown at first");
        assert_eq!(of(&names, address), None, "and queued once");
    }
    assert_eq!(ended(&names, 3).await, [2, 1, 0, 0]);
    assert_eq!(of(&names, "192.0.2.1").as_deref(), Some("crawl-1.bots.test"));
    assert_eq!(of(&names, "::ffff:192.0.2.1").as_deref(), Some("crawl-1.bots.test"));
    assert_eq!(of(&names, "2001:db8::1").as_deref(), Some("six.test"));
    assert_eq!(of(&names, "192.0.2.7"), None);
    assert_eq!(server.asked(), 5, "PTR each, and an address for those with a name");
    assert_eq!(names.counters.entries(), 3);
    drop(names);
}

#[tokio::test]
async fn who_lies_gets_no_name() {
    let zone = Zone::default()
        // A PTR record of somebody else's name, which has another address.
        .says("192.0.2.1", "crawl.good.test.", 300)
        .has("crawl.good.test.", "198.51.100.1", 300)
        // One of a name that there is not.
        .says("192.0.2.2", "nobody.test.", 300)
        // A name that has the same number in the other family.
        .says("192.0.2.3", "six.test.", 300)
        .has("six.test.", "::ffff:192.0.2.3", 300)
        // A name that is none.
        .with(
            DnsName::from("192.0.2.4".parse::<IpAddr>().unwrap()),
            RData::PTR(PTR(DnsName::from_labels([&b"a b"[..], b"test"]).unwrap())),
            300,
        )
        // One liar among several.
        .says("192.0.2.5", "crawl.good.test.", 300)
        .says("192.0.2.5", "own.test.", 300)
        .has("own.test.", "192.0.2.5", 300);
    let server = DnsServer::start(zone);
    let names = resolving(settings(server.address));
    for last in 1..=5 {
        assert_eq!(of(&names, &format!("192.0.2.{last}")), None);
    }
    assert_eq!(ended(&names, 5).await, [1, 0, 4, 0]);
    for last in 1..=4 {
        assert_eq!(of(&names, &format!("192.0.2.{last}")), None, "{last}");
    }
    assert_eq!(of(&names, "192.0.2.5").as_deref(), Some("own.test"));
    assert_eq!(
        names.counters.results().iter().sum::<u64>(),
        5,
        "what is unconfirmed is remembered"
    );
}

#[tokio::test]
async fn with_a_server_that_says_nothing_nobody_waits_and_nobody_has_a_name() {
    let zone = Zone::default().says("192.0.2.1", "a.test.", 300).has("a.test.", "192.0.2.1", 300);
    let server = DnsServer::start(zone);
    server.mute(true);
    let names = resolving(settings(server.address));
    // All requests are through before the first lookup ends.
    for round in 0..1000 {
        assert_eq!(of(&names, &format!("192.0.2.{}", round % 40)), None);
    }
    assert_eq!(names.counters.results(), [0; 4]);
    assert_eq!(names.counters.entries(), 40);
    let mut at_once = 0;
    while names.counters.results() == [0; 4] {
        at_once = server.subjects();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(at_once, 4, "as many lookups at once as there may be");
    assert_eq!(ended(&names, 1).await[..3], [0; 3]);
    assert_eq!(of(&names, "192.0.2.1"), None);
}

#[tokio::test]
async fn nothing_is_lost_when_no_server_is_there_and_it_recovers() {
    let zone = Zone::default().says("192.0.2.1", "a.test.", 300).has("a.test.", "192.0.2.1", 300);
    let server = DnsServer::start(zone);
    server.mute(true);
    let names = resolving(settings(server.address));
    assert_eq!(of(&names, "192.0.2.1"), None);
    assert_eq!(ended(&names, 1).await, [0, 0, 0, 1]);
    server.mute(false);
    // Not asked again for a while, whatever is requested.
    let asked = server.asked();
    assert_eq!(of(&names, "192.0.2.1"), None);
    let later = clock::now() + Duration::from_secs(11);
    let address = "192.0.2.1".parse().unwrap();
    assert_eq!(server.asked(), asked);
    assert_eq!(names.name_of(address, later), None);
    assert_eq!(ended(&names, 2).await, [1, 0, 0, 1]);
    assert_eq!(names.name_of(address, clock::now()).as_deref(), Some("a.test"));
}

#[tokio::test]
async fn lookups_beyond_the_bounds_are_put_off_and_counted() {
    // Nothing resolves: the queue fills.
    let server = "127.0.0.1:9".parse().unwrap();
    let names =
        ReverseDns::new(meant::Names { entries_max: 4096, ..settings(server) }, Arc::default());
    let address = |network: u32, host: u32| IpAddr::from((network << 8 | host).to_be_bytes());
    for host in 0..200 {
        assert_eq!(names.name_of(address(1, host), Moment::ZERO), None);
    }
    assert_eq!(names.counters.dropped_network.total(), 200 - 64);
    for network in 2..2000 {
        names.name_of(address(network, 1), Moment::ZERO);
    }
    let queued = QUEUE_LEN_MAX as u64;
    assert_eq!(names.queue.capacity(), 0);
    // A few networks share the cell of the first, which has had its share.
    let by_network = names.counters.dropped_network.total();
    let by_queue = names.counters.dropped_queue.total();
    assert_eq!(by_network + by_queue, 200 + 1998 - queued);
    assert!(by_queue > 900, "{by_queue}");
    assert!(names.counters.entries() <= queued);
}

#[tokio::test]
async fn an_answer_is_believed_within_the_bounds_of_the_policy() {
    let zone = Zone::default()
        .says("192.0.2.1", "short.test.", 0)
        .has("short.test.", "192.0.2.1", 300)
        .says("192.0.2.2", "long.test.", 1_000_000)
        .has("long.test.", "192.0.2.2", 1_000_000);
    let server = DnsServer::start(zone);
    let names = resolving(meant::Names {
        ttl_min: Duration::from_secs(60),
        ttl_max: Duration::from_secs(600),
        ..settings(server.address)
    });
    for address in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        of(&names, address);
    }
    ended(&names, 3).await;
    let after = |address: &str, seconds| {
        let set = key(address.parse().unwrap());
        let look = names.cache.get(set, second(clock::now()) + seconds, || false);
        (look.name.is_some(), look.due)
    };
    assert_eq!(after("192.0.2.1", 40), (true, false));
    assert_eq!(after("192.0.2.1", 62), (false, true));
    assert_eq!(after("192.0.2.2", 500), (true, false));
    assert_eq!(after("192.0.2.2", 602), (false, true));
    // The zone's own time for what is not there: 120 s.
    assert_eq!(after("192.0.2.3", 110), (false, false));
    assert_eq!(after("192.0.2.3", 122), (false, true));
}

#[tokio::test]
async fn the_task_may_be_replaced() {
    let zone = Zone::default().says("192.0.2.1", "a.test.", 300).has("a.test.", "192.0.2.1", 300);
    let server = DnsServer::start(zone);
    let names = Arc::new(ReverseDns::new(settings(server.address), Arc::default()));
    for _ in 0..2 {
        let resolver = names.clone();
        let task = tokio::spawn(async move { resolver.resolve().await });
        tokio::time::sleep(Duration::from_millis(20)).await;
        task.abort();
        let _ = task.await;
    }
    let resolver = names.clone();
    tokio::spawn(async move { resolver.resolve().await });
    of(&names, "192.0.2.1");
    assert_eq!(ended(&names, 1).await, [1, 0, 0, 0]);
}
