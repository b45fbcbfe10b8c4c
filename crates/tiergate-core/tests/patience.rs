//! Clients that leave: a gate that is told nothing of their patience serves nearly as many of them as one
//! that is told the best deadline.

#![allow(clippy::disallowed_macros, reason = "tests say what they measured")]

use std::time::Duration;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Gate, Slot, Ticket, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::time::Moment;

const MS: Duration = Duration::from_millis(1);
const SLOTS: u32 = 16;
/// Mean time of an answer, milliseconds: 16 slots give 200 a second.
const SERVICE: u64 = 80;

struct Client {
    arrived: u64,
    leaves: u64,
    at: Place,
}

enum Place {
    Waits(Ticket),
    Served { slot: Slot, until: u64, took: u64, left: Option<Duration> },
    Gone,
}

/// Numbers that are the same at each run.
fn noise(seed: u64) -> u64 {
    let mixed = (seed ^ (seed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}

/// Clients that are answered while they are there, of 20 seconds after the first five, where so many times
/// as many come as can be served. Client number n waits for `patience(n)` milliseconds.
fn goodput(times: f64, deadline: Duration, patience: impl Fn(u64) -> u64) -> u32 {
    let mut class = Class::named("all");
    class.deadline = deadline;
    let spec = Spec { classes: vec![class], slots: Slots::Fixed(SLOTS), ..Spec::protective() };
    let mut gate: Gate<usize> = Gate::new(spec.build().expect("a valid plan"));
    let (mut clients, mut good) = (Vec::<Client>::new(), 0);
    let (mut due, mut live) = (0.0, Vec::<usize>::new());
    let a_millisecond = times * f64::from(SLOTS) / SERVICE as f64;
    for ms in 0..25_000_u64 {
        let now = Moment::from_millis(ms);
        gate.tick(now);
        for &index in &live {
            let client = &mut clients[index];
            if let Place::Served { slot, until, took, left } = &mut client.at {
                if ms == client.leaves && left.is_none() {
                    *left = Some(now.since(slot.admitted()));
                }
                if *until == ms {
                    good += u32::from(left.is_none() && ms > 5_000);
                    let end = if left.is_some() { End::Cancelled } else { End::Served };
                    let first_byte = Some(*took as u32 * MS);
                    let outcome = Outcome { end, first_byte, bytes: 0, left: *left };
                    let Place::Served { slot, .. } = std::mem::replace(&mut client.at, Place::Gone)
                    else {
                        unreachable!()
                    };
                    gate.finish(now, slot, outcome);
                }
            } else if let Place::Waits(ticket) = client.at
                && ms == client.leaves
            {
                gate.cancel(now, ticket);
                client.at = Place::Gone;
            }
        }
        due += a_millisecond;
        while due >= 1.0 {
            due -= 1.0;
            let number = clients.len();
            let at = match gate.arrive(now, Arrival::of(ClassId(0)), || number) {
                Verdict::Admit(slot) => served(slot, ms, number),
                Verdict::Queue(ticket) => Place::Waits(ticket),
                Verdict::Reject(_) => Place::Gone,
            };
            clients.push(Client { arrived: ms, leaves: ms + patience(number as u64), at });
            live.push(number);
        }
        while gate.next_effect().is_some() {}
        for &index in &live {
            let client = &mut clients[index];
            let Place::Waits(ticket) = client.at else { continue };
            match gate.claim(ticket) {
                Claim::Waiting => {}
                Claim::Admitted(slot) => client.at = served(slot, ms, index),
                Claim::Rejected(_) => client.at = Place::Gone,
            }
        }
        live.retain(|&index| {
            assert!(ms < clients[index].arrived + 60_000);
            !matches!(clients[index].at, Place::Gone)
        });
    }
    good
}

fn served(slot: Slot, ms: u64, number: usize) -> Place {
    let took = SERVICE / 2 + noise(number as u64) % SERVICE;
    Place::Served { slot, until: ms + took, took, left: None }
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
        for times in [3.0, 10.0] {
            let of = |ms: u64| goodput(times, Duration::from_millis(ms), patience);
            let typed = [100, 200, 400, 800, 1600].map(|ms| (of(ms), ms));
            let (best, at) = *typed.iter().max().expect("several");
            let learned = goodput(times, Class::named("all").deadline, patience);
            let share = f64::from(learned) / f64::from(best);
            println!("{name}, {times}x: {learned}, best typed {best} (at {at} ms): {share:.3}");
            assert!(share > 0.95, "{name}, {times}x: {typed:?}, learned {learned}");
        }
    }
}
