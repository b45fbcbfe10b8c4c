//! What goes to the origin and comes back: fields, bodies, trailers, bounds.

use crate::origin::made_up;
use crate::side::{Client, Side, fetch, post};
use crate::support::origin::{Origin, ok};
use crate::world::{build, by, eventually, get, server};
use bytes::Bytes;
use http::{HeaderValue, Method, Request};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tiergate_core::outcome::End;

over_both! {
    bodies_of_every_framing_come_whole
    heads_and_bodiless_answers_have_no_body
    what_concerned_the_origins_connection_is_gone
    twenty_megabytes_go_there_and_back
    received_bytes_are_what_the_client_sent
    the_origin_is_told_who_asks_and_nothing_made_up
    forwarding_fields_are_continued_for_trusted_peers
    the_last_hop_is_answered_for
    trailers_pass_both_ways
    trailers_are_bounded
    an_answer_without_a_date_gets_one
    requests_beyond_the_bounds_are_answered
}

const KIB: usize = 1024;

async fn bodies_of_every_framing_come_whole(side: Side) {
    let world = build(|_| {}).await;
    for kind in ["len", "chunked", "close"] {
        for len in [0, 1, 1024, 8192, 8193, 65_536, 1_000_003] {
            let answer = fetch(&world, side, &format!("/{kind}/{len}")).await;
            assert_eq!(answer.status, 200);
            assert!(answer.body == made_up(len), "/{kind}/{len}: {} bytes", answer.body.len());
            assert_eq!(answer.fields.contains_key("content-length"), kind == "len");
        }
    }
    world.until_load(0, 0).await;
    assert_eq!(world.finished(End::Served), 21);
}

async fn heads_and_bodiless_answers_have_no_body(side: Side) {
    let world = build(|_| {}).await;
    let mut client = Client::connect(&world, side).await;
    let mut request = get("/len/1000");
    *request.method_mut() = Method::HEAD;
    let answer = client.fetch(request).await.unwrap();
    assert_eq!((answer.fields["content-length"].as_bytes(), answer.body.len()), (&b"1000"[..], 0));
    for status in [204, 304, 404, 500] {
        let answer = client.fetch(get(&format!("/status/{status}"))).await.unwrap();
        assert_eq!((answer.status, answer.body.len()), (status, 0));
    }
    // One connection sufficed for all, so the end of each answer was found.
    assert_eq!(world.seen.connections.load(Ordering::Relaxed), 1);
    assert_eq!(world.finished(End::Error), 1);
}

async fn what_concerned_the_origins_connection_is_gone(side: Side) {
    let world = build(|policy| policy.forwarding.via = true).await;
    let answer = fetch(&world, side, "/cookies").await;
    let cookies: Vec<_> = answer.fields.get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["a=1", "b=2"]);
    assert_eq!(answer.fields["x-odd"].as_bytes(), b"caf\xe9");
    assert_eq!(answer.fields["via"], "1.1 tiergate");
    assert_eq!(answer.fields["content-length"], "3");
    for gone in ["keep-alive", "connection", "x-hop"] {
        assert!(!answer.fields.contains_key(gone), "{gone}");
    }
    assert_eq!(answer.body, b"two");
}

async fn twenty_megabytes_go_there_and_back(side: Side) {
    let world = build(|_| {}).await;
    let body = Bytes::from(made_up(20 << 20));
    for length in [Some(body.len()), None] {
        let client = Client::connect(&world, side).await;
        let mut exchange = client.begin(post("/echo", length), true).await;
        exchange.send(body.clone());
        exchange.finish();
        let answer = exchange.answer().await.unwrap();
        assert_eq!(answer.status, 200);
        assert!(answer.body == body, "{} bytes came back", answer.body.len());
    }
    world.until_load(0, 0).await;
}

async fn received_bytes_are_what_the_client_sent(side: Side) {
    let world = build(|policy| policy.forwarding.via = true).await;
    for request_max in [64 * KIB, 0] {
        let mut config = world.shared.config.load().policy.clone();
        config.buffering.request_max = request_max;
        let former = world.shared.config.load_full();
        let next = former.generation + 1;
        let counters = world.shared.counters.clone();
        let config = tiergate::shared::Config::new(config, next, Some(&former), &counters);
        world.shared.reconfigure(config.expect("the same servers"));
        let before = world.shared.counters.sum(|it| &it.received_bytes);
        let client = Client::connect(&world, side).await;
        let mut exchange = client.begin(post("/sum", Some(1000)), true).await;
        exchange.send(made_up(400));
        tokio::time::sleep(Duration::from_millis(50)).await;
        exchange.send(made_up(600));
        exchange.finish();
        assert_eq!(exchange.answer().await.unwrap().status, 200);
        eventually("it is counted", || world.shared.counters.sum(|it| &it.received_bytes) > before)
            .await;
        let received = world.shared.counters.sum(|it| &it.received_bytes) - before;
        // Without what the origin is told of the client, which is longer than all of this.
        let head = b"POST /sum HTTP/1.1\r\nhost: gate.test\r\ncontent-length: 1000\r\n\r\n".len();
        assert_eq!(received as usize, head + 1000);
    }
}

/// Whatever a client says of itself in fields that speak for others is replaced.
async fn the_origin_is_told_who_asks_and_nothing_made_up(side: Side) {
    let world = build(|policy| policy.forwarding.via = true).await;
    let mut request = Request::get("http://gate.test:81/head?a=%2F&b")
        .header("x-twice", "1")
        .header("x-twice", "2")
        .header("accept-language", "de,en-US;q=0.7,en;q=0.3")
        .header("x-latin", HeaderValue::from_bytes(b"caf\xe9").unwrap())
        .header("te", "trailers")
        .header("via", "1.1 before");
    for name in [
        "x-forwarded-for",
        "x-forwarded-proto",
        "x_forwarded_for",
        "x-real-ip",
        "forwarded",
        "x-tiergate-class",
        "proxy",
        "proxy-authorization",
    ] {
        request = request.header(name, "forged");
    }
    let by = match side {
        // What concerns its own connection; over HTTP/2 there is no such thing.
        Side::Http1 => {
            request = request.header("cookie", "a=1; b=\"2\"").header("connection", "te, x-hop");
            for name in ["x-hop", "keep-alive", "proxy-connection"] {
                request = request.header(name, "forged");
            }
            "1.1"
        }
        Side::Http2 => {
            request = request.header("cookie", "a=1").header("cookie", "b=\"2\"");
            "2.0"
        }
    };
    let mut client = Client::connect(&world, side).await;
    let head = client.fetch(request.body(()).unwrap()).await.unwrap().text();
    assert!(head.starts_with("GET /head?a=%2F&b\n"), "{head}");
    for line in [
        "\nhost: gate.test:81\n",
        "x-twice: 1\n",
        "x-twice: 2\n",
        "accept-language: de,en-US;q=0.7,en;q=0.3\n",
        "cookie: a=1; b=\"2\"\n",
        "x-forwarded-for: 127.0.0.1\n",
        "x-forwarded-proto: http\n",
        "x-forwarded-host: gate.test:81\n",
        "via: 1.1 before\n",
        &format!("via: {by} tiergate\n"),
        "te: trailers\n",
        "connection: TE\n",
        "x-latin: caf",
    ] {
        assert_eq!(head.matches(line).count(), 1, "{line:?} in {head}");
    }
    for absent in ["forged", "content-length", "transfer-encoding", "x-hop"] {
        assert!(!head.contains(absent), "{absent} in {head}");
    }
    assert_eq!(head.matches("cookie:").count(), 1, "{head}");
}

async fn forwarding_fields_are_continued_for_trusted_peers(side: Side) {
    let world = by("trusted = [\"127.0.0.0/8\"]\n[origin]\nservers = [\"a:1\"]\nslots = 9\n\
         [forwarding]\nforwarded = true\n[[class]]\nname = \"far\"\n[[class]]\nname = \"near\"\n\
         [[rule]]\nclient = \"192.0.2.0/24\"\nclass = \"far\"\n")
    .await;
    let request = Request::get("http://x.test/head")
        .header("x-forwarded-for", "192.0.2.7")
        .header("x-forwarded-proto", "https")
        .header("x-forwarded-host", "y.test")
        .header("forwarded", "for=192.0.2.7");
    let mut client = Client::connect(&world, side).await;
    let head = client.fetch(request.body(()).unwrap()).await.unwrap().text();
    for line in [
        "x-forwarded-for: 192.0.2.7, 127.0.0.1\n",
        "x-forwarded-proto: https\n",
        "x-forwarded-host: y.test\n",
        "forwarded: for=192.0.2.7, for=127.0.0.1;host=\"x.test\";proto=http\n",
    ] {
        assert!(head.contains(line), "{line:?} in {head}");
    }
    assert!(!head.contains("via"), "{head}");
    // The client that a trusted peer names is the one that rules see.
    let gate = world.shared.door.gate();
    let arrived: Vec<u64> = gate.account().classes.iter().map(|class| class.arrived).collect();
    assert_eq!(arrived, [1, 0]);
}

async fn the_last_hop_is_answered_for(side: Side) {
    let world = build(|_| {}).await;
    for (hops, status) in [("0", 501), ("2", 200)] {
        let mut client = Client::connect(&world, side).await;
        let request = Request::options("http://gate.test/head").header("max-forwards", hops);
        let answer = client.fetch(request.body(()).unwrap()).await.unwrap();
        assert_eq!(answer.status, status);
        assert_eq!(answer.text().contains("max-forwards: 1\n"), status == 200, "{answer:?}");
    }
}

async fn trailers_pass_both_ways(side: Side) {
    let world = build(|_| {}).await;
    for len in [0, 10, 100_000] {
        let mut request = get(&format!("/trailers/{len}"));
        side.take_trailers(&mut request);
        let answer = Client::connect(&world, side).await.fetch(request).await.unwrap();
        assert!(answer.body == made_up(len));
        assert_eq!(answer.trailers["x-sum"], len.to_string());
    }
    let mut request = post("/sum", None);
    request.headers_mut().insert("trailer", HeaderValue::from_static("x-end, authorization"));
    let mut exchange = Client::connect(&world, side).await.begin(request, true).await;
    exchange.send(vec![1; 1000]);
    // By its name the second would change what the origin makes of the request.
    let trailers = [("x-end", "here"), ("authorization", "forged")];
    exchange.finish_with(
        trailers
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .into_iter()
            .collect(),
    );
    assert_eq!(exchange.answer().await.unwrap().text(), "1000 x-end=here");
}

/// The same over all protocols: an origin over HTTP/2 could not be sent what is longer, and its request would never end.
async fn trailers_are_bounded(side: Side) {
    let world = build(|_| {}).await;
    for (count, len, status) in [(32, 1, 200), (33, 1, 400), (1, 4000, 200), (1, 4200, 400)] {
        let names: Vec<String> = (0..count).map(|it| format!("x-{it}")).collect();
        let mut request = post("/sum", None);
        request.headers_mut().insert("trailer", names.join(", ").parse().unwrap());
        let mut exchange = Client::connect(&world, side).await.begin(request, true).await;
        exchange.send(vec![1; 1000]);
        let value: HeaderValue = "v".repeat(len).parse().unwrap();
        let trailers = names.iter().map(|name| (name.parse().unwrap(), value.clone()));
        exchange.finish_with(trailers.collect());
        assert_eq!(exchange.answer().await.unwrap().status, status, "{count} of {len} bytes");
    }
}

/// An answer without a date gets one on its way (RFC 9110 §6.6.1), and only then.
async fn an_answer_without_a_date_gets_one(side: Side) {
    let origin = Origin::answering(|request| match request.target.as_str() {
        "/dated" => b"HTTP/1.1 200 OK\r\nDate: then\r\nContent-Length: 0\r\n\r\n".to_vec(),
        _ => ok("x"),
    });
    let world = build(|policy| policy.origin.servers = vec![server(origin.address)]).await;
    let date = fetch(&world, side, "/").await.fields["date"].to_str().unwrap().to_owned();
    assert!(date.ends_with(" GMT") && date.len() == 29, "{date}");
    assert_eq!(fetch(&world, side, "/dated").await.fields["date"], "then");
}

async fn requests_beyond_the_bounds_are_answered(side: Side) {
    let world = build(|policy| {
        policy.limits.fields_max = 20;
        policy.limits.target_len_max = 100;
        policy.limits.request_body_max = 1000;
        policy.limits.request_head_max = 4096;
    })
    .await;
    let many = (0..30).fold(Request::get("http://a/len/1"), |request, turn| {
        request.header(format!("x-{turn}"), "1")
    });
    let large = (0..6).fold(Request::get("http://a/len/1"), |request, turn| {
        request.header(format!("x-{turn}"), "y".repeat(1000))
    });
    let cases = [
        (get(&format!("/{}", "x".repeat(200))), 414),
        (many.body(()).unwrap(), 431),
        (large.body(()).unwrap(), 431),
        (Request::get("http://a/len/1").header("expect", "tea").body(()).unwrap(), 417),
        (post("/sum", Some(5000)), 413),
    ];
    for (request, status) in cases {
        let told = format!("{request:?}");
        // The end of the body is not said, so that a length may be announced.
        let mut exchange = Client::connect(&world, side).await.begin(request, status == 413).await;
        assert_eq!(exchange.head().await.unwrap().status(), status, "{told}");
    }
    assert_eq!(world.requests(), 0);
}
