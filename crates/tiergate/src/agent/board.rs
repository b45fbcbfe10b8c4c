//! The latest reading of each sensor.

use crate::config::meant::Sensor;
use crate::sensors::answer::{AgentAnswer, AgentReading};
use crate::sensors::{Sensors, State};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tiergate_core::sense::Quantity;

/// The latest reading of each sensor. The sensors write it, requests read it; the lock is held to copy a number.
#[derive(Debug)]
pub(crate) struct Board {
    /// Which run of the agent this is.
    agent: String,
    sensors: Arc<Sensors>,
    latest: Mutex<Vec<Latest>>,
}

/// A sensor's latest reading.
#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    value: f64,
    at: Option<Instant>,
    /// Counts the readings.
    sequence: u64,
}

impl Board {
    /// For these sensors, none of which has read anything.
    pub(crate) fn new(sensors: Arc<Sensors>) -> Self {
        let agent = format!("{:016x}", fastrand::u64(..));
        let latest = Mutex::new(vec![Latest::default(); sensors.settings().len()]);
        Board { agent, sensors, latest }
    }

    /// The sensor at that place has read this.
    pub(crate) fn take(&self, place: usize, quantity: Quantity, at: Instant) {
        let mut latest = self.lock();
        let sequence = latest[place].sequence + 1;
        latest[place] = Latest { value: quantity.value(), at: Some(at), sequence };
    }

    /// What there is at this moment.
    pub(crate) fn answer(&self, now: Instant) -> AgentAnswer {
        let latest = self.lock().clone();
        let states = self.sensors.states();
        let reading = |((sensor, latest), state): ((&Sensor, Latest), State)| AgentReading {
            sensor: sensor.name.clone(),
            measures: sensor.words(),
            quantity: sensor.measure.unit().name().to_owned(),
            value: latest.at.map(|_| latest.value),
            sequence: latest.sequence,
            age_seconds: latest.at.map(|at| now.saturating_duration_since(at).as_secs_f64()),
            every_seconds: sensor.every.as_secs_f64(),
            fault: state.fault,
        };
        let sensors = self.sensors.settings().iter().zip(latest).zip(states);
        AgentAnswer { agent: self.agent.clone(), readings: sensors.map(reading).collect() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Latest>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
