//! Any bytes as a response: never accepted otherwise than a naive reader accepts them, and never changed in framing by the writer.
#![no_main]

#[allow(dead_code)]
#[path = "../../../crates/tiergate-wire/tests/oracle/mod.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::response(bytes));
