//! Tables with aligned columns, for terminals and in Markdown.
//!
//! 100 lines, and not comfy-table (4,154): it writes no Markdown with alignment (`--:`), which the docs are made with, and has no headings
//! of two lines.

use crate::paint::{Paint, Tone};

/// A text and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell(pub String, pub Tone);

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self(text.into(), Tone::Plain)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Centre,
    Right,
}

/// Rows under a heading.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Align>,
    /// Headings that stand above the last one, and that one.
    headings: Vec<Vec<Cell>>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table. A column is to the left if its heading begins with `<`, centred in Markdown if
    /// with `^`, else to the right.
    pub fn new<T: AsRef<str>>(heading: impl IntoIterator<Item = T>) -> Self {
        let (mut columns, mut names) = (Vec::new(), Vec::new());
        for heading in heading {
            let (align, name) = match heading.as_ref().split_at_checked(1) {
                Some(("<", name)) => (Align::Left, name),
                Some(("^", name)) => (Align::Centre, name),
                _ => (Align::Right, heading.as_ref()),
            };
            columns.push(align);
            names.push(Cell(name.to_owned(), Tone::Strong));
        }
        Self { columns, headings: vec![names], rows: Vec::new() }
    }

    /// Puts a line above the heading, such as what several columns have in common.
    pub fn above(&mut self, texts: impl IntoIterator<Item = String>) {
        let cells = texts.into_iter().map(|text| Cell(text, Tone::Strong)).collect();
        self.headings.insert(0, cells);
    }

    /// Adds a row; one with fewer cells than columns is filled up, an empty one draws a gap.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let row: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        debug_assert!(row.len() <= self.columns.len(), "more cells than columns");
        self.rows.push(row);
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table for a terminal: each line ended, two blanks before and between columns.
    pub fn render(&self, paint: Paint) -> String {
        let lines = || self.headings.iter().chain(&self.rows);
        let len = |cell: &Cell| cell.0.chars().count();
        let width = |column| lines().filter_map(|row| row.get(column)).map(len).max();
        let widths: Vec<usize> =
            (0..self.columns.len()).map(|column| width(column).unwrap_or(0)).collect();
        let mut out = String::new();
        for line in lines() {
            for ((cell, align), width) in line.iter().zip(&self.columns).zip(&widths) {
                let gap = " ".repeat(width - len(cell));
                let text = paint.tone(cell.1, &cell.0);
                out += "  ";
                out += &if *align == Align::Left { text + &gap } else { gap + &text };
            }
            // Every colour ends where it begins, so blanks may go.
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
        }
        out
    }

    /// The table in Markdown. Cells are taken as they are.
    pub fn markdown(&self) -> String {
        let line = |cells: &[Cell]| {
            let texts: Vec<&str> = cells.iter().map(|cell| cell.0.as_str()).collect();
            format!("| {} |\n", texts.join(" | "))
        };
        let mut out: String = self.headings.iter().map(|heading| line(heading)).collect();
        let rules = self.columns.iter().map(|align| match align {
            Align::Left => ":--|",
            Align::Centre => ":-:|",
            Align::Right => "--:|",
        });
        out += &format!("|{}\n", rules.collect::<String>());
        out + &self.rows.iter().map(|row| line(row)).collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(["<class", "rate", "<"]);
        table.row(["premium".into(), Cell("80".into(), Tone::Good), "x".into()]);
        table.row::<Cell>([]);
        table.row(["basic", "4,000"]);
        table
    }

    #[test]
    fn columns_line_up() {
        let text = sample().render(Paint::PLAIN);
        assert_eq!(text, "  class     rate\n  premium     80  x\n\n  basic    4,000\n");
    }

    #[test]
    fn colours_do_not_move_columns() {
        let coloured = sample().render(Paint::COLOURED);
        let mut plain = coloured.clone();
        for code in ["\x1b[1m", "\x1b[32m", "\x1b[0m"] {
            plain = plain.replace(code, "");
        }
        assert!(coloured.contains("\x1b[32m80\x1b[0m"));
        assert_eq!(plain, sample().render(Paint::PLAIN));
    }

    #[test]
    fn headings_may_have_two_lines() {
        let mut table = Table::new(["<class", "/s", "share"]);
        table.above(["", "", "policy"].map(String::from));
        table.row(["a", "1", "2%"]);
        let text = table.render(Paint::PLAIN);
        assert_eq!(text, "             policy\n  class  /s   share\n  a       1      2%\n");
    }

    #[test]
    fn markdown_has_its_alignment() {
        let mut table = Table::new(["<", "^peer", "p99"]);
        table.row(["a", "b", "c"]);
        assert_eq!(table.markdown(), "|  | peer | p99 |\n|:--|:-:|--:|\n| a | b | c |\n");
    }
}
