//! What clients are told, and what becomes of those that do not listen: `Retry-After` by what waits,
//! `RateLimit` fields, clients that are blocked, and how often an origin is tried again.

use crate::support;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use support::answer::Answer;
use support::client::Client;
use support::eventually;
use support::gateway::{Gateway, Policy, Port};
use support::origin::Origin;

fn policy(origin: &Origin, tables: &str) -> Policy {
    Policy { tables: tables.to_owned(), ..Policy::of(&[origin.server()]) }
}

fn retry_after(answer: &Answer) -> u64 {
    let value = answer.field("retry-after");
    value.and_then(|seconds| seconds.parse().ok()).unwrap_or_else(|| panic!("{}", answer.head))
}

/// Requests wait in hundreds for a server that does at most 100 a second; who comes on top is told how
/// long they take, and when most of them have gone, less.
#[test]
fn the_longer_the_queue_the_later_a_refused_client_is_asked_to_come_back() {
    let origin = Origin::start(|mut connection| {
        while connection.request().is_some() {
            std::thread::sleep(Duration::from_millis(10));
            connection.ok("done");
        }
    });
    let with_queue = |queue: u32| {
        let tables = format!("[[class]]\nname = \"all\"\ndeadline = \"1h\"\nqueue = {queue}");
        Policy { origin: "slots = 1".into(), ..policy(&origin, &tables) }
    };
    let gateway = Gateway::start(&with_queue(400));
    let mut waiting: Vec<Client> = Vec::new();
    while gateway.number("/limit/waiting") < 400 {
        for _ in 0..50 {
            let mut client = gateway.client();
            client.send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
            waiting.push(client);
        }
        assert!(waiting.len() < 2000, "the server is as slow as that");
    }
    // From now on nobody waits any more who comes on top of ten.
    gateway.write_policy(&with_queue(10).text(&[gateway.address], gateway.admin));
    assert_eq!(gateway.reload().0, 200);
    eventually("it is known how fast the queue is served", || {
        gateway.number("/limit/waiting") <= 370
    });
    let long = retry_after_of_refused(&gateway);
    eventually("most have gone", || gateway.number("/limit/waiting") <= 60);
    let short = retry_after_of_refused(&gateway);
    println!("{long} s for more than 300, {short} s for about 60");
    assert!(short > 0 && long >= 2 * short, "{long} s and {short} s");
}

/// What a further request is told; 0 if it is not refused.
fn retry_after_of_refused(gateway: &Gateway) -> u64 {
    let mut client = gateway.client();
    client.patience(Duration::from_millis(500));
    client.send("GET /probe HTTP/1.1\r\nHost: x\r\n\r\n");
    match client.try_answer(false) {
        Ok(answer) if answer.status == 503 => retry_after(&answer),
        _ => 0,
    }
}

#[test]
fn clients_that_are_refused_together_do_not_come_back_together() {
    let origin = Origin::echo();
    let tables = "[[rule]]\nrefuse = 503\n[refusal]\nretry_after = \"8s\"";
    let gateway = Gateway::start(&policy(&origin, tables));
    let mut client = gateway.client();
    let told: BTreeSet<u64> = (0..200).map(|_| retry_after(&client.get("/x"))).collect();
    assert_eq!(told, (8..=12).collect(), "each of 8 to 12 s, and nothing else");
}

/// The fields' values, or nothing.
fn limits(answer: &Answer) -> Option<(String, String)> {
    let (policy, state) = (answer.field("ratelimit-policy"), answer.field("ratelimit"));
    assert_eq!(policy.is_some(), state.is_some(), "{}", answer.head);
    Some((policy?.to_owned(), state?.to_owned()))
}

/// A rate so low that no token comes while a test runs.
#[test]
fn a_client_is_told_what_it_has_left() {
    let origin = Origin::echo();
    let tables = "[[rule]]\npath = \"/own\"\npolice = { rate = \"1/h\", burst = 3, per = \"flow\", announce = true }\n\
                  [[rule]]\npath = \"/shared\"\npolice = { rate = \"1/h\", burst = 1 }\n\
                  [[rule]]\npath = \"/told\"\npolice = \"told\"\n\
                  [[policer]]\nname = \"told\"\nrate = \"2/h\"\nburst = 1\nannounce = true\n\
                  [[rule]]\npath = \"/untold\"\n\
                  police = { rate = \"1/h\", burst = 3, per = \"flow\" }\n\
                  [access_log]\npath = \"access.json\"";
    let gateway = Gateway::start(&policy(&origin, tables));
    let mut client = gateway.client();
    for (left, seconds) in [(2, 3600), (1, 7200)] {
        let answer = client.get("/own");
        assert_eq!(answer.status, 200);
        let told = limits(&answer).expect("asked for");
        assert_eq!(told.0, "\"rule.1\";q=3;w=10800");
        assert_eq!(told.1, format!("\"rule.1\";r={left};t={seconds}"));
    }
    assert_eq!(client.get("/own").status, 200);
    let refused = client.get("/own");
    assert_eq!(refused.status, 429);
    let (_, state) = limits(&refused).expect("asked for");
    let seconds: u64 = state.strip_prefix("\"rule.1\";r=0;t=").expect("none left").parse().unwrap();
    assert!((3500..=3600).contains(&seconds), "until the next token: {seconds} s");
    assert_eq!(retry_after(&refused), seconds, "both say the same");
    // What others take from too promises nothing, unless the policy wants it told.
    assert_eq!(limits(&client.get("/shared")), None);
    assert_eq!(limits(&client.get("/shared")), None);
    let told = limits(&client.get("/told")).expect("asked for");
    assert_eq!(told.0, "\"told\";q=1;w=1800");
    assert_eq!(limits(&client.get("/untold")), None);
    assert_eq!(limits(&client.get("/else")), None);
    // The log says which policer it was.
    let log = gateway.policy_path.with_file_name("access.json");
    eventually("the refusals are in the log", || {
        let lines = std::fs::read_to_string(&log).unwrap_or_default();
        let named = |name: &str| lines.contains(&format!("\"policed\",\"policer\":\"{name}\""));
        named("rule.1") && named("rule.2") && lines.matches("\"policer\"").count() == 2
    });
}

const BLOCK: &str = "[[rule]]\npath = \"/search\"\npolice = { rate = \"1/h\", burst = 1, per = \"flow\" }\n\
    [refusal]\nreason_header = \"x-reason\"\n\
    block = { after = 3, within = \"1h\", for = \"2s\" }";

fn reason(answer: &Answer) -> &str {
    answer.field("x-reason").unwrap_or_default()
}

#[test]
fn a_client_that_ignores_retry_after_is_blocked_and_loses_the_connection() {
    let origin = Origin::echo();
    let gateway = Gateway::start(&policy(&origin, BLOCK));
    let mut client = gateway.client();
    assert_eq!(client.get("/search").status, 200);
    for _ in 0..3 {
        let answer = client.get("/search");
        assert_eq!((answer.status, reason(&answer), answer.closes()), (429, "policed", false));
    }
    let begin = Instant::now();
    let answer = client.get("/search");
    assert_eq!((answer.status, reason(&answer), answer.closes()), (429, "blocked", true));
    assert!((1..=3).contains(&retry_after(&answer)), "the rest of the while: {}", answer.head);
    assert!(client.rest().is_empty(), "and then the connection ends");
    // Whatever it asks for, and however often: that does not prolong it.
    let mut blocked = 1;
    eventually("it ends by itself", || {
        let answer = gateway.get("/else");
        blocked += u64::from(answer.status == 429 && reason(&answer) == "blocked");
        answer.status == 200
    });
    assert!(begin.elapsed() > Duration::from_secs(1), "it ended at once");
    assert!(blocked > 1, "{blocked}: however slow the machine");
    assert_eq!(gateway.number("/classes/0/refused/blocked"), blocked);
    assert_eq!(gateway.number("/classes/0/refused/policed"), 3);
    assert_eq!(reason(&gateway.get("/search")), "policed", "it begins anew");
    gateway.assert_conserved();
}

#[test]
fn a_trusted_proxys_connection_is_kept_and_its_other_clients_are_served() {
    let origin = Origin::echo();
    let mut policy = policy(&origin, BLOCK);
    policy.top = "trusted = [\"127.0.0.1\"]".into();
    let gateway = Gateway::start(&policy);
    let mut proxy = gateway.client();
    let mut of = |client: &str| {
        proxy.send(format!("GET /search HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {client}\r\n\r\n"));
        let answer = proxy.answer();
        assert!(!answer.closes(), "{}", answer.head);
        (answer.status, reason(&answer).to_owned())
    };
    for expected in ["", "policed", "policed", "policed", "blocked", "blocked"] {
        assert_eq!(of("192.0.2.1").1, expected);
    }
    assert_eq!(of("192.0.2.2").0, 200);
}

/// Sends so many requests to an origin with this budget, of which one of two servers refuses every
/// connection; how many were answered 502, and how many retries the gateway says that it denied.
fn with_a_dead_server(budget: &str, requests: usize) -> (usize, usize) {
    let (dead, origin) = (Port::reserve(), Origin::echo());
    let servers = [dead.address.to_string(), origin.server()];
    let gateway = Gateway::start(&Policy {
        origin: format!("slots = 10\nfailures_max = 1000\n{budget}"),
        ..Policy::of(&servers)
    });
    let mut failed = 0;
    let mut client = gateway.client();
    for _ in 0..requests {
        let answer = client.get("/x");
        assert!(matches!(answer.status, 200 | 502), "{}", answer.head);
        if answer.status == 502 {
            failed += 1;
            client = gateway.client();
        }
    }
    gateway.assert_conserved();
    let metrics = Client::connect(gateway.admin).get_local("/metrics").text();
    let line =
        metrics.lines().find(|line| line.starts_with("tiergate_origin_retries_denied_total "));
    let denied = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    (failed, denied.unwrap_or_else(|| panic!("it is not there: {metrics}")))
}

#[test]
fn beyond_the_budget_a_request_fails_at_the_server_that_it_met() {
    // Each meets the dead server first; the floor is 100 in ten seconds.
    let (failed, denied) = with_a_dead_server("retry_budget = \"0%\"", 800);
    assert_eq!(failed, denied, "each is counted");
    assert!(failed > 0, "the floor is not 800 in as short a time");
    let (failed, denied) = with_a_dead_server("retry_budget = \"100%\"", 800);
    assert_eq!((failed, denied), (0, 0));
}

#[test]
fn a_few_retries_need_no_budget() {
    assert_eq!(with_a_dead_server("retry_budget = \"0%\"", 60), (0, 0));
}

#[test]
fn the_retries_that_need_no_budget_are_the_operators_to_choose() {
    let (failed, denied) = with_a_dead_server("retry_budget = \"0%\"\nretry_budget_min = 0", 20);
    // Every second meets the dead server first, or more.
    assert_eq!(failed, denied);
    assert!(failed >= 10, "{failed}");
    let enough = "retry_budget = \"0%\"\nretry_budget_min = 80";
    assert_eq!(with_a_dead_server(enough, 800), (0, 0), "800 in ten seconds");
}
