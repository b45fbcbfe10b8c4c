//! The door, driven by a hand-made executor and a hand-made clock: no runtime, no thread, no real time.

use super::waiting::Settled;
use super::{Door, Entry, SlotGuard, Waiting};
use std::cell::Cell;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tiergate_core::class::ClassId;
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Refused};
use tiergate_core::outcome::End;
use tiergate_core::plan::Spec;
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;

thread_local! {
    static NOW: Cell<Moment> = const { Cell::new(Moment::ZERO) };
}

fn now() -> Moment {
    NOW.get()
}

fn pass(time: Duration) {
    NOW.set(now() + time);
}

/// A task that only counts how often it was woken.
#[derive(Default)]
struct Task(AtomicU32);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Task {
    fn woken(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

const ARRIVAL: Arrival = Arrival::of(ClassId(0));

/// A door with one slot.
fn door() -> Door {
    let spec = Spec { slots: Slots::Fixed(1), ..Spec::protective() };
    Door::new(spec.build().expect("a valid plan"), now)
}

fn admitted(door: &Door) -> SlotGuard<'_> {
    match door.arrive(now(), ARRIVAL, &Context::from_waker(Waker::noop())) {
        Ok((Entry::Now(slot), _)) => slot,
        other => panic!("{other:?}"),
    }
}

fn waiting<'d>(door: &'d Door, task: &Arc<Task>) -> Waiting<'d> {
    let waker = Waker::from(task.clone());
    match door.arrive(now(), ARRIVAL, &Context::from_waker(&waker)) {
        Ok((Entry::Later(waiting), _)) => waiting,
        other => panic!("{other:?}"),
    }
}

type Polled<'d> = Option<Result<Settled<'d>, Refused>>;

fn poll<'d>(wait: Pin<&mut impl Future<Output = Polled<'d>>>) -> Poll<Polled<'d>> {
    wait.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_slot_that_goes_back_wakes_the_first_waiter_and_is_timed_by_the_doors_clock() {
    let door = door();
    let slot = admitted(&door);
    let (first, second) = (Arc::new(Task::default()), Arc::new(Task::default()));
    let mut first_wait = pin!(waiting(&door, &first).wait(&ARRIVAL, || false, |_| Poll::Pending));
    let mut second_wait = pin!(waiting(&door, &second).wait(&ARRIVAL, || false, |_| Poll::Pending));
    assert!(poll(first_wait.as_mut()).is_pending());
    pass(Duration::from_millis(30));
    drop(slot);
    assert_eq!((first.woken(), second.woken()), (1, 0));
    assert!(poll(second_wait.as_mut()).is_pending());
    let Poll::Ready(Some(Ok(Settled::Slot(mut slot)))) = poll(first_wait.as_mut()) else {
        panic!("the slot is free");
    };
    assert_eq!(slot.waited(), Duration::from_millis(30));
    pass(Duration::from_millis(5));
    slot.answered(now(), 100);
    assert_eq!(slot.outcome().first_byte, Some(Duration::from_millis(5)));
    slot.note(End::Served);
    drop(slot);
    assert_eq!(second.woken(), 1);
    let finished = door.gate().account().classes[0].finished;
    assert_eq!(finished[End::Cancelled.index()], 1, "nothing was noted of the first");
    assert_eq!(finished[End::Served.index()], 1);
}

#[test]
fn a_waiter_whose_client_has_left_or_that_is_dropped_leaves_the_backlog() {
    let door = door();
    let _slot = admitted(&door);
    let task = Arc::new(Task::default());
    let mut wait = pin!(waiting(&door, &task).wait(&ARRIVAL, || false, |_| Poll::Ready(())));
    assert!(matches!(poll(wait.as_mut()), Poll::Ready(None)));
    drop(waiting(&door, &task));
    let state = door.gate().states().next().expect("there is one class");
    assert_eq!((state.waiting, state.running), (0, 1));
}

#[test]
fn a_deadline_asks_for_an_earlier_tick_which_refuses_the_waiter() {
    let door = door();
    let ticker = Arc::new(Task::default());
    let waker = Waker::from(ticker.clone());
    let context = Context::from_waker(&waker);
    let _slot = admitted(&door);
    let idle = door.tick(now());
    while door.poll_earlier(&context).is_ready() {}
    let asked = ticker.woken();
    let task = Arc::new(Task::default());
    let mut wait = pin!(waiting(&door, &task).wait(&ARRIVAL, || false, |_| Poll::Pending));
    assert_eq!(ticker.woken(), asked + 1, "its deadline comes before {idle:?}");
    assert!(door.poll_earlier(&context).is_ready());
    assert!(door.poll_earlier(&context).is_pending(), "said once");
    let due = door.tick(now());
    assert!(due < idle);
    pass(due.since(now()));
    door.tick(now());
    // The moment itself still counts as in time.
    pass(Duration::from_millis(1));
    door.tick(now());
    assert_eq!(task.woken(), 1);
    let Poll::Ready(Some(Err(refused))) = poll(wait.as_mut()) else {
        panic!("its deadline has passed");
    };
    assert_eq!(refused.reason, Reason::DeadlineExpired);
}
