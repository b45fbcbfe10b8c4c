//! The answers of a thread that wait for the link, by class: each has its turn, a segment or a few at a time, or some that follow one another.
//!
//! | state | who reads | who writes |
//! |---|---|---|
//! | the table | its own thread only | its own thread only |

use super::carrier::Carrier;
use super::parked::Parked;
use crate::timers::Timer;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::transmit::Heads;

/// Where an answer stands.
#[derive(Debug, Default)]
enum Entry {
    /// It does not wait.
    #[default]
    Idle,
    /// It waits to be called.
    Waiting(Waker),
    /// It was called, and may take what there is.
    Called,
    /// It is gone, and still stands in the queue.
    Gone,
}

/// Answers of a class.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<usize>,
    /// How many of those are gone.
    gone: usize,
    /// How many were called, and have not come yet.
    called: usize,
}

impl Queue {
    /// Nobody waits or was called.
    fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.called == 0
    }
}

/// So many that are gone may stand in a queue.
const GONE: usize = 16;

#[derive(Debug, Default)]
struct Table {
    entries: Vec<Entry>,
    free: Vec<usize>,
    /// By class.
    queues: Vec<Queue>,
    /// How many stand in all of them.
    len: usize,
    /// Bytes of answers that wait without a slot at the origin.
    stock: u64,
    /// A class began to wait since the caller looked.
    has_changed: bool,
    /// The task that calls them, while it waits for that.
    caller: Option<Waker>,
}

impl Table {
    fn queue(&mut self, class: ClassId) -> &mut Queue {
        if class.index() >= self.queues.len() {
            self.queues.resize_with(class.index() + 1, Queue::default);
        }
        &mut self.queues[class.index()]
    }

    /// One more stands in a queue; whether nobody of its class did. Who is to be woken for it.
    fn stands(&mut self, is_first: bool) -> Option<Waker> {
        self.len += 1;
        self.has_changed |= is_first;
        if is_first || self.len == 1 { self.caller.take() } else { None }
    }

    fn is_empty(&self, class: ClassId) -> bool {
        self.queues.get(class.index()).is_none_or(|it| it.waiting.is_empty())
    }

    /// One that stands in the queue is gone. They are cleared away before they are more than the others; not the last, which says that
    /// the class waits until it has been called.
    fn leaves(&mut self, class: ClassId, place: usize) {
        self.entries[place] = Entry::Gone;
        let queue = &mut self.queues[class.index()];
        queue.gone += 1;
        if queue.gone < GONE.max(queue.waiting.len() / 2) {
            return;
        }
        let (entries, free) = (&mut self.entries, &mut self.free);
        let before = queue.waiting.len();
        let mut kept = queue.waiting.pop_front();
        if let Some(first) = kept.filter(|first| !matches!(entries[*first], Entry::Gone)) {
            queue.waiting.push_front(first);
            kept = None;
        }
        queue.waiting.retain(|place| match entries[*place] {
            Entry::Gone => {
                entries[*place] = Entry::Idle;
                free.push(*place);
                false
            }
            _ => true,
        });
        kept.into_iter().for_each(|place| queue.waiting.push_front(place));
        queue.gone = usize::from(kept.is_some());
        self.len -= before - queue.waiting.len();
    }
}

thread_local! {
    static TABLE: RefCell<Table> = RefCell::default();
}

/// What becomes of an answer that asks for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comes {
    /// Others of its class wait, or it has not been called.
    TooEarly,
    /// Nobody of its class waits.
    First,
    /// It was called; whether nobody of its class is left that waits.
    Called {
        /// The same.
        is_last: bool,
    },
}

/// An answer's place among those that wait. Belongs to the thread that first waited with it.
#[derive(Debug)]
pub struct Turn {
    class: ClassId,
    client: SocketAddr,
    heads: Heads,
    /// Whether the class has no more than its part of the link, so that answers of it pile up.
    is_held: bool,
    /// Whether it is of the background, of which nothing is written that would not leave at once.
    is_background: bool,
    is_clients_wait: bool,
    /// While its connection has no room.
    parked: Option<Parked>,
    place: Option<usize>,
    /// How many turns it is to have before another has one.
    run: u32,
    /// Whether it waits without a slot, and what it has of the stock: the bytes that are left of it.
    is_in_stock: bool,
    stock: u64,
    /// What its client had left of its time when it began to wait.
    paused: Option<Duration>,
}

impl Turn {
    /// Of an answer of that class, to a client's connection from that address.
    pub fn new(id: ClassId, class: Option<&Class>, client: SocketAddr, heads: Heads) -> Self {
        let is_bounded = |class: &Class| class.transmit.is_some_and(|it| !it.extra);
        let is_held = class.is_some_and(|class| class.background || is_bounded(class));
        Turn {
            class: id,
            client,
            heads,
            is_held,
            is_background: class.is_some_and(|class| class.background),
            is_clients_wait: false,
            parked: None,
            place: None,
            run: 0,
            is_in_stock: false,
            stock: 0,
            paused: None,
        }
    }

    /// Whether answers like it pile up by design.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Whether it is of the background.
    pub fn is_background(&self) -> bool {
        self.is_background
    }

    /// It waits for its client, until it has asked for its turn again.
    pub(crate) fn awaits_client(&mut self) {
        self.is_clients_wait = true;
    }

    /// Whether it waits for its client.
    pub(crate) fn is_clients_wait(&self) -> bool {
        self.is_clients_wait
    }

    /// It asks for its turn.
    pub(super) fn asks(&mut self) {
        self.is_clients_wait = false;
    }

    /// Whether its connection had no room when that was looked at last.
    pub(super) fn is_parked(&self) -> bool {
        self.parked.is_some()
    }

    /// Its connection has no room: it is looked again later, when the task is woken.
    pub(super) fn parks(&mut self, client: &mut impl Carrier, context: &mut Context<'_>) {
        match &mut self.parked {
            Some(parked) => parked.goes_on(client),
            None => self.parked = Some(Parked::begin()),
        }
        // So that the task is woken.
        let _ = self.poll_look(context);
    }

    /// Whether it is to be looked now whether its connection has room; else the task is woken then.
    pub(super) fn poll_look(&mut self, context: &mut Context<'_>) -> bool {
        self.parked.as_mut().is_none_or(|parked| parked.poll_look(context))
    }

    /// Its connection has room.
    pub(super) fn goes_back(&mut self, client: &mut impl Carrier) {
        self.parked.take().into_iter().for_each(|parked| parked.ends(client));
    }

    /// While it waits for the link, the time of its client stands still; `time`: what the client has for all.
    pub fn pauses(&mut self, timer: &Timer, time: Duration) {
        self.paused.get_or_insert_with(|| timer.pause().unwrap_or(time));
    }

    /// The client's time goes on.
    pub fn goes_on(&mut self, timer: &Timer) {
        if let Some(left) = self.paused.take() {
            timer.arm(left);
        }
    }

    /// It had one of so many turns that follow one another.
    pub(super) fn goes(&mut self, of: u32) {
        self.run = if self.run == 0 { of - 1 } else { self.run.min(of) - 1 };
    }

    /// The origin is done with it, and so many bytes of it are still to be sent: whether it may wait without a slot, if no more
    /// than so many bytes are to do so on this thread. Once it may, it does until its end.
    pub(super) fn is_in_stock(&mut self, bytes: u64, most: u64) -> bool {
        TABLE.with_borrow_mut(|table| {
            if !self.is_in_stock && table.stock + bytes <= most {
                self.is_in_stock = true;
                self.stock = bytes;
                table.stock += bytes;
            }
        });
        self.is_in_stock
    }

    /// So many bytes of it are left for the link; none, while it waits for its client.
    pub fn leaves(&mut self, bytes: u64) {
        if self.is_in_stock {
            let before = std::mem::replace(&mut self.stock, bytes);
            TABLE.with_borrow_mut(|table| table.stock = table.stock - before + bytes);
        }
    }

    /// Of the same connection, the same.
    pub(super) fn flow(&self) -> u64 {
        flow_of(self.client)
    }

    /// Of each of its packets.
    pub(crate) fn heads(&self) -> Heads {
        self.heads
    }

    pub(super) fn class(&self) -> ClassId {
        self.class
    }

    /// Whether it may take what there is: nobody of its class waits, or it was called. Once.
    pub(super) fn comes(&mut self) -> Comes {
        TABLE.with_borrow_mut(|table| {
            let is_alone = table.is_empty(self.class);
            match self.place.map(|place| &mut table.entries[place]) {
                Some(entry @ Entry::Called) => {
                    *entry = Entry::Idle;
                    let queue = table.queue(self.class);
                    queue.called -= 1;
                    Comes::Called { is_last: queue.is_over() }
                }
                Some(Entry::Waiting(_)) => Comes::TooEarly,
                _ if is_alone => Comes::First,
                _ => Comes::TooEarly,
            }
        })
    }

    /// It waits, behind all others of its class, unless it waits already; before them if it was called and got nothing, or is to have more turns. Whether it is the only
    /// one of them.
    pub(super) fn wait(&mut self, context: &Context<'_>, was_called: bool) -> bool {
        let caller = TABLE.with_borrow_mut(|table| {
            let place = *self.place.get_or_insert_with(|| {
                table.free.pop().unwrap_or_else(|| {
                    table.entries.push(Entry::Idle);
                    table.entries.len() - 1
                })
            });
            match &mut table.entries[place] {
                Entry::Waiting(waker) => {
                    waker.clone_from(context.waker());
                    return None;
                }
                entry => *entry = Entry::Waiting(context.waker().clone()),
            }
            let queue = table.queue(self.class);
            let is_first = queue.is_over();
            match was_called || self.run > 0 {
                true => queue.waiting.push_front(place),
                false => queue.waiting.push_back(place),
            }
            Some((is_first, table.stands(is_first)))
        });
        let Some((is_first, caller)) = caller else { return false };
        caller.into_iter().for_each(Waker::wake);
        is_first
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // The thread's table may be gone already when the thread itself ends.
        let _ = TABLE.try_with(|table| table.borrow_mut().stock -= self.stock);
        let Some(place) = self.place else { return };
        let caller = TABLE.try_with(|table| {
            let mut table = table.borrow_mut();
            match std::mem::take(&mut table.entries[place]) {
                Entry::Waiting(_) => table.leaves(self.class, place),
                // The class counts as waiting until somebody looks.
                Entry::Called => {
                    let queue = table.queue(self.class);
                    queue.called -= 1;
                    queue.waiting.push_back(place);
                    let caller = table.stands(false);
                    table.leaves(self.class, place);
                    return caller;
                }
                _ => table.free.push(place),
            }
            None
        });
        caller.ok().flatten().into_iter().for_each(Waker::wake);
    }
}

/// Of the same connection, the same.
pub(super) fn flow_of(client: SocketAddr) -> u64 {
    let mut hasher = DefaultHasher::new();
    client.hash(&mut hasher);
    hasher.finish()
}

/// What has changed until now is known.
pub(super) fn looks() {
    TABLE.with_borrow_mut(|table| table.has_changed = false);
}

/// There is something to look after.
pub(super) fn look_up() {
    let caller = TABLE.with_borrow_mut(|table| {
        table.has_changed = true;
        table.caller.take()
    });
    caller.into_iter().for_each(Waker::wake);
}

/// Ready when anybody waits, or there is something else.
pub(super) async fn anybody(or_else: impl Fn() -> bool) {
    poll_fn(|context| {
        TABLE.with_borrow_mut(|table| {
            table.has_changed = false;
            match table.len {
                0 if !or_else() => {
                    table.caller = Some(context.waker().clone());
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            }
        })
    })
    .await;
}

/// Ready when a class has begun to wait since [`anybody`] was ready.
pub(super) async fn changed() {
    poll_fn(|context| {
        TABLE.with_borrow_mut(|table| match table.has_changed {
            true => Poll::Ready(()),
            false => {
                table.caller = Some(context.waker().clone());
                Poll::Pending
            }
        })
    })
    .await;
}

/// Whether answers of the class wait on this thread.
pub(super) fn is_here(class: ClassId) -> bool {
    TABLE.with_borrow(|table| !table.is_empty(class))
}

/// How many answers of the class wait on this thread, more or less: some may be gone.
pub(super) fn waiting(class: ClassId) -> usize {
    TABLE.with_borrow(|table| table.queues.get(class.index()).map_or(0, |it| it.waiting.len()))
}

/// A class of which answers wait on this thread.
pub(super) fn any_here() -> Option<ClassId> {
    let of = |table: &Table| table.queues.iter().position(|it| !it.waiting.is_empty());
    TABLE.with_borrow(of).map(|place| ClassId(place as u16))
}

/// Calls the one of the class that has waited longest, if any is still there. Whether nobody of the class waits any more, nor is on its way.
pub(super) fn call_next(class: ClassId) -> bool {
    let next = TABLE.with_borrow_mut(|table| {
        while let Some(place) = table.queue(class).waiting.pop_front() {
            table.len -= 1;
            match std::mem::replace(&mut table.entries[place], Entry::Called) {
                Entry::Waiting(waker) => {
                    table.queue(class).called += 1;
                    return Some(waker);
                }
                _ => {
                    table.queue(class).gone -= 1;
                    table.entries[place] = Entry::Idle;
                    table.free.push(place);
                }
            }
        }
        None
    });
    let is_over = next.is_none();
    next.into_iter().for_each(Waker::wake);
    is_over && TABLE.with_borrow_mut(|table| table.queue(class).is_over())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    const ADDRESS: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

    fn woken(counts: &[Arc<Woken>]) -> Vec<u32> {
        counts.iter().map(|it| it.0.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn each_that_waits_is_called_in_turn_and_who_left_is_passed_over() {
        let (class, other) = (ClassId(0), ClassId(2));
        let counts: Vec<Arc<Woken>> = (0..3).map(|_| Arc::default()).collect();
        let wakers: Vec<Waker> = counts.iter().map(|it| it.clone().into()).collect();
        let context = |place: usize| Context::from_waker(&wakers[place]);
        let mut turns: Vec<Turn> =
            (0..3).map(|_| Turn::new(class, None, ADDRESS, Heads::of(false, false))).collect();
        assert_eq!(turns[0].comes(), Comes::First, "nobody waits");
        for (place, turn) in turns.iter_mut().enumerate() {
            let is_first = turn.wait(&context(place), false);
            assert_eq!(is_first, place == 0, "the first is the only one");
            assert!(!turn.wait(&context(place), false));
        }
        let is_early = |turn: &mut Turn| turn.comes() == Comes::TooEarly;
        assert!(turns.iter_mut().all(is_early), "none was called");
        assert_eq!(
            Turn::new(other, None, ADDRESS, Heads::of(false, false)).comes(),
            Comes::First,
            "nobody of that class waits"
        );
        assert_eq!((is_here(class), is_here(other), any_here()), (true, false, Some(class)));
        assert!(!call_next(class));
        assert_eq!(woken(&counts), [1, 0, 0]);
        assert_eq!(turns[0].comes(), Comes::Called { is_last: false });
        assert_eq!(turns[0].comes(), Comes::TooEarly, "once, and others wait");
        turns[0].wait(&context(0), false);
        turns.remove(1);
        call_next(class);
        assert_eq!(woken(&counts), [1, 0, 1], "the second has left");
        call_next(class);
        assert_eq!(woken(&counts), [2, 0, 1]);
        // One that was called and got nothing is before the others.
        assert_eq!(turns[1].comes(), Comes::Called { is_last: false }, "the other is on its way");
        let mut third = Turn::new(class, None, ADDRESS, Heads::of(false, false));
        assert!(!third.wait(&context(1), false));
        assert!(!turns[1].wait(&context(2), true));
        call_next(class);
        assert_eq!(woken(&counts), [2, 0, 2]);
        assert_eq!(turns[0].comes(), Comes::Called { is_last: false });
        // Who leaves after it was called counts until somebody looks.
        drop((third, turns));
        assert!(is_here(class) && call_next(class) && !is_here(class));
        // The places of those that left are used again.
        let mut another = Turn::new(other, None, ADDRESS, Heads::of(false, false));
        assert!(another.wait(&context(1), false));
        assert_eq!(any_here(), Some(other));
        drop(another);
        assert!(call_next(other));
        assert_eq!((woken(&counts), any_here()), (vec![2, 0, 2], None));
        TABLE.with_borrow(|table| assert_eq!((table.free.len(), table.len), (3, 0)));
    }

    #[test]
    fn an_answer_has_its_run_before_the_next_also_if_it_could_not_write_meanwhile() {
        let class = ClassId(9);
        let counts: Vec<Arc<Woken>> = (0..2).map(|_| Arc::default()).collect();
        let wakers: Vec<Waker> = counts.iter().map(|it| it.clone().into()).collect();
        let context = |place: usize| Context::from_waker(&wakers[place]);
        let mut turns: Vec<Turn> =
            (0..2).map(|_| Turn::new(class, None, ADDRESS, Heads::of(false, false))).collect();
        let next = |turns: &mut Vec<Turn>, of: u32, waits: bool| {
            let before = woken(&counts);
            call_next(class);
            let place = usize::from(woken(&counts)[1] > before[1]);
            assert!(matches!(turns[place].comes(), Comes::Called { .. }));
            turns[place].goes(of);
            if waits {
                turns[place].wait(&context(place), false);
            }
            place
        };
        (0..2).for_each(|place| _ = turns[place].wait(&context(place), false));
        let served: Vec<usize> = (0..8).map(|_| next(&mut turns, 3, true)).collect();
        assert_eq!(served, [0, 0, 0, 1, 1, 1, 0, 0]);
        // More wait now: what is left of a run is cut.
        let served: Vec<usize> = (0..4).map(|_| next(&mut turns, 1, true)).collect();
        assert_eq!(served, [0, 1, 0, 1]);
        // The first has no room in its socket for a while; then it has what is left of its run, and no more.
        assert_eq!(next(&mut turns, 3, false), 0);
        assert_eq!([(); 2].map(|()| next(&mut turns, 3, true)), [1, 1]);
        turns[0].wait(&context(0), false);
        let served: Vec<usize> = (0..6).map(|_| next(&mut turns, 3, true)).collect();
        assert_eq!(served, [0, 0, 1, 0, 0, 0]);
        drop(turns);
        while !call_next(class) {}
    }

    #[test]
    fn what_waits_for_its_client_is_no_stock_until_it_waits_for_the_link_again() {
        let new = || Turn::new(ClassId(8), None, ADDRESS, Heads::of(false, false));
        let stock = || TABLE.with_borrow(|table| table.stock);
        let mut turn = new();
        assert!(turn.is_in_stock(1000, 1500) && !new().is_in_stock(600, 1500));
        let left = |turn: &mut Turn, bytes| {
            turn.leaves(bytes);
            stock()
        };
        assert_eq!([900, 0, 800].map(|bytes| left(&mut turn, bytes)), [900, 0, 800]);
        assert_eq!(left(&mut new(), 700), 800, "it has none of it");
        drop(turn);
        assert_eq!(stock(), 0);
    }

    #[test]
    fn those_that_are_gone_are_cleared_away_though_nobody_is_called() {
        let class = ClassId(7);
        let count: Arc<Woken> = Arc::default();
        let waker: Waker = count.clone().into();
        let context = Context::from_waker(&waker);
        let mut stays = Turn::new(class, None, ADDRESS, Heads::of(false, false));
        assert!(stays.wait(&context, false));
        for _ in 0..1000 {
            let mut leaves = Turn::new(class, None, ADDRESS, Heads::of(false, false));
            leaves.wait(&context, false);
        }
        TABLE.with_borrow(|table| assert!(table.len < 2 * GONE, "{}", table.len));
        drop(stays);
        while !call_next(class) {}
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        TABLE.with_borrow(|table| assert_eq!(table.len, 0));
    }
}
