//! Work that really uses the machine: processor time, memory.

use crate::cpu::thread_time;
use std::time::Duration;

/// Bytes that a processor fetches from memory at once.
const CACHE_LINE_BYTES: usize = 64;
/// How often a working set is walked. The more often, the more it matters whether it still lies
/// in the caches; eight times outweighs its allocation.
const WALKS: usize = 8;

/// Uses `time` of this thread's processor time, however long that takes on a busy machine.
pub(super) fn burn(time: Duration) {
    let until = thread_time() + time;
    let mut work = 1_u64;
    while thread_time() < until {
        for _ in 0..1000 {
            work = work.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
        std::hint::black_box(work);
    }
}

/// Allocates so many MiB and walks them at random. Each step reads where the next one goes, so the
/// processor cannot fetch ahead: what is not in the caches costs a whole trip to memory. Alone, a
/// small set stays in them; beside others, it is driven out whenever the thread is.
pub(super) fn walk(mib: usize) {
    let words = mib << 17;
    // Not zero: zeroed pages would be one and the same until written.
    let mut set = vec![1_u64; words];
    let steps = WALKS * (mib << 20) / CACHE_LINE_BYTES;
    let mut at = 1_u64;
    for _ in 0..steps {
        // The high half of the product is uniform over the set.
        let place = ((u128::from(at) * words as u128) >> 64) as usize;
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(set[place]);
        set[place] = at | 1;
    }
    std::hint::black_box(&set);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burning_uses_processor_time() {
        let before = thread_time();
        burn(Duration::from_millis(5));
        assert!(thread_time() - before >= Duration::from_millis(5));
    }

    #[test]
    fn walking_further_takes_processor_time_in_proportion() {
        let time = |mib| {
            let before = thread_time();
            walk(mib);
            thread_time() - before
        };
        time(1);
        let (one, eight) = (time(1), time(8));
        assert!(eight > 4 * one && one > Duration::from_micros(50), "{one:?} {eight:?}");
    }
}
