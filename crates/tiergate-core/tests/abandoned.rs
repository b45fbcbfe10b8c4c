//! Requests whose clients have left, before a server that works on: those that never end hold a share of the slots at
//! most, and none is ended that the server finishes in its usual time.

use std::time::Duration;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Gate, Slot, Ticket, Verdict};
use tiergate_core::origin::retries::Allowance;
use tiergate_core::origin::{
    Bounds, Finding, HealthRules, Leftover, Lineup, OnCancel, Servers, Way,
};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::time::Moment;

const POLITE: ClassId = ClassId(0);
const LEAVING: ClassId = ClassId(1);

/// What comes: every so many milliseconds, in this span.
#[derive(Clone, Copy)]
struct Load {
    every: u64,
    from: u64,
    until: u64,
    /// How long the server works for it, milliseconds; `None`: it never ends.
    takes: Option<u64>,
    /// How long its client stays, milliseconds.
    stays: Option<u64>,
}

const POLITE_LOAD: Load =
    Load { every: 50, from: 0, until: u64::MAX, takes: Some(50), stays: None };
const ENDLESS: Load = Load { every: 333, takes: None, stays: Some(150), ..POLITE_LOAD };
const WORKING: Load = Load { every: 17, takes: Some(1000), stays: Some(10), ..POLITE_LOAD };

enum State {
    Waits(Ticket),
    Runs { slot: Slot, begun: u64 },
    Left { slot: Slot, begun: u64, left: u64, closed: bool, bounds: Bounds, told: bool },
    Over,
}

struct Request {
    load: Load,
    came: u64,
    state: State,
}

/// What was seen from a moment on.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    polite: u32,
    polite_refused: u32,
    /// Requests that the server was working for, and would have finished, when they were ended.
    ended_early: u32,
    /// Most requests in progress at the server that do end.
    in_progress_max: usize,
}

struct World {
    gate: Gate<()>,
    servers: Servers,
    lineup: Lineup,
    requests: Vec<Request>,
    /// When the server will have finished each request.
    working: Vec<u64>,
    seen: Seen,
}

impl World {
    fn new(slots: u32) -> Self {
        let classes = vec![Class::named("polite"), Class::named("leaving")];
        let spec = Spec { classes, slots: Slots::Fixed(slots), ..Spec::protective() };
        let rules = HealthRules { failures_max: 2, ..HealthRules::default() };
        let mut servers = Servers::default();
        let retries = Allowance { share: 0.2, floor: 10 };
        let lineup = servers.lineup(["server"], rules, retries).expect("one server");
        World {
            gate: Gate::new(spec.build().expect("a valid plan")),
            servers,
            lineup,
            requests: Vec::new(),
            working: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// Runs for some milliseconds; returns what was seen from `from` on.
    fn run(mut self, ms: u64, from: u64, loads: &[Load]) -> Seen {
        for now in 0..ms {
            if now == from {
                self.seen = Seen::default();
            }
            for load in loads {
                if (load.from..load.until).contains(&now) && now % load.every == 0 {
                    self.come(now, *load);
                }
            }
            self.gate.tick(Moment::from_millis(now));
            let mut requests = std::mem::take(&mut self.requests);
            for request in &mut requests {
                let state = std::mem::replace(&mut request.state, State::Over);
                request.state = self.step(now, request, state);
            }
            requests.retain(|request| !matches!(request.state, State::Over));
            self.requests = requests;
            while self.gate.next_effect().is_some() {}
            self.working.retain(|until| *until > now);
            self.seen.in_progress_max = self.seen.in_progress_max.max(self.working.len());
        }
        self.seen
    }

    fn come(&mut self, now: u64, load: Load) {
        // Requests that never end come among those of polite clients.
        let class = if load.stays.is_some() && load.takes.is_some() { LEAVING } else { POLITE };
        self.seen.polite += u32::from(load.stays.is_none());
        let state = match self.gate.arrive(Moment::from_millis(now), Arrival::of(class), || ()) {
            Verdict::Admit(slot) => self.begin(now, load, slot),
            Verdict::Queue(ticket) => State::Waits(ticket),
            Verdict::Reject(_) => self.refused(load),
        };
        self.requests.push(Request { load, came: now, state });
    }

    fn refused(&mut self, load: Load) -> State {
        self.seen.polite_refused += u32::from(load.stays.is_none());
        State::Over
    }

    fn begin(&mut self, now: u64, load: Load, slot: Slot) -> State {
        self.servers.pick(Moment::from_millis(now), &self.lineup).expect("it is well");
        self.working.extend(load.takes.map(|takes| now + takes));
        State::Runs { slot, begun: now }
    }

    fn end(&mut self, now: u64, slot: Slot, outcome: Outcome) -> State {
        let moment = Moment::from_millis(now);
        self.servers.done(moment, &self.lineup, 0, moment, Finding::Alive);
        self.gate.finish(moment, slot, outcome);
        State::Over
    }

    fn step(&mut self, now: u64, &Request { load, came, .. }: &Request, state: State) -> State {
        let moment = Moment::from_millis(now);
        let leaves = load.stays.is_some_and(|stays| now >= came + stays);
        let cancelled = Outcome::without_answer(End::Cancelled);
        match state {
            State::Waits(ticket) if leaves => {
                self.gate.cancel(moment, ticket);
                State::Over
            }
            State::Waits(ticket) => match self.gate.claim(ticket) {
                Claim::Waiting => State::Waits(ticket),
                Claim::Admitted(slot) => self.begin(now, load, slot),
                Claim::Rejected(_) => self.refused(load),
            },
            State::Runs { slot, begun } if load.takes.is_some_and(|it| now >= begun + it) => {
                let took = Duration::from_millis(now - begun);
                let sent = Moment::from_millis(begun);
                self.servers.answered(moment, &self.lineup, 0, sent, took);
                let first_byte = Some(took);
                self.end(now, slot, Outcome { end: End::Served, first_byte, bytes: 1, left: None })
            }
            State::Runs { slot, begun } if leaves => {
                let sent = Moment::from_millis(begun);
                match self.servers.left(moment, &self.lineup, 0, sent, OnCancel::Learn) {
                    Way::Abort => panic!("not in this policy"),
                    way @ (Way::Finish(bounds) | Way::Close(bounds)) => {
                        let closed = matches!(way, Way::Close(_));
                        State::Left { slot, begun, left: now, closed, bounds, told: false }
                    }
                }
            }
            State::Left { slot, begun, left, closed, .. }
                if load.takes.is_some_and(|it| now >= begun + it) =>
            {
                let after = Leftover::Answered(Duration::from_millis(now - left));
                self.servers.left_over(moment, &self.lineup, 0, closed, after);
                self.end(now, slot, cancelled)
            }
            State::Left { mut slot, begun, left, closed, bounds, mut told } => {
                let since = Duration::from_millis(now - left);
                if since >= bounds.within {
                    self.servers.left_over(moment, &self.lineup, 0, closed, Leftover::Endless);
                    return self.end(now, slot, cancelled);
                }
                let sent = Moment::from_millis(begun);
                if since >= bounds.overstays
                    && !told
                    && self.servers.never_ends(moment, &self.lineup, 0, sent)
                {
                    self.gate.overstays(moment, &mut slot, ());
                    told = true;
                }
                if told && self.gate.is_to_end(&slot) {
                    self.seen.ended_early += u32::from(load.takes.is_some());
                    return self.end(now, slot, cancelled);
                }
                State::Left { slot, begun, left, closed, bounds, told }
            }
            state => state,
        }
    }
}

#[test]
fn requests_that_never_end_hold_few_slots_once_one_was_seen() {
    let loads = [POLITE_LOAD, ENDLESS];
    let seen = World::new(4).run(60_000, 7_000, &loads);
    assert!(seen.polite > 1000, "{seen:?}");
    assert_eq!(seen.polite_refused, 0, "{seen:?}");
}

#[test]
fn requests_that_the_server_finishes_are_let_finish() {
    let loads = [POLITE_LOAD, WORKING];
    let seen = World::new(16).run(20_000, 0, &loads);
    assert_eq!((seen.ended_early, seen.polite_refused), (0, 0), "{seen:?}");
    assert_eq!(seen.in_progress_max, 16, "never more than there are slots");
}

#[test]
fn requests_that_the_server_finishes_are_let_finish_beside_others_that_never_end() {
    let loads = [POLITE_LOAD, WORKING, ENDLESS];
    let seen = World::new(16).run(60_000, 0, &loads);
    assert_eq!(seen.ended_early, 0, "{seen:?}");
    assert!(seen.in_progress_max <= 16, "never more than there are slots");
}

#[test]
fn the_time_that_answers_take_is_learned_while_some_are_known_not_to_end() {
    let endless = Load { until: 20_000, ..ENDLESS };
    let working = Load { from: 20_000, ..WORKING };
    let loads = [POLITE_LOAD, endless, working];
    let first = World::new(16).run(25_000, 20_000, &loads);
    assert!(first.ended_early > 0, "they take longer than any before: {first:?}");
    let later = World::new(16).run(60_000, 40_000, &loads);
    assert_eq!((later.ended_early, later.polite_refused), (0, 0), "{later:?}");
    assert!(later.in_progress_max <= 16, "never more than there are slots");
}

#[test]
fn answers_that_were_lost_for_a_moment_hold_the_slots_for_little_longer_than_their_clients_wait() {
    let lost = Load { every: 50, from: 5000, until: 6000, stays: Some(2000), ..ENDLESS };
    for slots in [4, 8, 20] {
        let seen = World::new(slots).run(60_000, 9500, &[POLITE_LOAD, lost]);
        assert_eq!(seen.polite_refused, 0, "{slots} slots: {seen:?}");
    }
}

#[test]
fn of_long_requests_few_are_ended_before_it_is_known_how_long_they_take() {
    let report = Load { every: 400, takes: Some(4000), stays: Some(3000), ..POLITE_LOAD };
    let seen = World::new(8).run(120_000, 0, &[POLITE_LOAD, report]);
    assert!(seen.ended_early <= 10, "{seen:?}");
    assert!(seen.in_progress_max <= 14, "{seen:?}");
}
