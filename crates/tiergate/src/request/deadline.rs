//! A deadline that a trusted peer sends along, such as a gateway in front that knows how long its own
//! client will wait.

use std::time::Duration;
use tiergate_core::request::RequestView;

/// Most digits of a number of milliseconds: eleven days. What is longer is no deadline.
const DIGITS_MAX: usize = 9;

/// The time that the header `name` gives, in whole milliseconds; `None` if it is missing, a duplicate or
/// no number. Whether its sender is trusted is for the caller to know.
pub(super) fn sent(view: &RequestView<'_>, name: &str) -> Option<Duration> {
    let mut values = view.values(name.as_bytes());
    let value = values.next().filter(|value| (1..=DIGITS_MAX).contains(&value.len()))?;
    if values.next().is_some() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let millis = value.iter().fold(0, |sum: u64, digit| sum * 10 + u64::from(digit - b'0'));
    Some(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiergate_core::request::Field;

    #[test]
    fn only_one_whole_number_of_milliseconds_is_a_deadline() {
        let sent = |values: &[&str]| {
            let fields: Vec<Field<'_>> = values
                .iter()
                .map(|value| Field { name: b"X-Budget", value: value.as_bytes() })
                .collect();
            super::sent(&RequestView { fields: &fields, ..RequestView::EMPTY }, "x-budget")
        };
        assert_eq!(sent(&["250"]), Some(Duration::from_millis(250)));
        assert_eq!(sent(&["0"]), Some(Duration::ZERO));
        assert_eq!(sent(&["999999999"]), Some(Duration::from_millis(999_999_999)));
        for wrong in [&[][..], &[""], &["-1"], &["1.5"], &["1s"], &["1000000000"], &["1", "1"]] {
            assert_eq!(sent(wrong), None, "{wrong:?}");
        }
    }
}
