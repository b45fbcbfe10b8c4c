//! Any bytes as a request: never accepted otherwise than a naive reader accepts them, and never changed in meaning by the writer.
#![no_main]

#[allow(dead_code)]
#[path = "../../../crates/tiergate-wire/tests/oracle/mod.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::request(bytes));
