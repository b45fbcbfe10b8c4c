//! `mode = "observe"` in a part of a policy, or in all of it: what is observed refuses nobody and is counted, and the same
//! file without the mode refuses.

use crate::support;
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::Duration;
use support::client::Client;
use support::eventually;
use support::gateway::{Gateway, Policy};
use support::origin::{Origin, ok};

const MODE: &str = "mode = \"observe\"\n";

/// What status says of a class of the observed side.
fn class(gateway: &Gateway, name: &str) -> Value {
    let status = gateway.status();
    let classes = status["observed"]["classes"].as_array().cloned().unwrap_or_default();
    classes.into_iter().find(|it| it["name"] == name).unwrap_or(Value::Null)
}

fn would_refuse(gateway: &Gateway) -> u64 {
    let status = gateway.status();
    let classes = status["observed"]["classes"].as_array().cloned().unwrap_or_default();
    classes.iter().filter_map(|it| it["would_refuse"].as_u64()).sum()
}

fn metrics(gateway: &Gateway) -> String {
    Client::connect(gateway.admin).get_local("/metrics").text()
}

fn assert_has(metrics: &str, lines: &[&str]) {
    for line in lines {
        assert!(metrics.lines().any(|it| it == *line), "{line} is missing in\n{metrics}");
    }
}

/// How many of five requests are refused.
fn refused(gateway: &Gateway, path: &str) -> usize {
    (0..5).filter(|_| gateway.get(path).status >= 400).count()
}

/// The tables have `MODE` once: with it nobody is refused and so many of five would be, without it they are; by reload.
fn observed_then_enforced(tables: &str, path: &str, count: usize) {
    let origin = Origin::echo();
    let policy = Policy { tables: tables.to_owned(), ..Policy::of(&[origin.server()]) };
    let gateway = Gateway::start(&policy);
    assert_eq!(refused(&gateway, path), 0, "{tables}");
    eventually("they are counted", || would_refuse(&gateway) == count as u64);
    let text = fs::read_to_string(&gateway.policy_path).expect("a policy");
    assert_eq!(text.matches(MODE).count(), 1, "{tables}");
    gateway.write_policy(&text.replace(MODE, "mode = \"enforce\"\n"));
    assert_eq!(gateway.reload().0, 200);
    assert_eq!(refused(&gateway, path), count, "{tables}");
    assert_eq!(gateway.status().get("observed"), None, "nothing is observed any more");
}

#[test]
fn a_rule_that_refuses() {
    let tables = format!("[[rule]]\n{MODE}path = \"/x\"\nrefuse = true\n");
    observed_then_enforced(&tables, "/x", 5);
}

#[test]
fn a_policer_with_a_table_of_its_own() {
    let tables = format!(
        "[[policer]]\n{MODE}name = \"two\"\nrate = \"1/m\"\nburst = 2\n\
         [[rule]]\npath = \"/x\"\npolice = \"two\"\n"
    );
    observed_then_enforced(&tables, "/x", 3);
}

#[test]
fn a_policer_of_a_rule_and_of_a_class() {
    let own = "rate = \"1/m\"\nburst = 2\n";
    let tables = format!("[[rule]]\npath = \"/x\"\n[rule.police]\n{MODE}{own}");
    observed_then_enforced(&tables, "/x", 3);
    let tables = format!("[[class]]\nname = \"a\"\n[class.police]\n{MODE}{own}");
    observed_then_enforced(&tables, "/x", 3);
}

#[test]
fn a_class_with_the_rules_that_name_it() {
    let tables = format!(
        "[[class]]\nname = \"pages\"\n[[class]]\n{MODE}name = \"search\"\npolice = {{ rate = \"1/m\", burst = 1 }}\n\
         [[rule]]\npath = \"/search\"\nclass = \"search\"\n[[rule]]\npath = \"/*\"\nclass = \"pages\"\n"
    );
    observed_then_enforced(&tables, "/search", 4);
}

#[test]
fn a_site_with_its_classes_and_their_rules() {
    let tables = format!(
        "[[site]]\nname = \"shop\"\n[[site]]\n{MODE}name = \"blog\"\n\
         [[class]]\nname = \"blog\"\nsite = \"blog\"\npolice = {{ rate = \"1/m\", burst = 1 }}\n\
         [[class]]\nname = \"shop\"\nsite = \"shop\"\n\
         [[rule]]\npath = \"/blog\"\nclass = \"blog\"\n"
    );
    observed_then_enforced(&tables, "/blog", 4);
}

#[test]
fn names_and_numbers_of_what_is_observed_are_on_the_observed_side_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    let origin = Origin::echo();
    let policy = Policy {
        tables: format!(
            "[access_log]\npath = {:?}\n[[class]]\nname = \"pages\"\n[[class]]\n{MODE}name = \"search\"\n\
             [[policer]]\n{MODE}name = \"slow\"\nrate = \"1/m\"\nburst = 1\n\
             [[rule]]\nname = \"bots\"\n{MODE}header.user-agent = \"*bot*\"\nrefuse = true\n\
             [[rule]]\npath = \"/search\"\nclass = \"search\"\npolice = \"slow\"\n\
             [[rule]]\npath = \"/*\"\nclass = \"pages\"\n",
            log.display().to_string()
        ),
        ..Policy::of(&[origin.server()])
    };
    let gateway = Gateway::start(&policy);
    assert_eq!(gateway.get("/search").status, 200);
    assert_eq!(gateway.get("/search").status, 200);
    let mut bot = gateway.client();
    bot.send("GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: a bot\r\n\r\n");
    assert_eq!(bot.answer().status, 200);
    eventually("all are done", || would_refuse(&gateway) == 2);
    let page = metrics(&gateway);
    assert_has(
        &page,
        &[
            "tiergate_rule_hits_total{rule=\"3\"} 3",
            "tiergate_observed_rule_hits_total{rule=\"bots\"} 1",
            "tiergate_observed_rule_hits_total{rule=\"2\"} 2",
            "tiergate_observed_policer_passed_total{policer=\"slow\"} 1",
            "tiergate_observed_policer_refused_total{policer=\"slow\"} 1",
            "tiergate_observed_refused_total{class=\"search\",reason=\"policed\"} 1",
        ],
    );
    let in_force = page.lines().filter(|it| !it.starts_with('#'));
    for line in in_force.filter(|it| !it.starts_with("tiergate_observed_")) {
        for name in ["search", "slow", "bots", "1", "2"] {
            let label = format!("=\"{name}\"");
            assert!(
                !line.contains(&label) || line.contains("le=") || line.contains("status="),
                "{line}"
            );
        }
    }
    let both = "\"rule\":3,\"verdict\":\"admitted\"";
    let observed = "\"observed_class\":\"search\",\"observed_verdict\":\"refused\",\"observed_reason\":\"policed\",\"observed_rule\":2";
    eventually("the log has both decisions", || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.lines().any(|line| line.contains(both) && line.contains(observed))
    });

    // One part is enforced, the others are observed as before: nothing that was counted is lost on either side.
    let text = fs::read_to_string(&gateway.policy_path).expect("a policy");
    let enforced = text.replace(&format!("name = \"bots\"\n{MODE}"), "name = \"bots\"\n");
    gateway.write_policy(&enforced);
    assert_eq!(gateway.reload().0, 200);
    bot.send("GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: a bot\r\n\r\n");
    assert_eq!(bot.answer().status, 403);
    // Without a class of its own it is counted in the default one, which is that of the whole policy here.
    eventually("both refuse", || class(&gateway, "search")["both_refuse"] == 1);
    assert_has(
        &metrics(&gateway),
        &[
            "tiergate_rule_hits_total{rule=\"3\"} 3",
            "tiergate_rule_hits_total{rule=\"bots\"} 1",
            "tiergate_observed_rule_hits_total{rule=\"bots\"} 2",
            "tiergate_observed_policer_refused_total{policer=\"slow\"} 1",
        ],
    );
    assert_eq!(
        (class(&gateway, "search")["would_refuse"].as_u64(), would_refuse(&gateway)),
        (Some(2), 2)
    );
}

#[test]
fn a_control_moves_the_observed_rate_alone() {
    let origin = Origin::echo();
    let watched = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = watched.local_addr().expect("bound");
    let policy = Policy {
        tables: format!(
            "[[sensor]]\nname = \"queue\"\nmeasure = \"listen-queue\"\naddress = \"{address}\"\nevery = \"100ms\"\n\
             [[policer]]\nname = \"slow\"\nrate = \"50/s\"\n[policer.control]\n{MODE}\
             sensor = \"queue\"\nreference = 4\nmin = \"2/s\"\n\
             [[rule]]\npath = \"/**\"\npolice = \"slow\"\n"
        ),
        ..Policy::of(&[origin.server()])
    };
    let gateway = Gateway::start(&policy);
    let _clients: Vec<_> =
        (0..60).map(|_| std::net::TcpStream::connect(address).expect("it listens")).collect();
    eventually("the least, as observed", || {
        gateway.status()["observed"]["policers"][0]["tokens_per_second"] == 2.0
    });
    let in_force = &gateway.status()["policers"][0];
    assert_eq!(
        (&in_force["tokens_per_second"], &in_force["control"]),
        (&50.0.into(), &Value::Null)
    );
    eventually("its metric", || {
        let page = metrics(&gateway);
        page.contains("tiergate_observed_policer_tokens_per_second{policer=\"slow\"} 2.0\n")
            && page.contains("tiergate_policer_tokens_per_second{policer=\"slow\"} 50.0\n")
    });
}

#[test]
fn an_adaptation_gives_full_quality_and_counts_its_levels() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    let origin = Origin::answering(|request| {
        assert!(request.values("tiergate-level").is_empty());
        ok(&request.target)
    });
    let watched = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = watched.local_addr().expect("bound");
    let policy = Policy {
        tables: format!(
            "[access_log]\npath = {:?}\n\
             [[sensor]]\nname = \"queue\"\nmeasure = \"listen-queue\"\naddress = \"{address}\"\nevery = \"200ms\"\n\
             [[adaptation]]\n{MODE}name = \"pages\"\nsensor = \"queue\"\nreference = 2\ngain_margin = 3\n\
             level = [{{ tree = \"/low\" }}, {{ tree = \"/full\" }}]\n\
             [[class]]\nname = \"all\"\nadaptation = \"pages\"\n",
            log.display().to_string()
        ),
        ..Policy::of(&[origin.server()])
    };
    let gateway = Gateway::start(&policy);
    let _clients: Vec<_> =
        (0..60).map(|_| std::net::TcpStream::connect(address).expect("it listens")).collect();
    eventually("the lowest quality, as observed", || {
        (0..5).for_each(|_| assert_eq!(gateway.get("/a").text(), "/full/a"));
        gateway.status()["observed"]["adaptations"][0]["answered"][1].as_u64() > Some(5)
    });
    let status = gateway.status();
    assert_eq!(status.get("adaptations"), None);
    for path in ["/low/a", "/full/a"] {
        assert_eq!(gateway.get(path).status, 404, "{path}: trees are reached by levels only");
    }
    assert_eq!(status["observed"]["adaptations"][0]["name"], "pages");
    assert!(metrics(&gateway).contains(
        "tiergate_observed_adaptation_requests_total{adaptation=\"pages\",level=\"1\"} "
    ));
    eventually("the log has the level", || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.contains("\"observed_level\":\"1/2\"") && !text.contains("\"level\":\"1/2\"")
    });
}

#[test]
fn a_whole_policy_lets_everything_through_and_routes_as_it_says() {
    let slow = Origin::answering(|_| {
        thread::sleep(Duration::from_millis(100));
        ok("default")
    });
    let [reports, shop] = ["reports", "shop"].map(|name| Origin::answering(move |_| ok(name)));
    let policy = Policy {
        top: MODE.to_owned() + "default_class = \"rest\"\npolice = { rate = \"1/m\", burst = 1 }\n",
        origin: "slots = 1\n".to_owned(),
        tables: format!(
            "[[pool]]\nname = \"reports\"\nservers = [{:?}]\nslots = 1\n\
             [[pool]]\nname = \"shop\"\nservers = [{:?}]\nslots = 1\n\
             [[class]]\nname = \"shop\"\npool = \"shop\"\n[[class]]\nname = \"rest\"\nqueue = 0\n\
             [[rule]]\npath = \"/x\"\nrefuse = true\n\
             [[rule]]\npath = \"/reports\"\npool = \"reports\"\nslots = 9\n\
             [[rule]]\npath = [\"/shop/*\", \"/reports\"]\nclass = \"shop\"\n",
            reports.server(),
            shop.server()
        ),
        ..Policy::of(&[slow.server()])
    };
    let gateway = Gateway::start(&policy);
    let body = |path: &str| {
        let answer = gateway.get(path);
        (answer.status, answer.text())
    };
    assert_eq!(body("/reports"), (200, "reports".into()), "a rule's pool goes before its class's");
    assert_eq!(body("/shop/a"), (200, "shop".into()));
    assert_eq!(body("/x"), (200, "default".into()));
    let address = gateway.address;
    let clients: Vec<_> =
        (0..20).map(|_| thread::spawn(move || support::client::get(address, "/").status)).collect();
    assert!(clients.into_iter().all(|it| it.join().expect("it ends") == 200));
    eventually("it would have refused all but the first", || would_refuse(&gateway) == 22);
    let status = gateway.status();
    assert_eq!(
        status["classes"][1]["refused"]
            .as_object()
            .map(|it| it.values().filter_map(Value::as_u64).sum::<u64>()),
        Some(0)
    );
    assert_eq!(class(&gateway, "rest")["refused"]["rule"], 1);
    eventually("it says so", || gateway.log().contains("every request is let through"));

    let text = fs::read_to_string(&gateway.policy_path).expect("a policy");
    gateway.write_policy(&text.replace(MODE, ""));
    assert_eq!(gateway.reload().0, 200);
    assert_eq!(gateway.get("/x").status, 403);
    assert_eq!(refused(&gateway, "/"), 4, "one token is there");
}

#[test]
fn what_waits_too_long_in_an_observed_queue_is_told() {
    let origin = Origin::answering(|_| {
        thread::sleep(Duration::from_millis(100));
        ok("done")
    });
    let policy = Policy {
        top: MODE.to_owned(),
        origin: "slots = 2\n".to_owned(),
        tables: "[[class]]\nname = \"all\"\ndeadline = \"200ms\"\nqueue = 3\n".to_owned(),
        ..Policy::of(&[origin.server()])
    };
    let gateway = Gateway::start(&policy);
    let address = gateway.address;
    let clients: Vec<_> =
        (0..20).map(|_| thread::spawn(move || support::client::get(address, "/").status)).collect();
    assert!(clients.into_iter().all(|it| it.join().expect("it ends") == 200));
    eventually("all are done", || {
        let all = class(&gateway, "all");
        let sum = |key: &str| all[key].as_u64().unwrap_or_default();
        sum("would_refuse") + sum("both_admit") == 20
    });
    let all = class(&gateway, "all");
    assert!(all["would_refuse"].as_u64() >= Some(10), "{all}");
    assert!(gateway.status()["classes"][0]["wait"]["total"]["p99_seconds"].as_f64() < Some(0.05));
}

#[test]
fn another_policy_is_not_observed_beside_parts() {
    let folder = tempfile::tempdir().expect("a folder");
    let [parts, plain] = ["parts.toml", "plain.toml"].map(|name| folder.path().join(name));
    fs::write(&plain, "[origin]\nservers = [\"127.0.0.1:1\"]\n").expect("written");
    let rule = format!(
        "[origin]\nservers = [\"127.0.0.1:1\"]\n[[rule]]\n{MODE}path = \"/x\"\nrefuse = true\n"
    );
    fs::write(&parts, rule).expect("written");
    for (policy, observed, expected) in [
        (
            &parts,
            &plain,
            "parts.toml:4:8: rule[1].mode: one policy is observed at a time, and this one has observed parts: remove `mode = \"observe\"` \
             wherever it is written, or start without --observe",
        ),
        (
            &plain,
            &parts,
            "parts.toml:4:8: rule[1].mode: this policy is observed as a whole: remove `mode = \"observe\"` wherever it is written",
        ),
    ] {
        let run = Command::new(env!("CARGO_BIN_EXE_tiergate"))
            .arg("run")
            .arg(policy)
            .arg("--observe")
            .arg(observed)
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success() && said.contains(expected), "{said}");
    }
}

fn tiergate(arguments: &[&str]) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_tiergate")).args(arguments).output();
    let run = run.expect("it runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).expect("text")
}

#[test]
fn check_and_explain_say_what_is_observed_and_what_is_in_force() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("p.toml");
    let file = path.display().to_string();
    let text = format!(
        "[origin]\nservers = [\"127.0.0.1:1\"]\nslots = 4\n\
         [[class]]\nname = \"pages\"\npolice = {{ rate = \"5/s\", mode = \"observe\" }}\n[[class]]\n{MODE}name = \"bots\"\n\
         [[rule]]\nname = \"bad\"\n{MODE}path = \"/bad\"\nrefuse = true\n\
         [[rule]]\npath = \"/bot\"\nclass = \"bots\"\n[[rule]]\npath = \"/*\"\nclass = \"pages\"\n"
    );
    fs::write(&path, &text).expect("written");
    let said = tiergate(&["check", &file]);
    let (observed, in_force) = said.split_once("\nClients connect to\n").expect("sections");
    for line in [
        "Observed, and not in force",
        "  class pages: policed by class.pages",
        "  class bots: waits at most 2s, at most 10000 in the queue",
        "  class bots for requests that no rule matches; in force it is pages",
        "  rule 1 bad  (line 10)  path /bad → refused (counted in bots)",
        "  rule 2  (line 15)  path /bot → bots",
        "  policer class.pages: 5/s and 20 at once",
    ] {
        assert!(observed.lines().any(|it| it == line), "{line} is missing in\n{observed}");
    }
    for line in [
        "  1  pages  waits at most 2s, at most 10000 in the queue; takes requests that no rule matches",
        "  3  (line 18)  path /* → pages",
    ] {
        assert!(in_force.lines().any(|it| it == line), "{line} is missing in\n{in_force}");
    }
    assert!(!in_force.contains("bots") && !in_force.contains("Warnings"), "{in_force}");

    let said = tiergate(&["explain", &file, "--request", "GET /bad"]);
    let (in_force, observed) = said
        .split_once("\nThat is in force; with what is observed (mode = \"observe\"):\n")
        .expect("both");
    assert!(
        in_force.contains("Rule 3 (") && in_force.contains("Class pages, 1 of 1"),
        "{in_force}"
    );
    assert!(
        observed.contains("Rule 1 bad (") && observed.contains("It is refused, whatever the load"),
        "{observed}"
    );

    fs::write(
        &path,
        format!("{MODE}{}", text.replace(MODE, "").replace(", mode = \"observe\"", "")),
    )
    .expect("written");
    let said = tiergate(&["check", &file]);
    assert!(said.contains("All of it is observed, and nothing in force"), "{said}");
    assert!(said.contains("  1 bad  (line 10)  path /bad → refused"), "{said}");
    let said = tiergate(&["explain", &file, "--request", "GET /bad"]);
    let (in_force, observed) =
        said.split_once("\nWhat is observed (mode = \"observe\"):\n").expect("both");
    assert!(in_force.ends_with("\nIn force every request is let through at once\n"), "{in_force}");
    assert!(observed.contains("Rule 1 bad ("), "{observed}");
}
