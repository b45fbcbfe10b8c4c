//! What workers print, as lines of the gateway's log: bounded in length and number, and in how much is read.

use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

/// Longest line that is logged whole, in bytes.
const LINE_LEN_MAX: usize = 1024;
/// Most lines of the workers of a pool in a second.
const LINES_MAX: u32 = 100;
/// About so much is read in [`PAUSE`]: a worker that prints more waits.
const READ_LEN: usize = 64 * 1024;
const PAUSE: Duration = Duration::from_millis(50);

/// Logs what a worker of a pool prints until it closes its end; `budget` is that of the pool.
pub(super) async fn log(
    pool: String,
    number: u32,
    budget: Arc<Mutex<Budget>>,
    mut output: impl AsyncRead + Unpin,
) {
    let mut lines = Lines::default();
    let mut piece = vec![0; READ_LEN];
    let tell = |line: String| {
        let (may, dropped) = budget.lock().map(|mut it| it.may(Instant::now())).unwrap_or_default();
        if let Some(dropped) = dropped {
            tracing::warn!(pool, "{dropped} lines of its workers were left out");
        }
        if may {
            tracing::info!(pool, worker = number, "{line}");
        }
    };
    let (mut since, mut read) = (Instant::now(), 0);
    while let Ok(count) = output.read(&mut piece).await {
        if count == 0 {
            break;
        }
        lines.take(&piece[..count]).into_iter().for_each(tell);
        if since.elapsed() >= PAUSE {
            (since, read) = (Instant::now(), 0);
        }
        read += count;
        if read >= READ_LEN {
            tokio::time::sleep_until(since + PAUSE).await;
        }
    }
    lines.rest().into_iter().for_each(tell);
}

/// How many lines may be logged in the second that runs, and how many were left out.
#[derive(Debug, Default)]
pub(super) struct Budget {
    second: Option<Instant>,
    count: u32,
    dropped: u64,
}

impl Budget {
    /// Whether one more may be; how many were left out in the last second, if any.
    fn may(&mut self, now: Instant) -> (bool, Option<u64>) {
        let mut dropped = None;
        if self.second.is_none_or(|second| now >= second + Duration::from_secs(1)) {
            dropped = Some(self.dropped).filter(|dropped| *dropped > 0);
            *self = Budget { second: Some(now), ..Budget::default() };
        }
        if self.count >= LINES_MAX {
            self.dropped += 1;
            return (false, dropped);
        }
        self.count += 1;
        (true, dropped)
    }
}

/// Bytes as lines.
#[derive(Debug, Default)]
struct Lines {
    /// The beginning of a line, at most so long as one may be.
    begun: Vec<u8>,
}

impl Lines {
    /// The lines that end in a piece.
    fn take(&mut self, piece: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut rest = piece;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.begin(&rest[..end]);
            rest = &rest[end + 1..];
            lines.extend(self.line());
        }
        self.begin(rest);
        lines
    }

    fn begin(&mut self, bytes: &[u8]) {
        let room = LINE_LEN_MAX - self.begun.len();
        self.begun.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// The line so far, unless it is empty.
    fn line(&mut self) -> Option<String> {
        let bytes = std::mem::take(&mut self.begun);
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end();
        if text.is_empty() {
            return None;
        }
        // A worker must not write lines that look like the gateway's, nor move the cursor.
        Some(
            text.chars()
                .map(|it| if it.is_control() && it != '\t' { '\u{fffd}' } else { it })
                .collect(),
        )
    }

    /// What had no end.
    fn rest(&mut self) -> Option<String> {
        self.line()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_may_come_in_pieces_and_are_cut() {
        let mut lines = Lines::default();
        assert_eq!(lines.take(b"one\n\ntw"), ["one"]);
        assert_eq!(lines.take(b"o\r\nth\x1bree"), ["two"]);
        assert_eq!(lines.rest(), Some("th\u{fffd}ree".to_owned()));
        let long = [b'x'; 3 * LINE_LEN_MAX];
        assert!(lines.take(&long).is_empty());
        let cut = lines.take(b"y\nz\n");
        assert_eq!((cut[0].len(), &*cut[1]), (LINE_LEN_MAX, "z"));
    }

    #[test]
    fn lines_of_a_pool_are_counted() {
        let (mut budget, now) = (Budget::default(), Instant::now());
        let logged = (0..150).filter(|_| budget.may(now).0).count();
        assert_eq!(logged, LINES_MAX as usize);
        let later = now + Duration::from_secs(1);
        assert_eq!(budget.may(later), (true, Some(150 - u64::from(LINES_MAX))));
        assert_eq!(budget.may(later), (true, None));
    }
}
