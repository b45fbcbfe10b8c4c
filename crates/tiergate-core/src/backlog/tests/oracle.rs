//! The naive backlog: one list of all that wait, searched from end to end for every question. It knows
//! the rules and nothing of how they are kept.

use super::super::class_queue::{Served, queue_of};
use super::super::flows::{Flow, REMEMBERED};
use super::super::room::VICTIMS_MAX;
use super::*;
use crate::class::{Late, Order, WhenFull};

/// One that waits.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) id: u32,
    class: usize,
    /// 0: of a running session, 1: not, 2: late.
    kind: usize,
    flow: u64,
    arrived: Moment,
    pub(super) deadline: Moment,
    score: Score,
    bytes: u64,
    /// Counts those who begin to wait, and services.
    number: u64,
}

/// What a flow was served, in one class and kind.
#[derive(Clone, Debug)]
struct Account {
    of: (usize, usize, u64),
    start: f64,
    tie: u64,
    since: u64,
    lifo: bool,
    /// Services that have not ended; whether the latest has always been the only request of its flow.
    running: u32,
    alone: bool,
    /// So many turns it left to the other kind since its last; what its services usually cost.
    gave_way: u32,
    cost: f64,
    idle_since: Option<Moment>,
}

pub(super) struct Oracle {
    pub(super) classes: Vec<Class>,
    ageing: u64,
    pub(super) waiting: Vec<Waiting>,
    accounts: Vec<Account>,
    virtual_now: Vec<[f64; 3]>,
    /// By class.
    served: Vec<Served>,
    numbers: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum May {
    Wait,
    WaitAfter(Vec<u32>),
    NotWait,
}

impl Oracle {
    pub(super) fn new(classes: Vec<Class>, ageing: u64) -> Self {
        let virtual_now = vec![[0.0; 3]; classes.len()];
        let served = vec![Served::new(); classes.len()];
        let (waiting, accounts) = (Vec::new(), Vec::new());
        Oracle { classes, ageing, waiting, accounts, virtual_now, served, numbers: 0 }
    }

    fn key(&self, waiting: &Waiting) -> (usize, usize, u64) {
        let flow = if self.classes[waiting.class].fair { waiting.flow } else { 0 };
        (waiting.class, waiting.kind, flow)
    }

    fn of_flow(&self, of: (usize, usize, u64)) -> Vec<&Waiting> {
        let mut list: Vec<&Waiting> =
            self.waiting.iter().filter(|other| self.key(other) == of).collect();
        list.sort_by_key(|waiting| waiting.number);
        list
    }

    pub(super) fn of_kind(&self, class: usize, kind: usize) -> Vec<&Waiting> {
        self.waiting.iter().filter(|it| (it.class, it.kind) == (class, kind)).collect()
    }

    fn account(&mut self, of: (usize, usize, u64)) -> &mut Account {
        let place = self.accounts.iter().position(|account| account.of == of);
        &mut self.accounts[place.expect("who waits has an account")]
    }

    pub(super) fn push(&mut self, id: u32, now: Moment, class: usize, it: &Arrival, until: Moment) {
        let waiting = Waiting {
            id,
            class,
            kind: usize::from(!it.running),
            flow: it.flow,
            arrived: now,
            deadline: until,
            score: it.score,
            bytes: it.bytes.into(),
            number: 0,
        };
        self.enter(now, waiting);
    }

    fn enter(&mut self, now: Moment, mut waiting: Waiting) {
        self.numbers += 1;
        waiting.number = self.numbers;
        let of = self.key(&waiting);
        if self.of_flow(of).is_empty() {
            let present = self.virtual_now[of.0][of.1];
            let known = self.accounts.iter().find(|account| account.of == of);
            let is_over = |account: &Account| {
                let idle = |since: Moment| now.since(since) >= REMEMBERED;
                account.idle_since.is_some_and(|it| idle(it) || account.start <= present)
            };
            let known = known.filter(|account| !is_over(account));
            let start = known.map_or(present, |account| account.start.max(present));
            let running = known.map_or(0, |account| account.running);
            let cost = known.map_or(0.0, |account| account.cost);
            self.accounts.retain(|account| account.of != of);
            let (tie, since) = (waiting.number, waiting.number);
            let idle_since = None;
            let (lifo, alone, gave_way) = (false, false, 0);
            self.accounts.push(Account {
                of,
                start,
                tie,
                since,
                lifo,
                running,
                alone,
                gave_way,
                cost,
                idle_since,
            });
        }
        self.waiting.push(waiting);
    }

    pub(super) fn leave(&mut self, now: Moment, id: u32) -> Waiting {
        let place = self.waiting.iter().position(|other| other.id == id).expect("it waits");
        let waiting = self.waiting.remove(place);
        let of = self.key(&waiting);
        self.rest(now, of);
        waiting
    }

    /// Forgets the flow if it has nothing waiting, running or owed.
    fn rest(&mut self, now: Moment, of: (usize, usize, u64)) {
        if self.of_flow(of).is_empty() && self.account(of).running == 0 {
            self.account(of).idle_since = Some(now);
            let present = self.virtual_now[of.0][of.1];
            self.accounts.retain(|account| account.of != of || account.start > present);
        }
    }

    pub(super) fn first(&mut self, now: Moment, class: usize) -> Option<u32> {
        let mut kind = (0..3).find(|&kind| !self.of_kind(class, kind).is_empty())?;
        if kind == 0 && self.gives_way(class) {
            kind = 1;
        }
        match self.classes[class].order {
            Order::Fifo | Order::AdaptiveLifo => Some(self.first_of_turn(now, class, kind)),
            Order::Deadline | Order::Score => Some(self.first_by_order(class, kind).id),
        }
    }

    fn first_by_order(&self, class: usize, kind: usize) -> &Waiting {
        let ageing = i128::from(self.ageing);
        let all = self.of_kind(class, kind).into_iter();
        let found = match self.classes[class].order {
            Order::Deadline => all.min_by_key(|it| (it.deadline, it.number)),
            _ => all.min_by_key(|it| {
                let waited_ms = i128::from(it.arrived.nanos() / 1_000_000);
                let points =
                    i128::from(it.score.millionths()) * 1000 - ageing * 1_000_000 * waited_ms;
                (-points, it.number)
            }),
        };
        found.expect("somebody waits")
    }

    /// Whose turn it is of a kind.
    fn flow_in_turn(&self, class: usize, kind: usize) -> (usize, usize, u64) {
        if matches!(self.classes[class].order, Order::Deadline | Order::Score) {
            return self.key(self.first_by_order(class, kind));
        }
        let keys: Vec<_> = self.of_kind(class, kind).iter().map(|it| self.key(it)).collect();
        let waits = |account: &&Account| keys.contains(&account.of);
        let accounts = self.accounts.iter().filter(waits);
        let next = accounts.min_by(|a, b| a.start.total_cmp(&b.start).then(a.tie.cmp(&b.tie)));
        next.expect("somebody waits").of
    }

    /// Whether whose turn it is of running sessions leaves it to the others.
    fn gives_way(&self, class: usize) -> bool {
        if self.of_kind(class, 0).is_empty() {
            return false;
        }
        let of = self.flow_in_turn(class, 0);
        if self.of_kind(class, 1).iter().all(|it| self.key(it).2 == of.2) {
            return false;
        }
        let running = |own: bool| {
            let accounts = self.accounts.iter();
            let those =
                accounts.filter(|it| (it.of.0, it.of.1) == (class, 0) && (!own || it.of == of));
            those.map(|account| account.running as usize).sum::<usize>()
        };
        let own = self.of_flow(of).len() + running(true);
        let all = self.of_kind(class, 0).len() + running(false);
        let account = self.accounts.iter().find(|account| account.of == of).expect("it waits");
        let got = self.served[class].is_much(of.2);
        (own > 6 || own > 1 && own * 4 > all || got)
            && account.gave_way < self.served[class].turns_to_leave(account.cost)
    }

    fn first_of_turn(&mut self, now: Moment, class: usize, kind: usize) -> u32 {
        let of = self.flow_in_turn(class, kind);
        let list = self.of_flow(of);
        let (first, last) = (list[0].clone(), list[list.len() - 1].id);
        let waited = now.since(first.arrived).as_nanos();
        let patience = first.deadline.since(first.arrived).as_nanos();
        let adaptive = self.classes[class].order == Order::AdaptiveLifo;
        let account = self.account(of);
        let was = account.lifo;
        account.lifo = adaptive && waited > patience / if was { 8 } else { 4 };
        if account.lifo { last } else { first.id }
    }

    pub(super) fn serve(&mut self, now: Moment, class: usize, cost: f64) -> Option<u32> {
        let id = self.first(now, class)?;
        let waiting = self.waiting.iter().find(|it| it.id == id).expect("it waits").clone();
        self.numbers += 1;
        let number = self.numbers;
        let settings = &self.classes[class];
        let has_turns =
            settings.fair && matches!(settings.order, Order::Fifo | Order::AdaptiveLifo);
        let flows_of = |kind: usize| {
            let mut flows: Vec<u64> = self.of_kind(class, kind).iter().map(|it| it.flow).collect();
            flows.sort_unstable();
            flows.dedup();
            flows.len() as f64
        };
        let (others, own) = (flows_of(0), flows_of(waiting.kind));
        if waiting.kind == 0 {
            let of = self.key(&waiting);
            self.account(of).gave_way = 0;
            self.served[class].note(Some(of.2), cost);
        } else if !self.of_kind(class, 0).is_empty() {
            let of = self.flow_in_turn(class, 0);
            let account = self.account(of);
            account.gave_way += 1;
            self.served[class].note(None, cost);
            let account = self.account(of);
            if has_turns {
                let start = account.start;
                (account.start, account.tie) = (start + cost, number);
                let present = &mut self.virtual_now[class][0];
                *present = (*present + cost / (others + 1.0)).max(start);
            }
        }
        if has_turns {
            let of = self.key(&waiting);
            let is_only = self.of_flow(of).len() == 1;
            let account = self.account(of);
            let start = account.start;
            account.start = start + cost;
            account.tie = number;
            account.alone = is_only && account.running == 0;
            account.running += 1;
            let present = &mut self.virtual_now[of.0][of.1];
            *present = (*present + cost / (own + 1.0)).max(start);
        }
        self.leave(now, id);
        Some(id)
    }

    /// What was served to `flow` of that class and kind has ended.
    pub(super) fn ended(&mut self, now: Moment, of: (usize, usize, u64), charged: f64, cost: f64) {
        let account = self.account(of);
        let queue = queue_of(LaneId(of.0 as u32), of.1 == 0, of.1 == 2);
        let mut flow = Flow { queue, key: of.2, cost: account.cost, ..Flow::default() };
        self.served[of.0].ended(&mut flow, charged, cost);
        let account = self.account(of);
        account.cost = flow.cost;
        account.running -= 1;
        let cost = if account.alone { 0.0 } else { cost };
        account.start = (account.start + (cost - charged)).max(0.0);
        self.rest(now, of);
    }

    /// Those whose wait is over.
    pub(super) fn expired(&mut self, now: Moment) -> Vec<u32> {
        let mut gone = Vec::new();
        loop {
            let due = self.waiting.iter().filter(|it| it.deadline <= now);
            let Some(waiting) = due.min_by_key(|it| it.deadline).cloned() else {
                return gone;
            };
            let mut waiting = self.leave(now, waiting.id);
            if self.classes[waiting.class].late == Late::Refuse || waiting.kind == 2 {
                gone.push(waiting.id);
                continue;
            }
            waiting.kind = 2;
            waiting.deadline = waiting.deadline + waiting.deadline.since(waiting.arrived);
            self.enter(now, waiting);
        }
    }

    pub(super) fn may_wait(&self, class: usize, it: &Arrival) -> May {
        let settings = &self.classes[class];
        let all: Vec<&Waiting> = self.waiting.iter().filter(|it| it.class == class).collect();
        let bytes: u64 = all.iter().map(|it| it.bytes).sum::<u64>() + u64::from(it.bytes);
        let excess = bytes.saturating_sub(settings.queue_bytes_max);
        let full = all.len() >= settings.queue_len_max as usize;
        if !full && excess == 0 {
            return May::Wait;
        }
        if u64::from(it.bytes) > settings.queue_bytes_max {
            return May::NotWait;
        }
        let own = usize::from(!it.running);
        let flow_of = |kind| (class, kind, if settings.fair { it.flow } else { 0 });
        let with_it = self.of_flow(flow_of(own)).len() + 1;
        let is_most = |len: usize, flow: u64| {
            len > 6 || len > 1 && len * 4 > all.len() || self.served[class].is_much(flow)
        };
        let any = |kind: usize| !self.of_kind(class, kind).is_empty();
        let of_kinds = |kinds: Vec<usize>| {
            let kind = kinds.into_iter().find(|&kind| any(kind))?;
            self.victim(class, kind, (kind == own).then_some(it))
        };
        let kinds = match it.running || settings.when_full != WhenFull::RefuseNew {
            true => vec![2, 1, own],
            false => vec![own],
        };
        let of_running = || self.victim(class, 0, None).filter(|_| !it.running && settings.fair);
        let victim = if it.running && settings.fair && is_most(with_it, it.flow) && !any(2) {
            // Its flow has most of the class: only its own leave.
            match self.of_flow(flow_of(1)).is_empty() {
                true if any(0) => self.victim(class, 0, Some(it)),
                true => None,
                false => self.victim_of(&self.of_flow(flow_of(1))),
            }
        } else if any(0)
            && let Some(victim) = of_running()
            && let len = self.of_flow(self.key(victim)).len()
            && is_most(len, victim.flow)
            && len > with_it
            && victim.flow != it.flow
        {
            Some(victim)
        } else {
            of_kinds(kinds)
        };
        let leaving = victim.and_then(|victim| self.leaving(victim, excess));
        leaving.map_or(May::NotWait, May::WaitAfter)
    }

    /// Who leaves of a flow.
    fn victim_of<'a>(&self, list: &[&'a Waiting]) -> Option<&'a Waiting> {
        match self.classes[list[0].class].when_full {
            WhenFull::RefuseNew => list.last().copied(),
            WhenFull::DropOldest => list.first().copied(),
            WhenFull::DropLeast => {
                list.iter().copied().min_by_key(|it| (it.score, u64::MAX - it.number))
            }
        }
    }

    /// Who leaves of those of a kind, which the newcomer is of too if it is given.
    fn victim(&self, class: usize, kind: usize, newcomer: Option<&Arrival>) -> Option<&Waiting> {
        let settings = &self.classes[class];
        let all = self.of_kind(class, kind);
        let flow_of = |flow: u64| (class, kind, if settings.fair { flow } else { 0 });
        // Flows, longest first; of equals the one that the settings let go first.
        let mut flows: Vec<_> = all.iter().map(|it| self.key(it)).collect();
        flows.sort_unstable();
        flows.dedup();
        let since = |of: &(usize, usize, u64)| {
            self.accounts.iter().find(|account| account.of == *of).expect("it waits").since
        };
        flows.sort_by_key(|of| {
            let tie = match settings.when_full {
                WhenFull::RefuseNew => u64::MAX - since(of),
                _ => since(of),
            };
            (std::cmp::Reverse(self.of_flow(*of).len()), tie)
        });
        let longest = self.of_flow(flows[0]).len();
        let own = newcomer.map(|it| flow_of(it.flow));
        let own_len = own.map_or(0, |of| self.of_flow(of).len());
        let mut list = if newcomer.is_none() || longest > own_len + 1 || own_len == 0 {
            self.of_flow(flows[0])
        } else {
            self.of_flow(own.expect("there is a newcomer"))
        };
        let nobody_has_two = longest == 1;
        if settings.when_full == WhenFull::DropLeast && nobody_has_two && own_len == 0 {
            list = all;
        }
        let is_own = newcomer.is_some() && longest <= own_len + 1;
        match settings.when_full {
            WhenFull::RefuseNew if is_own => None,
            WhenFull::RefuseNew => list.last().copied(),
            WhenFull::DropOldest => list.first().copied(),
            WhenFull::DropLeast => {
                let least = list.into_iter().min_by_key(|it| (it.score, u64::MAX - it.number));
                least.filter(|it| !is_own || newcomer.is_some_and(|new| new.score > it.score))
            }
        }
    }

    /// Those that leave, the victim first, until so many bytes are free.
    fn leaving(&self, victim: &Waiting, excess: u64) -> Option<Vec<u32>> {
        let list = self.of_flow(self.key(victim));
        let place = list.iter().position(|it| it.id == victim.id).expect("it is in it");
        let leaving: Vec<&Waiting> = match self.classes[victim.class].when_full {
            WhenFull::DropLeast => vec![list[place]],
            WhenFull::DropOldest => list[place..].to_vec(),
            WhenFull::RefuseNew => list[..=place].iter().rev().copied().collect(),
        };
        let bytes = |count: &usize| leaving[..*count].iter().map(|it| it.bytes).sum::<u64>();
        let count = (1..=leaving.len().min(VICTIMS_MAX)).find(|count| bytes(count) >= excess)?;
        Some(leaving[..count].iter().map(|it| it.id).collect())
    }

    /// A class has other settings.
    pub(super) fn reconfigure(&mut self, class: usize, settings: Class) {
        let former = std::mem::replace(&mut self.classes[class], settings);
        let new = &self.classes[class];
        if (former.order, former.fair, former.when_full) == (new.order, new.fair, new.when_full) {
            return;
        }
        if former.fair != new.fair {
            self.accounts.retain(|account| account.of.0 != class);
        }
        let mut waiting: Vec<_> =
            self.waiting.iter().filter(|it| it.class == class).cloned().collect();
        waiting.sort_by_key(|it| it.number);
        let mut seen = Vec::new();
        for it in &waiting {
            let of = self.key(it);
            if seen.contains(&of) {
                continue;
            }
            seen.push(of);
            match self.accounts.iter_mut().find(|account| account.of == of) {
                Some(account) => (account.since, account.idle_since) = (it.number, None),
                None => self.accounts.push(Account {
                    of,
                    start: self.virtual_now[of.0][of.1],
                    tie: it.number,
                    since: it.number,
                    lifo: false,
                    running: 0,
                    alone: false,
                    gave_way: 0,
                    cost: 0.0,
                    idle_since: None,
                }),
            }
        }
    }
}
