//! Adjustments: never outside their bounds, never faster than their slew, the plan's value when they are
//! released, and all of that through any sequence of reloads.

use proptest::prelude::*;
use std::time::Duration;
use tiergate_core::adjust::{AdjustError, Adjustment, Adjustments, Change, Setting};
use tiergate_core::admit::bucket::Rate;
use tiergate_core::admit::policer::{Per, PolicerId, Settings};
use tiergate_core::admit::trigger::{Backlogs, Trigger};
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::{Bounds, Cause, Law, Slots};
use tiergate_core::gate::{Arrival, Effect, Gate, Verdict};
use tiergate_core::names::{Names, PoolId};
use tiergate_core::plan::{Plan, Spec};
use tiergate_core::schedule::Policy;
use tiergate_core::time::Moment;

fn policer(name: &str, rate: u32) -> Settings {
    let rate = Rate::per_second(rate);
    let (name, shares) = (name.to_owned(), Vec::new());
    let (per, inbound) = (Per::Rule, None);
    Settings { name, key: None, rate, burst: 1, per, shares, inbound, announce: false }
}

/// Two classes with shares and a trigger each, two policers, an adaptive limit.
fn spec(rate: u32) -> Spec {
    let mut plan = Spec::protective();
    plan.sites[0].policy = Policy::Shared;
    plan.classes = ["a", "b"].map(Class::named).to_vec();
    for class in &mut plan.classes {
        class.share = 0.4;
        class.refuse_at = vec![Trigger { of: Backlogs::All, waiting: 10, until: 5 }];
    }
    plan.policers = vec![policer("x", rate), policer("y", 7)];
    plan
}

/// The plan, of a process in which the names of [`spec`] came first.
fn built(spec: Spec) -> Plan {
    let mut names = Names::default();
    Plan::build(self::spec(1), &mut names).expect("a valid plan");
    Plan::build(spec, &mut names).expect("a valid plan")
}

fn plan(rate: u32) -> Plan {
    built(spec(rate))
}

fn to(setting: Setting, value: f64, min: f64, max: f64, slew_per_s: f64) -> Adjustment {
    Adjustment { setting, value, min, max, slew_per_s }
}

fn at_once(setting: Setting, value: f64) -> Adjustment {
    to(setting, value, 0.0, 1e6, f64::INFINITY)
}

/// What the plan in force says of a setting.
fn in_force(gate: &Gate<u32>, setting: Setting) -> f64 {
    let plan = gate.plan();
    match setting {
        Setting::SlotsMin | Setting::SlotsMax => match &plan.slots {
            Slots::Fixed(slots) => f64::from(*slots),
            Slots::Adaptive(bounds) | Slots::Shared(bounds) if setting == Setting::SlotsMin => {
                bounds.slots_min.into()
            }
            Slots::Adaptive(bounds) | Slots::Shared(bounds) => bounds.slots_max.into(),
        },
        Setting::PolicerRate(id) => plan.policers[id.index()].rate.tokens_per_second(),
        Setting::TriggerLen(id, place) => plan.classes[id.index()].refuse_at[place].waiting.into(),
        Setting::Minimum(id) => plan.classes[id.index()].minimum,
        Setting::Weight(id) => plan.classes[id.index()].weight,
        Setting::Share(id) => plan.classes[id.index()].share,
    }
}

const A: ClassId = ClassId(0);
const ALL: [Setting; 7] = [
    Setting::SlotsMin,
    Setting::SlotsMax,
    Setting::PolicerRate(PolicerId(0)),
    Setting::TriggerLen(A, 0),
    Setting::Minimum(A),
    Setting::Weight(A),
    Setting::Share(A),
];

#[test]
fn several_settings_change_together_or_not_at_all() {
    let mut gate: Gate<u32> = Gate::new(plan(3));
    let (a, b) = (Setting::Share(A), Setting::Share(ClassId(1)));
    let set = |setting, value| Change::Set(at_once(setting, value));
    let shares = |gate: &Gate<u32>| [in_force(gate, a), in_force(gate, b)];
    // 0.4 each: one alone cannot have more than what the other leaves.
    let alone = gate.change(Moment::ZERO, "operator", &[set(a, 0.7)]);
    assert_eq!(alone, Err((0, AdjustError::Unfit)));
    assert_eq!(gate.change(Moment::ZERO, "operator", &[set(b, 0.2), set(a, 0.7)]), Ok(()));
    assert_eq!(shares(&gate), [0.7, 0.2]);
    let wrong = [set(b, 0.1), set(Setting::TriggerLen(A, 1), 3.0)];
    let refused = gate.change(Moment::ZERO, "operator", &wrong);
    assert_eq!(refused, Err((1, AdjustError::NoSuchSetting)));
    assert_eq!(shares(&gate), [0.7, 0.2], "nothing of it");
    let owned = gate.change(Moment::ZERO, "power", &[set(a, 0.5)]);
    assert_eq!(owned, Err((0, AdjustError::Owned("operator".into()))));
    let undone = gate.change(Moment::ZERO, "operator", &[Change::Undo(b)]);
    assert_eq!(undone, Err((0, AdjustError::Unfit)), "the other could not stay");
    assert_eq!(shares(&gate), [0.7, 0.2]);
    assert_eq!(gate.change(Moment::ZERO, "operator", &[Change::Undo(a)]), Ok(()));
    assert_eq!(shares(&gate), [0.4, 0.2]);
    assert_eq!(gate.change(Moment::ZERO, "power", &[Change::Undo(b)]), Ok(()));
    assert_eq!(shares(&gate), [0.4, 0.2], "it is not his");
    assert_eq!(gate.change(Moment::ZERO, "operator", &[Change::Undo(b)]), Ok(()));
    assert_eq!((shares(&gate), gate.adjustments().iter().count()), ([0.4, 0.4], 0));
}

#[test]
fn each_setting_can_be_adjusted_and_comes_back() {
    for setting in ALL {
        let mut gate: Gate<u32> = Gate::new(plan(3));
        let planned = in_force(&gate, setting);
        let wanted = if planned < 1.0 { planned + 0.1 } else { planned + 2.0 };
        let applied = gate.adjust(Moment::ZERO, "me", at_once(setting, wanted)).expect("free");
        assert_eq!((applied.value, applied.planned), (wanted, planned), "{setting:?}");
        assert!((in_force(&gate, setting) - wanted).abs() < 1e-9, "{setting:?}");
        assert_eq!(gate.release(Moment::ZERO, "me"), 1);
        assert_eq!(gate.plan(), &plan(3), "{setting:?}");
    }
}

#[test]
fn a_second_owner_is_refused_until_the_first_lets_go() {
    let mut gate: Gate<u32> = Gate::new(plan(3));
    let [rate, other] = [0, 1].map(|id| Setting::PolicerRate(PolicerId(id)));
    gate.adjust(Moment::ZERO, "one", at_once(rate, 9.0)).expect("free");
    let refused = gate.adjust(Moment::ZERO, "two", at_once(rate, 1.0));
    assert_eq!(refused, Err(AdjustError::Owned("one".into())));
    gate.adjust(Moment::ZERO, "two", at_once(other, 1.0)).expect("free");
    gate.release(Moment::ZERO, "one");
    assert_eq!((in_force(&gate, rate), in_force(&gate, other)), (3.0, 1.0));
    gate.adjust(Moment::ZERO, "two", at_once(rate, 1.0)).expect("free again");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut gate: Gate<u32> = Gate::new(plan(3));
    let mut adjust = |owner, wanted| gate.adjust(Moment::ZERO, owner, wanted);
    let rate = Setting::PolicerRate(PolicerId(0));
    for wanted in [
        at_once(rate, f64::NAN),
        to(rate, 1.0, 2.0, 1.0, 1.0),
        to(rate, 1.0, 0.0, f64::NAN, 1.0),
        to(rate, 1.0, 0.0, 2.0, 0.0),
        to(rate, 1.0, 0.0, 2.0, f64::NAN),
    ] {
        assert_eq!(adjust("me", wanted), Err(AdjustError::Invalid), "{wanted:?}");
    }
    assert_eq!(adjust("", at_once(rate, 1.0)), Err(AdjustError::Invalid));
    for gone in
        [Setting::PolicerRate(PolicerId(2)), Setting::Weight(ClassId(2)), Setting::TriggerLen(A, 1)]
    {
        assert_eq!(adjust("me", at_once(gone, 1.0)), Err(AdjustError::NoSuchSetting));
    }
    assert_eq!(adjust("me", at_once(Setting::Share(A), 0.7)), Err(AdjustError::Unfit));
    assert_eq!(adjust("me", at_once(Setting::Weight(A), 0.0)), Err(AdjustError::Unfit));
    assert_eq!(gate.plan(), &plan(3));
    assert_eq!(gate.adjustments().iter().count(), 0);
}

#[test]
fn there_are_so_many_at_most() {
    let mut many = spec(1);
    many.policers = (0..100).map(|number| policer(&number.to_string(), 1)).collect();
    let mut gate: Gate<u32> = Gate::new(built(many));
    let adjusted = (0..100).filter(|&id| {
        let setting = Setting::PolicerRate(PolicerId(id));
        gate.adjust(Moment::ZERO, "me", at_once(setting, 2.0)).is_ok()
    });
    assert_eq!(adjusted.count(), Adjustments::COUNT_MAX);
}

#[test]
fn it_follows_its_policer_through_reloads_and_lapses_with_it() {
    let mut gate: Gate<u32> = Gate::new(plan(3));
    let now = Moment::from_millis(5);
    gate.adjust(now, "me", at_once(Setting::PolicerRate(PolicerId(0)), 9.0)).expect("free");
    let mut turned = spec(4);
    turned.policers.reverse();
    gate.reconfigure(now, built(turned));
    let rates: Vec<f64> = gate.policers().map(|(_, it)| it.rate.tokens_per_second()).collect();
    assert_eq!(rates, [7.0, 9.0], "it is the second now");
    assert_eq!(gate.adjustments().iter().next().expect("one").applied.planned, 4.0);
    let mut gone = spec(4);
    gone.policers.remove(0);
    let gone = built(gone);
    gate.reconfigure(now, gone.clone());
    assert_eq!(gate.plan(), &gone);
    let lapsed = gate.adjustments().iter().next().expect("it says so");
    assert!(lapsed.lapsed && *lapsed.owner == *"me" && *lapsed.of == *"x");
    gate.reconfigure(now, plan(4));
    assert_eq!(gate.plan(), &plan(4), "what has lapsed does not come back by itself");
    gate.adjust(now, "me", at_once(Setting::PolicerRate(PolicerId(0)), 8.0)).expect("free");
    assert_eq!(gate.adjustments().iter().count(), 1);
}

#[test]
fn the_newest_lapses_where_a_reload_leaves_no_room() {
    let mut gate: Gate<u32> = Gate::new(plan(3));
    let b = Setting::Share(ClassId(1));
    gate.adjust(Moment::ZERO, "one", at_once(Setting::Share(A), 0.3)).expect("room");
    gate.adjust(Moment::ZERO, "two", at_once(b, 0.6)).expect("room that the first left");
    let mut less = spec(3);
    less.classes.push(Class { share: 0.2, ..Class::named("c") });
    gate.reconfigure(Moment::ZERO, built(less));
    assert_eq!((in_force(&gate, Setting::Share(A)), in_force(&gate, b)), (0.3, 0.4));
    let lapsed: Vec<bool> = gate.adjustments().iter().map(|it| it.lapsed).collect();
    assert_eq!(lapsed, [false, true]);
}

#[test]
fn bounds_of_the_slots_hold_at_once_and_are_said() {
    let mut gate: Gate<u32> = Gate::new(Spec::protective().build().expect("a valid plan"));
    let now = Moment::from_millis(5);
    gate.adjust(now, "me", at_once(Setting::SlotsMax, 4.0)).expect("free");
    assert_eq!(gate.slots(), 4);
    let said = Effect::SlotsChanged {
        pool: PoolId::DEFAULT,
        resource: None,
        slots: 4,
        cause: Cause::Adjusted,
    };
    assert_eq!(gate.next_effect(), Some(said));
    gate.reconfigure(now, Spec::protective().build().expect("a valid plan"));
    assert_eq!((gate.slots(), gate.next_effect()), (4, None), "a reload leaves it");
    gate.release(now, "me");
    let Slots::Adaptive(Bounds { slots_max, .. }) = gate.plan().slots else { panic!("it adapts") };
    assert_eq!(slots_max, 10_000);

    let mut gate: Gate<u32> = Gate::new(
        Spec { slots: Slots::Fixed(1), ..Spec::protective() }.build().expect("a valid plan"),
    );
    let arrival = Arrival::of(A);
    let _slot = gate.arrive(now, arrival, || 0);
    let Verdict::Queue(_) = gate.arrive(now, arrival, || 7) else { panic!("one slot") };
    gate.adjust(now, "me", at_once(Setting::SlotsMax, 2.0)).expect("free");
    assert_eq!(gate.next_effect(), Some(Effect::Wake(7)));
    let refused = gate.adjust(now, "me", at_once(Setting::SlotsMin, 2.0));
    assert_eq!(refused, Err(AdjustError::NoSuchSetting));
}

#[test]
fn a_reload_while_a_bound_moves_keeps_the_law() {
    let law = Box::new(Odd { slots: 77 });
    let mut gate: Gate<u32> =
        Gate::with_law(Spec::protective().build().expect("a valid plan"), law);
    let slowly = to(Setting::SlotsMax, 1000.0, 0.0, 1e6, 1000.0);
    gate.adjust(Moment::ZERO, "me", slowly).expect("free");
    gate.reconfigure(Moment::from_millis(500), Spec::protective().build().expect("a valid plan"));
    assert_eq!(in_force(&gate, Setting::SlotsMax), 9_500.0);
    assert_eq!(gate.slots(), 77, "of the law that was there");
    gate.release(Moment::from_millis(500), "me");
    assert_eq!(in_force(&gate, Setting::SlotsMax), 10_000.0);
}

/// A law that is known by its slots.
#[derive(Debug)]
struct Odd {
    slots: u32,
}

impl Law for Odd {
    fn slots(&self) -> u32 {
        self.slots
    }
}

#[test]
fn an_adjusted_trigger_pulls_and_lets_go_at_the_same_part_of_its_length() {
    let mut gate: Gate<u32> = Gate::new(plan(3));
    gate.adjust(Moment::ZERO, "me", at_once(Setting::TriggerLen(A, 0), 4.0)).expect("free");
    assert_eq!(gate.plan().classes[0].refuse_at[0].until, 2);
    gate.release(Moment::ZERO, "me");
    assert_eq!(gate.plan().classes[0].refuse_at[0].until, 5);
}

/// What may happen to a gate with an adjusted rate.
#[derive(Clone, Debug)]
enum Event {
    Want(f64),
    Bound(f64, f64),
    Tick,
    Reload(u32),
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        (0.0..200.0).prop_map(Event::Want),
        (0.0..60.0, 0.0..60.0).prop_map(|(low, more)| Event::Bound(low, low + more)),
        Just(Event::Tick),
        (0_u32..300).prop_map(Event::Reload),
    ];
    prop::collection::vec((0_u64..3000, event), 1..60)
}

proptest! {
    #[test]
    fn never_outside_its_bounds_never_faster_than_its_slew(
        events in events(), slew in prop_oneof![0.1..50.0, Just(f64::INFINITY)],
    ) {
        let setting = Setting::PolicerRate(PolicerId(0));
        let mut gate: Gate<u32> = Gate::new(plan(50));
        let mut wanted = to(setting, 50.0, 0.0, 100.0, slew);
        let (mut now, mut planned) = (Moment::ZERO, 50);
        gate.adjust(now, "me", wanted).expect("free");
        let mut before = (now, in_force(&gate, setting));
        for (ms, event) in events {
            now = now + Duration::from_millis(ms);
            let mut jump = 0.0;
            match event {
                Event::Want(value) => wanted.value = value,
                Event::Bound(min, max) => {
                    (wanted.min, wanted.max) = (min, max);
                    // New bounds hold at once.
                    jump = (before.1 - before.1.clamp(min, max)).abs();
                }
                Event::Tick => { gate.tick(now); }
                Event::Reload(rate) => {
                    planned = rate;
                    gate.reconfigure(now, plan(rate));
                }
            }
            if !matches!(event, Event::Tick | Event::Reload(_)) {
                let applied = gate.adjust(now, "me", wanted).expect("its own");
                prop_assert_eq!(applied.target, wanted.value.clamp(wanted.min, wanted.max));
            }
            let value = in_force(&gate, setting);
            prop_assert!((wanted.min - 1e-6..=wanted.max + 1e-6).contains(&value), "{value}");
            let most = slew * now.since(before.0).as_secs_f64();
            let most = if most.is_nan() { 0.0 } else { most };
            prop_assert!(slew.is_infinite() || (value - before.1).abs() <= most + jump + 1e-6);
            let known = gate.adjustments().iter().next().expect("it is there").clone();
            prop_assert_eq!(known.applied.planned, f64::from(planned));
            prop_assert!(!known.lapsed);
            before = (now, value);
        }
        // It gets there by itself.
        for _ in 0..40 {
            now = now + Duration::from_secs(100);
            gate.tick(now);
        }
        let target = wanted.value.clamp(wanted.min, wanted.max);
        prop_assert!((in_force(&gate, setting) - target).abs() < 1e-6);
        gate.release(now, "me");
        prop_assert_eq!(in_force(&gate, setting), f64::from(planned));
    }
}
