//! Trailers.

use crate::http3_client::answer;
use crate::support::gateway::Policy;
use crate::support::http2_client::run;
use crate::support::origin::Origin;
use crate::world::World;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request};

#[test]
fn trailers_pass_both_ways() {
    let origin = Origin::start(|mut connection| {
        while let Some(request) = connection.request() {
            let saw = request.trailers.iter().any(|it| it == &("x-up".into(), "1".into()));
            connection.send(format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-down\r\n\r\n2\r\nhi\r\n0\r\nx-down: {saw}\r\n\r\n"
            ));
        }
    });
    let world = World::before(&origin);
    run(async {
        let mut client = world.client().await;
        let request = Request::post("https://example.test/t").header("te", "trailers").body(());
        let mut stream = client.begin(request.unwrap()).await.unwrap();
        stream.send_data(Bytes::from_static(b"up")).await.unwrap();
        let trailers = [("x-up".parse().unwrap(), "1".parse().unwrap())].into_iter().collect();
        stream.send_trailers(trailers).await.unwrap();
        stream.finish().await.unwrap();
        let answer = answer(&mut stream).await.unwrap();
        assert_eq!((answer.status, &*answer.body), (200, &b"hi"[..]));
        assert_eq!(answer.trailers.expect("trailers")["x-down"], "true");
    });
}

#[test]
fn a_trailer_of_the_request_id_s_name_passes_neither_way() {
    let origin = Origin::answering(|request| {
        let names: Vec<_> = request.trailers.iter().map(|(name, _)| name.as_str()).collect();
        let got = format!("got {}", names.join(" "));
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let trailers = "X-Trace: its-own\r\nx_trace: its-own\r\nX-Sum: 1\r\n";
        format!("{head}{:x}\r\n{got}\r\n0\r\n{trailers}\r\n", got.len()).into_bytes()
    });
    let tables = "[request_id]\nheader = \"X-Trace\"\n".into();
    let world = World::start(Policy { tables, ..Policy::of(&[origin.server()]) });
    run(async {
        let mut client = world.client().await;
        let request = Request::post("https://example.test/t").header("te", "trailers").body(());
        let mut stream = client.begin(request.unwrap()).await.unwrap();
        stream.send_data(Bytes::from_static(b"up")).await.unwrap();
        let mut trailers = HeaderMap::new();
        for name in ["x-trace", "x_trace", "x-end"] {
            trailers.insert(name, HeaderValue::from_static("forged"));
        }
        stream.send_trailers(trailers).await.unwrap();
        stream.finish().await.unwrap();
        let answer = answer(&mut stream).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&answer.body), "got x-end");
        let trailers = answer.trailers.expect("trailers");
        assert!(trailers.len() == 1 && trailers["x-sum"] == "1", "{trailers:?}");
        assert_eq!(answer.fields["x-trace"].len(), 32);
    });
}
