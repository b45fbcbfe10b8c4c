//! What background classes must be: unfelt by the foreground, and served with what that leaves.
//!
//! The law's constants were chosen with seeds below 400; its last faults were found, and `ROUGHLY` and the constants of rests chosen, with those up to 525.

#![allow(clippy::disallowed_macros, reason = "tests say what they measured")]

use std::ops::RangeInclusive;
use tiergate_sim::client::{Arrivals, Population, Profile};
use tiergate_sim::compare::{Subject, saturated, subjects};
use tiergate_sim::distribution::Distribution;
use tiergate_sim::report::Phase;
use tiergate_sim::run;
use tiergate_sim::scenario::{ClassShape, LimitKind, Scenario};
use tiergate_sim::server::{Drift, OfClass, Pause, Resource, Shape};

/// But for what is said above, nothing was tuned on these.
const SEEDS: RangeInclusive<u64> = 501..=505;
/// After so many seconds it must have settled, and then it is judged for so many.
const SETTLED_S: f64 = 60.0;
const JUDGED_S: f64 = 120.0;

/// A foreground that asks for this part of what the server can do, and a background that asks for everything.
fn scenario(subject: &Subject, part: f64, limit: LimitKind, background: bool) -> Scenario {
    let mut scenario = saturated(subject, part, limit, SETTLED_S + JUDGED_S);
    scenario.cuts_s = vec![SETTLED_S];
    let class = scenario.class[0].clone();
    scenario.class.push(ClassShape {
        name: "background".to_owned(),
        deadline_ms: 600_000.0,
        background,
        ..class
    });
    scenario
}

/// The same with so many users of the background, who ask again as soon as they are answered.
fn with_users(mut scenario: Scenario, users: u32) -> Scenario {
    scenario.population.push(Population::of("background", closed(users), 600_000.0));
    scenario
}

struct Seen {
    median_ms: f64,
    p99_ms: f64,
    foreground: f64,
    background: f64,
}

fn seen(scenario: &Scenario, seed: u64) -> Seen {
    let phase: Phase = run(scenario, seed).phases.swap_remove(1);
    let [foreground, .., background] = &phase.classes[..] else { panic!("two classes") };
    Seen {
        median_ms: foreground.total.quantile_ms(0.5),
        p99_ms: foreground.total.quantile_ms(0.99),
        foreground: foreground.good as f64 / phase.seconds(),
        background: background.good as f64 / phase.seconds(),
    }
}

/// What is seen without a background, with one, and with a class that is only last, before a server, with a foreground that asks for a part of
/// what it can do; as medians over seeds that nothing was tuned on.
struct Compared {
    median: f64,
    p99: f64,
    /// Of what the foreground leaves, as much as the background got.
    share: f64,
    /// The foreground's median with a class that is only last.
    only_last: f64,
}

fn compared(subject: &Subject, part: f64) -> Compared {
    let all = SEEDS.map(|seed| {
        let plain = scenario(subject, part, LimitKind::Adaptive, true);
        let alone = seen(&plain, seed);
        let with = seen(&with_users(plain, 200), seed);
        let only_last = scenario(subject, part, LimitKind::Adaptive, false);
        let only_last = seen(&with_users(only_last, 200), seed);
        [
            with.median_ms / alone.median_ms,
            with.p99_ms / alone.p99_ms,
            with.background / (subject.capacity - alone.foreground),
            only_last.median_ms / alone.median_ms,
        ]
    });
    let all: Vec<[f64; 4]> = all.collect();
    let [median, p99, share, only_last] =
        [0, 1, 2, 3].map(|place| middle(all.iter().map(|it| it[place]).collect()));
    println!(
        "{:14} {part:4}: median {median:.2} p99 {p99:.2} share {share:.2}; only last {only_last:.2}",
        subject.name
    );
    Compared { median, p99, share, only_last }
}

/// Servers that others are not felt on until they are many: of workers, of processors, of both.
#[test]
fn it_is_not_felt_and_uses_what_is_idle() {
    for subject in
        subjects().iter().filter(|it| matches!(it.name, "cpu 8 cores" | "32 workers" | "i/o"))
    {
        for part in [0.1, 0.65] {
            let found = compared(subject, part);
            let Compared { median, p99, share, only_last } = found;
            assert!(median <= 1.1 && p99 <= 1.2, "{} {part}: {median} {p99}", subject.name);
            assert!(share >= 0.2, "{} {part}: {share}", subject.name);
            assert!(only_last > 1.1, "{} {part}: {only_last}", subject.name);
        }
    }
}

/// Where whatever runs beside is felt, it gets little.
#[test]
fn it_stays_away_where_it_would_be_felt() {
    for subject in subjects().iter().filter(|it| matches!(it.name, "1 worker" | "4 workers")) {
        let Compared { median, p99, share, only_last } = compared(subject, 0.65);
        assert!(median <= 1.2 && p99 <= 1.35, "{}: {median} {p99}", subject.name);
        assert!(share >= 0.02 && only_last > 1.5, "{}: {share} {only_last}", subject.name);
    }
}

/// The foreground comes and goes: what is idle meanwhile is used.
#[test]
fn it_has_the_server_while_nobody_else_is_there() {
    let subject = &subjects()[1];
    let mut plain = scenario(subject, 0.3, LimitKind::Fixed(32), true);
    let asks = 0.3 * subject.capacity;
    let step = |n: u32| [10.0 * f64::from(n), if n.is_multiple_of(2) { asks } else { 0.0 }];
    let rate = Profile::Points { points: (0..19).map(step).collect(), ramp: false };
    plain.population[0].arrivals = Arrivals::Poisson { rate };
    let alone = seen(&plain, 101);
    let with = seen(&with_users(plain, 200), 101);
    let median = with.median_ms / alone.median_ms;
    // 28 of the 32 slots for half of the time.
    let share = with.background / (0.5 * subject.capacity * 28.0 / 32.0);
    println!("median {median:.2} share {share:.2}");
    assert!(median <= 1.1 && share >= 0.9, "{median} {share}");
}

/// Beside a foreground that is light, how much longer its median is, and how much of what the server could work on of the background, in the last minutes of so many seconds; medians over seeds. Requests of the background
/// take so long.
fn beside_few(rate: &Profile, background_ms: f64, seconds: f64) -> (f64, f64) {
    let subject = &subjects()[1];
    let workers = 32.0;
    let mut plain = scenario(subject, 1.0, LimitKind::Adaptive, true);
    let wait = Distribution::Exponential { mean_ms: background_ms };
    let class = "background".to_owned();
    plain.server.of.push(OfClass { class, wait, cpu: Distribution::NONE });
    plain.population[0].arrivals = Arrivals::Poisson { rate: rate.clone() };
    (plain.seconds, plain.cuts_s) = (seconds, vec![seconds - JUDGED_S]);
    let all = SEEDS.map(|seed| {
        let alone = seen(&plain, seed);
        let with = seen(&with_users(plain.clone(), 200), seed);
        (with.median_ms / alone.median_ms, with.background * background_ms / 1e3 / workers)
    });
    let (medians, shares): (Vec<f64>, Vec<f64>) = all.unzip();
    let (median, share) = (middle(medians), middle(shares));
    println!("{background_ms} ms: median {median:.2} share {share:.2}");
    (median, share)
}

/// So few come that it takes long to tell what they feel: what is idle is used all the same.
#[test]
fn it_uses_what_is_idle_where_few_others_come() {
    for rate in [3.0, 10.0] {
        for background_ms in [20.0, 800.0] {
            let (median, share) = beside_few(&Profile::Flat(rate), background_ms, 600.0);
            assert!(median <= 1.25 && share >= 0.15, "{rate} {background_ms}: {median} {share}");
        }
    }
}

/// A page of some dozen requests at a time. With what is in progress while nobody is there, each page would wait until some of that is over.
#[test]
fn it_expects_those_who_come_a_page_at_a_time() {
    let pages = |apart: f64| {
        let page = |n: u32| [[apart * f64::from(n), 130.0], [apart * f64::from(n) + 0.1, 0.0]];
        Profile::Points { points: (0..120).flat_map(page).collect(), ramp: false }
    };
    let (median, share) = beside_few(&pages(5.0), 800.0, 600.0);
    assert!(median <= 1.25 && share >= 0.08, "{median} {share}");
    // Few pages: that it gets something is enough.
    let (median, share) = beside_few(&pages(15.0), 800.0, 600.0);
    assert!(median <= 1.5 && share >= 0.02, "{median} {share}");
}

/// A database of two connections that the background needs as well as a class that hardly comes, beside a busy one that does not: by how much longer that class takes from the first minute on,
/// as a median, and the part of what the database can do that the background had; medians over seeds.
fn at_a_database(checkouts: f64, site: f64, held: Distribution) -> (f64, f64) {
    let plain = database(checkouts, site, held);
    let all = SEEDS.map(|seed| {
        let alone = seen(&plain, seed);
        let mut with = with_users(plain.clone(), 30);
        // The site is there before.
        with.population[2].from_s = 30.0;
        let with = seen(&with, seed);
        (with.median_ms / alone.median_ms, with.background / 100.0)
    });
    let (medians, shares): (Vec<f64>, Vec<f64>) = all.unzip();
    let (median, share) = (middle(medians), middle(shares));
    println!("{checkouts} beside {site}: median {median:.2} share {share:.2}");
    (median, share)
}

fn database(checkouts: f64, site: f64, held: Distribution) -> Scenario {
    let mut plain = scenario(&subjects()[1], 1.0, LimitKind::Adaptive, true);
    let class = |name: &str| ClassShape { name: name.to_owned(), ..plain.class[0].clone() };
    plain.class = vec![class("checkout"), class("site"), plain.class[1].clone()];
    let quick = Distribution::Constant { mean_ms: 0.5 };
    let classes = vec!["checkout".to_owned(), "background".to_owned()];
    plain.server = Shape { wait: quick, ..Shape::default() };
    plain.server.resource = vec![Resource { classes, size: 2, held }];
    let poisson = |rate| Arrivals::Poisson { rate: Profile::Flat(rate) };
    let population = [("checkout", checkouts), ("site", site)];
    let population = population.map(|(class, rate)| Population::of(class, poisson(rate), 30_000.0));
    plain.population = population.into();
    (plain.seconds, plain.cuts_s) = (300.0, vec![60.0]);
    plain
}

/// It has had all that it asked for, and then asks for the database.
#[test]
fn it_does_not_queue_there_either_if_it_could_have_more_before() {
    let mut plain = database(0.4, 200.0, Distribution::Constant { mean_ms: 20.0 });
    let crawl = ClassShape { name: "crawl".to_owned(), ..plain.class[2].clone() };
    plain.class.insert(2, crawl);
    let mut crawl = Population::of("crawl", closed(30), 600_000.0);
    crawl.to_s = 120.0;
    plain.population.push(crawl);
    (plain.seconds, plain.cuts_s) = (420.0, vec![180.0]);
    let all = SEEDS.map(|seed| {
        let alone = seen(&plain, seed);
        let mut with = plain.clone();
        let mut users = Population::of("background", closed(12), 600_000.0);
        users.from_s = 120.0;
        with.population.push(users);
        let with = seen(&with, seed);
        (with.median_ms / alone.median_ms, with.background / 100.0)
    });
    let (medians, shares): (Vec<f64>, Vec<f64>) = all.unzip();
    let (median, share) = (middle(medians), middle(shares));
    println!("afterwards: median {median:.2} share {share:.2}");
    assert!(median <= 2.5 && share >= 0.2, "{median} {share}");
}

/// Where it is not the bound that keeps it down, there are more in progress because they take longer, and not the other way round.
#[test]
fn it_is_not_bounded_by_how_its_requests_vary() {
    let mut plain = database(2.0, 100.0, Distribution::NONE);
    plain.server.resource.clear();
    let wait = Distribution::Exponential { mean_ms: 40.0 };
    plain.server.of.push(OfClass { class: "background".to_owned(), wait, cpu: Distribution::NONE });
    plain.server.drift = Some(Drift { sd: 1.0, over_s: 10.0 });
    (plain.seconds, plain.cuts_s) = (600.0, vec![180.0]);
    let rate = Profile::Flat(200.0);
    plain.population.push(Population::of("background", Arrivals::Poisson { rate }, 600_000.0));
    let took = |seed| run(&plain, seed).phases[1].classes[2].total.quantile_ms(0.5);
    let took = middle(SEEDS.map(took).collect());
    println!("{took:.0} ms with all of its waits");
    assert!(took < 100.0, "{took}");
}

fn closed(users: u32) -> Arrivals {
    Arrivals::Closed { users, think: Distribution::NONE }
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Few who need what the background needs feel it too seldom for that to be learned soon; that its own requests wait for each other shows at once.
#[test]
fn it_does_not_queue_where_a_class_that_hardly_comes_needs_to_go() {
    let held =
        |mean_ms| [Distribution::Constant { mean_ms }, Distribution::Exponential { mean_ms }];
    for held in held(20.0) {
        for (checkouts, site) in [(0.4, 200.0), (2.0, 200.0), (2.0, 38.0)] {
            let (median, share) = at_a_database(checkouts, site, held);
            assert!(median <= 2.5 && share >= 0.15, "{checkouts} {site}: {median} {share}");
        }
    }
}

/// What is seen in each minute but the first of one with so many users of the background, whose requests take so long, before 32 workers or so many; as much as the workers could do of it.
fn beside_long(
    shape: &Shape,
    rate: f64,
    users: u32,
    long: Distribution,
    minutes: u32,
) -> Vec<(f64, f64)> {
    let mut plain = scenario(&subjects()[1], 1.0, LimitKind::Adaptive, true);
    plain.server = shape.clone();
    let class = "background".to_owned();
    plain.server.of.push(OfClass { class, wait: long, cpu: Distribution::NONE });
    plain.population[0].arrivals = Arrivals::Poisson { rate: Profile::Flat(rate) };
    plain.seconds = 60.0 * f64::from(minutes);
    plain.cuts_s = (1..minutes).map(|minute| 60.0 * f64::from(minute)).collect();
    let minutes =
        SEEDS.flat_map(|seed| run(&with_users(plain.clone(), users), seed).phases.split_off(1));
    let seen = minutes.map(|it| {
        let [foreground, .., background] = &it.classes[..] else { panic!("two classes") };
        (foreground.total.quantile_ms(0.99), background.good as f64 / it.seconds())
    });
    seen.collect()
}

/// Of requests that take long nothing is felt until they have all workers, and then each of the foreground waits for one of them.
#[test]
fn it_seldom_has_all_workers() {
    let mut felt = 0;
    for (workers, users) in [(8, 12), (16, 40)] {
        let shape = Shape::workers(workers, Distribution::Constant { mean_ms: 20.0 });
        let long = Distribution::Constant { mean_ms: 600.0 };
        let seen = beside_long(&shape, 40.0, users, long, 5);
        felt += seen.iter().filter(|it| it.0 > 100.0).count();
        let each_s = middle(seen.iter().map(|it| it.1).collect());
        let share = each_s * 0.6 / (f64::from(workers) - 0.8);
        println!("{workers} workers: felt in {felt} minutes so far; share {share:.2}");
        assert!(share >= 0.25, "{workers}: {share}");
    }
    assert!(felt <= 8, "in {felt} of 40 minutes");
}

/// An origin that stops now and then by itself is taken for one that the background stops, but not for ever.
#[test]
fn it_is_not_given_up_for_pauses_of_the_origin() {
    for (every_s, for_s, rate) in [(5.0, 0.3, 400.0), (20.0, 0.5, 40.0), (60.0, 1.0, 40.0)] {
        let wait = Distribution::Exponential { mean_ms: 20.0 };
        let mut shape = Shape::workers(32, wait);
        shape.pause = Some(Pause { every_s, for_s });
        let seen = beside_long(&shape, rate, 200, wait, 15);
        let share = middle(seen.into_iter().map(|it| it.1 * 0.02 / 32.0).collect());
        println!("{for_s} s each {every_s} s: share {share:.2}");
        assert!(share >= 0.1, "{every_s} {rate}: {share}");
    }
}

/// A proxy there takes the origin for dead for ten seconds after an answer that was late, as some of the background's are: without rests most of the foreground fails, in turns with the background and without.
#[test]
fn what_outlasts_its_turns_makes_it_rest() {
    let mut plain = scenario(&subjects()[1], 1.0, LimitKind::Adaptive, true);
    let class = "background".to_owned();
    let wait = Distribution::Exponential { mean_ms: 600.0 };
    plain.server = Shape::workers(32, Distribution::Constant { mean_ms: 20.0 });
    plain.server.of.push(OfClass { class, wait, cpu: Distribution::NONE });
    (plain.server.late_ms, plain.server.dead_s) = (2_000.0, 10.0);
    plain.population[0].arrivals = Arrivals::Poisson { rate: Profile::Flat(40.0) };
    (plain.seconds, plain.cuts_s) = (1_500.0, vec![300.0]);
    let failed = |users, seed| {
        let scenario = if users > 0 { with_users(plain.clone(), users) } else { plain.clone() };
        let phase = run(&scenario, seed).phases.swap_remove(1);
        let [foreground, .., background] = &phase.classes[..] else { panic!("two classes") };
        let failed = foreground.failed as f64 / foreground.arrived as f64;
        (failed, background.good as f64 / phase.seconds())
    };
    assert_eq!(failed(0, 1).0, 0.0);
    let all: Vec<(f64, f64)> = SEEDS.map(|seed| failed(40, seed)).collect();
    let failed = middle(all.iter().map(|it| it.0).collect());
    let each_s = middle(all.iter().map(|it| it.1).collect());
    println!("{failed:.3} failed; {each_s:.2} a second");
    assert!(failed < 0.25 && each_s > 0.05, "{failed} {each_s}");
}
