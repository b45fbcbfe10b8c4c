//! One thread's lines on their way to the writer.

use super::entry::Entry;
use super::format::Formatter;
use crate::config::meant::LogFormat;
use crate::observe::counters::Counters;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Duration, Instant};

/// Bytes at which a buffer is handed over. Large enough that a system call serves 200 lines.
const BATCH_LEN: usize = 64 * 1024;
/// Longest time that a line stays in a buffer that is ticked.
pub const FLUSH_INTERVAL: Duration = Duration::from_millis(250);
/// Room left in a batch for the line that fills it, so that it rarely grows.
const LINE_ROOM: usize = 1024;

/// What is sent to the writer.
pub(super) enum Message {
    Batch {
        bytes: Vec<u8>,
        lines: u64,
    },
    /// Answered when everything sent before has been tried.
    Flush(SyncSender<()>),
}

/// What the writer has in common with its senders. As long as one of them holds it, the writer goes
/// on trying.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) reopen: AtomicBool,
}

/// One thread's lines on their way to the writer.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    lines: u64,
    flushed: Instant,
    formatter: Formatter,
    format: LogFormat,
    query: bool,
    sender: SyncSender<Message>,
    _shared: Arc<Shared>,
    counters: Arc<Counters>,
}

impl Buffer {
    pub(super) fn new(
        format: LogFormat,
        query: bool,
        sender: SyncSender<Message>,
        shared: Arc<Shared>,
        counters: Arc<Counters>,
    ) -> Self {
        Buffer {
            bytes: Vec::with_capacity(BATCH_LEN),
            lines: 0,
            flushed: Instant::now(),
            formatter: Formatter::default(),
            format,
            query,
            sender,
            _shared: shared,
            counters,
        }
    }

    /// Formats a line; hands the buffer over when it is full. Never blocks, allocates once per
    /// batch.
    pub fn record(&mut self, entry: &Entry<'_>) {
        self.formatter.push(&mut self.bytes, self.format, self.query, entry);
        self.lines += 1;
        if self.bytes.len() >= BATCH_LEN - LINE_ROOM {
            self.flush();
        }
    }

    /// Hands over what is there if [`FLUSH_INTERVAL`] has passed; call it now and then.
    pub fn tick(&mut self, now: Instant) {
        if now.saturating_duration_since(self.flushed) >= FLUSH_INTERVAL {
            self.flush();
            self.flushed = now;
        }
    }

    /// Hands over what is there. Never blocks: if the writer is behind, the lines are dropped and
    /// counted.
    pub fn flush(&mut self) {
        if self.lines == 0 {
            return;
        }
        let lines = std::mem::take(&mut self.lines);
        let bytes = std::mem::take(&mut self.bytes);
        match self.sender.try_send(Message::Batch { bytes, lines }) {
            Ok(()) => self.bytes.reserve(BATCH_LEN),
            Err(refused) => {
                self.counters.access_log.dropped.add(lines);
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
    use std::sync::mpsc::{Receiver, sync_channel};

    fn buffer(batches: usize) -> (Buffer, Receiver<Message>, Arc<Counters>) {
        let (sender, receiver) = sync_channel(batches);
        let counters = Counters::new(1);
        let (shared, counted) = (Arc::default(), Arc::clone(&counters));
        let buffer = Buffer::new(LogFormat::Json, false, sender, shared, counted);
        (buffer, receiver, counters)
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
