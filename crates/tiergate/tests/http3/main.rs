//! HTTP/3 from clients, by another implementation of the client's side than of the gateway's frames: `h3-quinn`, and bytes
//! written by hand where no client would.

#[path = "../support/http3_client.rs"]
mod http3_client;
#[path = "../support/mod.rs"]
mod support;

mod broken_off;
mod crowded;
mod leaving;
mod link;
mod slow;
mod trailers;
mod world;

use http::Request;
use http3_client::{
    CLIENTS, GET, Http3, answer, endpoint, frame, headers, quic, raw, trusting, try_quic,
};
use quinn::VarInt;
use std::path::Path;
use std::time::Duration;
use support::gateway::{Policy, certificate};
use support::http2_client::run;
use support::origin::{Origin, ok};
use support::{eventually, eventually_is, pattern_bytes};
use world::{CLASSES, World, comes};

#[test]
fn requests_are_answered_and_counted_as_http3() {
    let origin = Origin::echo();
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    let tables =
        format!("[access_log]\npath = {:?}\n[forwarding]\nvia = true\n", log.display().to_string());
    let world = World::start(Policy { tables, ..Policy::of(&[origin.server()]) });
    run(async {
        let mut client = world.client().await;
        for path in ["/a", "/b?c=d"] {
            let answer = client.get(path).await.expect("an answer");
            assert_eq!((answer.status, answer.body), (200, format!("GET {path}").into_bytes()));
            assert!(!answer.fields.contains_key("alt-svc"), "it is there already");
        }
    });
    let (seen, _) = origin.requests();
    assert_eq!(seen[0].values("via"), ["3.0 tiergate"]);
    assert_eq!(seen[0].values("host"), ["example.test"]);
    let metrics = world.metrics();
    assert!(metrics.contains("protocol=\"HTTP/3.0\"} 2"), "{metrics}");
    eventually("the log has it", || {
        std::fs::read_to_string(&log).is_ok_and(|log| log.contains("HTTP/3.0"))
    });
    world.gateway.assert_conserved();
}

#[test]
fn bodies_stream_both_ways_whole_and_in_order() {
    let origin = Origin::answering(|request| ok(&request.body));
    let world = World::before(&origin);
    let body = pattern_bytes(0, 3_000_000);
    run(async {
        let mut client = world.client().await;
        let length = body.len().to_string();
        for fields in [&[][..], &[("content-length", &*length)]] {
            let answer = client.post("/", fields, body.clone()).await.expect("an answer");
            assert_eq!(answer.status, 200);
            assert!(answer.body == body, "{} bytes came back", answer.body.len());
        }
    });
}

#[test]
fn under_overload_the_premium_class_is_served_and_others_are_refused() {
    let origin = Origin::answering(|_| {
        std::thread::sleep(Duration::from_millis(100));
        ok("done")
    });
    let world = World::start(Policy {
        servers: vec![origin.server()],
        origin: "slots = 1".into(),
        tables: CLASSES.into(),
        ..Policy::default()
    });
    run(async {
        let mut client = world.client().await;
        let ask = |path: &'static str| {
            let mut send = client.send.clone();
            tokio::spawn(async move {
                let request = Request::get(format!("https://example.test{path}")).body(());
                let mut stream = send.send_request(request.unwrap()).await.unwrap();
                stream.finish().await.unwrap();
                answer(&mut stream).await.unwrap().status
            })
        };
        let first = ask("/premium");
        tokio::time::sleep(Duration::from_millis(50)).await;
        let others: Vec<_> = (0..20).map(|it| ask(["/premium", "/free"][it % 2])).collect();
        assert_eq!(first.await.unwrap(), 200);
        for (number, other) in others.into_iter().enumerate() {
            assert_eq!(other.await.unwrap(), [200, 503][number % 2]);
        }
        assert_eq!(client.get("/premium").await.unwrap().status, 200);
    });
    world.gateway.assert_conserved();
}

#[test]
fn a_reset_frees_the_slot_and_what_waits() {
    let origin = Origin::start(|mut connection| {
        // Never answers; ends when the gateway closes.
        while connection.more() {}
    });
    let world = World::start(Policy {
        servers: vec![origin.server()],
        origin: "slots = 1".into(),
        tables: CLASSES.into(),
        ..Policy::default()
    });
    run(async {
        let mut client = world.client().await;
        let mut held = Vec::new();
        for _ in 0..3 {
            let request = Request::get("https://example.test/premium").body(()).unwrap();
            let mut stream = client.begin(request).await.unwrap();
            stream.finish().await.unwrap();
            held.push(stream);
        }
        let waiting = || world.gateway.number("/limit/waiting");
        comes("one is in service, two wait", || world.running() == 1 && waiting() == 2).await;
        for mut stream in held {
            // All of the request was sent: only STOP_SENDING says that its client has left.
            stream.stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
        }
        comes("nothing is held", || world.running() == 0 && waiting() == 0).await;
    });
    eventually_is("the origin's connection is closed", 0, || origin.open());
}

#[test]
fn an_origin_that_fails_is_502_or_a_reset() {
    let dead = support::gateway::Port::reserve();
    let world = World::start(Policy::of(&[dead.address.to_string()]));
    assert_eq!(run(world.get("/")).status, 502);
    // Half an answer is no answer.
    let origin = Origin::start(|mut connection| {
        if connection.request().is_some() {
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
        }
    });
    let world = World::before(&origin);
    run(async {
        let mut client = world.client().await;
        let failed = client.get("/").await.expect_err("it is not whole");
        assert!(format!("{failed:?}").contains("H3_INTERNAL_ERROR"), "{failed:?}");
    });
}

#[test]
fn heads_are_bounded() {
    let origin = Origin::echo();
    let tables = "[limits]\nrequest_head_max = \"8KiB\"\n".to_owned();
    let world = World::start(Policy { tables, ..Policy::of(&[origin.server()]) });
    run(async {
        let client = world.client().await;
        let long = "x".repeat(9000);
        // One that is whole, and one that says that it will be endless: neither is waited for.
        let whole = headers(&[&GET[..], &[("x", &long)]].concat());
        let mut endless = vec![1, 0xbf, 0xff, 0xff, 0xff];
        endless.extend_from_slice(&[0; 100]);
        for bytes in [whole, endless] {
            let got = raw(&client.quic, &bytes, false).await.expect("an answer");
            // As it is, or by Huffman's code.
            let says = |it: &[u8]| it.ends_with(b"431") || it.ends_with(&[0x83, 0x69, 0x90, 0xff]);
            assert!(says(&got), "{got:?}");
        }
        let got = raw(&client.quic, &headers(&GET), true).await.expect("an answer");
        assert!(got.ends_with(b"GET /raw"), "others are served: {got:?}");
    });
    assert_eq!(origin.requests().0.len(), 1);
}

#[test]
fn malformed_requests_reach_no_origin() {
    let origin = Origin::echo();
    let world = World::before(&origin);
    let with = |more: &[(&'static str, &'static str)]| [&GET[..], more].concat();
    let without = |name: &str| -> Vec<_> { GET.into_iter().filter(|it| it.0 != name).collect() };
    run(async {
        let client = world.client().await;
        for fields in [
            without(":method"),
            without(":authority"),
            with(&[(":unknown", "1")]),
            with(&[("Upper", "1")]),
            with(&[("host", "other.test")]),
            with(&[("x", "a\r\nb: c")]),
        ] {
            let failed = raw(&client.quic, &headers(&fields), true).await;
            assert!(
                failed.clone().is_err_and(|it| it.contains("Reset(270)")),
                "{fields:?}: {failed:?}"
            );
        }
        for fields in [
            with(&[("transfer-encoding", "chunked")]),
            with(&[("connection", "close")]),
            with(&[("content-length", "1"), ("content-length", "2")]),
        ] {
            let got = raw(&client.quic, &headers(&fields), true).await.expect("an answer");
            assert!(String::from_utf8_lossy(&got).contains("400 "), "{fields:?}: {got:?}");
        }
        assert_eq!(world.protocol_errors(), 6);
        // What is longer than it says would be a request of its own to the origin; what is shorter is none. White space is no way round that.
        for length in ["5", " 5", "5 ", "\t5"] {
            for body in ["", "abc", "abcdeGET /smuggled HTTP/1.1\r\n\r\n"] {
                let head = headers(&with(&[("content-length", length)]));
                let bytes = [head, frame(0, body.as_bytes())].concat();
                let got = raw(&client.quic, &bytes, true).await;
                assert!(
                    !got.clone().is_ok_and(|it| it.ends_with(b"/raw")),
                    "{length:?} {body:?}: {got:?}"
                );
            }
        }
        for length in ["+5", "5, 5", "0x5", "-0", "5 5", ""] {
            let head = headers(&with(&[("content-length", length)]));
            let got = raw(&client.quic, &[head, frame(0, b"abcde")].concat(), true).await;
            assert!(
                got.is_ok_and(|it| String::from_utf8_lossy(&it).contains("400 ")),
                "{length:?}"
            );
        }
        assert!(client.quic.close_reason().is_none(), "faults of streams are not the connection's");
    });
    assert_eq!(origin.requests().0.len(), 0, "{:?}", origin.received());
    world.gateway.assert_conserved();
}

#[test]
fn frames_out_of_place_end_the_connection_and_unknown_ones_do_not() {
    let origin = Origin::answering(|request| ok(&request.body));
    let world = World::before(&origin);
    run(async {
        let client = world.client().await;
        let data = [frame(0, b"a"), frame(0, b""), frame(0x21, &[7; 5000]), frame(0, b"b")];
        let bytes = [&[frame(0x21, b"x"), headers(&GET)][..], &data[..]].concat().concat();
        let got = raw(&client.quic, &bytes, true).await.expect("an answer");
        assert!(got.ends_with(b"ab"), "{got:?}");
        // DATA first, HTTP/2's PRIORITY, a header block that refers to a table that there is not, and frames of the control stream, without what should be in them.
        let frames = [frame(0, b"x"), frame(2, b"x"), frame(1, &[5, 0, 0x80])];
        let misplaced =
            [3, 4, 5, 7, 13].map(|kind| [frame(kind, b""), [0, 1, b'A'].repeat(1000)].concat());
        let count = frames.len() + misplaced.len();
        for bytes in frames.into_iter().chain(misplaced) {
            let client = world.client().await;
            let _ = raw(&client.quic, &bytes, true).await;
            let closed = format!("{:?}", client.quic.closed().await);
            assert!(closed.contains("ApplicationClosed"), "{bytes:?}: {closed}");
        }
        comes("each connection is counted", || world.protocol_errors() == count as u64).await;
        world.client().await.leave().await;
        assert_eq!(world.get("/").await.status, 200);
        assert_eq!(world.protocol_errors(), count as u64, "to leave is no fault");
    });
}

#[test]
fn a_control_stream_that_makes_no_sense_ends_the_connection() {
    let origin = Origin::echo();
    let world = World::before(&origin);
    run(async {
        // GOAWAY, MAX_PUSH_ID and CANCEL_PUSH without their number, behind settings; the stream's type in one byte and in two.
        for kind in [3, 7, 13] {
            for stream in [&[0][..], &[0x40, 0]] {
                let (endpoint, config) = (endpoint(), trusting(&world.certificate, "h3"));
                let quic = quic(&endpoint, world.gateway.address, config).await;
                let mut send = quic.open_uni().await.expect("a stream");
                let bytes =
                    [stream, &frame(4, b""), &frame(kind, b""), &[0x21, 1, b'A'].repeat(100)];
                let _ = send.write_all(&bytes.concat()).await;
                let closed = format!("{:?}", quic.closed().await);
                assert!(closed.contains("262"), "H3_FRAME_ERROR: {closed}");
            }
        }
        assert_eq!(world.get("/").await.status, 200);
    });
}

#[test]
fn a_client_that_only_resets_is_cut_off() {
    let origin = Origin::start(|mut connection| while connection.more() {});
    let tables = "[limits]\nhttp2_streams_max = 10\n".to_owned();
    let world = World::start(Policy { tables, ..Policy::of(&[origin.server()]) });
    run(async {
        let client = world.client().await;
        for _ in 0..1000 {
            let Ok((mut send, mut receive)) = client.quic.open_bi().await else { break };
            let _ = send.write_all(&headers(&GET)).await;
            let _ = send.reset(VarInt::from_u32(0x10c));
            let _ = receive.stop(VarInt::from_u32(0x10c));
        }
        let closed = format!("{:?}", client.quic.closed().await);
        assert!(closed.contains("263"), "H3_EXCESSIVE_LOAD: {closed}");
    });
    world.gateway.assert_conserved();
}

#[test]
fn connections_are_bounded_with_those_of_tcp_and_idle_ones_make_room() {
    let origin = Origin::echo();
    let tables = "[limits]\nconnections_max = 8\n".to_owned();
    let world = World::start(Policy { tables, ..Policy::of(&[origin.server()]) });
    run(async {
        let mut held = Vec::new();
        for _ in 0..12 {
            let mut client = world.client().await;
            assert_eq!(client.get("/").await.expect("an answer").status, 200);
            held.push(client);
        }
        comes("idle ones have made room", || {
            held.iter().filter(|it| it.quic.close_reason().is_none()).count() <= 8
        })
        .await;
        // The bound was met: the last had to prove their addresses.
        let metrics = world.metrics();
        let retries = metrics.lines().find(|it| it.starts_with("tiergate_quic_retries_total"));
        assert!(retries.is_some_and(|it| !it.ends_with(" 0")), "{retries:?}");
    });
}

#[test]
fn a_drain_finishes_what_is_in_service_and_says_which_requests_it_takes() {
    let origin = Origin::answering(|_| {
        std::thread::sleep(Duration::from_millis(700));
        ok(pattern_bytes(0, 500_000))
    });
    let mut world = World::before(&origin);
    run(async {
        let mut client = world.client().await;
        let request = Request::get("https://example.test/slow").body(()).unwrap();
        let mut stream = client.begin(request).await.unwrap();
        stream.finish().await.unwrap();
        comes("it is in service", || world.running() == 1).await;
        world.gateway.process.signal(rustix::process::Signal::TERM);
        let answer = answer(&mut stream).await.expect("it is served to its end");
        assert!(answer.body == pattern_bytes(0, 500_000));
        let refused = client.get("/late").await.expect_err("GOAWAY was said, or it has closed");
        assert!(!format!("{refused:?}").contains("Timeout"), "{refused:?}");
    });
    let status = world.gateway.process.wait(Duration::from_secs(20));
    assert!(status.success(), "{}", world.gateway.log());
    assert!(!world.gateway.log().contains("connections cut"), "{}", world.gateway.log());
}

#[test]
fn a_reload_changes_the_certificate_and_opens_and_closes_the_port() {
    let origin = Origin::echo();
    let world = World::before(&origin);
    let gateway = &world.gateway;
    let text = std::fs::read_to_string(&gateway.policy_path).expect("ours");
    let alt_svc = || {
        let url = format!("https://{}/", gateway.address);
        support::process::curl(&["-ksi", &url]).expect("curl is there").to_lowercase()
    };
    let announced = format!("alt-svc: h3=\":{}\"; ma=3600", gateway.address.port());
    assert!(alt_svc().contains(&announced), "{}", alt_svc());
    let (second, _) = certificate(world.folder.path(), "second");
    run(async {
        let mut before = world.client().await;
        gateway.write_policy(&text.replace("first", "second"));
        assert_eq!(gateway.reload().0, 200);
        let old = trusting(&world.certificate, "h3");
        let refused = try_quic(&endpoint(), gateway.address, old).await;
        assert!(refused.is_err(), "the old certificate is gone");
        let mut after = Http3::connect(gateway.address, &second).await;
        for client in [&mut before, &mut after] {
            assert_eq!(client.get("/").await.expect("an answer").status, 200);
        }
        gateway.write_policy(&text.replace("http3 = true", ""));
        assert_eq!(gateway.reload().0, 200);
        comes("it is not announced", || !alt_svc().contains("alt-svc")).await;
        let refused = try_quic(&endpoint(), gateway.address, trusting(&second, "h3")).await;
        assert!(refused.is_err(), "no new connections");
        let closed = format!("{:?}", after.quic.closed().await);
        assert!(closed.contains("ApplicationClosed"), "open ones are told: {closed}");
        drop((before, after));
        gateway.write_policy(&text.replace("first", "second"));
        assert_eq!(gateway.reload().0, 200);
        comes("it is announced again", || alt_svc().contains("alt-svc")).await;
        let mut again = Http3::connect(gateway.address, &second).await;
        assert_eq!(again.get("/").await.expect("an answer").status, 200);
    });
}

#[test]
fn nothing_is_taken_before_the_handshake_has_ended() {
    let origin = Origin::echo();
    let world = World::before(&origin);
    run(async {
        let (endpoint, config) = (endpoint(), trusting(&world.certificate, "h3"));
        for _ in 0..2 {
            let connection = quic(&endpoint, world.gateway.address, config.clone()).await;
            // Tickets come with it.
            tokio::time::sleep(Duration::from_millis(50)).await;
            connection.close(VarInt::from_u32(0x100), b"");
        }
        let connecting = endpoint.connect_with(config, world.gateway.address, "example.test");
        assert!(connecting.unwrap().into_0rtt().is_err(), "no ticket allows it");
        let other = trusting(&world.certificate, "http/1.1");
        assert!(
            try_quic(&endpoint, world.gateway.address, other).await.is_err(),
            "no other protocol"
        );
    });
}

#[test]
fn a_client_may_change_its_address_whichever_thread_has_its_connection() {
    let origin = Origin::echo();
    let world =
        World::start(Policy { top: "threads = 4".into(), ..Policy::of(&[origin.server()]) });
    run(async {
        for _ in 0..4 {
            let mut client = world.client().await;
            for _ in 0..4 {
                assert_eq!(client.get("/").await.expect("an answer").status, 200);
                let socket = std::net::UdpSocket::bind((CLIENTS, 0)).expect("a free port");
                client.endpoint.rebind(socket).expect("a socket");
            }
            assert_eq!(client.get("/").await.expect("an answer").status, 200);
        }
    });
    assert_eq!(origin.requests().0.len(), 20, "none was sent twice");
}

#[test]
fn check_says_what_http3_cannot_be_together_with() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, tls) = certificate(folder.path(), "first");
    let check = |listener: &str, tables: &str| {
        let path = folder.path().join("p.toml");
        let text = format!(
            "trusted = [\"127.0.0.1\"]\n[[listener]]\naddress = \"127.0.0.1:8443\"\nhttp3 = true\n{listener}\n[origin]\nservers = [\"127.0.0.1:1\"]\n{tables}"
        );
        std::fs::write(&path, text).expect("our own folder");
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tiergate"));
        let output = command.arg("check").arg(Path::new(&path)).output().expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let (good, said) = check(&tls, "");
    assert!(good && said.contains("HTTP/1.1, HTTP/2 and HTTP/3"), "{said}");
    let lane = "[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\n[[lane]]\nname = \"l\"\nclasses = [\"a\"]\n";
    for (listener, tables, why) in [
        ("", "", "http3: needs TLS"),
        (&*format!("{tls}\nproxy_protocol = true"), "", "cannot be together with proxy_protocol"),
        (&format!("{tls}\nshare_port = true"), "", "cannot be together with share_port"),
        (&tls, lane, "cannot be together with lanes"),
    ] {
        let (good, said) = check(listener, tables);
        assert!(!good && said.contains(why), "{why}: {said}");
    }
}
