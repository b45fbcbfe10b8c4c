//! Connections of a lower class that wait, send nothing, or read nothing: none of them stands in the way
//! of a higher class, from socket to socket (Eggert §7).

use crate::support::client::Client;
use crate::support::eventually;
use crate::support::gateway::{Gateway, Policy};
use crate::support::origin::{Accepted, Origin, ok};

#[test]
fn nothing_that_a_lower_class_does_stops_a_higher_one() {
    let origin = Origin::start(|mut connection: Accepted| {
        while let Some(request) = connection.request() {
            match request.target.as_str() {
                // No answer, until the client has left.
                "/low/hang" => while connection.more() {},
                "/low/large" => connection.ok(vec![b'x'; 8 << 20]),
                _ => connection.send(ok("fine")),
            }
        }
    });
    let gateway = Gateway::start(&Policy {
        origin: "slots = 8".into(),
        tables: "[scheduling]\npolicy = \"fixed\"\n\
                 [[class]]\nname = \"high\"\nshare = \"50%\"\n\
                 [[class]]\nname = \"low\"\nshare = \"50%\"\ndeadline = \"20s\"\nqueue = 50\n\
                 [[rule]]\npath = \"/high\"\nclass = \"high\"\n"
            .into(),
        ..Policy::of(&[origin.server()])
    });
    let ask = |path: &str| {
        let mut client = gateway.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client
    };
    let mut held: Vec<Client> = Vec::new();
    // Two in service that are never answered, two whose answers are never read.
    for path in ["/low/hang", "/low/hang", "/low/large", "/low/large"] {
        held.push(ask(path));
    }
    eventually("they are in service", || gateway.number("/classes/1/running") == 4);
    // More that wait, are refused, or have half a head or half a body.
    held.extend((0..60).map(|_| ask("/low/hang")));
    for part in ["GET /low", "POST /low HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf"] {
        for _ in 0..30 {
            let mut client = gateway.client();
            client.send(part);
            held.push(client);
        }
    }
    eventually("they have come", || gateway.number("/classes/1/arrived") >= 64);
    let mut kept = gateway.client();
    for _ in 0..200 {
        assert_eq!(kept.get("/high").text(), "fine");
        assert_eq!(gateway.get("/high").text(), "fine");
    }
    assert_eq!(gateway.number("/classes/0/finished/served"), 400);
    assert_eq!(gateway.number("/classes/1/running"), 4, "the low ones are still there");
    drop(held);
    gateway.assert_conserved();
}
