//! A request that gets a slot at once costs no allocation, adaptive limit included.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;
use tiergate_core::class::ClassId;
use tiergate_core::gate::{Arrival, Claim, Gate, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Plan;
use tiergate_core::time::Moment;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // The test's own thread only: the harness allocates on others.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting does not allocate.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

const ARRIVAL: Arrival =
    Arrival { class: ClassId(0), rule: None, deadline: None, generation: 0, running: false };

fn served() -> Outcome {
    Outcome { end: End::Served, first_byte: Some(Duration::from_millis(1)) }
}

#[test]
fn the_allocator_counts() {
    let count = allocations(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(count, 1);
}

#[test]
fn a_request_admitted_at_once_allocates_nothing() {
    let mut gate: Gate<u32> = Gate::new(Plan::protective());
    let mut now = Moment::ZERO;
    let count = allocations(|| {
        // Ten at a time fill the limit's first ten slots, so that its windows come and go too.
        for _ in 0..20_000 {
            let mut slots = [const { None }; 10];
            for slot in &mut slots {
                if let Verdict::Admit(granted) = gate.arrive(now, ARRIVAL, || 0) {
                    *slot = Some(granted);
                }
            }
            now = now + Duration::from_millis(1);
            for slot in slots.into_iter().flatten() {
                gate.finish(now, slot, served());
            }
            if let Some(ticket) = gate.next_wake() {
                panic!("{ticket} waited");
            }
            if gate.slots() < 10 {
                return;
            }
        }
    });
    assert_eq!(count, 0);
    assert!(gate.account().classes[0].admitted_at_once > 1000);
}

#[test]
fn a_request_that_waits_allocates_nothing_once_the_backlog_has_been_as_long() {
    let mut gate: Gate<u32> = Gate::new(Plan::protective());
    let mut now = Moment::ZERO;
    let mut slots = Vec::with_capacity(10_000);
    let mut tickets = Vec::with_capacity(10_000);
    let mut round = |gate: &mut Gate<u32>| {
        for _ in 0..200 {
            match gate.arrive(now, ARRIVAL, || 0) {
                Verdict::Admit(slot) => slots.push(slot),
                Verdict::Queue(ticket) => tickets.push(ticket),
                Verdict::Reject(reason) => panic!("{reason:?}"),
            }
        }
        while !slots.is_empty() {
            now = now + Duration::from_millis(1);
            while let Some(slot) = slots.pop() {
                gate.finish(now, slot, served());
            }
            while gate.next_wake().is_some() {}
            tickets.retain(|&ticket| match gate.claim(ticket) {
                Claim::Admitted(slot) => {
                    slots.push(slot);
                    false
                }
                Claim::Waiting => true,
                Claim::Rejected(reason) => panic!("{reason:?}"),
            });
        }
    };
    for _ in 0..50 {
        round(&mut gate);
    }
    let count = allocations(|| {
        for _ in 0..500 {
            round(&mut gate);
        }
    });
    assert_eq!(count, 0);
}
