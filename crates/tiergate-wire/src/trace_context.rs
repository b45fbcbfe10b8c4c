//! `traceparent` and `tracestate`. Source: W3C Trace Context, <https://www.w3.org/TR/trace-context/>.

use tiergate_core::trace::TraceParent;

/// Bytes of a `traceparent` of version 00.
pub const TRACEPARENT_LEN: usize = 55;
/// Members of a `tracestate` (§3.3.1.1).
const MEMBERS_MAX: usize = 32;
/// Bytes of a `tracestate` that is passed on: twice what must be.
const STATE_LEN_MAX: usize = 1024;

/// Reads a `traceparent`; `None`: it is invalid, and the trace begins anew (§3.2.2.5). Of a version above 00, what follows the parts of version 00
/// is left out.
pub fn parse(value: &[u8]) -> Option<TraceParent> {
    let (known, rest) = value.split_at_checked(TRACEPARENT_LEN)?;
    let dashes = [2, 35, 52];
    if dashes.iter().any(|&at| known[at] != b'-') {
        return None;
    }
    let version = hex(&known[..2])?;
    match (version, rest) {
        (0xff, _) => return None,
        (0, [_, ..]) => return None,
        (_, [first, ..]) if *first != b'-' => return None,
        _ => {}
    }
    let (trace, span) = (hex(&known[3..35])?, hex(&known[36..52])?);
    let flags = hex(&known[53..55])? as u8;
    let flags = TraceParent::known_flags(flags);
    (trace != 0 && span != 0).then_some(TraceParent { trace, span: span as u64, flags })
}

/// Writes one of version 00.
pub fn write(parent: &TraceParent) -> [u8; TRACEPARENT_LEN] {
    let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
    put_hex(&mut text[3..35], parent.trace);
    put_hex(&mut text[36..52], parent.span.into());
    put_hex(&mut text[53..55], parent.flags.into());
    text
}

/// Whether a line of `tracestate` can be passed on: a list of at most 32 members `key=value`, of printable characters.
pub fn is_state(value: &[u8]) -> bool {
    let is_member = |member: &[u8]| {
        let member = member.trim_ascii();
        let key = member.iter().position(|&byte| byte == b'=');
        member.is_empty() || key.is_some_and(|at| at > 0 && member[..at].iter().all(is_key))
    };
    let mut members = value.split(|&byte| byte == b',');
    value.len() <= STATE_LEN_MAX
        && value.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
        && members.clone().count() <= MEMBERS_MAX
        && members.all(is_member)
}

/// Writes a number as lower-case hexadecimal digits, as many as there is room for.
pub fn put_hex(room: &mut [u8], mut number: u128) {
    for digit in room.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 0xf) as usize];
        number >>= 4;
    }
}

fn is_key(byte: &u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/@".contains(byte)
}

/// Lower-case digits only (§3.2.2).
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_valid_is_read_and_written_again() {
        let parent = parse(VALID.as_bytes()).expect("valid");
        assert_eq!(parent.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!((parent.span, parent.is_sampled()), (0xb7ad_6b71_6920_3331, true));
        assert_eq!(&write(&parent), VALID.as_bytes());
        // A version to come, with more behind it; flags that are not known.
        let later = VALID.replacen("00-", "cc-", 1).replace("-01", "-ff-more");
        assert_eq!(parse(later.as_bytes()).map(|it| it.flags), Some(0b11));
    }

    #[test]
    fn what_is_invalid_is_not() {
        let zeros = |len: usize| "0".repeat(len);
        let invalid = [
            String::new(),
            VALID[..54].to_owned(),
            format!("{VALID}-"),
            format!("{VALID}0"),
            VALID.replacen("00-", "ff-", 1),
            VALID.replacen("00-", "cc-", 1) + "x",
            VALID.to_uppercase(),
            VALID.replace('-', "_"),
            VALID.replace("0af7651916cd43dd8448eb211c80319c", &zeros(32)),
            VALID.replace("b7ad6b7169203331", &zeros(16)),
            VALID.replace("-01", "-0g"),
        ];
        for text in invalid {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_state_is_a_list_of_few_printable_members() {
        for good in ["congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7, congo=t61", "", "a@b=1,,"] {
            assert!(is_state(good.as_bytes()), "{good}");
        }
        let many = vec!["a=1"; 33].join(",");
        for bad in ["foo", "=1", "A=1", "a=\u{7f}", &many, &format!("a={}", "b".repeat(1024))] {
            assert!(!is_state(bad.as_bytes()), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_without_a_panic_and_what_is_read_is_written_alike(
            bytes in prop::collection::vec(any::<u8>(), 0..70),
            (trace, span, flags) in (1u128.., 1u64.., 0u8..4),
        ) {
            let _ = (parse(&bytes), is_state(&bytes));
            let parent = TraceParent { trace, span, flags };
            prop_assert_eq!(parse(&write(&parent)), Some(parent));
        }
    }
}
