//! What the black-box tests share: the built gateway as a process, blocking clients that see every
//! byte, origins that record every byte, and real servers started on ports of their own.

// Each test file is a crate of its own and uses its part of this.
#![allow(dead_code, unreachable_pub)]

pub mod agent;
pub mod answer;
pub mod client;
pub mod dns;
pub mod echo;
pub mod gateway;
pub mod guarded;
pub mod http2_client;
pub mod http2_origin;
pub mod jwt;
pub mod load;
pub mod mmdb;
pub mod origin;
pub mod process;
pub mod servers;
pub mod tls_origin;
pub mod unanswering;

use std::time::{Duration, Instant};

/// How long a test waits for anything: far beyond what is right, so that only a hang meets it.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `holds`; says `what` was waited for if it never does.
pub fn eventually(what: &str, holds: impl FnMut() -> bool) {
    eventually_within(PATIENCE, what, holds);
}

/// The same for what itself takes long.
pub fn eventually_within(patience: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + patience;
    while !holds() {
        assert!(Instant::now() < until, "not within {patience:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The same, explained by what was last seen.
pub fn eventually_is<T: PartialEq + std::fmt::Debug>(
    what: &str,
    expected: T,
    mut look: impl FnMut() -> T,
) {
    let until = Instant::now() + PATIENCE;
    loop {
        let seen = look();
        if seen == expected {
            return;
        }
        assert!(Instant::now() < until, "{what}: {seen:?}, expected {expected:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Byte `at` of a body that no shift, cut or repetition leaves unchanged.
pub fn pattern(at: u64) -> u8 {
    let word = (at / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> ((at % 8) * 8)) as u8
}

/// The bytes `from..from + len` of [`pattern`].
pub fn pattern_bytes(from: u64, len: usize) -> Vec<u8> {
    (from..from + len as u64).map(pattern).collect()
}
