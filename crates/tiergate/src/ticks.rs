//! What drives the gate's time.

use crate::clock;
use crate::door::Door;
use std::future::poll_fn;
use std::time::Duration;

/// The gate is not ticked more often than this by itself, however close the deadlines lie.
const TICK_MIN: Duration = Duration::from_millis(1);
/// Nor less often.
const TICK_MAX: Duration = Duration::from_secs(1);
/// How often the gate is told what the wall clock says: soon after it is set, and rarely enough to cost nothing.
const CLOCK_EVERY: Duration = Duration::from_secs(1);

/// Ticks the gate when it wants it, for as long as the runtime lives. One task of the process.
pub async fn run(door: &Door) {
    let mut clock_due = clock::now();
    loop {
        let now = clock::now();
        if now >= clock_due
            && let Some(ahead) = clock::ahead()
        {
            door.set_clock(ahead);
            clock_due = now + CLOCK_EVERY;
        }
        let next = door.tick(clock::now());
        let pause = next.since(clock::now()).clamp(TICK_MIN, TICK_MAX);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = poll_fn(|context| door.poll_earlier(context)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiergate_core::control::{Bounds, Slots};
    use tiergate_core::plan::Spec;

    #[tokio::test(start_paused = true)]
    async fn the_gate_knows_the_wall_clock_from_the_beginning() {
        let spec = Spec { slots: Slots::Shared(Bounds::default()), ..Spec::protective() };
        let door = Door::new(spec.build().expect("a valid plan"), clock::now);
        let is_unknown = || format!("{:?}", *door.gate()).contains("ahead: 0ns");
        assert!(is_unknown(), "otherwise this test says nothing");
        // A reading that is interrupted is repeated a tick later.
        let some_ticks = TICK_MAX * 50;
        tokio::time::timeout(some_ticks, run(&door)).await.expect_err("it never ends");
        assert!(!is_unknown());
    }
}
