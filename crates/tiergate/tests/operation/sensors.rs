//! Sensors of the machine, seen on the admin listener, while what they measure comes and goes.

use crate::support;
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::process::Command;
use support::client::Client;
use support::eventually;
use support::gateway::{Gateway, Policy};
use support::origin::Origin;

/// What status says of a sensor.
fn sensor(gateway: &Gateway, name: &str) -> Value {
    let status = gateway.status();
    let all = status["sources"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|it| it["source"] == name).unwrap_or(Value::Null)
}

fn metric(gateway: &Gateway, line: &str) -> bool {
    Client::connect(gateway.admin).get_local("/metrics").text().lines().any(|it| it == line)
}

#[test]
fn a_sensor_that_falls_silent_is_reported_and_nothing_else_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let origin = Origin::echo();
    let watched = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = watched.local_addr().expect("bound");
    let pid_file = folder.path().join("pid");
    let mut process = Command::new("sleep").arg("60").spawn().expect("a process");
    fs::write(&pid_file, process.id().to_string()).expect("written");
    let policy = Policy {
        tables: format!(
            "[[sensor]]\nname = \"queue\"\nmeasure = \"listen-queue\"\naddress = \"{address}\"\n\
             every = \"100ms\"\n\
             [[sensor]]\nname = \"machine\"\nmeasure = \"cpu\"\nevery = \"100ms\"\n\
             [[sensor]]\nname = \"server\"\nmeasure = \"cpu\"\npid_file = {:?}\nevery = \"100ms\"\n\
             [[sensor]]\nname = \"missing\"\nmeasure = \"disk\"\ndevice = \"nodisk0\"\n",
            pid_file.display().to_string()
        ),
        ..Policy::of(&[origin.server()])
    };
    let gateway = Gateway::start(&policy);
    let client = std::net::TcpStream::connect(address).expect("it listens");
    let has = |name: &str, value: f64| {
        let it = sensor(&gateway, name);
        it["value"] == value && it["stale"] == false && it["fault"].is_null()
    };
    eventually("one connection waits", || has("queue", 1.0));
    eventually("an idle process", || has("server", 0.0));
    eventually("the machine's processors", || sensor(&gateway, "machine")["value"].is_number());
    let no_disk = "/proc/diskstats names no disk nodisk0";
    eventually("a missing disk", || sensor(&gateway, "missing")["fault"] == no_disk);
    let missing = sensor(&gateway, "missing");
    assert_eq!((&missing["value"], &missing["stale"]), (&Value::Null, &Value::Bool(true)));
    for line in [
        "tiergate_sensor_up{sensor=\"queue\"} 1",
        "tiergate_sensor_value{sensor=\"queue\",quantity=\"queue_len\"} 1.0",
        "tiergate_sensor_up{sensor=\"missing\"} 0",
    ] {
        // On a machine that is busy a reading may be late.
        eventually(line, || metric(&gateway, line));
    }

    // Both are gone.
    drop((watched, client));
    process.kill().expect("it runs");
    process.wait().expect("it ends");
    eventually("both are silent", || {
        ["queue", "server"].iter().all(|name| sensor(&gateway, name)["stale"] == true)
    });
    let fault = sensor(&gateway, "queue")["fault"].to_string();
    assert!(fault.contains("nothing listens on"), "{fault}");
    assert_eq!(sensor(&gateway, "queue")["value"], 1.0, "the last reading is still known");
    assert!(metric(&gateway, "tiergate_sensor_up{sensor=\"queue\"} 0"));
    assert!(!metric(
        &gateway,
        "tiergate_sensor_value{sensor=\"queue\",quantity=\"queue_len\"} 1.0"
    ));
    let page = Client::connect(gateway.admin).get_local("/").text();
    assert!(page.contains("silent") && page.contains("nothing listens on"), "{page}");
    for _ in 0..50 {
        assert_eq!(gateway.get("/").status, 200);
    }
    eventually("the others measure", || sensor(&gateway, "machine")["stale"] == false);

    // And back.
    let watched = TcpListener::bind(address).expect("the address is free again");
    eventually("it measures again", || has("queue", 0.0));
    eventually("the log says both", || {
        let log = gateway.log();
        let said = log.matches("sensor queue: nothing listens on").count();
        said == 1 && log.contains("sensor queue: measures again")
    });
    drop(watched);
}

#[test]
fn a_reload_keeps_sensors_or_replaces_them() {
    let origin = Origin::echo();
    let sensor_of = |name: &str| {
        format!("[[sensor]]\nname = \"{name}\"\nmeasure = \"memory\"\nevery = \"100ms\"\n")
    };
    let policy = Policy { tables: sensor_of("ram"), ..Policy::of(&[origin.server()]) };
    let gateway = Gateway::start(&policy);
    eventually("a reading", || sensor(&gateway, "ram")["value"].is_number());
    let text = fs::read_to_string(&gateway.policy_path).expect("a policy");
    gateway.write_policy(&text.replace("\"ram\"", "\"memory\""));
    assert_eq!(gateway.reload().0, 200);
    eventually("the other one", || sensor(&gateway, "memory")["value"].is_number());
    eventually("the first one is gone", || sensor(&gateway, "ram").is_null());
}
