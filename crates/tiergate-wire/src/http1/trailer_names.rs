//! Names that no trailer may have by what a policy says, besides those that may not stand there in any message.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Names of fields that do not pass as trailers, nor do names that are [alike](super::is_alike). Takes no memory where there are
/// none; clones share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrailerNames(Option<Arc<BTreeSet<Box<[u8]>>>>);

impl TrailerNames {
    /// Whether no field of that name passes. Where there are names, costs a copy of this one and a search among them.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.0.as_ref().is_some_and(|names| names.contains(&*plain(name)))
    }
}

impl<N: AsRef<[u8]>> FromIterator<N> for TrailerNames {
    fn from_iter<I: IntoIterator<Item = N>>(names: I) -> Self {
        let names: BTreeSet<_> = names.into_iter().map(|name| plain(name.as_ref())).collect();
        TrailerNames((!names.is_empty()).then(|| Arc::new(names)))
    }
}

/// The same for all names that are alike.
fn plain(name: &[u8]) -> Box<[u8]> {
    let plain = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    name.iter().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::super::is_alike;
    use super::*;

    #[test]
    fn it_has_a_name_in_every_spelling_and_no_other() {
        let names: TrailerNames = ["X-Api_Key", "Plan"].into_iter().collect();
        for name in ["x-api-key", "X_API_KEY", "x-Api-KEY", "plan", "x-api", "plans", ""] {
            let known = ["X-Api_Key", "Plan"];
            let is_one = known.iter().any(|it| is_alike(name.as_bytes(), it.as_bytes()));
            assert_eq!(names.contains(name.as_bytes()), is_one, "{name}");
        }
        assert!(!TrailerNames::default().contains(b"plan"));
        assert_eq!([""; 0].into_iter().collect::<TrailerNames>(), TrailerNames::default());
    }
}
