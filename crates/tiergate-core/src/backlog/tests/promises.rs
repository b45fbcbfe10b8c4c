//! What the backlog promises, each in numbers.

use super::super::flows::{IDLE_MAX, REMEMBERED};
use super::*;
use crate::class::{Late, Order};
use std::collections::{BTreeMap, VecDeque};

/// A class that nothing bounds.
fn roomy() -> Class {
    Class { queue_len_max: u32::MAX, deadline: Duration::from_secs(3600), ..Class::named("c") }
}

const LONG: Duration = Duration::from_secs(3600);

/// Even numbers below `below`, by a generator of Marsaglia's (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}

/// The theorem of start-time fair queueing: what two flows that wait all the while are served differs by
/// no more than one request of each, over every interval.
#[test]
fn two_flows_that_wait_are_served_alike_within_one_request_of_each() {
    let mut dice = Dice(7);
    for round in 0..20 {
        let mut backlog = backlog(roomy());
        let largest: Vec<f64> = (0..5).map(|flow| 10_f64.powi(flow % 3)).collect();
        let mut work = [0.0; 5];
        // The least and the most that a flow was ahead of another.
        let mut ahead = vec![[f64::MAX, f64::MIN]; 25];
        for flow in 0..5 {
            for _ in 0..2 {
                backlog.push(at(0), C, &of_flow(flow), at(0) + LONG, flow as u32);
            }
        }
        for _ in 0..3000 {
            let first = backlog.first(at(0), C).expect("all wait");
            let flow = backlog.waiter(first).expect("it waits").flow;
            let cost = largest[flow as usize] * (1.0 + dice.roll(100) as f64) / 100.0;
            serve(&mut backlog, at(0), C, cost);
            work[flow as usize] += cost;
            backlog.push(at(0), C, &of_flow(flow), at(0) + LONG, flow as u32);
            // And others come and go.
            if dice.roll(3) == 0 {
                let stranger = of_flow(100 + dice.roll(50));
                let ticket = backlog.push(at(0), C, &stranger, at(0) + LONG, 0);
                match dice.roll(2) {
                    0 => backlog.remove(ticket),
                    _ => drop(refuse(&mut backlog, ticket)),
                }
            }
            for (pair, [least, most]) in ahead.iter_mut().enumerate() {
                let difference = work[pair / 5] - work[pair % 5];
                (*least, *most) = (least.min(difference), most.max(difference));
            }
        }
        for (pair, [least, most]) in ahead.iter().enumerate() {
            let bound = largest[pair / 5] + largest[pair % 5];
            assert!(most - least <= bound + 1e-6, "round {round}: {} > {bound}", most - least);
        }
    }
}

/// Response times of the polite flows' requests at a server of 32 slots, in ms and sorted: 40 flows use
/// seven tenths of it, and one sends a hundred times as much as each of them if it is `greedy`.
fn times(order: Order, fair: bool, greedy: bool) -> Vec<u64> {
    const POLITE: u64 = 40;
    let mut backlog = backlog(Class { order, fair, ..roomy() });
    let mut dice = Dice(42);
    let mut service = Dice(99);
    let mut running: Vec<u64> = Vec::new();
    let mut times = Vec::new();
    let mut came = BTreeMap::new();
    let mut ids = 0;
    for ms in 0..60_000 {
        running.retain(|end| *end > ms);
        let mut come = |backlog: &mut Backlog<u32>, flow| {
            came.insert(ids, (flow, ms));
            backlog.push(at(ms), C, &of_flow(flow), at(ms) + LONG, ids);
            ids += 1;
        };
        // 32 slots, 20 ms each: 1.6 requests a millisecond are all; 40 flows send 0.028 each.
        for flow in 0..POLITE {
            if dice.roll(1000) < 28 {
                come(&mut backlog, flow);
            }
        }
        if greedy && backlog.len() < 5000 {
            for _ in 0..dice.roll(6) {
                come(&mut backlog, POLITE);
            }
        }
        while running.len() < 32 {
            let Some(id) = serve(&mut backlog, at(ms), C, 20.0) else {
                break;
            };
            let end = ms + 1 + service.roll(39);
            running.push(end);
            let (flow, since) = came.remove(&id).expect("served once");
            if flow != POLITE && since > 10_000 {
                times.push(end - since);
            }
        }
    }
    times.sort_unstable();
    times
}

#[test]
fn a_greedy_flow_makes_only_itself_wait() {
    for order in [Order::Fifo, Order::AdaptiveLifo] {
        let alone = times(order, true, false);
        let beside = times(order, true, true);
        let p99 = |times: &[u64]| times[times.len() * 99 / 100];
        let (without, with) = (p99(&alone), p99(&beside));
        assert!(with as f64 <= 1.3 * without as f64, "{order:?}: {with} ms, {without} ms without");
        assert!(beside.len() as f64 > 0.99 * alone.len() as f64);
    }
    // The test can fail: where flows are not told apart, all wait.
    let unfair = times(Order::Fifo, false, true);
    assert!(unfair[unfair.len() / 2] > 1000, "{}", unfair[unfair.len() / 2]);
}

#[test]
fn flows_that_are_ever_new_hold_up_nobody() {
    let mut backlog = backlog(roomy());
    for _ in 0..20 {
        backlog.push(at(0), C, &of_flow(1), at(0) + LONG, 1);
    }
    let (mut new, mut served) = (100, Vec::new());
    for _ in 0..10 {
        backlog.push(at(0), C, &of_flow(new), at(0) + LONG, 0);
        new += 1;
    }
    // One comes for each that is served, so that ten of the new flows always wait.
    for turn in 0..200 {
        backlog.push(at(0), C, &of_flow(new), at(0) + LONG, 0);
        new += 1;
        if serve(&mut backlog, at(0), C, 1.0).expect("they wait") == 1 {
            served.push(turn);
        }
    }
    let gaps: Vec<i32> = served.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.len() > 8 && gaps.iter().all(|&gap| gap <= 25), "{served:?}");
}

#[test]
fn a_debt_outlives_a_moment_of_rest_and_no_more_than_the_memory() {
    for (rest, first) in [(Duration::from_millis(1), 2), (REMEMBERED, 1)] {
        let mut backlog = backlog(roomy());
        backlog.push(at(0), C, &of_flow(1), at(0) + LONG, 1);
        let second = backlog.push(at(0), C, &of_flow(1), at(0) + LONG, 1);
        backlog.push(at(0), C, &of_flow(2), at(0) + LONG, 2);
        assert_eq!(serve(&mut backlog, at(0), C, 100.0).expect("waits"), 1);
        backlog.remove(second);
        assert_eq!(serve(&mut backlog, at(0), C, 1.0).expect("waits"), 2);
        assert_eq!(backlog.len(), 0);
        let now = at(0) + rest;
        for _ in 0..20 {
            backlog.push(now, C, &of_flow(1), now + LONG, 1);
            backlog.push(now, C, &of_flow(2), now + LONG, 2);
        }
        let next = (0..20).map(|_| serve(&mut backlog, now, C, 1.0).expect("waits"));
        let next: Vec<u32> = next.collect();
        assert_eq!(next[0], first);
        let of_one = next.iter().filter(|flow| **flow == 1).count();
        assert_eq!(of_one, if first == 2 { 0 } else { 10 }, "{next:?}");
    }
}

/// A flow of which one request waits at a time, and the one before still runs: it is charged for that, also
/// when its queue is empty meanwhile, and pays what it cost when it has ended.
#[test]
fn what_still_runs_of_a_flow_is_a_debt_when_its_queue_is_empty() {
    let mut backlog = backlog(roomy());
    let push = |backlog: &mut Backlog<u32>, flow: u64| {
        backlog.push(at(0), C, &of_flow(flow), at(0) + LONG, flow as u32);
    };
    push(&mut backlog, 1);
    let (_, turn) = begin(&mut backlog, at(0), C, 1.0).expect("waits");
    assert_eq!((backlog.len(), backlog.flows.len()), (0, 1), "its account outlasts its queue");
    push(&mut backlog, 1);
    backlog.ended(at(0), turn.expect("flows take turns"), 1.0, 5.0);
    let mut served = Vec::new();
    for _ in 0..8 {
        push(&mut backlog, 2);
        served.push(serve(&mut backlog, at(0), C, 1.0).expect("they wait"));
        push(&mut backlog, 2);
    }
    let before = served.iter().take_while(|&&flow| flow == 2).count();
    assert!((4..=6).contains(&before), "{served:?}: five units went to the first flow");
    assert!(backlog.flows.len() <= 2);
}

/// Many clients that each ask for one thing after another, three times as many as are served: who was
/// served before is not behind who comes for the first time.
#[test]
fn one_request_after_another_is_no_debt() {
    let mut backlog = backlog(roomy());
    for flow in 0..10 {
        backlog.push(at(0), C, &of_flow(flow), at(0) + LONG, flow as u32);
    }
    assert_eq!(serve(&mut backlog, at(0), C, 1.0).expect("waits"), 0);
    backlog.push(at(1), C, &of_flow(0), at(1) + LONG, 0);
    for flow in 10..20 {
        backlog.push(at(2), C, &of_flow(flow), at(2) + LONG, flow as u32);
    }
    let served: Vec<u32> =
        (0..20).map(|_| serve(&mut backlog, at(3), C, 1.0).expect("waits")).collect();
    let came: Vec<u32> = (1..10).chain([0]).chain(10..20).collect();
    assert_eq!(served, came);
}

#[test]
fn what_was_charged_too_much_is_given_back() {
    let mut backlog = backlog(roomy());
    for flow in [1, 2] {
        for _ in 0..5 {
            backlog.push(at(0), C, &of_flow(flow), at(0) + LONG, flow as u32);
        }
    }
    let (flow, turn) = begin(&mut backlog, at(0), C, 100.0).expect("waits");
    assert_eq!(flow, 1);
    assert_eq!(serve(&mut backlog, at(0), C, 2.0).expect("waits"), 2);
    backlog.ended(at(0), turn.expect("flows take turns"), 100.0, 1.0);
    let next: Vec<u32> =
        (0..4).map(|_| serve(&mut backlog, at(0), C, 2.0).expect("waits")).collect();
    assert_eq!(next, [1, 2, 1, 2], "they are at 1 and 2, and then 3 and 4");
}

#[test]
fn idle_flows_are_remembered_within_a_bound() {
    let mut backlog = backlog(roomy());
    let crowd = IDLE_MAX as u64 + 20_000;
    for flow in 0..crowd {
        backlog.push(at(0), C, &of_flow(flow), at(0) + LONG, 0);
    }
    // So many wait that virtual time does not catch up with those that were served.
    for flow in crowd..crowd + IDLE_MAX as u64 + 5000 {
        // Another of its flow waits, and leaves: the debt stays.
        let next = backlog.first(at(0), C).expect("waits");
        let of =
            Arrival { flow: backlog.waiter(next).expect("waits").flow, ..Arrival::of(ClassId(0)) };
        let other = backlog.push(at(0), C, &of, at(0) + LONG, 0);
        serve(&mut backlog, at(0), C, 1.0);
        backlog.remove(other);
        backlog.push(at(0), C, &of_flow(flow), at(0) + LONG, 0);
        assert!(backlog.flows.len() <= IDLE_MAX + backlog.len());
    }
    assert_eq!(backlog.flows.len(), IDLE_MAX + backlog.len());
    while serve(&mut backlog, at(0), C, 1.0).is_some() {}
    // Two are forgotten for each that comes after their time.
    for ms in 0..40_000 {
        let now = at(ms) + REMEMBERED;
        backlog.push(now, C, &of_flow(1 << 40), now + LONG, 0);
        serve(&mut backlog, now, C, 1.0);
    }
    assert!(backlog.flows.len() < 10, "{}", backlog.flows.len());
}

#[test]
fn at_rest_first_come_and_under_overload_last_come() {
    let mut backlog = backlog(Class { order: Order::AdaptiveLifo, ..roomy() });
    let patience = Duration::from_millis(800);
    for id in 0..10 {
        let now = at(u64::from(id) * 10);
        backlog.push(now, C, &of_flow(1), now + patience, id);
    }
    let mut next = |ms| serve(&mut backlog, at(ms), C, 1.0).expect("they wait");
    assert_eq!(next(200), 0, "the oldest has waited a quarter of its patience, and no more");
    assert_eq!(next(211), 9, "the oldest came at 10 ms");
    assert_eq!([next(211), next(211), next(211), next(211)], [8, 7, 6, 5]);
    backlog.remove(backlog.ticket(backlog.flows.at(0).waiters.first().expect("two wait")));
    backlog.remove(backlog.ticket(backlog.flows.at(0).waiters.first().expect("two wait")));
    // Left: those of 30 and 40 ms. The rest begins where the oldest has waited an eighth: 100 ms.
    assert_eq!(serve(&mut backlog, at(131), C, 1.0).expect("waits"), 4);
    backlog.push(at(140), C, &of_flow(1), at(140) + patience, 10);
    backlog.push(at(140), C, &of_flow(1), at(140) + patience, 11);
    assert_eq!(serve(&mut backlog, at(130), C, 1.0).expect("waits"), 3);
    assert_eq!(serve(&mut backlog, at(160), C, 1.0).expect("waits"), 10, "first come again");
}

#[test]
fn who_is_late_is_served_last_and_refused_after_twice_the_deadline() {
    let mut backlog = backlog(Class { late: Late::Last, ..roomy() });
    backlog.push(at(0), C, &of_flow(1), at(100), 0);
    assert_eq!(expired(&mut backlog, at(100)), None);
    assert_eq!(backlog.next_deadline(), at(200));
    let on_time = backlog.push(at(150), C, &of_flow(1), at(400), 1);
    assert_eq!(backlog.first(at(150), C), Some(on_time));
    assert_eq!(backlog.len_of_list(C, false), 1, "the late one is before nobody");
    assert!(!backlog.key(at(150), C).expect("it waits").late);
    backlog.remove(on_time);
    let late = backlog.first(at(150), C);
    assert!(backlog.key(at(150), C).expect("it waits").late);
    assert_eq!(expired(&mut backlog, at(200)), late);
}

/// One that stands is brought down to the target, by drops at the head; never the last.
#[test]
fn a_standing_delay_is_brought_down_to_the_target() {
    let codel = Codel { target: Duration::from_millis(20), interval: Duration::from_millis(100) };
    let delays = |codel: Option<Codel>| {
        let mut backlog = backlog(Class { codel, ..roomy() });
        let (mut ids, mut dropped) = (0, 0);
        let mut came = VecDeque::new();
        let mut delays = Vec::new();
        // 200 at once, and from then on as many as are served: the delay would stand for ever.
        for ms in 0..20_000 {
            for _ in 0..if ms == 0 { 200 } else { 1 } {
                backlog.push(at(ms), C, &of_flow(1), at(ms) + LONG, ids);
                came.push_back(ms);
                ids += 1;
            }
            for _ in 0..DROPS_MAX {
                let Some(ticket) = backlog.delayed(at(ms), C) else {
                    break;
                };
                refuse(&mut backlog, ticket);
                came.pop_front();
                dropped += 1;
                assert!(backlog.len() > 0, "the last one was dropped");
            }
            serve(&mut backlog, at(ms), C, 1.0).expect("one stays");
            delays.push(ms - came.pop_front().expect("one was served"));
        }
        (delays, dropped)
    };
    let (without, none) = delays(None);
    assert_eq!((without[19_999], none), (199, 0));
    let (with, dropped) = delays(Some(codel));
    assert!(with[19_999] <= 20 && (180..=220).contains(&dropped), "{dropped}");
    assert_eq!(with[..100], without[..100], "a burst is borne for an interval");
}

#[test]
fn codel_looks_at_each_flow_by_itself() {
    let codel = Codel { target: Duration::from_millis(5), interval: Duration::from_millis(50) };
    let mut backlog = backlog(Class { codel: Some(codel), ..roomy() });
    for _ in 0..1000 {
        backlog.push(at(0), C, &of_flow(1), at(0) + LONG, 1);
    }
    let mut dropped = Vec::new();
    for ms in 0..400 {
        if ms % 2 == 0 {
            backlog.push(at(ms), C, &of_flow(2), at(ms) + LONG, 2);
        }
        while let Some(ticket) = backlog.delayed(at(ms), C) {
            dropped.push(refuse(&mut backlog, ticket));
        }
        serve(&mut backlog, at(ms), C, 1.0).expect("they wait");
    }
    assert!(dropped.len() > 5 && dropped.iter().all(|flow| *flow == 1), "{dropped:?}");
}

/// Where one flow keeps the slots full, the others wait until the next comes free, for longer than the target. They are no
/// queue that stands: only its own requests are dropped. Without turns, by deadline and by score, they wait for all that came before, and
/// it pays for that too.
#[test]
fn codel_drops_only_of_the_flow_that_makes_the_delay() {
    let codel = Codel { target: Duration::from_millis(5), interval: Duration::from_millis(100) };
    for order in [Order::Fifo, Order::Deadline, Order::Score] {
        let mut backlog = backlog(Class { codel: Some(codel), order, ..roomy() });
        let mut dropped = Vec::new();
        for ms in 0..20_000 {
            while backlog.len_of(C) < 20 {
                backlog.push(at(ms), C, &of_flow(1), at(ms) + LONG, 1);
            }
            if ms % 41 == 0 {
                backlog.push(at(ms), C, &of_flow(1000 + ms), at(ms) + LONG, 2);
            }
            if ms % 16 == 0 {
                while let Some(ticket) = backlog.delayed(at(ms), C) {
                    dropped.push(refuse(&mut backlog, ticket));
                }
                serve(&mut backlog, at(ms), C, 1.0).expect("they wait");
            }
        }
        let others = dropped.iter().filter(|flow| **flow != 1).count();
        assert!(dropped.len() > 20 && others == 0, "{order:?}: {others} of {}", dropped.len());
    }
}

/// Delays of those that are served, in ms, and how many are dropped, of two a millisecond that come and one
/// that is served. `flow_of`: whose the request with that number is.
fn overloaded(codel: Option<Codel>, flow_of: impl Fn(u64) -> u64) -> (Vec<u64>, u32) {
    let mut backlog = backlog(Class { codel, ..roomy() });
    let (mut came, mut delays, mut dropped) = (Vec::new(), Vec::new(), 0);
    for ms in 0..30_000 {
        for _ in 0..2 {
            let id = came.len();
            backlog.push(at(ms), C, &of_flow(flow_of(id as u64)), at(ms) + LONG, id as u32);
            came.push(ms);
        }
        for _ in 0..DROPS_MAX {
            let Some(ticket) = backlog.delayed(at(ms), C) else {
                break;
            };
            refuse(&mut backlog, ticket);
            dropped += 1;
        }
        let id = serve(&mut backlog, at(ms), C, 1.0).expect("two came");
        delays.push(ms - came[id as usize]);
    }
    (delays, dropped)
}

/// Twice the load, one request a flow: each is the last of its flow, and all together are a backlog that
/// stands.
#[test]
fn codel_drops_where_each_flow_has_one_request_waiting() {
    let codel = Codel { target: Duration::from_millis(5), interval: Duration::from_millis(100) };
    let (one, of_one) = overloaded(Some(codel), |_| 1);
    let (each, of_each) = overloaded(Some(codel), |number| number);
    let (_, none) = overloaded(None, |number| number);
    assert_eq!(none, 0);
    let (longest, alone) = (each[29_000..].iter().max(), one[29_000..].iter().max());
    assert!(longest <= alone.map(|ms| ms * 11 / 10).as_ref(), "{longest:?}, {alone:?} in one flow");
    assert!(of_each.abs_diff(of_one) < of_one / 10, "{of_each} dropped, {of_one} in one flow");
}

/// Served of each flow, while `flows` of running sessions keep so many requests waiting each and eight in service
/// among them, and two flows of new sessions one each.
fn sessions_beside_new_ones(flows: u64, depth: u32, order: Order) -> BTreeMap<u32, u32> {
    let mut backlog = backlog(Class { order, ..roomy() });
    let mut served = BTreeMap::new();
    let mut runs = VecDeque::new();
    let push = |backlog: &mut Backlog<u32>, ms, flow: u64| {
        let arrival = Arrival { running: flow < 1000, ..of_flow(flow) };
        backlog.push(at(ms), C, &arrival, at(ms) + LONG, flow as u32);
    };
    for flow in (0..flows).flat_map(|flow| vec![flow; depth as usize]).chain([1000, 1001]) {
        push(&mut backlog, 0, flow);
    }
    for ms in 0..4000 {
        if runs.len() == 8 {
            let turn: Option<FlowTurn> = runs.pop_front().expect("eight run");
            turn.into_iter().for_each(|turn| backlog.ended(at(ms), turn, 1.0, 1.0));
        }
        let (flow, turn) = begin(&mut backlog, at(ms), C, 1.0).expect("they wait");
        runs.push_back(turn);
        *served.entry(flow).or_default() += 1;
        push(&mut backlog, ms, flow.into());
    }
    served
}

#[test]
fn a_flow_that_has_much_of_what_sessions_ask_for_leaves_new_ones_every_second_turn() {
    for order in [Order::Fifo, Order::AdaptiveLifo, Order::Deadline] {
        // One client with all of it.
        let served = sessions_beside_new_ones(1, 30, order);
        let new = served[&1000] + served[&1001];
        assert!(new.abs_diff(2000) <= 2, "{order:?}: {served:?}");
        // Beside another that asks for little, and gets it.
        let served = sessions_beside_new_ones(2, 30, order);
        let new = served[&1000] + served[&1001];
        assert!(new.abs_diff(2000) <= 2, "{order:?}: {served:?}");
        // Several, each with more than a browser asks for at once.
        let served = sessions_beside_new_ones(6, 20, order);
        let new = served[&1000] + served[&1001];
        assert!(new.abs_diff(2000) <= 2, "{order:?}: {served:?}");
        // Many that have as much as each other, and not more than that: new ones wait. (By deadline, one may seem to be
        // served much before much was served.)
        let served = sessions_beside_new_ones(20, 4, order);
        assert!(served.get(&1000).is_none_or(|new| *new <= 1), "{order:?}: {served:?}");
        // One request at a time each.
        let served = sessions_beside_new_ones(30, 1, order);
        assert!(!served.contains_key(&1000), "{order:?}: {served:?}");
    }
}

/// Few that never pause, on no more connections than a browser has.
#[test]
fn flows_that_get_much_of_what_is_served_leave_new_ones_every_second_turn() {
    for order in [Order::Fifo, Order::AdaptiveLifo] {
        for (flows, depth, least) in [(5, 5, 1300), (12, 1, 800)] {
            let served = sessions_beside_new_ones(flows, depth, order);
            let new = served[&1000] + served[&1001];
            assert!((least..=2000).contains(&new), "{order:?}, {flows} flows: {served:?}");
        }
    }
}

/// A session's flow that fills the class makes room for new ones, and displaces none; other sessions do as ever.
#[test]
fn a_flow_that_has_much_of_a_full_class_makes_room_for_new_sessions() {
    let mut backlog = backlog(Class { queue_len_max: 20, ..roomy() });
    let arrival = |flow, running| Arrival { running, ..of_flow(flow) };
    let come = |backlog: &mut Backlog<u32>, flow: u32, running: bool| {
        let arrival = arrival(flow.into(), running);
        let left = match backlog.room(C, &arrival) {
            Room::Free => None,
            Room::None => return Err(()),
            Room::After(ticket, 1) => Some(refuse(backlog, ticket)),
            Room::After(..) => panic!("one is enough"),
        };
        backlog.push(at(0), C, &arrival, at(0) + LONG, flow);
        Ok(left)
    };
    (0..20).for_each(|_| assert_eq!(come(&mut backlog, 1, true), Ok(None)));
    // New ones take its places down to six, which is more than a quarter, and so on; and its own next takes none of
    // theirs.
    for flow in 100..115 {
        assert_eq!(come(&mut backlog, flow, false), Ok(Some(1)));
        assert_eq!(come(&mut backlog, 1, true), Err(()));
    }
    assert_eq!(come(&mut backlog, 115, false), Err(()));
    // Another session's takes one of those without.
    assert_eq!(come(&mut backlog, 2, true), Ok(Some(114)));
}

#[test]
fn a_large_request_takes_the_places_of_as_many_small_ones_as_it_needs() {
    let class = Class { queue_bytes_max: 256 << 10, ..roomy() };
    let mut backlog = backlog(class);
    let of = |flow, bytes| Arrival { bytes, ..of_flow(flow) };
    while backlog.room(C, &of(1, 900)) == Room::Free {
        backlog.push(at(0), C, &of(1, 900), at(0) + LONG, 1);
    }
    let len = backlog.len_of(C);
    assert!(matches!(backlog.room(C, &of(2, 60_000)), Room::After(_, 66 | 67)));
    assert_eq!(backlog.room(C, &of(1, 60_000)), Room::None, "its own would be no smaller");
    assert!(matches!(backlog.room(C, &of(2, 250_000)), Room::After(_, count) if count > 270));
    // What one flow has is not enough.
    for _ in 0..len / 2 {
        let ticket = backlog.outnumbering(C, &of(2, 900)).expect("many");
        refuse(&mut backlog, ticket);
        backlog.push(at(0), C, &of(3, 900), at(0) + LONG, 3);
    }
    assert_eq!(backlog.room(C, &of(2, 250_000)), Room::None);
    assert!(matches!(backlog.room(C, &of(2, 100_000)), Room::After(..)));
}
