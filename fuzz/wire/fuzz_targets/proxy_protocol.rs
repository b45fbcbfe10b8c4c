//! Any bytes as a PROXY header: the same answer however they are split, within the bounds.
#![no_main]

use tiergate_wire::http1::Parsed;
use tiergate_wire::proxy_protocol::{V2_LEN_MAX, parse};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let whole = parse(bytes);
    let trickled = (0..=bytes.len())
        .map(|len| parse(&bytes[..len]))
        .find(|answer| *answer != Ok(Parsed::Partial))
        .unwrap_or(Ok(Parsed::Partial));
    match (whole, trickled) {
        (Ok(Parsed::Complete(header)), Ok(Parsed::Complete(again))) => {
            assert_eq!(header, again);
            assert!(header.len <= bytes.len() && header.len <= V2_LEN_MAX);
        }
        (Ok(Parsed::Partial), Ok(Parsed::Partial)) => assert!(bytes.len() < V2_LEN_MAX),
        (Err(_), Err(_)) => {}
        answers => panic!("the answer depends on the split: {answers:?}"),
    }
});
