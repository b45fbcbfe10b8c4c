//! Clients that leave: a gate that is told nothing of their patience serves nearly as many of them as one
//! that is told the best deadline.

#![allow(clippy::disallowed_macros, reason = "tests say what they measured")]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Gate, Slot, Ticket, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::time::Moment;

const MS: Duration = Duration::from_millis(1);
const SLOTS: u32 = 16;
/// A flow whose requests come over connections that go on, and one whose requests do not.
const PROXY: u64 = 0;
const GREEDY: u64 = 99;
/// Mean time of an answer, milliseconds: 16 slots give 200 a second.
const SERVICE: u64 = 80;

struct Client {
    leaves: u64,
    group: usize,
    at: Place,
}

enum Place {
    Waits(Ticket),
    Served { slot: Slot, until: u64, took: u64 },
    Gone,
}

/// Numbers that are the same at each run.
fn noise(seed: u64) -> u64 {
    let mixed = (seed ^ (seed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}

/// What became of those who came in the time that is judged.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Answered while they were there.
    good: u32,
    refused: u32,
}

/// The milliseconds that are judged, of those from 0 on that are played.
const JUDGED: Range<u64> = 5_000..25_000;

/// One class. At each millisecond, told how many are there, `come` says of which flows requests come; client number n
/// waits for `patience(n)` milliseconds; `seen`: the gate sees who leaves. Returns what became of these two flows
/// and of all others.
fn run(
    judged: Range<u64>,
    deadline: Duration,
    seen: bool,
    mut come: impl FnMut(u64, usize) -> Vec<u64>,
    patience: impl Fn(u64) -> u64,
) -> [Tally; 2] {
    let mut class = Class::named("all");
    class.deadline = deadline;
    let spec = Spec { classes: vec![class], slots: Slots::Fixed(SLOTS), ..Spec::protective() };
    let mut gate: Gate<usize> = Gate::new(spec.build().expect("a valid plan"));
    let (mut clients, mut live) = (Vec::<Client>::new(), Vec::<usize>::new());
    let (mut tallies, mut come_so_far) = ([Tally::default(); 2], 0);
    for ms in 0..judged.end {
        let now = Moment::from_millis(ms);
        gate.tick(now);
        for &index in &live {
            let client = &mut clients[index];
            let leaves = seen && ms == client.leaves;
            match std::mem::replace(&mut client.at, Place::Gone) {
                Place::Served { slot, until, took, .. } if until == ms => {
                    let is_there = ms < client.leaves;
                    tallies[client.group].good += u32::from(is_there && ms > judged.start);
                    let left = (seen && !is_there)
                        .then(|| Moment::from_millis(client.leaves).since(slot.admitted()));
                    let end = if left.is_some() { End::Cancelled } else { End::Served };
                    let first_byte = Some(took as u32 * MS);
                    gate.finish(now, slot, Outcome { end, first_byte, bytes: 0, left });
                }
                Place::Waits(ticket) if leaves => gate.cancel(now, ticket),
                place => client.at = place,
            }
        }
        for flow in come(ms, live.len()) {
            let number = clients.len();
            let leaves = ms + patience(come_so_far);
            come_so_far += 1;
            let group = usize::from(flow > GREEDY);
            let goes_on = flow == PROXY;
            let arrival = Arrival { flow, goes_on, ..Arrival::of(ClassId(0)) };
            let at = match gate.arrive(now, arrival, || number) {
                Verdict::Admit(slot) => served(slot, ms, number),
                Verdict::Queue(ticket) => Place::Waits(ticket),
                Verdict::Reject(_) => {
                    tallies[group].refused += u32::from(ms > judged.start);
                    continue;
                }
            };
            clients.push(Client { leaves, group, at });
            live.push(number);
        }
        while gate.next_effect().is_some() {}
        for &index in &live {
            let client = &mut clients[index];
            let Place::Waits(ticket) = client.at else { continue };
            match gate.claim(ticket) {
                Claim::Waiting => {}
                Claim::Admitted(slot) => client.at = served(slot, ms, index),
                Claim::Rejected(_) => {
                    tallies[client.group].refused += u32::from(ms > judged.start);
                    client.at = Place::Gone;
                }
            }
        }
        live.retain(|&index| !matches!(clients[index].at, Place::Gone));
    }
    tallies
}

fn served(slot: Slot, ms: u64, number: usize) -> Place {
    let took = SERVICE / 2 + noise(number as u64) % SERVICE;
    Place::Served { slot, until: ms + took, took }
}

/// Clients that come at a steady rate, so many times as many as can be served, each a flow of its own or all one.
fn steady(times: f64, as_one: bool) -> impl FnMut(u64, usize) -> Vec<u64> {
    let (mut due, mut number) = (0.0, 0);
    move |_, _| {
        due += times * f64::from(SLOTS) / SERVICE as f64;
        let count = due as u64;
        due -= count as f64;
        number += count;
        (number - count..number).map(|number| if as_one { PROXY } else { number + 100 }).collect()
    }
}

fn policys() -> Duration {
    Class::named("all").deadline
}

#[test]
fn goodput_under_overload_is_that_of_the_best_deadline_whatever_clients_patience() {
    let mixed = |number: u64| [300, 1000, 3000][noise(number * 3 + 1) as usize % 3];
    let cases: [(&str, &dyn Fn(u64) -> u64); 5] = [
        ("0.3 s", &|_| 300),
        ("1 s", &|_| 1000),
        ("3 s", &|_| 3000),
        ("mixed", &mixed),
        ("0.5 to 1.5 s", &|number| 500 + noise(number * 3 + 2) % 1000),
    ];
    for (name, patience) in cases {
        for times in [2.0, 3.0, 10.0] {
            let goodput =
                |deadline| run(JUDGED, deadline, true, steady(times, false), patience)[1].good;
            let typed = [100, 200, 400, 800, 1600].map(|ms| (goodput(ms * MS), ms));
            let (best, at) = *typed.iter().max().expect("several");
            let learned = goodput(policys());
            let share = f64::from(learned) / f64::from(best);
            println!("{name}, {times}x: {learned}, best typed {best} (at {at} ms): {share:.3}");
            assert!(share > 0.95, "{name}, {times}x: {typed:?}, learned {learned}");
        }
    }
}

/// Behind a proxy that keeps its connections nobody is seen leaving: an overload that lasts makes the queue
/// short, so that the clients that are answered are still there.
#[test]
fn an_overload_that_lasts_is_of_use_where_clients_cannot_be_seen_leaving() {
    let capacity = 20 * SLOTS * 1000 / SERVICE as u32;
    for as_one in [false, true] {
        for patience in [500, 1000, 3000] {
            for times in [2.0, 3.0, 10.0] {
                let tallies = run(JUDGED, policys(), false, steady(times, as_one), |_| patience);
                let share = f64::from(tallies[0].good + tallies[1].good) / f64::from(capacity);
                println!("one flow {as_one}, {patience} ms, {times}x: {share:.3} of the capacity");
                assert!(share > 0.95, "one flow {as_one}, {patience} ms, {times}x: {share}");
            }
        }
    }
}

/// Each asks again when it is answered, after 1.5 s: longer than it would wait if the overload lasted.
#[test]
fn clients_that_all_have_their_turn_in_time_are_all_served() {
    let come = |_, there| (there as u64..300).map(|number| number + 100).collect();
    let tallies = run(JUDGED, policys(), false, come, |_| 10_000);
    assert_eq!(tallies[1].refused, 0, "{tallies:?}");
}

#[test]
fn the_overload_that_one_flow_makes_shortens_no_others_wait() {
    let come = |ms: u64, _| {
        let burst = if ms % 3_000 == 2_999 { 100 } else { 0 };
        (0..2).map(|_| GREEDY).chain((0..burst).map(|number| ms * 100 + number)).collect()
    };
    let tallies = run(JUDGED, policys(), false, come, |_| 10_000);
    assert!(tallies[0].refused > 10_000, "{tallies:?}");
    assert_eq!(tallies[1].refused, 0, "{tallies:?}");
}

/// Each a flow of its own, so many times as many as can be served in these parts of a period, after eight seconds of
/// three times as many.
fn on_and_off(times: f64, on_ms: u64, off_ms: u64) -> impl FnMut(u64, usize) -> Vec<u64> {
    let (mut due, mut number) = (0.0, 0);
    move |ms, _| {
        let times = match ms {
            ..8_000 => 3.0,
            _ if ms % (on_ms + off_ms) < on_ms => times,
            _ => 0.0,
        };
        due += times * f64::from(SLOTS) / SERVICE as f64;
        let count = due as u64;
        due -= count as f64;
        number += count;
        (number - count..number).map(|number| number + 100).collect()
    }
}

/// Load that comes in bursts and is less than the capacity on average: the short queue that an overload has left behind
/// would refuse what idle slots could serve.
#[test]
fn an_overload_that_is_over_leaves_no_short_queue_behind() {
    for (times, on_ms, off_ms) in [(1.8, 1_000, 1_000), (3.0, 300, 1_500), (2.5, 600, 1_200)] {
        let tallies =
            run(16_000..48_000, policys(), false, on_and_off(times, on_ms, off_ms), |_| 10_000);
        assert_eq!(tallies[1].refused, 0, "{times}x for {on_ms} of {} ms", on_ms + off_ms);
    }
}

/// Nor does it while it lasts: what is waiting when a burst ends is served before the next.
#[test]
fn bursts_beyond_the_capacity_leave_no_slot_idle() {
    for (times, on_ms, off_ms) in [(3.0, 2_000, 1_000), (2.0, 1_500, 1_000), (4.0, 6_000, 1_500)] {
        let judged = 24_000..64_000;
        let capacity = 40 * SLOTS * 1000 / SERVICE as u32;
        let tallies = run(judged, policys(), false, on_and_off(times, on_ms, off_ms), |_| 10_000);
        let share = f64::from(tallies[1].good) / f64::from(capacity);
        println!("{times}x for {on_ms} ms, none for {off_ms} ms: {share:.3} of the capacity");
        assert!(share > 0.95, "{times}x for {on_ms} of {} ms: {share}", on_ms + off_ms);
    }
}

/// Clients of an overload were impatient; those that come in bursts afterwards are not.
#[test]
fn patience_is_forgotten_when_the_overload_is_over() {
    let come = on_and_off(2.0, 800, 1_600);
    // As many as come in the overload.
    let impatient = 3 * 8 * 1000 * u64::from(SLOTS) / SERVICE;
    let patience = |number| if number < impatient { 300 } else { 10_000 };
    let tallies = run(14_000..60_000, policys(), true, come, patience);
    assert_eq!(tallies[1].refused, 0, "{tallies:?}");
}

/// A load test that ends, a proxy in front that restarts: the next clients are as patient as ever.
#[test]
fn that_all_leave_at_one_moment_says_nothing_of_their_patience() {
    for (there, ends) in [(80, 10_000), (200, 10_000), (200, 3_000)] {
        let now = Cell::new(0);
        let come = |ms, still| {
            now.set(ms);
            // Clients in a loop, without any for two seconds of each period.
            let count = if ms % ends < ends - 2_000 { there - still as u64 } else { 0 };
            (0..count).map(|number| number + 100).collect()
        };
        let patience = |_| ends - 2_000 - now.get() % ends;
        let tallies = run(0..30_000, policys(), true, come, patience);
        assert!(tallies[1].good > 1000, "{tallies:?}");
        assert_eq!(tallies[1].refused, 0, "{there} clients, of {ends} ms: {tallies:?}");
    }
}

/// Those beside which others come for 0.6 of the capacity, from so many addresses and as patient as can be: from so
/// many addresses so many requests, that leave after 100 ms, all that often. `as_one`: nobody tells the addresses apart.
#[derive(Clone, Copy, Debug)]
struct Impatient {
    flows: u64,
    count: u64,
    every_ms: u64,
    as_one: bool,
}

fn beside(impatient: Impatient, others: u64) -> [Tally; 2] {
    beside_load(impatient, others, 0.6)
}

/// The same, with others for another part of the capacity.
fn beside_load(impatient: Impatient, others: u64, load: f64) -> [Tally; 2] {
    let is_impatient = RefCell::new(Vec::<bool>::new());
    let (mut due, mut number) = (0.0, 0);
    let come = |ms: u64, _| {
        due += load * f64::from(SLOTS) / SERVICE as f64;
        let count_of_others = due as u64;
        due -= count_of_others as f64;
        let Impatient { flows, count, every_ms, as_one } = impatient;
        let count = if ms.is_multiple_of(every_ms) { count } else { 0 };
        let these = (0..count).map(|number| GREEDY - (ms / every_ms + number) % flows);
        number += count_of_others;
        let patient = (number - count_of_others..number).map(|other| 100 + other % others);
        let come: Vec<u64> = these.chain(patient).collect();
        is_impatient.borrow_mut().extend(come.iter().map(|flow| *flow <= GREEDY));
        come.into_iter().map(|flow| if as_one { 100 } else { flow }).collect()
    };
    let patience = |number| if is_impatient.borrow()[number as usize] { 100 } else { 10_000 };
    run(1_000..20_000, policys(), true, come, patience)
}

#[test]
fn one_address_that_leaves_again_and_again_makes_nobody_look_impatient() {
    for others in [2, 3, 10, 61] {
        for (count, every_ms) in [(1, 100), (3, 100), (1, 4), (30, 60), (100, 100), (100, 300)] {
            let impatient = Impatient { flows: 1, count, every_ms, as_one: false };
            let tallies = beside(impatient, others);
            assert!(tallies[1].good > 2_000, "{tallies:?}");
            assert_eq!(tallies[1].refused, 0, "{others} beside {impatient:?}: {tallies:?}");
        }
    }
}

#[test]
fn a_few_addresses_that_leave_again_and_again_make_nobody_look_impatient() {
    for (others, flows) in [(10, 3), (30, 6), (100, 6), (100, 9), (1_000, 30)] {
        for (count, every_ms) in [(1, 4), (20, 200), (60, 300), (150, 500), (1, 10), (3, 1)] {
            let impatient = Impatient { flows, count, every_ms, as_one: false };
            let tallies = beside(impatient, others);
            assert_eq!(tallies[1].refused, 0, "{others} beside {impatient:?}: {tallies:?}");
        }
    }
}

/// At first nearly all requests are theirs.
#[test]
fn those_who_ask_most_at_first_make_nobody_look_impatient() {
    for (others, flows) in [(1_000, 60), (200, 60), (1_000, 40), (100, 40), (200, 30), (60, 20)] {
        for (count, every_ms) in [(1, 5), (40, 220), (3, 1)] {
            let impatient = Impatient { flows, count, every_ms, as_one: false };
            let tallies = beside_load(impatient, others, 0.2);
            assert!(tallies[1].good > 700, "{tallies:?}");
            assert_eq!(tallies[1].refused, 0, "{others} beside {impatient:?}: {tallies:?}");
        }
    }
}

/// Behind a proxy that is not trusted all are one flow: who leaves the queue takes nothing from those who stay.
#[test]
fn those_who_leave_beside_others_of_the_same_address_make_nobody_look_impatient() {
    for (count, every_ms) in [(1, 50), (3, 100), (10, 150)] {
        let impatient = Impatient { flows: 1, count, every_ms, as_one: true };
        let tallies = beside(impatient, 1);
        assert!(tallies[1].good > 2_000, "{tallies:?}");
        // Some do get a slot, and have left before the answer: the queue is short for moments.
        assert!(tallies[1].refused < tallies[1].good / 30, "{impatient:?}: {tallies:?}");
    }
}

/// A search box that asks at each key, pages that are left: everybody cancels some requests, and waits for the others.
#[test]
fn clients_that_cancel_some_requests_have_the_others_answered() {
    for every in [20, 10, 5] {
        let mut sent = 0;
        let come = |_, there| {
            let count = 50_u64.saturating_sub(there as u64);
            sent += count;
            (sent - count..sent).map(|number| 100 + number % 50).collect()
        };
        let patience = |number| if number % every == 0 { 150 } else { 10_000 };
        let tallies = run(JUDGED, policys(), true, come, patience);
        assert!(tallies[1].good > 3_000, "one of {every}: {tallies:?}");
        assert_eq!(tallies[1].refused, 0, "one of {every}: {tallies:?}");
    }
}

/// Answers take so long that clients leave while they are served, and never before.
#[test]
fn clients_that_leave_while_they_are_served_are_answered_before() {
    for (patience, deadline) in [(130, 80), (160, 80), (200, 60)] {
        let goodput =
            |deadline| run(JUDGED, deadline, true, steady(3.0, false), |_| patience)[1].good;
        let best = [5, 10, 20, 40].map(|ms| goodput(ms * MS)).into_iter().max().expect("several");
        let learned = goodput(deadline * MS);
        let share = f64::from(learned) / f64::from(best);
        println!("{patience} ms, deadline {deadline} ms: {learned}, best typed {best}: {share:.3}");
        assert!(share > 0.93, "{patience} ms, deadline {deadline} ms: {share}");
    }
}

#[test]
fn what_is_not_to_be_learned_is_not_shown() {
    for learns in [true, false] {
        let class = Class { patience: learns, ..Class::named("all") };
        let spec = Spec { classes: vec![class], slots: Slots::Fixed(SLOTS), ..Spec::protective() };
        let mut gate: Gate<usize> = Gate::new(spec.build().expect("a valid plan"));
        let come = |gate: &mut Gate<usize>, ms| {
            gate.arrive(Moment::from_millis(ms), Arrival::of(ClassId(0)), || 0)
        };
        // Those that wait for longer than a moment leave while they are served.
        let mut served = VecDeque::new();
        let mut waiting = VecDeque::new();
        for step in 0..800 {
            let now = Moment::from_millis(step * 5);
            match come(&mut gate, step * 5) {
                Verdict::Admit(slot) => served.push_back(slot),
                Verdict::Queue(ticket) => waiting.push_back(ticket),
                Verdict::Reject(_) => {}
            }
            if step > 50
                && let Some(slot) = served.pop_front()
            {
                let left = (slot.waited() > 50 * MS).then_some(MS);
                let end = if left.is_some() { End::Cancelled } else { End::Served };
                gate.finish(now, slot, Outcome { left, ..Outcome::without_answer(end) });
            }
            while gate.next_effect().is_some() {}
            while let Some(ticket) = waiting.front() {
                match gate.claim(*ticket) {
                    Claim::Waiting => break,
                    Claim::Admitted(slot) => served.push_back(slot),
                    Claim::Rejected(_) => {}
                }
                waiting.pop_front();
            }
        }
        let state = gate.states().next().expect("there is one class");
        assert_eq!(state.patience.is_some(), learns, "{state:?}");
    }
}
