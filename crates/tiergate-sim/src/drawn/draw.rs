//! A scenario by its family and seed.

use super::chance::{between, scaled};
use super::changes::Changes;
use super::clients::{Client, class, clients, population};
use super::origin::Origin;
use super::parts::{Composition, Event, Family, Kind, compose};
use crate::client::{Arrivals, Population, Profile};
use crate::distribution::Distribution;
use crate::scenario::{ClassShape, Gateway, LimitKind, Scenario};
use crate::server::{Fault, FaultKind, OfClass, Resource, Slow};
use fastrand::Rng;

/// Length of each, in seconds.
const SECONDS: f64 = 80.0;
/// What is before is not judged: laws know nothing at the start.
const JUDGED_FROM_S: f64 = 15.0;
/// For so long after a change a phase is not settled.
const SETTLES_S: f64 = 10.0;
/// The part of the least capacity that the premium class may take at the most.
const PREMIUM_MOST: f64 = 0.6;

/// A scenario, what it is composed of, and what of it is judged.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The family and the seed that it was drawn by.
    pub family: Family,
    /// The seed.
    pub seed: u64,
    /// Its parts.
    pub composition: Composition,
    /// The scenario; its limit is the product's, and `about` says in words what it is.
    pub scenario: Scenario,
    /// Its phases but the first.
    pub judged: Vec<Judged>,
    /// Mean work of a request of each class.
    pub sizes: Vec<f64>,
}

/// A phase that is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Phases between the same changes of the server have the same number, from 0.
    pub regime: usize,
    /// Whether the last change was some time ago.
    pub settled: bool,
}

/// Draws a scenario; the same family and seed give the same.
pub fn draw(family: Family, seed: u64) -> Drawn {
    // Multiplied, so that seeds that follow each other have nothing in common.
    let drawn_by =
        (seed ^ family.of(0x6f70_656e_0000, 0x6865_6c64_0000)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let rng = &mut Rng::with_seed(drawn_by);
    let composition = compose(family, rng);
    let when = [between(rng, (30.0, 35.0)).round(), between(rng, (54.0, 59.0)).round()];
    let has = |event: Event| composition.events.contains(&event);
    let mut origin = Origin::draw(family, composition.kind, rng);
    let mut changes = Changes::none();
    for &event in &composition.events {
        changes.add(family, event, &mut origin, when, rng);
    }
    let mut words = vec![server_in_words(composition.kind, &origin)];
    words.append(&mut changes.words);
    if has(Event::SlowClients) {
        slow_clients(family, &mut origin, &mut words, rng);
    }
    let (rate, at_once) = origin.capacity();
    let past =
        if has(Event::Callers) { between(rng, family.of((0.1, 0.25), (0.15, 0.35))) } else { 0.0 };
    let fits = PREMIUM_MOST * changes.least * (1.0 - past);
    let clients = clients(family, &composition, (rate, fits), rng);
    let last = clients.last().expect("there are two classes").name;
    let longest_ms = clients.iter().map(|it| it.size).fold(0.0, f64::max) * origin.mean_ms();
    let mut scenario =
        Scenario { seconds: SECONDS, seed, limit: LimitKind::Adaptive, ..Scenario::default() };
    for client in &clients {
        let class = class(client, longest_ms, changes.pause_ms, rng);
        let mean_ms = client.size * (origin.mean_ms() + origin.send_ms);
        let times = (rate, class.deadline_ms, mean_ms);
        let when = [when[0], when[1], SECONDS];
        scenario.population.push(population(family, &composition, client, times, when, rng));
        scenario.class.push(class);
    }
    changes.apply(&mut origin.shape);
    scenario.server = origin.shape.clone();
    serve(&mut scenario, &origin, &clients);
    let mut around =
        Around { family, when, at_once, last, scenario: &mut scenario, words: &mut words };
    for &event in &composition.events {
        around.happen(event, longest_ms, &mut changes.at_s, rng);
    }
    if past > 0.0 {
        let past_rate = past * changes.least * rate;
        callers(&mut scenario, past_rate, &origin);
        words.push(format!("{past_rate:.0}/s past the gateway"));
    }
    words.push(load_in_words(&composition, &clients, &origin));
    let (cuts_s, judged) = phases(changes.at_s);
    scenario.cuts_s = cuts_s;
    scenario.about = format!("{} {seed}: {}.", family.name(), words.join("; "));
    // Callers past the gateway send requests of mean size.
    let mut sizes: Vec<f64> = clients.iter().map(|it| it.size).collect();
    sizes.resize(scenario.class.len(), 1.0);
    Drawn { family, seed, composition, scenario, judged, sizes }
}

/// Where phases are cut, and what they are.
fn phases(mut changes: Vec<f64>) -> (Vec<f64>, Vec<Judged>) {
    changes.sort_by(f64::total_cmp);
    changes.dedup();
    let mut cuts_s = vec![JUDGED_FROM_S];
    let mut judged = vec![Judged { regime: 0, settled: true }];
    for (place, &at) in changes.iter().enumerate() {
        let regime = place + 1;
        cuts_s.push(at);
        judged.push(Judged { regime, settled: false });
        let next = changes.get(place + 1).copied().unwrap_or(SECONDS);
        if next > at + SETTLES_S + 1.0 {
            cuts_s.push(at + SETTLES_S);
            judged.push(Judged { regime, settled: true });
        }
    }
    (cuts_s, judged)
}

/// What the requests of each class take.
fn serve(scenario: &mut Scenario, origin: &Origin, clients: &[Client]) {
    let of = |client: &Client| OfClass {
        class: client.name.to_owned(),
        wait: client.times.of(client.size * origin.wait_ms),
        cpu: client.times.of(client.size * origin.cpu_ms),
    };
    scenario.server.of = clients.iter().map(of).collect();
    if let (Some((size, held_ms)), Some(last)) = (origin.few, clients.last()) {
        let held = Distribution::Exponential { mean_ms: held_ms * last.size };
        scenario.server.resource =
            vec![Resource { classes: vec![last.name.to_owned()], size, held }];
    }
}

fn slow_clients(family: Family, origin: &mut Origin, words: &mut Vec<String>, rng: &mut Rng) {
    let times = between(rng, family.of((5.0, 20.0), (10.0, 60.0)));
    let share = between(rng, family.of((0.2, 0.8), (0.5, 1.5))) / times;
    let long_ms = times * origin.mean_ms();
    origin.send_ms = long_ms * share;
    origin.shape.send = Distribution::Bimodal { short_ms: 0.0, long_ms, long_share: share };
    words.push(format!(
        "{:.1} % of the clients take their answers in {long_ms:.0} ms",
        100.0 * share
    ));
}

fn callers(scenario: &mut Scenario, rate: f64, origin: &Origin) {
    let times = |mean_ms: f64| match mean_ms > 0.0 {
        true => Distribution::Exponential { mean_ms },
        false => Distribution::NONE,
    };
    let name = "callers";
    scenario.class.push(ClassShape {
        name: name.to_owned(),
        deadline_ms: 1000.0,
        minimum: 0.0,
        queue_len_max: 10_000,
        refuse_at: Vec::new(),
        target_p99_ms: None,
        resource: None,
        background: false,
    });
    scenario.server.of.push(OfClass {
        class: name.to_owned(),
        wait: times(origin.wait_ms),
        cpu: times(origin.cpu_ms),
    });
    let arrivals = Arrivals::Poisson { rate: Profile::Flat(rate) };
    scenario.population.push(Population { direct: true, ..Population::of(name, arrivals, 5000.0) });
}

/// What happens to some of the requests.
struct Around<'d> {
    family: Family,
    when: [f64; 2],
    /// The fewest requests at once that give the server's capacity.
    at_once: u32,
    /// The least important class.
    last: &'static str,
    scenario: &'d mut Scenario,
    words: &'d mut Vec<String>,
}

impl Around<'_> {
    fn happen(&mut self, event: Event, longest_ms: f64, changes: &mut Vec<f64>, rng: &mut Rng) {
        let [from_s, to_s] = self.when;
        let class = self.last.to_owned();
        match event {
            Event::SlowPart => {
                let times = between(rng, self.family.of((2.0, 5.0), (3.0, 10.0)));
                self.scenario.server.slow = vec![Slow { class, from_s, to_s, times }];
                changes.extend(self.when);
                self.words.push(format!(
                    "basic takes {times:.1} times as long, {from_s:.0} to {to_s:.0} s"
                ));
            }
            Event::Pushback => {
                let times = between(rng, self.family.of((1.5, 3.0), (1.1, 2.0)));
                let most = (f64::from(self.at_once) * times).ceil() as u32 + 1;
                self.scenario.server.pushback = Some(most);
                self.words.push(format!("429 beyond {most} requests"));
            }
            Event::SlowErrors if self.family == Family::Open => {
                let late_ms = (longest_ms * between(rng, (8.0, 20.0))).max(300.0).round();
                self.scenario.server.late_ms = late_ms;
                self.words.push(format!("504 after {late_ms:.0} ms"));
            }
            Event::SlowErrors => {
                let (share, after_ms) =
                    (between(rng, (0.1, 0.5)), scaled(rng, (300.0, 2000.0)).round());
                let (what, class) = (FaultKind::Error, Some(class));
                self.scenario.server.fault =
                    vec![Fault { from_s, to_s, what, share, class, after_ms }];
                changes.extend(self.when);
                let percent = 100.0 * share;
                let what = format!("{percent:.0} % of basic fail after {after_ms:.0} ms");
                self.words.push(format!("{what}, {from_s:.0} to {to_s:.0} s"));
            }
            Event::Leaving => {
                self.scenario.server.notices_cancel = rng.bool();
                let basic = self.scenario.population.iter().find(|it| it.class == self.last);
                let patience_ms = basic.expect("there is one").patience_ms;
                self.words.push(format!("basic's clients leave after {patience_ms:.0} ms"));
            }
            Event::Gateways => {
                let many = 2 + rng.usize(0..self.family.of(2, 4));
                let mut gateway = || Gateway {
                    weight: between(rng, (1.0, 3.0)),
                    clock_s: between(rng, (0.0, 0.03)),
                    ..Gateway::default()
                };
                self.scenario.gateway = (0..many).map(|_| gateway()).collect();
                self.words.push(format!("{many} gateways"));
            }
            _ => {}
        }
    }
}

fn server_in_words(kind: Kind, origin: &Origin) -> String {
    let shape = &origin.shape;
    let mut words = Vec::new();
    words.extend(shape.workers.map(|workers| format!("{workers} workers")));
    words.extend(shape.cores.map(|cores| format!("{cores} cores")));
    words.extend(shape.knee.map(|knee| format!("knee at {knee}, thrash {:.2}", shape.thrash)));
    words.extend(
        origin.few.map(|(size, held_ms)| format!("basic holds one of {size} for {held_ms:.0} ms")),
    );
    if shape.contention > 0.0 {
        words.push(format!("σ {:.3}, κ {:.4}", shape.contention, shape.coherence));
    }
    let times = [("waits", origin.wait_ms), ("computes", origin.cpu_ms)];
    let times =
        times.iter().filter(|(_, ms)| *ms > 0.0).map(|(what, ms)| format!("{what} {ms:.1} ms"));
    words.extend(times);
    format!("{} ({})", format!("{kind:?}").to_lowercase(), words.join(", "))
}

fn load_in_words(composition: &Composition, clients: &[Client], origin: &Origin) -> String {
    let of = |it: &Client| {
        let mean_ms = it.size * origin.mean_ms();
        format!("{} {:.2} of the capacity, {} {mean_ms:.0} ms", it.name, it.load, it.times.name())
    };
    let clients: Vec<String> = clients.iter().map(of).collect();
    format!("{} load: {}", format!("{:?}", composition.load).to_lowercase(), clients.join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::text::toml;
    use super::*;
    use std::collections::BTreeSet;

    const SEEDS: std::ops::Range<u64> = 1..201;

    fn all(family: Family) -> impl Iterator<Item = Drawn> {
        SEEDS.map(move |seed| draw(family, seed))
    }

    #[test]
    fn the_same_seed_gives_the_same_scenario_and_another_another() {
        for family in [Family::Open, Family::HeldOut] {
            let (one, again) = (draw(family, 7), draw(family, 7));
            assert_eq!((&one.scenario, &one.judged), (&again.scenario, &again.judged));
            let different: BTreeSet<String> = all(family).map(|it| it.scenario.about).collect();
            assert_eq!(different.len(), 200);
        }
        assert_ne!(draw(Family::Open, 7).scenario.server, draw(Family::HeldOut, 7).scenario.server);
    }

    #[test]
    fn every_scenario_is_valid_and_is_the_same_when_it_is_read_again() {
        for drawn in all(Family::Open).chain(all(Family::HeldOut)) {
            let text = toml(&drawn, None);
            let read = Scenario::parse(&text).unwrap_or_else(|fault| panic!("{fault:#}\n{text}"));
            assert_eq!(read, drawn.scenario, "{text}");
            assert_eq!(drawn.judged.len(), drawn.scenario.cuts_s.len());
            assert!(drawn.scenario.cuts_s.windows(2).all(|pair| pair[0] < pair[1]), "{text}");
            assert_eq!(drawn.sizes.len(), drawn.scenario.class.len());
            assert_eq!(drawn.scenario.class[0].name, "premium");
        }
    }

    #[test]
    fn no_pair_of_events_is_in_both_families() {
        let pairs = |family| -> BTreeSet<Vec<Event>> {
            let pairs = all(family).map(|it| it.composition.events);
            pairs.filter(|events| events.len() == 2).collect()
        };
        let servers = |family| -> BTreeSet<(Kind, Vec<Event>)> {
            all(family).map(|it| (it.composition.kind, it.composition.events)).collect()
        };
        let (open, held_out) = (pairs(Family::Open), pairs(Family::HeldOut));
        assert!(open.len() > 20 && held_out.len() > 30, "{} and {}", open.len(), held_out.len());
        assert!(open.is_disjoint(&held_out));
        assert!(servers(Family::Open).is_disjoint(&servers(Family::HeldOut)));
    }

    #[test]
    fn every_part_is_drawn() {
        let events: BTreeSet<Event> =
            Event::OF_CAPACITY.into_iter().chain(Event::OF_REQUESTS).collect();
        for (family, kinds, loads) in [(Family::Open, 6, 3), (Family::HeldOut, 7, 4)] {
            let drawn: Vec<Composition> = all(family).map(|it| it.composition).collect();
            let seen: BTreeSet<Event> = drawn.iter().flat_map(|it| it.events.clone()).collect();
            assert_eq!(seen, events);
            assert_eq!(drawn.iter().map(|it| it.kind).collect::<BTreeSet<_>>().len(), kinds);
            assert_eq!(drawn.iter().map(|it| it.load).collect::<BTreeSet<_>>().len(), loads);
        }
    }

    #[test]
    fn phases_are_cut_at_changes_and_when_the_server_has_settled() {
        let (cuts, judged) = phases(vec![57.0, 31.0, 31.0, 62.0]);
        assert_eq!(cuts, [15.0, 31.0, 41.0, 57.0, 62.0, 72.0]);
        let of = |regime, settled| Judged { regime, settled };
        let expected =
            [of(0, true), of(1, false), of(1, true), of(2, false), of(3, false), of(3, true)];
        assert_eq!(judged, expected);
    }
}
