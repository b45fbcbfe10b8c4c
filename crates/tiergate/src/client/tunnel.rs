//! An upgraded connection (RFC 9110 §7.8): bytes both ways until either side has nothing more.

use crate::buffers::Buffer;
use crate::origin::stream::OriginStream;
use crate::stream::poll_fill_held;
use crate::timers::Timer;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// How long one side may be silent once the other has ended. Many servers keep a WebSocket open whose
/// client has left, and a client that has left looks like one that has only nothing more to send.
const HALF_ENDED_MAX: Duration = Duration::from_secs(10);

/// One direction.
#[derive(Debug, Default)]
struct Way {
    held: Option<Buffer>,
    ended: bool,
    shut: bool,
}

impl Way {
    /// Moves what can be moved; ready when the end was passed on. `moved` tells that bytes went.
    fn poll<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
        &mut self,
        from: &mut R,
        to: &mut W,
        moved: &mut bool,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if let Some(buffer) = &mut self.held {
                let count = ready!(Pin::new(&mut *to).poll_write(context, buffer.content()))?;
                if count == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                *moved = true;
                buffer.consume(count);
                if buffer.is_empty() {
                    self.held = None;
                }
                continue;
            }
            if self.ended {
                if !self.shut {
                    ready!(Pin::new(&mut *to).poll_shutdown(context))?;
                    self.shut = true;
                }
                return Poll::Ready(Ok(()));
            }
            ready!(Pin::new(&mut *to).poll_flush(context))?;
            if ready!(poll_fill_held(from, &mut self.held, Buffer::large, context))? == 0 {
                self.held = None;
                self.ended = true;
            }
        }
    }
}

/// Relays between client and origin until both have ended, one breaks, or nothing has moved for
/// `idle_max` (for [`HALF_ENDED_MAX`] when one has ended). What either side sent too early comes
/// first.
///
/// # Errors
/// What broke it; `TimedOut` when nothing moved.
pub(super) async fn relay<S: AsyncRead + AsyncWrite + Unpin>(
    client: &mut S,
    mut origin: OriginStream,
    from_client: Option<Buffer>,
    from_origin: Option<Buffer>,
    timer: &Timer,
    idle_max: Duration,
) -> io::Result<()> {
    let mut up = Way { held: from_client.filter(|buffer| !buffer.is_empty()), ..Way::default() };
    let mut down = Way { held: from_origin.filter(|buffer| !buffer.is_empty()), ..Way::default() };
    timer.arm(idle_max);
    let mut half_ended = false;
    poll_fn(|context| {
        let mut moved = false;
        let upward = up.poll(client, &mut origin, &mut moved, context)?;
        let downward = down.poll(&mut origin, client, &mut moved, context)?;
        if upward.is_ready() && downward.is_ready() {
            return Poll::Ready(Ok(()));
        }
        let ended_now = (upward.is_ready() || downward.is_ready()) && !half_ended;
        half_ended |= ended_now;
        if moved || ended_now {
            timer.arm(if half_ended { idle_max.min(HALF_ENDED_MAX) } else { idle_max });
        }
        if timer.poll_expired(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    })
    .await
}
