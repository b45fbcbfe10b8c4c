//! Names of network interfaces.

use std::fmt;

/// Longest name, in bytes: the kernel's `IFNAMSIZ`, less the zero at its end.
const LEN_MAX: usize = 15;

/// The name of a network interface: neither an option of a program that gets it nor the path of another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceName(String);

impl InterfaceName {
    /// What is expected.
    pub(crate) const EXPECTED: &'static str = "the name of a network interface such as \"eth0\": 1 to 15 letters, digits, \
        `.`, `_`, `-`, `@` and `+`, and no `-` before all";

    /// The name, unless it is none that an interface can have.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // Of those that the kernel allows only the ones that mean nothing to a shell, to which printed commands are given.
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@+".contains(&byte);
        let is_name = (1..=LEN_MAX).contains(&text.len())
            && text.bytes().all(letter)
            && !text.starts_with('-')
            && !matches!(text, "." | "..");
        is_name.then(|| InterfaceName(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_options_and_no_paths() {
        for name in ["eth0", "br-lan", "eth0.100", "wlp2s0", "a", "123456789012345", "..a"] {
            assert_eq!(InterfaceName::parse(name).expect(name).as_str(), name);
        }
        let long = "1234567890123456";
        for text in [
            "", "a;b", "$a", "a'b", "-eth0", "--help", "a/b", "../x", ".", "..", "a b", "a:1",
            "a\n", "ä", long,
        ] {
            assert_eq!(InterfaceName::parse(text), None, "{text:?}");
        }
    }
}
