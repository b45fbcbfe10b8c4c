//! The gateway's clock: moments since the process started.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};
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

/// Longest time between two readings of one clock around a reading of the other.
const READING_MAX: Duration = Duration::from_millis(1);

/// By how much the wall clock is ahead of moments: UNIX time at [`Moment::ZERO`]. It changes when the wall clock is set, and
/// when the machine slept; a clock that NTP slews takes moments along. `None`: not now, since this thread was interrupted
/// between reading one and the other; or the wall clock is before 1970.
pub fn ahead() -> Option<Duration> {
    let before = now();
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let after = now();
    let is_quick = after.since(before) <= READING_MAX;
    wall.checked_sub(after.since(Moment::ZERO)).filter(|_| is_quick)
}

/// The last moment that this thread asked for: at most a timer tick old, and free. For what does not
/// mind, such as how long a connection has been idle.
pub fn recent() -> Moment {
    RECENT.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_what_the_wall_clock_is_ahead_make_unix_time() {
        // A thread of a busy machine may be interrupted many times, but not each time.
        let ahead = (0..1000).find_map(|_| ahead()).expect("the clock is set");
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        let off = unix.abs_diff(ahead + now().since(Moment::ZERO));
        assert!(off < Duration::from_secs(5), "{off:?}");
    }
}
