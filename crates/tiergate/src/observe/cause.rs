//! The causes of a change of the limit, in the words of metrics, status and the live view.

use tiergate_core::control::adaptive::Cause;

/// The cause's name in metrics and status: lower case, words joined by underscores.
///
/// Taken from the variant's own name, so that a new law's causes need no table here.
pub fn name(cause: Cause) -> String {
    snake(&format!("{cause:?}"))
}

/// Turns `UpperCamel { … }` into `upper_camel`; what a variant carries is left out.
fn snake(debug: &str) -> String {
    let end = debug
        .find(|letter: char| !letter.is_alphanumeric())
        .unwrap_or(debug.len());
    let mut name = String::with_capacity(end + 4);
    for letter in debug[..end].chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_words() {
        assert_eq!(name(Cause::Grew), "grew");
        assert_eq!(snake("QueueDelay { over: 3 }"), "queue_delay");
        assert_eq!(snake("LookedLower(7)"), "looked_lower");
    }
}
