//! Clients that are slow.

use crate::http3_client::{GET, endpoint, headers, quic, trusting};
use crate::support::gateway::Policy;
use crate::support::http2_client::run;
use crate::support::origin::{Origin, ok};
use crate::support::pattern_bytes;
use crate::world::World;
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
