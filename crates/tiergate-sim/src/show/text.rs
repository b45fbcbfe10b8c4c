//! Words and figures of reports.

/// How a text stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// A heading.
    Strong,
    /// What matters less.
    Faint,
    /// The colour of a class, by its place.
    Class(usize),
}

/// Whether texts are coloured: only on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint(pub bool);

impl Paint {
    /// The text in a tone.
    pub fn tone(self, tone: Tone, text: &str) -> String {
        if !self.0 {
            return text.to_owned();
        }
        // Blue, orange, green, purple, red, cyan, yellow, grey: of the 256 colours, readable on both
        // dark and light grounds.
        const CLASSES: [u8; 8] = [33, 208, 35, 134, 167, 37, 136, 245];
        match tone {
            Tone::Strong => format!("\x1b[1m{text}\x1b[0m"),
            Tone::Faint => format!("\x1b[2m{text}\x1b[0m"),
            Tone::Class(place) => format!("\x1b[38;5;{}m{text}\x1b[0m", CLASSES[place % 8]),
        }
    }
}

/// A number of things: `12,345`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three digits that matter: `1,234`, `123`, `12.3`, `1.23`, `0.012`.
pub(super) fn figure(number: f64) -> String {
    match number {
        n if n >= 999.5 => count(n.round() as u64),
        n if n >= 99.95 => format!("{n:.0}"),
        n if n >= 9.995 => format!("{n:.1}"),
        n if n >= 0.1 => format!("{n:.2}"),
        n if n >= 0.0005 => format!("{n:.3}"),
        _ => "0".to_owned(),
    }
}

/// Milliseconds, in the unit that reads best. Below 10 µs it is nothing.
pub(super) fn time_ms(ms: f64) -> String {
    match ms {
        ms if ms < 0.01 => "0".to_owned(),
        ms if ms < 1000.0 => format!("{}ms", figure(ms)),
        ms => format!("{}s", figure(ms / 1000.0)),
    }
}

/// A share as a percentage.
pub(super) fn share(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < 0.1 => "<0.1%".to_owned(),
        percent if percent < 9.95 && percent > 0.0 => format!("{percent:.1}%"),
        percent if percent > 99.0 && percent < 100.0 => format!("{percent:.1}%"),
        percent => format!("{percent:.0}%"),
    }
}

/// Lines in columns: the first to the left, the others to the right. Widths are those of the plain
/// texts; `lead` colours a line's first cell.
pub(super) fn columns(rows: &[Vec<String>], lead: &dyn Fn(usize, &str) -> String) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let mut text = String::new();
    for (place, row) in rows.iter().enumerate() {
        let mut line = String::from("  ");
        for (column, cell) in row.iter().enumerate() {
            let pad = " ".repeat(width(column).unwrap_or(0) - cell.chars().count());
            match column {
                0 => line += &(lead(place, cell) + &pad),
                _ => line += &format!("  {pad}{cell}"),
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let figures = [0.0, 0.0123, 0.5, 9.9999, 99.96, 123.4, 999.6, 1_234_567.0].map(figure);
        assert_eq!(figures, ["0", "0.012", "0.50", "10.0", "100", "123", "1,000", "1,234,567"]);
        assert_eq!([0.001, 1.5, 1500.0].map(time_ms), ["0", "1.50ms", "1.50s"]);
        assert_eq!(
            [0.0, 0.0004, 0.05, 0.5, 0.996, 1.0].map(share),
            ["0%", "<0.1%", "5.0%", "50%", "99.6%", "100%"]
        );
    }

    #[test]
    fn columns_are_aligned_and_coloured_only_on_a_terminal() {
        let rows = [vec!["a".to_owned(), "10".into()], vec!["bbb".into(), "7".into()]];
        let lead = |paint: Paint| columns(&rows, &move |_, cell| paint.tone(Tone::Strong, cell));
        assert_eq!(lead(Paint(false)), "  a    10\n  bbb   7\n");
        assert_eq!(lead(Paint(true)).lines().next(), Some("  \x1b[1ma\x1b[0m    10"));
    }
}
