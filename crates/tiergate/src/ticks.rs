//! What drives the gate's time.

use crate::clock;
use crate::door::Door;
use std::future::poll_fn;
use std::time::Duration;

/// The gate is not ticked more often than this by itself, however close the deadlines lie.
const TICK_MIN: Duration = Duration::from_millis(1);
/// Nor less often.
const TICK_MAX: Duration = Duration::from_secs(1);

/// Ticks the gate when it wants it, for as long as the runtime lives. One task of the process.
pub async fn run(door: &Door) {
    loop {
        let next = door.tick(clock::now());
        let pause = next.since(clock::now()).clamp(TICK_MIN, TICK_MAX);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = poll_fn(|context| door.poll_earlier(context)) => {}
        }
    }
}
