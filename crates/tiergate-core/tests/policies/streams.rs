//! Long-lived streams, and a backlog that is full as a whole.

use crate::busy::{classes, plan};
use tiergate_core::class::ClassId;
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Slot, Verdict};
use tiergate_core::names::Names;
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::{Plan, Spec};
use tiergate_core::reason::Reason;
use tiergate_core::schedule::{Policy, Site, SiteId};
use tiergate_core::time::Moment;

const NOW: Moment = Moment::ZERO;
const UPGRADED: Outcome = Outcome::without_answer(End::Upgraded);

fn admitted(gate: &mut Gate<u32>, class: u16) -> Slot {
    match gate.arrive(NOW, Arrival::of(ClassId(class)), || 0) {
        Verdict::Admit(slot) => slot,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stream_gives_its_slot_back_until_there_are_too_many() {
    let mut classes = classes(&["a", "b"]);
    classes[0].streams_max = 2;
    let mut gate = Gate::new(plan(Policy::Strict, 1, classes).build().expect("a valid plan"));
    let mut streams = Vec::new();
    for open in 1..=2 {
        let slot = admitted(&mut gate, 0);
        streams.push(gate.stream(NOW, slot, UPGRADED).expect("there is room"));
        let state = gate.states().next().expect("class a");
        assert_eq!((state.running, state.requests, state.streams), (0, 0, open));
    }
    let slot = admitted(&mut gate, 0);
    let kept = gate.stream(NOW, slot, UPGRADED).expect_err("it keeps its slot");
    assert_eq!(gate.running(), 1);
    gate.finish(NOW, kept, UPGRADED);
    assert_eq!(gate.account().classes[0].finished[End::Upgraded.index()], 3);
    // Whatever reloads come, a stream's class is known.
    let mut names = Names::default();
    for order in [&["a", "x"], &["x", "a"], &["x", "y"]] {
        let plan = plan(Policy::Strict, 1, self::classes(order));
        gate.reconfigure(NOW, Plan::build(plan, &mut names).expect("a valid plan"));
        assert_eq!(gate.state(ClassId(0)).streams, 2);
    }
    for stream in streams {
        gate.stream_ended(stream);
    }
    assert!(gate.states().all(|state| state.streams == 0));
}

#[test]
fn a_stream_s_slot_goes_to_the_next() {
    let mut gate =
        Gate::new(plan(Policy::Strict, 1, classes(&["a"])).build().expect("a valid plan"));
    let slot = admitted(&mut gate, 0);
    let Verdict::Queue(ticket) = gate.arrive(NOW, Arrival::of(ClassId(0)), || 7) else {
        panic!("no slot is free");
    };
    let stream = gate.stream(NOW, slot, UPGRADED).expect("there is room");
    assert_eq!(gate.next_effect().and_then(Effect::into_wake), Some(7));
    let Claim::Admitted(slot) = gate.claim(ticket) else { panic!("it was granted") };
    gate.finish(NOW, slot, Outcome::without_answer(End::Served));
    gate.stream_ended(stream);
}

/// When as many wait as may in all, one takes the place of the least important of its site.
#[test]
fn a_full_backlog_takes_from_the_classes_below() {
    let mut classes = classes(&["a", "b", "c", "other"]);
    classes[3].site = SiteId(1);
    let sites = vec![Site::named("own"), Site::named("other")];
    let plan = Spec { queue_len_max: 4, sites, ..plan(Policy::Strict, 1, classes) };
    let mut gate: Gate<u32> = Gate::new(plan.build().expect("a valid plan"));
    let _slot = admitted(&mut gate, 0);
    let mut number = 0;
    let mut arrive = |gate: &mut Gate<u32>, class| {
        number += 1;
        gate.arrive(NOW, Arrival::of(ClassId(class)), || number)
    };
    let mut tickets = Vec::new();
    for class in [2, 1, 3, 3] {
        let Verdict::Queue(ticket) = arrive(&mut gate, class) else { panic!("there is room") };
        tickets.push(ticket);
    }
    // Not one of its own class, nor of one above, nor of another site, which has no more than its half.
    for class in [2, 3] {
        assert_eq!(arrive(&mut gate, class), Verdict::Reject(Reason::QueueFull));
    }
    // The newest of the least important.
    assert!(matches!(arrive(&mut gate, 1), Verdict::Queue(_)));
    assert_eq!(gate.next_effect().and_then(Effect::into_wake), Some(1));
    assert_eq!(gate.claim(tickets[0]), Claim::Rejected(Reason::QueueFull));
    for displaced in [1, 1] {
        assert!(matches!(arrive(&mut gate, 0), Verdict::Queue(_)));
        assert!(gate.next_effect().is_some(), "{displaced}");
    }
    let waiting: Vec<u32> = gate.states().map(|state| state.waiting).collect();
    assert_eq!(waiting, [2, 0, 0, 2]);
}
