//! A link of which nobody says what it carries, in virtual time: the gateway finds it, follows it, and nobody feels it.

use fastrand::Rng;
use std::time::Duration;
use tiergate_core::class::ClassId;
use tiergate_core::time::Moment;
use tiergate_core::transmit::{Capacity, Heads, Scheduler, Sender, Waited, Watched};

const SITE: ClassId = ClassId(0);
const BATCH: ClassId = ClassId(1);
/// Three full packets, and a little.
const BURST: u64 = 5_000;

/// A link with a queue before it, far from the gateway.
#[derive(Clone)]
struct Link {
    /// Bits a second.
    bits: f64,
    /// There and back.
    way: Duration,
    /// Bytes that it lets through at once after it was idle, as shapers do.
    burst: u64,
    /// When what was sent so far has left.
    free_at: Moment,
}

impl Link {
    /// So many bytes are sent now: when the last has left.
    fn send(&mut self, now: Moment, bytes: u64) -> Moment {
        let wire = bytes + 66 * bytes.div_ceil(1448);
        let time = Duration::from_secs_f64(wire as f64 * 8.0 / self.bits);
        self.free_at = self.free_at.max(now) + time;
        let at_once = Duration::from_secs_f64(self.burst as f64 * 8.0 / self.bits);
        now + self.free_at.since(now).saturating_sub(at_once)
    }
}

/// What happened in some seconds.
#[derive(Debug)]
struct Happened {
    /// What the site's answers took, and would have taken alone: medians, and the 99th percentile.
    median: [f64; 2],
    p99: [f64; 2],
    /// What the background carried of what the site left.
    share: f64,
    /// What the gateway thinks that the link carries, over what it does: least and most.
    thought: [f64; 2],
    /// The same over time.
    mean: f64,
}

/// A gateway, a link, a site's answers and a background that always has more.
struct World {
    schedule: Scheduler,
    link: Link,
    alone: Link,
    now: Moment,
    random: Rng,
    /// Bytes a second of the site, on the wire of the first link.
    asked: f64,
    next_site: Moment,
    flows: u64,
    flow: u64,
    in_run: u32,
    /// The shortest way that each flow has seen so far, as its system knows it.
    ways: Vec<Duration>,
    /// How long the queue gets at most, if the gateway's own system then takes nothing more; it may be a little longer or shorter.
    room: Option<Duration>,
    /// Whose packet is to be watched, once the next is sent; and when it has left.
    begun: Option<(u64, Watched, Moment)>,
    watched: Option<(Watched, Moment, Moment, Duration)>,
    looks_at: Moment,
    /// How late the gateway wakes at most.
    late: Duration,
    /// The first so many flows are behind a queue of that length of their own.
    slow: (u64, Duration),
    /// How much longer the way may take by itself.
    jitter: Duration,
    site: Vec<(f64, f64)>,
    carried: u64,
    sent_site: u64,
}

impl World {
    fn new(seed: u64, capacity: Capacity, bits: f64, load: f64, way: Duration, flows: u64) -> Self {
        let sender = |class, is_background| Sender { class, share: None, is_background };
        let senders = [sender(SITE, false), sender(BATCH, true)];
        let mut schedule = Scheduler::new(Moment::ZERO, capacity, &senders);
        schedule.waits(Moment::ZERO, BATCH);
        let link = Link { bits, way, burst: 0, free_at: Moment::ZERO };
        World {
            schedule,
            alone: link.clone(),
            link,
            now: Moment::ZERO,
            random: Rng::with_seed(seed),
            asked: load * bits / 8.0,
            next_site: Moment::ZERO,
            flows,
            flow: 0,
            in_run: 0,
            ways: vec![Duration::MAX; flows as usize],
            room: None,
            begun: None,
            watched: None,
            looks_at: Moment::NEVER,
            late: Duration::from_micros(100),
            slow: (0, Duration::ZERO),
            jitter: Duration::ZERO,
            site: Vec::new(),
            carried: 0,
            sent_site: 0,
        }
    }

    /// An answer of the site's, of 10 to 20 KB.
    fn site_sends(&mut self) {
        let bytes = self.random.u64(10_000..20_000);
        self.schedule.charge(self.now, bytes, Heads::of(false, true));
        let [took, alone] = [&mut self.link, &mut self.alone]
            .map(|link| link.send(self.now, bytes).since(self.now).as_secs_f64());
        self.site.push((took, alone));
        self.sent_site += bytes;
        let gap = -15_700.0 / self.asked * self.random.f64().max(1e-12).ln();
        // A second without any would say nothing.
        self.next_site = self.now + Duration::from_secs_f64(gap.min(0.5));
    }

    /// A packet of the background's.
    fn batch_sends(&mut self) {
        let bytes = self
            .schedule
            .take(self.now, BATCH, 1 << 20, Heads::of(false, true))
            .expect("it was called");
        let left = self.link.send(self.now, bytes);
        self.carried += bytes;
        // Also the first that it sees may wait in the queue.
        let seen = left.since(self.now) + self.link.way;
        let way = &mut self.ways[self.flow as usize];
        *way = seen.min(*way);
        let way = *way;
        if let Some((flow, begun, first)) = self.begun
            && flow == self.flow
        {
            // The other end acknowledges every second one, whichever that is.
            let is_first = self.random.bool();
            if is_first && first + self.link.way <= self.now {
                // It was acknowledged long ago.
                let most = self.now.since(begun.at()).saturating_sub(way);
                let waited = Waited { least: Duration::ZERO, most, way };
                self.schedule.learns(self.now, &begun, waited);
                self.begun = None;
            } else {
                self.watches(if is_first { first } else { left });
            }
        } else if self.schedule.watches(self.now, self.flow) {
            let watched = self.schedule.watch(self.now, self.flow, None);
            let watched = watched.expect("it is to be found");
            (self.begun, self.watched) = (Some((self.flow, watched, left)), None);
            self.looks_at = Moment::NEVER;
            if watched.is_pair() {
                self.watches(left);
            }
        }
        self.in_run += 1;
        if self.in_run >= self.schedule.run(BATCH, self.flows as usize) {
            (self.in_run, self.flow) = (0, (self.flow + 1) % self.flows);
        }
    }

    /// A packet that leaves then has the other end acknowledge what is watched.
    fn watches(&mut self, left: Moment) {
        let way = self.ways[self.flow as usize];
        let watched = self.schedule.watch(self.now, self.flow, Some(way));
        let watched = watched.expect("it is to be found");
        let first = self.now + way;
        let at_home = if self.flow < self.slow.0 { self.slow.1 } else { Duration::ZERO };
        let later = at_home + self.jitter.mul_f64(self.random.f64());
        self.watched = Some((watched, left + self.link.way + later, first, way));
        (self.begun, self.looks_at) = (None, first.max(self.now + Scheduler::LOOKS));
    }

    fn looks(&mut self) {
        let Some((watched, acknowledged, looked, way)) = &mut self.watched else { return };
        *way = self.ways[watched.flow() as usize % self.ways.len()].min(*way);
        let way = *way;
        let since = |at: Moment| at.since(watched.at()).saturating_sub(way);
        if self.now >= *acknowledged || self.now.since(watched.at()) > way + Scheduler::LOST {
            let waited = Waited { least: since(*looked), most: since(self.now), way };
            self.schedule.learns(self.now, watched, waited);
            (self.watched, self.looks_at) = (None, Moment::NEVER);
        } else {
            if self.schedule.not_yet(self.now, watched, way) {
                (*looked, self.looks_at) = (self.now, self.now + Scheduler::LOOKS);
            } else {
                (self.watched, self.looks_at) = (None, Moment::NEVER);
            }
        }
    }

    fn run(&mut self, seconds: f64) -> Happened {
        (self.carried, self.sent_site) = (0, 0);
        self.site.clear();
        let end = self.now + Duration::from_secs_f64(seconds);
        let mut thought = [f64::MAX, 0.0];
        let (mut sum, mut last) = (0.0, self.now);
        while self.now < end {
            let found = self.schedule.found().map_or(1.0, |it| it as f64 / self.link.bits);
            thought = [thought[0].min(found), thought[1].max(found)];
            sum += found * self.now.since(last).as_secs_f64();
            last = self.now;
            if self.now >= self.next_site {
                self.site_sends();
            }
            if self.now >= self.looks_at {
                self.looks();
            }
            let has_room = self.room.is_none_or(|room| {
                let room = room.mul_f64(0.5 + self.random.f64());
                self.link.free_at.since(self.now) <= room
            });
            match self.schedule.next(self.now, |class| class == BATCH && has_room) {
                Ok(_) => self.batch_sends(),
                Err(at) => {
                    let late = self.late.mul_f64(self.random.f64());
                    let woken = at.min(self.looks_at) + late;
                    self.now = woken.min(self.next_site).max(self.now + Duration::from_nanos(1));
                }
            }
        }
        let whole = self.link.bits / 8.0 * seconds * 1448.0 / 1514.0;
        let share = self.carried as f64 / (whole - self.sent_site as f64);
        let mut of = [Vec::new(), Vec::new()];
        for (took, alone) in &self.site {
            of[0].push(*took);
            of[1].push(*alone);
        }
        of.iter_mut().for_each(|it| it.sort_by(f64::total_cmp));
        let at = |part: f64| [0, 1].map(|it| of[it][(of[it].len() as f64 * part) as usize]);
        Happened { median: at(0.5), p99: at(0.99), share, thought, mean: sum / seconds }
    }
}

const MB: f64 = 1e6;
const LINKS: [f64; 2] = [10.0 * MB, 100.0 * MB];
const LOADS: [f64; 2] = [0.1, 0.65];
const WAYS: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(20)];

/// All links, loads and ways, some seeds each.
fn all(seeds: u64) -> impl Iterator<Item = (f64, f64, Duration, u64)> {
    let links = LINKS.into_iter().flat_map(|bits| LOADS.map(|load| (bits, load)));
    let ways = links.flat_map(|(bits, load)| WAYS.map(|way| (bits, load, way)));
    ways.flat_map(move |(bits, load, way)| (0..seeds).map(move |seed| (bits, load, way, seed)))
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

#[test]
fn it_is_found_and_nobody_feels_it() {
    // An answer that the shaper lets through at once takes no time alone.
    for (flows, burst, most) in [1, 5, 20].map(|it| [(it, 0, 1.1), (it, BURST, 1.15)]).concat() {
        let (mut felt, mut shares) = (Vec::new(), Vec::new());
        for (bits, load, way, seed) in all(2) {
            let mut world = World::new(seed, Capacity::Found, bits, load, way, flows);
            (world.link.burst, world.alone.burst) = (burst, burst);
            let begin = world.run(3.0);
            let then = world.run(10.0);
            let ratio = then.median[0] / then.median[1];
            let case = format!(
                "{} Mb/s, burst {burst}, load {load}, way {way:?}, seed {seed}, {flows} flows: median {ratio:.2}, p99 {:.2}, share {:.2}, thought {:.2?}, at first {:.2?}",
                bits / MB,
                then.p99[0] / then.p99[1],
                then.share,
                then.thought,
                begin.thought
            );
            assert!(ratio < 1.2 && then.share > 0.6, "{case}");
            assert!(begin.thought[1] < 4.0 && then.thought[1] < 1.5, "{case}");
            felt.push(ratio);
            shares.push(then.share);
        }
        let (felt, share) = (median(felt), median(shares));
        assert!(felt < most && share > 0.85, "{flows} flows, burst {burst}: {felt} {share}");
    }
}

#[test]
fn a_link_that_changes_is_followed() {
    for (load, way) in LOADS.into_iter().flat_map(|load| WAYS.map(|way| (load, way))) {
        let mut world = World::new(7, Capacity::Found, 100.0 * MB, load, way, 5);
        world.run(4.0);
        for to in [10.0, 100.0, 50.0, 100.0] {
            // The site asks for the same part of it: what it asks for beyond that waits whatever the gateway does.
            (world.link.bits, world.alone.bits) = (to * MB, to * MB);
            world.asked = load * to * MB / 8.0;
            for second in 1..=8 {
                let then = world.run(1.0);
                let ratio = then.median[0] / then.median[1];
                let case = format!(
                    "load {load}, way {way:?}, to {to} Mb/s, second {second}: median {ratio:.2}, share {:.2}, thought {:.2?}",
                    then.share, then.thought
                );
                let is_known = (0.85..1.15).contains(&then.mean);
                assert!(second < 8 || ratio < 1.3 && then.share > 0.5 && is_known, "{case}");
            }
        }
    }
}

#[test]
fn clients_that_are_far_away_are_waited_for() {
    for way in [300, 600] {
        let way = Duration::from_millis(way);
        let mut world = World::new(11, Capacity::Found, 20.0 * MB, 0.3, way, 5);
        world.run(30.0);
        let then = world.run(20.0);
        assert!(then.thought[0] > 0.7 && then.thought[1] < 1.3, "{way:?}: {then:?}");
        assert!(then.median[0] / then.median[1] < 1.3 && then.share > 0.7, "{way:?}: {then:?}");
    }
}

#[test]
fn clients_behind_slow_links_of_their_own_do_not_count() {
    let way = Duration::from_millis(5);
    let (mut means, mut shares) = (Vec::new(), Vec::new());
    for seed in 0..7 {
        let mut world = World::new(seed, Capacity::Found, 50.0 * MB, 0.3, way, 5);
        // Two of five have a queue of 80 ms at home.
        world.slow = (2, Duration::from_millis(80));
        world.run(4.0);
        let then = world.run(10.0);
        means.push(then.mean);
        shares.push(then.share);
    }
    let (mean, share) = (median(means), median(shares));
    assert!((0.9..1.1).contains(&mean) && share > 0.85, "{mean} {share}");
}

#[test]
fn packets_that_take_unlike_times_by_themselves_are_no_queue() {
    for jitter in [2, 10] {
        let way = Duration::from_millis(20);
        let mut world = World::new(5, Capacity::Found, 50.0 * MB, 0.3, way, 5);
        world.jitter = Duration::from_millis(jitter);
        world.run(6.0);
        let then = world.run(10.0);
        assert!(then.mean > 0.5 && then.mean < 1.5, "jitter {jitter} ms: {then:?}");
    }
}

#[test]
fn a_queue_that_its_own_system_bounds_is_noticed() {
    // More would be late.
    for (bits, room) in [(10.0, 12), (100.0, 2)] {
        let mut felt = Vec::new();
        for (load, way) in LOADS.into_iter().flat_map(|load| WAYS.map(|way| (load, way))) {
            for seed in 0..4 {
                let mut world = World::new(seed, Capacity::Found, bits * MB, load, way, 5);
                (world.link.burst, world.alone.burst) = (BURST, BURST);
                world.room = Some(Duration::from_millis(room));
                world.run(6.0);
                let then = world.run(12.0);
                felt.push(then.median[0] / then.median[1]);
            }
        }
        let most = felt.iter().copied().fold(0.0, f64::max);
        let median = median(felt);
        assert!(median < 1.15 && most < 1.25, "{bits} Mb/s, {room} ms: {median:.2}, {most:.2}");
    }
}
