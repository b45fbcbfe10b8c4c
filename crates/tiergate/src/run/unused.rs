//! Gives memory back to the system that peaks have left behind.
//!
//! After a peak the allocator keeps what was freed, in pieces between what is still in use: its own threshold looks at the end
//! of each heap only. So once memory has been free for a while, it is told to return all whole pages that are.
//! The C library's two functions are in no safe crate (docs/adr/0011); with another C library nothing is done.

use std::time::Duration;

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(10);
/// After so many looks that found memory unused it is returned: a load that comes and goes every few seconds shall
/// not have to ask for it each time.
const LOOKS: u32 = 3;
/// Less than this is not worth it.
const WORTH_BYTES: u64 = 4 << 20;

/// When to give memory back, by what is resident and what of it is in use.
#[derive(Debug, Default)]
struct Unused {
    looks: u32,
    /// What was left when it was last returned: parts of pages.
    left: u64,
}

impl Unused {
    /// Whether to return it now. `resident` and `used` in bytes.
    fn look(&mut self, resident: u64, used: u64) -> bool {
        let unused = resident.saturating_sub(used);
        self.left = self.left.min(unused);
        let is_worth = unused >= self.left + WORTH_BYTES;
        self.looks = if is_worth { self.looks + 1 } else { 0 };
        self.looks >= LOOKS
    }

    /// It was returned just now: what is unused all the same cannot be. Not at the next look: a peak may have come by then, and
    /// what it leaves behind would be taken for that.
    fn returned(&mut self, resident: u64, used: u64) {
        *self = Unused { looks: 0, left: resident.saturating_sub(used) };
    }
}

/// Looks for ever.
pub(super) async fn run() {
    let mut unused = Unused::default();
    loop {
        tokio::time::sleep(LOOK).await;
        // Not on a thread that serves: the allocator looks through what is free.
        let looked = tokio::task::spawn_blocking(move || {
            let read = || resident().zip(used());
            if let Some((resident, used)) = read()
                && unused.look(resident, used)
            {
                give_back();
                if let Some((resident, used)) = read() {
                    unused.returned(resident, used);
                }
            }
            unused
        });
        match looked.await {
            Ok(state) => unused = state,
            Err(_) => return,
        }
    }
}

/// Bytes of resident memory that are of no file.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Bytes that the allocator has given out.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "no safe crate has the function")]
fn used() -> Option<u64> {
    // SAFETY: the function takes nothing, and may be called by any thread.
    let info = unsafe { libc::mallinfo2() };
    Some((info.uordblks + info.hblkhd) as u64)
}

/// Returns whole pages in which nothing is in use.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "no safe crate has the function")]
fn give_back() {
    // SAFETY: the function only touches memory that is free, and may be called by any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn used() -> Option<u64> {
    None
}

#[cfg(not(target_env = "gnu"))]
fn give_back() {}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Which of the looks say that it is to be returned; as much stays then as is resident at the next.
    fn returned(looks: &[(u64, u64)]) -> Vec<usize> {
        returned_but(looks, |place| looks.get(place + 1).map_or(0, |next| next.0))
    }

    /// The same; `stays`: how much stays resident where it is returned.
    fn returned_but(looks: &[(u64, u64)], stays: impl Fn(usize) -> u64) -> Vec<usize> {
        let mut unused = Unused::default();
        let says = |(place, (resident, used)): (usize, &(u64, u64))| {
            let says = unused.look(resident * MIB, used * MIB);
            if says {
                unused.returned(stays(place) * MIB, used * MIB);
            }
            says.then_some(place)
        };
        looks.iter().enumerate().filter_map(says).collect()
    }

    #[test]
    fn memory_is_returned_once_it_has_been_unused_for_three_looks() {
        assert_eq!(returned(&[(10, 9); 9]), [0; 0]);
        assert_eq!(returned(&[(10, 9), (50, 49), (50, 9), (50, 9), (50, 9), (10, 9)]), [4]);
        // Used again between.
        assert_eq!(returned(&[(10, 9), (50, 9), (50, 9), (50, 47), (50, 9), (50, 9)]), [0; 0]);
    }

    #[test]
    fn what_cannot_be_returned_is_not_returned_again() {
        let stays =
            [(10, 9), (50, 9), (50, 9), (50, 9), (40, 9), (40, 9), (40, 9), (40, 9), (40, 9)];
        assert_eq!(returned(&stays), [3]);
        // But what comes on top of it.
        assert_eq!(returned(&[&stays[..], &[(60, 9); 3]].concat()), [3, 11]);
    }

    #[test]
    fn a_peak_right_after_a_return_does_not_hide_what_it_leaves() {
        let looks = [(50, 9), (50, 9), (50, 9), (60, 25), (50, 9), (50, 9), (50, 9)];
        assert_eq!(returned_but(&[&[(10, 9)], &looks[..]].concat(), |_| 12), [3, 6]);
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn pieces_between_what_is_in_use_are_returned() {
        // Small enough not to be mapped each by itself, and every hundredth stays, so that the heap cannot shrink.
        let mut pieces: Vec<Vec<u8>> = (0..10_000).map(|_| vec![1; 8 << 10]).collect();
        let before = resident().unwrap();
        let mut place = 0;
        pieces.retain(|_| {
            place += 1;
            place % 100 == 0
        });
        let freed = resident().unwrap();
        assert!(used().unwrap() + 40 * MIB < before);
        give_back();
        let after = resident().unwrap();
        assert!(after + 40 * MIB < before.max(freed), "{before} {freed} {after}");
        assert!(pieces.iter().all(|piece| piece[0] == 1));
    }
}
