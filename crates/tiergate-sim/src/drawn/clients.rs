//! Classes and clients of a drawn scenario.

use super::chance::{between, one_of, scaled};
use super::parts::{Composition, Event, Family, Load};
use crate::client::{Arrivals, Population, Profile};
use crate::distribution::Distribution;
use crate::scenario::ClassShape;
use fastrand::Rng;

/// Most requests/s of a class, so that a run does not take long.
const RATE_MAX: f64 = 1500.0;
/// Fewest of the premium class: of fewer each one is too much of its share.
const PREMIUM_RATE_MIN: f64 = 5.0;

/// Who sends requests through the gateway.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) name: &'static str,
    /// Its work over that of a request of mean size.
    pub(super) size: f64,
    pub(super) times: Times,
    /// Its offered work over the server's capacity.
    pub(super) load: f64,
}

/// How service times are distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Times {
    Constant,
    Uniform,
    Exponential,
    Lognormal { cv: f64 },
    Bimodal { times: f64, share: f64 },
}

impl Times {
    fn draw(family: Family, rng: &mut Rng) -> Self {
        match rng.u32(0..4) {
            0 => family.of(Times::Uniform, Times::Constant),
            1 => Times::Exponential,
            2 => Times::Lognormal { cv: between(rng, family.of((0.3, 1.2), (1.2, 3.0))) },
            _ => Times::Bimodal {
                times: between(rng, family.of((4.0, 8.0), (10.0, 25.0))),
                share: between(rng, family.of((0.1, 0.3), (0.02, 0.1))),
            },
        }
    }

    /// With that mean.
    pub(super) fn of(self, mean_ms: f64) -> Distribution {
        match self {
            _ if mean_ms <= 0.0 => Distribution::NONE,
            Times::Constant => Distribution::Constant { mean_ms },
            Times::Uniform => {
                Distribution::Uniform { low_ms: 0.5 * mean_ms, high_ms: 1.5 * mean_ms }
            }
            Times::Exponential => Distribution::Exponential { mean_ms },
            Times::Lognormal { cv } => Distribution::Lognormal { mean_ms, cv },
            Times::Bimodal { times, share } => {
                let short_ms = mean_ms / (1.0 + share * (times - 1.0));
                Distribution::Bimodal { short_ms, long_ms: short_ms * times, long_share: share }
            }
        }
    }

    /// In words.
    pub(super) fn name(self) -> String {
        match self {
            Times::Constant => "constant".to_owned(),
            Times::Uniform => "uniform".to_owned(),
            Times::Exponential => "exponential".to_owned(),
            Times::Lognormal { cv } => format!("log-normal (cv {cv:.1})"),
            Times::Bimodal { times, share } => {
                format!("bimodal ({:.0} % take {times:.0} times as long)", 100.0 * share)
            }
        }
    }
}

/// Draws the classes, most important first. `rate`: the server's capacity in requests of mean size; `fits`: the part of it
/// that the most important class may take at the most.
pub(super) fn clients(
    family: Family,
    composition: &Composition,
    (rate, fits): (f64, f64),
    rng: &mut Rng,
) -> Vec<Client> {
    let all = between(rng, family.of((1.3, 2.5), (1.2, 4.0)));
    let size = between(rng, (0.6, 1.5));
    let drawn = between(rng, family.of((0.1, 0.3), (0.05, 0.4)));
    let premium = drawn.max(PREMIUM_RATE_MIN * size / rate).min(fits);
    let first = Client { name: "premium", size, times: Times::draw(family, rng), load: premium };
    let middle = if composition.classes > 2 { between(rng, (0.3, 0.6)) } else { 0.0 };
    let mut clients = vec![first];
    for (name, part) in [("standard", middle), ("basic", 1.0 - middle)] {
        let load = (all - premium) * part;
        let size = scaled(rng, family.of((0.5, 2.0), (0.25, 5.0)));
        let size = size.max(load * rate / RATE_MAX);
        let times = Times::draw(family, rng);
        if load > 0.0 {
            clients.push(Client { name, size, times, load });
        }
    }
    clients
}

/// What a class is told to the gateway by. `longest_ms`: what the largest request takes on average.
pub(super) fn class(client: &Client, longest_ms: f64, pause_ms: f64, rng: &mut Rng) -> ClassShape {
    let deadline_ms = match client.name {
        // Long enough for slots to come free where there are few.
        "premium" => {
            (20.0 * longest_ms).clamp(300.0, 2000.0) * between(rng, (0.8, 1.5)) + 2.0 * pause_ms
        }
        _ => scaled(rng, (300.0, 3000.0)),
    };
    ClassShape {
        name: client.name.to_owned(),
        deadline_ms: deadline_ms.round(),
        minimum: 0.0,
        queue_len_max: 10_000,
        refuse_at: Vec::new(),
        target_p99_ms: None,
        resource: None,
        background: false,
    }
}

/// Its clients. `when`: the two moments at which something may happen, and the end; `mean_ms`: what one of its requests takes.
pub(super) fn population(
    family: Family,
    composition: &Composition,
    client: &Client,
    (rate, deadline_ms, mean_ms): (f64, f64, f64),
    when: [f64; 3],
    rng: &mut Rng,
) -> Population {
    let rate = client.load * rate / client.size;
    if client.name == "premium" {
        // Now and then it doubles.
        let doubles = family == Family::HeldOut && rng.u32(0..3) == 0;
        let rate = match doubles {
            true => Profile::Points {
                points: vec![[0.0, rate / 2.0], [when[0] + 5.0, rate]],
                ramp: false,
            },
            false => Profile::Flat(rate),
        };
        let patience_ms = (deadline_ms * between(rng, (1.5, 3.0)) + 20.0 * mean_ms).round();
        return Population::of(client.name, Arrivals::Poisson { rate }, patience_ms);
    }
    let patience_ms = scaled(rng, (1500.0, 8000.0)).max(8.0 * mean_ms).round();
    let mut population =
        Population::of(client.name, arrivals(composition.load, rate, when, rng), patience_ms);
    if composition.load == Load::Retries {
        population.retries = 1 + rng.u32(0..3);
        population.retry_after_ms = scaled(rng, (200.0, 2000.0)).round();
    }
    if composition.events.contains(&Event::Leaving) && client.name == "basic" {
        // Of requests that all take the same time none would be answered.
        let least = if client.times == Times::Constant { 1.2 } else { 0.8 };
        let times = between(rng, family.of((1.0, 2.5), (least, 2.0)));
        population.patience_ms = (mean_ms * times).max(2.0);
    }
    population
}

fn arrivals(load: Load, rate: f64, [first, _, end]: [f64; 3], rng: &mut Rng) -> Arrivals {
    let points = match load {
        Load::Steady => return Arrivals::Poisson { rate: Profile::Flat(rate) },
        // Each of them comes several times.
        Load::Retries => return Arrivals::Poisson { rate: Profile::Flat(rate / 1.5) },
        Load::Users => {
            let mean_ms = scaled(rng, (200.0, 2000.0));
            // One who is refused waits for another second.
            let users = (rate * (mean_ms / 1e3 + 0.8)).ceil().max(1.0) as u32;
            return Arrivals::Closed { users, think: Distribution::Exponential { mean_ms } };
        }
        Load::Bursts => {
            let every_s = between(rng, (3.0, 15.0));
            let high = between(rng, (1.3, 1.8));
            let points = 0..(end / every_s).ceil() as u32;
            let factor = |number: u32| if number.is_multiple_of(2) { high } else { 2.0 - high };
            points.map(|number| [f64::from(number) * every_s, rate * factor(number)]).collect()
        }
        Load::Ramp => vec![[0.0, rate * 0.5], [end, rate * 1.5]],
        Load::Flash => {
            let from = first + one_of(rng, &[-12.0, 3.0, 10.0]);
            let to = from + between(rng, (6.0, 15.0));
            let times = between(rng, (2.0, 3.0));
            vec![[0.0, rate * 0.6], [from, rate * times], [to, rate * 0.6]]
        }
    };
    let ramp = load == Load::Ramp;
    Arrivals::Poisson { rate: Profile::Points { points, ramp } }
}
