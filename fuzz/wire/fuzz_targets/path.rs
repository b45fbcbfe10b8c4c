//! Any bytes as a path: normalising is done after once, leaves nothing that a rule could be evaded by, and
//! the origin gets what rules judged.
#![no_main]

use tiergate_core::classify::path::{Buffers, Handling, normalise};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut buffers = Buffers::default();
    let paths = normalise(bytes, Handling::AsReceived, &mut buffers).expect("nothing is refused");
    let once = paths.judged.to_vec();
    let again = normalise(&once, Handling::AsReceived, &mut buffers).expect("nothing is refused");
    assert_eq!(again.judged, once, "not its own normal form");
    if bytes.first() == Some(&b'/') {
        assert_eq!(once.first(), Some(&b'/'));
        assert!(!once.windows(2).any(|two| two == b"//"), "empty segment");
        let mut segments = once.split(|&b| b == b'/');
        assert!(!segments.any(|segment| matches!(segment, b"." | b"..")), "dot segment");
        // Each `%` may grow to three bytes.
        assert!(once.len() <= 3 * bytes.len());
    }
    for handling in [Handling::Strict, Handling::Decoded, Handling::Normalised] {
        let Ok(paths) = normalise(bytes, handling, &mut buffers) else { continue };
        let (judged, sent) = (paths.judged.to_vec(), paths.sent.unwrap_or(bytes).to_vec());
        assert!(sent.len() <= bytes.len(), "longer than received");
        let again = normalise(&sent, handling, &mut buffers).expect("it was not refused");
        assert_eq!((again.judged, again.sent), (&judged[..], None), "judged is not sent");
    }
});
