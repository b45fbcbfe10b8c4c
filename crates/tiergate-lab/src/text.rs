//! Aligned tables, and colour where a terminal shows it.

use std::io::IsTerminal;

/// What a cell means to the reader; a colour on a terminal, nothing elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Neither.
    Plain,
    /// As it should be.
    Good,
    /// Not as it should be.
    Bad,
    /// Of less interest.
    Faint,
    /// A heading.
    Strong,
}

/// Whether tones become colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Palette {
    coloured: bool,
}

impl Palette {
    /// Colours if standard output is a terminal and `NO_COLOR` (no-color.org) is unset or empty.
    pub(crate) fn of_stdout() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|v| v == "dumb");
        if std::io::stdout().is_terminal() && !refused && !dumb {
            Self { coloured: true }
        } else {
            Self::PLAIN
        }
    }

    /// No colours.
    pub(crate) const PLAIN: Self = Self { coloured: false };

    /// Text in that tone.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            _ if !self.coloured => return text.into(),
            Tone::Plain => return text.into(),
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Faint => "2",
            Tone::Strong => "1",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// A cell: text and tone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell(pub(crate) String, pub(crate) Tone);

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self(text.into(), Tone::Plain)
    }
}

/// Rows under a heading. A column is left-aligned if its heading begins with `<`, else right.
pub(crate) struct Table {
    heading: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(heading: &[&'static str]) -> Self {
        Self { heading: heading.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; one with fewer cells than the heading is filled up, an empty one draws a gap.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let row: Vec<Cell> = cells.into_iter().collect();
        debug_assert!(row.len() <= self.heading.len(), "more cells than columns");
        self.rows.push(row);
    }

    /// The table, each line ended, two blanks before and between columns.
    pub(crate) fn render(&self, palette: Palette) -> String {
        let names: Vec<&str> = self.heading.iter().map(|h| h.trim_start_matches('<')).collect();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|r| r.get(column)).map(|c| c.0.chars().count());
            cells.chain([names[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..names.len()).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = (&str, Tone)>| {
            let mut out = String::new();
            for (column, (text, tone)) in cells.enumerate() {
                let gap = " ".repeat(widths[column] - text.chars().count());
                let text = palette.paint(tone, text);
                let left = self.heading[column].starts_with('<');
                out += "  ";
                out += &if left { format!("{text}{gap}") } else { format!("{gap}{text}") };
            }
            out.truncate(out.trim_end().len());
            out + "\n"
        };
        let mut out = line(&mut names.iter().map(|name| (*name, Tone::Strong)));
        for row in &self.rows {
            out += &line(&mut row.iter().map(|cell| (cell.0.as_str(), cell.1)));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(&["<class", "rate"]);
        table.row(["premium".into(), Cell("80".into(), Tone::Good)]);
        table.row([]);
        table.row(["basic".into(), "4,000".into()]);
        table
    }

    #[test]
    fn columns_line_up() {
        let text = sample().render(Palette::PLAIN);
        assert_eq!(text, "  class     rate\n  premium     80\n\n  basic    4,000\n");
    }

    #[test]
    fn colours_do_not_move_columns() {
        let coloured = sample().render(Palette { coloured: true });
        let mut plain = coloured.clone();
        for code in ["\x1b[1m", "\x1b[32m", "\x1b[0m"] {
            plain = plain.replace(code, "");
        }
        assert!(coloured.contains("\x1b[32m80\x1b[0m"));
        assert_eq!(plain, sample().render(Palette::PLAIN));
    }
}
