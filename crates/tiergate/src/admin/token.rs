//! The tokens that allow changes on the admin listener, and of which an agent wants one.

use crate::secrets::{self, NamedFile};
use aws_lc_rs::hmac::{Key, sign, verify};
use http::HeaderMap;
use http::header::AUTHORIZATION;

/// Most tokens: an old and a new one for each of two people.
const COUNT_MAX: usize = 4;
/// What is signed with a token to compare it with another in constant time.
const MESSAGE: &[u8] = b"tiergate admin";

/// Tokens, one of which a request that changes something must present. None: nothing can be changed.
#[derive(Clone, Debug, Default)]
pub struct AdminTokens(Vec<Key>);

impl AdminTokens {
    /// The tokens of a file, one a line.
    ///
    /// # Errors
    /// The line that is wrong, never with its content.
    pub(crate) fn load(named: &NamedFile, warnings: &mut Vec<String>) -> Result<Self, String> {
        secrets::signing(named, COUNT_MAX, warnings).map(Self)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is one of them, as it stands in the file.
    pub fn allow(&self, presented: &str) -> bool {
        let Ok(presented) = secrets::signing_of("", presented, 1) else { return false };
        let tag = sign(&presented[0], MESSAGE);
        // Each is looked at, so that time tells nothing of which.
        self.0.iter().fold(false, |found, key| verify(key, MESSAGE, tag.as_ref()).is_ok() | found)
    }

    /// Whether a request's `Authorization` presents one of them.
    pub(crate) fn allow_bearer(&self, headers: &HeaderMap) -> bool {
        let presented = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = presented.and_then(|value| value.split_once(' '));
        let is_bearer = |(scheme, _): &(&str, &str)| scheme.eq_ignore_ascii_case("bearer");
        token.filter(is_bearer).is_some_and(|(_, token)| self.allow(token.trim()))
    }

    #[cfg(test)]
    pub(super) fn of(text: &str) -> Self {
        AdminTokens(secrets::signing_of("test", text, COUNT_MAX).expect("they are long enough"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_token_of_the_file_allows() {
        let (one, other) = ("a".repeat(32), "b".repeat(40));
        let tokens = AdminTokens::of(&format!("# old\n{one}\n{other}\n"));
        assert!(tokens.allow(&one) && tokens.allow(&other));
        for wrong in ["", "a", &"a".repeat(31), &"a".repeat(33), &format!("{one}{other}")] {
            assert!(!tokens.allow(wrong), "{wrong}");
        }
        let coded = format!("base64:{}", "YWFh".repeat(12));
        assert!(AdminTokens::of(&coded).allow(&coded));
        assert!(!AdminTokens::default().allow(&one) && AdminTokens::default().is_empty());
    }
}
