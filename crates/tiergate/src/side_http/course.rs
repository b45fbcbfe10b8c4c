//! Whose turn it is on a connection: its client's, which has a request to send or an answer to take, or ours. So it is known who is silent.
//!
//! | state | who writes | who reads |
//! |---|---|---|
//! | the course | the connection's task | the listener's, when it is full |

use super::content::Content;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A client that has just connected has so long until it counts as silent: its request is on its way.
const NEWCOMERS: Duration = Duration::from_secs(1);
/// The same for one that takes nothing of its answer: a lost packet comes again by then.
const READERS: Duration = Duration::from_secs(5);

/// A connection's course.
#[derive(Debug)]
pub(super) struct Course(Mutex<State>);

#[derive(Clone, Copy, Debug)]
struct State {
    turn: Turn,
    /// Since when it is ours, or its client counts as silent.
    since: Instant,
    /// An answer is being made, or more of it may come.
    answering: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// The client has a whole request to send.
    Asks,
    /// It has some of an answer to take.
    Takes,
    /// It waits for us.
    Waits,
}

impl Course {
    /// Of a connection that has just been accepted.
    pub(super) fn new() -> Self {
        Course(Mutex::new(State::new(Instant::now())))
    }

    /// A whole request has come; until the end of its answer, which what is returned goes with.
    pub(super) fn begins(self: &Arc<Self>) -> Answering {
        self.state().begins(Instant::now());
        Answering(self.clone())
    }

    /// In which order connections make room: first those whose turn is their client's, by how long that has been silent.
    pub(super) fn rank(&self) -> (bool, Instant) {
        let state = self.state();
        (state.turn == Turn::Waits, state.since)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(now: Instant) -> Self {
        State { turn: Turn::Asks, since: now + NEWCOMERS, answering: false }
    }

    fn begins(&mut self, now: Instant) {
        *self = State { turn: Turn::Waits, since: now, answering: true };
    }

    /// Something is written, of which the client's system takes some or nothing.
    fn writes(&mut self, takes_some: bool, now: Instant) {
        if takes_some || self.turn == Turn::Waits {
            (self.turn, self.since) = (Turn::Takes, now + READERS);
        }
    }

    /// All that there is has been written.
    fn has_written(&mut self, now: Instant) {
        match self.turn {
            Turn::Takes if self.answering => (self.turn, self.since) = (Turn::Waits, now),
            Turn::Takes | Turn::Waits if !self.answering => {
                (self.turn, self.since) = (Turn::Asks, now);
            }
            _ => {}
        }
    }
}

/// An answer is being made or sent, until it is dropped.
#[derive(Debug)]
pub(super) struct Answering(Arc<Course>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.state().answering = false;
    }
}

/// The content of an answer, with what ends with it.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) content: Content,
    pub(super) _answering: Answering,
}

impl Body for Answered {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.content).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.content.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.content.size_hint()
    }
}

/// A connection that tells its course what is written.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) stream: TcpStream,
    pub(super) course: Arc<Course>,
}

impl Watched {
    fn writes(&self, polled: &Poll<io::Result<usize>>) {
        let takes_some = matches!(polled, Poll::Ready(Ok(1..)));
        self.course.state().writes(takes_some, Instant::now());
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.writes(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.writes(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when nothing is left to be written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.course.state().has_written(Instant::now());
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_silent_from_when_it_was_its_turn() {
        let second = Duration::from_secs(1);
        let start = Instant::now();
        let at = |seconds: u32| start + second * seconds;
        let mut state = State::new(start);
        // Parts of a head count for nothing.
        state.has_written(at(3));
        assert_eq!((state.turn, state.since), (Turn::Asks, start + NEWCOMERS));
        state.begins(at(4));
        state.has_written(at(5));
        assert_eq!((state.turn, state.since), (Turn::Waits, at(4)));
        // A piece of an answer to which more may come; the client is slow.
        state.writes(false, at(6));
        state.writes(false, at(7));
        assert_eq!((state.turn, state.since), (Turn::Takes, at(6) + READERS));
        state.writes(true, at(8));
        assert_eq!((state.turn, state.since), (Turn::Takes, at(8) + READERS));
        state.has_written(at(8));
        assert_eq!((state.turn, state.since), (Turn::Waits, at(8)));
        // The last piece.
        state.answering = false;
        state.writes(true, at(9));
        assert_eq!((state.turn, state.since), (Turn::Takes, at(9) + READERS));
        state.has_written(at(10));
        state.has_written(at(11));
        assert_eq!((state.turn, state.since), (Turn::Asks, at(10)));
    }
}
