//! The configuration before the one in force, to show the difference.

use super::context::ConfigInForce;
use super::mask;
use serde::{Deserialize, Serialize};
use similar::TextDiff;
use std::time::Duration;

/// Longest text of a difference. A policy may have 10,000 rules.
const DIFF_LEN_MAX: usize = 32 * 1024;
/// Longest time that the difference may take to find; then it is coarser.
const DIFF_TIME_MAX: Duration = Duration::from_millis(200);
/// Lines around a change.
const CONTEXT_LINES: usize = 2;

/// How the configuration in force differs from the one before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigChange {
    /// The generation in force.
    pub generation: u32,
    /// The one that it is compared with; `null`: there was none while this process ran.
    pub former_generation: Option<u32>,
    /// The difference as a unified diff, secrets masked; empty: the text is the same.
    pub diff: String,
}

/// The text in force, masked, and how it differs from the former one.
#[derive(Debug, Default)]
pub(super) struct ConfigTrail {
    text: Option<String>,
    change: ConfigChange,
}

impl ConfigTrail {
    /// Takes in the configuration in force; says whether it is another one.
    pub(super) fn follow(&mut self, config: &ConfigInForce) -> bool {
        let is_first = self.text.is_none();
        if !is_first && config.generation == self.change.generation {
            return false;
        }
        // Secrets go before anything is kept or compared.
        let text = config.sources.joined(mask::masked);
        let former = self.text.replace(text.clone());
        self.change = ConfigChange {
            generation: config.generation,
            former_generation: former.as_ref().map(|_| self.change.generation),
            diff: former.map_or_else(String::new, |former| difference(&former, &text)),
        };
        !is_first
    }

    /// How it differs.
    pub(super) fn change(&self) -> ConfigChange {
        self.change.clone()
    }
}

fn difference(former: &str, now: &str) -> String {
    let diff = TextDiff::configure().timeout(DIFF_TIME_MAX).diff_lines(former, now);
    let mut text = diff.unified_diff().context_radius(CONTEXT_LINES).to_string();
    if text.len() > DIFF_LEN_MAX {
        text.truncate(text.floor_char_boundary(DIFF_LEN_MAX));
        text.push_str("\n… (the rest is left out)\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;
    use std::sync::Arc;

    fn config(generation: u32, text: &str) -> ConfigInForce {
        ConfigInForce { path: None, sources: Arc::new(Sources::of("p.toml", text)), generation }
    }

    #[test]
    fn the_difference_is_to_the_former_one_and_shows_no_secret() {
        let mut trail = ConfigTrail::default();
        assert!(!trail.follow(&config(1, "threads = 1\npassword = \"hush\"\n")));
        assert_eq!((trail.change().former_generation, trail.change().diff.as_str()), (None, ""));
        assert!(!trail.follow(&config(1, "threads = 1\npassword = \"hush\"\n")));
        assert!(trail.follow(&config(2, "threads = 2\npassword = \"hush2\"\n")));
        let change = trail.change();
        assert_eq!((change.generation, change.former_generation), (2, Some(1)));
        assert!(change.diff.contains("-threads = 1\n+threads = 2\n"), "{}", change.diff);
        assert!(!change.diff.contains("hush"), "{}", change.diff);
    }

    #[test]
    fn a_large_difference_is_cut() {
        let text = |number: u32| (0..20_000).map(|line| format!("a{line} = {number}\n")).collect();
        let (one, other): (String, String) = (text(1), text(2));
        let mut trail = ConfigTrail::default();
        trail.follow(&config(1, &one));
        trail.follow(&config(2, &other));
        assert!(trail.change().diff.len() <= DIFF_LEN_MAX + 64);
    }
}
