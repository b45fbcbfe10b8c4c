//! Whether a server stops when its connections are closed is found out without doing much harm: how many requests
//! work on unseen meanwhile, what that costs those who wait, and how much work is saved at a server that does stop.

use std::collections::VecDeque;
use std::time::Duration;
use tiergate_core::origin::retries::Allowance;
use tiergate_core::origin::{Finding, HealthRules, Leftover, Lineup, OnCancel, Servers, Way};
use tiergate_core::time::Moment;

/// What the server does when our half of a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// It stops.
    Stops,
    /// It closes its own half, and works on.
    WorksOn,
}

#[derive(Clone, Copy)]
struct Load {
    kind: Kind,
    on_cancel: OnCancel,
    /// The server's workers; there are as many slots.
    workers: usize,
    /// Mean work, milliseconds.
    work: f64,
    /// Whether work varies as much as exponential times do, or by a fifth.
    varies: bool,
    /// Clients a second that stay and that leave after so many milliseconds.
    stay: f64,
    leave: f64,
    leave_after: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Waits,
    Sent { at: u64 },
    Left { at: u64, closed: bool },
}

struct Request {
    came: u64,
    leaves: Option<u64>,
    work: u64,
    state: State,
    /// The slot is free; the server may work on.
    is_over: bool,
}

/// What was seen.
#[derive(Default)]
struct Seen {
    answers_ms: Vec<u64>,
    in_progress_max: usize,
}

impl Seen {
    /// Mean time to an answer at the server.
    fn mean_ms(&self) -> f64 {
        self.answers_ms.iter().sum::<u64>() as f64 / self.answers_ms.len() as f64
    }
}

struct World {
    load: Load,
    servers: Servers,
    lineup: Lineup,
    random: fastrand::Rng,
    /// Newest first.
    waiting: Vec<Request>,
    /// At the server, in its order: the first `workers` are worked for.
    sent: VecDeque<Request>,
    seen: Seen,
}

fn moment(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

impl World {
    fn new(load: Load, seed: u64) -> Self {
        let rules = HealthRules { failures_max: 2, ..HealthRules::default() };
        let mut servers = Servers::default();
        let retries = Allowance { share: 0.2, floor: 10 };
        let lineup = servers.lineup(["server"], rules, retries).expect("one server");
        World {
            load,
            servers,
            lineup,
            random: fastrand::Rng::with_seed(seed),
            waiting: Vec::new(),
            sent: VecDeque::new(),
            seen: Seen::default(),
        }
    }

    fn run(mut self, seconds: u64) -> Seen {
        for now in 0..seconds * 1000 {
            for (rate, leave_after) in
                [(self.load.stay, None), (self.load.leave, Some(self.load.leave_after))]
            {
                if self.random.f64() < rate / 1000.0 {
                    let draw = if self.load.varies {
                        -(1.0 - self.random.f64()).ln()
                    } else {
                        0.8 + 0.4 * self.random.f64()
                    };
                    let work = (self.load.work * draw).ceil().max(1.0) as u64;
                    let leaves = leave_after.map(|after| now + after);
                    let (state, is_over) = (State::Waits, false);
                    self.waiting.push(Request { came: now, leaves, work, state, is_over });
                }
            }
            self.waiting.retain(|request| now < request.leaves.unwrap_or(request.came + 2000));
            self.step(now);
            while self.sent.iter().filter(|request| !request.is_over).count() < self.load.workers {
                let Some(mut request) = self.waiting.pop() else { break };
                request.state = State::Sent { at: now };
                self.servers.pick(moment(now), &self.lineup).expect("it is well");
                self.sent.push_back(request);
            }
            self.seen.in_progress_max = self.seen.in_progress_max.max(self.sent.len());
        }
        self.seen
    }

    /// One millisecond at the server.
    fn step(&mut self, now: u64) {
        for request in self.sent.iter_mut().take(self.load.workers) {
            request.work -= 1;
        }
        for mut request in std::mem::take(&mut self.sent) {
            if request.work == 0 {
                self.finish(now, &request);
                continue;
            }
            if let State::Sent { at } = request.state
                && request.leaves.is_some_and(|leaves| leaves <= now)
            {
                let on_cancel = self.load.on_cancel;
                let way = self.servers.left(moment(now), &self.lineup, 0, moment(at), on_cancel);
                let closed = !matches!(way, Way::Finish(_));
                request.state = State::Left { at: now, closed };
                if closed {
                    if matches!(way, Way::Close(_)) {
                        self.left_over(now, true, Leftover::Stopped);
                    }
                    self.done(now);
                    request.is_over = true;
                    if self.load.kind == Kind::Stops {
                        continue;
                    }
                }
            }
            self.sent.push_back(request);
        }
    }

    fn finish(&mut self, now: u64, request: &Request) {
        match request.state {
            State::Waits => unreachable!("it was sent"),
            State::Sent { at } => {
                self.seen.answers_ms.push(now - at);
                let took = Duration::from_millis(now - at);
                self.servers.answered(moment(now), &self.lineup, 0, moment(at), took);
                self.done(now);
            }
            State::Left { .. } if request.is_over => {}
            State::Left { at, closed } => {
                let took = Duration::from_millis(now - at);
                self.left_over(now, closed, Leftover::Answered(took));
                self.done(now);
            }
        }
    }

    fn left_over(&mut self, now: u64, closed: bool, leftover: Leftover) {
        self.servers.left_over(moment(now), &self.lineup, 0, closed, leftover);
    }

    fn done(&mut self, now: u64) {
        self.servers.done(moment(now), &self.lineup, 0, moment(now), Finding::Alive);
    }
}

/// Eight workers of 0.8 s, 4 clients a second that stay, and 20 that leave after 0.3 s.
const SLOW: Load = Load {
    kind: Kind::WorksOn,
    on_cancel: OnCancel::Learn,
    workers: 8,
    work: 800.0,
    varies: false,
    stay: 4.0,
    leave: 20.0,
    leave_after: 300,
};

const LOADS: [(&str, Load); 4] = [
    ("slow", SLOW),
    ("slow and varied", Load { varies: true, ..SLOW }),
    ("as many stay", Load { work: 400.0, stay: 20.0, leave_after: 150, ..SLOW }),
    ("fast", Load { work: 80.0, stay: 40.0, leave: 200.0, leave_after: 30, ..SLOW }),
];

/// The same clients, by three seeds, for ten minutes.
fn run(load: Load, on_cancel: OnCancel) -> Vec<Seen> {
    (1..4).map(|seed| World::new(Load { on_cancel, ..load }, seed).run(600)).collect()
}

#[test]
fn those_who_wait_hardly_notice_that_it_is_found_out_that_the_server_works_on() {
    for (name, load) in LOADS {
        let finish = run(load, OnCancel::Finish);
        let learn = run(load, OnCancel::Learn);
        for (finish, learn) in finish.iter().zip(&learn) {
            let (most, mean, least) = (learn.in_progress_max, learn.mean_ms(), finish.mean_ms());
            assert!(most <= 4 * load.workers, "{name}: {most} in progress");
            assert!(mean < 1.4 * least, "{name}: {mean} ms where {least} ms are possible");
        }
    }
}

#[test]
fn a_server_that_stops_is_spared_most_of_the_work_for_nobody() {
    for (name, load) in LOADS {
        let load = Load { kind: Kind::Stops, ..load };
        let learn = run(load, OnCancel::Learn);
        let abort = run(load, OnCancel::Abort);
        for (learn, abort) in learn.iter().zip(&abort) {
            let (answered, possible) = (learn.answers_ms.len(), abort.answers_ms.len());
            assert!(answered * 5 >= possible * 4, "{name}: {answered} of {possible}");
        }
    }
}
