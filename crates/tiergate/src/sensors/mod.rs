//! Sensors of this machine: each measures one thing again and again, and tells the gate
//! ([`Gate::observe`]).
//!
//! A sensor that cannot read says why, once, in the log, and for as long as it lasts in status and metrics. Its last
//! reading holds for [`LASTING`] periods and is stale from then on; what goes by it is to hold what it last set. Nothing else
//! depends on it: no request waits for a sensor, and each reads on a thread that may block.
//!
//! [`Gate::observe`]: tiergate_core::gate::Gate::observe

mod cgroup;
mod cpu;
mod disk;
mod gauge;
mod growth;
mod listen_queue;
mod memory;
mod network;
mod pressure;
mod probe;
mod process_tree;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use gauge::{Gauge, Process, listening_processes, machine_processors, times_ns};
pub(crate) use process_tree::First;
pub use state::{Sensors, State};

use crate::clock;
use crate::config::meant::{Measure, Sensor};
use crate::shared::Shared;
use anyhow::Result;
use probe::{Probe, Roots};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tiergate_core::sense::{Quantity, Reading, ReadingError};

/// A reading that takes longer is reported. It is waited for all the same: another one would wait as well.
const OVERDUE: Duration = Duration::from_secs(5);
/// A reading holds for so many periods of its sensor: one may be late, and one may fail.
const LASTING: u32 = 3;

/// What takes the readings of a sensor.
fn probe(measure: &Measure, roots: &Roots) -> Box<dyn Probe> {
    match measure {
        Measure::Cpu(of) => cpu::probe(of, roots),
        Measure::Pressure(stalled, of) => Box::new(pressure::Pressure::new(*stalled, of, roots)),
        Measure::Memory(of) => Box::new(memory::Memory::new(of, roots)),
        Measure::Paging => Box::new(memory::Paging::new(roots)),
        Measure::Disk(device) => Box::new(disk::Disk::new(device, roots)),
        Measure::Network { interface, capacity } => {
            Box::new(network::Network::new(interface, *capacity, roots))
        }
        Measure::ListenQueue(address) => Box::new(listen_queue::ListenQueue::new(*address, roots)),
    }
}

/// Runs every sensor for as long as this is polled.
pub(crate) async fn run(sensors: Arc<Sensors>, shared: Arc<Shared>) {
    let mut running = tokio::task::JoinSet::new();
    for (place, sensor) in sensors.settings().iter().cloned().enumerate() {
        let (sensors, shared) = (sensors.clone(), shared.clone());
        running.spawn(async move { follow(&sensor, place, &sensors, &shared).await });
    }
    while running.join_next().await.is_some() {}
    std::future::pending().await
}

/// Runs one sensor.
async fn follow(sensor: &Sensor, place: usize, sensors: &Sensors, shared: &Shared) {
    let mut probe = Some(probe(&sensor.measure, &Roots::default()));
    let mut ticks = tokio::time::interval(sensor.every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(mut taking) = probe.take() else { return };
        // Files of the kernel are read from memory, but some ask a driver.
        let mut taken = tokio::task::spawn_blocking(move || (taking.take(Instant::now()), taking));
        let taken = loop {
            match tokio::time::timeout(OVERDUE, &mut taken).await {
                Ok(taken) => break taken,
                Err(_) => sensors.took(place, Err(anyhow::anyhow!("no answer within {OVERDUE:?}"))),
            }
        };
        // A probe that panics is reported, and made anew.
        let read = match taken {
            Ok((read, back)) => {
                probe = Some(back);
                read
            }
            Err(fault) => {
                probe = Some(self::probe(&sensor.measure, &Roots::default()));
                Err(fault.into())
            }
        };
        let read = read.and_then(|read| match read {
            Some(quantity) => tell(sensor, quantity, shared).map(|()| true),
            None => Ok(false),
        });
        sensors.took(place, read);
    }
}

/// Tells the gate.
fn tell(sensor: &Sensor, quantity: Quantity, shared: &Shared) -> Result<()> {
    let reading = Reading { source: &sensor.name, quantity, lasting: sensor.every * LASTING };
    let mut gate = shared.door.gate();
    let taken = gate.observe(clock::now(), reading);
    shared.door.wake(gate);
    if let Some(observed) = &*shared.observed.load() {
        observed.observe(reading);
    }
    taken.map_err(|error| match error {
        ReadingError::Impossible => {
            anyhow::anyhow!("{} as {} cannot be", quantity.value(), quantity.name())
        }
        ReadingError::Name => anyhow::anyhow!("its name cannot be that of a source"),
        ReadingError::TooManySources => anyhow::anyhow!("there are too many sources"),
    })
}
