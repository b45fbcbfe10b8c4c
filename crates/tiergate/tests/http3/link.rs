//! What answers of the background are charged with on a link, over HTTP/3.

use crate::support::gateway::Policy;
use crate::support::http2_client::run;
use crate::support::origin::Origin;
use crate::world::World;
use std::time::Instant;

/// A head is no part of what the gateway writes to a stream by itself.
#[test]
fn what_is_no_more_than_a_head_has_its_turns_too() {
    const ANSWERS: usize = 30;
    const LEN: usize = 6000;
    let origin = Origin::heads(LEN);
    let tables = "[link]\ncapacity = 1_000_000\n\
                  [[class]]\nname = \"site\"\n\
                  [[class]]\nname = \"batch\"\nbackground = true\n\
                  [[rule]]\npath = \"/batch/*\"\nclass = \"batch\"\n";
    let world = World::start(Policy { tables: tables.into(), ..Policy::of(&[origin.server()]) });
    let began = Instant::now();
    run(async {
        let mut client = world.client().await;
        for _ in 0..ANSWERS {
            assert_eq!(client.get("/batch/0").await.expect("an answer").status, 200);
        }
        client.leave().await;
    });
    let took = began.elapsed().as_secs_f64();
    // Each byte is at least three quarters of one on the wire.
    let least = (ANSWERS * LEN) as f64 * 0.75 * 8.0 / 1e6;
    assert!(took > 0.9 * least, "{took} s, {least} at least");
    world.gateway.assert_conserved();
}
