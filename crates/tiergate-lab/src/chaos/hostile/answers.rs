//! Clients of the basic class that keep to the rules: too many of them, or with requests that the origin
//! answers wrongly. Their answers are checked like those of premium clients.

use super::place::{address, moment};
use crate::chaos::ask::{Ask, Client, Outcome, Way};
use crate::chaos::crowd::Crowd;
use crate::chaos::origin::Say;
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use strum::VariantArray;
use tokio::time::sleep;

/// Asks for what the origin answers wrongly, late, or in odd ways.
pub(crate) async fn ask(way: Way, mut random: Rng, crowd: Arc<Crowd>) {
    let mut client = Client::new(way, address(&mut random));
    loop {
        let say = Say::VARIANTS[random.usize(..Say::VARIANTS.len())];
        let bytes = [0, 100, 5_000, 100_000, 3_000_000][random.usize(..5)];
        let upload = [0, 0, 100, 50_000, 500_000][random.usize(..5)];
        let number = crowd.asked.fetch_add(1, Ordering::Relaxed);
        let id = format!("f{number}");
        let chunked = random.bool();
        let ask = Ask { class: "basic", id, bytes, upload, say, chunked };
        let outcome = client.ask(&ask).await;
        crowd.count(&outcome);
        if let Outcome::Mixed(what) = outcome {
            crowd.mixed(what);
        }
        sleep(moment(&mut random, 100)).await;
    }
}
