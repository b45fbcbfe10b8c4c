//! What clients are told over HTTP/2, and what becomes of those that do not listen.

use crate::world::{World, build, fetch, get};
use http::HeaderMap;
use std::time::Duration;
use tiergate::config::meant::Policy;
use tiergate_core::admit::block;
use tiergate_core::admit::bucket::Rate;
use tiergate_core::admit::policer::{Per, PolicerId, Settings};

/// A gateway whose clients may send two requests each, and then one an hour.
async fn policed(change: impl FnOnce(&mut Policy)) -> World {
    build(|policy| {
        policy.plan.policers = vec![Settings {
            name: "each".to_owned(),
            rate: Rate::of_thousandths(1000, 3600),
            burst: 2,
            per: Per::Flow { flows_max: 100 },
            shares: Vec::new(),
            announce: true,
        }];
        policy.plan.classes[0].policer = Some(PolicerId(0));
        policy.refusal.reason_header = Some("X-Reason".into());
        change(policy);
    })
    .await
}

async fn ask(world: &World) -> (u16, HeaderMap) {
    let mut client = world.client().await;
    let (answer, _, _) = fetch(&mut client, get("/len/1")).await.unwrap();
    (answer.status().as_u16(), answer.headers().clone())
}

#[tokio::test]
async fn a_blocked_client_loses_the_connection_in_good_order_and_is_heard_again_later() {
    let world = policed(|policy| {
        policy.plan.block = Some(block::Settings {
            after: 2,
            within: Duration::from_secs(3600),
            lasting: Duration::from_secs(2),
            flows_max: 100,
        });
    })
    .await;
    for expected in [200, 200, 429, 429] {
        assert_eq!(ask(&world).await.0, expected);
    }
    let stream = tokio::net::TcpStream::connect(world.address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let (answer, _, _) = fetch(&mut client, get("/len/1")).await.unwrap();
    assert_eq!(answer.status(), 429);
    assert_eq!(answer.headers()["x-reason"], "blocked");
    let ended = tokio::time::timeout(Duration::from_secs(5), connection).await;
    ended.expect("it is closed").unwrap().unwrap();
    for _ in 0..500 {
        let (_, headers) = ask(&world).await;
        if headers["x-reason"] == "policed" {
            return;
        }
        assert_eq!(headers["x-reason"], "blocked");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it is still blocked");
}
