//! A client that ends its side after its request gets its answer; one that leaves is noticed, whatever it sent
//! before.

use crate::support::client::Client;
use crate::support::eventually_is;
use crate::support::gateway::{Gateway, Policy};
use crate::support::origin::{Origin, ok};
use std::thread::sleep;
use std::time::Duration;

const GET: &str = "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n";

/// An origin that takes its time, and a gateway with one slot.
fn slow(time: Duration) -> (Origin, Gateway) {
    let origin = Origin::answering(move |request| {
        sleep(time);
        ok(format!("{} {}", request.target, request.body.len()))
    });
    let mut policy = Policy::of(&[origin.server()]);
    policy.origin = "slots = 1\non_cancel = \"finish\"".into();
    policy.tables = "[[class]]\nname = \"all\"\ndeadline = \"20s\"\n".into();
    let gateway = Gateway::start(&policy);
    (origin, gateway)
}

/// Sends this and ends the client's side, with the last packet of it: an end that comes later is a client that leaves.
fn send_last(client: &mut Client, bytes: impl AsRef<[u8]>) {
    socket2::SockRef::from(&client.stream).set_tcp_cork(true).expect("an option of TCP");
    client.send(bytes);
    client.finish();
}

#[test]
fn a_half_closed_client_gets_its_answer() {
    let (_origin, gateway) = slow(Duration::from_millis(300));
    let chunked =
        "POST /slow HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
    for (request, answers) in [
        (GET.to_owned(), &["/slow 0"][..]),
        (GET.replace("1.1", "1.0"), &["/slow 0"]),
        (chunked.to_owned(), &["/slow 2"]),
        ([GET; 2].concat(), &["/slow 0"; 2]),
    ] {
        // The second waits for the slot.
        let mut clients = [gateway.client(), gateway.client()];
        for client in &mut clients {
            send_last(client, &request);
        }
        for client in &mut clients {
            for answer in answers {
                assert_eq!(client.answer().text(), *answer, "{request}");
            }
            assert_eq!(client.rest(), b"");
        }
    }
    gateway.assert_conserved();
}

/// What is known of a client that closes its connection is the same end of its side, only later.
#[test]
fn a_client_that_leaves_later_is_noticed_whatever_it_sent_before() {
    for pipelined in [0, 100, 30_000] {
        let (_origin, gateway) = slow(Duration::from_secs(25));
        let mut first = gateway.client();
        first.send(GET);
        eventually_is("it has the slot", 1, || gateway.number("/limit/running"));
        let mut leaver = gateway.client();
        leaver.send(GET);
        let rest = format!("GET /next HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(pipelined));
        let stream = leaver.stream.try_clone().expect("descriptors are left");
        stream.set_write_timeout(Some(Duration::from_millis(500))).expect("not zero");
        if pipelined > 0 {
            leaver.send_anyway(rest.as_bytes());
        }
        eventually_is("it waits", 1, || gateway.number("/limit/waiting"));
        sleep(Duration::from_millis(300));
        leaver.finish();
        let begun = std::time::Instant::now();
        eventually_is("it is noticed", 0, || gateway.number("/limit/waiting"));
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(10), "{took:?} with {pipelined} bytes behind");
        assert_eq!(gateway.number("/classes/0/cancelled_waiting"), 1);
        drop(first);
    }
}

/// The end of a body that is streamed is the end of the request, too.
#[test]
fn a_client_that_half_closes_after_a_slow_upload_gets_its_answer() {
    let (_origin, gateway) = slow(Duration::from_millis(200));
    let mut client: Client = gateway.client();
    client.send("POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n");
    for _ in 0..2 {
        sleep(Duration::from_millis(200));
        client.send(vec![b'x'; 1_000_000]);
    }
    sleep(Duration::from_millis(200));
    send_last(&mut client, vec![b'x'; 1_000_000]);
    assert_eq!(client.answer().status, 200);
}
