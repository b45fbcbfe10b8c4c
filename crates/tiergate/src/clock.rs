//! The gateway's clock: moments since the process started.

use std::cell::Cell;
use std::sync::OnceLock;
use tiergate_core::time::Moment;
use tokio::time::Instant;

static START: OnceLock<Instant> = OnceLock::new();

thread_local! {
    static RECENT: Cell<Moment> = const { Cell::new(Moment::ZERO) };
}

/// Now, counted from the first call in this process. No system call where the vDSO has the clock. The
/// runtime's time, which tests may pause.
pub fn now() -> Moment {
    let start = *START.get_or_init(Instant::now);
    let now = Moment::ZERO + start.elapsed();
    RECENT.set(now);
    now
}

/// The last moment that this thread asked for: at most a timer tick old, and free. For what does not
/// mind, such as how long a connection has been idle.
pub fn recent() -> Moment {
    RECENT.get()
}
