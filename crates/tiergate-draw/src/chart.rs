//! Lines over time in a terminal, drawn in braille: two by four dots a character.

use crate::paint::{Paint, Tone};
use crate::scale::Scale;

/// Columns and rows of characters.
const WIDTH: usize = 60;
const HEIGHT: usize = 8;

/// Draws a line for each series from 0 to `end`; a value that is missing leaves a gap. The first series
/// is drawn over the others. `label` says what a mark of the axis stands for.
pub fn chart(
    series: &[Vec<Option<f64>>],
    scale: &Scale,
    label: &dyn Fn(f64) -> String,
    end: &str,
    paint: Paint,
) -> String {
    let row_of = |value: f64, rows: usize| ((1.0 - scale.at(value)) * (rows - 1) as f64).round();
    let mut labels = vec![String::new(); HEIGHT];
    // Where two share a row, the lower value stays.
    for tick in scale.ticks.iter().rev() {
        labels[row_of(*tick, HEIGHT) as usize] = label(*tick);
    }
    let margin = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let dots = dots(series, &|value| row_of(value, HEIGHT * 4) as usize);
    let mut text = String::new();
    for (label, dots) in labels.iter().zip(dots.chunks(WIDTH)) {
        let mark = if label.is_empty() { "│" } else { "┤" };
        text += &paint.tone(Tone::Faint, &format!("  {label:>margin$} {mark}"));
        for &(bits, place) in dots {
            match char::from_u32(0x2800 + u32::from(bits)) {
                Some(letter) if bits > 0 => {
                    text += &paint.tone(Tone::Series(place), letter.encode_utf8(&mut [0; 4]));
                }
                _ => text.push(' '),
            }
        }
        // Every colour ends where it begins, so blanks may go.
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    let axis = format!("  {:margin$} └{}", "", "─".repeat(WIDTH));
    let below = format!("  {:margin$}  0{end:>1$}", "", WIDTH - 1);
    text + &paint.tone(Tone::Faint, &axis) + "\n" + &paint.tone(Tone::Faint, &below) + "\n"
}

/// Bits of a braille character by row and column.
const DOTS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

/// The dots of each character, and whose they are.
fn dots(series: &[Vec<Option<f64>>], row_of: &dyn Fn(f64) -> usize) -> Vec<(u8, usize)> {
    let mut dots = vec![(0_u8, 0_usize); WIDTH * HEIGHT];
    for (place, values) in series.iter().enumerate().rev() {
        let mut before: Option<usize> = None;
        for x in 0..WIDTH * 2 {
            let value = values.get(x * values.len() / (WIDTH * 2)).copied().flatten();
            let Some(y) = value.map(row_of) else {
                before = None;
                continue;
            };
            // Jumps are joined, so that the line is one.
            let (from, to) = before.map_or((y, y), |before| (before.min(y), before.max(y)));
            for y in from..=to {
                let cell = &mut dots[y / 4 * WIDTH + x / 2];
                *cell = (cell.0 | DOTS[y % 4][x % 2], place);
            }
            before = Some(y);
        }
    }
    dots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rising_line_rises() {
        let rising: Vec<Option<f64>> = (0..120).map(|n| Some(f64::from(n))).collect();
        let label = |value| format!("{value}/s");
        let text = chart(&[rising], &Scale::linear(119.0), &label, "60s", Paint::PLAIN);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), HEIGHT + 2);
        let first = |line: &str| line.chars().position(|letter| letter > '\u{2800}');
        assert!(lines[0].contains(" 150/s ┤") && lines[HEIGHT - 1].contains(" 0/s ┤"), "{text}");
        assert!(first(lines[4]) > first(lines[6]), "{text}");
        assert!(lines[HEIGHT + 1].ends_with("60s"), "{text}");
    }

    #[test]
    fn nothing_is_still_a_chart() {
        for scale in [Scale::linear(0.0), Scale::logarithmic(std::iter::empty())] {
            let nothing = [vec![None; 5], Vec::new()];
            let text = chart(&nothing, &scale, &|value| value.to_string(), "1s", Paint::PLAIN);
            assert!(!text.contains('\u{28ff}') && text.lines().count() == HEIGHT + 2, "{text}");
        }
    }
}
