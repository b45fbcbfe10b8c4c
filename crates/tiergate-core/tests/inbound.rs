//! Policers whose rate follows readings, at the gate: in front of servers of which a model says how busy they are.

use std::time::Duration;
use tiergate_core::adjust::{Adjustment, Setting};
use tiergate_core::admit::bucket::Rate;
use tiergate_core::admit::inbound::{Inbound, Reference};
use tiergate_core::admit::policer::{Per, PolicerId, Settings};
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Gate, Steer, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::{Plan, Spec};
use tiergate_core::sense::{Quantity, Reading};
use tiergate_core::time::Moment;

const CGI: PolicerId = PolicerId(0);
const ALL: PolicerId = PolicerId(1);

fn policer(name: &str, source: &str, reference: Reference, max: u32) -> Settings {
    let inbound = Some(Inbound { source: source.into(), reference, min: Rate::per_second(10) });
    let (name, rate) = (name.to_owned(), Rate::per_second(max));
    let (key, shares, announce) = (None, Vec::new(), false);
    Settings { name, key, rate, burst: 20, per: Per::Rule, shares, inbound, announce }
}

fn spec() -> Spec {
    Spec {
        classes: vec![Class::named("all")],
        slots: Slots::Fixed(u32::MAX),
        policers: vec![
            policer("cgi", "cpu", Reference::Utilization(9000), 1000),
            policer("all", "queue", Reference::QueueLen(100), 2000),
        ],
        site_policer: Some(ALL),
        ..Spec::protective()
    }
}

fn plan() -> Plan {
    spec().build().expect("a valid plan")
}

/// A server that serves a request in so many seconds of its processor; what it cannot serve waits in its listen
/// queue.
struct Server {
    gate: Gate<()>,
    now_ms: u64,
    cgi_s: f64,
    file_s: f64,
    /// Seconds of work that have not been done.
    work_s: f64,
    waiting: f64,
    readings: bool,
    /// Whether nothing is read of the processor.
    is_cpu_silent: bool,
    /// What is read when it is busy all the time.
    full: f64,
    /// Readings of it that have not come yet.
    late: Vec<f64>,
    /// The queue is measured once in so many seconds.
    queue_every: u64,
}

/// What happened in a second.
#[derive(Debug, Default)]
struct Second {
    cgi: u32,
    files: u32,
    utilization: f64,
    waiting: f64,
}

impl Server {
    fn new(cgi_s: f64, file_s: f64) -> Self {
        let gate = Gate::new(plan());
        Server {
            gate,
            now_ms: 0,
            cgi_s,
            file_s,
            work_s: 0.0,
            waiting: 0.0,
            readings: true,
            is_cpu_silent: false,
            full: 1.0,
            late: Vec::new(),
            queue_every: 1,
        }
    }

    fn request(&mut self, policer: Option<PolicerId>) -> bool {
        let arrival = Arrival { policer, ..Arrival::of(ClassId(0)) };
        let now = Moment::from_millis(self.now_ms);
        match self.gate.arrive(now, arrival, || ()) {
            Verdict::Admit(slot) => {
                self.gate.finish(now, slot, Outcome::without_answer(End::Served));
                true
            }
            _ => false,
        }
    }

    /// A second with so many requests of each kind.
    fn second(&mut self, cgi: u32, files: u32) -> Second {
        let mut second = Second::default();
        let (mut done_s, mut owed) = (0.0, [0.0, 0.0]);
        for _ in 0..1000 {
            self.now_ms += 1;
            owed[0] += f64::from(cgi) / 1000.0;
            owed[1] += f64::from(files) / 1000.0;
            while owed[0] >= 1.0 {
                owed[0] -= 1.0;
                if self.request(Some(CGI)) {
                    second.cgi += 1;
                    self.work_s += self.cgi_s;
                }
            }
            while owed[1] >= 1.0 {
                owed[1] -= 1.0;
                if self.request(None) {
                    second.files += 1;
                    self.work_s += self.file_s;
                }
            }
            let did = self.work_s.min(0.001);
            self.work_s -= did;
            done_s += did;
        }
        second.utilization = done_s;
        self.waiting = self.work_s / self.file_s;
        second.waiting = self.waiting;
        let now = Moment::from_millis(self.now_ms);
        if self.readings {
            let lasting = Duration::from_secs(3);
            self.late.push(done_s.min(1.0) * self.full);
            let quantity = Quantity::Utilization(self.late.remove(0));
            if !self.is_cpu_silent {
                let reading = Reading { source: "cpu", quantity, lasting };
                self.gate.observe(now, reading).expect("it can be");
            }
            if (self.now_ms / 1000).is_multiple_of(self.queue_every) {
                let quantity = Quantity::QueueLen(self.waiting as u32);
                let lasting = lasting * self.queue_every as u32;
                self.gate
                    .observe(now, Reading { source: "queue", quantity, lasting })
                    .expect("it can be");
            }
        }
        self.gate.tick(now);
        second
    }

    fn rate(&self, id: PolicerId) -> f64 {
        self.gate.plan().policer(id).expect("planned").rate.tokens_per_second()
    }

    fn state(&self, place: usize) -> Steer {
        self.gate.steered().nth(place).expect("steered").state
    }
}

#[test]
fn only_the_guilty_are_turned_away_as_long_as_that_suffices() {
    // Files take a fifth of the processor, CGI three times what there is.
    let mut server = Server::new(0.010, 0.001);
    for _ in 0..60 {
        server.second(300, 200);
    }
    let mut mean = Second::default();
    for _ in 0..30 {
        let second = server.second(300, 200);
        mean.utilization += second.utilization / 30.0;
        mean.cgi += second.cgi;
        assert!(second.files == 200, "{second:?}");
        assert!(second.waiting < 100.0, "{second:?}");
    }
    assert!((mean.utilization - 0.9).abs() < 0.03, "{mean:?}");
    assert!((1800..2400).contains(&mean.cgi), "70 a second are possible: {mean:?}");
}

#[test]
fn what_is_left_of_an_overload_turns_nobody_else_away() {
    let mut server = Server::new(0.010, 0.001);
    let mut longest: f64 = 0.0;
    for _ in 0..60 {
        let second = server.second(105, 200);
        longest = longest.max(second.waiting);
        assert_eq!(second.files, 200, "{second:?}");
    }
    assert!(longest > 200.0, "otherwise this test says nothing: {longest}");
}

#[test]
fn all_are_turned_away_once_the_guilty_are_at_their_least() {
    // Files alone are one and a half times what it can serve.
    let mut server = Server::new(0.010, 0.001);
    let mut seconds = 0;
    while server.rate(ALL) == 2000.0 {
        assert!(seconds < 60, "never");
        seconds += 1;
        server.second(100, 1500);
    }
    assert_eq!((server.rate(CGI), server.state(0)), (10.0, Steer::Lowest), "first");
    for _ in 0..60 {
        server.second(100, 1500);
    }
    // A jump up and down again.
    for _ in 0..60 {
        server.second(100, 3000);
    }
    let queue: Vec<f64> = (0..30).map(|_| server.second(100, 3000).waiting).collect();
    assert!(queue.iter().all(|len| *len < 400.0), "{queue:?}");
    for _ in 0..200 {
        server.second(20, 200);
    }
    let second = server.second(20, 200);
    assert_eq!((second.cgi, second.files), (20, 200), "all are served again");
}

#[test]
fn a_jump_beyond_what_the_guilty_can_give_way_settles_within_seconds() {
    // The paper's figure 6: a fifth of the requests are CGI, and the others alone become more than it can serve.
    for late in [vec![], vec![0.0], vec![0.0; 2]] {
        jump(Server { late, ..Server::new(0.003, 0.0016) });
    }
}

fn jump(mut server: Server) {
    for _ in 0..20 {
        let second = server.second(60, 240);
        assert!(second.cgi >= 59 && second.files >= 239, "it is not overloaded: {second:?}");
    }
    let mut longest: f64 = 0.0;
    for _ in 0..10 {
        longest = longest.max(server.second(170, 680).waiting);
    }
    for _ in 0..4 {
        server.second(170, 680);
    }
    assert!(longest < 2000.0, "{longest}");
    let settled: Vec<Second> = (0..10).map(|_| server.second(170, 680)).collect();
    assert!(settled.iter().all(|it| it.waiting < 250.0 && it.cgi < 40), "{settled:?}");
    for _ in 0..15 {
        server.second(60, 240);
    }
    let second = server.second(60, 240);
    assert!(second.cgi >= 59 && second.files >= 239, "it is over: {second:?}");
}

#[test]
fn a_server_that_may_use_a_part_of_the_machine_is_not_left_with_a_long_queue() {
    // All that it may use reads as barely more than the reference.
    let mut server = Server { full: 0.96, ..Server::new(0.010, 0.001) };
    let seconds: Vec<Second> = (0..40).map(|_| server.second(300, 200)).collect();
    let long = seconds.iter().filter(|it| it.waiting > 100.0).count();
    assert!(long < 20, "{long} s: {seconds:?}");
    assert!(seconds[..].iter().all(|it| it.files == 200), "{seconds:?}");
}

#[test]
fn whom_the_queue_s_law_turned_away_comes_before_what_uses_most_once_that_is_known() {
    // Files alone are one and a half times what it can serve, and what is read is never all.
    let mut server = Server { is_cpu_silent: true, full: 0.97, ..Server::new(0.010, 0.001) };
    for _ in 0..20 {
        server.second(100, 1500);
    }
    let blind = server.second(100, 1500);
    assert!(blind.cgi > 30, "otherwise this test says nothing: {blind:?}");
    server.is_cpu_silent = false;
    for _ in 0..25 {
        server.second(100, 1500);
    }
    let known: Vec<Second> = (0..10).map(|_| server.second(100, 1500)).collect();
    assert!(known.iter().all(|it| it.cgi <= 13), "{known:?}");
    let files = known.iter().map(|it| it.files).sum::<u32>();
    assert!(files > 8000, "of 9,000 in ten seconds: {files}, {known:?}");
}

#[test]
fn a_queue_that_is_measured_seldom_is_no_new_reason_each_second() {
    for queue_every in [5, 15] {
        let mut server = Server { queue_every, ..Server::new(0.010, 0.001) };
        // The first measurement says that it is too long, at the end of the 5th or 15th second.
        for _ in 0..queue_every {
            server.second(300, 200);
        }
        let once = server.rate(CGI);
        for _ in 0..2 {
            server.second(300, 200);
        }
        assert!(server.rate(CGI) > 0.5 * once || once < 11.0, "{once} {}", server.rate(CGI));
        for _ in 0..60 {
            server.second(300, 200);
        }
        // Files alone are one and a half times what it can serve.
        for _ in 0..120 {
            server.second(100, 1500);
        }
        let queue: Vec<f64> = (0..60).map(|_| server.second(100, 1500).waiting).collect();
        let served: Vec<u32> = (0..30).map(|_| server.second(100, 1500).files).collect();
        let (least, most) =
            (served.iter().min().expect("some"), served.iter().max().expect("some"));
        assert!(
            queue.iter().all(|len| *len < 3000.0) && *least * 2 > *most,
            "{queue:?} {served:?}"
        );
    }
}

#[test]
fn what_the_kernel_refused_before_it_came_was_asked_for() {
    // Files alone are twice what it can serve; later they are few.
    let mut server = Server { is_cpu_silent: true, ..Server::new(0.010, 0.001) };
    for _ in 0..40 {
        server.second(0, 2000);
    }
    for _ in 0..60 {
        server.second(0, 100);
    }
    let held = server.rate(ALL);
    assert!((150.0..2000.0).contains(&held), "otherwise this test says nothing: {held}");
    for _ in 0..10 {
        server.second(0, 100);
        assert_eq!(server.rate(ALL), held, "nobody asks for more");
    }
    for _ in 0..20 {
        server.gate.refused_early(ALL, server.rate(ALL) as u64);
        server.second(0, 100);
    }
    assert!(server.rate(ALL) > 1.5 * held, "{} of {held}", server.rate(ALL));
}

#[test]
fn a_silent_sensor_holds_the_rate() {
    let mut server = Server::new(0.010, 0.001);
    for _ in 0..40 {
        server.second(300, 200);
    }
    let rate = server.rate(CGI);
    assert!(rate < 200.0, "{rate}");
    server.readings = false;
    // The last reading holds for three seconds.
    for _ in 0..5 {
        server.second(300, 200);
    }
    let held = server.rate(CGI);
    for _ in 0..60 {
        server.second(10, 0);
        assert_eq!(server.rate(CGI), held);
    }
    assert_eq!(server.state(0), Steer::Blind);
    server.readings = true;
    for _ in 0..60 {
        server.second(300, 0);
    }
    assert!(server.rate(CGI) > held, "with the files gone there is room");
}

#[test]
fn what_an_operator_sets_is_the_operator_s_and_a_reload_gives_it_back() {
    let mut server = Server::new(0.010, 0.001);
    let now = Moment::ZERO;
    let setting = Setting::PolicerRate(CGI);
    let (min, max, slew_per_s) = (0.0, 1e6, f64::INFINITY);
    let wanted = Adjustment { setting, value: 500.0, min, max, slew_per_s };
    server.gate.adjust(now, "admin", wanted).expect("nobody else has");
    for _ in 0..5 {
        server.second(300, 200);
    }
    assert_eq!((server.rate(CGI), server.state(0)), (500.0, Steer::Taken));
    server.gate.release(Moment::from_millis(server.now_ms), "admin");
    for _ in 0..30 {
        server.second(300, 200);
    }
    assert!(server.rate(CGI) < 200.0);
    // Also of a rate that the control has lowered, and below its least.
    let low = Adjustment { value: 2.0, ..wanted };
    server.gate.adjust(Moment::from_millis(server.now_ms), "admin", low).expect("it gives way");
    server.second(300, 200);
    assert_eq!((server.rate(CGI), server.state(0)), (2.0, Steer::Taken));
    server.gate.release(Moment::from_millis(server.now_ms), "admin");
    let mut without = spec();
    without.policers[0].inbound = None;
    server
        .gate
        .reconfigure(Moment::from_millis(server.now_ms), without.build().expect("a valid plan"));
    assert_eq!(server.rate(CGI), 1000.0);
    assert_eq!(server.gate.steered().count(), 1);
    assert!(server.gate.adjustments().iter().all(|it| it.wanted.setting != setting));
}

#[test]
fn a_rate_that_an_operator_sets_for_all_does_not_make_those_of_shares_fall() {
    let mut server = Server::new(0.016, 0.001);
    let (min, max, slew_per_s) = (0.0, 1e6, f64::INFINITY);
    let setting = Setting::PolicerRate(ALL);
    let wanted = Adjustment { setting, value: 150.0, min, max, slew_per_s };
    server.gate.adjust(Moment::ZERO, "admin", wanted).expect("nobody else has");
    for _ in 0..60 {
        server.second(300, 200);
    }
    let mean = (0..60).map(|_| server.second(300, 200).utilization).sum::<f64>() / 60.0;
    assert_eq!((server.rate(ALL), server.state(1)), (150.0, Steer::Taken));
    assert!((mean - 0.9).abs() < 0.02, "{mean}");
}

#[test]
fn a_control_that_a_reload_brings_begins_with_what_is_used_now() {
    let mut server = Server::new(0.008, 0.001);
    let mut without = spec();
    without.policers[0].inbound = None;
    server.gate.reconfigure(Moment::ZERO, without.build().expect("a valid plan"));
    for _ in 0..20 {
        server.second(0, 100);
    }
    // At 93 % in use: a little too much.
    for _ in 0..5 {
        server.second(104, 100);
    }
    server.gate.reconfigure(Moment::from_millis(server.now_ms), plan());
    let mut lowest = f64::INFINITY;
    for _ in 0..20 {
        server.second(104, 100);
        lowest = lowest.min(server.rate(CGI));
    }
    assert!(lowest > 80.0, "100 a second are right: {lowest}");
}

#[test]
fn a_reading_counts_once() {
    let mut server = Server::new(0.010, 0.001);
    server.second(300, 200);
    server.second(300, 200);
    let before = server.rate(CGI);
    server.readings = false;
    server.second(300, 200);
    let once = server.rate(CGI);
    server.second(300, 200);
    assert!(once <= before && server.rate(CGI) == once, "{before} {once} {}", server.rate(CGI));
}

#[test]
fn what_a_reload_allows_no_more_is_not_held() {
    let mut server = Server::new(0.010, 0.001);
    for _ in 0..40 {
        server.second(300, 200);
    }
    server.readings = false;
    for _ in 0..5 {
        server.second(300, 200);
    }
    let mut lower = spec();
    lower.policers[0].rate = Rate::per_second(20);
    server
        .gate
        .reconfigure(Moment::from_millis(server.now_ms), lower.build().expect("a valid plan"));
    server.second(300, 200);
    server.second(300, 200);
    assert!(server.rate(CGI) <= 20.0, "{}", server.rate(CGI));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let fault = |change: fn(&mut Settings)| {
        let mut spec = spec();
        change(&mut spec.policers[0]);
        spec.build().expect_err("it makes no sense").to_string()
    };
    for (what, change) in [
        ("min must be at most the rate", (|it| it.rate = Rate::per_second(5)) as fn(&mut Settings)),
        ("follows no reading", |it| it.per = Per::Flow { flows_max: 10 }),
        ("min must be more than 0", |it| {
            it.inbound.as_mut().expect("there is one").min = Rate::default();
        }),
        ("reference must be", |it| {
            it.inbound.as_mut().expect("there is one").reference = Reference::Utilization(0);
        }),
        ("reference must be", |it| {
            it.inbound.as_mut().expect("there is one").reference = Reference::QueueLen(0);
        }),
    ] {
        let said = fault(change);
        assert!(said.contains(what), "{said}");
    }
}
