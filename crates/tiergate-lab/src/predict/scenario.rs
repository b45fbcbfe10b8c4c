//! What is predicted and then run: the origin, the clients, the policy; each number once.

use crate::contender::Place;
use crate::load::{Arrivals, Plan, Population, Step};
use crate::origin;
use anyhow::Result;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Mean time that the origin spends on a request, and requests that it serves at once: 160/s. Long
/// against what sockets and a busy machine add, which the simulator does not know.
const SERVICE_MS: u64 = 100;
const WORKERS: usize = 16;
/// How long a client waits: longer than any deadline, so that the policy decides.
const PATIENCE: Duration = Duration::from_secs(5);
const CONNECTIONS_MAX: usize = 5000;

/// The classes, most important first: each has its clients and its path.
pub(super) const CLASSES: [&str; 3] = ["premium", "basic", "bulk"];
/// Their requests a second: 1.6 times what the origin can do. Basic gets a part, bulk its minimum.
const RATES: [f64; 3] = [48.0, 136.0, 72.0];

/// The origin's settings.
pub(super) fn origin(listen: SocketAddr, seed: u64) -> origin::Settings {
    origin::Settings {
        listen,
        workers: WORKERS,
        service: Duration::from_millis(SERVICE_MS),
        dist: origin::Spread::Exponential,
        connections_max: 8192,
        seed,
        ..origin::Settings::default()
    }
}

/// The clients on real sockets.
pub(super) fn clients(target: SocketAddr, lasting: Duration, seed: u64) -> Plan {
    let population = |(class, rate): (&&str, f64)| Population {
        name: (*class).into(),
        paths: vec![format!("/{class}")],
        steps: vec![Step { rate, lasting }],
        arrivals: Arrivals::Poisson,
        patience: PATIENCE,
        connections_max: CONNECTIONS_MAX,
        ..Population::default()
    };
    Plan { target, populations: CLASSES.iter().zip(RATES).map(population).collect(), seed }
}

/// The same in virtual time.
pub(super) fn simulated(seconds: f64, seed: u64) -> String {
    let patience = PATIENCE.as_millis();
    let mut text = format!(
        "seconds = {seconds:?}\nseed = {seed}\n[server]\nworkers = {WORKERS}\n\
         wait = {{ kind = \"exponential\", mean_ms = {SERVICE_MS} }}\n"
    );
    for (class, rate) in CLASSES.iter().zip(RATES) {
        text += &format!(
            "[[population]]\narrivals = {{ kind = \"poisson\", rate = {rate:?} }}\n\
             patience_ms = {patience}\nclients = \"127.0.0.1\"\nrequest = [{{ path = \"/{class}\" }}]\n"
        );
    }
    text
}

/// The policy of both. The limit is fixed at what the origin has: what is compared is who gets it.
pub(super) fn policy(place: &Place<'_>, log: &Path) -> Result<String> {
    let values = [("LOG", log.display().to_string())];
    let place = Place { slots: WORKERS as u32, values: &values, ..*place };
    place.configuration(include_str!("../../predict.toml"), place.scratch)
}
