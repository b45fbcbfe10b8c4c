//! Any bytes as a chunked body: the same however they are split, and the same as a naive decoder finds.
#![no_main]

#[allow(dead_code)]
#[path = "../../../crates/tiergate-wire/tests/oracle/mod.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::chunked(bytes));
