//! The origin: it takes any connection, and answers as scripted.

use super::choices::Choices;
use super::framing::{self, Message, Read};
use super::http1::{pause, pieces};
use super::texts::{self, Answer, End};
use super::world::{Recorder, Tape};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tiergate::memory::{self, End as Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What all its connections share.
#[derive(Clone)]
pub(crate) struct Origin {
    choices: Arc<Mutex<Vec<u8>>>,
    recorder: Recorder,
    /// Held by each connection while it is open.
    open: Arc<()>,
}

/// How many bytes decide about one request.
const BYTES_A_REQUEST: usize = 64;

impl Origin {
    pub(crate) fn new(choices: Choices<'_>, recorder: Recorder) -> Self {
        let choices = Arc::new(Mutex::new(choices.rest().to_vec()));
        Origin { choices, recorder, open: Arc::default() }
    }

    /// Takes this thread's connections.
    pub(crate) fn listen(&self) {
        let origin = self.clone();
        memory::connect_by(move || {
            let bytes = origin.take(2);
            let mut choices = Choices::new(&bytes);
            if choices.one_in(40) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (ours, theirs) = memory::pair(choices.pick(&[65_536, 65_536, 65_536, 100]));
            let place = {
                let mut tapes = origin.recorder.tapes();
                tapes.origins.push(Tape::default());
                tapes.origins.len() - 1
            };
            let origin = Origin { open: origin.open.clone(), ..origin.clone() };
            tokio::spawn(async move { Connection { stream: ours, origin, place }.serve().await });
            Ok(theirs)
        });
    }

    /// Returns when all its connections are closed.
    pub(crate) async fn ended(&self) {
        // One is held here, one by the connector.
        while Arc::strong_count(&self.open) > 2 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn choices(&self) -> MutexGuard<'_, Vec<u8>> {
        self.choices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes for the next decisions.
    fn take(&self, count: usize) -> Vec<u8> {
        let mut choices = self.choices();
        let count = count.min(choices.len());
        choices.drain(..count).collect()
    }
}

struct Connection {
    stream: Stream,
    origin: Origin,
    place: usize,
}

impl Connection {
    fn tape<R>(&self, act: impl FnOnce(&mut Tape) -> R) -> R {
        act(&mut self.origin.recorder.tapes().origins[self.place])
    }

    /// Reads; `false`: there is no more.
    async fn read(&mut self) -> bool {
        let mut bytes = [0; 16_384];
        match self.stream.read(&mut bytes).await {
            Ok(0) | Err(_) => false,
            Ok(count) => {
                self.tape(|tape| tape.received.extend_from_slice(&bytes[..count]));
                true
            }
        }
    }

    async fn write(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let Ok(count) = self.stream.write(bytes).await else { return false };
            self.tape(|tape| tape.sent.extend_from_slice(&bytes[..count]));
            bytes = &bytes[count..];
        }
        true
    }

    /// The request from `at` on, as far as it is there.
    fn request(&self, at: usize) -> Option<Message> {
        match self.tape(|tape| framing::request(&tape.received[at..])) {
            Read::Message(message) => Some(message),
            _ => None,
        }
    }

    async fn serve(mut self) {
        let mut at = 0;
        loop {
            let request = loop {
                if let Some(request) = self.request(at) {
                    break request;
                }
                if !self.read().await {
                    return;
                }
            };
            let now = {
                let mut tapes = self.origin.recorder.tapes();
                tapes.clock += 1;
                tapes.clock
            };
            self.tape(|tape| tape.came.push(now));
            let bytes = self.origin.take(BYTES_A_REQUEST);
            let mut choices = Choices::new(&bytes);
            if !self.answer(&mut choices, &request, at).await {
                return;
            }
            // It reads the whole request, early as its answer was.
            at += loop {
                match self.request(at) {
                    Some(request) if request.whole => break request.len,
                    _ if self.read().await => {}
                    _ => return,
                }
            };
        }
    }

    /// Answers; `false`: the connection has ended.
    async fn answer(&mut self, choices: &mut Choices<'_>, request: &Message, at: usize) -> bool {
        let early = choices.one_in(6);
        while !early && !self.request(at).is_some_and(|request| request.whole) {
            if !self.read().await {
                return false;
            }
        }
        if choices.one_in(24) {
            // No answer at all.
            return false;
        }
        let id = {
            let mut tapes = self.origin.recorder.tapes();
            tapes.answers += 1;
            format!("a{}", tapes.answers)
        };
        let upgrade = request.has("connection", "upgrade");
        let Answer { bytes, end } = texts::answer(choices, &id, &request.first[0], upgrade);
        for (pause, piece) in pieces(choices, bytes) {
            tokio::time::sleep(pause).await;
            if !self.write(&piece).await {
                return false;
            }
        }
        match end {
            End::Keep => true,
            End::Close => {
                tokio::time::sleep(pause(choices)).await;
                false
            }
            End::Reset => {
                self.stream.reset();
                false
            }
            End::Junk => {
                tokio::time::sleep(pause(choices)).await;
                // Only where no request is on its way already: else nobody could tell.
                if self.stream.is_fresh() && self.request(at).is_some_and(|request| request.whole) {
                    self.tape(|tape| tape.junk_at = Some((tape.received.len(), tape.sent.len())));
                    return self.write(texts::junk(choices)).await;
                }
                true
            }
            End::Hang => {
                tokio::time::sleep(Duration::from_secs(100)).await;
                false
            }
        }
    }
}
