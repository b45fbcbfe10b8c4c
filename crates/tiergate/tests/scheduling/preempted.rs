//! Background requests that are preempted by more important ones.

use crate::support::gateway::{Gateway, Policy};
use crate::support::origin::{Accepted, Origin, ok};
use crate::support::{eventually, eventually_is};

/// `/hang` is never answered, `/begin` begins an answer and never ends it.
fn origin() -> Origin {
    Origin::start(|mut connection: Accepted| {
        while let Some(request) = connection.request() {
            match request.target.as_str() {
                "/hang" => {
                    connection.more();
                    return;
                }
                "/begin" => {
                    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
                    connection.more();
                    return;
                }
                _ => connection.send(ok("fine")),
            }
        }
    })
}

fn gateway(origin: &Origin) -> Gateway {
    Gateway::start(&Policy {
        origin: "slots = 2".into(),
        tables: "[refusal]\nreason_header = \"X-Reason\"\n\
                 [[class]]\nname = \"high\"\ndeadline = \"10s\"\n\
                 [[class]]\nname = \"low\"\npreemptible = true\n\
                 [[rule]]\npath = \"/high\"\nclass = \"high\"\n"
            .into(),
        ..Policy::of(&[origin.server()])
    })
}

#[test]
fn a_background_request_gives_way_and_is_told_so() {
    let origin = origin();
    let gateway = gateway(&origin);
    let mut low: Vec<_> = (0..2).map(|_| gateway.client()).collect();
    for (index, client) in low.iter_mut().enumerate() {
        client.send("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
        eventually_is("it runs", index as u64 + 1, || gateway.number("/limit/running"));
    }
    eventually("the origin has both", || origin.requests().0.len() == 2);
    assert_eq!(gateway.get("/high").text(), "fine");
    // The younger one gave way, and its connection is as good as before.
    let mut younger = low.pop().expect("two");
    let answer = younger.answer();
    assert_eq!(answer.status, 503, "{}", answer.head);
    let head = answer.head.to_ascii_lowercase();
    assert!(head.contains("x-reason: preempted") && head.contains("retry-after: "), "{head}");
    assert_eq!(younger.get("/other").text(), "fine");
    assert_eq!(gateway.number("/classes/1/running"), 1, "the older one goes on");
    // Right after its request, the end would be taken for that of the client's side only.
    std::thread::sleep(std::time::Duration::from_millis(50));
    drop(low);
    gateway.assert_conserved();
    assert_eq!(gateway.number("/classes/1/finished/preempted"), 1);
    assert_eq!(gateway.number("/classes/1/finished/cancelled"), 1);
}

#[test]
fn what_has_begun_to_answer_or_is_not_safe_to_repeat_goes_on() {
    let origin = origin();
    let gateway = gateway(&origin);
    let mut begun = gateway.client();
    begun.send("GET /begin HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(begun.try_head().expect("a head").status, 200);
    let mut posted = gateway.client();
    posted.send("POST /hang HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    eventually_is("both run", 2, || gateway.number("/limit/running"));
    let mut high = gateway.client();
    high.send("GET /high HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually_is("it waits", 1, || gateway.number("/limit/waiting"));
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(gateway.number("/classes/1/running"), 2, "no request was preempted");
    drop(begun);
    assert_eq!(high.answer().text(), "fine");
    drop(posted);
    gateway.assert_conserved();
    assert_eq!(gateway.number("/classes/1/finished/preempted"), 0);
}
