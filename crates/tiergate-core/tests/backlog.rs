//! Orders, flows in turn, CoDel, late requests and bounds, as a gate's callers see them.

use std::time::Duration;
use tiergate_core::class::{Class, ClassId, Codel, Late, Order, WhenFull};
use tiergate_core::classify::score::{Points, Score};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Slot, Ticket, Verdict};
use tiergate_core::names::{Names, SiteId};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::{Plan, Spec};
use tiergate_core::reason::Reason;
use tiergate_core::schedule::{Costing, Policy, Site};
use tiergate_core::time::Moment;

/// A gate of one slot, which is taken, and the tickets of those that wait.
struct Door {
    gate: Gate<usize>,
    slot: Option<Slot>,
    tickets: Vec<Ticket>,
    refused: Vec<(usize, Reason)>,
}

fn at(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

fn flow(flow: u64) -> Arrival {
    Arrival { flow, ..Arrival::of(ClassId(0)) }
}

fn scored(points: &str) -> Arrival {
    Arrival { score: Score::of(Points::parse(points).expect("a number")), ..flow(1) }
}

impl Door {
    fn new(class: Class) -> Self {
        // Times mean nothing here: turns are of requests.
        let cost = Costing::Requests;
        let slots = Slots::Fixed(1);
        let plan = Spec { classes: vec![class], slots, cost, ..Spec::protective() };
        let mut gate = Gate::new(plan.build().expect("a valid plan"));
        let Verdict::Admit(slot) = gate.arrive(at(0), flow(0), || 0) else {
            panic!("the slot is free");
        };
        Door { gate, slot: Some(slot), tickets: Vec::new(), refused: Vec::new() }
    }

    /// Whether it waits.
    fn arrive(&mut self, ms: u64, arrival: Arrival) -> bool {
        let place = self.tickets.len();
        match self.gate.arrive(at(ms), arrival, || place) {
            Verdict::Queue(ticket) => self.tickets.push(ticket),
            Verdict::Reject(reason) => {
                assert_eq!(reason, Reason::QueueFull);
                return false;
            }
            Verdict::Admit(_) => panic!("the slot is taken"),
        }
        self.news();
        true
    }

    fn tick(&mut self, ms: u64) {
        self.gate.tick(at(ms));
        self.news();
    }

    /// Who gets the slot that comes free, by the order in which those that waited came.
    fn next(&mut self, ms: u64) -> Option<usize> {
        let slot = self.slot.take()?;
        self.gate.finish(at(ms), slot, Outcome::without_answer(End::Failed));
        self.news()
    }

    fn news(&mut self) -> Option<usize> {
        let mut granted = None;
        while let Some(place) = self.gate.next_effect().and_then(Effect::into_wake) {
            match self.gate.claim(self.tickets[place]) {
                Claim::Admitted(slot) => {
                    assert_eq!(granted.replace(place), None, "one slot, two grants");
                    self.slot = Some(slot);
                }
                Claim::Rejected(reason) => self.refused.push((place, reason)),
                Claim::Waiting => panic!("woken for nothing"),
            }
        }
        granted
    }

    fn all(&mut self, ms: u64) -> Vec<usize> {
        std::iter::from_fn(|| self.next(ms)).collect()
    }
}

fn class(order: Order) -> Class {
    Class { order, ..Class::named("c") }
}

#[test]
fn each_order_serves_in_its_order_and_running_sessions_first() {
    let wait = |ms| Some(Duration::from_millis(ms));
    let arrivals = [
        Arrival { deadline: wait(900), ..scored("1") },
        Arrival { deadline: wait(300), ..scored("5") },
        Arrival { deadline: wait(600), ..scored("5") },
        Arrival { deadline: wait(950), running: true, ..scored("0") },
        Arrival { deadline: wait(260), ..scored("2") },
    ];
    let expected = [
        (Order::Fifo, 10, [3, 0, 1, 2, 4]),
        (Order::AdaptiveLifo, 10, [3, 0, 1, 2, 4]),
        // The first has waited for more than a quarter of 900 ms.
        (Order::AdaptiveLifo, 250, [3, 4, 2, 1, 0]),
        (Order::Deadline, 10, [3, 4, 1, 2, 0]),
        (Order::Score, 10, [3, 1, 2, 4, 0]),
    ];
    for (order, ms, expected) in expected {
        let mut door = Door::new(class(order));
        assert!(arrivals.iter().all(|arrival| door.arrive(0, *arrival)));
        assert_eq!(door.all(ms), expected, "{order:?}");
    }
}

#[test]
fn flows_take_turns_and_each_keeps_its_order() {
    let flows = [1, 1, 1, 1, 2, 3, 3];
    let mut door = Door::new(class(Order::Fifo));
    assert!(flows.iter().all(|number| door.arrive(0, flow(*number))));
    assert_eq!(door.all(1), [0, 4, 5, 1, 6, 2, 3]);
    let mut door = Door::new(Class { fair: false, ..class(Order::Fifo) });
    assert!(flows.iter().all(|number| door.arrive(0, flow(*number))));
    assert_eq!(door.all(1), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_reload_keeps_turns() {
    let mut door = Door::new(class(Order::Fifo));
    assert!([1, 1, 1, 1, 2, 2, 2].iter().all(|number| door.arrive(0, flow(*number))));
    assert_eq!([door.next(1), door.next(1), door.next(1)], [Some(0), Some(4), Some(1)]);
    let plan = door.gate.plan().clone();
    door.gate.reconfigure(at(1), plan);
    assert_eq!(door.all(1), [5, 2, 6, 3], "it is the second flow's turn");
}

#[test]
fn whoever_sends_much_pushes_out_its_own() {
    let mut door = Door::new(Class { queue_len_max: 4, ..class(Order::Fifo) });
    assert!((0..4).all(|_| door.arrive(0, flow(1))));
    assert!(!door.arrive(0, flow(1)), "it has most of all");
    assert!(door.arrive(0, flow(2)), "which has none");
    assert!(door.arrive(0, flow(2)), "two and two");
    assert!(!door.arrive(0, flow(2)));
    assert_eq!(door.refused, [(3, Reason::QueueFull), (2, Reason::QueueFull)]);
}

#[test]
fn who_leaves_a_full_backlog_is_as_the_class_says() {
    let full = |when_full| {
        let class = Class { queue_len_max: 3, when_full, ..class(Order::Fifo) };
        let mut door = Door::new(class);
        assert!(["2", "1", "1"].iter().all(|points| door.arrive(0, scored(points))));
        door
    };
    let mut door = full(WhenFull::DropOldest);
    assert!(door.arrive(0, scored("0")));
    assert_eq!(door.refused, [(0, Reason::QueueFull)]);
    let mut door = full(WhenFull::DropLeast);
    assert!(!door.arrive(0, scored("1")), "it came last of the least");
    assert!(door.arrive(0, scored("3")));
    assert_eq!(door.refused, [(2, Reason::QueueFull)]);
    let account = &door.gate.account().classes[0];
    assert_eq!((account.arrived, account.queued, account.refused_total()), (6, 4, 2));
}

#[test]
fn bytes_are_bounded_too() {
    let when_full = WhenFull::DropOldest;
    let class = Class { queue_bytes_max: 1000, when_full, ..class(Order::Fifo) };
    let mut door = Door::new(class);
    let of_bytes = |bytes| Arrival { bytes, ..flow(1) };
    assert!((0..5).all(|_| door.arrive(0, of_bytes(200))));
    assert!(!door.arrive(0, of_bytes(1001)), "more than there ever is");
    assert!(door.arrive(0, of_bytes(500)));
    let mut gone: Vec<usize> = door.refused.iter().map(|(place, _)| *place).collect();
    gone.sort_unstable();
    assert_eq!(gone, [0, 1, 2], "three make room for it");
    assert_eq!(door.all(1), [3, 4, 5]);
}

/// The flow with the most waiting has been pushed out of the lead by the first of its own that leaves; the
/// one then in the lead has too few bytes.
#[test]
fn nobody_leaves_for_a_request_that_is_refused_all_the_same() {
    let when_full = WhenFull::DropOldest;
    let class = Class { queue_bytes_max: 1000, when_full, ..class(Order::Fifo) };
    let of = |number, bytes| Arrival { bytes, ..flow(number) };
    let waiting = [of(1, 300), of(1, 300), of(2, 10), of(2, 10)];
    let mut door = Door::new(class.clone());
    assert!(waiting.iter().all(|arrival| door.arrive(0, *arrival)));
    assert!(door.arrive(0, of(3, 780)), "both of the first flow make room for it");
    door.refused.sort_unstable_by_key(|(place, _)| *place);
    assert_eq!(door.refused, [(0, Reason::QueueFull), (1, Reason::QueueFull)]);
    let mut door = Door::new(class);
    assert!(waiting.iter().all(|arrival| door.arrive(0, *arrival)));
    assert!(!door.arrive(0, of(3, 981)), "both would not do");
    assert_eq!((door.refused, door.gate.waiting()), (vec![], 4));
}

/// Of the class that the bound is reached by, the flow with the most waiting makes room, as for the class's own bound.
#[test]
fn a_flow_that_fills_what_may_wait_in_all_makes_room_for_others() {
    let mut door = Door::new(class(Order::Fifo));
    let mut spec = Spec { slots: Slots::Fixed(1), queue_len_max: 4, ..Spec::protective() };
    spec.classes = door.gate.plan().classes.clone();
    door.gate.reconfigure(at(0), spec.build().expect("a valid plan"));
    assert!((0..4).all(|_| door.arrive(0, flow(1))));
    assert!(!door.arrive(0, flow(1)), "its own next one finds none");
    assert!(door.arrive(0, flow(2)) && door.arrive(0, flow(3)));
    assert_eq!(door.refused, [(3, Reason::QueueFull), (2, Reason::QueueFull)]);
    assert_eq!(door.gate.waiting(), 4);
}

/// Waiting of each class after one of four classes, of two sites with two each, has filled the ten places and each of the
/// others sent eight requests.
fn places(site: Policy, between: Policy, floods: usize, terms: impl Fn(&mut Class)) -> [u32; 4] {
    let mut door = Door::new(class(Order::Fifo));
    let mut classes: Vec<Class> = ["a", "b", "c", "d"].map(Class::named).to_vec();
    for (place, class) in classes.iter_mut().enumerate() {
        class.site = SiteId((place / 2) as u16);
        terms(class);
    }
    let sites = ["one", "two"].map(|name| Site { policy: site, ..Site::named(name) }).to_vec();
    let slots = Slots::Fixed(1);
    let spec = Spec {
        classes,
        sites,
        between_sites: between,
        slots,
        queue_len_max: 10,
        ..Spec::protective()
    };
    let mut names = Names::default();
    door.gate = Gate::new(Plan::build(spec, &mut names).expect("a valid plan"));
    let ids = door.gate.plan().class_ids().to_vec();
    let of = |place: usize| Arrival { class: ids[place], flow: place as u64, ..Arrival::default() };
    assert!(matches!(door.gate.arrive(at(0), of(floods), || 0), Verdict::Admit(_)));
    (0..20).for_each(|_| {
        door.arrive(0, of(floods));
    });
    for place in (0..4).filter(|place| *place != floods) {
        (0..8).for_each(|_| {
            door.arrive(0, of(place));
        });
    }
    (0..20).for_each(|_| {
        door.arrive(0, of(floods));
    });
    [0, 1, 2, 3].map(|place| door.gate.state(ids[place]).waiting)
}

#[test]
fn each_class_and_site_has_its_part_of_the_places_for_waiting() {
    // By weight: sites five each, and classes as they come to be there, in the order of importance.
    let weighted = |floods| places(Policy::Weighted, Policy::Weighted, floods, |_| ());
    for floods in 0..4 {
        let waiting = weighted(floods);
        assert_eq!(waiting[0] + waiting[1], 5, "{floods} floods: {waiting:?}");
        assert!(waiting.iter().all(|len| (2..=3).contains(len)), "{floods} floods: {waiting:?}");
    }
    // Strictly by importance: the least important of a site makes room.
    let strict = |floods, terms: &dyn Fn(&mut Class)| {
        places(Policy::Strict, Policy::Weighted, floods, terms)
    };
    assert_eq!(strict(0, &|_| ()), [5, 0, 5, 0]);
    assert_eq!(strict(3, &|_| ()), [5, 0, 5, 0]);
    // Between sites whatever their policy, and between classes where none is more important.
    for between in [Policy::Strict, Policy::Shared, Policy::Fifo, Policy::Deadline] {
        for floods in 0..4 {
            assert_eq!(places(Policy::Strict, between, floods, |_| ()), [5, 0, 5, 0], "{floods}");
            let waiting = places(Policy::Fifo, between, floods, |_| ());
            assert!(
                waiting.iter().all(|len| (2..=3).contains(len)),
                "{floods} floods: {waiting:?}"
            );
        }
    }
    // But for what each is sure of.
    let minimum = |class: &mut Class| class.minimum = 0.2;
    assert_eq!(strict(0, &minimum), [4, 1, 4, 1]);
}

/// After a reload more wait in all than may: one that leaves its class makes no room.
#[test]
fn nobody_leaves_a_class_while_too_many_wait_in_all() {
    let when_full = WhenFull::DropOldest;
    let mut door = Door::new(Class { queue_len_max: 4, when_full, ..class(Order::Fifo) });
    assert!((0..4).all(|number| door.arrive(0, flow(number))));
    let mut spec = Spec { slots: Slots::Fixed(1), queue_len_max: 2, ..Spec::protective() };
    spec.classes = door.gate.plan().classes.clone();
    door.gate.reconfigure(at(0), spec.build().expect("a valid plan"));
    assert!(!door.arrive(0, flow(9)));
    assert_eq!((door.refused, door.gate.waiting()), (vec![], 4));
}

#[test]
fn who_is_late_is_served_last_where_the_class_says_so() {
    let late = Late::Last;
    let class = Class { late, deadline: Duration::from_millis(100), ..class(Order::Fifo) };
    let mut door = Door::new(class);
    assert!(door.arrive(0, flow(1)) && door.arrive(0, flow(2)));
    door.tick(100);
    assert!(door.arrive(120, flow(3)));
    assert_eq!([door.next(150), door.next(150)], [Some(2), Some(0)]);
    door.tick(200);
    assert_eq!(door.refused, [(1, Reason::DeadlineExpired)]);
}

#[test]
fn codel_refuses_at_the_head_and_says_so() {
    let codel =
        Some(Codel { target: Duration::from_millis(5), interval: Duration::from_millis(100) });
    let deadline = Duration::from_secs(100);
    let mut door = Door::new(Class { codel, deadline, ..class(Order::Fifo) });
    for place in 0..600 {
        assert!(door.arrive(place / 10, flow(1)));
    }
    let mut served = Vec::new();
    for ms in 100..500 {
        served.extend(door.next(ms));
    }
    let account = &door.gate.account().classes[0];
    let delayed = account.refused[Reason::QueueDelay.index()];
    assert_eq!(delayed, door.refused.len() as u64);
    assert!((5..40).contains(&delayed), "{delayed}");
    assert!(served.is_sorted(), "the longest waiters are dropped, the others keep their order");
    let refused = door.gate.refused(at(500), &flow(1), Reason::QueueDelay);
    assert!(refused.wait > Duration::ZERO, "the client is told how long the queue takes");
}
