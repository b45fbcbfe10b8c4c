//! Searches over bytes: eight at a time where that pays, without unsafe code.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Flag in [`TOKEN`]: may stand in a token.
const IS_TOKEN: u8 = 1;
/// Flag in [`TOKEN`]: the underscore.
pub(super) const IS_UNDERSCORE: u8 = 2;

/// `tchar` of RFC 9110 §5.6.2; the underscore is told apart because CGI reads it as a hyphen.
static TOKEN: [u8; 256] = token_table();

const fn token_table() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        let b = byte as u8;
        if b.is_ascii_alphanumeric() || is_mark(b) {
            table[byte] = IS_TOKEN;
        }
        byte += 1;
    }
    table[b'_' as usize] = IS_TOKEN | IS_UNDERSCORE;
    table
}

const fn is_mark(b: u8) -> bool {
    matches!(
        b,
        b'!' | b'#'
            | b'$'
            | b'%'
            | b'&'
            | b'\''
            | b'*'
            | b'+'
            | b'-'
            | b'.'
            | b'^'
            | b'`'
            | b'|'
            | b'~'
    )
}

/// Length of the token at the start of `bytes`, and whether an underscore is in it.
#[inline]
pub(super) fn token_len(bytes: &[u8]) -> (usize, bool) {
    let mut flags = 0;
    for (len, &byte) in bytes.iter().enumerate() {
        let flag = TOKEN[byte as usize];
        if flag == 0 {
            return (len, flags & IS_UNDERSCORE != 0);
        }
        flags |= flag;
    }
    (bytes.len(), flags & IS_UNDERSCORE != 0)
}

/// Whether all of `bytes` is one token.
#[inline]
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && token_len(bytes).0 == bytes.len()
}

/// Where the field value at the start of `bytes` ends: the first control byte other than HTAB, or
/// the length of `bytes`. Source: `field-content` of RFC 9110 §5.5; `obs-text` passes.
#[inline]
pub(super) fn value_end(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at = first_control(bytes, at);
        if bytes.get(at) != Some(&b'\t') {
            return at;
        }
        at += 1;
    }
}

#[inline]
fn first_control(bytes: &[u8], from: usize) -> usize {
    let (words, rest) = bytes[from..].as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let hits = (below(word, 0x20) | equal(word, 0x7f)) & HIGH;
        if hits != 0 {
            return from + index * 8 + lowest(hits);
        }
    }
    let rest_at = bytes.len() - rest.len();
    match rest.iter().position(|&b| b < 0x20 || b == 0x7f) {
        Some(position) => rest_at + position,
        None => bytes.len(),
    }
}

/// Where the request target at the start of `bytes` ends: the first byte that is not visible ASCII,
/// or `#`, or the length of `bytes`.
#[inline]
pub(super) fn target_end(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let hits = (below(word, 0x21) | equal(word, 0x7f) | equal(word, b'#') | word) & HIGH;
        if hits != 0 {
            return index * 8 + lowest(hits);
        }
    }
    let rest_at = bytes.len() - rest.len();
    match rest.iter().position(|&b| !b.is_ascii_graphic() || b == b'#') {
        Some(position) => rest_at + position,
        None => bytes.len(),
    }
}

/// High bit set in bytes below `bound` (at most 0x80). A borrow can set it wrongly, but only above a
/// byte where it is rightly set, so the lowest hit is exact.
#[inline]
fn below(word: u64, bound: u8) -> u64 {
    word.wrapping_sub(ONES * bound as u64) & !word
}

/// High bit set in bytes equal to `byte`; the lowest hit is exact.
#[inline]
fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * byte as u64), 1)
}

#[inline]
fn lowest(hits: u64) -> usize {
    hits.trailing_zeros() as usize / 8
}

/// `bytes` without the white space (SP, HTAB) around it.
#[inline]
pub(super) fn trim(bytes: &[u8]) -> &[u8] {
    trim_end(trim_start(bytes))
}

#[inline]
pub(super) fn trim_start(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    bytes
}

#[inline]
pub(super) fn trim_end(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn searches_by_word_equal_searches_by_byte(
            bytes in proptest::collection::vec(
                prop_oneof![8 => 0x21u8..0x7f, 1 => any::<u8>(), 1 => Just(b'\t')], 0..80),
        ) {
            let value = bytes.iter().position(|&b| (b < 0x20 && b != b'\t') || b == 0x7f);
            prop_assert_eq!(value_end(&bytes), value.unwrap_or(bytes.len()));
            let target = bytes.iter().position(|&b| b <= 0x20 || b >= 0x7f || b == b'#');
            prop_assert_eq!(target_end(&bytes), target.unwrap_or(bytes.len()));
        }
    }

    #[test]
    fn tokens_are_those_of_rfc_9110() {
        let marks = b"!#$%&'*+-.^_`|~";
        for byte in 0..=255u8 {
            let expected = byte.is_ascii_alphanumeric() || marks.contains(&byte);
            assert_eq!(is_token(&[byte]), expected, "byte {byte:#x}");
        }
        assert_eq!(token_len(b"X_y: 1"), (3, true));
        assert_eq!(token_len(b"X-y: 1"), (3, false));
        assert!(!is_token(b""));
    }

    #[test]
    fn trims_both_kinds_of_white_space_only() {
        assert_eq!(trim(b" \t a b \t"), b"a b");
        assert_eq!(trim(b"\x0ba\x0c"), b"\x0ba\x0c");
        assert_eq!(trim(b" \t "), b"");
    }
}
