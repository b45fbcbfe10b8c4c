//! Connections at their bound: one that has been told to go goes, whatever it still holds.

use crate::http3_client::{GET, frame, headers, raw};
use crate::support::gateway::Policy;
use crate::support::http2_client::run;
use crate::support::origin::{Origin, ok};
use crate::world::{World, comes};
use http::Request;
use std::time::Duration;

#[test]
fn one_that_ends_and_still_sends_a_body_makes_room_for_all_others() {
    let origin = Origin::answering(|request| {
        let is_slow = request.target == "/slow";
        std::thread::sleep(Duration::from_secs(if is_slow { 5 } else { 0 }));
        ok("done")
    });
    let tables = "[limits]\nconnections_max = 4\n[refusal]\nconnection = \"close\"\n[[rule]]\npath = \"/no\"\nrefuse = true\n";
    let world = World::start(Policy { tables: tables.into(), ..Policy::of(&[origin.server()]) });
    run(async {
        let holds = world.client().await;
        let mut fields = GET.to_vec();
        fields[0].1 = "POST";
        fields.push(("content-length", "60000"));
        let (mut body, _answer) = holds.quic.open_bi().await.expect("a stream");
        body.write_all(&[headers(&fields), frame(0, b"some")].concat()).await.expect("sent");
        // The refusal ends the connection, once its streams have.
        let mut fields = GET.to_vec();
        let path = fields.iter().position(|it| it.0 == ":path").expect("there is one");
        fields[path].1 = "/no";
        let refused = raw(&holds.quic, &headers(&fields), true).await;
        assert!(refused.is_ok_and(|it| String::from_utf8_lossy(&it).contains("403")));
        // The others have requests in progress, and none of them can make room.
        let mut busy = Vec::new();
        for _ in 0..3 {
            let mut client = world.client().await;
            let request = Request::get("https://example.test/slow").body(()).expect("a good one");
            let mut stream = client.begin(request).await.expect("begun");
            stream.finish().await.expect("sent");
            busy.push((client, stream));
        }
        comes("they are in progress", || world.running() == 3).await;
        for _ in 0..3 {
            assert_eq!(world.get("/").await.status, 200);
            assert_eq!(world.running(), 3, "it was none of these");
        }
        comes("it has made room", || holds.quic.close_reason().is_some()).await;
    });
    world.gateway.assert_conserved();
}
