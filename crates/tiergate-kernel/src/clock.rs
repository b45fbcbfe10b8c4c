//! The programs' clock.

use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

/// How far the clocks of this process's time namespace are apart from the machine's (time_namespaces(7)); nothing can change that once a process is in it.
const OFFSETS: &str = "/proc/self/timens_offsets";

/// What `bpf_ktime_get_ns` reads: the machine's clock, also in a time namespace.
///
/// # Errors
/// What the system says.
pub(crate) fn now() -> nix::Result<Duration> {
    static OFFSET: OnceLock<i128> = OnceLock::new();
    // Before Linux 5.6 there are no such namespaces, nor the file.
    let offset = OFFSET.get_or_init(|| fs::read_to_string(OFFSETS).map_or(0, |text| offset(&text)));
    let own = Duration::from(nix::time::ClockId::CLOCK_MONOTONIC.now()?);
    Ok(without(own, *offset))
}

/// By how many nanoseconds the monotonic clock is ahead.
fn offset(text: &str) -> i128 {
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        let is_it = words.next()? == "monotonic";
        let mut number = || words.next()?.parse::<i64>().ok();
        let (seconds, nanos) = (number()?, number()?);
        is_it.then(|| i128::from(seconds) * 1_000_000_000 + i128::from(nanos))
    };
    text.lines().find_map(of).unwrap_or(0)
}

fn without(own: Duration, offset: i128) -> Duration {
    let nanos = i128::try_from(own.as_nanos()).unwrap_or(i128::MAX) - offset;
    Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_namespace_is_apart_by_what_the_system_says() {
        let text = "monotonic           5000         7\nboottime            -9         0\n";
        assert_eq!(offset(text), 5_000_000_000_007);
        assert_eq!(offset("monotonic  -2 500000000\n"), -1_500_000_000);
        assert_eq!(offset("boottime 3 0\n"), 0);
        let own = Duration::from_secs(6000);
        assert_eq!(without(own, 5_000_000_000_000), Duration::from_secs(1000));
        assert_eq!(without(own, -1_500_000_000), Duration::from_millis(6_001_500));
        assert_eq!(without(own, 7_000_000_000_000), Duration::ZERO);
    }
}
