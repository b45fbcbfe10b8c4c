//! Clients that are slow.

use crate::http3_client::{GET, endpoint, headers, quic, trusting};
use crate::support::gateway::Policy;
use crate::support::http2_client::run;
use crate::support::origin::{Origin, ok};
use crate::support::pattern_bytes;
use crate::world::{CLASSES, World, comes};
use quinn::{TransportConfig, VarInt};
use std::sync::Arc;
use std::time::Duration;

const LEN: usize = 200 * 1024;

/// A connection whose answers go on as they are read.
async fn connect(world: &World) -> quinn::Connection {
    let mut config = trusting(&world.certificate, "h3");
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(8 * 1024));
    config.transport_config(Arc::new(transport));
    quic(&endpoint(), world.gateway.address, config).await
}

/// Sends a request; its answer is not read yet.
async fn begin(connection: &quinn::Connection, fields: &[(&str, &str)]) -> quinn::RecvStream {
    let (mut send, receive) = connection.open_bi().await.unwrap();
    send.write_all(&headers(fields)).await.unwrap();
    send.finish().unwrap();
    receive
}

fn world(origin: &Origin) -> World {
    let tables = "[timeouts]\nwrite = \"1s\"\n".to_owned();
    World::start(Policy { tables, ..Policy::of(&[origin.server()]) })
}

#[test]
fn a_client_that_reads_slowly_and_steadily_gets_all() {
    let origin = Origin::answering(|_| ok(pattern_bytes(0, LEN)));
    let world = world(&origin);
    run(async {
        let connection = connect(&world).await;
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        send.write_all(&headers(&GET)).await.unwrap();
        send.finish().unwrap();
        let mut got = Vec::new();
        // Longer than `write`, of which each part takes a small share.
        while let Some(part) = receive.read_chunk(8 * 1024, true).await.expect("no reset") {
            let windows = got.len() / (8 * 1024);
            got.extend_from_slice(&part.bytes);
            if got.len() / (8 * 1024) > windows {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        assert!(got.len() >= LEN && got.ends_with(&pattern_bytes(0, LEN)[LEN - 100..]));
    });
}

#[test]
fn a_client_that_reads_nothing_is_given_up() {
    let origin = Origin::answering(|_| ok(pattern_bytes(0, LEN)));
    let world = world(&origin);
    run(async {
        let connection = connect(&world).await;
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        send.write_all(&headers(&GET)).await.unwrap();
        send.finish().unwrap();
        // The connection stays; what was not taken is reset.
        let reset = receive.received_reset().await.expect("the connection lives");
        assert_eq!(reset, Some(VarInt::from_u32(0x10c)), "H3_REQUEST_CANCELLED");
        assert!(connection.close_reason().is_none());
    });
}

/// The operator's page is one, however many get it and read nothing.
#[test]
fn refusals_that_are_not_read_hold_no_copies_of_their_page() {
    const REFUSED: u64 = 90;
    let origin = Origin::start(|mut connection| while connection.more() {});
    let folder = tempfile::tempdir().expect("a folder");
    let (file, page) = (folder.path().join("page.html"), "busy ".repeat(50 * 1024));
    std::fs::write(&file, &page).expect("our own folder");
    let world = World::start(Policy {
        origin: "slots = 1".into(),
        tables: format!("{CLASSES}[refusal]\npage_html = {file:?}\n"),
        ..Policy::of(&[origin.server()])
    });
    run(async {
        let connection = connect(&world).await;
        let mut premium = GET;
        premium[3].1 = "/premium";
        let _held = begin(&connection, &premium).await;
        comes("the slot is taken", || world.running() == 1).await;
        let before = world.gateway.process.memory("VmRSS");
        let mut unread = Vec::new();
        let free = [&GET[..], &[("accept", "text/html")]].concat();
        for _ in 0..REFUSED {
            unread.push(begin(&connection, &free).await);
        }
        let refused = || world.gateway.number("/classes/1/refused/queue_full");
        comes("all are refused", || refused() == REFUSED).await;
        let grown = world.gateway.process.memory("VmRSS").saturating_sub(before);
        assert!(grown < REFUSED * page.len() as u64 / 2, "{grown} bytes");
        let answer = unread[0].read_to_end(1 << 20).await.expect("all of it");
        assert!(answer.ends_with(page.as_bytes()), "{} bytes", answer.len());
    });
}

#[test]
fn a_head_whose_body_is_awaited_counts_as_memory_for_slow_clients() {
    let origin = Origin::answering(|_| ok("done"));
    let world = World::before(&origin);
    let buffered = || world.gateway.number("/clients/buffered_bytes");
    run(async {
        let connection = connect(&world).await;
        let long = "x".repeat(20_000);
        let mut fields = [&GET[..], &[("x-long", &*long)]].concat();
        fields[0].1 = "POST";
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        send.write_all(&headers(&fields)).await.unwrap();
        comes("its body is awaited", || buffered() >= 20_000).await;
        assert_eq!(world.running(), 0);
        send.finish().unwrap();
        let answer = receive.read_to_end(1 << 20).await.expect("all of it");
        assert!(answer.ends_with(b"done"));
        comes("all is given back", || buffered() == 0).await;
    });
}
