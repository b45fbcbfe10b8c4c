//! A packet of the background's that is watched until its client's system acknowledges it, where what the link carries is to be found: one at
//! a time on each thread.
//!
//! | state | who reads | who writes |
//! |---|---|---|
//! | the packet | its own thread only | its own thread only |

use crate::tcp_info::{self, Progress};
use std::cell::RefCell;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;
use tiergate_core::time::Moment;
use tiergate_core::transmit::{Scheduler, Waited, Watched};

/// If it was not looked at for so long when it could have been, it is not known when it was acknowledged.
const TOO_LATE: Duration = Duration::from_millis(5);

/// How far it is.
#[derive(Debug)]
enum Watch {
    /// It was written; the other end acknowledges it at once only when it has the next of that flow.
    Written { flow: u64, watched: Watched, end: u64 },
    /// The next was written, too.
    Sent(Sent),
}

#[derive(Debug)]
struct Sent {
    watched: Watched,
    end: u64,
    way: Duration,
    /// The connection's, which may be gone.
    socket: OwnedFd,
    /// When to look next; it was not acknowledged a while before, [`Scheduler::LOOKS`].
    looks_at: Moment,
}

thread_local! {
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// A packet of that flow has just been written to the socket. Whether one is to be looked after from now on.
pub(super) fn written(
    schedule: &mut Scheduler,
    now: Moment,
    flow: u64,
    socket: BorrowedFd<'_>,
) -> bool {
    WATCH.with_borrow_mut(|watch| {
        match *watch {
            Some(Watch::Written { flow: begun, watched, end }) if begun == flow => {
                *watch = follows(schedule, now, &watched, end, socket);
            }
            _ if schedule.watches(now, flow) => {
                *watch = begins(schedule, now, flow, socket);
            }
            _ => return false,
        }
        matches!(watch, Some(Watch::Sent(_)))
    })
}

/// It is watched from now on.
fn begins(
    schedule: &mut Scheduler,
    now: Moment,
    flow: u64,
    socket: BorrowedFd<'_>,
) -> Option<Watch> {
    let Progress { written: end, way, .. } = tcp_info::progress(&socket)?;
    let watched = schedule.watch(now, flow, None)?;
    if watched.is_pair() {
        return sent(schedule, now, flow, end, way, socket);
    }
    Some(Watch::Written { flow, watched, end })
}

/// The packet after it was written.
fn follows(
    schedule: &mut Scheduler,
    now: Moment,
    watched: &Watched,
    end: u64,
    socket: BorrowedFd<'_>,
) -> Option<Watch> {
    let far = tcp_info::progress(&socket);
    match far {
        Some(far) if is_acknowledged(&far, end) => {
            // Between when it was sent and now.
            let most = now.since(watched.at()).saturating_sub(far.way);
            let waited = Waited { least: Duration::ZERO, most, way: far.way };
            schedule.learns(now, watched, waited);
            None
        }
        Some(far) if !far.is_bounded => sent(schedule, now, watched.flow(), end, far.way, socket),
        // It waits for its own connection, or that is gone.
        _ => {
            schedule.forgets(watched);
            None
        }
    }
}

/// The other end is to acknowledge it from now on.
fn sent(
    schedule: &mut Scheduler,
    now: Moment,
    flow: u64,
    end: u64,
    way: Duration,
    socket: BorrowedFd<'_>,
) -> Option<Watch> {
    let socket = socket.try_clone_to_owned().ok()?;
    let watched = schedule.watch(now, flow, Some(way))?;
    let looks_at = now + way.max(Scheduler::LOOKS);
    Some(Watch::Sent(Sent { watched, end, way, socket, looks_at }))
}

/// Looks whether the packet that is watched was acknowledged, if it is time to. When to look again; `None`: when another is watched.
pub(super) fn look(schedule: &mut Scheduler, now: Moment) -> Option<Moment> {
    WATCH.with_borrow_mut(|watch| {
        let Some(Watch::Sent(sent)) = watch else { return None };
        let Sent { watched, end, way, socket, looks_at } = sent;
        if now < *looks_at {
            return Some(*looks_at);
        }
        let far = tcp_info::progress(socket).filter(|_| now < *looks_at + TOO_LATE);
        let Some(far) = far else {
            schedule.forgets(watched);
            *watch = None;
            return None;
        };
        *way = (*way).min(far.way);
        let is_acknowledged = is_acknowledged(&far, *end);
        let is_lost = now.since(watched.at()) > *way + Scheduler::LOST;
        if !is_acknowledged && !is_lost {
            *looks_at = now + Scheduler::LOOKS;
            let next = *looks_at;
            if schedule.not_yet(now, watched, *way) {
                return Some(next);
            }
            *watch = None;
            return None;
        }
        let since = |at: Moment| at.since(watched.at()).saturating_sub(*way);
        let not_then = since(*looks_at).saturating_sub(Scheduler::LOOKS);
        let least = if is_acknowledged { not_then } else { since(now) };
        schedule.learns(now, watched, Waited { least, most: since(now), way: *way });
        *watch = None;
        None
    })
}

/// Whether one is to be looked after on this thread.
pub(super) fn is_any() -> bool {
    WATCH.with_borrow(|watch| matches!(watch, Some(Watch::Sent(_))))
}

/// No packet follows in this answer, or, if the connection is over, none is watched any more: the one that is not, if any.
pub(super) fn ends(flow: impl FnOnce() -> u64, is_connection_over: bool) -> Option<Watched> {
    WATCH.with_borrow_mut(|watch| {
        let watched = match watch {
            Some(Watch::Written { watched, .. }) => *watched,
            Some(Watch::Sent(sent)) if is_connection_over => sent.watched,
            _ => return None,
        };
        if watched.flow() != flow() {
            return None;
        }
        *watch = None;
        Some(watched)
    })
}

/// The last byte may have been counted as the connection's beginning.
fn is_acknowledged(far: &Progress, end: u64) -> bool {
    far.acknowledged + 1 >= end
}
