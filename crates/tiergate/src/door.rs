//! The door: the one lock around the gate, and what a request does there.
//!
//! | state | who reads | who writes | lock |
//! |---|---|---|---|
//! | the gate | every thread | every thread | `gate`, shortly (a scrape copies the counters under it); never across an await, never while waking |
//! | when the gate wants its tick | every thread | the ticker | none: an atomic |
//! | the number of slots | every thread | whoever takes the effect that it changed | none: an atomic |

use crate::clock;
pub use crate::held::Held;
use crate::rate_limit::Left;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Refused, Ticket, Verdict};
use tiergate_core::plan::Plan;
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;
use tokio::sync::Notify;

/// The gate behind its lock.
#[derive(Debug)]
pub struct Door {
    gate: Mutex<Gate<Waker>>,
    /// Nanoseconds of the moment at which the ticker will come by itself.
    next_tick: AtomicU64,
    slots: AtomicU32,
    earlier: Notify,
}

/// What the door says to a request.
#[derive(Debug)]
pub enum Answer<'d> {
    /// Go on.
    Admitted(Held<'d>),
    /// Wait for [`Waiting::wait`].
    Wait(Waiting<'d>),
    /// Come again with the body.
    Later,
    /// Refuse.
    Refused(Refused),
}

impl Door {
    /// A door with an empty gate behind it.
    pub fn new(plan: Plan) -> Self {
        let gate = Gate::new(plan);
        Door {
            slots: AtomicU32::new(gate.slots()),
            gate: Mutex::new(gate),
            next_tick: AtomicU64::new(Moment::NEVER.nanos()),
            earlier: Notify::new(),
        }
    }

    /// The gate, to be looked at or reconfigured; follow a change by [`Door::wake`].
    pub fn gate(&self) -> MutexGuard<'_, Gate<Waker>> {
        self.gate.lock().expect("no code panics while it holds the gate")
    }

    /// The number of slots in force, without the lock.
    pub fn slots(&self) -> u32 {
        self.slots.load(Ordering::Relaxed)
    }

    /// Takes a request to the gate. Called in a poll: the task is woken when a wait is over. Says also
    /// what one that is let in has left of a policer whose clients are told.
    pub fn arrive(
        &self,
        now: Moment,
        arrival: Arrival,
        context: &mut Context<'_>,
    ) -> (Answer<'_>, Option<Left>) {
        let mut gate = self.gate();
        let verdict = gate.arrive(now, arrival, || context.waker().clone());
        let left = match verdict {
            Verdict::Reject(_) => None,
            Verdict::Admit(_) | Verdict::Queue(_) => gate.announced(now, &arrival),
        };
        let answer = match verdict {
            Verdict::Admit(slot) => Answer::Admitted(Held::new(self, slot)),
            Verdict::Reject(reason) => Answer::Refused(gate.refused(now, &arrival, reason)),
            Verdict::Queue(ticket) => Answer::Wait(Waiting { door: self, ticket: Some(ticket) }),
        };
        // Others may have left for it, or have got what was kept for them.
        self.settle(gate, now);
        (answer, left)
    }

    /// Refuses a request whose body is still to be read, if it would be refused now.
    pub fn turn_away(&self, arrival: Arrival) -> Option<Refused> {
        let mut gate = self.gate();
        let now = clock::now();
        let refused =
            gate.turn_away(now, arrival).map(|reason| gate.refused(now, &arrival, reason));
        self.settle(gate, now);
        refused
    }

    /// What a request is told that is preempted while it is in service.
    pub fn broken_off(&self, arrival: &Arrival) -> Refused {
        self.gate().refused(clock::now(), arrival, Reason::Preempted)
    }

    /// Counts a request that is refused for a reason that the gate does not see.
    pub fn refuse(&self, arrival: Arrival, reason: Reason) {
        self.gate().refuse(arrival, reason);
    }

    /// After a change: wakes everybody who has news, and the ticker if the gate now wants its tick
    /// earlier than that would come.
    pub fn settle(&self, mut gate: MutexGuard<'_, Gate<Waker>>, now: Moment) {
        let due = gate.next_due(now);
        self.wake(gate);
        if due.nanos() < self.next_tick.load(Ordering::Relaxed) {
            self.earlier.notify_one();
        }
    }

    /// Carries out what the gate asks for: wakes, outside the lock, whoever has news.
    pub fn wake(&self, mut gate: MutexGuard<'_, Gate<Waker>>) {
        let mut first = None;
        // The usual case, one slot for one waiter, allocates nothing.
        let mut rest = Vec::new();
        while let Some(effect) = gate.next_effect() {
            match effect {
                Effect::Wake(waker) if first.is_none() => first = Some(waker),
                Effect::Wake(waker) => rest.push(waker),
                Effect::SlotsChanged { slots, .. } => self.slots.store(slots, Ordering::Relaxed),
                // Nothing in front of the gateway could refuse a flow for it: the gate does.
                Effect::Block { .. } | Effect::UnblockAll => {}
            }
        }
        drop(gate);
        first.into_iter().chain(rest).for_each(Waker::wake);
    }

    fn tick(&self) -> Moment {
        let mut gate = self.gate();
        let next = gate.tick(clock::now());
        self.next_tick.store(next.nanos(), Ordering::Relaxed);
        self.wake(gate);
        next
    }

    /// Ticks the gate when it wants it, for as long as the runtime lives. One task of the process.
    pub async fn run_ticks(&self) {
        loop {
            let next = self.tick();
            let pause = next.since(clock::now()).clamp(TICK_MIN, TICK_MAX);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.earlier.notified() => {}
            }
        }
    }
}

/// The gate is not ticked more often than this, however close the deadlines lie.
const TICK_MIN: Duration = Duration::from_millis(1);
/// Nor less often.
const TICK_MAX: Duration = Duration::from_secs(1);

/// A request in the backlog. Dropped, it leaves.
#[derive(Debug)]
pub struct Waiting<'d> {
    door: &'d Door,
    ticket: Option<Ticket>,
}

impl<'d> Waiting<'d> {
    /// The end of the wait of the request that arrived so. `gone` is polled too; once it is ready the
    /// wait is given up, and `None` returned. Cancel safe.
    pub async fn wait(
        mut self,
        arrival: &Arrival,
        mut gone: impl FnMut(&mut Context<'_>) -> Poll<()>,
    ) -> Option<Result<Held<'d>, Refused>> {
        poll_fn(|context| {
            if let Poll::Ready(settled) = self.poll_settled(arrival) {
                return Poll::Ready(Some(settled));
            }
            gone(context).map(|()| None)
        })
        .await
    }

    fn poll_settled(&mut self, arrival: &Arrival) -> Poll<Result<Held<'d>, Refused>> {
        let ticket = self.ticket.expect("polled only until it is settled");
        let mut gate = self.door.gate();
        let settled = match gate.claim(ticket) {
            Claim::Waiting => return Poll::Pending,
            Claim::Admitted(slot) => Ok(Held::new(self.door, slot)),
            Claim::Rejected(reason) => Err(gate.refused(clock::now(), arrival, reason)),
        };
        drop(gate);
        self.ticket = None;
        Poll::Ready(settled)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let now = clock::now();
            let mut gate = self.door.gate();
            gate.cancel(now, ticket);
            self.door.settle(gate, now);
        }
    }
}
