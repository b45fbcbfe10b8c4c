//! The lock around the gate, whom to wake after a change, and when the gate wants its tick.
//!
//! | state | who reads | who writes | lock |
//! |---|---|---|---|
//! | the gate | every thread | every thread | `gate`, shortly (a scrape copies the counters under it); never across an await, never while waking |
//! | when the next tick comes | every thread | the ticker | none: an atomic |
//! | the number of slots of each pool | every thread | whichever thread takes the effect that it changed | none: an atomic |
//! | whether it is wanted earlier | the ticker | every thread | none: an atomic |
//! | which flows were blocked | what turns them away earlier | whichever thread takes the effect | that of `blocks`, shortly, within the gate's |
//! | the ticker's waker | every thread, when the tick is wanted earlier | the ticker | `ticker`, shortly; never with the gate's |

use super::blocks::{BlockNews, Blocks};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tiergate_core::control::Access;
use tiergate_core::gate::{Arrival, Effect, Gate};
use tiergate_core::names::{ClassId, Id, PoolId, ServerId};
use tiergate_core::plan::Plan;
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;

/// The gate behind its lock.
#[derive(Debug)]
pub struct Door {
    gate: Mutex<Gate<Waker>>,
    /// What tells the guards the time when they are dropped.
    clock: fn() -> Moment,
    /// Nanoseconds of the moment at which the ticker will come by itself.
    next_tick: AtomicU64,
    /// By the pool's id.
    slots: Box<[AtomicU32]>,
    is_wanted_earlier: AtomicBool,
    ticker: Mutex<Option<Waker>>,
    blocks: Blocks,
}

impl Door {
    /// A door with an empty gate behind it. `clock` tells guards the time; it must agree with the `now`
    /// that methods are given.
    pub fn new(plan: Plan, clock: fn() -> Moment) -> Self {
        let gate = Gate::new(plan);
        Door {
            slots: (0..PoolId::MAX).map(|pool| AtomicU32::new(slots_of(&gate, pool))).collect(),
            gate: Mutex::new(gate),
            clock,
            next_tick: AtomicU64::new(Moment::NEVER.nanos()),
            is_wanted_earlier: AtomicBool::new(false),
            ticker: Mutex::default(),
            blocks: Blocks::default(),
        }
    }

    /// The gate, to be looked at or reconfigured; follow a change by [`Door::wake`].
    pub fn gate(&self) -> MutexGuard<'_, Gate<Waker>> {
        self.gate.lock().expect("no code panics while it holds the gate")
    }

    /// The moment, by the clock that the door was made with.
    pub(super) fn now(&self) -> Moment {
        (self.clock)()
    }

    /// The number of slots of a pool in force, without the lock.
    pub fn slots(&self, pool: PoolId) -> u32 {
        self.slots[pool.index()].load(Ordering::Relaxed)
    }

    /// Counts a request that is refused for a reason that the gate does not see.
    pub fn refuse(&self, arrival: Arrival, reason: Reason) {
        self.gate().refuse(arrival, reason);
    }

    /// After a change: wakes every task that has news, and the ticker if the gate now wants its tick
    /// earlier than that would come.
    pub fn settle(&self, mut gate: MutexGuard<'_, Gate<Waker>>, now: Moment) {
        let due = gate.next_due(now);
        self.wake(gate);
        if due.nanos() < self.next_tick.load(Ordering::Relaxed) {
            self.is_wanted_earlier.store(true, Ordering::Release);
            let ticker =
                self.ticker.lock().expect("no code panics while it holds the waker").take();
            ticker.into_iter().for_each(Waker::wake);
        }
    }

    /// Carries out what the gate asks for: wakes every task that has news, outside the lock.
    pub fn wake(&self, mut gate: MutexGuard<'_, Gate<Waker>>) {
        let mut first = None;
        // The usual case, one slot for one waiter, allocates nothing.
        let mut rest = Vec::new();
        let mut missed = Vec::new();
        while let Some(effect) = gate.next_effect() {
            match effect {
                Effect::Wake(waker) if first.is_none() => first = Some(waker),
                Effect::Wake(waker) => rest.push(waker),
                Effect::SlotsChanged { pool, resource: None, slots, .. } => {
                    self.slots[pool.index()].store(slots, Ordering::Relaxed);
                }
                Effect::TargetMissed { pool, class, is_missed } => {
                    missed.push(Missed::of(&gate, pool, class, is_missed));
                }
                // Nobody asks for those of a resource without the lock.
                Effect::SlotsChanged { .. } => {}
                Effect::Block { flow, until } => {
                    self.blocks.tell(BlockNews::Block { flow, until });
                }
                Effect::UnblockAll => self.blocks.tell(BlockNews::UnblockAll),
            }
        }
        drop(gate);
        first.into_iter().chain(rest).for_each(Waker::wake);
        missed.into_iter().for_each(Missed::log);
    }

    /// Whether [`Door::take_blocks`] is going to be asked.
    pub fn want_blocks(&self, wanted: bool) {
        self.blocks.want(wanted);
    }

    /// Which flows were blocked since the last time, in their order.
    pub fn take_blocks(&self) -> Vec<BlockNews> {
        self.blocks.take()
    }

    /// Which servers of a pool may get requests; see [`Gate::set_access`].
    pub fn set_access(&self, pool: PoolId, servers: &[(ServerId, Access)]) {
        let now = self.now();
        let mut gate = self.gate();
        gate.set_access(now, pool, servers);
        self.settle(gate, now);
    }

    /// The wall clock is ahead of moments by so much; see [`Gate::set_clock`].
    pub fn set_clock(&self, ahead: Duration) {
        self.gate().set_clock(ahead);
    }

    /// Ticks the gate; returns when it wants the next tick, unless [`Door::poll_earlier`] says otherwise.
    pub fn tick(&self, now: Moment) -> Moment {
        let mut gate = self.gate();
        let next = gate.tick(now);
        self.next_tick.store(next.nanos(), Ordering::Relaxed);
        self.wake(gate);
        next
    }

    /// Ready when the gate wants its tick earlier than [`Door::tick`] last said. For one task: the last
    /// that polled is woken.
    pub fn poll_earlier(&self, context: &Context<'_>) -> Poll<()> {
        let waker = context.waker().clone();
        *self.ticker.lock().expect("no code panics while it holds the waker") = Some(waker);
        // After the waker was put there: a change since has set this, or finds the waker.
        match self.is_wanted_earlier.swap(false, Ordering::Acquire) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// What has become of a service target, to be logged without the lock.
struct Missed {
    pool: String,
    class: String,
    is_missed: bool,
}

impl Missed {
    fn of(gate: &Gate<Waker>, pool: PoolId, class: ClassId, is_missed: bool) -> Self {
        let pool = gate.pool(pool).filter(|it| it.id() != PoolId::DEFAULT);
        let pool = pool.map_or(PoolId::DEFAULT_NAME, |pool| pool.name()).to_owned();
        let class = gate.plan().class(class).map_or_else(String::new, |it| it.name.clone());
        Missed { pool, class, is_missed }
    }

    fn log(self) {
        let Missed { pool, class, is_missed } = self;
        match is_missed {
            true => tracing::warn!(
                class,
                pool,
                "service target missed: the origin takes longer, and fewer slots do not help"
            ),
            false => tracing::info!(class, pool, "service target met again"),
        }
    }
}

fn slots_of(gate: &Gate<Waker>, pool: usize) -> u32 {
    gate.pool(PoolId::at(pool)).map_or(0, |pool| pool.slots())
}
