//! Background classes: nothing of them starts while anybody else waits, what is free stays free for the next, and a request of another
//! class is never refused or delayed for what waits in the background.

use proptest::prelude::*;
use std::time::Duration;
use tiergate_core::admit::trigger::{Backlogs, Trigger};
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::{Bounds, Slots};
use tiergate_core::gate::{
    Arrival, BackgroundBound, BackgroundState, Claim, Gate, Lends, Slot, Ticket, Verdict,
};
use tiergate_core::names::{Names, PoolId, ResourceId};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::{Plan, ResourceSettings, Spec};
use tiergate_core::reason::Reason;
use tiergate_core::schedule::{Policy, Site};
use tiergate_core::time::Moment;

const SITE: ClassId = ClassId(0);
const BATCH: ClassId = ClassId(1);
const DB: ResourceId = ResourceId(0);

fn at(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

fn class(name: &str) -> Class {
    Class {
        deadline: Duration::from_secs(3600),
        patience: false,
        fair: false,
        ..Class::named(name)
    }
}

fn spec(slots: Slots) -> Spec {
    let classes = vec![class("site"), Class { background: true, ..class("batch") }];
    Spec { classes, slots, ..Spec::protective() }
}

fn gate(slots: Slots) -> Gate<()> {
    Gate::new(spec(slots).build().expect("a valid plan"))
}

fn answered(now: Moment, slot: &Slot) -> Outcome {
    let first_byte = Some(now.since(slot.admitted()));
    Outcome { end: End::Served, first_byte, bytes: 0, left: None }
}

fn admitted(verdict: Verdict) -> Slot {
    match verdict {
        Verdict::Admit(slot) => slot,
        verdict => panic!("{verdict:?}"),
    }
}

fn queued(verdict: Verdict) -> Ticket {
    match verdict {
        Verdict::Queue(ticket) => ticket,
        verdict => panic!("{verdict:?}"),
    }
}

fn arrive(gate: &mut Gate<()>, now: Moment, class: ClassId) -> Verdict {
    gate.arrive(now, Arrival::of(class), || ())
}

/// Time passes in which somebody of the foreground is always there.
fn busy_for(gate: &mut Gate<()>, from: u64, ms: u64) {
    for now in (from..from + ms).step_by(100).map(at) {
        let slot = admitted(arrive(gate, now, SITE));
        let outcome = answered(now, &slot);
        gate.finish(now, slot, outcome);
        gate.tick(now);
    }
}

#[test]
fn it_leaves_slots_free_for_those_that_come_next() {
    let mut gate = gate(Slots::Fixed(16));
    // Nobody else has been there for a second: only the slots bound it.
    gate.tick(at(2000));
    let running: Vec<_> = (0..14).map(|_| admitted(arrive(&mut gate, at(2000), BATCH))).collect();
    let ticket = queued(arrive(&mut gate, at(2000), BATCH));
    let others: Vec<_> = (0..2).map(|_| admitted(arrive(&mut gate, at(2000), SITE))).collect();
    assert_eq!(gate.running(), 16);
    let waits = queued(arrive(&mut gate, at(2001), SITE));
    for (place, slot) in running.into_iter().enumerate() {
        let outcome = answered(at(2002), &slot);
        gate.finish(at(2002), slot, outcome);
        if place < 13 {
            assert_eq!(gate.claim(ticket), Claim::Waiting, "{place}: others are there");
        }
    }
    assert!(matches!(gate.claim(waits), Claim::Admitted(_)));
    assert!(matches!(gate.claim(ticket), Claim::Admitted(_)), "one may be in progress");
    let _ = others;
}

#[test]
fn a_server_of_one_slot_serves_it_when_nobody_else_is_there() {
    let mut gate = gate(Slots::Fixed(1));
    gate.tick(at(2000));
    let slot = admitted(arrive(&mut gate, at(2000), BATCH));
    let waits = queued(arrive(&mut gate, at(2001), SITE));
    let batch = queued(arrive(&mut gate, at(2001), BATCH));
    let outcome = answered(at(2010), &slot);
    gate.finish(at(2010), slot, outcome);
    let Claim::Admitted(slot) = gate.claim(waits) else { panic!("it is next") };
    assert_eq!(gate.claim(batch), Claim::Waiting);
    let outcome = answered(at(2020), &slot);
    gate.finish(at(2020), slot, outcome);
    // One may be in progress while others come, for part of the time.
    let Claim::Admitted(slot) = gate.claim(batch) else { panic!("nobody else waits") };
    let _ = slot;
}

#[test]
fn who_is_held_up_is_looked_at_again_in_time() {
    let mut gate = gate(Slots::Fixed(4));
    busy_for(&mut gate, 1000, 900);
    let running = admitted(arrive(&mut gate, at(1900), BATCH));
    let ticket = queued(arrive(&mut gate, at(1900), BATCH));
    // Within a second somebody may come again; then nobody is expected.
    let due = gate.next_due(at(1900));
    assert!(due <= at(2900), "{due:?}");
    gate.tick(at(2900));
    assert!(matches!(gate.claim(ticket), Claim::Admitted(_)));
    assert_eq!(gate.next_due(at(2900)), Moment::NEVER);
    let _ = running;
}

#[test]
fn what_it_may_have_is_told() {
    let mut gate = gate(Slots::Adaptive(Bounds::default()));
    busy_for(&mut gate, 1000, 900);
    let state = gate.pool(PoolId::DEFAULT).and_then(|pool| pool.background()).expect("there is");
    assert!(!state.is_quiet && state.running == 0 && state.most > 0.0, "{state:?}");
    gate.tick(at(10_000));
    let state = gate.pool(PoolId::DEFAULT).and_then(|pool| pool.background()).expect("there is");
    assert!(state.is_quiet, "{state:?}");
}

#[test]
fn it_takes_no_slots_of_a_limit_that_is_found_while_others_come() {
    let mut gate = gate(Slots::Adaptive(Bounds { slots_start: 4, ..Bounds::default() }));
    busy_for(&mut gate, 1000, 900);
    let batch = admitted(arrive(&mut gate, at(1900), BATCH));
    assert_eq!(gate.running(), 0, "it has none of them");
    let site: Vec<_> = (0..4).map(|_| admitted(arrive(&mut gate, at(1900), SITE))).collect();
    assert_eq!(gate.running(), 4);
    let waits = queued(arrive(&mut gate, at(1901), SITE));
    gate.finish(at(1902), batch, Outcome::without_answer(End::TimedOut));
    assert_eq!((gate.claim(waits), gate.running()), (Claim::Waiting, 4));
    for slot in site {
        let outcome = answered(at(1903), &slot);
        gate.finish(at(1903), slot, outcome);
    }
    assert!(matches!(gate.claim(waits), Claim::Admitted(_)));
    assert_eq!((gate.running(), gate.slots()), (1, 4));
}

#[test]
fn it_takes_slots_of_the_limit_while_it_is_quiet_and_gives_back_what_it_took() {
    let mut gate = gate(Slots::Adaptive(Bounds { slots_start: 4, ..Bounds::default() }));
    gate.tick(at(2000));
    let mut batch: Vec<_> = (0..3).map(|_| admitted(arrive(&mut gate, at(2000), BATCH))).collect();
    let waits = queued(arrive(&mut gate, at(2000), BATCH));
    assert_eq!(gate.running(), 3, "one stays free");
    let site = admitted(arrive(&mut gate, at(2001), SITE));
    assert_eq!(gate.running(), 4);
    for slot in batch.drain(..) {
        let outcome = answered(at(2002), &slot);
        gate.finish(at(2002), slot, outcome);
    }
    // Now others come: it is beside the limit.
    let Claim::Admitted(beside) = gate.claim(waits) else { panic!("one may be in progress") };
    assert_eq!(gate.running(), 1);
    for slot in [site, beside] {
        let outcome = answered(at(2003), &slot);
        gate.finish(at(2003), slot, outcome);
    }
    assert_eq!(gate.running(), 0);
}

#[test]
fn what_waits_in_it_is_nobodys_backlog() {
    let mut spec = spec(Slots::Fixed(1));
    spec.classes[0].refuse_at = vec![Trigger { of: Backlogs::All, waiting: 3, until: 1 }];
    spec.queue_len_max = 20;
    let mut gate: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
    let slot = admitted(arrive(&mut gate, at(0), SITE));
    let batch: Vec<_> = (0..20).map(|_| queued(arrive(&mut gate, at(0), BATCH))).collect();
    assert_eq!(arrive(&mut gate, at(0), BATCH), Verdict::Reject(Reason::QueueFull));
    let _first = queued(arrive(&mut gate, at(0), SITE));
    let _second = queued(arrive(&mut gate, at(0), SITE));
    let left = batch.iter().filter(|ticket| gate.claim(**ticket) == Claim::Waiting).count();
    assert_eq!(left, 18, "the newest made room");
    let _ = slot;
}

#[test]
fn a_policy_without_ranks_serves_it_last_all_the_same() {
    for policy in [Policy::Fifo, Policy::Weighted, Policy::Deadline] {
        let sites = vec![Site { policy, ..Site::named("all") }];
        let spec = Spec { sites, ..spec(Slots::Fixed(1)) };
        let mut gate: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
        let mut slot = admitted(arrive(&mut gate, at(0), SITE));
        let batch = queued(arrive(&mut gate, at(0), BATCH));
        for round in 1..20 {
            let waits = queued(arrive(&mut gate, at(round), SITE));
            let outcome = answered(at(round), &slot);
            gate.finish(at(round), slot, outcome);
            let Claim::Admitted(next) = gate.claim(waits) else { panic!("{policy:?}: it is next") };
            assert_eq!(gate.claim(batch), Claim::Waiting, "{policy:?}");
            slot = next;
        }
        let _ = slot;
    }
}

#[test]
fn it_needs_its_resource_too() {
    let db = |slots| ResourceSettings {
        name: "db".into(),
        pool: PoolId::DEFAULT,
        slots: Slots::Fixed(slots),
    };
    let spec = Spec { resources: vec![db(2)], ..spec(Slots::Fixed(16)) };
    let mut gate: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
    gate.tick(at(2000));
    let needing = |class| Arrival { resource: Some(DB), ..Arrival::of(class) };
    let mut slots: Vec<Slot> =
        (0..2).map(|_| admitted(gate.arrive(at(2000), needing(BATCH), || ()))).collect();
    let ticket = queued(gate.arrive(at(2000), needing(BATCH), || ()));
    let plain = admitted(arrive(&mut gate, at(2000), BATCH));
    let slot = slots.pop().expect("two");
    let outcome = answered(at(2001), &slot);
    gate.finish(at(2001), slot, outcome);
    assert!(matches!(gate.claim(ticket), Claim::Admitted(_)));
    let _ = (slots, plain);
}

#[test]
fn what_holds_a_resource_holds_a_slot_of_the_limit() {
    let slots = Slots::Adaptive(Bounds { slots_start: 8, ..Bounds::default() });
    let db = ResourceSettings { name: "db".into(), pool: PoolId::DEFAULT, slots: Slots::Fixed(2) };
    let spec = Spec { resources: vec![db], ..spec(slots) };
    let mut gate: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
    busy_for(&mut gate, 1000, 900);
    let needing = Arrival { resource: Some(DB), ..Arrival::of(BATCH) };
    let batch = admitted(gate.arrive(at(1900), needing, || ()));
    assert!(!batch.is_beside() && gate.running() == 1, "others wait for what it holds");
    let outcome = answered(at(1901), &batch);
    gate.finish(at(1901), batch, outcome);
    let batch = admitted(arrive(&mut gate, at(1902), BATCH));
    assert!(batch.is_beside() && gate.running() == 0);
    gate.finish(at(1903), batch, Outcome::without_answer(End::Cancelled));
}

#[test]
fn what_is_beside_the_limit_is_no_matter_of_shares() {
    let slots = Slots::Adaptive(Bounds { slots_start: 4, ..Bounds::default() });
    let mut spec = spec(slots);
    spec.classes.insert(0, Class { share: 0.6, reserve: 0.5, ..class("gold") });
    spec.classes[1].share = 0.4;
    spec.sites = vec![Site { policy: Policy::Shared, ..Site::named("all") }];
    let mut gate: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
    let (gold, basic, batch) = (ClassId(0), ClassId(1), ClassId(2));
    busy_for(&mut gate, 1000, 900);
    // As many as the two slots that no reserve keeps.
    let mut beside = Vec::new();
    for ms in 1900..30_000 {
        if beside.len() == 2 {
            break;
        }
        if let Verdict::Admit(slot) = arrive(&mut gate, at(ms), batch) {
            beside.push(slot);
        }
        if ms % 10 == 0 {
            let slot = admitted(arrive(&mut gate, at(ms), gold));
            let outcome = answered(at(ms), &slot);
            gate.finish(at(ms), slot, outcome);
        }
    }
    assert!(beside.iter().all(Slot::is_beside) && !beside.is_empty(), "{beside:?}");
    let basics: Vec<_> = (0..2).map(|_| admitted(arrive(&mut gate, at(30_000), basic))).collect();
    assert_eq!(gate.running(), 2);
    for slot in beside.into_iter().chain(basics) {
        let outcome = answered(at(30_001), &slot);
        gate.finish(at(30_001), slot, outcome);
    }
    assert_eq!(gate.running(), 0);
}

/// What needs a database of two places takes the longer the more of the background is there, and few requests need it.
#[test]
fn the_class_that_bounds_it_is_named_until_it_is_of_the_background_itself() {
    let (site, checkout, batch) = (ClassId(0), ClassId(1), ClassId(2));
    let plan = |background: bool| {
        let slots = Slots::Adaptive(Bounds::default());
        let checkout = Class { background, ..class("checkout") };
        let classes = vec![class("site"), checkout, Class { background: true, ..class("batch") }];
        Spec { classes, ..spec(slots) }.build().expect("a valid plan")
    };
    let mut gate: Gate<()> = Gate::new(plan(false));
    let is_bounded = |gate: &Gate<()>| {
        let pool = gate.pool(PoolId::DEFAULT).expect("there is one");
        let state = pool.background().expect("the plan has one");
        state.bounded_by == Some(BackgroundBound::Class(checkout))
    };
    let mut running: Vec<(u64, Slot)> = Vec::new();
    let mut waits = None;
    let mut named = 0;
    for ms in 0..120_000 {
        let (over, rest) = running.into_iter().partition(|(ends, _)| *ends <= ms);
        running = rest;
        for (_, slot) in over {
            let outcome = answered(at(ms), &slot);
            gate.finish(at(ms), slot, outcome);
        }
        gate.tick(at(ms));
        let ticket = waits.take().or_else(|| match arrive(&mut gate, at(ms), batch) {
            Verdict::Admit(slot) => {
                running.push((ms + 50, slot));
                None
            }
            verdict => Some(queued(verdict)),
        });
        if let Some(ticket) = ticket {
            match gate.claim(ticket) {
                Claim::Admitted(slot) => running.push((ms + 50, slot)),
                _ => waits = Some(ticket),
            }
        }
        let crowd = running.iter().filter(|(_, slot)| slot.is_beside()).count() as u64;
        for (class, every, takes) in [(site, 25, 20), (checkout, 500, 20 * crowd.max(1))] {
            if ms % every == 0 {
                running.push((ms + takes, admitted(arrive(&mut gate, at(ms), class))));
            }
        }
        while gate.next_effect().is_some() {}
        named += u32::from(is_bounded(&gate));
        if named > 10_000 && is_bounded(&gate) {
            break;
        }
    }
    assert!(is_bounded(&gate), "named for {named} ms");
    gate.reconfigure(at(120_000), plan(true));
    assert!(!is_bounded(&gate));
}

fn background(gate: &Gate<()>) -> BackgroundState {
    let pool = gate.pool(PoolId::DEFAULT).expect("there is one");
    pool.background().expect("there is one")
}

/// So many times, at a time of their own each, the origin fails what there is of the background: half as much may be in progress each time.
fn fails(gate: &mut Gate<()>, from: u64, times: u64) -> u64 {
    let mut now = from;
    for _ in 0..times {
        let ticket = match arrive(gate, at(now), BATCH) {
            Verdict::Queue(ticket) => ticket,
            Verdict::Admit(slot) => {
                gate.finish(at(now), slot, Outcome::without_answer(End::Failed));
                busy_for(gate, now + 1, 4_000);
                now += 4_001;
                continue;
            }
            Verdict::Reject(reason) => panic!("{reason:?}"),
        };
        busy_for(gate, now + 1, 20_000);
        now += 20_001;
        let Claim::Admitted(slot) = gate.claim(ticket) else { panic!("at {now}") };
        gate.finish(at(now), slot, Outcome::without_answer(End::Failed));
    }
    now
}

/// Many origins have given it a worker, and another one of the background would take the next.
#[test]
fn an_upload_of_it_keeps_its_place_while_its_client_sends() {
    let mut gate = gate(Slots::Adaptive(Bounds { slots_start: 4, ..Bounds::default() }));
    busy_for(&mut gate, 1000, 900);
    let now = fails(&mut gate, 1900, 3) + 20_000;
    busy_for(&mut gate, now - 19_999, 19_900);
    assert!(background(&gate).most < 0.5, "{:?}", background(&gate));
    let mut upload = match arrive(&mut gate, at(now), BATCH) {
        Verdict::Admit(slot) => slot,
        verdict => panic!("{verdict:?} {:?}", background(&gate)),
    };
    let outcome = answered(at(now + 1), &upload);
    assert!(gate.lend(at(now + 1), &mut upload, Lends::Sends, &outcome));
    assert!(upload.is_beside() && gate.lent() == 1);
    let next = queued(arrive(&mut gate, at(now + 2), BATCH));
    busy_for(&mut gate, now + 3, 60_000);
    assert_eq!((gate.claim(next), background(&gate).running), (Claim::Waiting, 1));
    let (back, end) = (Arrival::of(BATCH), now + 60_003);
    assert_eq!(gate.comes_back(at(end), &mut upload, &back, || ()), None, "it need not wait");
    assert_eq!((gate.lent(), upload.admitted()), (0, at(end)));
    assert_eq!(upload.waited(), Duration::ZERO, "what its client took is no wait");
    gate.finish(at(end + 1), upload, outcome);
    // Its wait for its client is not paid for: at this pace that would take minutes.
    busy_for(&mut gate, end + 2, 10_000);
    let Claim::Admitted(next) = gate.claim(next) else { panic!("{:?}", background(&gate)) };
    gate.finish(at(end + 20_000), next, outcome);
    assert_eq!(gate.pool(PoolId::DEFAULT).map(|it| it.state(BATCH).requests), Some(0));
}

/// It has a slot of the limit, which others could have meanwhile, as that of any other class.
#[test]
fn an_upload_of_it_that_began_while_it_was_quiet_lends_its_slot() {
    let mut gate = gate(Slots::Adaptive(Bounds { slots_start: 4, ..Bounds::default() }));
    gate.tick(at(2000));
    let mut upload = admitted(arrive(&mut gate, at(2000), BATCH));
    let outcome = answered(at(2001), &upload);
    assert!(!upload.is_beside());
    assert!(gate.lend(at(2001), &mut upload, Lends::Sends, &outcome));
    assert_eq!((gate.running(), gate.lent()), (0, 1));
    let back = Arrival::of(BATCH);
    let own = gate.comes_back(at(2002), &mut upload, &back, || ()).map(admitted);
    gate.give_up(at(2002), upload);
    assert_eq!((gate.running(), gate.lent()), (1, 0));
    gate.finish(at(2003), own.expect("it is lent"), outcome);
    assert_eq!((gate.running(), gate.lent()), (0, 0));
}

#[test]
fn a_slow_upload_of_it_ends_once_others_of_it_wait_also_if_it_is_lent() {
    let mut gate = gate(Slots::Adaptive(Bounds { slots_start: 4, ..Bounds::default() }));
    busy_for(&mut gate, 1000, 900);
    let mut upload = admitted(arrive(&mut gate, at(1900), BATCH));
    let outcome = answered(at(1901), &upload);
    assert!(gate.lend(at(1901), &mut upload, Lends::Sends, &outcome));
    gate.slows(at(1902), &mut upload, ());
    assert!(!gate.lend(at(1903), &mut upload, Lends::Sends, &outcome), "it could not be ended");
    let next = queued(arrive(&mut gate, at(1904), BATCH));
    busy_for(&mut gate, 1905, 12_000);
    assert!(gate.is_to_end(&upload));
    gate.finish(at(13_905), upload, Outcome::without_answer(End::Cancelled));
    busy_for(&mut gate, 13_906, 5_000);
    assert!(matches!(gate.claim(next), Claim::Admitted(_)));
}

/// The origin may work on it.
#[test]
fn what_was_not_answered_in_time_is_in_progress_for_as_long_again() {
    for (end, goes_on) in [(End::TimedOut, 1), (End::Failed, 0)] {
        let mut gate = gate(Slots::Adaptive(Bounds::default()));
        busy_for(&mut gate, 1000, 900);
        let slot = admitted(arrive(&mut gate, at(1900), BATCH));
        busy_for(&mut gate, 1901, 2_999);
        gate.finish(at(4900), slot, Outcome::without_answer(end));
        busy_for(&mut gate, 4901, 2_900);
        assert_eq!(background(&gate).running, goes_on);
        busy_for(&mut gate, 7900, 100);
        assert_eq!(background(&gate).running, 0);
    }
}

/// Else each of their pages would find all of the origin in use.
#[test]
fn those_who_come_a_page_at_a_time_are_expected_for_longer() {
    for (apart, expected) in [(5_000, 15_000), (12_000, 36_000), (40_000, 10_000)] {
        let mut gate = gate(Slots::Adaptive(Bounds::default()));
        let mut now = 1_000;
        for _ in 0..20 {
            busy_for(&mut gate, now, 500);
            now += 500 + apart;
        }
        let last = now - apart - 100;
        let quiet_at = (0..60_000).step_by(100).find(|after| {
            gate.tick(at(last + after));
            background(&gate).is_quiet
        });
        let lull = expected - 1_000..=expected + 1_000;
        assert!(quiet_at.is_some_and(|at| lull.contains(&at)), "{apart}: {quiet_at:?}");
    }
}

/// One at a time may be in progress: without it the others would wait until the download is over.
#[test]
fn a_long_download_does_not_keep_the_others_of_it_from_the_origin() {
    let mut gate = gate(Slots::Adaptive(Bounds { slots_start: 16, ..Bounds::default() }));
    busy_for(&mut gate, 1000, 900);
    let mut downloads = Vec::new();
    let mut next = arrive(&mut gate, at(1900), BATCH);
    let first_byte = Some(Duration::from_millis(1));
    let given = Outcome { end: End::Served, first_byte, bytes: 0, left: None };
    for place in 0..3 {
        let mut download = admitted(next);
        let ticket = queued(arrive(&mut gate, at(1901), BATCH));
        assert_eq!(gate.claim(ticket), Claim::Waiting, "one may be in progress");
        let is_lent = gate.lend(at(1902), &mut download, Lends::Takes, &given);
        // As many as an eighth of the slots.
        assert_eq!((is_lent, gate.lent()), (place < 2, 2.min(place + 1)));
        assert!(!gate.lend(at(1902), &mut download, Lends::Takes, &given), "once");
        downloads.push(download);
        match gate.claim(ticket) {
            Claim::Admitted(slot) if is_lent => next = Verdict::Admit(slot),
            Claim::Waiting if !is_lent => break,
            claim => panic!("{place}: {claim:?}"),
        }
    }
    assert!(downloads.iter().all(Slot::is_beside));
    // Another may be lent when one is over.
    let mut last = downloads.pop().expect("three");
    let mut over = downloads.into_iter();
    gate.finish(at(1903), over.next().expect("lent"), given);
    assert_eq!(gate.lent(), 1);
    assert!(gate.lend(at(1904), &mut last, Lends::Takes, &given));
    for slot in over.chain([last]) {
        gate.finish(at(1905), slot, given);
    }
    let pool = gate.pool(PoolId::DEFAULT).expect("there is one");
    assert_eq!((gate.lent(), pool.state(BATCH).requests), (0, 1), "the one that waited");
}

#[test]
fn few_of_it_are_lent_also_where_they_have_slots_of_the_limit() {
    let mut gate = gate(Slots::Adaptive(Bounds { slots_start: 16, ..Bounds::default() }));
    // It is quiet.
    gate.tick(at(2000));
    let running: Vec<_> = (0..4).map(|_| admitted(arrive(&mut gate, at(2000), BATCH))).collect();
    let given = answered(at(2001), &running[0]);
    let mut lent = 0;
    let mut downloads = Vec::new();
    for mut download in running {
        assert!(!download.is_beside());
        lent += u32::from(gate.lend(at(2001), &mut download, Lends::Takes, &given));
        downloads.push(download);
    }
    assert_eq!((lent, gate.lent(), gate.running()), (2, 2, 2));
    for download in downloads {
        gate.finish(at(2002), download, given);
    }
    assert_eq!((gate.lent(), gate.running()), (0, 0));
}

#[test]
fn a_stream_of_it_keeps_its_slot() {
    let mut gate = gate(Slots::Fixed(4));
    let upgraded = Outcome::without_answer(End::Upgraded);
    let slot = admitted(arrive(&mut gate, at(2000), SITE));
    let stream = gate.stream(at(2001), slot, upgraded).expect("it is not of the background");
    gate.stream_ended(stream);
    gate.tick(at(4000));
    let slot = admitted(arrive(&mut gate, at(4000), BATCH));
    let slot = gate.stream(at(4001), slot, upgraded).expect_err("it is");
    assert_eq!(gate.running(), 1);
    gate.finish(at(4002), slot, upgraded);
}

/// One at a time may be in progress.
#[test]
fn a_slow_client_of_it_ends_once_others_of_it_wait() {
    let adaptive = Slots::Adaptive(Bounds { slots_start: 4, ..Bounds::default() });
    for slots in [adaptive, Slots::Fixed(4)] {
        let mut gate = gate(slots);
        busy_for(&mut gate, 1000, 900);
        let mut slow = admitted(arrive(&mut gate, at(1900), BATCH));
        gate.slows(at(1900), &mut slow, ());
        assert!(!gate.is_to_end(&slow), "it is in nobody's way");
        let others = [0, 1].map(|_| queued(arrive(&mut gate, at(1901), BATCH)));
        busy_for(&mut gate, 1902, 9_900);
        assert!(!gate.is_to_end(&slow), "a client may pause");
        busy_for(&mut gate, 11_900, 200);
        assert!(gate.is_to_end(&slow) && gate.next_effect().is_some());
        gate.finish(at(12_100), slow, Outcome::without_answer(End::Cancelled));
        busy_for(&mut gate, 12_101, 60_000);
        let Claim::Admitted(next) = gate.claim(others[0]) else { panic!("it is next") };
        assert!(!gate.is_to_end(&next), "it is not slow");
        let _ = next;
    }
}

/// Nobody could begin in its place.
#[test]
fn a_slow_client_of_it_is_not_ended_for_others_that_wait_for_the_end_of_a_rest() {
    let mut gate = gate(Slots::Adaptive(Bounds { slots_start: 4, ..Bounds::default() }));
    busy_for(&mut gate, 1000, 900);
    let mut slow = admitted(arrive(&mut gate, at(1900), BATCH));
    let mut now = 1900;
    while background(&gate).rests_until.is_none() {
        busy_for(&mut gate, now, 100);
        now += 100;
        assert!(now < 600_000, "it never rests");
    }
    gate.slows(at(now), &mut slow, ());
    let _next = queued(arrive(&mut gate, at(now), BATCH));
    busy_for(&mut gate, now, 15_000);
    assert!(background(&gate).rests_until.is_some() && !gate.is_to_end(&slow));
    busy_for(&mut gate, now + 15_000, 60_000);
    assert!(gate.is_to_end(&slow), "it is over");
}

/// What a slow client held is no work that the others of the background have to pay for by waiting.
#[test]
fn others_of_it_are_served_soon_after_a_slow_client_is_gone() {
    let mut gate = gate(Slots::Adaptive(Bounds { slots_start: 4, ..Bounds::default() }));
    busy_for(&mut gate, 1000, 900);
    let mut slow = admitted(arrive(&mut gate, at(1900), BATCH));
    gate.slows(at(1900), &mut slow, ());
    // While nobody else of it is there, it may stay.
    busy_for(&mut gate, 1901, 120_000);
    gate.finish(at(121_901), slow, Outcome::without_answer(End::Cancelled));
    let is_served = match arrive(&mut gate, at(121_902), BATCH) {
        Verdict::Admit(_) => true,
        verdict => {
            let ticket = queued(verdict);
            busy_for(&mut gate, 121_903, 5_000);
            matches!(gate.claim(ticket), Claim::Admitted(_))
        }
    };
    assert!(is_served, "it waits for what the slow one had");
}

#[test]
fn what_waits_for_its_client_no_more_is_in_progress() {
    let mut gate = gate(Slots::Adaptive(Bounds { slots_start: 4, ..Bounds::default() }));
    busy_for(&mut gate, 1000, 900);
    let mut download = admitted(arrive(&mut gate, at(1900), BATCH));
    let given = answered(at(1901), &download);
    assert!(!gate.resume(at(1901), &mut download), "it is");
    assert!(gate.lend(at(1901), &mut download, Lends::Takes, &given));
    let running = |gate: &Gate<()>| {
        let pool = gate.pool(PoolId::DEFAULT).expect("there is one");
        pool.background().expect("there is one").running
    };
    assert_eq!((running(&gate), gate.lent()), (0, 1));
    assert!(gate.resume(at(1902), &mut download));
    assert_eq!((running(&gate), gate.lent()), (1, 0));
    let ticket = queued(arrive(&mut gate, at(1902), BATCH));
    assert!(gate.lend(at(1903), &mut download, Lends::Takes, &given));
    let Claim::Admitted(next) = gate.claim(ticket) else { panic!("there is room") };
    // Beyond what may be.
    assert!(gate.resume(at(1904), &mut download));
    assert_eq!((running(&gate), gate.lent()), (2, 0));
    for slot in [download, next] {
        gate.finish(at(1905), slot, given);
    }
    assert_eq!((running(&gate), gate.lent()), (0, 0));
}

/// The limit after a minute before a server of so many workers, which a hundred clients of the foreground ask again and again.
fn found(workers: usize, with_one_that_lasts: bool) -> u32 {
    let mut gate = gate(Slots::Adaptive(Bounds::default()));
    busy_for(&mut gate, 1000, 900);
    let lasting = with_one_that_lasts.then(|| admitted(arrive(&mut gate, at(1900), BATCH)));
    let mut random = fastrand::Rng::with_seed(7);
    let mut running: Vec<(u64, Slot)> = Vec::new();
    let mut waiting: Vec<Ticket> = Vec::new();
    for ms in 2000..62_000 {
        let now = at(ms);
        let ended = running.extract_if(.., |(ends, _)| *ends <= ms).collect::<Vec<_>>();
        for (_, slot) in ended {
            let outcome = answered(now, &slot);
            gate.finish(now, slot, outcome);
        }
        gate.tick(now);
        let mut begins = Vec::new();
        waiting.retain(|ticket| match gate.claim(*ticket) {
            Claim::Admitted(slot) => {
                begins.push(slot);
                false
            }
            _ => true,
        });
        while running.len() + begins.len() + waiting.len() < 100 {
            match arrive(&mut gate, now, SITE) {
                Verdict::Admit(slot) => begins.push(slot),
                Verdict::Queue(ticket) => waiting.push(ticket),
                verdict => panic!("{verdict:?}"),
            }
        }
        for slot in begins {
            // More than there are workers wait for each other.
            let crowd = (running.len() + 1).max(workers) as f64 / workers as f64;
            let takes = 20.0 * crowd * (0.5 + random.f64());
            running.push((ms + takes as u64, slot));
        }
    }
    let _ = lasting;
    gate.slots()
}

#[test]
fn one_that_lasts_does_not_keep_the_limit_from_being_found() {
    let (alone, beside) = (found(40, false), found(40, true));
    assert!(alone > 25, "otherwise this test says nothing: {alone}");
    assert!(f64::from(beside) > 0.7 * f64::from(alone), "{beside} instead of {alone}");
}

#[test]
fn what_a_plan_may_say_of_it() {
    let fault = |change: &dyn Fn(&mut Spec)| {
        let mut spec = spec(Slots::Fixed(4));
        change(&mut spec);
        spec.build().expect_err("it is wrong").to_string()
    };
    assert!(
        fault(&|it| it.classes[0].background = true).contains("must not be a background class")
    );
    assert!(fault(&|it| it.classes.reverse()).contains("comes after all others"));
    assert!(fault(&|it| it.classes[1].minimum = 0.1).contains("sure of nothing"));
    assert!(fault(&|it| it.classes[1].share = 0.1).contains("sure of nothing"));
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Arrive {
        background: bool,
        needs: bool,
    },
    Finish(u8, End),
    Cancel(u8),
    /// It waits for its client, or does not any more.
    Lend(u8, bool),
    Resume(u8),
    Back(u8),
    Slow(u8),
    Moved,
    Tick(u16),
    /// The batch class is of the background, or is not.
    Reload(bool),
}

fn op() -> impl Strategy<Value = Op> {
    let arrive = (any::<bool>(), any::<bool>());
    let end = prop::sample::select(vec![End::Served, End::Failed, End::TimedOut, End::Cancelled]);
    prop_oneof![
        6 => arrive.prop_map(|(background, needs)| Op::Arrive { background, needs }),
        4 => (any::<u8>(), end).prop_map(|(place, end)| Op::Finish(place, end)),
        1 => any::<u8>().prop_map(Op::Cancel),
        2 => any::<(u8, bool)>().prop_map(|(place, sends)| Op::Lend(place, sends)),
        1 => any::<u8>().prop_map(Op::Resume),
        1 => any::<u8>().prop_map(Op::Back),
        1 => Just(Op::Moved),
        1 => any::<u8>().prop_map(Op::Slow),
        2 => (0u16..1500).prop_map(Op::Tick),
        1 => any::<bool>().prop_map(Op::Reload),
    ]
}

proptest! {
    /// Whatever happens: everybody who waits is counted, nothing of the background starts while others wait, and in the end, when nothing
    /// else comes, all of it is served.
    #[test]
    fn nothing_starts_before_others_and_nothing_is_lost(
        slots in 1u32..6,
        is_adaptive: bool,
        ops in prop::collection::vec(op(), 1..120),
    ) {
        let given = match is_adaptive {
            true => Slots::Adaptive(Bounds { slots_start: slots, ..Bounds::default() }),
            false => Slots::Fixed(slots),
        };
        let mut names = Names::default();
        let mut plan = |background: bool| -> Plan {
            let mut spec = spec(given.clone());
            spec.classes[1].background = background;
            spec.resources = vec![ResourceSettings {
                name: "db".into(),
                pool: PoolId::DEFAULT,
                slots: Slots::Fixed(1),
            }];
            Plan::build(spec, &mut names).expect("a valid plan")
        };
        let mut gate: Gate<()> = Gate::new(plan(true));
        let (mut now, mut is_background) = (0u64, true);
        let mut waiting: Vec<(bool, bool, Ticket)> = Vec::new();
        let mut running: Vec<Slot> = Vec::new();
        for op in ops {
            let free_waits = |waiting: &[(bool, bool, Ticket)]| {
                waiting.iter().any(|(background, needs, _)| !background && !needs)
            };
            match op {
                Op::Arrive { background, needs } => {
                    let class = if background { BATCH } else { SITE };
                    let resource = needs.then_some(DB);
                    let arrival = Arrival { resource, ..Arrival::of(class) };
                    match gate.arrive(at(now), arrival, || ()) {
                        Verdict::Admit(slot) => {
                            let goes_before =
                                background && is_background && free_waits(&waiting);
                            prop_assert!(!goes_before, "others wait");
                            running.push(slot);
                        }
                        Verdict::Queue(ticket) => waiting.push((background, needs, ticket)),
                        Verdict::Reject(reason) => prop_assert!(false, "{reason:?}"),
                    }
                }
                Op::Finish(place, end) if !running.is_empty() => {
                    let slot = running.swap_remove(usize::from(place) % running.len());
                    let outcome = Outcome { end, ..answered(at(now), &slot) };
                    gate.finish(at(now), slot, outcome);
                }
                Op::Cancel(place) if !waiting.is_empty() => {
                    let (_, _, ticket) = waiting.swap_remove(usize::from(place) % waiting.len());
                    gate.cancel(at(now), ticket);
                }
                Op::Lend(place, sends) if !running.is_empty() => {
                    let lends = if sends { Lends::Sends } else { Lends::Takes };
                    let place = usize::from(place) % running.len();
                    let slot = &mut running[place];
                    let outcome = answered(at(now), slot);
                    gate.lend(at(now), slot, lends, &outcome);
                }
                Op::Resume(place) if !running.is_empty() => {
                    let place = usize::from(place) % running.len();
                    gate.resume(at(now), &mut running[place]);
                }
                Op::Back(place) if !running.is_empty() => {
                    let place = usize::from(place) % running.len();
                    let slot = &mut running[place];
                    let arrival = Arrival::of(BATCH);
                    match gate.comes_back(at(now), slot, &arrival, || ()) {
                        None => {}
                        Some(Verdict::Admit(own)) => {
                            gate.give_up(at(now), std::mem::replace(slot, own));
                        }
                        Some(Verdict::Queue(ticket)) => gate.cancel(at(now), ticket),
                        Some(verdict) => prop_assert!(false, "{verdict:?}"),
                    }
                }
                Op::Moved => gate.moved(at(now), PoolId::DEFAULT),
                Op::Slow(place) if !running.is_empty() => {
                    let place = usize::from(place) % running.len();
                    gate.slows(at(now), &mut running[place], ());
                }
                Op::Tick(ms) => {
                    now += u64::from(ms);
                    gate.tick(at(now));
                }
                Op::Reload(background) => {
                    is_background = background;
                    gate.reconfigure(at(now), plan(background));
                }
                _ => {}
            }
            while gate.next_effect().is_some() {}
            let mut still = Vec::new();
            let mut started = Vec::new();
            for entry in std::mem::take(&mut waiting) {
                match gate.claim(entry.2) {
                    Claim::Waiting => still.push(entry),
                    Claim::Admitted(slot) => started.push((entry.0, slot)),
                    Claim::Rejected(reason) => prop_assert!(false, "{reason:?}"),
                }
            }
            let is_before = is_background && started.iter().any(|(background, _)| *background);
            prop_assert!(!(is_before && free_waits(&still)), "others wait");
            running.extend(started.into_iter().map(|(_, slot)| slot));
            waiting = still;
            let pool = gate.pool(PoolId::DEFAULT).expect("there is one");
            prop_assert_eq!(pool.waiting(), waiting.len());
            let [site, batch] = [SITE, BATCH].map(|class| pool.state(class));
            prop_assert_eq!((site.waiting + batch.waiting) as usize, waiting.len());
            // Slots may be lent.
            prop_assert_eq!(site.requests + batch.requests, running.len() as u32);
            prop_assert!(gate.running() <= site.running + batch.running);
        }
        // Nobody else comes.
        for _ in 0..10_000 {
            now += 100;
            for slot in running.drain(..) {
                let outcome = answered(at(now), &slot);
                gate.finish(at(now), slot, outcome);
            }
            gate.tick(at(now));
            while gate.next_effect().is_some() {}
            waiting.retain(|(_, _, ticket)| match gate.claim(*ticket) {
                Claim::Waiting => true,
                Claim::Admitted(slot) => {
                    running.push(slot);
                    false
                }
                Claim::Rejected(_) => false,
            });
            if waiting.is_empty() && running.is_empty() {
                break;
            }
        }
        prop_assert_eq!((waiting.len(), running.len(), gate.running()), (0, 0, 0));
        prop_assert_eq!(gate.lent(), 0);
        now += 600_000;
        gate.tick(at(now));
        let pool = gate.pool(PoolId::DEFAULT).expect("there is one");
        prop_assert!(pool.background().is_none_or(|it| it.running == 0));
    }
}
