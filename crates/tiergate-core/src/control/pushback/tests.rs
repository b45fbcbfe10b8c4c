use super::*;
use crate::names::{ClassId, LaneId};
use crate::outcome::Outcome;

/// An origin with endless work before it, which takes 40 ms for an answer, and what it refuses.
struct World {
    pushback: Pushback,
    slots: u32,
    now_ms: u64,
    /// When requests that it works on end, and how many were there with them when they came.
    working: std::collections::VecDeque<(u64, u32)>,
    /// How it refuses.
    refusal: End,
    answers: u32,
    refusals: u32,
    most: Vec<u32>,
}

impl World {
    fn new(slots: u32) -> Self {
        let working = std::collections::VecDeque::new();
        let (pushback, most) = (Pushback::default(), Vec::new());
        let refusal = End::Pushback;
        World { pushback, slots, now_ms: 0, working, refusal, answers: 0, refusals: 0, most }
    }

    fn limit(&self) -> u32 {
        self.pushback.most().unwrap_or(u32::MAX).min(self.slots)
    }

    fn end(&mut self, end: End, admitted_ms: u64, found: u32, running: u32) {
        self.end_of((self.answers + self.refusals).into(), end, admitted_ms, found, running);
    }

    fn end_of(&mut self, flow: u64, end: End, admitted_ms: u64, found: u32, running: u32) {
        let completion = Completion {
            now: Moment::from_millis(self.now_ms),
            class: ClassId(0),
            lane: LaneId(0),
            flow,
            admitted: Moment::from_millis(admitted_ms),
            waited: Duration::ZERO,
            found,
            outcome: &Outcome::without_answer(end),
            load: OriginLoad { running, waiting: 1000 },
        };
        self.pushback.finished(&completion, self.limit());
        match end {
            end if end == self.refusal => self.refusals += 1,
            _ => self.answers += 1,
        }
    }

    /// Runs, with what the origin refuses, by the number of the request and how many others are there.
    fn run(&mut self, ms: u64, refuses: impl Fn(u32, u32) -> bool) {
        for _ in 0..ms {
            self.now_ms += 1;
            while let Some((_, found)) = self.working.pop_front_if(|(end, _)| *end <= self.now_ms) {
                let running = self.working.len() as u32 + 1;
                self.end(End::Served, self.now_ms.saturating_sub(40), found, running);
            }
            // No more than the network brings in a millisecond.
            for _ in 0..4 {
                let others = self.working.len() as u32;
                if others >= self.limit() {
                    break;
                }
                if refuses(self.answers + self.refusals, others) {
                    self.end(self.refusal, self.now_ms, others + 1, others + 1);
                } else {
                    self.working.push_back((self.now_ms + 40, others + 1));
                }
            }
            self.most.push(self.limit());
        }
    }
}

#[test]
fn no_more_are_in_progress_than_the_origin_takes() {
    let mut world = World::new(1000);
    world.run(1000, |_, others| others >= 32);
    assert_eq!(world.pushback.most(), Some(32));
    (world.answers, world.refusals) = (0, 0);
    world.run(300_000, |_, others| others >= 32);
    assert!(world.answers > 235_000, "{}", world.answers);
    // Trying one more costs a few requests, and less and less often.
    assert!(world.refusals < world.answers / 1000, "{}", world.refusals);
    assert!(world.most.iter().skip(1000).all(|most| (31..=33).contains(most)));
}

#[test]
fn an_origin_that_closes_connections_beyond_so_many_gets_no_more() {
    let mut world = World::new(1000);
    world.refusal = End::Failed;
    world.run(200, |_, others| others >= 32);
    world.slots = 40;
    world.run(20_000, |_, others| others >= 32);
    assert!((31..=33).contains(&world.limit()), "{}", world.limit());
}

/// A path crashes its worker, whatever the load: no bound is tried, which the others would wait for.
#[test]
fn connections_closed_whatever_the_load_take_no_slots() {
    for one_in in [2, 3, 10] {
        let mut world = World::new(10);
        world.refusal = End::Failed;
        world.run(60_000, |number, _| number % one_in == 0);
        assert!(world.most.iter().all(|most| *most == 10), "one in {one_in}");
    }
}

#[test]
fn an_origin_that_takes_more_gets_more() {
    let mut world = World::new(100);
    world.run(10_000, |_, others| others >= 32);
    world.run(120_000, |_, others| others >= 64);
    assert!((60..=65).contains(&world.limit()), "{}", world.limit());
    world.run(300_000, |_, _| false);
    assert_eq!(world.limit(), 100);
}

#[test]
fn an_origin_that_takes_more_after_a_long_time_gets_it_soon() {
    let mut world = World::new(100);
    world.run(300_000, |_, others| others >= 6);
    assert!((5..=7).contains(&world.limit()), "{}", world.limit());
    world.run(25_000, |_, others| others >= 64);
    assert!((60..=65).contains(&world.limit()), "{}", world.limit());
}

#[test]
fn an_origin_that_takes_a_quarter_of_before_is_followed() {
    for seed in 1..=10 {
        let mut site = Site::new(60);
        site.random = seed;
        site.run(15_000, 130.0, 300.0, |_, _, others| others >= 32);
        site.run(10_000, 130.0, 300.0, |_, _, others| others >= 8);
        for _ in 0..30 {
            site.run(1_000, 130.0, 300.0, |_, _, others| others >= 8);
            assert!((7..=10).contains(&site.limit()), "{seed}: {}", site.limit());
        }
    }
}

#[test]
fn an_origin_that_refuses_some_clients_whatever_the_load_loses_no_slots() {
    for each in [2, 3, 10] {
        let mut world = World::new(40);
        world.run(300_000, |number, _| number % each == 0);
        let held = world.most.iter().filter(|most| **most < 40).count();

        assert!(held < world.most.len() / 20, "1 of {each}: {held}");
        let settled = &world.most[10_000..];
        let mean = settled.iter().sum::<u32>() as f64 / settled.len() as f64;
        assert!(mean > 39.8, "1 of {each}: {mean}");
    }
}

/// So many addresses, and some that ask for what is always refused: often at first, seldom while slots are few.
/// Returns for which part of the time there were fewer.
fn beside_provokers(good: u32, provokers: u32) -> f64 {
    let mut world = World::new(40);
    for number in 0..50_000 {
        let each = if world.limit() == 40 { 4 } else { 20 };
        let (flow, end) = match number % each {
            0 => (number / each % provokers, End::Pushback),
            _ => (100 + number % good, End::Served),
        };
        world.now_ms += 2;
        let limit = world.limit();
        world.end_of(flow.into(), end, world.now_ms - 1, limit, limit);
        world.most.push(world.limit());
    }
    let held = world.most.iter().filter(|most| **most < 40).count();
    held as f64 / world.most.len() as f64
}

#[test]
fn an_address_that_provokes_refusals_takes_nobodys_slots() {
    for (good, provokers) in [(2, 1), (3, 1), (8, 2), (100, 3)] {
        assert_eq!(beside_provokers(good, provokers), 0.0, "{provokers} beside {good}");
    }
}

#[test]
fn many_that_provoke_refusals_take_slots_for_a_moment() {
    for (good, provokers) in [(1, 2), (3, 3), (6, 6)] {
        let held = beside_provokers(good, provokers);
        assert!(held < 0.1, "{provokers} beside {good}: {held}");
    }
}

#[test]
fn both_kinds_of_refusals_are_told_apart() {
    let mut world = World::new(1000);
    world.run(60_000, |number, others| others >= 32 || number % 10 == 0);
    let late = &world.most[30_000..];
    let near = late.iter().filter(|most| (28..=34).contains(*most)).count();
    assert!(near > late.len() * 9 / 10, "{near} of {}", late.len());
}

#[test]
fn refusals_of_requests_of_before_do_not_count() {
    let mut world = World::new(1000);
    world.run(1000, |_, others| others >= 32);
    let since = world.pushback.since.nanos() / 1_000_000;
    let before = world.pushback.counts.answers;
    world.end(End::Pushback, since - 1, 33, 33);
    assert_eq!(world.pushback.counts.answers, before);
    world.end(End::Pushback, since, 33, 33);
    assert_eq!(world.pushback.counts.answers, before + 1);
}

/// What asks: a client or a provoker, and which.
#[derive(Clone, Copy)]
struct Ask {
    flow: u64,
    provokes: bool,
    /// Between 0 and 1.
    chance: f64,
}

/// A gateway with so many slots before an origin, and clients that come by chance.
struct Site {
    pushback: Pushback,
    slots: u32,
    now_ms: u64,
    random: u64,
    queue: std::collections::VecDeque<Ask>,
    /// When it ends and was admitted, how many were there then, and whether it is refused.
    running: Vec<(u64, u64, u32, Ask, bool)>,
    /// How long the origin takes to refuse a request.
    refusal_ms: u64,
    /// Requests of provokers a second, and how many there are.
    provokers: (f64, u64),
    most: Vec<u32>,
}

impl Site {
    fn new(slots: u32) -> Self {
        Site {
            pushback: Pushback::default(),
            slots,
            now_ms: 0,
            random: 1,
            queue: Default::default(),
            running: Vec::new(),
            refusal_ms: 1,
            provokers: (0.0, 1),
            most: Vec::new(),
        }
    }

    fn limit(&self) -> u32 {
        self.pushback.most().unwrap_or(u32::MAX).min(self.slots)
    }

    /// SplitMix64.
    fn chance(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ bits >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// So many requests a second from 1,000 clients, whose answers take so long. What the origin refuses, by when, who and
    /// how many others it works on, ends sooner. Clients that would wait more than a second leave.
    fn run(
        &mut self,
        ms: u64,
        rate: f64,
        service_ms: f64,
        refuses: impl Fn(u64, Ask, u32) -> bool,
    ) {
        for _ in 0..ms {
            self.now_ms += 1;
            while let Some(at) = self.running.iter().position(|one| one.0 <= self.now_ms) {
                let running = self.running.len() as u32;
                let (_, admitted, found, ask, refused) = self.running.swap_remove(at);
                let end = if refused { End::Pushback } else { End::Served };
                let completion = Completion {
                    now: Moment::from_millis(self.now_ms),
                    class: ClassId(0),
                    lane: LaneId(0),
                    flow: ask.flow,
                    admitted: Moment::from_millis(admitted),
                    waited: Duration::ZERO,
                    found,
                    outcome: &Outcome::without_answer(end),
                    load: OriginLoad { running, waiting: self.queue.len() as u32 },
                };
                let limit = self.limit();
                self.pushback.finished(&completion, limit);
                self.admit(service_ms, &refuses);
            }
            let (provoked, provokers) = self.provokers;
            for (each, flows, provokes) in [(rate, 1000, false), (provoked, provokers, true)] {
                if self.chance() < each / 1000.0 {
                    let flow =
                        (self.chance() * flows as f64) as u64 + if provokes { 5000 } else { 0 };
                    let ask = Ask { flow, provokes, chance: self.chance() };
                    if (self.queue.len() as f64) < rate {
                        self.queue.push_back(ask);
                    }
                }
            }
            self.admit(service_ms, &refuses);
            self.most.push(self.limit());
        }
    }

    fn admit(&mut self, service_ms: f64, refuses: &impl Fn(u64, Ask, u32) -> bool) {
        while (self.running.len() as u32) < self.limit() {
            let Some(ask) = self.queue.pop_front() else { return };
            let others = self.running.iter().filter(|one| !one.4).count() as u32;
            let refused = refuses(self.now_ms, ask, others);
            let takes = if refused {
                self.refusal_ms
            } else {
                (service_ms * (0.8 + 0.4 * self.chance())) as u64
            };
            let found = self.running.len() as u32 + 1;
            self.running.push((self.now_ms + takes, self.now_ms, found, ask, refused));
        }
    }

    /// A bound may be tried now and then, but not lowered again, and is undone soon.
    fn assert_barely_held(&self) {
        let least = self.most.iter().min().expect("it ran");
        assert!(*least >= self.slots.div_ceil(3), "{least}");
        let part = self.held_s() * 1000.0 / self.most.len() as f64;
        assert!(part < 0.04, "{part}");
    }

    /// For how many seconds there were fewer slots.
    fn held_s(&self) -> f64 {
        self.most.iter().filter(|most| **most < self.slots).count() as f64 / 1000.0
    }
}

#[test]
fn a_deploy_at_light_load_takes_no_slots() {
    for (rate, service_ms) in [(40.0, 100.0), (10.0, 1000.0), (3.0, 1000.0), (200.0, 20.0)] {
        let mut site = Site::new(14);
        site.run(60_000, rate, service_ms, |now, _, _| (15_000..25_000).contains(&now));
        assert_eq!(site.held_s(), 0.0, "{rate} of {service_ms} ms");
    }
}

#[test]
fn an_outage_that_is_over_takes_no_slots() {
    for seed in 1..=5 {
        let mut site = Site::new(10);
        // Refused after a second, so that the limit is full meanwhile.
        (site.random, site.refusal_ms) = (seed, 1000);
        site.run(120_000, 40.0, 100.0, |now, _, _| (30_000..60_000).contains(&now));
        assert_eq!(site.held_s(), 0.0, "{seed}");
    }
}

#[test]
fn a_deploy_of_one_of_two_servers_takes_no_slots() {
    let mut site = Site::new(14);
    // It answers at once, so that it has the fewest requests in progress and gets the most.
    site.run(60_000, 40.0, 100.0, |now, ask, others| {
        (15_000..25_000).contains(&now) && (others > 0 || ask.chance < 0.5)
    });
    assert_eq!(site.held_s(), 0.0);
}

#[test]
fn a_path_that_is_refused_takes_few_slots_for_a_moment() {
    for seed in 1..=5 {
        let mut site = Site::new(10);
        (site.random, site.provokers) = (seed, (12.0, 1000));
        site.run(300_000, 40.0, 100.0, |_, ask, _| ask.provokes);
        site.assert_barely_held();
    }
}

#[test]
fn refusals_by_chance_take_few_slots_for_a_moment() {
    for seed in 1..=5 {
        let mut site = Site::new(10);
        site.random = seed;
        site.run(300_000, 20.0, 300.0, |_, ask, _| ask.chance < 0.14);
        site.assert_barely_held();
    }
}

#[test]
fn provokers_at_light_load_take_few_slots_for_a_moment() {
    for (provokers, rate) in [(8, 16.0), (12, 12.0), (12, 100.0)] {
        let mut site = Site::new(10);
        site.provokers = (rate, provokers);
        site.run(300_000, 40.0, 100.0, |_, ask, _| ask.provokes);
        site.assert_barely_held();
    }
}

#[test]
fn bursts_of_refusals_for_all_take_no_slots() {
    let mut site = Site::new(10);
    site.run(300_000, 40.0, 100.0, |now, _, _| now % 10_000 < 2000);
    assert_eq!(site.held_s(), 0.0);
}

#[test]
fn a_trial_ends_in_time() {
    // Slots are always full and requests wait, so that it may be the load; few answers come that could tell.
    let mut site = Site::new(4);
    site.run(600_000, 20.0, 1000.0, |_, ask, _| ask.chance < 0.2);
    let mut longest = 0;
    for held in site.most.split(|most| *most == 4) {
        longest = longest.max(held.len());
    }
    assert!(longest > 0, "there was a trial");
    assert!(longest <= 7000, "{longest} ms");
    assert!(site.held_s() < 40.0, "{}", site.held_s());
}

#[test]
fn a_limit_is_found_whether_or_not_the_load_is_always_full() {
    // Seconds in turn with much and little load.
    for (service_ms, full) in [(40.0, 1.4), (100.0, 1.4), (100.0, 2.5), (300.0, 1.4)] {
        let (mut site, rate) = (Site::new(24), 8000.0 / service_ms);
        for _ in 0..60 {
            site.run(1000, rate * full, service_ms, |_, _, others| others >= 8);
            site.run(1000, rate * 0.5, service_ms, |_, _, others| others >= 8);
        }
        let late = &site.most[60_000..];
        let near = late.iter().filter(|most| (7..=9).contains(*most)).count();
        assert!(near > late.len() * 9 / 10, "{service_ms} ms, {full}: {near} of {}", late.len());
    }
}

#[test]
fn a_limit_is_found_where_the_load_is_full_from_the_first_moment() {
    for (n, slots, service_ms) in
        [(8, 10, 100.0), (8, 40, 40.0), (2, 10, 100.0), (16, 20, 300.0), (8, 10, 1000.0)]
    {
        let (mut site, rate) = (Site::new(slots), 3000.0 * f64::from(n) / service_ms);
        site.run(120_000, rate.min(900.0), service_ms, |_, _, others| others >= n);
        let late = &site.most[60_000..];
        let near = late.iter().filter(|most| (n..=n + 1).contains(*most)).count();
        assert!(
            near > late.len() * 9 / 10,
            "{n} of {slots}, {service_ms} ms: {near}, {:?}",
            late.last()
        );
    }
}

/// The origin takes half of what comes, so that each second until then costs 27 requests.
#[test]
fn where_half_is_refused_a_bound_is_tried_soon() {
    let mut took = Vec::new();
    for seed in 1..=10 {
        let mut site = Site::new(10);
        site.random = seed;
        while site.limit() == 10 && site.now_ms < 10_000 {
            site.run(10, 55.0, 300.0, |_, _, others| others >= 8);
        }
        took.push(site.now_ms);
    }
    took.sort_unstable();
    assert!(took[9] < 2000, "{took:?}");
}

#[test]
fn a_limit_that_falls_is_found() {
    let mut site = Site::new(100);
    site.run(60_000, 900.0, 80.0, |_, _, others| others >= 32);
    assert!((31..=33).contains(&site.limit()), "{}", site.limit());
    site.run(20_000, 900.0, 80.0, |_, _, others| others >= 16);
    assert!((15..=17).contains(&site.limit()), "{}", site.limit());
    site.run(60_000, 900.0, 80.0, |_, _, others| others >= 32);
    assert!((30..=33).contains(&site.limit()), "{}", site.limit());
}
