//! Escapes untrusted bytes in log lines.

/// Bytes of one field that are logged; what follows is cut and marked by `...`. Request heads are
/// bounded as well, but a line must not become as long as a head.
pub(super) const FIELD_LEN_MAX: usize = 2048;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends `bytes` as the inside of a JSON string. What is not UTF-8 becomes U+FFFD, control
/// characters (C1 and DEL too, which terminals may obey) are escaped.
pub(super) fn push_json(line: &mut Vec<u8>, bytes: &[u8]) {
    let (kept, cut) = bounded(bytes);
    if kept.iter().all(|&byte| is_plain(byte)) {
        line.extend_from_slice(kept);
    } else {
        push_json_slowly(line, kept);
    }
    if cut {
        line.extend_from_slice(b"...");
    }
}

/// Appends `bytes` as the inside of a quoted field the way Apache does since 2.0.46: `\"`, `\\`,
/// `\n`-like escapes, `\xhh` for every other byte that is not printable ASCII. `-` if empty.
pub(super) fn push_combined(line: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.is_empty() {
        line.push(b'-');
        return;
    }
    let (kept, cut) = bounded(bytes);
    if kept.iter().all(|&byte| is_plain(byte)) {
        line.extend_from_slice(kept);
    } else {
        for &byte in kept {
            push_combined_byte(line, byte);
        }
    }
    if cut {
        line.extend_from_slice(b"...");
    }
}

/// Printable ASCII that is not special in either format.
fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7e) && byte != b'"' && byte != b'\\'
}

fn bounded(bytes: &[u8]) -> (&[u8], bool) {
    if bytes.len() <= FIELD_LEN_MAX {
        return (bytes, false);
    }
    let mut end = FIELD_LEN_MAX;
    // Not within a character: at most three continuation bytes.
    while end > FIELD_LEN_MAX - 3 && bytes[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    (&bytes[..end], true)
}

fn push_json_slowly(line: &mut Vec<u8>, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '"' => line.extend_from_slice(b"\\\""),
                '\\' => line.extend_from_slice(b"\\\\"),
                '\n' => line.extend_from_slice(b"\\n"),
                '\r' => line.extend_from_slice(b"\\r"),
                '\t' => line.extend_from_slice(b"\\t"),
                '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => {
                    let code = letter as usize;
                    line.extend_from_slice(b"\\u00");
                    line.extend_from_slice(&[HEX[code >> 4], HEX[code & 15]]);
                }
                _ => line.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !chunk.invalid().is_empty() {
            line.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

fn push_combined_byte(line: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' => line.extend_from_slice(b"\\\""),
        b'\\' => line.extend_from_slice(b"\\\\"),
        b'\n' => line.extend_from_slice(b"\\n"),
        b'\r' => line.extend_from_slice(b"\\r"),
        b'\t' => line.extend_from_slice(b"\\t"),
        0x20..=0x7e => line.push(byte),
        _ => {
            let code = usize::from(byte);
            line.extend_from_slice(&[b'\\', b'x', HEX[code >> 4], HEX[code & 15]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn json(bytes: &[u8]) -> Vec<u8> {
        let mut line = vec![b'"'];
        push_json(&mut line, bytes);
        line.push(b'"');
        line
    }

    /// The inverse of [`push_combined`], written without a look at it.
    fn unescape(mut text: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some((&first, rest)) = text.split_first() {
            text = rest;
            if first != b'\\' {
                bytes.push(first);
                continue;
            }
            let (&kind, rest) = text.split_first().expect("a backslash escapes something");
            text = rest;
            bytes.push(match kind {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'x' => {
                    let digits = std::str::from_utf8(&text[..2]).expect("two digits");
                    text = &text[2..];
                    u8::from_str_radix(digits, 16).expect("hexadecimal")
                }
                other => other,
            });
        }
        bytes
    }

    proptest! {
        #[test]
        fn json_reads_back_as_the_text_it_was(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let line = json(&bytes);
            let back: String = serde_json::from_slice(&line).expect("valid JSON");
            prop_assert_eq!(back, String::from_utf8_lossy(&bytes));
            let text = String::from_utf8(line).expect("valid UTF-8");
            prop_assert!(!text.chars().any(char::is_control));
        }

        #[test]
        fn json_reads_back_any_text(text in "\\PC*|[\\x00-\\u{a0}\"\\\\]{0,80}") {
            let back: String = serde_json::from_slice(&json(text.as_bytes())).expect("valid JSON");
            prop_assert_eq!(back, text);
        }

        #[test]
        fn combined_reads_back_and_never_leaves_its_quotes(
            bytes in prop::collection::vec(any::<u8>(), 1..200)
        ) {
            let mut line = Vec::new();
            push_combined(&mut line, &bytes);
            prop_assert!(line.iter().all(|byte| matches!(byte, 0x20..=0x7e)));
            prop_assert_eq!(unescape(&line), bytes);
            let mut quoted = false;
            for &byte in &line {
                prop_assert!(byte != b'"' || quoted, "an unescaped quote in {:?}", line);
                quoted = byte == b'\\' && !quoted;
            }
        }
    }

    #[test]
    fn long_fields_are_cut_between_characters() {
        for lead in 0..4 {
            let text = "a".repeat(lead) + &"€".repeat(FIELD_LEN_MAX);
            let back: String = serde_json::from_slice(&json(text.as_bytes())).expect("valid JSON");
            assert!(back.ends_with("€...") && back.len() <= FIELD_LEN_MAX + 3, "{back}");
            assert!(!back.contains('\u{fffd}'));
        }
        let whole = vec![b'x'; FIELD_LEN_MAX];
        assert_eq!(json(&whole).len(), FIELD_LEN_MAX + 2);
        let garbage = vec![0x80; FIELD_LEN_MAX * 2];
        assert!(json(&garbage).len() < FIELD_LEN_MAX * 4);
    }

    #[test]
    fn an_empty_field_is_a_dash() {
        let mut line = Vec::new();
        push_combined(&mut line, b"");
        assert_eq!(line, b"-");
    }
}
