//! A real gate under synthetic traffic, with the real admin listener: something for `tiergate top`
//! to look at without a network.
//!
//! `cargo run --example synthetic_admin -- 127.0.0.1:22090 [SECONDS]`, and beside it
//! `tiergate top --admin 127.0.0.1:22090`. The origin is a queueing model: 24 workers that serve
//! each request in about 40 ms while there are no more requests than workers, and slower beyond.
//! Load rises and falls, so that the limit, the queues and the refusals move.

use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use tiergate::admin::{self, AdminTokens, ConfigInForce, Context, InForce, Phase};
use tiergate::config::Sources;
use tiergate::observe::counters::{Counters, Protocol};
use tiergate::observe::refusals::{Refusal, Refusals};
use tiergate::observe::server::{Health, ServerCounters, ServerStatus};
use tiergate::observe::snapshot::Snapshot;
use tiergate::sensors::Sensors;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Slot, Ticket, Verdict};
use tiergate_core::names::{RuleId, RuleKey};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::{RuleLabel, Spec};
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;

const WORKERS: f64 = 24.0;
const SERVICE: Duration = Duration::from_millis(40);
const SERVERS: [&str; 2] = ["10.0.0.5:8080", "10.0.0.6:8080"];
/// Name, path and share of the capacity that each class asks for.
const CLASSES: [(&str, &str, f64); 4] = [
    ("checkout", "/cart/7", 0.25),
    ("browse", "/list/shoes?page=2", 0.55),
    ("search", "/search", 0.35),
    ("prefetch", "/next/page", 0.40),
];

type SharedGate = Arc<Mutex<Gate<u64>>>;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr =
        arguments.next().unwrap_or_else(|| "127.0.0.1:22090".to_owned()).parse()?;
    let seconds: u64 = arguments.next().unwrap_or_else(|| "120".to_owned()).parse()?;
    let start = Instant::now();
    let gate = Arc::new(Mutex::new(Gate::new(plan().build().expect("a valid plan"))));
    let counters = Counters::new(1);
    let refusals = Arc::new(Refusals::default());
    let server = Arc::<ServerCounters>::default();
    let listener = admin::bind(address)?;
    let context = context(&gate, &counters, &refusals, &server, start);
    admin::spawn(listener, Arc::new(context), std::future::pending())?;
    println!("admin at http://{address} for {seconds} s");
    let mut traffic = Traffic {
        gate,
        counters,
        refusals,
        server,
        start,
        seed: 7,
        waiting: HashMap::new(),
        running: BinaryHeap::new(),
        slots: HashMap::new(),
        number: 0,
    };
    let mut second = 0;
    while start.elapsed() < Duration::from_secs(seconds) {
        traffic.step();
        std::thread::sleep(Duration::from_millis(1));
        if start.elapsed().as_secs() > second {
            second += 1;
            traffic.counters.thread(0).connections_closed.add(second % 3);
        }
    }
    Ok(())
}

fn plan() -> Spec {
    let mut plan = Spec::protective();
    plan.classes = CLASSES.map(|(name, ..)| Class::named(name)).into();
    plan.classes[1].minimum = 0.1;
    plan.classes[2].queue_len_max = 50;
    plan.classes[3].deadline = Duration::from_millis(500);
    plan.rules = vec!["pages".into(), RuleKey::Conditions(2, 0), RuleKey::Conditions(3, 0)];
    plan
}

fn context(
    gate: &SharedGate,
    counters: &Arc<Counters>,
    refusals: &Arc<Refusals>,
    server: &Arc<ServerCounters>,
    start: Instant,
) -> Context {
    let (shown, asked) = (Arc::clone(gate), Arc::clone(gate));
    let (counted, served) = (Arc::clone(counters), Arc::clone(server));
    Context {
        version: env!("CARGO_PKG_VERSION"),
        snapshot: Box::new(move || Snapshot::take(&shown.lock().expect("no panic"), since(start))),
        counters: Arc::clone(counters),
        refusals: Arc::clone(refusals),
        phase: Box::new(|| Phase::Serving),
        sessions: Box::new(tiergate::session::Readings::default),
        sensors: Box::new(|| Arc::new(Sensors::new(Vec::new()))),
        origin: Box::new(move || {
            let running = asked.lock().expect("no panic").running();
            let up = ServerStatus {
                address: SERVERS[0].to_owned(),
                outstanding: running,
                ..ServerStatus::default()
            };
            let down = ServerStatus {
                address: SERVERS[1].to_owned(),
                health: Health::Down,
                detail: Some("connection refused".to_owned()),
                ..ServerStatus::default()
            };
            vec![up.counted(&served), down]
        }),
        workers: Box::new(Vec::new),
        listeners: Box::new(|| vec!["http 0.0.0.0:8080".to_owned()]),
        config: Box::new(|| ConfigInForce {
            path: Some("/etc/tiergate/shop.toml".into()),
            sources: Arc::new(Sources::of(
                "/etc/tiergate/shop.toml",
                "[origin]\nservers = [\"10.0.0.5:8080\", \"10.0.0.6:8080\"]\n",
            )),
            generation: 0,
        }),
        in_force: Box::new(|| InForce { is_enforced: true, ..InForce::default() }),
        success_buffers: Box::new(|_, _| Vec::new()),
        names: Box::new(Vec::new),
        tokens: Box::new(AdminTokens::default),
        change: Box::new(|_| Err("these are invented".to_owned())),
        undo: Box::new(|| 0),
        reload: Box::new(move || {
            counted.reloaded(Ok(()));
            Box::pin(async { Ok("nothing has changed".to_owned()) })
        }),
    }
}

fn since(start: Instant) -> Moment {
    Moment::ZERO + start.elapsed()
}

/// A request in progress, ordered so that the first to end is the greatest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Ending(std::cmp::Reverse<(Moment, u64)>);

struct Traffic {
    gate: SharedGate,
    counters: Arc<Counters>,
    refusals: Arc<Refusals>,
    server: Arc<ServerCounters>,
    start: Instant,
    seed: u64,
    waiting: HashMap<u64, (Ticket, usize)>,
    running: BinaryHeap<Ending>,
    slots: HashMap<u64, Slot>,
    number: u64,
}

impl Traffic {
    /// One millisecond of arrivals, ends and wakes.
    fn step(&mut self) {
        let now = since(self.start);
        // Half to one and a half times the planned load, over 40 s.
        let swell = 1.0 + 0.5 * (now.seconds() / 40.0 * std::f64::consts::TAU).sin();
        let capacity = WORKERS / SERVICE.as_secs_f64();
        for (class, (_, _, share)) in CLASSES.iter().enumerate() {
            let mean = share * swell * capacity / 1000.0;
            let arrivals = mean.floor() as u64 + u64::from(self.random() < mean.fract());
            (0..arrivals).for_each(|_| self.arrive(now, class));
        }
        let gate = Arc::clone(&self.gate);
        while let Some(Ending(std::cmp::Reverse((at, number)))) = self.running.peek() {
            if *at > now {
                break;
            }
            let slot = self.slots.remove(number).expect("it runs");
            let took = now.since(slot.admitted());
            self.running.pop();
            let end = if self.random() < 0.002 { End::Error } else { End::Served };
            self.counters.thread(0).response(if end == End::Error { 500 } else { 200 });
            let first_byte = Some(took.mul_f64(0.9));
            gate.lock().expect("no panic").finish(
                now,
                slot,
                Outcome { end, first_byte, bytes: 0, left: None },
            );
        }
        gate.lock().expect("no panic").tick(now);
        self.wake(now);
    }

    fn arrive(&mut self, now: Moment, class: usize) {
        self.number += 1;
        let number = self.number;
        let arrival = Arrival {
            rule: (class < 3).then_some(RuleId::at(class as u32)),
            ..Arrival::of(ClassId(class as u16))
        };
        self.counters.thread(0).request(Protocol::Http11);
        if number.is_multiple_of(50) {
            self.counters.thread(0).connections_accepted.one();
        }
        let verdict = self.gate.lock().expect("no panic").arrive(now, arrival, || number);
        match verdict {
            Verdict::Admit(slot) => self.run(now, number, slot),
            Verdict::Queue(ticket) => drop(self.waiting.insert(number, (ticket, class))),
            Verdict::Reject(reason) => self.refuse(class, reason),
        }
    }

    fn wake(&mut self, now: Moment) {
        loop {
            let woken =
                self.gate.lock().expect("no panic").next_effect().and_then(Effect::into_wake);
            let Some(number) = woken else { break };
            let (ticket, class) = self.waiting.remove(&number).expect("it waits");
            let claim = self.gate.lock().expect("no panic").claim(ticket);
            match claim {
                Claim::Admitted(slot) => self.run(now, number, slot),
                Claim::Rejected(reason) => self.refuse(class, reason),
                Claim::Waiting => unreachable!("it was woken"),
            }
        }
    }

    fn run(&mut self, now: Moment, number: u64, slot: Slot) {
        let crowd = (self.slots.len() as f64 / WORKERS).max(1.0);
        let spread = 0.5 - self.random().max(1e-9).ln() * 0.5;
        self.running
            .push(Ending(std::cmp::Reverse((now + SERVICE.mul_f64(crowd * spread), number))));
        self.slots.insert(number, slot);
        if number.is_multiple_of(100) {
            self.server.connects.one();
        } else {
            self.server.reuses.one();
        }
    }

    fn refuse(&mut self, class: usize, reason: Reason) {
        let (name, path, _) = CLASSES[class];
        self.counters.thread(0).response(503);
        let last = (self.random() * 250.0) as u8;
        self.refusals.record(&Refusal {
            at: SystemTime::now(),
            class: name,
            rule: (class < 3).then_some(RuleLabel { number: class as u32 + 1, name: None }),
            reason,
            client: [192, 0, 2, last].into(),
            method: b"GET",
            path: path.split('?').next().unwrap_or_default().as_bytes(),
        });
    }

    /// Uniform in 0.0 to 1.0. Source: Marsaglia, "Xorshift RNGs", 64 bits.
    fn random(&mut self) -> f64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) as f64 / (1u64 << 53) as f64
    }
}
