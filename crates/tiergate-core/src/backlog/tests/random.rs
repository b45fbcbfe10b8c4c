//! Random operations on the backlog and on the naive one: every answer is the same.

use super::oracle::{May, Oracle};
use super::*;
use crate::class::{Late, Order, WhenFull};
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Debug)]
enum Op {
    /// Class, running, flow, patience in ms, points, bytes.
    Push(u8, bool, u8, u16, u8, u8),
    /// Class, cost.
    Serve(u8, u16),
    /// Which service has ended, and by how much its charge was wrong.
    End(u8, i16),
    Cancel(u8),
    /// Time passes, in ms, and who is due is looked for.
    Expire(u16),
    /// Time passes, in ms, and nobody is told.
    Wait(u16),
    /// Other settings of every class.
    Reload(Vec<Class>),
}

fn classes() -> impl Strategy<Value = Vec<Class>> {
    let order = prop_oneof![
        Just(Order::Fifo),
        Just(Order::AdaptiveLifo),
        Just(Order::Deadline),
        Just(Order::Score)
    ];
    let when_full = prop_oneof![
        Just(WhenFull::RefuseNew),
        Just(WhenFull::DropOldest),
        Just(WhenFull::DropLeast)
    ];
    let late = prop_oneof![Just(Late::Refuse), Just(Late::Last)];
    let class = (order, any::<bool>(), when_full, late, 0_u32..12, 200_u64..900).prop_map(
        |(order, fair, when_full, late, queue_len_max, queue_bytes_max)| Class {
            order,
            fair,
            when_full,
            late,
            queue_len_max,
            queue_bytes_max,
            ..Class::named("c")
        },
    );
    prop::collection::vec(class, 1..=3)
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let push = (any::<u8>(), prop::bool::weighted(0.2), 0_u8..5, 0_u16..300, 0_u8..4, any::<u8>());
    let op = prop_oneof![
        14 => push.prop_map(|(c, r, f, d, p, b)| Op::Push(c, r, f, d, p, b)),
        // Few and whole costs, so that flows often stand at the same start.
        4 => (any::<u8>(), 1_u16..100).prop_map(|(c, cost)| Op::Serve(c, cost)),
        4 => (any::<u8>(), 1_u16..3).prop_map(|(c, cost)| Op::Serve(c, cost * 8)),
        5 => (any::<u8>(), any::<i16>()).prop_map(|(s, d)| Op::End(s, d % 100)),
        2 => any::<u8>().prop_map(Op::Cancel),
        2 => (0_u16..40).prop_map(Op::Expire),
        2 => prop_oneof![8 => 0_u16..40, 1 => Just(11_000_u16)].prop_map(Op::Wait),
        1 => classes().prop_map(Op::Reload),
    ];
    prop::collection::vec(op, 1..150)
}

struct Both {
    real: Backlog<u32>,
    naive: Oracle,
    now: Moment,
    tickets: HashMap<u32, Ticket>,
    /// Whom services were charged to, and what.
    services: Vec<(FlowTurn, (usize, usize, u64), f64)>,
    ids: u32,
}

const AGEING: u64 = 7;

impl Both {
    fn new(classes: &[Class]) -> Self {
        Both {
            real: backlog_of(classes, AGEING as f64),
            naive: Oracle::new(classes.to_vec(), AGEING),
            now: Moment::ZERO,
            tickets: HashMap::new(),
            services: Vec::new(),
            ids: 0,
        }
    }

    fn class(&self, number: u8) -> usize {
        number as usize % self.naive.classes.len()
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Push(class, running, flow, patience, points, bytes) => {
                let arrival = Arrival {
                    running,
                    flow: flow.into(),
                    score: score(points.into()),
                    bytes: bytes.into(),
                    ..Arrival::of(ClassId(0))
                };
                self.push(self.class(class), &arrival, patience);
            }
            Op::Serve(class, cost) => self.serve(self.class(class), f64::from(cost) / 8.0),
            Op::End(which, difference) => {
                if !self.services.is_empty() {
                    let place = which as usize % self.services.len();
                    let (turn, of, cost) = self.services.remove(place);
                    let difference = f64::from(difference) / 8.0;
                    // None is, where flows are told apart otherwise since a reload.
                    if self.real.flows.named(turn).is_some() {
                        self.naive.ended(self.now, of, cost, cost + difference);
                    }
                    self.real.ended(self.now, turn, cost, cost + difference);
                }
            }
            Op::Cancel(which) => {
                if !self.naive.waiting.is_empty() {
                    let place = which as usize % self.naive.waiting.len();
                    let id = self.naive.waiting[place].id;
                    self.naive.leave(self.now, id);
                    self.real.remove(self.tickets[&id]);
                    assert!(self.real.waiter(self.tickets[&id]).is_none());
                }
            }
            Op::Expire(ms) => self.expire(ms),
            Op::Wait(ms) => self.now = self.now + Duration::from_millis(ms.into()),
            Op::Reload(ref classes) => {
                let all: Vec<Class> = classes.iter().cycle().take(3).cloned().collect();
                let new = disciplines(&all, AGEING as f64);
                for (class, new) in new.into_iter().enumerate().take(self.naive.classes.len()) {
                    self.real.reconfigure(LaneId(class as u32), new);
                    self.naive.reconfigure(class, all[class].clone());
                }
            }
        }
        self.check();
    }

    fn push(&mut self, class: usize, arrival: &Arrival, patience: u16) {
        let id = LaneId(class as u32);
        let real = self.real.room(id, arrival);
        match self.naive.may_wait(class, arrival) {
            May::Wait => assert_eq!(real, Room::Free),
            May::WaitAfter(victims) => {
                assert_eq!(real, Room::After(self.tickets[&victims[0]], victims.len()));
                let mut next = Some(self.tickets[&victims[0]]);
                for victim in victims {
                    let ticket = next.expect("so many were counted");
                    next = self.real.beside(ticket);
                    self.naive.leave(self.now, victim);
                    assert_eq!(refuse(&mut self.real, ticket), victim);
                }
            }
            May::NotWait => {
                assert_eq!(real, Room::None);
                return;
            }
        }
        // No two deadlines are the same, nor that of one that is late (twice the patience) and another's:
        // who of such is late first is left open.
        let odd = Duration::from_nanos(2 * u64::from(self.ids) + 1);
        let patience = Duration::from_millis(patience.into()) + odd;
        let deadline = self.now + patience;
        let ticket = self.real.push(self.now, id, arrival, deadline, self.ids);
        self.naive.push(self.ids, self.now, class, arrival, deadline);
        self.tickets.insert(self.ids, ticket);
        self.ids += 1;
    }

    fn serve(&mut self, class: usize, cost: f64) {
        let id = LaneId(class as u32);
        let first = self.real.first(self.now, id);
        let of = first.map(|ticket| {
            let waiter = self.real.waiter(ticket).expect("it waits");
            let kind = if waiter.late { 2 } else { usize::from(!waiter.running) };
            (class, kind, waiter.flow)
        });
        let real = begin(&mut self.real, self.now, id, cost);
        let naive = self.naive.serve(self.now, class, cost);
        assert_eq!(real.map(|(wake, _)| wake), naive);
        if let Some((_, Some(turn))) = real {
            self.services.push((turn, of.expect("somebody was served"), cost));
        }
    }

    fn expire(&mut self, ms: u16) {
        self.now = self.now + Duration::from_millis(ms.into());
        let mut real = Vec::new();
        while let Some(ticket) = expired(&mut self.real, self.now) {
            real.push(refuse(&mut self.real, ticket));
        }
        assert_eq!(real, self.naive.expired(self.now));
    }

    fn check(&mut self) {
        assert_eq!(self.real.len(), self.naive.waiting.len());
        let next = self.naive.waiting.iter().map(|it| it.deadline).min();
        assert_eq!(self.real.next_deadline(), next.unwrap_or(Moment::NEVER));
        for class in 0..self.naive.classes.len() {
            let id = LaneId(class as u32);
            let lens = [0, 1, 2].map(|kind| self.naive.of_kind(class, kind).len() as u32);
            assert_eq!(self.real.len_of(id), lens.iter().sum::<u32>());
            assert_eq!(self.real.len_of_list(id, true), lens[0]);
            assert_eq!(self.real.len_of_list(id, false), lens[1]);
            let first = self.naive.first(self.now, class).map(|id| self.tickets[&id]);
            assert_eq!(self.real.first(self.now, id), first);
            let key = self.real.key(self.now, id).map(|key| key.late);
            assert_eq!(key, first.map(|_| lens[0] + lens[1] == 0));
        }
    }
}

proptest! {
    #[test]
    fn it_is_the_naive_one(classes in classes(), ops in ops()) {
        both_apply(&classes, &ops);
    }
}

/// Applies all, and then serves all that wait.
fn both_apply(classes: &[Class], ops: &[Op]) {
    let mut both = Both::new(classes);
    ops.iter().for_each(|op| both.apply(op));
    for class in 0..both.naive.classes.len() {
        while both.naive.waiting.iter().len() > 0 && both.naive.first(both.now, class).is_some() {
            both.serve(class, 1.0);
        }
    }
    assert_eq!(both.real.len(), 0);
}

/// One class, first come first served by flow.
fn turns(when_full: WhenFull, queue_len_max: u32) -> Vec<Class> {
    let queue_bytes_max = 1000;
    vec![Class {
        order: Order::Fifo,
        when_full,
        queue_len_max,
        queue_bytes_max,
        ..Class::named("c")
    }]
}

fn push(running: bool, flow: u8) -> Op {
    Op::Push(0, running, flow, 0, 0, 0)
}

/// Found at random. A session's flow gave way as often as its usual cost says, and as often as if that were
/// not known after a reload.
#[test]
fn a_reload_keeps_what_a_flow_usually_costs() {
    let ops = [
        push(false, 0),
        push(false, 3),
        push(true, 2),
        Op::Serve(0, 1),
        push(false, 0),
        Op::Serve(0, 1),
        push(true, 2),
        Op::End(66, 8),
        Op::End(0, 0),
        Op::Serve(0, 8),
        push(true, 0),
        Op::Serve(0, 24),
        push(false, 0),
        Op::Reload(turns(WhenFull::DropOldest, 0)),
    ];
    both_apply(&turns(WhenFull::RefuseNew, 3), &ops);
}

/// Found at random. A flow's start had moved by a rounding error, past that of one which came after it.
#[test]
fn a_charge_that_was_right_moves_nothing() {
    let ops = [
        push(false, 0),
        push(false, 3),
        push(false, 1),
        Op::Serve(0, 62),
        push(false, 3),
        Op::Serve(0, 64),
        Op::Serve(0, 1),
        push(false, 2),
        push(false, 0),
        Op::Serve(0, 8),
        push(false, 1),
        Op::End(62, 0),
        Op::End(118, 0),
        push(false, 0),
    ];
    both_apply(&turns(WhenFull::DropOldest, 2), &ops);
}
