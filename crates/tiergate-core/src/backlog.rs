//! The backlog: requests that wait for a slot, in arrival order by class and by deadline overall.
//!
//! A class has two lists: requests of sessions that run already, which go first, and all others.
//!
//! One slab holds every waiter. A waiter is in a list of its class (doubly linked, so that leaving the
//! middle costs O(1)) and in a binary heap by deadline that knows each waiter's place (so that
//! leaving costs O(log n)). A waiter that was granted a slot or refused leaves both at once and stays
//! in the slab until its owner takes the news.

use crate::class::ClassId;
use crate::classify::score::Score;
use crate::gate::Arrival;
use crate::reason::Reason;
use crate::time::Moment;

const NONE: u32 = u32::MAX;

/// Names one waiting request. Stale tickets are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    index: u32,
    generation: u32,
}

/// What has become of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Waiting,
    /// Holds a slot since the moment given; its owner does not know yet.
    Granted(Moment),
    /// Was refused; its owner does not know yet.
    Refused(Reason),
}

#[derive(Debug)]
pub(crate) struct Waiter<T> {
    pub(crate) state: State,
    pub(crate) class: ClassId,
    /// Whether its session runs already.
    pub(crate) running: bool,
    /// Whose it is, in case that it is refused.
    pub(crate) flow: u64,
    /// The rule that decided its class.
    pub(crate) rule: Option<u32>,
    /// How many slots it takes.
    pub(crate) slots: u16,
    pub(crate) score: Score,
    pub(crate) sequence: u64,
    /// What it was expected to cost when it was granted its slots.
    pub(crate) estimate: f64,
    pub(crate) arrived: Moment,
    pub(crate) deadline: Moment,
    generation: u32,
    previous: u32,
    next: u32,
    heap_place: u32,
    wake: Option<T>,
}

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    len: u32,
}

/// Lists of a class.
pub(crate) const LISTS: usize = 2;

/// The place of a class's list: that of running sessions comes first.
pub(crate) const fn list_of(class: ClassId, running: bool) -> usize {
    class.index() * LISTS + !running as usize
}

/// What a class's next is chosen by, among other classes'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) deadline: Moment,
    pub(crate) score: Score,
    pub(crate) arrived: Moment,
    pub(crate) sequence: u64,
    pub(crate) late: bool,
}

const EMPTY: List = List { head: NONE, tail: NONE, len: 0 };

#[derive(Debug)]
pub(crate) struct Backlog<T> {
    slab: Vec<Waiter<T>>,
    free: u32,
    lists: Vec<List>,
    heap: Vec<u32>,
    sequence: u64,
}

impl<T> Backlog<T> {
    pub(crate) fn new(classes: usize) -> Self {
        Backlog {
            slab: Vec::new(),
            free: NONE,
            lists: vec![EMPTY; classes * LISTS],
            heap: Vec::new(),
            sequence: 0,
        }
    }

    /// How many wait in all. O(1).
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// How many of the class wait. O(1).
    pub(crate) fn len_of(&self, class: ClassId) -> u32 {
        self.len_of_list(class, true) + self.len_of_list(class, false)
    }

    /// How many wait in one of the class's lists. O(1).
    pub(crate) fn len_of_list(&self, class: ClassId, running: bool) -> u32 {
        self.lists[list_of(class, running)].len
    }

    /// Adds a waiter at the end of a list of its class. O(log n).
    pub(crate) fn push(
        &mut self,
        now: Moment,
        class: ClassId,
        arrival: &Arrival,
        deadline: Moment,
        wake: T,
    ) -> Ticket {
        let index = self.allocate();
        let running = arrival.running;
        self.sequence += 1;
        let list = &mut self.lists[list_of(class, running)];
        let tail = list.tail;
        let waiter = &mut self.slab[index as usize];
        waiter.state = State::Waiting;
        waiter.class = class;
        waiter.running = running;
        waiter.flow = arrival.flow;
        waiter.rule = arrival.rule;
        waiter.slots = arrival.width();
        waiter.score = arrival.score;
        waiter.sequence = self.sequence;
        waiter.arrived = now;
        waiter.deadline = deadline;
        waiter.previous = tail;
        waiter.next = NONE;
        waiter.wake = Some(wake);
        let generation = waiter.generation;
        list.tail = index;
        list.len += 1;
        if tail == NONE {
            list.head = index;
        } else {
            self.slab[tail as usize].next = index;
        }
        self.heap.push(index);
        self.sift_up(self.heap.len() - 1);
        Ticket { index, generation }
    }

    /// The class's next: the longest waiter of a running session, or else the longest of all.
    pub(crate) fn first(&mut self, _now: Moment, class: ClassId) -> Option<Ticket> {
        let heads = [true, false].map(|running| self.lists[list_of(class, running)].head);
        heads.into_iter().find(|&head| head != NONE).map(|head| self.ticket(head))
    }

    pub(crate) fn key(&mut self, now: Moment, class: ClassId) -> Option<Key> {
        let ticket = self.first(now, class)?;
        let Waiter { deadline, score, arrived, sequence, .. } = self.slab[ticket.index as usize];
        Some(Key { deadline, score, arrived, sequence, late: false })
    }

    /// Notes what a waiter that is about to be granted slots is expected to cost.
    pub(crate) fn charge(&mut self, ticket: Ticket, estimate: f64) {
        self.slab[ticket.index as usize].estimate = estimate;
    }

    /// The class's last to come of those without a running session.
    pub(crate) fn newest(&self, class: ClassId) -> Option<Ticket> {
        let tails = [false, true].map(|running| self.lists[list_of(class, running)].tail);
        tails.into_iter().find(|&tail| tail != NONE).map(|tail| self.ticket(tail))
    }

    fn ticket(&self, index: u32) -> Ticket {
        Ticket { index, generation: self.slab[index as usize].generation }
    }

    /// The waiter whose deadline is next, and that deadline. O(1).
    pub(crate) fn next_deadline(&self) -> Option<(Moment, Ticket)> {
        let &index = self.heap.first()?;
        let waiter = &self.slab[index as usize];
        Some((waiter.deadline, Ticket { index, generation: waiter.generation }))
    }

    /// Ends the wait with `state`: leaves list and heap, keeps the entry for its owner. O(log n).
    /// Returns what wakes the owner.
    pub(crate) fn settle(&mut self, ticket: Ticket, state: State) -> T {
        debug_assert!(!matches!(state, State::Free | State::Waiting));
        self.unlink(ticket.index);
        let waiter = &mut self.slab[ticket.index as usize];
        waiter.state = state;
        waiter.wake.take().expect("a waiting entry holds its waker")
    }

    /// The entry that the ticket names, unless it is stale.
    pub(crate) fn waiter(&self, ticket: Ticket) -> Option<&Waiter<T>> {
        self.slab
            .get(ticket.index as usize)
            .filter(|waiter| waiter.generation == ticket.generation && waiter.state != State::Free)
    }

    /// Forgets the entry; a waiter leaves list and heap first. O(log n).
    pub(crate) fn remove(&mut self, ticket: Ticket) {
        if self.slab[ticket.index as usize].state == State::Waiting {
            self.unlink(ticket.index);
        }
        let waiter = &mut self.slab[ticket.index as usize];
        waiter.state = State::Free;
        waiter.wake = None;
        waiter.generation = waiter.generation.wrapping_add(1);
        waiter.next = self.free;
        self.free = ticket.index;
    }

    /// Gives every entry the class that `translate` says; lists keep arrival order. O(n log n).
    /// Returns how many entries hold a slot that their owners have not claimed.
    pub(crate) fn reclass(
        &mut self,
        classes: usize,
        translate: impl Fn(ClassId) -> ClassId,
    ) -> u32 {
        let mut granted = 0;
        for waiter in self.slab.iter_mut().filter(|waiter| waiter.state != State::Free) {
            waiter.class = translate(waiter.class);
            granted += u32::from(matches!(waiter.state, State::Granted(_)));
        }
        let mut waiting = Vec::with_capacity(self.heap.len());
        for list in &self.lists {
            let mut index = list.head;
            while index != NONE {
                waiting.push(index);
                index = self.slab[index as usize].next;
            }
        }
        // Stable: who arrived in the same nanosecond stays in the order of its list.
        waiting.sort_by_key(|&index| self.slab[index as usize].arrived);
        self.lists = vec![EMPTY; classes * LISTS];
        for index in waiting {
            let waiter = &self.slab[index as usize];
            let list = &mut self.lists[list_of(waiter.class, waiter.running)];
            let tail = std::mem::replace(&mut list.tail, index);
            list.len += 1;
            if tail == NONE {
                list.head = index;
            } else {
                self.slab[tail as usize].next = index;
            }
            let waiter = &mut self.slab[index as usize];
            waiter.previous = tail;
            waiter.next = NONE;
        }
        granted
    }

    fn allocate(&mut self) -> u32 {
        if self.free != NONE {
            let index = self.free;
            self.free = self.slab[index as usize].next;
            return index;
        }
        let index = u32::try_from(self.slab.len()).expect("the classes' bounds fit in 32 bits");
        self.slab.push(Waiter {
            state: State::Free,
            class: ClassId(0),
            running: false,
            flow: 0,
            rule: None,
            slots: 1,
            score: Score::ZERO,
            sequence: 0,
            estimate: 0.0,
            arrived: Moment::ZERO,
            deadline: Moment::NEVER,
            generation: 0,
            previous: NONE,
            next: NONE,
            heap_place: NONE,
            wake: None,
        });
        index
    }

    fn unlink(&mut self, index: u32) {
        let waiter = &self.slab[index as usize];
        let (previous, next) = (waiter.previous, waiter.next);
        let place = waiter.heap_place as usize;
        let list = &mut self.lists[list_of(waiter.class, waiter.running)];
        list.len -= 1;
        if previous == NONE {
            list.head = next;
        } else {
            self.slab[previous as usize].next = next;
        }
        if next == NONE {
            list.tail = previous;
        } else {
            self.slab[next as usize].previous = previous;
        }
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.sift_down(place);
            self.sift_up(place);
        }
    }

    fn deadline_at(&self, place: usize) -> Moment {
        self.slab[self.heap[place] as usize].deadline
    }

    fn seat(&mut self, place: usize) {
        self.slab[self.heap[place] as usize].heap_place = place as u32;
    }

    fn sift_up(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.deadline_at(parent) <= self.deadline_at(place) {
                break;
            }
            self.heap.swap(parent, place);
            self.seat(place);
            place = parent;
        }
        self.seat(place);
    }

    fn sift_down(&mut self, mut place: usize) {
        loop {
            let left = 2 * place + 1;
            if left >= self.heap.len() {
                break;
            }
            let right = left + 1;
            let least =
                if right < self.heap.len() && self.deadline_at(right) < self.deadline_at(left) {
                    right
                } else {
                    left
                };
            if self.deadline_at(place) <= self.deadline_at(least) {
                break;
            }
            self.heap.swap(place, least);
            self.seat(place);
            place = least;
        }
        self.seat(place);
    }
}
