//! One thread's lines on their way to the writer.

use super::entry::{Entry, Verdict};
use super::format::{Format, Formatter};
use super::strays::Strays;
use crate::clock;
use crate::observe::counters::Counters;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Duration, Instant};

/// Bytes at which a buffer is handed over. Large enough that a system call serves 200 lines.
const BATCH_LEN: usize = 64 * 1024;
/// Longest time that a line stays in a buffer that is ticked.
pub const FLUSH_INTERVAL: Duration = Duration::from_millis(250);
/// Room left in a batch for the line that fills it, so that it rarely grows.
const LINE_ROOM: usize = 1024;

/// What is sent to the writer.
#[derive(Debug)]
pub(super) enum Message {
    Batch {
        bytes: Vec<u8>,
        lines: u64,
    },
    /// Answered when everything sent before has been tried.
    Flush(SyncSender<()>),
}

/// The way to the writer, and what it does with lines.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) channel: SyncSender<Message>,
    /// Asks the writer to open its path anew. While a sender holds it, the writer retries.
    pub(super) reopen: Arc<AtomicBool>,
    /// Lines that were handed over and are not written yet.
    pub(super) waiting: Arc<AtomicU64>,
    pub(super) counters: Arc<Counters>,
    pub(super) format: Format,
    /// Of so many refused requests in turn, one has a line.
    pub(super) refused_one_in: u32,
    /// What never became a request.
    pub(super) strays: Arc<Strays>,
}

/// One thread's lines on their way to the writer.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    lines: u64,
    flushed: Instant,
    formatter: Formatter,
    /// Refused requests without a line since the last one with a line; `None`: there was none.
    left_out: Option<u64>,
    sender: Sender,
}

impl Buffer {
    pub(super) fn new(sender: Sender) -> Self {
        let bytes = Vec::with_capacity(BATCH_LEN);
        let formatter = Formatter::default();
        Buffer { bytes, lines: 0, flushed: Instant::now(), formatter, left_out: None, sender }
    }

    /// Formats a line; hands the buffer over when it is full. Never blocks, allocates once per
    /// batch.
    pub fn record(&mut self, entry: &Entry<'_>) {
        let mut left_out = 0;
        if entry.is_stray() {
            let Some(count) = self.sender.strays.admit(clock::now()) else {
                self.sender.counters.access_log.bad_left_out.add(1);
                return;
            };
            left_out = count;
        }
        if entry.verdict == Verdict::Refused {
            match self.left_out {
                Some(count) if count + 1 < u64::from(self.sender.refused_one_in) => {
                    self.left_out = Some(count + 1);
                    self.sender.counters.access_log.left_out.add(1);
                    return;
                }
                count => left_out = count.unwrap_or(0),
            }
            self.left_out = Some(0);
        }
        self.formatter.push(&mut self.bytes, &self.sender.format, entry, left_out);
        self.lines += 1;
        if self.bytes.len() >= BATCH_LEN - LINE_ROOM {
            self.flush();
        }
    }

    /// Hands the lines over if [`FLUSH_INTERVAL`] has passed; call it regularly.
    pub fn tick(&mut self, now: Instant) {
        if now.saturating_duration_since(self.flushed) >= FLUSH_INTERVAL {
            self.flush();
            self.flushed = now;
        }
    }

    /// Hands the lines over. Never blocks: if the writer is behind, they are dropped and counted.
    pub fn flush(&mut self) {
        if self.lines == 0 {
            return;
        }
        let lines = std::mem::take(&mut self.lines);
        let bytes = std::mem::take(&mut self.bytes);
        // Before the writer can take them off.
        self.sender.waiting.fetch_add(lines, Ordering::Relaxed);
        match self.sender.channel.try_send(Message::Batch { bytes, lines }) {
            Ok(()) => self.bytes.reserve(BATCH_LEN),
            Err(refused) => {
                self.sender.waiting.fetch_sub(lines, Ordering::Relaxed);
                self.sender.counters.access_log.dropped.add(lines);
                let (TrySendError::Full(message) | TrySendError::Disconnected(message)) = refused;
                if let Message::Batch { bytes, .. } = message {
                    // Its memory serves the next lines.
                    self.bytes = bytes;
                    self.bytes.clear();
                }
            }
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::tests::entry;
    use super::*;
    use crate::config::meant::LogFormat;
    use std::sync::mpsc::{Receiver, sync_channel};

    fn buffer(batches: usize) -> (Buffer, Receiver<Message>, Arc<Counters>) {
        buffer_that_logs(1, batches)
    }

    fn buffer_that_logs(
        refused_one_in: u32,
        batches: usize,
    ) -> (Buffer, Receiver<Message>, Arc<Counters>) {
        let (channel, receiver) = sync_channel(batches);
        let counters = Counters::new(1);
        let (reopen, counted) = (Arc::default(), Arc::clone(&counters));
        let format = Format::Named(LogFormat::Json);
        let strays = Arc::new(Strays::new(2));
        let sender = Sender {
            channel,
            reopen,
            waiting: Arc::default(),
            counters: counted,
            format,
            refused_one_in,
            strays,
        };
        (Buffer::new(sender), receiver, counters)
    }

    fn lines(receiver: &Receiver<Message>) -> u64 {
        let batches = receiver.try_iter().map(|message| match message {
            Message::Batch { bytes, lines } => {
                assert_eq!(bytes.iter().filter(|&&byte| byte == b'\n').count() as u64, lines);
                lines
            }
            Message::Flush(_) => 0,
        });
        batches.sum()
    }

    #[test]
    fn a_tick_hands_over_what_is_old_enough() {
        let (mut buffer, receiver, _counters) = buffer(8);
        buffer.record(&entry());
        buffer.tick(Instant::now());
        assert_eq!(lines(&receiver), 0);
        buffer.tick(Instant::now() + FLUSH_INTERVAL);
        assert_eq!(lines(&receiver), 1);
    }

    #[test]
    fn of_refused_requests_one_in_so_many_has_a_line_which_says_how_many_have_none() {
        let (mut buffer, receiver, counters) = buffer_that_logs(4, 8);
        let refused = Entry { verdict: Verdict::Refused, ..entry() };
        for number in 0..10 {
            buffer.record(&refused);
            // Those that are admitted have theirs between them.
            if number < 3 {
                buffer.record(&entry());
            }
        }
        buffer.flush();
        let Ok(Message::Batch { bytes, lines: 6 }) = receiver.try_recv() else { panic!("six") };
        let text = String::from_utf8(bytes).expect("valid UTF-8");
        let refused = text.lines().filter(|line| line.contains("refused"));
        let said: Vec<_> = refused.map(|line| line.contains(",\"refusals_left_out\":3}")).collect();
        assert_eq!(said, [false, true, true]);
        assert_eq!(counters.access_log.left_out.total(), 7);
    }

    #[test]
    fn of_what_never_became_a_request_there_are_few_lines_which_say_how_many_have_none() {
        let (mut buffer, receiver, counters) = buffer(8);
        for _ in 0..100_000 {
            buffer.record(&Entry::EMPTY);
        }
        buffer.record(&entry());
        buffer.flush();
        let Ok(Message::Batch { bytes, lines }) = receiver.try_recv() else { panic!("some") };
        // Two a second, in however many seconds.
        assert!((3..100).contains(&lines), "{lines}");
        assert_eq!(counters.access_log.bad_left_out.total(), 100_001 - lines);
        let text = String::from_utf8(bytes).expect("valid UTF-8");
        assert!(!text.lines().next().is_some_and(|line| line.contains("left_out")));
    }

    #[test]
    fn a_full_buffer_goes_by_itself_and_the_rest_at_the_end() {
        let (mut buffer, receiver, _counters) = buffer(100);
        for _ in 0..1_000 {
            buffer.record(&entry());
            assert!(buffer.bytes.len() < BATCH_LEN && buffer.bytes.capacity() <= 2 * BATCH_LEN);
        }
        let sent = lines(&receiver);
        assert!((1..1_000).contains(&sent), "{sent}");
        drop(buffer);
        assert_eq!(sent + lines(&receiver), 1_000);
    }

    #[test]
    fn what_the_writer_has_no_room_for_is_dropped_and_counted() {
        let (mut buffer, receiver, counters) = buffer(1);
        for expected in [0, 1, 2] {
            buffer.record(&entry());
            buffer.flush();
            assert_eq!(counters.access_log.dropped.total(), expected);
        }
        assert_eq!(lines(&receiver), 1);
        drop(receiver);
        buffer.record(&entry());
        drop(buffer);
        assert_eq!(counters.access_log.dropped.total(), 3);
    }
}
