//! The quiet pause: nobody asks anything, and everything must come to rest.

use super::metrics::Metrics;
use super::samples;
use super::world::World;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the gateway may take to come to rest: longer than any of its timeouts.
const REST_PATIENCE: Duration = Duration::from_secs(15);
/// How long its idle connections to the origin stay open after that: two seconds by the policy, up to one more
/// until they are looked for, and one for a busy machine.
const IDLE: Duration = Duration::from_secs(4);
/// How long until the gateway has given memory back that it no longer uses: it looks every ten seconds whether it has been
/// unused three times.
const GIVEN_BACK: Duration = Duration::from_secs(45);

/// Gauges that are zero at rest.
const GAUGES: [&str; 8] = [
    "connections_active",
    "requests_waiting",
    "requests_running",
    "slots_running",
    "streams",
    "tunnels_active",
    "buffered_bytes",
    "origin_outstanding",
];

/// The gateway at rest, or when it should have been.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    pub(super) name: String,
    /// Time of the timeline.
    pub(super) at: f64,
    pub(super) took: Duration,
    /// What has not come to rest.
    pub(super) stuck: Vec<String>,
    pub(super) memory: u64,
    /// The same once what is unused has been given back, where that was waited for.
    pub(super) memory_used: Option<u64>,
    pub(super) descriptors: u64,
    pub(super) metrics: Metrics,
    /// Lines of the access log that were read, and those without a verdict on a slot.
    pub(super) lines: u64,
    pub(super) bad_lines: u64,
}

/// Waits for rest.
pub(super) async fn settle(world: &World, name: &str, now: impl Fn() -> f64) -> Reading {
    let begun = Instant::now();
    let (mut metrics, mut stuck);
    loop {
        sleep(Duration::from_millis(250)).await;
        world.log.read();
        metrics = Metrics::fetch(world.places.admin).await.unwrap_or_default();
        stuck = moving(&metrics, world.log.count());
        if stuck.is_empty() || begun.elapsed() > REST_PATIENCE {
            break;
        }
    }
    let took = begun.elapsed();
    sleep(IDLE).await;
    let (memory, descriptors) = samples::of(world.pid).unwrap_or_default();
    let lines = world.log.lines();
    let name = name.to_owned();
    let (at, bad_lines) = (now(), lines.bad);
    Reading {
        name,
        at,
        took,
        stuck,
        memory,
        memory_used: None,
        descriptors,
        metrics,
        lines: lines.whole,
        bad_lines,
    }
}

/// Waits until memory has been given back; what is left.
pub(super) async fn memory_used(world: &World) -> Option<u64> {
    sleep(GIVEN_BACK).await;
    samples::of(world.pid).map(|(memory, _)| memory)
}

/// What is not at rest.
fn moving(metrics: &Metrics, lines: u64) -> Vec<String> {
    let gauges = GAUGES.iter().map(|name| (*name, metrics.sum(name)));
    let mut moving: Vec<String> = gauges
        .filter(|(_, value)| *value != 0.0)
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    if metrics == &Metrics::default() {
        moving.push("no metrics".into());
    }
    let logged = metrics.sum("access_log_lines_total");
    if logged != lines as f64 {
        moving.push(format!("{logged} log lines written, {lines} read"));
    }
    let lost = metrics.sum("access_log_lines_dropped_total");
    let requests = metrics.sum("http_requests_total");
    if logged + lost != requests {
        moving.push(format!("{requests} requests, {} log lines", logged + lost));
    }
    moving
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gauge_can_be_stuck() {
        for gauge in GAUGES {
            let metrics = Metrics::from([(gauge, 1.0)]);
            assert_eq!(moving(&metrics, 0), [format!("{gauge} 1")]);
        }
        let metrics =
            Metrics::from([("access_log_lines_total", 4.0), ("http_requests_total", 5.0)]);
        assert_eq!(moving(&metrics, 4), ["5 requests, 4 log lines"]);
        assert_eq!(moving(&Metrics::default(), 0), ["no metrics"]);
    }
}
