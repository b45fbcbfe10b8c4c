use super::*;
use crate::admit::bucket::Rate;
use crate::admit::policer;
use crate::class::Class;
use crate::names::Names;

const CLASS: ClassId = ClassId(0);

fn spec(slots: u32) -> Spec {
    Spec { slots: Slots::Fixed(slots), ..Spec::protective() }
}

fn shadow(spec: Spec) -> Shadow {
    Shadow::new(&spec.build().expect("a sound plan"), |_| 7).expect("a sound plan")
}

fn at(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

fn served(ms: u64) -> Enforced {
    let held = Duration::from_millis(ms);
    let outcome = Outcome { first_byte: Some(held), ..Outcome::without_answer(End::Served) };
    Enforced::Served { held, outcome }
}

fn arrive(shadow: &mut Shadow, ms: u64) -> Observed {
    shadow.arrive(at(ms), Arrival::of(CLASS), None, true).expect("there is room")
}

#[test]
fn a_request_holds_its_slot_for_as_long_as_in_force_from_when_it_got_it_here() {
    let mut shadow = shadow(spec(1));
    let (first, second) = (arrive(&mut shadow, 0), arrive(&mut shadow, 0));
    assert_eq!((shadow.seen(first), shadow.seen(second)), (Seen::Admitted, Seen::Waits));
    // In force both were served at once.
    shadow.ended(at(100), first, served(100));
    assert_eq!(shadow.seen(second), Seen::Admitted, "from the moment when the first had ended");
    shadow.ended(at(100), second, served(100));
    assert_eq!(shadow.gate().running(), 1, "its time here is not over");
    shadow.tick(at(199));
    assert_eq!(shadow.gate().running(), 1);
    shadow.tick(at(200));
    assert_eq!((shadow.gate().running(), shadow.tally(CLASS).both_admit), (0, 2));
    let waits = &shadow.gate().account().classes[0].wait;
    assert_eq!(waits.count(), 2);
    assert!(waits.quantile(0.99).is_some_and(|wait| wait >= Duration::from_millis(90)));
}

#[test]
fn a_slot_comes_back_at_its_moment_however_late_it_is_looked_at() {
    let mut shadow = shadow(spec(1));
    let requests: Vec<_> = (0..4).map(|_| arrive(&mut shadow, 0)).collect();
    for it in requests {
        shadow.ended(at(100), it, served(100));
    }
    shadow.tick(at(10_000));
    assert_eq!(shadow.tally(CLASS).both_admit, 4, "each within its deadline of two seconds");
    assert_eq!(shadow.gate().waiting(), 0);
}

#[test]
fn what_would_be_refused_is_counted_by_reason_and_what_would_be_admitted() {
    let mut names = Names::default();
    let policer = names.policers.intern("few").expect("there is room");
    let few = policer::Settings {
        name: "few".to_owned(),
        key: None,
        rate: Rate::per_second(1),
        burst: 2,
        per: policer::Per::Rule,
        shares: Vec::new(),
        inbound: None,
        announce: false,
    };
    let policed = Spec {
        classes: vec![Class { policer: Some(policer), ..Class::named("all") }],
        policers: vec![few],
        ..spec(100)
    };
    let plan = Plan::build(policed, &mut names).expect("a sound plan");
    let mut shadow = Shadow::new(&plan, |_| 7).expect("a sound plan");
    for number in 0..5 {
        let it = arrive(&mut shadow, 0);
        let enforced = if number == 0 { Enforced::Refused(Reason::Shed) } else { served(10) };
        shadow.ended(at(10), it, enforced);
    }
    let refused = arrive(&mut shadow, 10);
    shadow.ended(at(11), refused, Enforced::Refused(Reason::QueueFull));
    shadow.tick(at(1000));
    let tally = shadow.tally(CLASS);
    assert_eq!((tally.both_admit, tally.would_admit, tally.both_refuse), (1, 1, 1));
    assert_eq!(tally.would_refuse[Reason::Policed.index()], 3);
    assert_eq!(tally.would_refuse_total(), 3);
}

#[test]
fn where_force_refused_a_request_it_takes_as_long_as_others_of_its_class() {
    let mut shadow = shadow(spec(10));
    for _ in 0..200 {
        let it = arrive(&mut shadow, 0);
        shadow.ended(at(0), it, served(300));
        shadow.tick(at(0));
    }
    shadow.tick(at(60_000));
    let it = arrive(&mut shadow, 60_000);
    shadow.ended(at(60_000), it, Enforced::Refused(Reason::Shed));
    shadow.tick(at(60_250));
    assert_eq!(shadow.gate().running(), 1);
    shadow.tick(at(60_310));
    assert_eq!((shadow.gate().running(), shadow.tally(CLASS).would_admit), (0, 1));
}

#[test]
fn a_client_that_leaves_waits_no_more() {
    let mut shadow = shadow(spec(1));
    let (first, second) = (arrive(&mut shadow, 0), arrive(&mut shadow, 0));
    shadow.ended(at(50), second, Enforced::Gone);
    assert_eq!((shadow.gate().waiting(), shadow.tally(CLASS).left), (0, 1));
    shadow.ended(at(60), first, served(60));
    // What is told twice is taken once.
    shadow.ended(at(61), first, served(60));
    shadow.ended(at(61), second, Enforced::Gone);
    assert_eq!((shadow.tally(CLASS).both_admit, shadow.tally(CLASS).left), (1, 1));
}

#[test]
fn an_adaptive_limit_is_that_of_the_policy_in_force() {
    let mut shadow = shadow(Spec::protective());
    assert_eq!(shadow.gate().slots(), 7);
    shadow.limits_are(at(500), |_| 9);
    assert_eq!(shadow.gate().slots(), 7, "once a second");
    shadow.limits_are(at(1500), |_| 9);
    assert_eq!(shadow.gate().slots(), 9);
    let plan = Spec::protective().build().expect("a sound plan");
    shadow.reconfigure(at(1600), &plan, |_| 7).expect("a sound plan");
    assert_eq!(shadow.gate().slots(), 7, "a reload takes it over, too");
    let mut fixed = self::shadow(spec(3));
    fixed.limits_are(at(1500), |_| 9);
    assert_eq!(fixed.gate().slots(), 3, "a number is part of the policy");
}

#[test]
fn it_has_a_bound() {
    let mut shadow = shadow(spec(1_000_000));
    for _ in 0..Shadow::REQUESTS_MAX {
        arrive(&mut shadow, 0);
    }
    assert!(shadow.arrive(at(0), Arrival::of(CLASS), None, true).is_none());
    assert_eq!(shadow.untracked(), 1);
}

#[test]
fn what_waits_in_force_holds_no_slot_here_for_that_time() {
    let mut shadow = shadow(spec(1));
    let usual = arrive(&mut shadow, 0);
    shadow.ended(at(50), usual, served(50));
    // In force it waits for two seconds, here it is served at once.
    let first = shadow.arrive(at(100), Arrival::of(CLASS), None, false).expect("there is room");
    assert_eq!(shadow.seen(first), Seen::Admitted);
    let second = shadow.arrive(at(200), Arrival::of(CLASS), None, false).expect("there is room");
    assert_eq!(shadow.seen(second), Seen::Admitted, "the first took as long as usual");
    for it in [first, second] {
        shadow.granted(it);
        shadow.ended(at(2100), it, served(50));
    }
    assert_eq!((shadow.tally(CLASS).both_admit, shadow.gate().running()), (3, 0));
}

#[test]
fn what_had_its_slot_here_first_ends_as_expected_and_not_as_told_later() {
    let mut shadow = shadow(spec(1));
    let first = shadow.arrive(at(0), Arrival::of(CLASS), None, false).expect("there is room");
    shadow.granted(first);
    shadow.ended(at(10), first, served(5));
    assert_eq!(shadow.gate().running(), 1, "it takes as long as is usual");
    shadow.tick(at(50));
    assert_eq!((shadow.gate().running(), shadow.tally(CLASS).both_admit), (0, 1));
}

#[test]
fn what_is_refused_whatever_the_load_is_refused_by_both() {
    let mut shadow = shadow(spec(1));
    let down = Some(Reason::OriginDown);
    let it = shadow.arrive(at(0), Arrival::of(CLASS), down, false).expect("there is room");
    let seen = shadow.ended(at(0), it, Enforced::Refused(Reason::OriginDown));
    assert_eq!(seen, Seen::Refused(Reason::OriginDown));
    assert_eq!(shadow.tally(CLASS).both_refuse, 1);
}

#[test]
fn waits_end_at_their_deadlines_though_nobody_looks() {
    let mut shadow = shadow(spec(1));
    let holds = arrive(&mut shadow, 0);
    let waits = arrive(&mut shadow, 0);
    let later = arrive(&mut shadow, 60_000);
    assert_eq!(shadow.seen(waits), Seen::Refused(Reason::DeadlineExpired));
    assert_eq!((shadow.seen(holds), shadow.seen(later)), (Seen::Admitted, Seen::Waits));
}
