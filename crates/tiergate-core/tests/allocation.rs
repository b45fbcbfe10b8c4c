//! A request that gets a slot at once costs no allocation, adaptive limit included.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;
use tiergate_core::admit::block;
use tiergate_core::class::{Class, ClassId, Codel, Late, Order, WhenFull};
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::pattern::Pattern;
use tiergate_core::classify::rule::Rule;
use tiergate_core::classify::{Classifier, Condition, Matcher, PathRegex, Scratch, Span};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::reason::Reason;
use tiergate_core::request::{Field, Part, RequestView};
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

const ARRIVAL: Arrival = Arrival::of(ClassId(0));

fn served() -> Outcome {
    Outcome { end: End::Served, first_byte: Some(Duration::from_millis(1)), bytes: 0, left: None }
}

#[test]
fn the_allocator_counts() {
    let count = allocations(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(count, 1);
}

#[test]
fn a_request_admitted_at_once_allocates_nothing() {
    let mut gate: Gate<u32> = Gate::new(Spec::protective().build().expect("a valid plan"));
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
            if let Some(ticket) = gate.next_effect().and_then(Effect::into_wake) {
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
fn shedding_allocates_nothing() {
    let plan = Spec {
        shedding: Some(Duration::from_millis(100)),
        classes: vec![Class { deadline: Duration::from_secs(3600), ..Class::named("all") }],
        slots: Slots::Fixed(1),
        ..Spec::protective()
    };
    let mut gate: Gate<u32> = Gate::new(plan.build().expect("a valid plan"));
    let mut now = Moment::ZERO;
    // Some wait, and nobody is served: all but a few of those who come are shed.
    for _ in 0..10 {
        let _kept = gate.arrive(now, ARRIVAL, || 0);
    }
    let count = allocations(|| {
        for number in 0..10_000_u64 {
            let connection = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let arrival = Arrival { connection, ..ARRIVAL };
            gate.turn_away(now, arrival);
            if number % 100 == 0 {
                now = now + Duration::from_millis(100);
                gate.tick(now);
            }
        }
    });
    assert_eq!(count, 0);
    let shed = gate.account().classes[0].refused[Reason::Shed.index()];
    assert!(shed > 5_000, "{shed}");
}

#[test]
fn a_refusal_and_what_is_told_of_it_allocate_nothing() {
    let (within, lasting) = (Duration::from_secs(1), Duration::from_secs(1));
    let block = block::Settings { after: 3, within, lasting, flows_max: 100 };
    let mut plan = Spec { slots: Slots::Fixed(1), block: Some(block), ..Spec::protective() };
    plan.classes[0].queue_len_max = 0;
    let mut gate: Gate<u32> = Gate::new(plan.build().expect("a valid plan"));
    let Verdict::Admit(_slot) = gate.arrive(Moment::ZERO, ARRIVAL, || 0) else { panic!("free") };
    let count = allocations(|| {
        for ms in 0..10_000 {
            let now = Moment::from_millis(ms);
            let arrival = Arrival { flow: (ms % 7) << 50, ..ARRIVAL };
            if let Verdict::Reject(reason) = gate.arrive(now, arrival, || 0) {
                std::hint::black_box(gate.refused(now, &arrival, reason));
            }
        }
    });
    assert_eq!(count, 0);
    assert_eq!(gate.account().classes[0].refused.iter().sum::<u64>(), 10_000);
}

#[test]
fn a_request_that_waits_allocates_nothing_once_the_backlog_has_been_as_long() {
    waits_without_allocation(Class::named("default"));
}

#[test]
fn nor_does_it_whatever_its_order_and_of_whatever_flow() {
    let codel = Some(Codel { target: Duration::from_secs(100), interval: Duration::from_secs(1) });
    for order in [Order::Fifo, Order::AdaptiveLifo, Order::Deadline, Order::Score] {
        let (late, when_full) = (Late::Last, WhenFull::DropLeast);
        waits_without_allocation(Class { order, codel, late, when_full, ..Class::named("c") });
    }
}

fn waits_without_allocation(class: Class) {
    let mut gate: Gate<u32> = Gate::new(
        Spec { classes: vec![class], ..Spec::protective() }.build().expect("a valid plan"),
    );
    let mut now = Moment::ZERO;
    let mut slots = Vec::with_capacity(10_000);
    let mut tickets = Vec::with_capacity(10_000);
    let mut round = |gate: &mut Gate<u32>| {
        for number in 0..200 {
            let arrival = Arrival { flow: number % 7, ..ARRIVAL };
            match gate.arrive(now, arrival, || 0) {
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
            while gate.next_effect().is_some() {}
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

#[test]
fn classification_allocates_nothing_once_it_has_seen_such_a_request() {
    let value = |text: &str| [Pattern::value(text).unwrap()];
    let conditions = [
        Condition::new(Part::Path, [Pattern::path("/a/*/c").unwrap()]),
        Condition::new(Part::Path, [PathRegex::parse("^/[a-z]+/x$").unwrap()]),
        Condition::new(Part::Extension, [Matcher::Caseless("cgi".into())]),
        Condition::new(Part::Query("a b".into()), value("*c")),
        Condition::new(Part::ContentType, value("text/*")),
        Condition::new(Part::Cookie("sid".into()), value("x*")),
        Condition::new(Part::Urgency, [Span::one(5)]),
    ];
    let rule = |(index, condition): (usize, &Condition)| Rule {
        conditions: vec![condition.clone()],
        class: (index % 2 == 0).then_some(ClassId(1)),
        importance: Some(index as u8),
        flow: Some(Flow::Cookie("sid".into())),
        ..Rule::default()
    };
    let rules: Vec<Rule> = conditions.iter().enumerate().map(rule).collect();
    let classifier = Classifier::compile(&rules, ClassId(0)).unwrap();
    let fields = [
        Field { name: b"Cookie", value: b"a=1; sid=xyz" },
        Field { name: b"Content-Type", value: b"Text/HTML; charset=utf-8" },
        Field { name: b"Priority", value: b"u=5" },
    ];
    let view = |path| RequestView {
        path,
        query: b"z=1&a%20b=%63c",
        fields: &fields,
        ..RequestView::EMPTY
    };
    let views = [view(b"/a/b/c"), view(b"/a/x.cgi"), view(b"/abc/x"), view(b"/")];
    let mut scratch = Scratch::default();
    let mut round = || {
        for view in &views {
            assert!(classifier.classify(view, &mut scratch).importance.is_some());
        }
    };
    round();
    let count = allocations(|| (0..1000).for_each(|_| round()));
    assert_eq!(count, 0);
}
