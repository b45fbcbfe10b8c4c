//! The texts of a policy: of its file, and of those that it includes.

use std::path::PathBuf;
use std::sync::Arc;

/// A file of a policy as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name in messages.
    pub name: Arc<str>,
    /// Its text.
    pub text: Arc<str>,
    /// Where its first byte is when all files stand one behind the other.
    pub(super) begin: usize,
}

/// The files of a policy in their order. The first is the one that was asked for, and there whatever happens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The files.
    pub files: Vec<Source>,
    /// The folders in which a further file, or one that is gone, would change the policy.
    pub folders: Vec<PathBuf>,
    /// What is wrong with what `include` names: byte, key, message.
    pub(super) faults: Vec<(usize, String, String)>,
}

impl Sources {
    /// A policy of one file.
    pub fn of(name: &str, text: &str) -> Self {
        let mut sources = Sources::default();
        sources.push(name, text);
        sources
    }

    /// The texts of all files as `shown` writes each, those behind the first each under a line with its name.
    pub fn joined(&self, shown: impl Fn(&str) -> String) -> String {
        let mut files = self.files.iter();
        let mut text = files.next().map_or(String::new(), |first| shown(&first.text));
        for Source { name, text: included, .. } in files {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text += &format!("\n# included: {}\n{}", name.escape_debug(), shown(included));
        }
        text
    }

    /// Adds a file; its place.
    pub(super) fn push(&mut self, name: &str, text: &str) -> usize {
        // One byte between two files, so that the end of one is not the beginning of the other.
        let begin = self.files.last().map_or(0, |last| last.begin + last.text.len() + 1);
        self.files.push(Source { name: name.into(), text: text.into(), begin });
        self.files.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two files may have the same table: put one behind the other, they are no TOML.
    #[test]
    fn each_file_is_shown_by_itself() {
        let mut sources = Sources::of("p.toml", "a = 1");
        sources.push("b.toml", "b = 2\n");
        let shown = sources.joined(|text| format!("<{text}>"));
        assert_eq!(shown, "<a = 1>\n\n# included: b.toml\n<b = 2\n>");
    }
}
