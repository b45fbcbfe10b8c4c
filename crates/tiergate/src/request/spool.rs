//! A file for the rest of a long body, so that a slow upload holds no slot.
//!
//! ```text
//! put ─▶ buffer ─▶ poll_written ─▶ file ─▶ poll_send ─▶ origin
//! ```
//!
//! The file has no name and ends with the request. It is read and written by threads of its runtime for what
//! blocks: never more than one buffer of a request at a time, which exists only while it is on its way, and
//! counts as memory for slow clients on its way in. Whatever is lacking or fails on that way, nothing is lost:
//! what was written is used, and the rest of the body is streamed.

use super::fault::Fault;
use crate::budget::{Allowance, Reserved};
use crate::buffers::{Buffer, LARGE};
use crate::clock;
use crate::config::meant::{Policy, Spooling};
use crate::observe::counters::SpoolFault;
use crate::origin::stream::OriginStream;
use crate::request::limits::allowance;
use crate::shared::{Config, Shared};
use crate::timers::Timer;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::AsyncWrite;
use tokio::task::{JoinHandle, spawn_blocking};

/// How often the log says that bodies cannot be spooled.
const COMPLAINT: Duration = Duration::from_secs(5);

/// What lacks where a buffer, or a head, finds no memory.
const NO_MEMORY: &str = "limits.buffers_max is reached";

/// The body could not be read back, or not be written in time.
const LOST: Fault = Fault::Answer(500, "the body was lost on the gateway's disk");

/// The rest of a body, as it goes to the origin, in a file. Dropped, all is given back.
#[derive(Debug)]
pub(crate) struct Spool {
    shared: Arc<Shared>,
    config: Arc<Config>,
    /// With the job while there is one.
    store: Option<Store>,
    job: Option<JoinHandle<Worked>>,
    /// What is on its way: to the file, then from it to the origin.
    buffer: Option<Buffer>,
    /// What did not get into the file, and goes behind it.
    tail: Option<Buffer>,
    written: u64,
    read: u64,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Takes what comes.
    Filling,
    /// Takes no more.
    Filled,
    /// It goes to the origin.
    Sending,
    /// The origin takes no more of it.
    Refused,
}

/// What a job needs of the spool, and gives back: so that it lives until the file is closed.
#[derive(Debug)]
struct Store {
    directory: PathBuf,
    /// Made when it is first written.
    file: Option<File>,
    bytes: Reserved,
    _place: Reserved,
}

/// A job's buffer, and how it went.
type Done = (Buffer, io::Result<()>);

/// What a job has done.
#[derive(Debug)]
struct Worked {
    store: Store,
    buffer: Buffer,
    result: io::Result<()>,
}

impl Spool {
    /// Where the policy wants it, and another file may be made.
    pub(super) fn new(shared: &Arc<Shared>, config: &Arc<Config>) -> Option<Box<Self>> {
        let Spooling { directory, .. } = config.policy.spooling.as_ref()?;
        let limits = &config.policy.limits;
        let counters = &shared.counters.spool;
        let Some(place) = counters.files.take(1, limits.connections_max) else {
            complain(shared, SpoolFault::Files, &"limits.connections_max files are open");
            return None;
        };
        let bytes = counters.bytes.take(0, usize::MAX).expect("it takes none");
        let directory = directory.path.clone();
        Some(Box::new(Spool {
            shared: shared.clone(),
            config: config.clone(),
            store: Some(Store { directory, file: None, bytes, _place: place }),
            job: None,
            buffer: None,
            tail: None,
            written: 0,
            read: 0,
            stage: Stage::Filling,
        }))
    }

    /// Whether it takes more.
    pub(crate) fn is_filling(&self) -> bool {
        self.stage == Stage::Filling
    }

    /// Whether it waits for bytes: it takes more, and all that it has is in the file.
    pub(crate) fn awaits_bytes(&self) -> bool {
        self.is_filling() && self.job.is_none()
    }

    /// Whether something was put there that is not in the file yet.
    pub(crate) fn is_to_be_written(&self) -> bool {
        self.buffer.is_some()
    }

    /// A buffer to read into from a client; `None` if there is no memory, and then nothing more is taken.
    pub(crate) fn buffer(&mut self) -> Option<Buffer> {
        let allowance = allowance(&self.shared, &self.config.policy);
        let reserved = Allowance { own_max: usize::MAX, ..allowance }.take(0, LARGE);
        if reserved.is_none() {
            self.give_up(SpoolFault::Memory, &NO_MEMORY);
        }
        reserved.map(Buffer::reserved)
    }

    /// Takes as many of the next bytes as there is room for; none while a buffer is full.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> usize {
        debug_assert!(self.job.is_none(), "what is put waits for what was put");
        if bytes.is_empty() || !self.is_filling() {
            return 0;
        }
        let spooling = self.config.policy.spooling.as_ref().expect("there is a spool");
        let holds = self.buffer.as_ref().map_or(0, |buffer| buffer.content().len());
        let left = spooling.request_max - (self.written + holds as u64);
        if left == 0 {
            self.stage = Stage::Filled;
            return 0;
        }
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let count = bytes.len().min(LARGE - holds).min(left);
        if count == 0 || (self.buffer.is_none() && !self.take_buffer()) {
            return 0;
        }
        let spool_max = self.config.policy.limits.spool_max;
        let store = self.store.as_mut().expect("no job has it");
        if !store.bytes.grow(count, spool_max) {
            self.buffer.take_if(|buffer| buffer.is_empty());
            self.give_up(SpoolFault::Bytes, &"limits.spool_max is reached");
            return 0;
        }
        self.buffer.as_mut().expect("just made").append(&bytes[..count])
    }

    fn take_buffer(&mut self) -> bool {
        self.buffer = self.buffer();
        self.buffer.is_some()
    }

    /// Writes what was put there. Ready when all is written that can be. `timer` is armed with `patience` when
    /// writing begins, and when it has ended.
    ///
    /// # Errors
    /// What was put there is lost.
    pub(crate) fn poll_written(
        &mut self,
        timer: &Timer,
        patience: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        if self.job.is_none()
            && let Some(buffer) = self.buffer.take()
        {
            timer.arm(patience);
            let at = self.written;
            if at == 0 {
                self.shared.counters.spool.requests.one();
            }
            self.begin(buffer, move |store, buffer| store.write(at, buffer));
        }
        let Some((buffer, result)) = ready!(self.poll_job(context))? else {
            return Poll::Ready(Ok(()));
        };
        timer.arm(patience);
        let held = self.store.as_ref().expect("the job has ended").bytes.bytes() as u64;
        self.written = held - buffer.content().len() as u64;
        if let Err(error) = result {
            self.give_up(SpoolFault::Write, &error);
            self.tail = Some(buffer);
        }
        Poll::Ready(Ok(()))
    }

    /// Sends all to the origin. Ready when it is sent; never if the origin takes no more. `timer` is armed
    /// anew with `patience` at every step.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn poll_send(
        &mut self,
        origin: &mut OriginStream,
        timer: &Timer,
        patience: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        if self.stage == Stage::Refused {
            return Poll::Pending;
        }
        self.stage = Stage::Sending;
        loop {
            while let Some(buffer) = &mut self.buffer {
                match ready!(Pin::new(&mut *origin).poll_write(context, buffer.content())) {
                    Ok(count) if count > 0 => buffer.consume(count),
                    // It may have answered before it closed; the answer's side finds out.
                    _ => {
                        self.stage = Stage::Refused;
                        (self.buffer, self.tail, self.store) = (None, None, None);
                        return Poll::Pending;
                    }
                }
                self.buffer.take_if(|buffer| buffer.is_empty());
                timer.arm(patience);
            }
            if self.job.is_none() && self.read < self.written {
                let (at, left) = (self.read, self.written - self.read);
                self.begin(Buffer::large(), move |store, buffer| store.read(at, left, buffer));
            }
            match ready!(self.poll_job(context))? {
                Some((buffer, Ok(()))) => {
                    self.read += buffer.content().len() as u64;
                    self.buffer = Some(buffer);
                }
                Some((_, Err(error))) => {
                    complain(&self.shared, SpoolFault::Read, &error);
                    return Poll::Ready(Err(LOST));
                }
                None => match self.tail.take() {
                    Some(tail) => self.buffer = Some(tail),
                    None => return Poll::Ready(Ok(())),
                },
            }
        }
    }

    /// The file was not written in time: says what that means for the request.
    pub(super) fn too_slow(shared: &Shared) -> Fault {
        complain(shared, SpoolFault::Write, &"it took too long");
        LOST
    }

    /// There was no memory for the request's head: its body is not spooled.
    pub(super) fn has_no_memory(shared: &Shared, policy: &Policy) {
        if policy.spooling.is_some() {
            complain(shared, SpoolFault::Memory, &NO_MEMORY);
        }
    }

    fn begin(
        &mut self,
        mut buffer: Buffer,
        work: impl FnOnce(&mut Store, &mut Buffer) -> io::Result<()> + Send + 'static,
    ) {
        let mut store = self.store.take().expect("there is no other job");
        self.job = Some(spawn_blocking(move || {
            let result = work(&mut store, &mut buffer);
            Worked { store, buffer, result }
        }));
    }

    /// What the job has done; `None` if there is none.
    fn poll_job(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Done>, Fault>> {
        let Some(job) = &mut self.job else { return Poll::Ready(Ok(None)) };
        let ended = ready!(Pin::new(job).poll(context));
        self.job = None;
        // It fails only where the runtime ends.
        let Worked { store, buffer, result } = ended.map_err(|_| LOST)?;
        self.store = Some(store);
        Poll::Ready(Ok(Some((buffer, result))))
    }

    fn give_up(&mut self, fault: SpoolFault, why: &dyn std::fmt::Display) {
        self.stage = Stage::Filled;
        complain(&self.shared, fault, why);
    }
}

impl Store {
    /// Writes what is in the buffer; what was written is not in there any more.
    fn write(&mut self, mut at: u64, buffer: &mut Buffer) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(Spooling::create_in(Path::new(&self.directory))?);
        }
        let file = self.file.as_ref().expect("just made");
        while !buffer.is_empty() {
            match file.write_at(buffer.content(), at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    buffer.consume(count);
                    at += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Fills the buffer from `at` on, of which `left` bytes are left.
    fn read(&mut self, at: u64, left: u64, buffer: &mut Buffer) -> io::Result<()> {
        let file = self.file.as_ref().expect("something was written");
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.room().len());
        file.read_exact_at(&mut buffer.room()[..len], at)?;
        buffer.filled(len);
        Ok(())
    }
}

/// Counts that a body is not spooled to the end, and says so now and then.
fn complain(shared: &Shared, fault: SpoolFault, why: &dyn std::fmt::Display) {
    shared.counters.spool.faults[fault as usize].one();
    if shared.spool_complaint.is_due(clock::now(), COMPLAINT) {
        tracing::warn!(
            cause = %why,
            "bodies cannot be spooled to the end, and uploads may hold slots: see forwarding.spool_directory"
        );
    }
}
