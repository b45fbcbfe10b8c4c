//! Sessions at the built gateway: who was admitted goes first, whoever only says so does not.
//!
//! One slot, held by a request that the origin answers when told; whatever waits meanwhile reaches the
//! origin in the order that the gate decides.

use crate::support;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use support::answer::Answer;
use support::client::Client;
use support::eventually;
use support::gateway::{Gateway, Policy};
use support::origin::{Origin, Request, ok};
use support::process::curl;

const APPLICATION: &str = "[session]\ncookie = \"SID\"\n";
const OWN: &str = "[session]\nown = true\n";

/// An origin that keeps `/hold` until it is let go, and notes the targets in the order that they come.
struct House {
    origin: Origin,
    seen: Arc<Mutex<Vec<String>>>,
    held: Arc<(Mutex<bool>, Condvar)>,
}

fn answer(request: &Request) -> Vec<u8> {
    let field = |name: &str, value: &str| {
        format!("HTTP/1.1 200 OK\r\n{name}: {value}\r\nContent-Length: 2\r\n\r\nok").into_bytes()
    };
    match request.target.as_str() {
        "/login" => field("Set-Cookie", "SID=real; Path=/"),
        "/again" => field("Set-Cookie", "SID=other; Path=/"),
        "/logout" => field("Set-Cookie", "SID=; Max-Age=0"),
        "/shared" => field("Cache-Control", "public, max-age=60"),
        "/broken" => {
            b"HTTP/1.1 500 No\r\nSet-Cookie: SID=broken\r\nContent-Length: 0\r\n\r\n".into()
        }
        _ => ok("ok"),
    }
}

impl House {
    fn new() -> Self {
        let (seen, held) = (Arc::<Mutex<Vec<String>>>::default(), Arc::default());
        let (noted, gate): (_, Arc<(Mutex<bool>, Condvar)>) = (seen.clone(), held);
        let held = gate.clone();
        let origin = Origin::answering(move |request| {
            noted.lock().expect("no panic").push(request.target.clone());
            if request.target == "/hold" {
                let (held, changed) = &*gate;
                let held = held.lock().expect("no panic");
                let longest = Duration::from_secs(20);
                drop(changed.wait_timeout_while(held, longest, |held| *held).expect("no panic"));
            }
            answer(request)
        });
        House { origin, seen, held }
    }

    fn gateway(&self, session: &str) -> Gateway {
        Gateway::start(&Policy {
            servers: vec![self.origin.server()],
            origin: "slots = 1".into(),
            tables: format!("[[class]]\nname = \"all\"\ndeadline = \"15s\"\n{session}"),
            ..Policy::default()
        })
    }

    /// Sends the requests one after the other while the slot is held: the order in which they reach
    /// the origin. A request is its target, its cookie and its host.
    fn order(&self, gateway: &Gateway, requests: &[(&str, &str, &str)]) -> Vec<String> {
        *self.held.0.lock().expect("no panic") = true;
        let mut clients = vec![send(gateway, "/hold", "", "a.test")];
        eventually("the slot is held", || {
            let mut seen = self.seen.lock().expect("no panic");
            let held = seen.last().is_some_and(|target| target == "/hold");
            if held {
                seen.clear();
            }
            held
        });
        for (count, (target, cookie, host)) in requests.iter().enumerate() {
            clients.push(send(gateway, target, cookie, host));
            eventually("it waits", || gateway.number("/limit/waiting") == count as u64 + 1);
        }
        *self.held.0.lock().expect("no panic") = false;
        self.held.1.notify_all();
        for client in &mut clients {
            assert_eq!(client.answer().status, 200);
        }
        self.seen.lock().expect("no panic").clone()
    }
}

fn send(gateway: &Gateway, target: &str, cookie: &str, host: &str) -> Client {
    let mut client = gateway.client();
    let cookie = if cookie.is_empty() { String::new() } else { format!("Cookie: {cookie}\r\n") };
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{cookie}\r\n"));
    client
}

fn get(gateway: &Gateway, target: &str, cookie: &str, host: &str) -> Answer {
    send(gateway, target, cookie, host).answer()
}

/// Our own cookie of an answer, as a client sends it back.
fn own_cookie(answer: &Answer) -> Option<String> {
    let line = answer.field("set-cookie")?;
    assert!(line.ends_with("; HttpOnly; SameSite=Lax; Path=/"), "{line}");
    Some(line.split(';').next().expect("a pair").to_owned())
}

fn metrics(gateway: &Gateway) -> String {
    Client::connect(gateway.admin).get_local("/metrics").text()
}

#[test]
fn the_application_s_session_goes_before_new_and_made_up_ones() {
    let house = House::new();
    let gateway = house.gateway(APPLICATION);
    let plain = get(&gateway, "/login", "", "a.test");
    assert_eq!(plain.field("set-cookie"), Some("SID=real; Path=/"));
    get(&gateway, "/broken", "", "a.test");
    let order = house.order(
        &gateway,
        &[
            ("/new", "", "a.test"),
            ("/made-up", "SID=made-up", "a.test"),
            ("/never-answered-well", "SID=broken", "a.test"),
            ("/other-name", "sid=real", "a.test"),
            ("/running", "x=1; SID=real", "a.test"),
        ],
    );
    let expected = ["/running", "/new", "/made-up", "/never-answered-well", "/other-name"];
    assert_eq!(order, expected);
    gateway.assert_conserved();
}

#[test]
fn a_session_follows_its_new_name_and_ends_with_it() {
    let house = House::new();
    let gateway = house.gateway(APPLICATION);
    get(&gateway, "/login", "", "a.test");
    get(&gateway, "/again", "SID=real", "a.test");
    let order = house.order(&gateway, &[("/old", "SID=real", "a"), ("/named", "SID=other", "a")]);
    assert_eq!(order, ["/named", "/old"]);
    get(&gateway, "/logout", "SID=other", "a.test");
    let order = house.order(&gateway, &[("/new", "", "a"), ("/ended", "SID=other", "a")]);
    assert_eq!(order, ["/new", "/ended"]);
    let text = metrics(&gateway);
    assert!(
        text.contains("tiergate_sessions_ended_total{class=\"all\",end=\"ended\"} 1"),
        "{text}"
    );
    // `/login` and `/again` under the first name, `/named` under the second; `/logout` ends it.
    assert!(text.contains("tiergate_session_requests_sum{class=\"all\"} 3"), "{text}");
}

#[test]
fn an_idle_session_is_over() {
    let house = House::new();
    let gateway = house.gateway("[session]\ncookie = \"SID\"\nidle = \"1s\"\n");
    get(&gateway, "/login", "", "a.test");
    std::thread::sleep(Duration::from_millis(1100));
    let order = house.order(&gateway, &[("/new", "", "a"), ("/late", "SID=real", "a")]);
    assert_eq!(order, ["/new", "/late"]);
    assert!(metrics(&gateway).contains("end=\"idle\"} 1"));
}

#[test]
fn our_own_cookie_is_believed_and_no_forgery_of_it() {
    let house = House::new();
    let gateway = house.gateway(OWN);
    let cookie = own_cookie(&get(&gateway, "/first", "", "a.test")).expect("a cookie is set");
    let again = get(&gateway, "/second", &cookie, "a.test");
    assert_eq!(own_cookie(&again), None, "it is renewed seldom");
    let other_gateway = house.gateway(OWN);
    let foreign = own_cookie(&get(&other_gateway, "/first", "", "a.test")).expect("a cookie");
    let mut altered = cookie.clone();
    let last = altered.pop().expect("not empty");
    altered.push(if last == 'A' { 'B' } else { 'A' });
    let made_up = format!("tiergate_session={}", "A".repeat(48));
    let order = house.order(
        &gateway,
        &[
            ("/made-up", &made_up, "a.test"),
            ("/altered", &altered, "a.test"),
            ("/other-key", &foreign, "a.test"),
            ("/other-site", &cookie, "b.test"),
            ("/running", &cookie, "A.TEST"),
        ],
    );
    assert_eq!(order, ["/running", "/made-up", "/altered", "/other-key", "/other-site"]);
}

#[test]
fn an_expired_cookie_that_is_sent_again_begins_a_session() {
    let house = House::new();
    let gateway = house.gateway("[session]\nown = true\nidle = \"2s\"\n");
    let cookie = own_cookie(&get(&gateway, "/first", "", "a.test")).expect("a cookie is set");
    std::thread::sleep(Duration::from_millis(2100));
    let order = house.order(&gateway, &[("/new", "", "a.test"), ("/late", &cookie, "a.test")]);
    assert_eq!(order, ["/new", "/late"]);
}

#[test]
fn our_own_cookie_survives_a_restart_and_is_known_to_other_gateways() {
    let house = House::new();
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "0123456789abcdef0123456789abcdef\n").expect("our own folder");
    let session = format!("{OWN}secret_file = {:?}\n", secret.display().to_string());
    let cookie = {
        let mut gateway = house.gateway(&session);
        let cookie = own_cookie(&get(&gateway, "/first", "", "a.test")).expect("a cookie is set");
        gateway.drain();
        cookie
    };
    let gateway = house.gateway(&session);
    let order = house.order(&gateway, &[("/new", "", "a.test"), ("/running", &cookie, "a.test")]);
    assert_eq!(order, ["/running", "/new"]);
    let text = metrics(&gateway);
    assert!(text.contains("tiergate_sessions_resumed_total{class=\"all\"} 1"), "{text}");
}

#[test]
fn shared_answers_carry_no_cookie_and_nor_do_errors() {
    let house = House::new();
    let gateway = house.gateway(OWN);
    assert_eq!(own_cookie(&get(&gateway, "/shared", "", "a.test")), None);
    // The origin's own is passed on, and nothing is added to it.
    let broken = get(&gateway, "/broken", "", "a.test");
    assert_eq!(broken.field("set-cookie"), Some("SID=broken"));
    let without = house.gateway("");
    assert_eq!(own_cookie(&get(&without, "/first", "", "a.test")), None);
}

#[test]
fn a_session_s_requests_beyond_its_share_wait_as_if_new() {
    let house = House::new();
    let gateway = house.gateway("[session]\ncookie = \"SID\"\nat_once_max = 2\n");
    get(&gateway, "/login", "", "a.test");
    let sid = "SID=real";
    let order = house.order(
        &gateway,
        &[("/new", "", "a"), ("/1", sid, "a"), ("/2", sid, "a"), ("/3", sid, "a")],
    );
    assert_eq!(order, ["/1", "/2", "/new", "/3"]);
}

#[test]
fn sessions_are_known_over_http2_too() {
    let house = House::new();
    let gateway = house.gateway(OWN);
    let url = format!("http://{}/first", gateway.address);
    let Some(first) = curl(&["-i", "--http2-prior-knowledge", &url]) else {
        return;
    };
    let line = first.lines().find(|line| line.starts_with("set-cookie: tiergate_session="));
    let line = line.unwrap_or_else(|| panic!("no cookie in {first}"));
    let cookie = line["set-cookie: ".len()..].split(';').next().expect("a pair");
    let second = curl(&["-i", "--http2-prior-knowledge", "-b", cookie, &url]).expect("curl");
    assert!(!second.contains("set-cookie"), "{second}");
    let text = metrics(&gateway);
    assert!(text.contains("tiergate_sessions_started_total{class=\"all\"} 1"), "{text}");
    assert!(text.contains("tiergate_sessions_running 1"), "{text}");
}

#[test]
fn a_reload_ends_no_session() {
    let house = House::new();
    let gateway = house.gateway(APPLICATION);
    get(&gateway, "/login", "", "a.test");
    let text = std::fs::read_to_string(&gateway.policy_path).expect("our own file");
    gateway.write_policy(&text.replace("\"all\"", "\"every\""));
    let (status, told) = gateway.reload();
    assert_eq!(status, 200, "{told}");
    let order = house.order(&gateway, &[("/new", "", "a"), ("/running", "SID=real", "a")]);
    assert_eq!(order, ["/running", "/new"]);
    // Sessions are no more.
    gateway.write_policy(&text.replace(APPLICATION, ""));
    assert_eq!(gateway.reload().0, 200);
    let order = house.order(&gateway, &[("/new", "", "a"), ("/any", "SID=real", "a")]);
    assert_eq!(order, ["/new", "/any"]);
    assert!(metrics(&gateway).contains("tiergate_sessions_running 0"));
}
