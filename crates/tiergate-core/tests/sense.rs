//! Readings of sensors: what is kept of them, and what a law makes of them.

use std::time::Duration;
use tiergate_core::control::{Cause, Law, Step};
use tiergate_core::gate::{Effect, Gate};
use tiergate_core::names::PoolId;
use tiergate_core::plan::Spec;
use tiergate_core::sense::{Quantity, Reading, ReadingError, Sources};
use tiergate_core::time::Moment;

fn reading(source: &str, quantity: Quantity) -> Reading<'_> {
    Reading { source, quantity, lasting: Duration::from_secs(1) }
}

#[test]
fn the_last_reading_of_each_source_is_kept_until_it_is_stale() {
    let mut gate: Gate<u32> = Gate::new(Spec::protective().build().expect("a valid plan"));
    for (ms, share) in [(100, 0.5), (200, 0.75)] {
        let reading = reading("db.cpu", Quantity::Utilization(share));
        gate.observe(Moment::from_millis(ms), reading).expect("possible");
    }
    gate.observe(Moment::from_millis(300), reading("db.queue", Quantity::QueueLen(4)))
        .expect("new");
    let sources: Vec<_> = gate.sources().iter().cloned().collect();
    assert_eq!(sources.len(), 2);
    assert_eq!((&*sources[0].name, sources[0].quantity), ("db.cpu", Quantity::Utilization(0.75)));
    assert_eq!(sources[0].at, Moment::from_millis(200));
    assert!(!sources[0].is_stale(Moment::from_millis(1200)));
    assert!(sources[0].is_stale(Moment::from_millis(1201)));
}

#[test]
fn what_cannot_be_is_counted_and_changes_nothing() {
    let mut gate: Gate<u32> = Gate::new(Spec::protective().build().expect("a valid plan"));
    let cpu = |quantity| reading("cpu", quantity);
    gate.observe(Moment::ZERO, cpu(Quantity::Rate(3.0))).expect("possible");
    for quantity in [
        Quantity::Utilization(1.5),
        Quantity::Utilization(-0.1),
        Quantity::Utilization(f64::NAN),
        Quantity::Rate(-1.0),
        Quantity::Rate(f64::INFINITY),
        Quantity::Level(f64::NAN),
    ] {
        let found = gate.observe(Moment::ZERO, cpu(quantity));
        assert_eq!(found, Err(ReadingError::Impossible), "{quantity:?}");
    }
    let source = gate.sources().iter().next().expect("one");
    assert_eq!((source.quantity, source.impossible), (Quantity::Rate(3.0), 6));
    let nameless = gate.observe(Moment::ZERO, reading("", Quantity::Level(1.0)));
    assert_eq!(nameless, Err(ReadingError::Name));
}

#[test]
fn sources_are_bounded_and_a_stale_one_makes_room() {
    let mut gate: Gate<u32> = Gate::new(Spec::protective().build().expect("a valid plan"));
    let mut observe =
        |ms, name: &str| gate.observe(Moment::from_millis(ms), reading(name, Quantity::Level(1.0)));
    for number in 0..Sources::COUNT_MAX {
        observe(0, &number.to_string()).expect("room");
    }
    assert_eq!(observe(1000, "one more"), Err(ReadingError::TooManySources));
    observe(1000, "7").expect("it is known");
    observe(1001, "one more").expect("in the place of one that is stale");
    assert_eq!(gate.sources().iter().count(), Sources::COUNT_MAX);
    assert!(gate.sources().iter().any(|source| *source.name == *"7"));
}

/// One slot more while the origin has more than a fifth to spare, half as many if it has nothing.
#[derive(Debug)]
struct ByUtilization {
    slots: u32,
}

impl Law for ByUtilization {
    fn slots(&self) -> u32 {
        self.slots
    }

    fn observe(&mut self, _now: Moment, reading: &Reading<'_>) -> Option<Step> {
        let Quantity::Utilization(share) = reading.quantity else {
            return None;
        };
        let before = self.slots;
        if share < 0.8 {
            self.slots += 1;
        } else if share == 1.0 {
            self.slots = (self.slots / 2).max(1);
        }
        Step::between(before, self.slots)
    }
}

#[test]
fn a_law_may_go_by_readings() {
    let law = Box::new(ByUtilization { slots: 8 });
    let mut gate: Gate<u32> =
        Gate::with_law(Spec::protective().build().expect("a valid plan"), law);
    let mut slots = |share| {
        gate.observe(Moment::ZERO, reading("cpu", Quantity::Utilization(share))).expect("possible");
        (gate.slots(), gate.next_effect())
    };
    let changed = |slots, cause| {
        (slots, Some(Effect::SlotsChanged { pool: PoolId::DEFAULT, resource: None, slots, cause }))
    };
    assert_eq!(slots(0.5), changed(9, Cause::Grew));
    assert_eq!(slots(0.9), (9, None));
    assert_eq!(slots(1.0), changed(4, Cause::Shrank));
}
