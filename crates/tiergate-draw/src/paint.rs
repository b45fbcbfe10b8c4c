//! Colour where a terminal shows it.

use std::io::IsTerminal;

/// What a text means to its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Nothing in particular.
    Plain,
    /// As it should be.
    Good,
    /// Not as it should be.
    Bad,
    /// Of less interest.
    Faint,
    /// A heading.
    Strong,
    /// The colour of a series, by its place.
    Series(usize),
}

/// Whether tones become colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint(bool);

impl Paint {
    /// No colours.
    pub const PLAIN: Self = Self(false);
    /// Colours, wherever they go.
    pub const COLOURED: Self = Self(true);

    /// Colours if standard output is a terminal and nothing asks for none: `NO_COLOR` (no-color.org),
    /// a `TERM` that is `dumb`.
    pub fn stdout() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Self(std::io::stdout().is_terminal() && !unwanted && !dumb)
    }

    /// The text in that tone.
    pub fn tone(self, tone: Tone, text: &str) -> String {
        // Blue, orange, green, purple, red, cyan, yellow, grey of the 256 colours: readable on both
        // dark and light grounds.
        const SERIES: [u8; 8] = [33, 208, 35, 134, 167, 37, 136, 245];
        let code = match tone {
            _ if !self.0 || text.is_empty() => return text.to_owned(),
            Tone::Plain => return text.to_owned(),
            Tone::Good => "32".to_owned(),
            Tone::Bad => "31".to_owned(),
            Tone::Faint => "2".to_owned(),
            Tone::Strong => "1".to_owned(),
            Tone::Series(place) => format!("38;5;{}", SERIES[place % SERIES.len()]),
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}
