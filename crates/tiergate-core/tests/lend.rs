//! Slots that are lent while requests wait for their clients.

use std::time::Duration;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::{Bounds, Slots};
use tiergate_core::gate::{Arrival, Claim, ClientTime, Gate, Lends, Slot, Ticket, Verdict};
use tiergate_core::names::PoolId;
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;

const SERVED: Outcome = Outcome::without_answer(End::Served);

fn at(ms: u64) -> Moment {
    Moment::ZERO + Duration::from_millis(ms)
}

fn gate(slots: Slots) -> Gate<()> {
    let spec = Spec { classes: vec![Class::named("all")], slots, ..Spec::protective() };
    Gate::new(spec.build().expect("a valid plan"))
}

fn adaptive(slots: u32) -> Gate<()> {
    gate(Slots::Adaptive(Bounds { slots_start: slots, slots_min: slots, ..Bounds::default() }))
}

fn arrive(gate: &mut Gate<()>, ms: u64) -> Verdict {
    gate.arrive(at(ms), Arrival::of(ClassId(0)), || ())
}

fn admitted(gate: &mut Gate<()>, ms: u64) -> Slot {
    match arrive(gate, ms) {
        Verdict::Admit(slot) => slot,
        other => panic!("{other:?}"),
    }
}

fn comes_back(gate: &mut Gate<()>, ms: u64, slot: &mut Slot, class: u16) -> Option<Verdict> {
    gate.comes_back(at(ms), slot, &Arrival::of(ClassId(class)), || ())
}

#[test]
fn an_upload_whose_slot_is_lent_waits_for_one_before_it_is_sent_whole() {
    let mut gate = adaptive(1);
    let mut slot = admitted(&mut gate, 0);
    let Verdict::Queue(ticket) = arrive(&mut gate, 10) else { panic!("it waits") };
    assert!(gate.lend(at(600), &mut slot, Lends::Sends, &SERVED));
    assert!(!gate.lend(at(600), &mut slot, Lends::Sends, &SERVED), "once");
    let Claim::Admitted(next) = gate.claim(ticket) else { panic!("the slot went to it") };
    assert_eq!((gate.running(), gate.lent()), (1, 1));
    let Some(Verdict::Queue(again)) = comes_back(&mut gate, 900, &mut slot, 0) else {
        panic!("none is free")
    };
    assert_eq!((gate.running(), gate.waiting(), gate.lent()), (1, 1, 1));
    gate.finish(at(950), next, SERVED);
    let Claim::Admitted(mut own) = gate.claim(again) else { panic!("its turn") };
    gate.give_up(at(950), slot);
    assert_eq!((gate.running(), gate.lent()), (1, 0));
    assert_eq!(own.admitted(), at(950), "its time at the origin begins now");
    assert_eq!(own.waited(), Duration::from_millis(50), "what its client took is no wait");
    assert_eq!(comes_back(&mut gate, 960, &mut own, 0), None, "it is not lent");
    gate.finish(at(1_000), own, SERVED);
    assert_eq!((gate.running(), gate.waiting()), (0, 0));
    let account = &gate.account().classes[0];
    assert_eq!((account.arrived, account.finished_total()), (2, 2), "each is counted once");
    assert_eq!((account.admitted_at_once, account.queued), (1, 1));
    assert_eq!(gate.state(ClassId(0)), Default::default());
}

#[test]
fn an_upload_gets_a_free_slot_at_once() {
    let mut gate = adaptive(1);
    let mut slot = admitted(&mut gate, 0);
    assert!(gate.lend(at(600), &mut slot, Lends::Sends, &SERVED));
    let Some(Verdict::Admit(own)) = comes_back(&mut gate, 900, &mut slot, 0) else {
        panic!("free")
    };
    gate.give_up(at(900), slot);
    assert_eq!((gate.running(), gate.lent(), gate.state(ClassId(0)).requests), (1, 0, 1));
    gate.finish(at(950), own, SERVED);
    assert_eq!(gate.state(ClassId(0)), Default::default());
}

/// Uploads of the class below that have all been sent, and one of the class above that waits, at one slot that is in use.
fn uploads_that_come_back(count: usize) -> (Gate<()>, Slot, Vec<(Slot, Ticket)>, Ticket) {
    let classes = vec![Class::named("above"), Class::named("below")];
    let slots = Slots::Adaptive(Bounds { slots_start: 1, slots_min: 1, ..Bounds::default() });
    let spec = Spec { classes, slots, ..Spec::protective() };
    let mut gate: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
    let of = |gate: &mut Gate<()>, class| gate.arrive(at(0), Arrival::of(ClassId(class)), || ());
    let uploads: Vec<_> = (0..count)
        .map(|_| {
            let Verdict::Admit(mut slot) = of(&mut gate, 1) else { panic!("it is free") };
            assert!(gate.lend(at(0), &mut slot, Lends::Sends, &SERVED));
            slot
        })
        .collect();
    let Verdict::Admit(busy) = of(&mut gate, 0) else { panic!("it is free") };
    let mut come = |mut slot| match comes_back(&mut gate, 10, &mut slot, 1) {
        Some(Verdict::Queue(ticket)) => (slot, ticket),
        other => panic!("{other:?}"),
    };
    let uploads = uploads.into_iter().map(&mut come).collect();
    let Verdict::Queue(above) = of(&mut gate, 0) else { panic!("it waits") };
    (gate, busy, uploads, above)
}

#[test]
fn many_uploads_that_are_sent_at_once_keep_the_limit_and_the_order_of_the_classes() {
    let (mut gate, busy, uploads, above) = uploads_that_come_back(500);
    assert_eq!((gate.running(), gate.waiting(), gate.lent()), (1, 501, 500));
    gate.finish(at(20), busy, SERVED);
    let Claim::Admitted(first) = gate.claim(above) else { panic!("its class is above") };
    assert!(uploads.iter().all(|(_, ticket)| gate.claim(*ticket) == Claim::Waiting));
    assert_eq!(gate.running(), 1);
    gate.finish(at(30), first, SERVED);
    let granted = uploads.iter().filter(|(_, ticket)| gate.claim(*ticket) != Claim::Waiting);
    assert_eq!(granted.count(), 1);
}

#[test]
fn however_an_upload_that_waits_again_ends_it_is_counted_once() {
    let ended = Outcome::without_answer(End::Preempted);
    // Its client leaves while it waits.
    let (mut gate, busy, mut uploads, above) = uploads_that_come_back(3);
    let (slot, ticket) = uploads.pop().expect("three");
    gate.cancel(at(20), ticket);
    gate.finish(at(20), slot, Outcome::without_answer(End::Cancelled));
    // It leaves when it has just been granted a slot.
    gate.finish(at(20), busy, SERVED);
    let Claim::Admitted(first) = gate.claim(above) else { panic!("its class is above") };
    gate.finish(at(30), first, SERVED);
    let (slot, ticket) = uploads.remove(0);
    gate.cancel(at(40), ticket);
    gate.finish(at(40), slot, Outcome::without_answer(End::Cancelled));
    // Its time is over.
    let (slot, ticket) = uploads.pop().expect("one");
    let Claim::Admitted(own) = gate.claim(ticket) else { panic!("its turn") };
    gate.give_up(at(40), slot);
    gate.finish(at(50), own, SERVED);
    assert_eq!((gate.running(), gate.waiting(), gate.lent()), (0, 0, 0));
    let (mut late, busy, mut uploads, above) = uploads_that_come_back(1);
    late.tick(at(60_000));
    let (slot, ticket) = uploads.pop().expect("one");
    assert_eq!(late.claim(ticket), Claim::Rejected(Reason::DeadlineExpired));
    late.finish(at(60_000), slot, ended);
    late.finish(at(60_000), busy, SERVED);
    assert!(matches!(late.claim(above), Claim::Rejected(_)));
    for (gate, uploads) in [(gate, 3), (late, 1)] {
        let account = &gate.account().classes[1];
        assert_eq!((account.arrived, account.admitted_at_once), (uploads, uploads));
        assert_eq!((account.queued, account.cancelled_waiting, account.refused_total()), (0, 0, 0));
        assert_eq!(account.finished_total(), uploads);
        assert_eq!(gate.state(ClassId(1)), Default::default());
    }
}

#[test]
fn what_is_lent_at_the_end_is_not_given_back_twice() {
    for lends in [Lends::Sends, Lends::Takes] {
        let mut gate = adaptive(1);
        let mut slot = admitted(&mut gate, 0);
        assert!(gate.lend(at(600), &mut slot, lends, &SERVED));
        let other = admitted(&mut gate, 600);
        gate.finish(at(700), slot, SERVED);
        assert_eq!((gate.running(), gate.lent()), (1, 0), "{lends:?}");
        gate.finish(at(800), other, SERVED);
        assert_eq!(gate.running(), 0);
        let pool = gate.pools().next().expect("the default pool");
        assert_eq!(pool.account().classes[0].finished_total(), 2, "each is counted once");
    }
}

#[test]
fn a_number_of_slots_that_was_given_holds() {
    let mut gate = gate(Slots::Fixed(1));
    let mut slot = admitted(&mut gate, 0);
    assert!(!gate.lend(at(600), &mut slot, Lends::Takes, &SERVED));
    assert_eq!((gate.running(), gate.lent()), (1, 0));
    gate.finish(at(700), slot, SERVED);
}

#[test]
fn none_is_lent_beyond_what_the_origin_takes() {
    // It refuses whatever comes while 20 are in progress, each for 20 ms, whether they hold slots or not.
    let mut gate = adaptive(10);
    let (mut inside, mut lent): (Vec<(u64, Slot)>, Vec<Slot>) = (Vec::new(), Vec::new());
    let (mut refused, mut most) = (0, 0);
    let mut tickets = Vec::new();
    for ms in 0..60_000 {
        while tickets.len() < 10 {
            match arrive(&mut gate, ms) {
                Verdict::Admit(slot) => tickets.push(Err(slot)),
                Verdict::Queue(ticket) => tickets.push(Ok(ticket)),
                Verdict::Reject(reason) => panic!("{reason:?}"),
            }
        }
        while inside.first().is_some_and(|(since, _)| since + 20 <= ms) {
            let (_, slot) = inside.remove(0);
            gate.finish(at(ms), slot, SERVED);
        }
        let mut waiting = Vec::new();
        for ticket in tickets {
            let slot = match ticket {
                Err(slot) => slot,
                Ok(ticket) => match gate.claim(ticket) {
                    Claim::Admitted(slot) => slot,
                    _ => {
                        waiting.push(Ok(ticket));
                        continue;
                    }
                },
            };
            if inside.len() + lent.len() < 20 {
                inside.push((ms, slot));
            } else {
                refused += u32::from(ms > 20_000);
                gate.finish(at(ms), slot, Outcome::without_answer(End::Pushback));
            }
        }
        tickets = waiting;
        // One in a hundred waits for its client from now on, for ever.
        if ms > 20_000 && ms % 100 == 0 && !inside.is_empty() {
            let (since, mut slot) = inside.remove(0);
            match gate.lend(at(ms), &mut slot, Lends::Takes, &SERVED) {
                true => lent.push(slot),
                false => inside.insert(0, (since, slot)),
            }
        }
        most = most.max(gate.lent());
        gate.tick(at(ms));
        while gate.next_effect().is_some() {}
    }
    assert!(most <= 10, "{most} are lent");
    assert!(refused < 600, "{refused} were refused");
}

#[test]
fn what_is_lent_when_the_servers_are_replaced_is_forgotten() {
    let mut gate = adaptive(2);
    let mut slots = [admitted(&mut gate, 0), admitted(&mut gate, 0)];
    for slot in &mut slots {
        assert!(gate.lend(at(0), slot, Lends::Sends, &SERVED));
    }
    gate.moved(at(10), PoolId::DEFAULT);
    assert_eq!((gate.running(), gate.lent()), (0, 0));
    let [mut one, other] = slots;
    assert_eq!(comes_back(&mut gate, 20, &mut one, 0), None, "its server is gone");
    gate.finish(at(30), one, SERVED);
    gate.finish(at(30), other, SERVED);
    assert_eq!((gate.running(), gate.lent()), (0, 0));
}

#[test]
fn a_slot_is_lent_where_most_of_the_time_is_the_clients() {
    let waits = |waits_ms: u64, works_ms: u64| {
        let mut time = ClientTime::default();
        let mut now = 0;
        while now < 3_000 {
            time.begins(at(now));
            if time.is_most(at(now + waits_ms), Lends::Takes) {
                return Some(now + waits_ms);
            }
            time.ends(at(now + waits_ms));
            now += waits_ms + works_ms;
        }
        None
    };
    assert_eq!(waits(10_000, 0), Some(10_000));
    assert_eq!(waits(100, 0), Some(500));
    assert_eq!(waits(50, 50), Some(950), "half of the time");
    assert_eq!(waits(50, 60), None, "less: its buffers are full, and the origin's time is most");
}

/// An origin that answers at once all but those requests that wait for something else; a request comes each 25 ms, of
/// `polls` in ten one that waits for ten seconds. How many of the others are answered within the deadline, and of how many.
fn beside_polls(class_of_polls: u16, polls: u64) -> (u32, u32) {
    let classes = vec![Class::named("all"), Class::named("polls")];
    let spec = Spec { classes, slots: Slots::Adaptive(Bounds::default()), ..Spec::protective() };
    let mut gate: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
    let (mut busy, mut waiting): (Vec<(u64, Slot)>, Vec<_>) = (Vec::new(), Vec::new());
    let (mut answered, mut asked) = (0, 0);
    for ms in 0..60_000 {
        let takes = |is_poll| ms + if is_poll { 10_000 } else { 20 };
        while let Some(place) = busy.iter().position(|(until, _)| *until <= ms) {
            gate.finish(at(ms), busy.swap_remove(place).1, SERVED);
        }
        if ms % 25 == 0 {
            let is_poll = ms / 25 % 10 < polls;
            asked += u32::from(!is_poll);
            let class = ClassId(if is_poll { class_of_polls } else { 0 });
            match gate.arrive(at(ms), Arrival::of(class), || ()) {
                Verdict::Admit(slot) => {
                    answered += u32::from(!is_poll);
                    busy.push((takes(is_poll), slot));
                }
                Verdict::Queue(ticket) => waiting.push((is_poll, ticket)),
                Verdict::Reject(_) => {}
            }
        }
        gate.tick(at(ms));
        waiting.retain(|&(is_poll, ticket)| match gate.claim(ticket) {
            Claim::Waiting => true,
            Claim::Rejected(_) => false,
            Claim::Admitted(slot) => {
                answered += u32::from(!is_poll);
                busy.push((takes(is_poll), slot));
                false
            }
        });
    }
    (answered, asked)
}

#[test]
fn requests_that_others_overtake_leave_the_slots_to_them() {
    for (class, polls) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
        let (answered, asked) = beside_polls(class, polls);
        assert!(
            answered * 100 >= asked * 85,
            "{answered} of {asked}, {polls} of ten are polls, of class {class}"
        );
    }
}

/// Eight workers, and a queue before them; `slow` of a hundred requests take a hundred times as long as the others: 2 s. The
/// most that is in progress.
fn beside_slow_work(slow: u64) -> usize {
    let mut gate = gate(Slots::Adaptive(Bounds::default()));
    let mut origin = std::collections::VecDeque::new();
    let (mut busy, mut waiting): (Vec<(u64, Slot)>, Vec<_>) = (Vec::new(), Vec::new());
    let (mut most, mut count) = (0, 0_u64);
    for ms in 0..60_000 {
        while let Some(place) = busy.iter().position(|(until, _)| *until <= ms) {
            gate.finish(at(ms), busy.swap_remove(place).1, SERVED);
        }
        count += 1;
        let takes = if count * 37 % 100 < slow { 2_000 } else { 20 };
        match arrive(&mut gate, ms) {
            Verdict::Admit(slot) => origin.push_back((takes, slot)),
            Verdict::Queue(ticket) => waiting.push((takes, ticket)),
            Verdict::Reject(_) => {}
        }
        gate.tick(at(ms));
        waiting.retain(|&(takes, ticket)| match gate.claim(ticket) {
            Claim::Waiting => true,
            Claim::Rejected(_) => false,
            Claim::Admitted(slot) => {
                origin.push_back((takes, slot));
                false
            }
        });
        while busy.len() < 8
            && let Some((takes, slot)) = origin.pop_front()
        {
            busy.push((ms + takes, slot));
        }
        most = most.max(busy.len() + origin.len());
    }
    most
}

#[test]
fn where_those_that_take_long_slow_the_others_down_it_ends() {
    for slow in [0, 5, 20] {
        let most = beside_slow_work(slow);
        assert!(most <= 120, "{slow} of a hundred are slow: at most {most} in progress");
    }
}

/// Requests at an origin that answers none, for so many milliseconds, one each 10 ms; those that are in progress.
fn hanging(slots: u32, for_ms: u64) -> (Gate<()>, Vec<Slot>) {
    let mut gate = adaptive(slots);
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for ms in 0..for_ms {
        if ms % 10 == 0 {
            match arrive(&mut gate, ms) {
                Verdict::Admit(slot) => held.push(slot),
                Verdict::Queue(ticket) => waiting.push(ticket),
                Verdict::Reject(_) => {}
            }
        }
        gate.tick(at(ms));
        waiting.retain(|&ticket| match gate.claim(ticket) {
            Claim::Waiting => true,
            Claim::Rejected(_) => false,
            Claim::Admitted(slot) => {
                held.push(slot);
                false
            }
        });
    }
    (gate, held)
}

#[test]
fn an_origin_that_hangs_gets_few_more_and_only_so_many() {
    let after = |ms| hanging(10, ms).1.len();
    assert_eq!(after(1_000), 10, "it may be a moment");
    assert!((11..=15).contains(&after(2_500)), "half as many: {}", after(2_500));
    assert!((30..=50).contains(&after(600_000)), "four times as many: {}", after(600_000));
}

#[test]
fn one_that_was_lent_and_goes_to_new_servers_holds_a_slot_there() {
    let (mut gate, mut held) = hanging(2, 1_500);
    assert_eq!((gate.running(), gate.lent()), (2, 1));
    gate.moved(at(1_500), PoolId::DEFAULT);
    let running = gate.running();
    for slot in &mut held {
        gate.goes_to(at(1_600), slot);
    }
    assert_eq!((gate.running(), gate.lent()), (running + 3, 0));
    for slot in held {
        gate.finish(at(1_700), slot, SERVED);
    }
    assert_eq!(gate.lent(), 0);
}
