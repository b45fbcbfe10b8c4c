//! A deadline in a header: a trusted peer's word counts, and nobody else's.

use crate::support::eventually_is;
use crate::support::gateway::{Gateway, Policy};
use crate::support::origin::{Origin, ok};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

/// Sends a request that holds the only slot, then one with the header; says what becomes of the second
/// before the first is answered: `None` if it still waits.
fn second_with(trusted: &str, header: &str) -> Option<u16> {
    let (go_on, goes_on) = mpsc::channel::<()>();
    let goes_on = Arc::new(Mutex::new(goes_on));
    let origin = Origin::answering(move |request| {
        if request.target == "/first" {
            let _ = goes_on.lock().expect("no panic").recv();
        }
        ok("done")
    });
    let policy = Policy {
        top: trusted.into(),
        origin: "slots = 1".into(),
        tables: "[[class]]\nname = \"a\"\ndeadline = \"15s\"\n\
                 [[rule]]\ndeadline_header = \"X-Budget\"\n"
            .into(),
        ..Policy::of(&[origin.server()])
    };
    let gateway = Gateway::start(&policy);
    let mut first = gateway.client();
    first.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually_is("it runs", 1, || gateway.number("/limit/running"));
    let mut second = gateway.client();
    second.send(format!("GET /second HTTP/1.1\r\nHost: a\r\n{header}\r\n"));
    eventually_is("it has come", 2, || gateway.number("/classes/0/arrived"));
    // A deadline of nothing is over at once; another one long after the test.
    let over = || gateway.number("/limit/waiting") == 0;
    let refused = (0..30).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        over()
    });
    let early = refused.then(|| second.answer().status);
    go_on.send(()).expect("the origin waits");
    assert_eq!(first.answer().status, 200);
    if early.is_none() {
        assert_eq!(second.answer().status, 200);
    }
    gateway.assert_conserved();
    early
}

#[test]
fn a_trusted_peers_deadline_counts_and_a_forged_one_is_ignored() {
    let trusted = "trusted = [\"127.0.0.0/8\"]";
    assert_eq!(second_with(trusted, "X-Budget: 20\r\n"), Some(503));
    assert_eq!(second_with("trusted = [\"192.0.2.1\"]", "X-Budget: 20\r\n"), None);
    for ignored in ["", "X-Budget: soon\r\n", "X-Budget: 20\r\nX-Budget: 20\r\n"] {
        assert_eq!(second_with(trusted, ignored), None, "{ignored:?}");
    }
}
