//! What refused clients are told, and what becomes of those that do not listen.

use std::time::Duration;
use tiergate_core::admit::block;
use tiergate_core::admit::bucket::Rate;
use tiergate_core::admit::policer::{Per, PolicerId, Settings, Share};
use tiergate_core::admit::trigger::{Backlogs, Trigger};
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Gate, Slot, Ticket, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;

const FIRST: ClassId = ClassId(0);
const SECOND: ClassId = ClassId(1);
const SERVED: Outcome = Outcome { end: End::Served, first_byte: None, bytes: 0, left: None };

fn at(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

fn class(name: &str, queue_len_max: u32) -> Class {
    Class { queue_len_max, deadline: Duration::from_secs(3600), ..Class::named(name) }
}

fn plan(classes: Vec<Class>) -> Spec {
    Spec { classes, slots: Slots::Fixed(1), ..Spec::protective() }
}

/// Takes the slot and gives it on every 10 ms for so long: whoever waits is served at 100 a second.
fn serve(gate: &mut Gate<()>, mut slot: Slot, from_ms: u64, to_ms: u64, tickets: &mut Vec<Ticket>) {
    for ms in (from_ms..to_ms).step_by(10) {
        gate.finish(at(ms), slot, SERVED);
        while gate.next_effect().is_some() {}
        let mut granted = None;
        tickets.retain(|&ticket| match gate.claim(ticket) {
            Claim::Admitted(slot) => {
                granted = Some(slot);
                false
            }
            _ => true,
        });
        slot = granted.expect("somebody waits");
    }
}

/// The class's queue as long as it may be, and what serves it.
fn filled(gate: &mut Gate<()>, class: ClassId) -> (Slot, Vec<Ticket>) {
    let mut slot = None;
    let mut tickets = Vec::new();
    loop {
        match gate.arrive(at(0), Arrival::of(class), || ()) {
            Verdict::Admit(granted) => slot = Some(granted),
            Verdict::Queue(ticket) => tickets.push(ticket),
            Verdict::Reject(_) => return (slot.expect("one slot"), tickets),
        }
    }
}

#[test]
fn a_refused_client_is_told_how_long_the_queue_takes() {
    let mut gate = Gate::new(plan(vec![class("only", 500)]).build().expect("a valid plan"));
    let (slot, mut tickets) = filled(&mut gate, FIRST);
    let arrival = Arrival::of(FIRST);
    let wait = |gate: &mut Gate<()>, ms| gate.refused(at(ms), &arrival, Reason::QueueFull).wait;
    assert_eq!(wait(&mut gate, 0), Duration::ZERO, "nothing is known yet");
    serve(&mut gate, slot, 10, 2010, &mut tickets);
    let told = wait(&mut gate, 2010).as_secs_f64();
    assert!((2.9..3.1).contains(&told), "300 are left at 100 a second: {told}");
    // The longer nobody is served, the longer it takes.
    let later = wait(&mut gate, 4010).as_secs_f64();
    assert!(later > 1.5 * told, "{later}");
}

#[test]
fn of_a_class_that_is_never_served_nothing_better_is_known() {
    let mut gate = Gate::new(
        plan(vec![class("first", 5), class("starved", 1)]).build().expect("a valid plan"),
    );
    let Verdict::Admit(_slot) = gate.arrive(at(0), Arrival::of(FIRST), || ()) else { panic!() };
    let waiting = gate.arrive(at(0), Arrival::of(SECOND), || ());
    assert!(matches!(waiting, Verdict::Queue(_)));
    let refused = gate.refused(at(5000), &Arrival::of(SECOND), Reason::QueueFull);
    assert_eq!(refused.wait, Duration::MAX);
    let refused = gate.refused(at(5000), &Arrival::of(FIRST), Reason::QueueFull);
    assert_eq!(refused.wait, Duration::ZERO, "nobody of it waits");
}

#[test]
fn a_class_that_is_refused_for_the_backlog_of_others_waits_for_theirs() {
    let of = Backlogs::Of(vec![FIRST]);
    let trigger = Trigger { of, waiting: 100, until: 51 };
    let second = Class { refuse_at: vec![trigger], ..class("second", 100) };
    let mut gate =
        Gate::new(plan(vec![class("first", 400), second]).build().expect("a valid plan"));
    let (slot, mut tickets) = filled(&mut gate, FIRST);
    serve(&mut gate, slot, 10, 2010, &mut tickets);
    let verdict = gate.arrive(at(2010), Arrival::of(SECOND), || ());
    assert_eq!(verdict, Verdict::Reject(Reason::BacklogTrigger));
    let refused = gate.refused(at(2010), &Arrival::of(SECOND), Reason::BacklogTrigger);
    let told = refused.wait.as_secs_f64();
    assert!((1.45..1.55).contains(&told), "150 of 200 must go at 100 a second: {told}");
}

fn policer(name: &str, per: Per, announce: bool) -> Settings {
    let rate = Rate::per_second(2);
    let (name, shares, inbound) = (name.to_owned(), Vec::new(), None);
    Settings { name, rate, burst: 4, key: None, per, shares, inbound, announce }
}

#[test]
fn a_policed_client_is_told_when_the_next_token_comes_and_what_the_bucket_has() {
    let flows = Per::Flow { flows_max: 100 };
    let mut gate: Gate<()> = Gate::new(
        Spec {
            slots: Slots::Fixed(u32::MAX),
            policers: vec![policer("all", Per::Rule, false), policer("each", flows, true)],
            site_policer: Some(PolicerId(0)),
            ..Spec::protective()
        }
        .build()
        .expect("a valid plan"),
    );
    let each = PolicerId(1);
    let arrival = Arrival { policer: Some(each), flow: 7, ..Arrival::of(FIRST) };
    for left in [3, 2, 1, 0] {
        let Verdict::Admit(slot) = gate.arrive(at(0), arrival, || ()) else { panic!("a token") };
        gate.finish(at(0), slot, SERVED);
        let (policer, quota) = gate.announced(at(0), &arrival).expect("it is announced");
        assert_eq!((policer, quota.remaining, quota.most), (each, left, 4));
        assert_eq!(quota.refill, Duration::from_secs(2));
        let until_more = if left == 0 { 500 } else { 500 * u64::from(4 - left) };
        assert_eq!(quota.until_more(), Duration::from_millis(until_more));
    }
    let verdict = gate.arrive(at(100), arrival, || ());
    assert_eq!(verdict, Verdict::Reject(Reason::Policed));
    let refused = gate.refused(at(100), &arrival, Reason::Policed);
    assert_eq!(refused.wait, Duration::from_millis(400));
    assert_eq!(refused.policer.map(|(id, quota)| (id, quota.remaining)), Some((each, 0)));
    // Another client comes under the site's bucket, which is empty and says nothing of itself.
    let other = Arrival::of(FIRST);
    assert_eq!(gate.arrive(at(100), other, || ()), Verdict::Reject(Reason::SitePoliced));
    assert_eq!(gate.announced(at(100), &other), None);
    let refused = gate.refused(at(100), &other, Reason::SitePoliced);
    assert_eq!(refused.policer.map(|(id, _)| id), Some(PolicerId(0)));
}

#[test]
fn a_quota_counts_the_overflow_and_the_class_s_own_part() {
    let share = Share { class: FIRST, parts: 5000, burst: 6 };
    let settings = Settings { shares: vec![share], ..policer("p", Per::Rule, true) };
    let mut gate: Gate<()> = Gate::new(
        Spec {
            classes: vec![class("a", 9), class("b", 9)],
            policers: vec![settings],
            site_policer: Some(PolicerId(0)),
            ..Spec::protective()
        }
        .build()
        .expect("a valid plan"),
    );
    let mut quota = |class| gate.announced(at(0), &Arrival::of(class)).expect("announced").1;
    assert_eq!((quota(FIRST).most, quota(FIRST).remaining), (10, 10));
    assert_eq!((quota(SECOND).most, quota(SECOND).remaining), (4, 4));
}

const BLOCK: block::Settings = block::Settings {
    after: 3,
    within: Duration::from_secs(10),
    lasting: Duration::from_secs(5),
    flows_max: 1000,
};

/// A gate that blocks, of two classes whose slot is taken and that nobody can wait in.
fn blocking() -> Gate<()> {
    let classes = vec![class("first", 0), class("second", 0)];
    let mut gate =
        Gate::new(Spec { block: Some(BLOCK), ..plan(classes) }.build().expect("a valid plan"));
    let Verdict::Admit(_slot) = gate.arrive(at(0), Arrival::of(FIRST), || ()) else { panic!() };
    gate
}

fn from(class: ClassId, flow: u64) -> Arrival {
    Arrival { flow: flow << 40, ..Arrival::of(class) }
}

#[test]
fn a_flow_refused_again_and_again_is_blocked_for_a_while() {
    let mut gate = blocking();
    let reasons: Vec<Verdict> =
        (0..5).map(|ms| gate.arrive(at(ms), from(SECOND, 7), || ())).collect();
    let (full, blocked) =
        (|| Verdict::Reject(Reason::QueueFull), || Verdict::Reject(Reason::Blocked));
    assert_eq!(reasons, [full(), full(), full(), blocked(), blocked()]);
    let refused = gate.refused(at(1002), &from(SECOND, 7), Reason::Blocked);
    assert_eq!(refused.wait, Duration::from_secs(4), "the rest of the while");
    assert_eq!(gate.arrive(at(5), from(SECOND, 8), || ()), full(), "another flow");
    // A body that is still to come is not read either, and that is counted as what it is.
    assert_eq!(gate.turn_away(at(1000), from(SECOND, 7)), Some(Reason::Blocked));
    assert_eq!(gate.turn_away(at(5002), from(SECOND, 7)), Some(Reason::QueueFull), "it is over");
    let counts = gate.account().classes[1].refused;
    assert_eq!((counts[Reason::Blocked.index()], counts[Reason::QueueFull.index()]), (3, 5));
}

#[test]
fn the_most_important_class_and_running_sessions_are_never_blocked() {
    let mut gate = blocking();
    let running = Arrival { running: true, ..from(SECOND, 7) };
    for ms in 0..100 {
        for arrival in [from(FIRST, 7), running] {
            assert_eq!(gate.arrive(at(ms), arrival, || ()), Verdict::Reject(Reason::QueueFull));
        }
    }
    // Nor does what they were refused count against the rest of the flow.
    assert_eq!(gate.arrive(at(100), from(SECOND, 7), || ()), Verdict::Reject(Reason::QueueFull));
    for _ in 0..2 {
        let _ = gate.arrive(at(100), from(SECOND, 7), || ());
    }
    assert_eq!(gate.arrive(at(100), from(SECOND, 7), || ()), Verdict::Reject(Reason::Blocked));
    assert_eq!(gate.arrive(at(100), from(FIRST, 7), || ()), Verdict::Reject(Reason::QueueFull));
    assert_eq!(gate.arrive(at(100), running, || ()), Verdict::Reject(Reason::QueueFull));
}

#[test]
fn the_only_class_is_not_spared() {
    let mut gate: Gate<()> = Gate::new(
        Spec { block: Some(BLOCK), ..plan(vec![class("only", 0)]) }.build().expect("a valid plan"),
    );
    let Verdict::Admit(_slot) = gate.arrive(at(0), Arrival::of(FIRST), || ()) else { panic!() };
    for _ in 0..3 {
        assert_eq!(gate.arrive(at(0), from(FIRST, 7), || ()), Verdict::Reject(Reason::QueueFull));
    }
    assert_eq!(gate.arrive(at(0), from(FIRST, 7), || ()), Verdict::Reject(Reason::Blocked));
}

#[test]
fn what_has_nothing_to_do_with_load_does_not_count() {
    let mut gate = blocking();
    for _ in 0..100 {
        gate.refuse(from(SECOND, 7), Reason::Rule);
        gate.refuse(from(SECOND, 7), Reason::OriginDown);
    }
    assert_eq!(gate.arrive(at(0), from(SECOND, 7), || ()), Verdict::Reject(Reason::QueueFull));
    gate.drain();
    for _ in 0..100 {
        assert_eq!(gate.arrive(at(0), from(SECOND, 7), || ()), Verdict::Reject(Reason::Draining));
    }
}

/// A wait that ends in a refusal counts when it ends.
#[test]
fn a_flow_whose_waits_expire_is_blocked_too() {
    let second = Class { deadline: Duration::from_secs(1), ..class("second", 10) };
    let mut gate = Gate::new(
        Spec { block: Some(BLOCK), ..plan(vec![class("first", 0), second]) }
            .build()
            .expect("a valid plan"),
    );
    let Verdict::Admit(_slot) = gate.arrive(at(0), Arrival::of(FIRST), || ()) else { panic!() };
    for _ in 0..3 {
        let verdict = gate.arrive(at(0), from(SECOND, 7), || ());
        assert!(matches!(verdict, Verdict::Queue(_)));
    }
    gate.tick(at(1000));
    assert_eq!(gate.arrive(at(1000), from(SECOND, 7), || ()), Verdict::Reject(Reason::Blocked));
}

#[test]
fn a_reload_keeps_blocked_flows_blocked_and_may_release_them() {
    let mut gate = blocking();
    for _ in 0..3 {
        let _ = gate.arrive(at(0), from(SECOND, 7), || ());
    }
    let arrival = from(SECOND, 7);
    let plan = gate.plan().clone();
    gate.reconfigure(at(1), plan.clone());
    assert_eq!(gate.arrive(at(1), arrival, || ()), Verdict::Reject(Reason::Blocked));
    let plan = Spec { block: None, ..(*plan).clone() };
    gate.reconfigure(at(2), plan.build().expect("a valid plan"));
    assert_eq!(gate.arrive(at(2), arrival, || ()), Verdict::Reject(Reason::QueueFull));
}

/// What became of the polite clients of [`impatience`], and of the impatient one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fates {
    polite_sent: u32,
    polite_served: u32,
    impatient_sent: u32,
    /// Of them, those that took a place in the queue, a slot or a token: what they cost the others.
    impatient_taken: u32,
}

/// Ten seconds of a server that does 100 requests a second, one at a time, and a queue of 20. Ninety
/// polite clients send one request a second each; one more, if `impatient`, sends 10,000 a second: a
/// hundred times what the server does.
fn impatience(impatient: bool, block: Option<block::Settings>) -> Fates {
    // Where flows take turns the impatient one has its own turn and no more, blocked or not.
    let second = Class { fair: false, ..class("second", 20) };
    let mut gate: Gate<usize> = Gate::new(
        Spec { block, ..plan(vec![class("first", 0), second]) }.build().expect("a valid plan"),
    );
    let mut fates = Fates::default();
    // In hundreds of microseconds: the impatient one sends in each, a slot lasts a hundred.
    let mut running: Option<(Slot, u64)> = None;
    let mut waiting: Vec<(Ticket, bool)> = Vec::new();
    for step in 0..100_000_u64 {
        let now = Moment::from_nanos(step * 100_000);
        if running.as_ref().is_some_and(|(_, until)| *until <= step) {
            let (slot, _) = running.take().expect("just seen");
            gate.finish(now, slot, SERVED);
        }
        let polite = (step % 111 == 0).then(|| (from(SECOND, 2 + step / 111 % 90), true));
        let other = impatient.then(|| (from(SECOND, 1), false));
        for (arrival, is_polite) in polite.into_iter().chain(other) {
            let verdict = gate.arrive(now, arrival, || 0);
            let taken = !matches!(verdict, Verdict::Reject(_));
            match is_polite {
                true => fates.polite_sent += 1,
                false => {
                    fates.impatient_sent += 1;
                    fates.impatient_taken += u32::from(taken);
                }
            }
            match verdict {
                Verdict::Admit(slot) => {
                    running = Some((slot, step + 100));
                    fates.polite_served += u32::from(is_polite);
                }
                Verdict::Queue(ticket) => waiting.push((ticket, is_polite)),
                Verdict::Reject(_) => {}
            }
        }
        while gate.next_effect().is_some() {}
        waiting.retain(|&(ticket, is_polite)| match gate.claim(ticket) {
            Claim::Waiting => true,
            Claim::Admitted(slot) => {
                running = Some((slot, step + 100));
                fates.polite_served += u32::from(is_polite);
                false
            }
            Claim::Rejected(_) => false,
        });
    }
    fates
}

#[test]
fn an_impatient_flow_at_a_hundred_times_the_capacity_costs_the_others_next_to_nothing() {
    let alone = impatience(false, None);
    assert!(alone.polite_sent - alone.polite_served <= 5, "they fit by themselves: {alone:?}");
    let unbridled = impatience(true, None);
    assert!(
        unbridled.polite_served * 10 < alone.polite_served,
        "without blocking it has every place: {unbridled:?}"
    );
    let block = block::Settings { after: 10, ..BLOCK };
    let blocked = impatience(true, Some(block));
    assert_eq!(blocked.impatient_sent, 100_000);
    // Twice in ten seconds it fills the queue until it has been refused ten times, and no more.
    assert!(blocked.impatient_taken <= 2 * 30, "{blocked:?}");
    let lost = alone.polite_served.saturating_sub(blocked.polite_served);
    assert!(lost <= 2 * 30, "as many as it took, at most: {blocked:?}");
}
