//! A gate with fixed slots, clients in front of it that come at random, and a server that takes each
//! request as long as was drawn for it: the textbook's queue with so many servers.
//!
//! The clients of one seed are the same whatever the plan, so that two orders can be compared request
//! by request.

use fastrand::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;
use tiergate_core::class::{Class, ClassId, Order};
use tiergate_core::classify::score::{Points, Score};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Slot, Ticket, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Plan;
use tiergate_core::schedule::{Policy, Site};
use tiergate_core::time::Moment;
use tiergate_sim::client::Profile;
use tiergate_sim::distribution::Distribution;

/// Clients that are alike.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    pub(crate) class: u16,
    pub(crate) flow: u64,
    /// Points of their requests' score.
    pub(crate) points: u32,
    /// Requests a second over time; they come at random.
    pub(crate) rate: Profile,
    pub(crate) service: Distribution,
    /// Shortest and longest deadline in ms, anything between them as likely by factors; `None`: their
    /// class's.
    pub(crate) deadline_ms: Option<(f64, f64)>,
}

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    /// Place in the list of clients.
    pub(crate) clients: usize,
    pub(crate) came_s: f64,
    /// From its arrival to its slot; `None`: it was refused.
    pub(crate) waited_s: Option<f64>,
    pub(crate) service_s: f64,
}

/// A plan of some classes under one policy, with deadlines that nobody reaches.
pub(crate) fn plan(policy: Policy, classes: &[&str], slots: u32) -> Plan {
    let order = match policy {
        Policy::Deadline => Order::Deadline,
        Policy::Score { .. } => Order::Score,
        _ => Order::Fifo,
    };
    let deadline = Duration::from_secs(100_000);
    let class = |name: &&str| Class { deadline, order, fair: false, ..Class::named(*name) };
    Plan {
        classes: classes.iter().map(class).collect(),
        slots: Slots::Fixed(slots),
        sites: vec![Site { policy, ..Site::named("site") }],
        ..Plan::protective()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive(usize),
    Finish(usize),
}

struct Request {
    clients: usize,
    came: Moment,
    service: Duration,
    deadline: Option<Duration>,
    ticket: Option<Ticket>,
    slot: Option<Slot>,
    waited: Option<Duration>,
}

/// Requests that come, in order of time: at most so many, and none after so many seconds.
fn requests(clients: &[Clients], most: usize, seconds: f64, seed: u64) -> Vec<Request> {
    let mut coming = Vec::new();
    for (place, it) in clients.iter().enumerate() {
        // Each has its own dice: what another does changes nothing.
        let mut rng = Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(place as u64));
        let highest = it.rate.highest();
        let (mut at, mut count) = (0.0, 0);
        while highest > 0.0 && count < most {
            at += -(1.0 - rng.f64()).ln() / highest;
            if at > seconds {
                break;
            }
            if rng.f64() * highest > it.rate.at(at) {
                continue;
            }
            count += 1;
            let deadline = it.deadline_ms.map(|(low, high)| {
                Duration::from_secs_f64(low * (high / low).powf(rng.f64()) / 1e3)
            });
            coming.push(Request {
                clients: place,
                came: Moment::ZERO + Duration::from_secs_f64(at),
                service: Duration::from_nanos(it.service.draw(&mut rng) as u64),
                deadline,
                ticket: None,
                slot: None,
                waited: None,
            });
        }
    }
    coming.sort_by_key(|request| request.came);
    coming.truncate(most);
    coming
}

/// Serves all who come, and says what became of each, in order of arrival.
pub(crate) fn run(
    plan: Plan,
    clients: &[Clients],
    most: usize,
    seconds: f64,
    seed: u64,
) -> Vec<Fate> {
    let mut requests = requests(clients, most, seconds, seed);
    let mut gate: Gate<usize> = Gate::new(plan);
    let mut events: BinaryHeap<Reverse<(Moment, Event)>> =
        requests.iter().enumerate().map(|(id, it)| Reverse((it.came, Event::Arrive(id)))).collect();
    let (mut tick_at, mut past) = (Moment::NEVER, Moment::ZERO);
    loop {
        let next = events.peek().map_or(Moment::NEVER, |Reverse((at, _))| *at);
        tick_at = tick_at.min(gate.next_due(past));
        let now = next.min(tick_at);
        if now == Moment::NEVER {
            break;
        }
        past = now;
        let mut started = Vec::new();
        if tick_at <= next {
            tick_at = gate.tick(now);
        } else if let Some(Reverse((_, event))) = events.pop() {
            match event {
                Event::Arrive(id) => {
                    let it = &mut requests[id];
                    match gate.arrive(now, arrival(it, &clients[it.clients]), || id) {
                        Verdict::Admit(slot) => started.push((id, slot)),
                        Verdict::Queue(ticket) => it.ticket = Some(ticket),
                        Verdict::Reject(_) => {}
                    }
                }
                Event::Finish(id) => {
                    let it = &mut requests[id];
                    let first_byte = Some(it.service);
                    let slot = it.slot.take().expect("it was started");
                    let outcome = Outcome { first_byte, ..Outcome::without_answer(End::Served) };
                    gate.finish(now, slot, outcome);
                }
            }
        }
        while let Some(id) = gate.next_effect().and_then(Effect::into_wake) {
            let ticket = requests[id].ticket.take().expect("it waits");
            if let Claim::Admitted(slot) = gate.claim(ticket) {
                started.push((id, slot));
            }
        }
        for (id, slot) in started {
            let it = &mut requests[id];
            it.waited = Some(now.since(it.came));
            it.slot = Some(slot);
            events.push(Reverse((now + it.service, Event::Finish(id))));
        }
        assert!(gate.waiting() == 0 || gate.running() == gate.slots(), "a slot is idle");
    }
    let fate = |it: &Request| Fate {
        clients: it.clients,
        came_s: it.came.seconds(),
        waited_s: it.waited.map(|waited| waited.as_secs_f64()),
        service_s: it.service.as_secs_f64(),
    };
    requests.iter().map(fate).collect()
}

fn arrival(request: &Request, clients: &Clients) -> Arrival {
    let points = Points::from_thousandths(clients.points * 1000).expect("at most 1000");
    Arrival {
        deadline: request.deadline,
        flow: clients.flow,
        score: Score::of(points),
        rule: None,
        ..Arrival::of(ClassId(clients.class))
    }
}

/// The mean; 0 of nothing.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
    if count == 0.0 { 0.0 } else { sum / count }
}

/// The value below which that part of the values is.
pub(crate) fn quantile(values: impl Iterator<Item = f64>, part: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let rank = (part * values.len() as f64).ceil() as usize;
    values[rank.clamp(1, values.len()) - 1]
}

/// Against the formula: the wait in a queue with one server and exponential times (M/M/1).
#[test]
fn the_textbook_s_queue_comes_out() {
    let clients = [Clients {
        class: 0,
        flow: 0,
        points: 0,
        rate: Profile::Flat(80.0),
        service: Distribution::Exponential { mean_ms: 10.0 },
        deadline_ms: None,
    }];
    let fates = run(plan(Policy::Fifo, &["all"], 1), &clients, usize::MAX, 4000.0, 1);
    let waited = mean(fates.iter().filter_map(|fate| fate.waited_s));
    assert!((waited / 0.040 - 1.0).abs() < 0.05, "{waited} s, 40 ms is right");
}
