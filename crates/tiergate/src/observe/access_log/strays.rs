//! How many lines there are of what never became a request.

use std::sync::Mutex;
use std::time::Duration;
use tiergate_core::time::Moment;

/// What the bound is for.
const WINDOW: Duration = Duration::from_secs(1);

/// Bounds the lines of all threads. A lock, because such lines are few.
#[derive(Debug)]
pub(super) struct Strays {
    /// Lines a second.
    lines_max: u32,
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    /// `None`: there was no line yet.
    begun: Option<Moment>,
    lines: u32,
    left_out: u64,
}

impl Strays {
    pub(super) fn new(lines_max: u32) -> Self {
        Strays { lines_max, window: Mutex::default() }
    }

    /// Whether there is a line for one more; then how many had none since the last one.
    pub(super) fn admit(&self, now: Moment) -> Option<u64> {
        let mut window = self.window.lock().expect("nothing panics within");
        if window.begun.is_none_or(|begun| now.since(begun) >= WINDOW) {
            (window.begun, window.lines) = (Some(now), 0);
        }
        if window.lines >= self.lines_max {
            window.left_out += 1;
            return None;
        }
        window.lines += 1;
        Some(std::mem::take(&mut window.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many_and_the_next_says_how_many_had_none() {
        let strays = Strays::new(3);
        let admit = |millis| strays.admit(Moment::from_millis(millis));
        let second: Vec<_> = (0..10).map(|it| admit(10_000 + it)).collect();
        assert_eq!(second[..3], [Some(0); 3]);
        assert_eq!(second[3..], [None; 7]);
        assert_eq!((admit(10_999), admit(11_000), admit(11_001)), (None, Some(8), Some(0)));
        assert_eq!(Strays::new(0).admit(Moment::ZERO), None);
    }
}
