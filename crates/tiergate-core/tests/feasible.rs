//! Deadline feasibility at the gate: who cannot be served in time is told so at once.

use std::time::Duration;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Gate, Slot, Ticket, Verdict};
use tiergate_core::names::Names;
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::{Plan, Spec};
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;

const MS: Duration = Duration::from_millis(1);

/// One class over slots that come free in turn, one every 10 ms if nothing else is said: four slots and
/// 100 requests a second.
struct World {
    gate: Gate<()>,
    slots: usize,
    /// One ends each so many times 10 ms.
    each: u32,
    steps: u32,
    now: Moment,
    running: Vec<Slot>,
    waiting: Vec<Ticket>,
    refused_at_once: u32,
    /// Of them, those that would not have met their deadline.
    infeasible: u32,
    expired: u32,
    /// Of those refused at once, who were going on.
    gone_on_refused: u32,
    served: u32,
}

impl World {
    fn new() -> Self {
        World::of(4, 1, 500 * MS)
    }

    fn of(slots: u32, each: u32, deadline: Duration) -> Self {
        World::of_class(slots, each, Class { deadline, ..Class::named("all") })
    }

    fn of_class(slots: u32, each: u32, class: Class) -> Self {
        let plan = Spec { classes: vec![class], slots: Slots::Fixed(slots), ..Spec::protective() };
        World {
            gate: Gate::new(plan.build().expect("a valid plan")),
            slots: slots as usize,
            each,
            steps: 0,
            now: Moment::ZERO,
            running: Vec::new(),
            waiting: Vec::new(),
            refused_at_once: 0,
            infeasible: 0,
            expired: 0,
            gone_on_refused: 0,
            served: 0,
        }
    }

    /// `per_10_ms` arrivals every 10 ms, for so long.
    fn run(&mut self, lasting: Duration, per_10_ms: u32) {
        self.run_with(lasting, per_10_ms, |_| Arrival::of(ClassId(0)));
    }

    /// The same; `arrival` makes each of so many.
    fn run_with(&mut self, lasting: Duration, per_10_ms: u32, arrival: impl Fn(u32) -> Arrival) {
        for _ in 0..lasting.as_millis() / 10 {
            self.now = self.now + 10 * MS;
            self.gate.tick(self.now);
            self.steps += 1;
            if self.running.len() == self.slots && self.steps.is_multiple_of(self.each) {
                self.served += 1;
                let slot = self.running.remove(0);
                self.gate.finish(self.now, slot, Outcome::without_answer(End::Served));
            }
            while self.gate.next_effect().is_some() {}
            for ticket in std::mem::take(&mut self.waiting) {
                match self.gate.claim(ticket) {
                    Claim::Waiting => self.waiting.push(ticket),
                    Claim::Admitted(slot) => self.running.push(slot),
                    Claim::Rejected(reason) => {
                        assert_eq!(reason, Reason::DeadlineExpired);
                        self.expired += 1;
                    }
                }
            }
            for number in 0..per_10_ms {
                let arrival = arrival(number);
                match self.gate.arrive(self.now, arrival, || ()) {
                    Verdict::Admit(slot) => self.running.push(slot),
                    Verdict::Queue(ticket) => self.waiting.push(ticket),
                    Verdict::Reject(reason) => {
                        match reason {
                            Reason::DeadlineInfeasible => self.infeasible += 1,
                            reason => assert_eq!(reason, Reason::LastingOverload),
                        }
                        self.refused_at_once += 1;
                        self.gone_on_refused += u32::from(arrival.goes_on);
                    }
                }
            }
        }
    }
}

#[test]
fn under_overload_nearly_nobody_waits_in_vain() {
    // Else the queue is made short when the overload has lasted for a while.
    let class = Class { deadline: 500 * MS, patience: false, ..Class::named("all") };
    let mut world = World::of_class(4, 1, class);
    world.run(Duration::from_secs(2), 10);
    let (expired, served) = (world.expired, world.served);
    world.run(Duration::from_secs(10), 10);
    // 10,000 arrivals for 1,000 slots' worth: without the check 9,000 wait half a second in vain.
    assert!(world.expired - expired < 100, "{} waited in vain", world.expired - expired);
    assert_eq!(world.served - served, 1000, "no slot was idle");
    let waiting = world.waiting.len();
    assert!(
        (35..=45).contains(&waiting),
        "{waiting}: nine tenths of what half a second serves, and \
        of these seven eighths"
    );
}

/// Sixteen slots, each held for ten seconds: 1.6 requests a second. Whoever waits one second behind another
/// waits in vain, with far fewer waiting than there are slots.
#[test]
fn fewer_wait_than_there_are_slots_where_fewer_are_served_in_time() {
    let mut world = World::of(16, 62, Duration::from_secs(1));
    world.run(Duration::from_secs(20), 1);
    (world.expired, world.served) = (0, 0);
    world.run(Duration::from_secs(200), 1);
    let (expired, served) = (world.expired, world.served);
    assert_eq!(served, 322, "no slot was idle");
    // Without a rate for the few it is 2,892.
    assert!(expired < served / 2, "{expired} waited in vain, {served} were served");
}

/// Slots that were all given at one moment may come free at one moment: what a shorter time than the
/// deadline has seen says nothing of that.
#[test]
fn as_many_as_there_are_slots_may_wait_until_the_rate_is_known() {
    let mut world = World::of(16, u32::MAX, 500 * MS);
    world.run(400 * MS, 1);
    assert_eq!(world.waiting.len(), 16);
    assert!(world.refused_at_once > 0, "and no more");
}

#[test]
fn whoever_goes_on_finds_a_place_that_newcomers_leave() {
    let going_on = |goes_on| Arrival { goes_on, ..Arrival::of(ClassId(0)) };
    let mut world = World::new();
    world.run(Duration::from_secs(5), 10);
    let newcomer = world.gate.turn_away(world.now, going_on(false));
    assert_eq!(newcomer, Some(Reason::LastingOverload));
    assert_eq!(world.gate.turn_away(world.now, going_on(true)), None);
    let running = Arrival { running: true, ..going_on(false) };
    assert_eq!(world.gate.turn_away(world.now, running), None, "no newcomer");

    // For each that is served one goes on, and ten newcomers are there before it.
    world.run_with(Duration::from_secs(2), 11, |number| going_on(number == 10));
    world.gone_on_refused = 0;
    world.expired = 0;
    world.run_with(Duration::from_secs(10), 11, |number| going_on(number == 10));
    assert_eq!(world.gone_on_refused, 0, "of 1,000");
    assert!(world.expired < 20, "{} waited in vain", world.expired);
}

#[test]
fn the_less_steady_the_service_the_fewer_wait() {
    let share = |stalls: bool| {
        let mut world = World::new();
        for _ in 0..60 {
            world.run(700 * MS, 10);
            // The origin does nothing for a while: nothing ends, and whoever waits waits longer.
            let stalled = std::mem::take(&mut world.running);
            world.run(if stalls { 300 * MS } else { Duration::ZERO }, 10);
            world.running.extend(stalled);
        }
        f64::from(world.expired) / f64::from(world.served)
    };
    assert!(share(false) < 0.02, "{}", share(false));
    assert!(share(true) < 0.08, "{} waited in vain for each that was served", share(true));
}

#[test]
fn a_reload_begins_with_nothing_known_of_new_classes() {
    let mut world = World::new();
    world.run(Duration::from_secs(3), 10);
    let mut class = Class::named("another");
    class.deadline = 500 * MS;
    let plan = Spec { classes: vec![class], slots: Slots::Fixed(4), ..Spec::protective() };
    let mut names = Names::default();
    names.classes.intern("all").expect("there is room");
    let plan = Plan::build(plan, &mut names).expect("a valid plan");
    world.gate.reconfigure(world.now, plan);
    world.refused_at_once = 0;
    world.run_with(50 * MS, 10, |_| Arrival::of(ClassId(1)));
    assert_eq!(world.refused_at_once, 0, "of an old rate, or of none at all");
}

#[test]
fn whoever_has_a_body_to_send_is_told_before() {
    let mut world = World::new();
    let arrival = Arrival::of(ClassId(0));
    assert_eq!(world.gate.turn_away(world.now, arrival), None);
    world.run(Duration::from_secs(3), 10);
    assert_eq!(world.gate.turn_away(world.now, arrival), Some(Reason::LastingOverload));
}

/// Who looks at the refusals sees which of the two it was.
#[test]
fn an_overload_that_lasts_is_a_reason_of_its_own() {
    let mut world = World::new();
    world.run(800 * MS, 2);
    let refused = world.refused_at_once;
    assert!(refused > 0, "as many wait as are served in half a second");
    assert_eq!(world.infeasible, refused);
    world.run(Duration::from_secs(3), 2);
    let infeasible = world.infeasible;
    world.run(Duration::from_secs(3), 2);
    assert_eq!(world.infeasible, infeasible);
    assert!(world.refused_at_once > infeasible + 250);
}

#[test]
fn below_capacity_nobody_is_refused() {
    let mut world = World::new();
    world.run(Duration::from_secs(5), 10);
    world.refused_at_once = 0;
    // What waits is served first, then everybody is.
    world.run(Duration::from_secs(5), 0);
    world.run(Duration::from_secs(5), 1);
    assert_eq!((world.refused_at_once, world.waiting.len()), (0, 0));
}

/// A restart, or a stall, of a second: what waits then is served in time afterwards, at the rate of before.
#[test]
fn nobody_is_refused_because_the_server_does_nothing_for_a_moment() {
    for is_said in [true, false] {
        let mut world = World::of(4, 1, 3000 * MS);
        world.run(100 * MS, 1);
        world.each = u32::MAX;
        for _ in 0..10 {
            let World { running, gate, now, .. } = &mut world;
            for slot in running.iter_mut().filter(|_| is_said) {
                gate.is_away(*now, slot, *now + 100 * MS);
            }
            world.run(100 * MS, 1);
        }
        world.each = 1;
        world.run(2000 * MS, 1);
        assert_eq!((world.refused_at_once, world.expired), (0, 0), "said: {is_said}");
    }
}

/// Nor by those that come for seconds afterwards, in an overload that lasts.
#[test]
fn a_stall_does_not_make_the_queue_shorter_afterwards() {
    let longest = |stall: Duration| {
        let class = Class { deadline: 2000 * MS, patience: false, ..Class::named("all") };
        let mut world = World::of_class(4, 1, class);
        world.run(Duration::from_secs(10), 2);
        world.each = u32::MAX;
        world.run(stall, 2);
        world.each = 1;
        world.run(500 * MS, 2);
        world.waiting.len()
    };
    let (without, with) = (longest(Duration::ZERO), longest(1000 * MS));
    assert!(with * 10 >= without * 9, "{with} wait after a stall, {without} without");
}

/// Requests wait for it for a while, and are refused at once from then on.
#[test]
fn an_origin_that_stops_for_good_makes_few_wait() {
    let mut world = World::of(4, 1, 1000 * MS);
    world.run(2000 * MS, 1);
    world.each = u32::MAX;
    world.run(11_000 * MS, 1);
    let waited = world.expired;
    assert!((900..1050).contains(&waited), "{waited} waited: it might have gone on");
    world.run(10_000 * MS, 1);
    assert!(world.waiting.len() <= 20, "{} wait", world.waiting.len());
    assert!(
        world.expired - waited < 150,
        "{} of 1,000 waited and got nothing",
        world.expired - waited
    );
}
