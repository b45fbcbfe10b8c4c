//! What goes to the origin and comes back.

use crate::origin::made_up;
use crate::world::{build, code, fetch, get, read, send_body};
use bytes::Bytes;
use h2::Reason;
use http::{HeaderMap, HeaderValue, Request};
use std::time::Duration;
use tiergate_core::outcome::End;

#[tokio::test]
async fn the_origin_is_asked_by_http_1() {
    let world = build(|policy| policy.forwarding.via = true).await;
    let mut client = world.client().await;
    let request = Request::get("http://gate.test:81/head?a=%20b")
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .header("x-tiergate-class", "forged")
        .header("x-forwarded-for", "forged")
        .header("te", "trailers")
        .header("x-latin", HeaderValue::from_bytes(b"caf\xe9").unwrap())
        .body(())
        .unwrap();
    let (_, body, _) = fetch(&mut client, request).await.unwrap();
    let head = String::from_utf8_lossy(&body).into_owned();
    assert!(head.starts_with("GET /head?a=%20b\n"), "{head}");
    for line in [
        "host: gate.test:81\n",
        "cookie: a=1; b=2\n",
        "x-forwarded-for: 127.0.0.1\n",
        "x-forwarded-proto: http\n",
        "x-forwarded-host: gate.test:81\n",
        "via: 2.0 tiergate\n",
        "te: trailers\n",
        "connection: TE\n",
        "x-latin: caf",
    ] {
        assert!(head.contains(line), "{line:?} is not in {head}");
    }
    assert!(!head.contains("forged"), "{head}");
    assert!(!head.contains("content-length") && !head.contains("transfer-encoding"), "{head}");
    assert_eq!(head.matches("cookie:").count(), 1);
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let world = build(|_| {}).await;
    let mut client = world.client().await;
    for len in [0, 10, 100_000] {
        let mut request = get(&format!("/trailers/{len}"));
        request.headers_mut().insert("te", HeaderValue::from_static("trailers"));
        let (_, body, trailers) = fetch(&mut client, request).await.unwrap();
        assert!(body == made_up(len));
        assert_eq!(trailers.expect("they were sent")["x-sum"], len.to_string());
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("x-end", HeaderValue::from_static("here"));
    // By its name it would change what the origin makes of the request.
    trailers.insert("authorization", HeaderValue::from_static("forged"));
    let request = Request::post("http://gate.test/sum").body(()).unwrap();
    let mut ready = client.ready().await.unwrap();
    let (answer, mut sending) = ready.send_request(request, false).unwrap();
    send_body(&mut sending, Bytes::from(vec![1; 1000]), Some(trailers)).await.unwrap();
    let (_, body, _) = read(answer.await.unwrap()).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&body), "1000 x-end=here");
}

#[tokio::test]
async fn an_origin_that_breaks_off_is_never_taken_for_whole() {
    let world = build(|_| {}).await;
    let mut client = world.client().await;
    let error = fetch(&mut client, get("/breaks/100000")).await.unwrap_err();
    assert_eq!(code(&error), Some(Reason::INTERNAL_ERROR));
    // The others go on.
    let (answer, _, _) = fetch(&mut client, get("/len/10")).await.unwrap();
    assert_eq!(answer.status(), 200);
    world.until_load(0, 0).await;
    assert_eq!((world.finished(End::Failed), world.finished(End::Served)), (1, 1));
}

#[tokio::test]
async fn many_streams_at_once_and_a_slow_one_holds_up_none() {
    let world = build(|policy| policy.plan.slots = tiergate_core::control::Slots::Fixed(200)).await;
    // What is not read takes up the connection's window as well: here it has room for more.
    let mut builder = h2::client::Builder::new();
    let client = world.client_with(builder.initial_connection_window_size(10 << 20)).await;
    let mut ready = client.clone().ready().await.unwrap();
    let (_slow, _) = ready.send_request(get("/wait"), true).unwrap();
    // This one is never read: its window stays full.
    let mut ready = ready.ready().await.unwrap();
    let (stuck, _) = ready.send_request(get("/len/5000000"), true).unwrap();
    let _stuck = stuck.await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for turn in 0..600 {
        let mut client = client.clone();
        tasks.spawn(async move {
            let len = turn * 37 % 3000;
            let (_, body, _) = fetch(&mut client, get(&format!("/len/{len}"))).await.unwrap();
            assert!(body == made_up(len));
        });
    }
    let all = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    tokio::time::timeout(Duration::from_secs(20), all).await.unwrap();
}
