//! Sensors: each measures one thing of this machine again and again, or asks others for it, and tells the gate
//! ([`Gate::observe`]).
//!
//! What servers report with their answers is noted on the request path (`reports`) and read here; another machine's sensors are read by
//! an agent there, which is asked (`remote`). A sensor that cannot read says why, once, in the log, and for as long as it lasts in status and metrics. Its last
//! reading holds for [`probe::LASTING`] periods and is stale from then on; what goes by it is to hold what it last set. Nothing else
//! depends on it: no request waits for a sensor, and each that reads a file does so on a thread that may block.
//!
//! [`Gate::observe`]: tiergate_core::gate::Gate::observe

pub(crate) mod answer;
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
pub(crate) mod remote;
mod reports;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use gauge::{Gauge, Process, listening_processes, machine_processors, times_ns};
pub(crate) use listen_queue::takes;
pub(crate) use process_tree::First;
pub use state::{Sensors, State};

use crate::clock;
use crate::config::meant::{Measure, Sensor};
use crate::origin::Work;
use crate::shared::Shared;
use crate::side_http::Addresses;
use anyhow::Result;
use probe::{LASTING, Probe, Roots};
use remote::Remote;
use reports::{Orca, Table};
use state::Took;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tiergate_core::names::PoolId;
use tiergate_core::sense::{Quantity, Reading, ReadingError};

/// A reading that takes longer is reported. It is waited for all the same: another one would wait as well.
const OVERDUE: Duration = Duration::from_secs(5);

/// What takes the readings of this machine; `None`: others take them.
fn probe(measure: &Measure, roots: &Roots) -> Option<Box<dyn Probe>> {
    Some(match measure {
        Measure::Cpu(of) => cpu::probe(of, roots),
        Measure::Pressure(stalled, of) => Box::new(pressure::Pressure::new(*stalled, of, roots)),
        Measure::Memory(of) => Box::new(memory::Memory::new(of, roots)),
        Measure::Paging => Box::new(memory::Paging::new(roots)),
        Measure::Disk(device) => Box::new(disk::Disk::new(device, roots)),
        Measure::Network { interface, capacity } => {
            Box::new(network::Network::new(interface, *capacity, roots))
        }
        Measure::ListenQueue(address) => Box::new(listen_queue::ListenQueue::new(*address, roots)),
        Measure::Orca(_) | Measure::Agent(_) => return None,
    })
}

/// Runs every sensor for as long as this is polled, and gives each reading to `tell`: the sensor's place, its value, and for how long
/// it holds. `work`: what the servers of a pool have to do now.
pub(crate) async fn run<W, T>(sensors: Arc<Sensors>, work: W, tell: T)
where
    W: Fn(PoolId) -> Work + Clone + Send + Sync + 'static,
    T: Fn(usize, Quantity, Duration) -> Result<()> + Clone + Send + 'static,
{
    let mut running = tokio::task::JoinSet::new();
    // One look-up at a time for each agent, however many sensors ask it.
    let mut agents: HashMap<String, Addresses> = HashMap::new();
    for place in 0..sensors.settings().len() {
        let (sensors, work, tell) = (sensors.clone(), work.clone(), tell.clone());
        let agent = match &sensors.settings()[place].measure {
            Measure::Agent(of) => {
                let known = agents.entry(of.address.clone());
                Some(known.or_insert_with_key(|address| Addresses::of(address)).clone())
            }
            _ => None,
        };
        running.spawn(async move {
            let sensor = &sensors.settings()[place];
            match (&sensor.measure, agent) {
                (Measure::Agent(of), Some(agent)) => {
                    let remote = Remote::new(of, &sensor.name, sensor.every, agent);
                    ask(remote, sensor, place, &sensors, tell).await;
                }
                _ => follow(sensor, place, &sensors, work, tell).await,
            }
        });
    }
    while running.join_next().await.is_some() {}
    std::future::pending().await
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks
}

/// Runs one sensor that asks an agent.
async fn ask(
    mut remote: Remote,
    sensor: &Sensor,
    place: usize,
    sensors: &Sensors,
    tell: impl Fn(usize, Quantity, Duration) -> Result<()>,
) {
    let mut ticks = ticks(sensor.every);
    loop {
        ticks.tick().await;
        let read = remote.take().await.and_then(|read| match read {
            Some((quantity, lasting)) => {
                let told = tell(place, quantity, lasting);
                told.inspect_err(|_| remote.forget()).map(|()| Took::New)
            }
            None => Ok(Took::Holds),
        });
        sensors.took(place, read);
    }
}

/// Runs one sensor that reads what is here.
async fn follow(
    sensor: &Sensor,
    place: usize,
    sensors: &Sensors,
    work: impl Fn(PoolId) -> Work + Clone + Send + Sync + 'static,
    tell: impl Fn(usize, Quantity, Duration) -> Result<()>,
) {
    let orca = |table: &Arc<Table>| -> Box<dyn Probe> {
        Box::new(Orca::new(&sensor.name, table.clone(), Box::new(work.clone())))
    };
    let anew = || match sensors.table(place) {
        Some(table) => Some(orca(table)),
        None => probe(&sensor.measure, &Roots::default()),
    };
    let mut probe = anew();
    let mut ticks = ticks(sensor.every);
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
                probe = anew();
                Err(fault.into())
            }
        };
        let read = read.and_then(|read| match read {
            Some(quantity) => tell(place, quantity, sensor.every * LASTING).map(|()| Took::New),
            None => Ok(Took::Nothing),
        });
        sensors.took(place, read);
    }
}

/// Tells the gate.
///
/// # Errors
/// If it does not take the reading.
pub(crate) fn tell(shared: &Shared, reading: Reading<'_>) -> Result<()> {
    let mut gate = shared.door.gate();
    let taken = gate.observe(clock::now(), reading);
    shared.door.wake(gate);
    if let Some(observed) = &*shared.observed.load() {
        observed.observe(reading);
    }
    let quantity = reading.quantity;
    taken.map_err(|error| match error {
        ReadingError::Impossible => {
            anyhow::anyhow!("{} as {} cannot be", quantity.value(), quantity.name())
        }
        ReadingError::Name => anyhow::anyhow!("its name cannot be that of a source"),
        ReadingError::TooManySources => anyhow::anyhow!("there are too many sources"),
    })
}
