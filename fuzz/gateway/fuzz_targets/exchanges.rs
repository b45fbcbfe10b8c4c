//! Requests through the whole request path, with everything that client and origin may do wrong: the games of the
//! test of that name.
#![no_main]

#[allow(dead_code)]
#[path = "../../../crates/tiergate/tests/exchanges/play/mod.rs"]
mod play;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    play::play(bytes);
});
