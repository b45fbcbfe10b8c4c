//! The sensors of a configuration, and what is wrong with them.

use crate::config::meant::Sensor;
use anyhow::Result;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How a sensor is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Why it has no reading now; `None`: it has one, or will with the next.
    pub fault: Option<String>,
    /// Readings that failed, since the sensor was configured.
    pub failures: u64,
}

/// The sensors of a configuration.
#[derive(Debug)]
pub struct Sensors {
    settings: Vec<Sensor>,
    states: Mutex<Vec<State>>,
}

impl Sensors {
    /// Sensors of which nothing is known yet.
    pub fn new(settings: Vec<Sensor>) -> Self {
        let states = Mutex::new(vec![State::default(); settings.len()]);
        Sensors { settings, states }
    }

    /// What they are to measure.
    pub fn settings(&self) -> &[Sensor] {
        &self.settings
    }

    /// How each of them is, in the order of the policy.
    pub fn states(&self) -> Vec<State> {
        self.lock().clone()
    }

    /// A reading was taken (whether it is one), or it was not. Logs when a sensor fails, and when it is back.
    pub(super) fn took(&self, place: usize, taken: Result<bool>) {
        let mut states = self.lock();
        let (state, name) = (&mut states[place], &self.settings[place].name);
        match taken {
            Ok(true) => {
                if state.fault.take().is_some() {
                    tracing::info!("sensor {name}: measures again");
                }
            }
            Ok(false) => {}
            Err(fault) => {
                state.failures += 1;
                let fault = format!("{fault:#}");
                if state.fault.as_ref() != Some(&fault) {
                    tracing::warn!(
                        "sensor {name}: {fault}; it is tried again, and all else goes on"
                    );
                }
                state.fault = Some(fault);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
