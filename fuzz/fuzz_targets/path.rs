//! Any bytes as a path: normalising is done after once, and leaves nothing that a rule could be
//! evaded by.
#![no_main]

use tiergate_core::classify::path::normalise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut out = Vec::new();
    let once = normalise(bytes, &mut out).to_vec();
    let mut out = Vec::new();
    assert_eq!(normalise(&once, &mut out), once, "not its own normal form");
    if bytes.first() == Some(&b'/') {
        assert_eq!(once.first(), Some(&b'/'));
        assert!(!once.windows(2).any(|two| two == b"//"), "empty segment");
        let mut segments = once.split(|&b| b == b'/');
        assert!(!segments.any(|segment| matches!(segment, b"." | b"..")), "dot segment");
        // Each `%` may grow to three bytes.
        assert!(once.len() <= 3 * bytes.len());
    }
});
