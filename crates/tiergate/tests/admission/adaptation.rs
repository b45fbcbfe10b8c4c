//! Answers of lower quality while a sensor reads more than it should: what the origin gets, what clients and caches
//! get, and what operators see.

use crate::support;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::process::{Child, Command};
use std::time::Duration;
use support::client::Client;
use support::eventually;
use support::gateway::{Gateway, Policy, Port};
use support::origin::Origin;

/// A process that computes until it is ended.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let script = "end=$(($(date +%s) + 120)); while [ $(date +%s) -lt $end ]; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; done";
        Busy(Command::new("sh").args(["-c", script]).spawn().expect("a process"))
    }

    fn signal(&self, signal: Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).expect("it runs");
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Says what it was asked for, at which level, and with which fields of the gateway's.
fn origin() -> Origin {
    Origin::answering(|request| {
        let level = request.values("tiergate-level").join("+");
        let forged = request.values("tiergate_level").join("+");
        let ranges = [request.values("range"), request.values("if-range")].concat();
        let ranges: String = ranges.iter().map(|it| format!(" {it}")).collect();
        let body = format!("{} level={level} forged={forged}{ranges}", request.target);
        let location = match request.target.ends_with("/dir") {
            true => format!("Location: {}/\r\n", request.target),
            false => String::new(),
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nCache-Control: public, max-age=86400\r\n{location}Content-Length: {}\r\n\r\n",
            body.len()
        );
        (head + &body).into_bytes()
    })
}

fn adaptation(gateway: &Gateway) -> Value {
    gateway.status()["adaptations"][0].clone()
}

fn set_point(gateway: &Gateway) -> f64 {
    adaptation(gateway)["set_points"][0]["set_point"].as_f64().unwrap_or(2.0)
}

fn body(gateway: &Gateway, path: &str) -> String {
    gateway.get(path).text()
}

/// Waits while requests come, without which no class has anything to be adapted.
fn eventually_with_requests(what: &str, gateway: &Gateway, is: impl Fn() -> bool) {
    eventually(what, || {
        (0..5).for_each(|_| drop(gateway.get("/background")));
        is()
    });
}

#[test]
fn answers_get_worse_while_the_processor_is_busy_and_better_afterwards() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pid_file, log) = (folder.path().join("pid"), folder.path().join("access.log"));
    let busy = Busy::start();
    busy.signal(Signal::STOP);
    fs::write(&pid_file, busy.0.id().to_string()).expect("written");
    let origin = origin();
    let policy = Policy {
        tables: format!(
            "[access_log]\npath = {:?}\n\
             [[sensor]]\nname = \"server\"\nmeasure = \"cpu\"\npid_file = {:?}\nevery = \"200ms\"\n\
             [[adaptation]]\nname = \"pages\"\nsensor = \"server\"\nreference = \"1%\"\ngain_margin = 3\n\
             [[adaptation.level]]\ntree = \"/low\"\n[[adaptation.level]]\ntree = \"/full/tree\"\n\
             [[class]]\nname = \"all\"\nadaptation = \"pages\"\n\
             [[rule]]\npath = \"/plain\"\nadaptation = false\n",
            log.display().to_string(),
            pid_file.display().to_string()
        ),
        ..Policy::of(&[origin.server()])
    };
    let gateway = Gateway::start(&policy);
    eventually("the process is idle", || adaptation(&gateway)["state"] == "full");
    let full = gateway.get("/a?b=1");
    assert_eq!(full.text(), "/full/tree/a?b=1 level=2/2 forged=");
    assert_eq!(full.field("cache-control"), Some("public, max-age=86400"));
    assert_eq!(gateway.get("/dir").field("location"), Some("/dir/"));

    busy.signal(Signal::CONT);
    eventually_with_requests("the lowest quality", &gateway, || set_point(&gateway) <= 1.0);
    eventually_with_requests("nothing helps", &gateway, || {
        adaptation(&gateway)["state"] == "lowest"
    });
    let mut client = Client::connect(gateway.address);
    client.send(
        "GET //x/../a HTTP/1.1\r\nHost: a\r\nTiergate-Level: 2/2\r\nTiergate_Level: 2/2\r\n\r\n",
    );
    let low = client.answer();
    assert_eq!(low.text(), "/low/a level=1/2 forged=", "nothing that a client says of it arrives");
    let caches: Vec<&str> = low
        .fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("cache-control"))
        .map(|(_, value)| value.as_str())
        .collect();
    assert_eq!(caches, ["public, max-age=86400", "private, no-store"]);
    assert_eq!(gateway.get("/dir").field("location"), Some("/dir/"), "without the tree");
    assert_eq!(body(&gateway, "/plain"), "/plain level= forged=", "a rule says so");
    let asked = |client: &mut Client, path: &str| {
        client.send(format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nRange: bytes=5-\r\nIf-Range: \"x\"\r\n\r\n"
        ));
        client.answer().text()
    };
    assert_eq!(asked(&mut client, "/ranges"), "/low/ranges level=1/2 forged=", "it is whole");
    assert_eq!(asked(&mut client, "/plain"), "/plain level= forged= bytes=5- \"x\"");
    client.send("GET /..%2f..%2fetc HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().status, 400, "nothing leads out of the tree");
    for path in ["/full/tree/a", "/low", "/low/a", "/x/../low/a", "/l%6fw/a"] {
        assert_eq!(gateway.get(path).status, 404, "{path}: trees are reached by levels only");
    }
    assert_eq!(gateway.get("/lower").status, 200);
    let metrics = Client::connect(gateway.admin).get_local("/metrics").text();
    for line in [
        "tiergate_adaptation_set_point{adaptation=\"pages\",class=\"all\"} 1.0",
        "tiergate_adaptation_state{adaptation=\"pages\",state=\"lowest\"} 1",
        "tiergate_adaptation_requests_total{adaptation=\"pages\",level=\"0\"} 0",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line} is missing in\n{metrics}");
    }
    let page = Client::connect(gateway.admin).get_local("/").text();
    let margins = adaptation(&gateway);
    assert!(margins["gain_margins"][1].as_f64() < margins["gain_margins"][0].as_f64(), "{margins}");
    assert!(margins["delay_margin"].as_f64().is_some_and(|delay| delay > 0.0), "{margins}");
    assert!(page.contains("<h3>Adaptations</h3>") && page.contains("lowest"), "{page}");
    eventually("the log has the level", || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.lines().any(|line| line.contains("//x/../a") && line.contains("\"level\":\"1/2\""))
    });

    // Without a reading the levels stay, and nothing else changes.
    drop(busy);
    eventually_with_requests("the sensor is silent", &gateway, || {
        adaptation(&gateway)["state"] == "blind"
    });
    assert_eq!(body(&gateway, "/a"), "/low/a level=1/2 forged=");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(set_point(&gateway), 1.0);
    let idle = Busy::start();
    idle.signal(Signal::STOP);
    fs::write(&pid_file, idle.0.id().to_string()).expect("written");
    eventually_with_requests("full quality again", &gateway, || set_point(&gateway) >= 2.0);
    assert_eq!(body(&gateway, "/a"), "/full/tree/a level=2/2 forged=");
}

#[test]
fn a_level_may_be_another_pool_and_level_0_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let pid_file = folder.path().join("pid");
    let busy = Busy::start();
    fs::write(&pid_file, busy.0.id().to_string()).expect("written");
    let (full, cheap) = (
        Origin::answering(|_| support::origin::ok("full")),
        Origin::answering(|_| support::origin::ok("cheap")),
    );
    let policy = Policy {
        tables: format!(
            "[refusal]\nreason_header = \"X-Why\"\n\
             [[pool]]\nname = \"cheap\"\nservers = [{:?}]\n\
             [[sensor]]\nname = \"server\"\nmeasure = \"cpu\"\npid_file = {:?}\nevery = \"200ms\"\n\
             [[adaptation]]\nname = \"pages\"\nsensor = \"server\"\nreference = \"1%\"\nrefuse = true\ngain_margin = 3\n\
             [[adaptation.level]]\npool = \"cheap\"\n[[adaptation.level]]\n\
             [[class]]\nname = \"all\"\nadaptation = \"pages\"\n",
            cheap.server(),
            pid_file.display().to_string()
        ),
        ..Policy::of(&[full.server()])
    };
    let gateway = Gateway::start(&policy);
    assert_eq!(body(&gateway, "/"), "full");
    eventually_with_requests("another pool", &gateway, || body(&gateway, "/") == "cheap");
    eventually_with_requests("no client", &gateway, || gateway.get("/").status == 503);
    assert_eq!(gateway.get("/").field("x-why"), Some("level"));
    let refused = &gateway.status()["classes"][0]["refused"]["level"];
    assert!(refused.as_u64().is_some_and(|count| count > 0), "{refused}");
}

#[test]
fn where_a_level_s_pool_is_down_its_tree_is_not_asked_for_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let pid_file = folder.path().join("pid");
    let busy = Busy::start();
    fs::write(&pid_file, busy.0.id().to_string()).expect("written");
    let (origin, cheap) = (origin(), origin());
    let held = Port::reserve();
    let down = held.address.to_string();
    let tables = |low: &str, full: &str| {
        let health = "health = { path = \"/\", interval = \"100ms\", fall = 1 }\n";
        format!(
            "[[pool]]\nname = \"low\"\nservers = [{low:?}]\n{health}[[pool]]\nname = \"full\"\nservers = [{full:?}]\n{health}\
             [[sensor]]\nname = \"server\"\nmeasure = \"cpu\"\npid_file = {:?}\nevery = \"200ms\"\n\
             [[adaptation]]\nname = \"pages\"\nsensor = \"server\"\nreference = \"1%\"\ngain_margin = 3\n\
             level = [{{ tree = \"/low\", pool = \"low\" }}, {{ tree = \"/full\", pool = \"full\" }}]\n\
             [[class]]\nname = \"all\"\nadaptation = \"pages\"\n",
            pid_file.display().to_string()
        )
    };
    let policy = |low: &str, full: &str| Policy {
        tables: tables(low, full),
        ..Policy::of(&[origin.server()])
    };
    let gateway = Gateway::start(&policy(&cheap.server(), &cheap.server()));
    eventually_with_requests("the lowest quality", &gateway, || set_point(&gateway) <= 1.0);
    assert_eq!(body(&gateway, "/a"), "/low/a level=1/2 forged=");
    let reload = |low: &str, full: &str| {
        gateway.write_policy(&policy(low, full).text(&[gateway.address], gateway.admin));
        assert_eq!(gateway.reload().0, 200);
    };
    reload(&down, &cheap.server());
    eventually_with_requests("full quality", &gateway, || {
        body(&gateway, "/a") == "/full/a level=2/2 forged="
    });
    reload(&down, &down);
    eventually_with_requests("as without levels", &gateway, || {
        body(&gateway, "/a") == "/a level= forged="
    });
}

#[test]
fn a_site_keeps_what_it_is_guaranteed_while_the_others_get_worse_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let pid_file = folder.path().join("pid");
    let busy = Busy::start();
    fs::write(&pid_file, busy.0.id().to_string()).expect("written");
    let origin = origin();
    // What the sites ask for here is far below what one of them is guaranteed; the process uses more than all may.
    let tables = |guarantee: &str| {
        format!(
            "[[sensor]]\nname = \"server\"\nmeasure = \"cpu\"\npid_file = {:?}\nevery = \"200ms\"\n\
             [[adaptation]]\nname = \"pages\"\nsensor = \"server\"\nreference = \"1%\"\ngain_margin = 3\n\
             cost = {{ request = \"10us\", mebibyte = \"10us\" }}\nlevel = [{{}}, {{}}]\nrefuse = true\n\
             [[site]]\nname = \"shop\"\n{guarantee}\n[[site]]\nname = \"rest\"\n\
             [[class]]\nname = \"rest\"\nsite = \"rest\"\nadaptation = \"pages\"\n\
             [[class]]\nname = \"shop\"\nsite = \"shop\"\nadaptation = \"pages\"\n\
             [[rule]]\npath = \"/shop\"\nclass = \"shop\"\n[[rule]]\npath = \"/**\"\nclass = \"rest\"\n",
            pid_file.display().to_string()
        )
    };
    let policy =
        |guarantee: &str| Policy { tables: tables(guarantee), ..Policy::of(&[origin.server()]) };
    let guaranteed = "guarantee = { requests = \"900/s\", bandwidth = \"8Mbit/s\" }";
    let gateway = Gateway::start(&policy(guaranteed));
    eventually_with_requests("the others get the lowest quality", &gateway, || {
        drop(gateway.get("/shop"));
        body(&gateway, "/").contains("level=1/2")
    });
    assert!(body(&gateway, "/shop").contains("level=2/2"));
    // Nothing is left to take from the others: the guarantees are cut.
    eventually_with_requests("the guarantees are cut", &gateway, || {
        drop(gateway.get("/shop"));
        adaptation(&gateway)["guarantees_kept"].as_f64().is_some_and(|kept| kept < 0.9)
    });
    let status = adaptation(&gateway);
    let shop = &status["guarantees"][0];
    assert_eq!(
        (&shop["site"], status["guarantees"].as_array().map(Vec::len)),
        (&"shop".into(), Some(1))
    );
    assert!(shop["guaranteed"].as_f64().is_some_and(|it| (it - 0.009).abs() < 0.001), "{shop}");
    assert!(shop["used"].as_f64().is_some_and(|it| it > 0.0 && it < 0.009), "{shop}");
    assert!(body(&gateway, "/shop").contains("level=2/2"), "it asks for little of it");
    let metrics = Client::connect(gateway.admin).get_local("/metrics").text();
    for metric in [
        "tiergate_guarantee_ratio{adaptation=\"pages\",site=\"shop\"} 0.009",
        "tiergate_guarantee_used_ratio{adaptation=\"pages\",site=\"shop\"} 0.0",
        "tiergate_guarantee_kept_ratio{adaptation=\"pages\"} 0.",
    ] {
        assert!(metrics.contains(metric), "{metric} is missing in\n{metrics}");
    }
    let page = Client::connect(gateway.admin).get_local("/").text();
    assert!(page.contains("<h3>Guarantees</h3>") && page.contains("of each is kept"), "{page}");

    // More than there is, is refused, and what holds stays.
    let (status, said) = {
        let more = "guarantee = { requests = \"1100/s\" }";
        let text = policy(more).text(&[gateway.address], gateway.admin);
        gateway.write_policy(&text);
        gateway.reload()
    };
    assert!(
        status >= 400 && said.contains("is too much: with it, 1.1% of what sensor server"),
        "{said}"
    );
    assert!(adaptation(&gateway)["guarantees"][0]["guaranteed"].as_f64() < Some(0.01));
    let text = policy("").text(&[gateway.address], gateway.admin);
    gateway.write_policy(&text);
    assert_eq!(gateway.reload().0, 200);
    assert_eq!(adaptation(&gateway).get("guarantees"), None);
    eventually_with_requests("without a guarantee it is as the others", &gateway, || {
        body(&gateway, "/shop").contains("level=1/2")
    });
}
