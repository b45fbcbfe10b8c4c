//! Lines over time in a terminal, drawn in braille: two by four dots a character.

use super::text::{Paint, Tone, figure, time_ms};

/// Columns and rows of characters.
const WIDTH: usize = 60;
const HEIGHT: usize = 8;

/// What the values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Requests a second, from 0.
    Rate,
    /// Milliseconds, by their logarithm.
    Millis,
}

/// Draws one line a class over `seconds`; a value that is not there leaves a gap. Later classes are
/// drawn over earlier ones, so the most important is drawn last.
pub(super) fn chart(
    classes: &[Vec<Option<f64>>],
    seconds: f64,
    unit: Unit,
    paint: Paint,
) -> String {
    let scale = Scale::of(classes, unit);
    let (width, height) = (WIDTH * 2, HEIGHT * 4);
    let mut dots = vec![(0_u8, 0_usize); WIDTH * HEIGHT];
    for (class, values) in classes.iter().enumerate().rev() {
        let mut before: Option<usize> = None;
        for x in 0..width {
            let place = x * values.len() / width;
            let Some(value) = values.get(place).copied().flatten() else {
                before = None;
                continue;
            };
            let y = ((1.0 - scale.at(value)) * (height - 1) as f64).round() as usize;
            // Jumps are joined, so that the line is one.
            let (from, to) = before.map_or((y, y), |before| (before.min(y), before.max(y)));
            for y in from..=to {
                let cell = &mut dots[y / 4 * WIDTH + x / 2];
                *cell = (cell.0 | DOTS[y % 4][x % 2], class);
            }
            before = Some(y);
        }
    }
    let labels: Vec<String> = (0..HEIGHT).map(|row| scale.label(row, unit)).collect();
    let margin = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (row, label) in labels.iter().enumerate() {
        let mark = if label.is_empty() { "│" } else { "┤" };
        text += &paint.tone(Tone::Faint, &format!("  {label:>margin$} {mark}"));
        for &(bits, class) in &dots[row * WIDTH..(row + 1) * WIDTH] {
            match bits {
                0 => text.push(' '),
                bits => {
                    let letter = char::from_u32(0x2800 + u32::from(bits)).unwrap_or(' ');
                    text += &paint.tone(Tone::Class(class), letter.encode_utf8(&mut [0; 4]));
                }
            }
        }
        // Every colour ends where it begins, so blanks may go.
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    let end = format!("{}s", figure(seconds));
    let axis = format!("  {:margin$} └{}", "", "─".repeat(WIDTH));
    let below = format!("  {:margin$}  0{end:>1$}", "", WIDTH - 1);
    text + &paint.tone(Tone::Faint, &axis) + "\n" + &paint.tone(Tone::Faint, &below) + "\n"
}

/// Bits of a braille character by row and column.
const DOTS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    fn of(classes: &[Vec<Option<f64>>], unit: Unit) -> Self {
        let values = || classes.iter().flatten().flatten().copied();
        let high = values().fold(0.0, f64::max);
        match unit {
            Unit::Rate => {
                Scale { low: 0.0, high: round_up(high.max(1e-3), ENDS), logarithmic: false }
            }
            Unit::Millis => {
                let high = 10f64.powf(high.max(1.0).log10().ceil()).max(10.0);
                Scale { low: 0.1, high, logarithmic: true }
            }
        }
    }

    /// 0.0 at the bottom, 1.0 at the top.
    fn at(&self, value: f64) -> f64 {
        let place = |value: f64| if self.logarithmic { value.max(self.low).ln() } else { value };
        ((place(value) - place(self.low)) / (place(self.high) - place(self.low))).clamp(0.0, 1.0)
    }

    /// What stands beside a row: the top, the middle and the bottom, or each power of ten.
    fn label(&self, row: usize, unit: Unit) -> String {
        let show = |value: f64| match unit {
            Unit::Rate => format!("{}/s", figure(value)),
            Unit::Millis => time_ms(value),
        };
        let row_of = |value: f64| ((1.0 - self.at(value)) * (HEIGHT - 1) as f64).round() as usize;
        if !self.logarithmic {
            let marks = [self.high, self.high / 2.0, 0.0];
            return marks.into_iter().find(|mark| row_of(*mark) == row).map_or(String::new(), show);
        }
        let powers = (-1..=9).map(|power| 10f64.powi(power));
        let mut marks = powers.filter(|mark| (self.low * 0.99..=self.high * 1.01).contains(mark));
        marks.find(|mark| row_of(*mark) == row).map_or(String::new(), show)
    }
}

/// Ends of scales.
const ENDS: &[f64] = &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];

/// The next of these factors times a power of ten, upwards.
pub(super) fn round_up(value: f64, factors: &[f64]) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let factor = factors.iter().find(|factor| *factor * decade >= value * 0.999);
    factor.unwrap_or(&10.0) * decade
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rising_line_rises() {
        let rising: Vec<Option<f64>> = (0..120).map(|n| Some(f64::from(n))).collect();
        let text = chart(&[rising], 60.0, Unit::Rate, Paint(false));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), HEIGHT + 2);
        let first = |line: &str| line.chars().position(|letter| letter > '\u{2800}');
        assert!(lines[0].contains(" 120/s ┤") && lines[HEIGHT - 1].contains(" 0/s ┤"));
        assert!(first(lines[4]) > first(lines[6]), "{text}");
        assert!(lines[HEIGHT + 1].ends_with("60.0s"), "{text}");
    }

    #[test]
    fn nothing_is_still_a_chart() {
        for unit in [Unit::Rate, Unit::Millis] {
            let text = chart(&[vec![None; 5], Vec::new()], 1.0, unit, Paint(false));
            assert!(!text.contains('\u{28ff}') && text.lines().count() == HEIGHT + 2, "{text}");
        }
        assert_eq!([0.35, 1.0, 101.0, 7.0].map(|it| round_up(it, ENDS)), [0.4, 1.0, 120.0, 8.0]);
    }
}
