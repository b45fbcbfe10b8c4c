//! What changes in place on a terminal while something runs.
//!
//! 80 lines, and not indicatif (6,572, and four crates): but one of its users shows a bar, the others several lines at once, such as the
//! demo's tables with a plot.

use std::io::{IsTerminal, Write};

/// Lines that are drawn anew in their place, on a terminal; elsewhere nothing is drawn.
pub struct Block {
    out: Box<dyn Write + Send>,
    terminal: bool,
    /// Lines on the screen.
    lines: usize,
}

impl Block {
    /// On standard output.
    pub fn stdout() -> Self {
        let out = std::io::stdout();
        Self { terminal: out.is_terminal(), out: Box::new(out), lines: 0 }
    }

    /// On standard error.
    pub fn stderr() -> Self {
        let out = std::io::stderr();
        Self { terminal: out.is_terminal(), out: Box::new(out), lines: 0 }
    }

    /// Whether anything is drawn.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Shows these lines in the place of the last ones. A program whose reader has gone goes on.
    pub fn draw(&mut self, text: &str) {
        if self.terminal {
            self.clear();
            self.lines = text.lines().count();
            // A line that wraps would be two, and the block could not be taken back whole.
            let _ = write!(self.out, "\x1b[?7l{}\n\x1b[?7h", text.trim_end_matches('\n'));
            let _ = self.out.flush();
        }
    }

    /// Removes the lines, so that what follows takes their place.
    pub fn clear(&mut self) {
        if self.lines > 0 {
            let _ = write!(self.out, "\x1b[{}A\x1b[J", std::mem::take(&mut self.lines));
            let _ = self.out.flush();
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.clear();
    }
}

/// How much is done, 0.0 to 1.0, as a bar of so many characters.
pub fn bar(fraction: f64, width: usize) -> String {
    let full = (fraction.clamp(0.0, 1.0) * width as f64).round() as usize;
    "━".repeat(full) + &"─".repeat(width - full)
}

/// A line of small bars, the highest of which is `most`.
pub fn spark(values: impl IntoIterator<Item = f64>, most: f64) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let block = |value: f64| BLOCKS[((value / most * 7.0).round() as usize).min(7)];
    values.into_iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_block_takes_its_lines_back() {
        let screen = Screen::default();
        let mut block = Block { out: Box::new(screen.clone()), terminal: true, lines: 0 };
        block.draw("one\ntwo");
        block.draw("three\n");
        drop(block);
        let shown = String::from_utf8(screen.0.lock().unwrap().clone()).unwrap();
        let expected =
            "\x1b[?7lone\ntwo\n\x1b[?7h\x1b[2A\x1b[J\x1b[?7lthree\n\x1b[?7h\x1b[1A\x1b[J";
        assert_eq!(shown, expected);
    }

    #[test]
    fn elsewhere_nothing_is_drawn() {
        let screen = Screen::default();
        let mut block = Block { out: Box::new(screen.clone()), terminal: false, lines: 0 };
        block.draw("one");
        drop(block);
        assert!(screen.0.lock().unwrap().is_empty());
    }

    #[test]
    fn bars_are_as_long_as_what_is_done() {
        assert_eq!([0.0, 0.5, 2.0].map(|f| bar(f, 4)), ["────", "━━──", "━━━━"]);
        assert_eq!(spark([0.0, 5.0, 10.0, 100.0], 10.0), "▁▅██");
    }
}
