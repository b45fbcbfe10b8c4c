//! The link that answers leave by: some wait for their turn, and what the others send is charged to it.
//!
//! | file | what it has |
//! |---|---|
//! | here | the link's schedule, for all threads |
//! | `turns` | the answers of a thread that wait, and the task that calls the next |
//! | `carrier` | what it asks of a client's connection |
//! | `parked` | those whose connection has no room |
//! | `parts` | what classes have of it, for `/status` and metrics |
//! | `followed` | the interface whose capacity is the link's, and that it follows |
//! | `notices` | what the kernel tells of queues that change |
//! | `watch` | a packet that is watched until it is acknowledged, where the capacity is to be found |
//! | `alarm` | a timer that is exact to some microseconds |
//!
//! What may leave when, the core says ([`Scheduler`]).

mod alarm;
mod carrier;
mod followed;
mod notices;
mod parked;
mod parts;
#[cfg(test)]
mod tests;
mod turns;
mod watch;

use crate::clock;
use crate::interface::capacity::Source;
pub(crate) use carrier::{Carrier, Gone};
pub(crate) use followed::Said;
pub use followed::{FollowedInterface, LinkCapacity};
pub use parts::LinkPart;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tiergate_core::plan::Plan;
use tiergate_core::time::Moment;
use tiergate_core::transmit::{Capacity, Heads, Scheduler, Sender};
use turns::Comes;
pub use turns::Turn;

/// The link, as far as the policy says what it carries.
#[derive(Debug, Default)]
pub struct Link {
    /// Whether the policy says it: asked by every answer.
    is_known: AtomicBool,
    /// Whether all answers wait for their turn, not only the background.
    is_shared: AtomicBool,
    /// Whether what it carries is to be found.
    is_sought: AtomicBool,
    /// Stays where a reload takes the link away: answers may wait in it.
    schedule: Mutex<Option<Scheduler>>,
    /// The interface that says the capacity, if one does. Taken before the schedule, so that no reading of a former policy's comes after
    /// a reload.
    interface: Mutex<Option<Arc<FollowedInterface>>>,
}

/// How long who waits for the link is not looked at, at most.
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// Bytes that are taken at a time where nothing is known of the link any more.
const UNBOUND: u64 = 1 << 16;
/// How long the background waits for a reading of a shaper that has changed, at most: it runs programs.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What an answer has that asks for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// So many bytes, to be written at once: what the client does not take now it has to wait for again.
    Bytes(u64),
    /// It waits for the link.
    TooEarly,
    /// It waits for its client.
    NoRoom,
}

const HELD: &str = "no code panics while it holds the link";

impl Link {
    /// The policy in force says what it carries, or that it is to be found, and what classes are to have of it; or does not say it. Who waits
    /// notices it soon. `interface`: what says the capacity, if not the policy.
    pub fn set(
        &self,
        now: Moment,
        said: Option<(Capacity, Vec<Sender>)>,
        interface: Option<Arc<FollowedInterface>>,
    ) {
        let mut followed = self.interface.lock().expect(HELD);
        *followed = interface;
        let mut schedule = self.schedule.lock().expect(HELD);
        let is_known = said.is_some();
        let is_sought = said.as_ref().is_some_and(|(capacity, _)| *capacity == Capacity::Found);
        if let Some((capacity, senders)) = said {
            match schedule.as_mut() {
                Some(schedule) => schedule.set(now, capacity, &senders),
                None => *schedule = Some(Scheduler::new(now, capacity, &senders)),
            }
        }
        let is_shared = is_known && schedule.as_ref().is_some_and(Scheduler::is_shared);
        self.is_shared.store(is_shared, Ordering::Relaxed);
        self.is_sought.store(is_sought, Ordering::Relaxed);
        self.is_known.store(is_known, Ordering::Relaxed);
    }

    /// The interface says this of what it carries from now on; unless another policy is in force meanwhile.
    pub(crate) fn hears(&self, now: Moment, interface: &Arc<FollowedInterface>, said: Said) {
        let followed = self.interface.lock().expect(HELD);
        if followed.as_ref().is_some_and(|it| Arc::ptr_eq(it, interface))
            && let Some(schedule) = &mut *self.schedule.lock().expect(HELD)
        {
            match said {
                Said::Changes => schedule.pause(now + PAUSE_MAX),
                Said::AsBefore => schedule.resume(),
                Said::Carries(bits) => schedule.set_capacity(now, bits),
            }
        }
    }

    /// What an interface says that it carries, or an estimate; `None`: the policy says it, or nobody does.
    pub fn capacity(&self) -> Option<LinkCapacity> {
        if let Some(interface) = &*self.interface.lock().expect(HELD) {
            return Some(interface.status());
        }
        let schedule = self.schedule.lock().expect(HELD);
        let found = schedule.as_ref().filter(|_| self.is_known()).and_then(Scheduler::found)?;
        Some(LinkCapacity {
            interface: None,
            bits_per_second: found,
            from: Source::Estimate,
            fault: None,
            failures: 0,
        })
    }

    /// A packet in its turn was written to the socket.
    pub(crate) fn written(&self, turn: &Turn, socket: Option<BorrowedFd<'_>>) {
        if self.is_sought.load(Ordering::Relaxed)
            && let Some(socket) = socket
            && let Some(schedule) = &mut *self.schedule.lock().expect(HELD)
        {
            let is_watched = watch::written(schedule, clock::now(), turn.flow(), socket);
            if is_watched {
                turns::look_up();
            }
        }
    }

    /// An answer that had turns is over, or the whole connection from that address.
    pub(crate) fn ends(&self, client: SocketAddr, is_connection_over: bool) {
        if let Some(watched) = watch::ends(|| turns::flow_of(client), is_connection_over)
            && let Some(schedule) = &mut *self.schedule.lock().expect(HELD)
        {
            schedule.forgets(&watched);
        }
    }

    /// Whether the policy says what it carries, or that this is to be found.
    pub fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Whether an answer waits for its turn.
    pub fn is_in_turns(&self, is_background: bool) -> bool {
        self.is_known() && (is_background || self.is_shared.load(Ordering::Relaxed))
    }

    /// So many bytes that waited for no turn have been written.
    pub fn charge(&self, bytes: u64, heads: Heads) {
        if let Some(schedule) = &mut *self.schedule.lock().expect(HELD) {
            schedule.charge(clock::now(), bytes, heads);
        }
    }

    /// The origin is done with an answer of the background's, of which so many bytes are still to be sent: whether it may wait for the link without a
    /// slot. Each of the threads has its part of what may. Some are to, so that the link is in use while the origin has nothing of the background to do; not all that there are.
    pub(crate) fn is_in_stock(&self, turn: &mut Turn, bytes: u64, threads: usize) -> bool {
        let schedule = self.schedule.lock().expect(HELD);
        schedule.as_ref().is_none_or(|it| turn.is_in_stock(bytes, it.stock(threads)))
    }

    /// So many bytes on the wire have left beyond what was charged.
    fn settle(&self, due: f64) {
        if due > 0.0
            && let Some(schedule) = &mut *self.schedule.lock().expect(HELD)
        {
            schedule.settle(clock::now(), due);
        }
    }

    /// Of so many bytes that were just taken only so many were written: the rest is for others, now.
    pub(crate) fn gives_back(
        &self,
        turn: &Turn,
        taken: u64,
        written: u64,
        client: &mut impl Carrier,
    ) {
        let on_wire = |bytes| if bytes == 0 { 0.0 } else { turn.heads().on_wire(bytes) };
        let rest = on_wire(taken) - on_wire(written);
        if let Some(schedule) = &mut *self.schedule.lock().expect(HELD) {
            schedule.gives_back(clock::now(), turn.class(), rest);
        }
        client.charged(-rest, true);
    }

    /// What the client's connection took of the link beyond what was charged for it, as by acknowledging what the client sends.
    pub(crate) fn looks(&self, client: &mut impl Carrier, heads: Heads) {
        if let Some(due) = client.with_carried(|carried, sending| carried.settle(sending, heads)) {
            self.settle(due);
        }
    }

    /// How many of so many bytes would leave at once, as far as that is known.
    fn room(&self, turn: &Turn, client: &mut impl Carrier, wanted: u64) -> u64 {
        if !turn.is_background() {
            return wanted;
        }
        let looked = client.with_carried(|carried, sending| {
            (carried.settle(sending, turn.heads()), sending.room(wanted))
        });
        let (due, room) = looked.unwrap_or((0.0, wanted));
        self.settle(due);
        room
    }

    /// How many of so many bytes may be written to the client now; else the task is woken when that may have changed.
    ///
    /// # Errors
    /// The client has left.
    pub(crate) fn poll_take(
        &self,
        turn: &mut Turn,
        wanted: u64,
        client: &mut impl Carrier,
        context: &mut Context<'_>,
    ) -> Result<Take, Gone> {
        turn.asks();
        if turn.is_parked() {
            if !turn.poll_look(context) {
                return Ok(Take::NoRoom);
            }
            if self.room(turn, client, wanted) == 0 {
                turn.parks(client, context);
                return Ok(Take::NoRoom);
            }
            turn.goes_back(client);
        }
        let comes = turn.comes();
        // It counts as waiting until it has what it came for.
        let was_last = comes == (Comes::Called { is_last: true });
        let mut wanted = wanted;
        if comes != Comes::TooEarly && turn.is_background() {
            // Meanwhile others of the connection may have had its room.
            let is_open = client.poll_open(context);
            wanted = match is_open {
                Poll::Ready(Ok(())) => self.room(turn, client, wanted),
                _ => 0,
            };
            if wanted == 0 {
                // It was called, and does not wait any more.
                if was_last && let Some(schedule) = &mut *self.schedule.lock().expect(HELD) {
                    schedule.waits_no_more(clock::now(), turn.class());
                }
                return match is_open {
                    Poll::Ready(Err(Gone)) => Err(Gone),
                    Poll::Ready(Ok(())) => {
                        turn.parks(client, context);
                        Ok(Take::NoRoom)
                    }
                    // The protocol wakes it.
                    Poll::Pending => Ok(Take::NoRoom),
                };
            }
        }
        let mut schedule = self.schedule.lock().expect(HELD);
        let Some(schedule) = &mut *schedule else { return Ok(Take::Bytes(UNBOUND)) };
        let now = clock::now();
        if comes != Comes::TooEarly {
            let taken = match self.is_known() {
                true => schedule.take(now, turn.class(), wanted, turn.heads()).ok(),
                // A reload has taken the bound away; another may set it again.
                false => Some(UNBOUND),
            };
            if let Some(bytes) = taken {
                if was_last {
                    schedule.waits_no_more(now, turn.class());
                }
                turn.goes(schedule.run(turn.class(), turns::waiting(turn.class())));
                client.charged(turn.heads().on_wire(bytes), true);
                return Ok(Take::Bytes(bytes));
            }
        }
        if turn.wait(context, matches!(comes, Comes::Called { .. })) && !was_last {
            schedule.waits(now, turn.class());
        }
        Ok(Take::TooEarly)
    }

    /// Calls those that wait on this thread, one after another, for as long as the runtime lives.
    pub async fn call_turns(&self) {
        let mut alarm = None;
        loop {
            let look_at = self.look();
            match look_at {
                None => turns::anybody(watch::is_any).await,
                Some(_) => turns::looks(),
            }
            if let Some(at) = self.call() {
                let at = look_at.map_or(at, |look_at| look_at.min(at));
                // Meanwhile others may send, or a reload set another capacity.
                let time = at.since(clock::now()).min(LOOKS_EVERY);
                tokio::select! {
                    () = alarm.get_or_insert_with(alarm::Alarm::new).sleep(time) => {}
                    () = turns::changed() => {}
                }
                continue;
            }
            // Who was called goes first.
            tokio::task::yield_now().await;
        }
    }

    /// Looks after the packet that is watched on this thread; when to do so again, if there is one.
    fn look(&self) -> Option<Moment> {
        if !self.is_sought.load(Ordering::Relaxed) && !watch::is_any() {
            return None;
        }
        let mut schedule = self.schedule.lock().expect(HELD);
        schedule.as_mut().and_then(|schedule| watch::look(schedule, clock::now()))
    }

    /// Calls the next, if it is somebody's turn; else, when it may be.
    fn call(&self) -> Option<Moment> {
        let mut schedule = self.schedule.lock().expect(HELD);
        let schedule = schedule.as_mut()?;
        let now = clock::now();
        let class = match self.is_known() {
            true => match schedule.next(now, turns::is_here) {
                Ok(class) => class,
                Err(at) => return Some(at),
            },
            false => match turns::any_here() {
                Some(class) => class,
                // One that is watched may be all that is left.
                None => return Some(Moment::NEVER),
            },
        };
        if turns::call_next(class) {
            schedule.waits_no_more(now, class);
        }
        None
    }

    /// What each class has of it; empty: only the background takes turns, or the link is not known.
    pub fn parts(&self, plan: &Plan) -> Vec<LinkPart> {
        let schedule = self.schedule.lock().expect(HELD);
        let in_force = schedule.as_ref().filter(|_| self.is_known());
        in_force.map_or_else(Vec::new, |schedule| parts::of(schedule, plan))
    }
}
