//! HTTP/2 to the origin: what servers get and clients see, and what becomes of requests to odd servers.

use crate::support;
use bytes::Bytes;
use h2::Reason;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use support::gateway::{Gateway, Policy};
use support::http2_origin::{DATA, HEADERS, Http2Origin, Offer, RESET, Wire, head, read};
use support::origin::Origin;
use support::tls_origin::{Authority, server_config};
use support::{eventually, eventually_is, pattern_bytes};

/// A policy for one server that speaks HTTP/2, with one thread.
fn policy(server: String, origin: &str) -> Policy {
    Policy {
        top: "threads = 1".into(),
        origin: format!("slots = 1000\nprotocol = \"h2\"\nfailures_max = 0\n{origin}"),
        ..Policy::of(&[server])
    }
}

/// Answers with method, path and body, and a trailer.
fn echo(offer: Offer) -> Http2Origin {
    Http2Origin::start(offer, |request, mut respond| async move {
        let (parts, body) = request.into_parts();
        let Some((body, trailers)) = read(body).await else { return };
        let mut text = format!("{} {}\n", parts.method, parts.uri).into_bytes();
        for (name, value) in parts.headers.iter().chain(&trailers) {
            text.extend_from_slice(
                format!("{name}: {}\n", value.to_str().expect("text")).as_bytes(),
            );
        }
        text.extend_from_slice(&body);
        let Ok(mut sending) =
            respond.send_response(head(200, &[("x-odd", "a"), ("x-odd", "b")]), false)
        else {
            return;
        };
        let mut at = 0;
        while at < text.len() {
            sending.reserve_capacity(text.len() - at);
            let Some(Ok(room)) =
                std::future::poll_fn(|context| sending.poll_capacity(context)).await
            else {
                return;
            };
            let piece = Bytes::copy_from_slice(&text[at..at + room.min(text.len() - at)]);
            at += piece.len();
            if sending.send_data(piece, false).is_err() {
                return;
            }
        }
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x-end", "yes".parse().expect("a value"));
        let _ = sending.send_trailers(trailers);
    })
}

#[test]
fn requests_are_streams_of_one_connection_with_bodies_and_trailers_both_ways() {
    let origin = echo(Offer::default());
    let gateway = Gateway::start(&policy(origin.server(), ""));
    let mut client = gateway.client();
    let answer = client.get("/a?b=c");
    let text = answer.text();
    assert!(text.starts_with("GET http://example.test/a?b=c\n"), "{text}");
    assert!(
        text.contains("x-forwarded-for: 127.0.0.1\n") && !text.contains("connection"),
        "{text}"
    );
    assert_eq!(answer.trailers, [("x-end".to_owned(), "yes".to_owned())]);
    assert!(answer.head.contains("x-odd: a\r\nx-odd: b\r\n"), "{}", answer.head);
    client.send(
        "POST /up HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nConnection: TE, x-hop\r\nTE: trailers\r\n\
         X-Hop: 1\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\nx-sum: 6\r\ncontent-length: 9\r\n\r\n",
    );
    let text = client.answer().text();
    assert!(text.contains("te: trailers\n") && text.ends_with("x-sum: 6\nhello!"), "{text}");
    assert!(!text.contains("x-hop") && !text.contains("content-length"), "{text}");
    // Far more than the windows: both ways at once.
    let body = pattern_bytes(0, 5 << 20);
    client
        .send(format!("PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n", body.len()));
    client.send(&body);
    assert!(client.answer().body.ends_with(&body), "the same bytes");
    client.send("HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(client.try_answer(true).expect("a head").status, 200);
    assert_eq!(client.get("/still").status, 200);
    assert_eq!((origin.connections(), origin.streams()), (1, 5));
    gateway.assert_conserved();
}

#[test]
fn over_tls_servers_choose() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "own");
    let pair = authority.sign("app", "127.0.0.1");
    let tls = format!("tls = {{ ca = {:?} }}", authority.file);
    let of = |protocol: &str, server: String| {
        let policy = policy(server, &tls);
        let origin = policy.origin.replace("\"h2\"", &format!("{protocol:?}"));
        Gateway::start(&Policy { origin, ..policy })
    };
    let tls = Some(server_config(&pair, &["h2", "http/1.1"], None));
    let both = echo(Offer { tls, ..Offer::default() });
    for protocol in ["auto", "h2"] {
        let gateway = of(protocol, both.server());
        for _ in 0..3 {
            let text = gateway.get("/").text();
            assert!(text.starts_with("GET https://example.test/\n"), "{text}");
        }
    }
    assert_eq!((both.connections(), both.streams()), (2, 6));
    let (old, seen) =
        support::tls_origin::answering(server_config(&pair, &["http/1.1"], None), false);
    let gateway = of("auto", old.server());
    for _ in 0..3 {
        assert_eq!(gateway.get("/old").text(), "/old");
    }
    assert_eq!(seen.full.load(Ordering::SeqCst), 1);
    assert_eq!(of("h2", old.server()).get("/old").status, 502);
}

/// So many GETs at once: their statuses.
fn at_once(gateway: &Gateway, count: usize) -> Vec<u16> {
    let address = gateway.address;
    let asking =
        (0..count).map(|_| thread::spawn(move || support::client::get(address, "/").status));
    asking.collect::<Vec<_>>().into_iter().map(|it| it.join().expect("no panic")).collect()
}

#[test]
fn no_connection_has_more_streams_than_its_server_allows() {
    let offer = Offer { streams_max: Some(3), ..Offer::default() };
    let origin = Http2Origin::start(offer, |_, mut respond| async move {
        tokio::time::sleep(Duration::from_millis(30)).await;
        let _ = respond.send_response(head(204, &[]), true);
    });
    let gateway = Gateway::start(&policy(origin.server(), "http2_connections_max = 2"));
    assert_eq!(at_once(&gateway, 40), [204; 40]);
    assert_eq!(origin.connections(), 2);
    let most = origin.counts.open_max.load(Ordering::SeqCst);
    assert!((4..=6).contains(&most), "{most}");
    gateway.assert_conserved();
}

#[test]
fn a_client_that_leaves_cancels_its_stream_and_no_other() {
    let cancelled = Arc::new(AtomicUsize::new(0));
    let noted = cancelled.clone();
    let origin = Http2Origin::start(Offer::default(), move |request, mut respond| {
        let noted = noted.clone();
        async move {
            if request.uri().path() == "/slow" {
                let reason = std::future::poll_fn(|context| respond.poll_reset(context)).await;
                assert_eq!(reason.expect("a reset"), Reason::CANCEL);
                noted.fetch_add(1, Ordering::SeqCst);
            } else {
                let _ = respond.send_response(head(200, &[("content-length", "0")]), true);
            }
        }
    });
    let gateway = Gateway::start(&policy(origin.server(), ""));
    let mut client = gateway.client();
    client.send("GET /slow HTTP/1.1\r\nHost: a.test\r\n\r\n");
    eventually("it is there", || origin.streams() == 1);
    // By a reset: one that only ends its side may still wait for the answer.
    socket2::SockRef::from(&client.stream).set_linger(Some(Duration::ZERO)).expect("a socket");
    drop(client);
    eventually("it is cancelled", || cancelled.load(Ordering::SeqCst) == 1);
    assert_eq!(gateway.get("/").status, 200);
    assert_eq!(origin.connections(), 1);
    gateway.assert_conserved();
}

/// An origin that is scripted frame by frame; the script gets the connection's number, from 0.
fn scripted(script: impl Fn(usize, Wire) + Send + Sync + 'static) -> Origin {
    Origin::start(move |accepted| {
        let number = accepted.number;
        let stream = accepted.stream.try_clone().expect("descriptors are left");
        if let Some(wire) = Wire::begin(stream, &[(3, 100)]) {
            script(number, wire);
        }
    })
}

fn idle(wire: &mut Wire) {
    while wire.next().is_some() {}
}

#[test]
fn what_a_server_has_not_looked_at_is_sent_again_whatever_it_is() {
    for refuses in [true, false] {
        let origin = scripted(move |number, mut wire| {
            let mut is_first = true;
            while let Some(stream) = wire.request() {
                if number == 0 && std::mem::take(&mut is_first) {
                    match refuses {
                        true => wire.send(RESET, 0, stream, &7u32.to_be_bytes()),
                        false => {
                            wire.go_away(0, 0);
                            let _ = wire.0.shutdown(Shutdown::Both);
                            return;
                        }
                    }
                    continue;
                }
                let mut body = Vec::new();
                loop {
                    let Some((kind, flags, on, payload)) = wire.next() else { return };
                    if kind == DATA && on == stream {
                        body.extend_from_slice(&payload);
                        if flags & 1 == 1 {
                            break;
                        }
                    }
                }
                wire.ok(stream, false);
                wire.send(DATA, 1, stream, &body);
            }
        });
        let gateway = Gateway::start(&policy(origin.server(), ""));
        let mut client = gateway.client();
        client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 11\r\n\r\nhello");
        thread::sleep(Duration::from_millis(200));
        client.send(" world");
        assert_eq!(client.answer().text(), "hello world", "refuses: {refuses}");
        gateway.assert_conserved();
    }
}

#[test]
fn odd_servers_get_their_due_and_hold_no_slots() {
    type Script = fn(usize, Wire);
    let cases: [(&str, Script, u16); 16] = [
        (
            "refuses for ever",
            |_, mut wire| {
                while let Some(stream) = wire.request() {
                    wire.send(RESET, 0, stream, &7u32.to_be_bytes());
                }
            },
            503,
        ),
        (
            "leaves after GOAWAY(0), for ever",
            |_, mut wire| {
                wire.request();
                wire.go_away(0, 0);
            },
            502,
        ),
        (
            "is gone when the request is there",
            |_, mut wire| {
                wire.request();
            },
            502,
        ),
        (
            "resets",
            |_, mut wire| {
                while let Some(stream) = wire.request() {
                    wire.send(RESET, 0, stream, &2u32.to_be_bytes());
                }
            },
            502,
        ),
        ("answers nothing", |_, mut wire| idle(&mut wire), 504),
        (
            "answers 101",
            |_, mut wire| {
                while let Some(stream) = wire.request() {
                    wire.send(HEADERS, 4, stream, b"\x08\x03101");
                }
            },
            502,
        ),
        (
            "says 103 first",
            |_, mut wire| {
                while let Some(stream) = wire.request() {
                    wire.send(HEADERS, 4, stream, b"\x08\x03103");
                    wire.ok(stream, true);
                }
            },
            103,
        ),
        (
            "goes on after the end",
            |_, mut wire| {
                while let Some(stream) = wire.request() {
                    wire.ok(stream, true);
                    wire.send(DATA, 1, stream, b"more");
                    wire.ok(stream, true);
                }
            },
            200,
        ),
        (
            "ends by trailers alone",
            |_, mut wire| {
                while let Some(stream) = wire.request() {
                    wire.ok(stream, false);
                    wire.send(HEADERS, 5, stream, b"\x00\x01x\x01y");
                }
            },
            200,
        ),
        (
            "sends half a head",
            |_, mut wire| {
                if let Some(stream) = wire.request() {
                    wire.send(HEADERS, 0, stream, &[0x88]);
                    idle(&mut wire);
                }
            },
            504,
        ),
        (
            "sends garbage for a head",
            |_, mut wire| {
                if let Some(stream) = wire.request() {
                    wire.send(HEADERS, 4, stream, &[0xff, 0xff, 0xff, 0xff, 0xff]);
                    idle(&mut wire);
                }
            },
            502,
        ),
        (
            "sends connection fields",
            |_, mut wire| {
                while let Some(stream) = wire.request() {
                    wire.send(HEADERS, 5, stream, b"\x88\x00\x11transfer-encoding\x07chunked");
                }
            },
            502,
        ),
        (
            "has two lengths",
            |_, mut wire| {
                while let Some(stream) = wire.request() {
                    wire.send(
                        HEADERS,
                        4,
                        stream,
                        b"\x88\x00\x0econtent-length\x011\x00\x0econtent-length\x012",
                    );
                    wire.send(DATA, 1, stream, b"a");
                }
            },
            502,
        ),
        (
            "has a head that is too large",
            |_, mut wire| {
                while let Some(stream) = wire.request() {
                    // Forty names that the table learns, then each of them again: short here, long when unpacked.
                    let mut block = vec![0x88];
                    block.extend_from_slice(b"\x40\x01a\x7f\x81\x1e");
                    block.extend_from_slice(&[b'v'; 4000]);
                    block.extend_from_slice(&[0xbe; 4000]);
                    wire.send(HEADERS, 5, stream, &block);
                }
            },
            502,
        ),
        (
            "pushes",
            |_, mut wire| {
                if let Some(stream) = wire.request() {
                    wire.send(5, 4, stream, b"\x00\x00\x00\x02\x82\x84\x86\x41\x01a");
                    wire.ok(stream, true);
                    idle(&mut wire);
                }
            },
            502,
        ),
        (
            "speaks HTTP/1.1",
            |_, mut wire| {
                use std::io::Write as _;
                let _ = wire.0.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            },
            502,
        ),
    ];
    for (what, script, status) in cases {
        let origin = scripted(script);
        let mut policy = policy(origin.server(), "restart_max = \"1ms\"");
        policy.tables = "[timeouts]\nresponse_head = \"500ms\"\nconnect = \"500ms\"".into();
        let gateway = Gateway::start(&policy);
        for _ in 0..3 {
            assert_eq!(gateway.get("/").status, status, "a server that {what}");
        }
        gateway.assert_conserved();
    }
}

#[test]
fn a_server_that_never_shakes_hands_is_not_waited_for_beyond_the_time_to_connect() {
    let origin = Origin::start(|mut connection| while connection.more() {});
    let mut policy = policy(origin.server(), "restart_max = \"1ms\"");
    policy.tables = "[timeouts]\nconnect = \"300ms\"".into();
    let gateway = Gateway::start(&policy);
    assert_eq!(at_once(&gateway, 5), [504; 5]);
    gateway.assert_conserved();
}

#[test]
fn bodies_that_break_off_are_cut_for_clients_too() {
    let origin = scripted(|_, mut wire| {
        while let Some(stream) = wire.request() {
            wire.ok(stream, false);
            wire.send(DATA, 0, stream, b"half");
            thread::sleep(Duration::from_millis(50));
            wire.send(RESET, 0, stream, &2u32.to_be_bytes());
        }
    });
    let gateway = Gateway::start(&policy(origin.server(), ""));
    for _ in 0..3 {
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert!(client.try_answer(false).is_err(), "no whole answer");
    }
    gateway.assert_conserved();
}

#[test]
fn a_server_that_opens_no_window_or_says_nothing_more_holds_a_request_for_its_time_out_only() {
    // Window 0 for ever.
    let origin = Origin::start(|accepted| {
        let stream = accepted.stream.try_clone().expect("descriptors are left");
        if let Some(mut wire) = Wire::begin(stream, &[(3, 100), (4, 0)]) {
            idle(&mut wire);
        }
    });
    let mut slow = policy(origin.server(), "");
    slow.tables = "[timeouts]\nrequest_body = \"300ms\"\nresponse_head = \"300ms\"\nresponse_body = \"300ms\"".into();
    let gateway = Gateway::start(&slow);
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.answer().status, 504);
    gateway.assert_conserved();
    // Half a body.
    let origin = scripted(|_, mut wire| {
        if let Some(stream) = wire.request() {
            wire.ok(stream, false);
            wire.send(DATA, 0, stream, b"half");
            idle(&mut wire);
        }
    });
    slow.servers = vec![origin.server()];
    let gateway = Gateway::start(&slow);
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert!(client.try_answer(false).is_err(), "no whole answer");
    gateway.assert_conserved();
}

#[test]
fn a_server_that_vanishes_is_found_by_pings() {
    let origin = Origin::start(|accepted| {
        let stream: TcpStream = accepted.stream.try_clone().expect("descriptors are left");
        if let Some(mut wire) = Wire::begin(stream, &[(3, 100)]) {
            // Its settings are taken; from the first request on it says nothing, to pings neither.
            wire.request();
            thread::sleep(Duration::from_secs(10));
        }
    });
    let gateway = Gateway::start(&policy(origin.server(), "ping_interval = \"200ms\""));
    // The head's time-out is a minute.
    assert_eq!(gateway.get("/").status, 502);
    gateway.assert_conserved();
}

#[test]
fn health_is_checked_by_streams_too() {
    let origin = Http2Origin::start(Offer::default(), |request, mut respond| async move {
        let status = if request.uri().path() == "/up" { 503 } else { 200 };
        let _ = respond.send_response(head(status, &[]), true);
    });
    let health = "health = { path = \"/up\", interval = \"100ms\", fall = 2, rise = 1 }";
    let gateway = Gateway::start(&policy(origin.server(), health));
    eventually_is("it is left out", serde_json::Value::from("down"), || {
        gateway.status()["origin"][0]["health"].clone()
    });
    assert!(gateway.log().contains("status 503"), "{}", gateway.log());
}

#[test]
fn idle_connections_are_closed_and_a_drain_ends() {
    let origin = echo(Offer::default());
    let mut policy = policy(origin.server(), "");
    policy.tables = "[timeouts]\norigin_idle = \"200ms\"".into();
    let mut gateway = Gateway::start(&policy);
    assert_eq!(gateway.get("/").status, 200);
    // They are looked through every second.
    thread::sleep(Duration::from_secs(3));
    assert_eq!(gateway.get("/").status, 200);
    assert_eq!(origin.connections(), 2);
    gateway.drain();
}

#[test]
fn a_client_that_takes_nothing_holds_up_its_server_and_no_other_stream() {
    const LEN: usize = 48 << 20;
    let sent = Arc::new(AtomicUsize::new(0));
    let noted = sent.clone();
    let origin = Http2Origin::start(Offer::default(), move |request, mut respond| {
        let noted = noted.clone();
        async move {
            let is_long = request.uri().path() == "/long";
            let len = if is_long { LEN } else { 0 };
            let fields = [("content-length", &*len.to_string())];
            let Ok(mut sending) = respond.send_response(head(200, &fields), !is_long) else {
                return;
            };
            let mut left = len;
            while left > 0 {
                sending.reserve_capacity(left.min(1 << 16));
                let room = std::future::poll_fn(|context| sending.poll_capacity(context)).await;
                let Some(Ok(room)) = room else { return };
                let room = room.min(left);
                left -= room;
                noted.fetch_add(room, Ordering::SeqCst);
                if sending.send_data(Bytes::from(vec![b'x'; room]), left == 0).is_err() {
                    return;
                }
            }
        }
    });
    let gateway = Gateway::start(&policy(origin.server(), ""));
    let mut client = gateway.client();
    client.send("GET /long HTTP/1.1\r\nHost: a.test\r\n\r\n");
    eventually("it begins", || sent.load(Ordering::SeqCst) > 0);
    let mut before = 0;
    eventually("it stands still", || {
        thread::sleep(Duration::from_millis(200));
        let now = sent.load(Ordering::SeqCst);
        std::mem::replace(&mut before, now) == now
    });
    assert!(before < LEN / 2, "{before} bytes were sent to a client that takes none");
    assert_eq!(gateway.get("/").status, 200, "another stream of the connection");
    assert_eq!(origin.connections(), 1);
    assert_eq!(client.answer().body.len(), LEN);
    gateway.assert_conserved();
}

#[test]
fn a_request_that_cannot_be_sent_again_whole_is_refused_at_once() {
    let streams = Arc::new(AtomicUsize::new(0));
    let noted = streams.clone();
    let origin = Origin::start(move |accepted| {
        let stream = accepted.stream.try_clone().expect("descriptors are left");
        // So little room that the body is stuck when the stream is refused.
        let Some(mut wire) = Wire::begin(stream, &[(3, 100), (4, 1000)]) else { return };
        while let Some((kind, _, stream, _)) = wire.next() {
            noted.fetch_add(usize::from(kind == HEADERS), Ordering::SeqCst);
            if kind == DATA {
                wire.send(RESET, 0, stream, &7u32.to_be_bytes());
            }
        }
    });
    let mut policy = policy(origin.server(), "");
    // What hangs gets another status.
    policy.tables = "[timeouts]\nrequest_body = \"5s\"\nresponse_head = \"5s\"".into();
    let gateway = Gateway::start(&policy);
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 200000\r\n\r\n");
    client.send(vec![b'x'; 150_000]);
    assert_eq!(client.answer().status, 503);
    assert_eq!(streams.load(Ordering::SeqCst), 1, "a part of it was sent again");
    gateway.assert_conserved();
}

#[test]
fn a_connection_that_cannot_be_opened_is_one_failure_for_all_who_wait_for_it() {
    let first = Arc::new(AtomicUsize::new(0));
    let failing = Origin::start(move |accepted| {
        let stream = accepted.stream.try_clone().expect("descriptors are left");
        if first.fetch_add(1, Ordering::SeqCst) == 0 {
            // All wait for it by then.
            thread::sleep(Duration::from_millis(300));
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
        if let Some(mut wire) = Wire::begin(stream, &[(3, 100)]) {
            while let Some(stream) = wire.request() {
                wire.ok(stream, true);
            }
        }
    });
    let well = echo(Offer::default());
    let mut policy = policy(failing.server(), "");
    policy.servers.push(well.server());
    policy.origin = policy.origin.replace("failures_max = 0", "failures_max = 3");
    let gateway = Gateway::start(&policy);
    assert_eq!(at_once(&gateway, 20), [200; 20]);
    assert!(!gateway.log().contains("left out"), "{}", gateway.log());
    gateway.assert_conserved();
}

#[test]
fn requests_of_a_connection_that_is_lost_are_sent_again_within_the_budget() {
    const COUNT: usize = 12;
    let heads = Arc::new(AtomicUsize::new(0));
    let noted = heads.clone();
    let origin = scripted(move |_, mut wire| {
        if let Some(stream) = wire.request() {
            wire.ok(stream, true);
        }
        for _ in 0..COUNT {
            wire.request();
            noted.fetch_add(1, Ordering::SeqCst);
        }
        // It was there when the last had come.
        wire.send(support::http2_origin::PING, 0, 0, &[0; 8]);
        thread::sleep(Duration::from_millis(100));
        let _ = wire.0.shutdown(Shutdown::Both);
    });
    let budget = "retry_budget = \"0%\"\nretry_budget_min = 0";
    let gateway = Gateway::start(&policy(origin.server(), budget));
    assert_eq!(gateway.get("/").status, 200);
    assert_eq!(at_once(&gateway, COUNT), [502; COUNT]);
    assert_eq!(heads.load(Ordering::SeqCst), COUNT);
    gateway.assert_conserved();
}

#[test]
fn a_server_that_sends_is_not_asked_whether_it_is_there() {
    let origin = scripted(|_, mut wire| {
        let Some(stream) = wire.request() else { return };
        wire.ok(stream, false);
        // It answers no ping meanwhile.
        for last in 0..=20 {
            thread::sleep(Duration::from_millis(50));
            wire.send(DATA, u8::from(last == 20), stream, b"x");
        }
        idle(&mut wire);
    });
    let gateway = Gateway::start(&policy(origin.server(), "ping_interval = \"300ms\""));
    assert_eq!(gateway.get("/").text().len(), 21);
    gateway.assert_conserved();
}

#[test]
fn interim_answers_do_not_gather_behind_a_client_that_takes_none() {
    let resets = Arc::new(AtomicUsize::new(0));
    let noted = resets.clone();
    let origin = scripted(move |_, mut wire| {
        let Some(stream) = wire.request() else { return };
        let mut long = b"\x08\x03103\x00\x01a\x7f\x81\x3e".to_vec();
        long.extend_from_slice(&[b'v'; 8064]);
        for _ in 0..6000 {
            wire.send(HEADERS, 4, stream, &long);
        }
        while let Some((kind, ..)) = wire.next() {
            noted.fetch_add(usize::from(kind == RESET), Ordering::SeqCst);
        }
    });
    let gateway = Gateway::start(&policy(origin.server(), ""));
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    eventually("its stream is reset", || resets.load(Ordering::SeqCst) == 1);
    drop(client);
    gateway.assert_conserved();
}
