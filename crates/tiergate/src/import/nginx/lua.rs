//! Blocks of Lua (`access_by_lua_block { … }`), which are skipped: a `}` in a text or comment of Lua ends none.
//!
//! Source: Lua 5.1, reference manual, 2.1: quotes with escapes, long brackets `[[…]]` and `[=[…]=]`, comments from `--` to the end of the line or of a long bracket.

use super::super::draft::{From, ImportFault};
use super::grammar::Tokens;

impl Tokens<'_> {
    /// Skips the rest of a block, behind its `{`; `from`: the directive.
    ///
    /// # Errors
    /// When it has no end.
    pub(super) fn skip_lua(&mut self, from: &From) -> Result<(), ImportFault> {
        let mut depth = 1_usize;
        while depth > 0 {
            if self.skip_long_bracket() {
                continue;
            }
            match self.take() {
                None => return Err(from.fault("has a { that no } closes")),
                Some('{') => depth += 1,
                Some('}') => depth -= 1,
                Some(quote @ ('"' | '\'')) => self.skip_text(quote),
                Some('-') if self.rest.starts_with('-') => {
                    self.take();
                    if !self.skip_long_bracket() {
                        while !matches!(self.take(), None | Some('\n')) {}
                    }
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Skips the rest of a text, behind its quote.
    fn skip_text(&mut self, quote: char) {
        while let Some(letter) = self.take() {
            if letter == '\\' {
                self.take();
            } else if letter == quote {
                return;
            }
        }
    }

    /// Skips a long bracket, if one begins here. Whether that is so.
    fn skip_long_bracket(&mut self) -> bool {
        let Some(inner) = self.rest.strip_prefix('[') else { return false };
        let level = inner.len() - inner.trim_start_matches('=').len();
        if !inner[level..].starts_with('[') {
            return false;
        }
        let end = format!("]{}]", "=".repeat(level));
        while !self.rest.starts_with(&end) && self.take().is_some() {}
        for _ in 0..end.len() {
            self.take();
        }
        true
    }
}
