//! Globs: `*`, `**` and `?` in paths and values.
//!
//! A glob is matched as a set of positions in the pattern, all advanced at once by each byte of the
//! text: one word of work a byte, whatever the text and however many stars. There is nothing to
//! backtrack, hence nothing for a hostile request to blow up.

use crate::fault::Fault;
use std::fmt;

/// Most wildcards and bytes between a glob's literal beginning and its literal end: the positions
/// of one machine word of the matcher, less the accepting one.
pub(super) const MIDDLE_LEN_MAX: usize = 127;

/// One element of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// This byte.
    Byte(u8),
    /// `?`: any one byte but the separator.
    One,
    /// `*`: any bytes but the separator, or none.
    Run,
    /// `**`: any bytes, or none.
    Rest,
}

/// A pattern with wildcards.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Glob {
    text: Box<str>,
    separator: Option<u8>,
    prefix: Box<[u8]>,
    suffix: Box<[u8]>,
    middle: Middle,
}

/// What stands between the literal beginning and the literal end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Middle {
    /// A lone `**`.
    Rest,
    /// A lone `*`.
    Run,
    /// Anything else.
    Positions(Box<Positions>),
}

/// The pattern as bit masks over its positions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Positions {
    /// Which of `masks` belongs to each byte; 0: the byte is in no literal.
    class_of: [u8; 256],
    /// Positions that consume a byte of the class.
    masks: Vec<u128>,
    /// Positions that consume any byte but the separator: `?`.
    one: u128,
    /// Positions that a byte other than the separator may stay at: `*` and `**`.
    stars: u128,
    /// Positions that every byte may stay at: `**`.
    rest: u128,
    /// The position after the last.
    accept: u128,
}

impl Glob {
    /// Compiles a pattern that has at least one wildcard. `separator` is what `*` and `?` stop at.
    ///
    /// # Errors
    /// If there is more than [`MIDDLE_LEN_MAX`] between its literal ends.
    pub(super) fn new(text: &str, tokens: &[Token], separator: Option<u8>) -> Result<Self, Fault> {
        let literal = |token: &&Token| matches!(token, Token::Byte(_));
        let byte = |token: &Token| match token {
            Token::Byte(byte) => *byte,
            _ => unreachable!("only literal tokens are taken"),
        };
        let before = tokens.iter().take_while(literal).count();
        let after = tokens[before..].iter().rev().take_while(literal).count();
        let end = tokens.len() - after;
        let middle = match &tokens[before..end] {
            [Token::Rest] => Middle::Rest,
            [Token::Run] if separator.is_none() => Middle::Rest,
            [Token::Run] => Middle::Run,
            middle if middle.len() > MIDDLE_LEN_MAX => {
                return Err(Fault::new(format!(
                    "must have at most {MIDDLE_LEN_MAX} characters between its first and its last wildcard"
                )));
            }
            middle => Middle::Positions(Box::new(Positions::new(middle))),
        };
        Ok(Glob {
            text: text.into(),
            separator,
            prefix: tokens[..before].iter().map(byte).collect(),
            suffix: tokens[end..].iter().map(byte).collect(),
            middle,
        })
    }

    /// The literal bytes that every match begins with.
    pub(super) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The literal bytes that every match ends with.
    pub(super) fn suffix(&self) -> &[u8] {
        &self.suffix
    }

    /// Whether the whole of `text` matches. O(text), no allocation.
    pub fn matches(&self, text: &[u8]) -> bool {
        let Some(rest) = text.strip_prefix(&*self.prefix) else {
            return false;
        };
        let Some(middle) = rest.strip_suffix(&*self.suffix) else {
            return false;
        };
        match &self.middle {
            Middle::Rest => true,
            Middle::Run => {
                self.separator.is_none_or(|separator| memchr::memchr(separator, middle).is_none())
            }
            Middle::Positions(positions) => positions.matches(middle, self.separator),
        }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Positions {
    fn new(tokens: &[Token]) -> Self {
        let mut positions = Positions {
            class_of: [0; 256],
            masks: vec![0],
            one: 0,
            stars: 0,
            rest: 0,
            accept: 1 << tokens.len(),
        };
        for (place, token) in tokens.iter().enumerate() {
            let bit = 1u128 << place;
            match token {
                Token::Byte(byte) => {
                    let class = &mut positions.class_of[usize::from(*byte)];
                    if *class == 0 {
                        // At most 127 distinct bytes stand in the middle, so the class fits.
                        *class = positions.masks.len() as u8;
                        positions.masks.push(0);
                    }
                    positions.masks[usize::from(*class)] |= bit;
                }
                Token::One => positions.one |= bit,
                Token::Run => positions.stars |= bit,
                Token::Rest => {
                    positions.stars |= bit;
                    positions.rest |= bit;
                }
            }
        }
        positions
    }

    fn matches(&self, text: &[u8], separator: Option<u8>) -> bool {
        // Stars never stand side by side (the parser joins them), so one step past them is enough.
        let past_stars = |at: u128| at | (at & self.stars) << 1;
        let mut at = past_stars(1);
        for &byte in text {
            let literal = self.masks[usize::from(self.class_of[usize::from(byte)])];
            let (stay, consume) = if separator == Some(byte) {
                (self.rest, literal)
            } else {
                (self.stars, literal | self.one)
            };
            at = past_stars((at & stay) | (at & consume) << 1);
            if at == 0 {
                return false;
            }
        }
        at & self.accept != 0
    }
}
