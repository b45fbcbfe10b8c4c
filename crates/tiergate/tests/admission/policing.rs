//! Policers in front of a real server: who is let through, and what the others are told.

use crate::support;
use support::gateway::{Gateway, Policy};
use support::origin::Origin;

fn gateway(origin: &Origin, top: &str, tables: &str) -> Gateway {
    let mut policy = Policy::of(&[origin.server()]);
    policy.top = top.to_owned();
    policy.tables = tables.to_owned();
    Gateway::start(&policy)
}

/// Rates so low that no token comes while a test runs.
#[test]
fn whoever_comes_more_often_than_its_rule_lets_through_gets_429() {
    let origin = Origin::echo();
    let tables = "[[rule]]\npath = \"/search\"\npolice = { rate = \"1/h\", burst = 3 }";
    let gateway = gateway(&origin, "", tables);
    let statuses: Vec<u16> = (0..5).map(|_| gateway.get("/search").status).collect();
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    assert_eq!(gateway.get("/else").status, 200);
    assert_eq!(gateway.number("/classes/0/refused/policed"), 2);
    assert_eq!(gateway.number("/policers/0/passed"), 3);
    assert_eq!(gateway.number("/policers/0/refused"), 2);
}

#[test]
fn a_site_beyond_its_rate_says_503() {
    let origin = Origin::echo();
    let gateway = gateway(&origin, "police = { rate = \"1/h\", burst = 2 }", "");
    let statuses: Vec<u16> = (0..3).map(|_| gateway.get("/").status).collect();
    assert_eq!(statuses, [200, 200, 503]);
    assert_eq!(gateway.number("/classes/0/refused/site_policed"), 1);
}

#[test]
fn each_client_has_a_bucket_of_its_own() {
    let origin = Origin::echo();
    let tables = "[[rule]]\npolice = { rate = \"1/h\", burst = 2, per = \"flow\" }";
    let gateway = gateway(&origin, "trusted = [\"127.0.0.1\"]", tables);
    let status = |client: &str| {
        let mut connection = gateway.client();
        let request = format!("GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {client}\r\n\r\n");
        connection.send(request.as_bytes());
        connection.answer().status
    };
    let of = |client: &str| [status(client), status(client), status(client)];
    assert_eq!(of("192.0.2.1"), [200, 200, 429]);
    assert_eq!(of("192.0.2.2"), [200, 200, 429]);
    assert_eq!(
        [status("2001:db8::1"), status("2001:db8::2"), status("2001:db8::3")],
        [200, 200, 429]
    );
    assert_eq!(gateway.number("/policers/0/untracked"), 0);
}
