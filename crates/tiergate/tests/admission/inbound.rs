//! Policers whose rate follows a sensor: the listen queue of a server that this test leaves unattended.

use crate::support;
use serde_json::Value;
use std::fs;
use std::net::{TcpListener, TcpStream};
use support::client::Client;
use support::eventually;
use support::gateway::{Gateway, Policy};
use support::origin::Origin;

fn policer(gateway: &Gateway, name: &str) -> Value {
    let status = gateway.status();
    let all = status["policers"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|it| it["name"] == name).expect("the policer")
}

#[test]
fn a_queue_lowers_the_rate_and_its_end_raises_it() {
    let origin = Origin::echo();
    let watched = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = watched.local_addr().expect("bound");
    let policy = Policy {
        tables: format!(
            "[[sensor]]\nname = \"queue\"\nmeasure = \"listen-queue\"\naddress = \"{address}\"\n\
             every = \"100ms\"\n\
             [[policer]]\nname = \"slow\"\nrate = \"50/s\"\n\
             control = {{ sensor = \"queue\", reference = 4, min = \"2/s\" }}\n\
             [[rule]]\npath = \"/slow/**\"\npolice = \"slow\"\n"
        ),
        ..Policy::of(&[origin.server()])
    };
    let gateway = Gateway::start(&policy);
    let rate = || policer(&gateway, "slow")["tokens_per_second"].as_f64().expect("a rate");
    eventually("it has a reading", || policer(&gateway, "slow")["control"]["reading"] == 0.0);
    assert_eq!(rate(), 50.0);
    let clients: Vec<TcpStream> =
        (0..60).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    eventually("the least", || {
        let it = policer(&gateway, "slow");
        it["tokens_per_second"] == 2.0 && it["control"]["state"] == "lowest"
    });
    for line in [
        "tiergate_policer_control_state{policer=\"slow\",state=\"lowest\"} 1",
        "tiergate_policer_control_reference{policer=\"slow\"} 4.0",
        "tiergate_policer_control_reading{policer=\"slow\"} 60.0",
    ] {
        // On a machine that is busy a reading may be late.
        eventually(line, || {
            let page = Client::connect(gateway.admin).get_local("/metrics").text();
            page.lines().any(|it| it == line)
        });
    }
    let adjusted = &gateway.status()["adjustments"][0];
    assert_eq!((&adjusted["owner"], &adjusted["of"]), (&"inbound control".into(), &"slow".into()));
    assert_eq!(adjusted["planned"], 50.0);
    // Requests of other rules have no policer.
    for _ in 0..30 {
        assert_eq!(gateway.get("/other").status, 200);
    }
    let answers: Vec<u16> = (0..40).map(|_| gateway.get("/slow/page").status).collect();
    assert!(answers.contains(&429), "{answers:?}");

    // The sensor falls silent, and the rate stays.
    drop((watched, clients));
    eventually("it is blind", || policer(&gateway, "slow")["control"]["state"] == "blind");
    assert_eq!(rate(), 2.0);
    let _watched = TcpListener::bind(address).expect("the address is free again");
    eventually("it rises where it is used", || {
        gateway.get("/slow/page");
        rate() > 2.0
    });

    // A reload that takes the control away gives the rate back.
    let text = fs::read_to_string(&gateway.policy_path).expect("a policy");
    let control = text.lines().find(|line| line.starts_with("control")).expect("it is there");
    gateway.write_policy(&text.replace(control, ""));
    assert_eq!(gateway.reload().0, 200);
    eventually("the policy's rate", || rate() == 50.0);
    assert!(policer(&gateway, "slow")["control"].is_null());
}
