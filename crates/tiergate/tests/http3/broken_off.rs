//! Requests that break off, or that are refused by a reset: each ends by itself, and leaves nothing behind.

use crate::http3_client::{GET, frame, headers, raw};
use crate::support::PATIENCE;
use crate::support::gateway::Policy;
use crate::support::http2_client::run;
use crate::support::origin::{Origin, ok};
use crate::world::{CLASSES, World, comes};
use bytes::Bytes;
use http::Request;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Drains; nothing that has ended is waited for until the drain's own end.
fn drains(world: World) {
    world.gateway.process.signal(rustix::process::Signal::TERM);
    has_drained(world);
}

/// The same once the drain has begun.
fn has_drained(mut world: World) {
    let status = world.gateway.process.wait(Duration::from_secs(20));
    let log = world.gateway.log();
    assert!(status.success() && !log.contains("connections cut"), "{log}");
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn a_body_that_ends_within_a_frame_leaves_nothing_behind() {
    let origin = Origin::answering(|request| ok(&request.body));
    let world = World::before(&origin);
    run(async {
        for length in [None, Some(("content-length", "5"))] {
            for came in [&b""[..], b"abc"] {
                // DATA, and a frame that would be skipped.
                for kind in [0, 0x21] {
                    let client = world.client().await;
                    let mut fields = GET.to_vec();
                    fields[0].1 = "POST";
                    fields.extend(length);
                    let whole = frame(kind, b"abcde");
                    let cut = &whole[..whole.len() - 5 + came.len()];
                    let got = raw(&client.quic, &[&headers(&fields), cut].concat(), true).await;
                    assert!(got.is_err(), "{length:?} {came:?} {kind}: {got:?}");
                    // RFC 9114 §7.1.
                    let closed = format!("{:?}", client.quic.closed().await);
                    assert!(closed.contains("262"), "H3_FRAME_ERROR: {closed}");
                }
            }
        }
        comes("nothing is in service", || world.running() == 0).await;
        assert_eq!(world.get("/").await.status, 200, "others are served");
    });
    world.gateway.assert_conserved();
    drains(world);
}

/// Refuses by a reset what is not premium while that has the only slot.
fn refusing_by_reset(origin: &Origin) -> World {
    World::start(Policy {
        servers: vec![origin.server()],
        origin: "slots = 1".into(),
        tables: format!("{CLASSES}[refusal]\nconnection = \"reset\"\n"),
        ..Policy::default()
    })
}

/// Where an origin keeps a request until the test has seen what it is to see.
fn keep(is_over: &AtomicBool) {
    let until = Instant::now() + PATIENCE;
    while !is_over.load(Ordering::Relaxed) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn refusals_by_reset_are_over_at_once_however_many() {
    let is_over = Arc::new(AtomicBool::new(false));
    let is_seen = is_over.clone();
    let origin = Origin::answering(move |request| {
        if request.target.contains("slow") {
            keep(&is_seen);
        }
        ok("done")
    });
    let world = refusing_by_reset(&origin);
    run(async {
        let mut client = world.client().await;
        let request = Request::get("https://example.test/premium/slow").body(()).unwrap();
        let mut held = client.begin(request).await.unwrap();
        held.finish().await.unwrap();
        comes("it is in service", || world.running() == 1).await;
        let mut other = world.client().await;
        // More than twice the streams that a connection may have.
        for number in 0..250 {
            let refused = raw(&other.quic, &headers(&GET), true).await;
            assert!(
                refused.clone().is_err_and(|it| it.contains("Reset(267)")),
                "{number}: {refused:?}"
            );
        }
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(other.get("/premium").await.expect("an answer").status, 200);
        let last = raw(&other.quic, &headers(&GET), true).await;
        assert!(last.is_ok(), "the slot is free: {last:?}");
    });
    world.gateway.assert_conserved();
    assert!(world.gateway.status().to_string().contains("\"queue_full\":250"), "all were refused");
}

#[test]
fn a_drain_does_not_wait_for_what_was_reset() {
    let origin = Origin::start(|mut connection| while connection.more() {});
    let world = refusing_by_reset(&origin);
    let kept = run(async {
        let mut holder = world.client().await;
        let request = Request::get("https://example.test/premium").body(()).unwrap();
        let mut held = holder.begin(request).await.unwrap();
        held.finish().await.unwrap();
        comes("it is in service", || world.running() == 1).await;
        let other = world.client().await;
        let refused = raw(&other.quic, &headers(&GET), true).await;
        assert!(refused.is_err(), "{refused:?}");
        held.stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
        comes("nothing is in service", || world.running() == 0).await;
        world.gateway.process.signal(rustix::process::Signal::TERM);
        let closed = format!("{:?}", other.quic.closed().await);
        assert!(closed.contains("ApplicationClosed"), "{closed}");
        (holder, other)
    });
    drop(kept);
    has_drained(world);
}

#[test]
fn a_request_whose_end_comes_later_has_no_body_for_the_origin() {
    let origin = Origin::echo();
    let world = World::before(&origin);
    run(async {
        let mut client = world.client().await;
        for method in ["GET", "HEAD", "DELETE", "OPTIONS"] {
            let request = Request::builder().method(method).uri("https://example.test/x").body(());
            let mut stream = client.begin(request.unwrap()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            stream.finish().await.unwrap();
            assert_eq!(crate::answer(&mut stream).await.unwrap().status, 200);
        }
        // One that has a body after all is waited for no longer than that of a POST.
        let request = Request::get("https://example.test/x").body(());
        let mut stream = client.begin(request.unwrap()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(400)).await;
        stream.send_data(Bytes::from_static(b"body")).await.unwrap();
        stream.finish().await.unwrap();
        assert_eq!(crate::answer(&mut stream).await.unwrap().status, 200);
    });
    let (seen, _) = origin.requests();
    let chunked = seen.iter().map(|it| !it.values("transfer-encoding").is_empty());
    assert_eq!(chunked.collect::<Vec<_>>(), [false, false, false, false, true]);
    assert_eq!(seen[4].body, b"body");
}

#[test]
fn refusals_and_errors_carry_the_id_of_their_request() {
    let is_over = Arc::new(AtomicBool::new(false));
    let is_refused = is_over.clone();
    let origin = Origin::start(move |mut connection| {
        // A premium request keeps the slot; the others are refused.
        while connection.request().is_some() {
            keep(&is_refused);
            connection.send("HTTP/9.9 what\r\n\r\n");
        }
    });
    let world = World::start(Policy {
        servers: vec![origin.server()],
        origin: "slots = 1".into(),
        tables: format!("{CLASSES}[request_id]\n"),
        ..Policy::default()
    });
    run(async {
        let mut client = world.client().await;
        let request = Request::get("https://example.test/premium").body(()).unwrap();
        let mut held = client.begin(request).await.unwrap();
        held.finish().await.unwrap();
        comes("it is in service", || world.running() == 1).await;
        let refused = client.get("/free").await.unwrap();
        is_over.store(true, Ordering::Relaxed);
        let failed = crate::answer(&mut held).await.unwrap();
        assert_eq!((refused.status, failed.status), (503, 502));
        let [one, other] = [refused, failed].map(|it| it.fields["x-request-id"].clone());
        assert!(one.len() == 32 && other.len() == 32 && one != other, "{one:?} {other:?}");
    });
}
