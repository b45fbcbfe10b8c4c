//! What the demonstration does: the origin, the clients, the overload, the policy.

use crate::load::{Arrivals, Plan, Population, Step};
use crate::origin;
use std::net::SocketAddr;
use std::time::Duration;

/// Requests a second from the clients that matter: a fifth of the origin's capacity.
const PREMIUM_RATE: f64 = 80.0;
/// Mean time that the origin spends on a request.
const SERVICE: Duration = Duration::from_millis(40);
/// Requests that the origin serves at once. With `SERVICE`: 400 requests/s, so that ten times as
/// much is well within what two processors can send and refuse.
const WORKERS: usize = 16;
/// How long a client waits. People leave after seconds; the shorter, the shorter the demonstration.
const PATIENCE: Duration = Duration::from_secs(1);

/// Connections of a population: more than ten times the capacity for a whole patience, so that no
/// client ever waits for a connection of its own.
const CONNECTIONS_MAX: usize = 5000;

/// A load that lasts for a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    /// What tables call it.
    pub(super) name: &'static str,
    /// Requests a second of both populations, as a multiple of the origin's capacity.
    pub(super) load: f64,
}

impl Stage {
    /// Whether the origin is asked for more than it has.
    pub(super) fn overload(self) -> bool {
        self.load > 1.0
    }
}

/// Below capacity, near it, three and ten times beyond, and back.
pub(super) const STAGES: [Stage; 5] = [
    Stage { name: "calm", load: 0.45 },
    Stage { name: "busy", load: 0.9 },
    Stage { name: "3x", load: 3.0 },
    Stage { name: "10x", load: 10.0 },
    Stage { name: "calm again", load: 0.45 },
];

/// Names of the populations and of the classes, most important first.
pub(super) const CLASSES: [&str; 2] = ["premium", "basic"];

/// The origin's settings.
pub(super) fn origin(listen: SocketAddr) -> origin::Settings {
    origin::Settings {
        listen,
        workers: WORKERS,
        service: SERVICE,
        // Constant times make the workers of a full origin finish in step: all sixteen places come
        // free at once, every 40 ms, and whoever arrives in between waits for the next time,
        // however important. Servers of real work are not like that.
        dist: origin::Spread::Exponential,
        connections_max: 8192,
        ..origin::Settings::default()
    }
}

/// The clients' plan against `target`; the same one, request for request, for both passes.
pub(super) fn clients(target: SocketAddr, capacity: f64, stage_lasting: Duration) -> Plan {
    let steps = |rate: &dyn Fn(Stage) -> f64| -> Vec<Step> {
        STAGES.map(|stage| Step { rate: rate(stage), lasting: stage_lasting }).into()
    };
    let population = |name: &str, path: &str, steps: Vec<Step>| Population {
        name: name.into(),
        paths: vec![path.into()],
        steps,
        arrivals: Arrivals::Poisson,
        patience: PATIENCE,
        connections_max: CONNECTIONS_MAX,
        ..Population::default()
    };
    let premium = population("premium", "/checkout", steps(&|_| PREMIUM_RATE));
    let basic_rate = |stage: Stage| capacity * stage.load - PREMIUM_RATE;
    let basic = population("basic", "/browse", steps(&basic_rate));
    Plan { target, populations: vec![premium, basic], seed: 1 }
}

/// The policy: which requests matter, and nothing about how much the origin can take.
pub(super) const POLICY: &str = include_str!("../../demo.toml");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_offer_what_the_stages_say() {
        let address = "127.0.0.1:1".parse().unwrap();
        let capacity = origin(address).capacity();
        assert_eq!(capacity, 400.0);
        let plan = clients(address, capacity, Duration::from_secs(8));
        for (number, stage) in STAGES.iter().enumerate() {
            let sum: f64 = plan.populations.iter().map(|p| p.steps[number].rate).sum();
            assert!((sum - stage.load * capacity).abs() < 1e-9, "{}: {sum}", stage.name);
        }
        // Clients of the heaviest stage all wait for their whole patience.
        let most = plan.populations[1].steps.iter().map(|step| step.rate).fold(0.0, f64::max);
        assert!(CONNECTIONS_MAX as f64 > most * PATIENCE.as_secs_f64());
        // Two passes and a few seconds for starting must end within two minutes.
        assert!(plan.populations[0].lasting() * 2 < Duration::from_secs(90));
    }

    #[test]
    fn the_policy_has_no_capacity_and_nothing_left_to_fill_in() {
        let addresses = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let dir = std::path::Path::new("/scratch");
        let place = crate::contender::Place::new(dir, addresses, None);
        let policy = place.configuration(POLICY, dir).unwrap();
        assert!(!policy.contains('@'), "{policy}");
        let uncommented: Vec<&str> =
            policy.lines().map(|l| l.split('#').next().unwrap_or("")).collect();
        assert!(!uncommented.iter().any(|line| line.contains("slots")), "{policy}");
        for class in CLASSES {
            assert!(policy.contains(&format!("name = \"{class}\"")), "{policy}");
        }
    }
}
