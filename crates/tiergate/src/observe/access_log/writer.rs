//! From the serving threads to the file: buffers, a bounded channel, one writing thread.
//!
//! | state | written by | read by |
//! |---|---|---|
//! | [`Buffer`] | the serving thread that owns it | the same |
//! | channel of batches, bounded | serving threads, never waiting | the writer |
//! | number of lines that wait | serving threads; the writer, once they are written | the end of the process |
//! | `reopen` flag | the handler of SIGHUP and SIGUSR1 | the writer |
//! | [`LogCounters`](super::super::counters::LogCounters) | both, relaxed | a scrape |
//!
//! A write that fails (a full disk) keeps its batch from the line on that it got to, and is retried every
//! [`RETRY_INTERVAL`]. What it wrote of that line is taken back, so that the file ends with a whole line,
//! whatever becomes of it and of the process. Meanwhile the channel fills, and further lines are dropped
//! and counted.

use super::buffer::{Buffer, Message, Sender};
use super::format::Format;
use super::strays::Strays;
use crate::config::meant::AccessLog;
use crate::observe::counters::Counters;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Batches that may wait for the writer, over all threads: 8 MiB.
const BATCHES_MAX: usize = 128;
/// Time between two attempts at a file that cannot be written.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How often the writer looks for a request to reopen when nothing comes in.
const IDLE_INTERVAL: Duration = Duration::from_millis(100);

/// The access log's writer. Its thread ends when this and every [`Buffer`] are gone.
#[derive(Debug)]
pub struct Log(Sender);

impl Log {
    /// Opens the file and starts the writer's thread.
    ///
    /// # Errors
    /// If the file cannot be opened or the thread cannot be started.
    pub fn start(settings: &AccessLog, counters: Arc<Counters>) -> io::Result<Log> {
        let file = match &settings.path {
            Some(path) => open(path)?,
            // Past the standard library's line buffer, which would split batches.
            None => File::from(io::stdout().as_fd().try_clone_to_owned()?),
        };
        Log::start_on(Box::new(file), settings, counters, RETRY_INTERVAL)
    }

    fn start_on(
        output: Box<dyn Output>,
        settings: &AccessLog,
        counters: Arc<Counters>,
        retry_interval: Duration,
    ) -> io::Result<Log> {
        let (channel, receiver) = sync_channel(BATCHES_MAX);
        let format = Format::of(settings);
        let refused_one_in = settings.refused_one_in;
        let strays = Arc::new(Strays::new(settings.bad_per_second));
        let (reopen, waiting) = (Arc::default(), Arc::default());
        let sender = Sender { channel, reopen, waiting, counters, format, refused_one_in, strays };
        let writer = Writer {
            output,
            path: settings.path.clone(),
            reopen: Arc::clone(&sender.reopen),
            waiting: Arc::clone(&sender.waiting),
            counters: Arc::clone(&sender.counters),
            retry_interval,
            failing: false,
        };
        thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || writer.run(&receiver))?;
        Ok(Log(sender))
    }

    /// A buffer for one thread.
    pub fn buffer(&self) -> Buffer {
        Buffer::new(self.0.clone())
    }

    /// Asks the writer to open its path anew (after logrotate moved the file). Returns at once; the
    /// old file is kept until the new one is open. Standard output has nothing to open.
    pub fn reopen(&self) {
        self.0.reopen.store(true, Ordering::Release);
    }

    /// Lines that were handed over and are not written yet: lost, if the process ends now.
    pub fn waiting(&self) -> u64 {
        self.0.waiting.load(Ordering::Relaxed)
    }

    /// Waits until the batches handed over so far are written, at most `patience`; for the end of
    /// the process. Returns whether they were. Blocks: not for a serving thread.
    pub fn flush(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let (answer, done) = sync_channel(1);
        let mut message = Message::Flush(answer);
        loop {
            match self.0.channel.try_send(message) {
                Ok(()) => break,
                Err(TrySendError::Full(back)) if Instant::now() < until => message = back,
                Err(_) => return false,
            }
            thread::sleep(Duration::from_millis(5));
        }
        done.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok()
    }
}

/// What lines are written to.
trait Output: Write + Send {
    /// Takes back the last `len` bytes that were written; `false`: that cannot be.
    fn take_back(&mut self, len: u64) -> bool;
}

impl Output for File {
    fn take_back(&mut self, len: u64) -> bool {
        let Ok(end) = self.stream_position() else { return false };
        // Not what another process has written behind it.
        let is_last = self.metadata().is_ok_and(|file| file.is_file() && file.len() == end);
        is_last && len <= end && self.set_len(end - len).is_ok()
    }
}

struct Writer {
    output: Box<dyn Output>,
    path: Option<PathBuf>,
    reopen: Arc<AtomicBool>,
    waiting: Arc<AtomicU64>,
    counters: Arc<Counters>,
    retry_interval: Duration,
    failing: bool,
}

impl Writer {
    fn run(mut self, receiver: &Receiver<Message>) {
        loop {
            let message = receiver.recv_timeout(IDLE_INTERVAL);
            self.reopen_if_asked();
            match message {
                Ok(Message::Batch { bytes, lines }) => self.write_batch(&bytes, lines),
                // This fails if the caller's patience is over.
                Ok(Message::Flush(answer)) => drop(answer.try_send(())),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Writes the batch, however long the file cannot be written. The channel is not read meanwhile:
    /// it fills, and the senders drop.
    fn write_batch(&mut self, bytes: &[u8], lines: u64) {
        let (mut done, mut left) = (0, lines);
        while done < bytes.len() {
            match self.output.write(&bytes[done..]) {
                Ok(0) => self.failed(&io::Error::from(io::ErrorKind::WriteZero)),
                Ok(written) => {
                    done += written;
                    continue;
                }
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => continue,
                Err(fault) => self.failed(&fault),
            }
            let begun = done - memchr::memrchr(b'\n', &bytes[..done]).map_or(0, |end| end + 1);
            if begun > 0 && self.output.take_back(begun as u64) {
                done -= begun;
            }
            let behind = memchr::memchr_iter(b'\n', &bytes[done..]).count() as u64;
            self.waiting.fetch_sub(left.saturating_sub(behind), Ordering::Relaxed);
            left = left.min(behind);
            // No sender is left: the process is ending, and retrying would hold it up.
            if Arc::strong_count(&self.reopen) == 1 {
                self.waiting.fetch_sub(left, Ordering::Relaxed);
                self.counters.access_log.dropped.add(lines);
                return;
            }
            thread::sleep(self.retry_interval);
            if self.reopen_if_asked() {
                done = memchr::memrchr(b'\n', &bytes[..done]).map_or(0, |end| end + 1);
            }
        }
        if std::mem::take(&mut self.failing) {
            let dropped = self.counters.access_log.dropped.total();
            tracing::info!(dropped, "the access log is written again");
        }
        self.waiting.fetch_sub(left, Ordering::Relaxed);
        self.counters.access_log.written.add(lines);
    }

    /// Says whether another file is open now.
    fn reopen_if_asked(&mut self) -> bool {
        let Some(path) = &self.path else { return false };
        if !self.reopen.swap(false, Ordering::Acquire) {
            return false;
        }
        match open(path) {
            Ok(file) => {
                self.output = Box::new(file);
                true
            }
            Err(fault) => {
                self.counters.access_log.errors.one();
                let path = path.display();
                tracing::warn!(%path, error = %fault, "cannot reopen the access log, keeping the old file");
                false
            }
        }
    }

    /// Counts a failure; logs the first in a row only.
    fn failed(&mut self, fault: &io::Error) {
        self.counters.access_log.errors.one();
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(error = %fault, "cannot write the access log: retrying every second");
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        // Client addresses are personal data: not for everyone on the machine.
        .mode(0o640)
        // A pipe that nobody reads would have a start or a reload wait for ever.
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .map_err(|fault| match Errno::from_io_error(&fault) {
            Some(Errno::NXIO) => io::Error::other("it is a socket, or a pipe that nobody reads"),
            _ => fault,
        })?;
    // This thread may wait for the reader of a pipe.
    fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::super::format::tests::entry;
    use super::*;
    use crate::config::meant::LogFormat;
    use std::sync::Mutex;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// Takes `room` bytes at a time into memory, and fails as often as it is told.
    #[derive(Clone, Default)]
    struct Disk {
        written: Arc<Mutex<Vec<u8>>>,
        failures: Arc<Mutex<u32>>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut failures = self.failures.lock().expect("nobody panicked");
            if *failures > 0 {
                *failures -= 1;
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            // Every write gets part of the way and the next one fails once.
            *failures = u32::from(self.room < bytes.len());
            let len = bytes.len().min(self.room);
            self.written.lock().expect("nobody panicked").extend_from_slice(&bytes[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Output for Disk {
        fn take_back(&mut self, len: u64) -> bool {
            let mut written = self.written.lock().expect("nobody panicked");
            let left = written.len() - len as usize;
            written.truncate(left);
            true
        }
    }

    fn options(path: Option<PathBuf>) -> AccessLog {
        AccessLog {
            path,
            format: LogFormat::Json,
            line: None,
            refused_one_in: 1,
            bad_per_second: 20,
        }
    }

    fn on(disk: &Disk) -> (Log, Arc<Counters>) {
        let counters = Counters::new(1);
        let disk = Box::new(disk.clone());
        let retry = Duration::from_millis(1);
        let log = Log::start_on(disk, &options(None), Arc::clone(&counters), retry);
        (log.expect("a thread"), counters)
    }

    #[test]
    fn a_disk_that_fails_now_and_then_tears_no_line() {
        let disk = Disk { room: 1_500, ..Disk::default() };
        let (log, counters) = on(&disk);
        let mut buffer = log.buffer();
        for _ in 0..100 {
            buffer.record(&entry());
        }
        buffer.flush();
        assert!(log.flush(PATIENCE));
        let written = disk.written.lock().expect("nobody panicked").clone();
        let lines: Vec<_> = written.split_inclusive(|&byte| byte == b'\n').collect();
        assert_eq!(lines.len(), 100);
        for line in lines {
            serde_json::from_slice::<serde_json::Value>(line).expect("a whole line");
        }
        assert_eq!(counters.access_log.written.total(), 100);
        assert_eq!(counters.access_log.dropped.total(), 0);
        assert!(counters.access_log.errors.total() > 10);
    }

    #[test]
    fn a_disk_that_stays_full_costs_lines_and_nothing_else() {
        let disk =
            Disk { room: usize::MAX, failures: Arc::new(Mutex::new(u32::MAX)), ..Disk::default() };
        let (log, counters) = on(&disk);
        let mut buffer = log.buffer();
        let sent = 2 * BATCHES_MAX as u64;
        for _ in 0..sent {
            buffer.record(&entry());
            buffer.flush();
        }
        // One batch may be with the writer, the channel holds its bound, the rest is gone.
        let dropped = counters.access_log.dropped.total();
        let kept = BATCHES_MAX as u64;
        assert!((sent - kept - 1..=sent - kept).contains(&dropped), "{dropped}");
        assert!(!log.flush(Duration::from_millis(20)), "nothing was written");
        assert_eq!(log.waiting(), sent - dropped);

        *disk.failures.lock().expect("nobody panicked") = 0;
        assert!(log.flush(PATIENCE));
        assert_eq!(counters.access_log.written.total(), sent - dropped);
        assert_eq!(log.waiting(), 0);
    }

    #[test]
    fn reopening_follows_a_moved_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, old) = (directory.path().join("a.log"), directory.path().join("a.log.1"));
        let log = Log::start(&options(Some(path.clone())), Counters::new(1)).expect("a log");
        let mut buffer = log.buffer();
        let mut write = |times: usize| {
            (0..times).for_each(|_| buffer.record(&entry()));
            buffer.flush();
            assert!(log.flush(PATIENCE));
        };
        let lines = |path: &Path| std::fs::read_to_string(path).map_or(0, |s| s.lines().count());
        write(1);
        std::fs::rename(&path, &old).expect("moved");
        write(2);
        assert_eq!((lines(&old), lines(&path)), (3, 0));
        log.reopen();
        write(4);
        assert_eq!((lines(&old), lines(&path)), (3, 4));
        drop(directory);
    }

    #[test]
    fn a_path_that_cannot_be_reopened_keeps_the_old_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.log");
        let counters = Counters::new(1);
        let log = Log::start(&options(Some(path.clone())), Arc::clone(&counters)).expect("a log");
        let moved = directory.path().join("moved");
        std::fs::rename(&path, &moved).expect("moved");
        std::fs::create_dir(&path).expect("in the way");
        log.reopen();
        let mut buffer = log.buffer();
        buffer.record(&entry());
        drop(buffer);
        assert!(log.flush(PATIENCE));
        assert_eq!(std::fs::read_to_string(moved).expect("kept").lines().count(), 1);
        assert_eq!(counters.access_log.errors.total(), 1);
        assert!(Log::start(&options(Some(path)), counters).is_err());
    }
}
